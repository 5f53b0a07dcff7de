"""Workers that sleep keep off their caller's core, and keep to the cores that they were given."""

import os
import sys
import threading
import time

import numpy as np
import pytest

from anydml.engines.cpu.block import CORE, MOVED_TO, SLEEPERS, SPINS
from anydml.engines.cpu.kernels.rows import rows_kernel
from anydml.engines.cpu.plan import plan
from anydml.engines.cpu.pool import Pool
from anydml.memory.host import address_of
from anydml.moves import Access, Move

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells where a thread runs")

SOON = 600
"""Seconds: on a busy machine little happens in half a minute."""


@pytest.fixture
def crew():
    """A pool of two threads that has worked, and what dispatches with it."""
    pool = Pool()
    pool.resize(2)
    x = np.arange(1 << 20, dtype=np.uint8)
    y = np.zeros_like(x)
    (step,) = plan([Move((), Access(0, 0, ()), Access(1, 0, ()), x.size)], x.size)
    dispatch = pool.bind(rows_kernel(), step.table([address_of(y), address_of(x)]), (x, y))
    dispatch()
    while not pool.workers:
        time.sleep(0.001)
    yield pool, dispatch
    pool.end()


def tied(core, call):
    """Call it on a thread that is tied to a core."""

    def run():
        os.sched_setaffinity(0, {core})
        call()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def asleep(pool):
    """The cores that the worker may be woken on, once it sleeps."""
    (worker,) = [worker for worker in pool._crew.workers if worker.is_alive()]
    end = time.monotonic() + SOON
    while not pool._crew.words[SLEEPERS] and time.monotonic() < end:
        time.sleep(0.001)
    # It counts as a sleeper a moment before it says where it may run.
    time.sleep(0.05)
    return worker.native_id, os.sched_getaffinity(worker.native_id)


def settled(number, expected):
    """The cores that a thread may run on, once they are what is expected."""
    end = time.monotonic() + SOON
    while (cores := os.sched_getaffinity(number)) != expected and time.monotonic() < end:
        time.sleep(0.001)
    return cores


def test_a_worker_sleeps_off_its_callers_core(crew):
    pool, dispatch = crew
    allowed = os.sched_getaffinity(0)
    for core in [*sorted(allowed), min(allowed)]:
        tied(core, dispatch)
        assert pool._crew.words[CORE] == core + 1
        number, _ = asleep(pool)
        expected = allowed - {core} or allowed
        assert settled(number, expected) == expected


def test_a_worker_that_is_awake_may_run_everywhere(crew):
    pool, dispatch = crew
    allowed = os.sched_getaffinity(0)
    tied(min(allowed), dispatch)
    number, _ = asleep(pool)
    # Never asleep again.
    pool._crew.words[SPINS] = 1 << 60
    end = time.monotonic() + SOON
    while os.sched_getaffinity(number) != allowed and time.monotonic() < end:
        dispatch()
    assert os.sched_getaffinity(number) == allowed
    pool._crew.words[SPINS] = 1


@pytest.mark.skipif(len(os.sched_getaffinity(0)) != 2, reason="of more than two cores, several are left to it")
def test_a_caller_that_was_moved_to_the_workers_core_lets_it_have_the_other(crew):
    pool, dispatch = crew
    first, second = sorted(os.sched_getaffinity(0))
    for here, there in (first, second), (second, first):
        tied(here, dispatch)
        number, _ = asleep(pool)
        assert settled(number, {there}) == {there}
        tied(there, dispatch)
        assert pool._crew.words[MOVED_TO] == 1 << here
        assert settled(number, {here}) == {here}
    pool._crew.words[SPINS] = 1 << 60
    tied(first, dispatch)
    assert settled(number, {first, second}) == {first, second}
    pool._crew.words[SPINS] = 1


def test_what_others_allow_counts(crew):
    pool, dispatch = crew
    allowed = sorted(os.sched_getaffinity(0))
    tied(allowed[0], dispatch)
    number, _ = asleep(pool)
    for core in (allowed[0], allowed[-1]):
        os.sched_setaffinity(number, {core})
        for caller in (allowed[-1], allowed[0]):
            tied(caller, lambda: [dispatch() for _ in range(100)])
            assert asleep(pool) == (number, {core})
