"""Workers stay off their caller's core, and keep to the cores that they were given."""

import os
import sys
import threading
import time

import numpy as np
import pytest

from anydml.backends.cpu.placement import Placement, current_core
from anydml.backends.cpu.pool import ALL, Pool

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells where a thread runs")

TABLE = np.zeros(1, np.uint64)


@pytest.fixture
def sleeper():
    """The number of a thread that does nothing, and the cores that it may use."""
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    yield thread.native_id, os.sched_getaffinity(thread.native_id)
    done.set()
    thread.join()


def test_the_current_core_is_the_one_that_a_thread_is_tied_to():
    def look():
        for core in sorted(os.sched_getaffinity(0)):
            os.sched_setaffinity(0, {core})
            seen.append((core, current_core()))

    seen = []
    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert seen
    assert all(tied == current for tied, current in seen)


def test_one_core_after_the_other_is_avoided_and_given_back(sleeper):
    number, allowed = sleeper
    placement = Placement(number)
    for core in [*sorted(allowed), min(allowed)]:
        placement.avoid(core)
        assert os.sched_getaffinity(number) == (allowed - {core} or allowed)
    placement.avoid(-1)
    assert os.sched_getaffinity(number) == allowed


def test_what_others_allow_later_counts(sleeper):
    number, allowed = sleeper
    placement = Placement(number)
    first, last = min(allowed), max(allowed)
    placement.avoid(first)
    os.sched_setaffinity(number, {first})
    for core in (last, first, -1):
        placement.avoid(core)
        assert os.sched_getaffinity(number) == {first}


def test_a_thread_that_has_ended_is_nobodys_problem():
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()
    Placement(thread.native_id).avoid(current_core())


@pytest.fixture
def pool():
    """A pool of two threads, and the cores that its worker may use."""
    pool = Pool()
    pool.threads = 2
    pool.run(lambda *_: 0, TABLE)
    (worker,) = pool._workers
    yield pool, os.sched_getaffinity(0)
    worker.start(None)


def tied(core, call):
    """Call it on a thread that is tied to a core."""

    def run():
        os.sched_setaffinity(0, {core})
        call()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def test_a_worker_starts_off_its_callers_core(pool):
    pool, allowed = pool
    for core in sorted(allowed):
        started, seen = threading.Event(), []

        def kernel(table, counter, chunks, started=started, seen=seen):
            if chunks == ALL:
                seen.append(os.sched_getaffinity(0))
                started.set()
            else:
                assert started.wait(60)
            return 0

        tied(core, lambda kernel=kernel: pool.run(kernel, TABLE))
        assert seen == [allowed - {core} or allowed]


def test_a_late_worker_may_go_on_on_its_callers_core(pool):
    pool, allowed = pool
    seen = []

    def kernel(table, counter, chunks):
        if chunks == ALL:
            for _ in range(60_000):
                if (now := os.sched_getaffinity(0)) == allowed:
                    break
                time.sleep(0.001)
            seen.append(now)
        return 0

    for core in sorted(allowed):
        tied(core, lambda: pool.run(kernel, TABLE))
    assert seen == [allowed] * len(allowed)
