"""The pool of threads: how many, whose work, and what happens when it is busy."""

import ctypes
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from meeting import met
from waits import imitation

import anydml as dml
from anydml.engines.cpu import block, engine
from anydml.engines.cpu import crew as crews
from anydml.engines.cpu import pool as pools
from anydml.engines.cpu.block import (
    ALIVE,
    JOB,
    KERNEL,
    OPEN,
    OWNER,
    SLEEPERS,
    SPINS,
    STATE,
    WAKING_BYTES,
    WANTED,
    YIELD,
)
from anydml.engines.cpu.crew import Crew
from anydml.engines.cpu.plan import plan
from anydml.engines.cpu.pool import Pool, available_cores
from anydml.engines.cpu.waiting import BY_FUTEX, BY_VALUE, BY_VALUE_ADDRESS, find_waiting
from anydml.memory.host import address_of
from anydml.moves import Access, Move

SOON = 600
"""Seconds: on a busy machine little happens in a minute."""


@pytest.fixture(params=["compiled", "python", "as on Windows", "as on macOS"])
def pool(request, monkeypatch):
    """A pool of its own that everybody uses, whose workers sleep in one way or another; small work is shared."""
    if request.param.startswith("as on"):
        if find_waiting().style != BY_FUTEX:
            pytest.skip("other systems' functions are made from Linux's")
        imitated = imitation(BY_VALUE_ADDRESS if request.param == "as on Windows" else BY_VALUE)
        monkeypatch.setattr(block, "find_waiting", lambda: imitated)
    pool = Pool(in_python=request.param == "python")
    monkeypatch.setattr(engine, "POOL", pool)
    monkeypatch.setattr(pools, "POOL", pool)
    monkeypatch.setattr(engine, "SHARED_BYTES", 0)
    yield pool
    pool.end()
    assert pool.workers == 0


def eventually(holds):
    """Whether it soon holds."""
    end = time.monotonic() + SOON
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(0.001)
    return held


def dispatch_split():
    x = np.arange(3 * 300_000, dtype=np.float32).reshape(-1, 3)
    parts = [np.zeros((300_000, 1), np.float32) for _ in range(3)]
    whole = dml.TensorDesc(dml.DataType.FLOAT32, x.shape)
    desc = dml.SplitOperatorDesc(whole, [dml.TensorDesc(dml.DataType.FLOAT32, p.shape) for p in parts], 1)
    dml.Device("cpu").compile_operator(desc).bind(inputs=[x], outputs=parts).dispatch()
    assert np.array_equal(np.concatenate(parts, 1), x)


def dispatch_until(pool, workers):
    """Dispatch until there are so many workers."""

    def dispatch():
        dispatch_split()
        return pool.workers == workers

    assert eventually(dispatch)


def working_threads():
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("anydml-")}


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_any_number_of_threads_gives_the_same_result(pool, threads):
    dml.set_num_threads(threads)
    assert dml.get_num_threads() == threads
    dispatch_until(pool, threads - 1)
    for _ in range(20):
        dispatch_split()
    assert pool.workers == threads - 1


def test_fewer_threads_end_those_that_are_left_over(pool):
    dml.set_num_threads(4)
    dispatch_until(pool, 3)
    assert working_threads() >= {"anydml-1", "anydml-2", "anydml-3"}
    crew = tuple(pool._crew.workers)
    assert sum(worker.is_alive() for worker in crew) == 3
    dml.set_num_threads(2)
    # Nobody dispatches: they were asleep, or are about to be. Other pools' threads have the same names.
    assert eventually(lambda: pool.workers == 1 and sum(worker.is_alive() for worker in crew) == 1)
    dispatch_split()


def test_every_worker_serves(pool):
    dml.set_num_threads(3)
    dispatch_until(pool, 2)
    for _ in range(20):
        assert met(pool, 3, SOON)


def test_a_worker_that_is_rung_for_before_work_is_there_lets_its_caller_publish_it():
    from anydml.engines.cpu.kernels.sharing import WAKES

    pool = Pool(in_python=True)
    words, events = pool._crew.words, []

    def publish():
        events.append("yielded")
        if len(events) == 3:
            words[STATE] += JOB | OPEN

    def kernel(table, counter, rounds):
        events.append("worked")
        words[STATE] -= OPEN
        return 0

    yielding = ctypes.CFUNCTYPE(None)(publish)
    working = ctypes.CFUNCTYPE(ctypes.c_uint64, *[ctypes.c_uint64] * 3)(kernel)
    words[YIELD], words[KERNEL] = (ctypes.cast(each, ctypes.c_void_p).value for each in (yielding, working))
    words[WANTED] = words[ALIVE] = words[SLEEPERS] = 1
    assert pool.prepare().serve(pool._crew.address, WAKES) == 1
    assert events == ["yielded"] * 3 + ["worked"]
    assert words[SLEEPERS] == 1


def test_workers_that_sleep_are_woken(pool):
    dml.set_num_threads(5)
    dispatch_until(pool, 4)
    words = pool._crew.words
    looks = words[SPINS]
    for _ in range(3):
        words[SPINS] = looks
        assert eventually(lambda: words[SLEEPERS] == 4)
        # Who wakes now stays awake.
        words[SPINS] = 1 << 60
        assert eventually(lambda: dispatch_split() or not words[SLEEPERS])


def test_small_work_wakes_nobody_unless_more_follows_soon():
    if find_waiting().style != BY_FUTEX:
        pytest.skip("only Linux's clock is asked")
    pool = Pool()
    pool.resize(2)
    words = pool._crew.words
    x, y = np.ones(256 << 10, np.uint8), np.zeros(256 << 10, np.uint8)
    (step,) = plan([Move((), Access(0, 0, ()), Access(1, 0, ()), x.size)], x.size)
    known = step.load(), step.table([address_of(y), address_of(x)]), (x, y), step.claim_bytes
    dispatch, heavy = pool.bind(*known, step.effort), pool.bind(*known, WAKING_BYTES)
    dispatch()

    def sleeps_on():
        # One that is counted may be about to sleep only, and sees what comes until it does.
        assert eventually(lambda: words[SLEEPERS] == 1)
        time.sleep(0.01)
        for _ in range(3):
            dispatch()
        return words[SLEEPERS] == 1

    try:
        assert eventually(sleeps_on), "a worker was woken for work that came alone, or in a short burst"
        for pause in (0.01, *[0.00005] * 50):
            time.sleep(pause)
            dispatch()
            # Between calls so far from each other a worker would fall asleep again, to be woken for each.
            assert words[SLEEPERS] == 1, "a worker was woken for work that came alone"
        assert eventually(lambda: heavy() or not words[SLEEPERS]), "nobody was woken for work that takes long"
        half = pool.bind(*known, WAKING_BYTES // 2)

        def woken(call, calls):
            for _ in range(calls):
                call()
            return not words[SLEEPERS]

        for call, calls in ((half, 2), (dispatch, 100)):
            words[SPINS] = 1
            assert eventually(lambda: words[SLEEPERS] == 1)
            half()
            assert words[SLEEPERS] == 1, "a worker was woken for the first half of what is worth it"
            time.sleep(0.01)
            # Who wakes stays awake.
            words[SPINS] = 1 << 60
            assert eventually(lambda call=call, calls=calls: woken(call, calls))
        assert np.array_equal(x, y)
    finally:
        words[SPINS] = 1
        pool.end()


def test_a_busy_pool_makes_nobody_wait(pool):
    dml.set_num_threads(2)
    pool._crew.words[OWNER] = 1
    state = pool._crew.words[STATE]
    dispatch_split()
    assert pool._crew.words[STATE] == state, "it was shared although somebody else's work was"
    pool._crew.words[OWNER] = 0


@pytest.mark.parametrize("threads", [0, -1, 1025])
def test_too_few_and_too_many_threads_are_refused(threads):
    with pytest.raises(ValueError, match=f"{threads} threads; there is at least the caller, and at most 1024"):
        dml.set_num_threads(threads)


@pytest.mark.parametrize("threads", [1.5, "2", None])
def test_threads_are_counted_in_integers(threads):
    before = dml.get_num_threads()
    with pytest.raises(TypeError):
        dml.set_num_threads(threads)
    assert dml.get_num_threads() == before


def refuse(*_, **__):
    raise RuntimeError("can't start new thread")


def test_a_system_without_threads_is_no_obstacle(pool, monkeypatch):
    dml.set_num_threads(5)
    monkeypatch.setattr(crews._thread, "start_new_thread", refuse)
    dispatch_split()
    assert dml.get_num_threads() == 1


def test_a_system_with_few_threads_gives_those_that_it_has(pool, monkeypatch):
    dml.set_num_threads(5)
    start = threading.Thread.start

    def start_two(thread):
        return start(thread) if thread.name < "anydml-3" else refuse()

    monkeypatch.setattr(threading.Thread, "start", start_two)
    dispatch_until(pool, 2)
    assert eventually(lambda: dml.get_num_threads() == 3)


def test_workers_that_do_not_serve_yet_are_not_given_up(pool, monkeypatch):
    refusals = []
    serve = threading.Event()
    start, work = threading.Thread.start, Crew._work

    def start_two(thread):
        if thread.name < "anydml-3":
            return start(thread)
        refusals.append(thread)
        return refuse()

    def work_later(*given):
        assert serve.wait(SOON)
        work(*given)

    monkeypatch.setattr(threading.Thread, "start", start_two)
    monkeypatch.setattr(Crew, "_work", work_later)
    dml.set_num_threads(5)
    dispatch_split()
    assert eventually(lambda: refusals)
    dml.set_num_threads(6)
    dispatch_split()
    assert eventually(lambda: len(refusals) == 2 and dml.get_num_threads() < 6)
    serve.set()
    dispatch_until(pool, 2)
    assert dml.get_num_threads() == 3


def test_a_worker_that_dies_is_replaced(pool, monkeypatch):
    dml.set_num_threads(2)

    died = threading.Event()

    def die(*_):
        died.set()

    with monkeypatch.context() as patch:
        patch.setattr(Crew, "_work", die)
        dispatch_split()
        assert died.wait(SOON)
    assert pool.workers == 0
    dispatch_until(pool, 1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_that_dies_asleep_is_replaced(monkeypatch):
    pool = Pool(in_python=True)
    monkeypatch.setattr(engine, "POOL", pool)
    monkeypatch.setattr(engine, "SHARED_BYTES", 0)
    pool.resize(2)

    class Broken:
        def get(self):
            raise MemoryError

        def qsize(self):
            return 1

    bell, pool._crew.bell = pool._crew.bell, Broken()
    # It may be gone before anybody sees that it was there.
    assert eventually(lambda: dispatch_split() or pool._crew.workers)
    assert eventually(lambda: pool.workers == 0)
    assert pool._crew.words[SLEEPERS] == 0
    pool._crew.bell = bell
    dispatch_until(pool, 1)
    pool.end()


def test_nobody_starts_after_the_end(pool):
    pool.end()
    pool.resize(3)
    dispatch_split()
    assert pool._crew.words[ALIVE] == 0


@pytest.mark.parametrize("kind", ["INT32", "INT64", "UINT32", "UINT64"])
def test_one_small_lookup_dispatched_by_many_threads(kind):
    x, out = np.arange(2000, dtype=np.float32), np.zeros(2000, np.float32)
    indices = (1999 - np.arange(2000) if kind[0] == "U" else -1 - np.arange(2000)).astype(kind.lower())
    tensors = [dml.TensorDesc(kind, (2000,)) for kind in ("FLOAT32", kind, "FLOAT32")]
    desc = dml.GatherOperatorDesc(*tensors, axis=0, index_dimensions=1)
    bound = dml.Device("cpu").compile_operator(desc).bind(inputs=[x, indices], outputs=[out])
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(100):
            threads = [threading.Thread(target=lambda: [bound.dispatch() for _ in range(5)]) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert np.array_equal(out, x[::-1])
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize("text, threads", [("3", 3), (" 1 ", 1), ("0", None), ("many", None), ("²", None), ("", None)])
def test_the_environment_says_how_many(text, threads):
    script = "import anydml; print(anydml.get_num_threads())"
    environment = {**os.environ, "ANYDML_NUM_THREADS": text}
    result = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert int(result.stdout) == (threads or available_cores())
    assert ("no number of threads" in result.stderr) == (threads is None and text != "")
