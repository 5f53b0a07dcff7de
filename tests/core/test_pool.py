"""The pool of compiled work: the same results whatever threads, forks, signals and other processes do."""

import os
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import anydml as dml
from anydml.moves import Access, Move

pool = pytest.importorskip("anydml.core.pool", reason="nothing is compiled here")
program = pytest.importorskip("anydml.core.program")
Compiled, run_moves = program.Compiled, program.run_moves

SOON = 600
"""Seconds: on a busy machine little happens in a minute."""

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
has_threads = pytest.mark.skipif(sys.platform == "win32", reason="callers work alone")


@pytest.fixture(autouse=True)
def as_before():
    before = dml.get_num_threads()
    yield
    dml.set_num_threads(before)


class Reversal:
    """Bytes, reversed from one array into another."""

    def __init__(self, count=3_000_001):
        self.x = np.random.default_rng(count).integers(0, 256, count, np.uint8)
        self.y = np.zeros(count, np.uint8)
        self.run = Compiled([Move((count,), Access(1, 0, (1,)), Access(0, count - 1, (-1,)), 1)], 2).bind(
            [self.x, self.y]
        )

    def is_done(self):
        self.y[:] = 0
        self.run()
        return np.array_equal(self.y, self.x[::-1])


def eventually(holds):
    end = time.monotonic() + SOON
    while not (held := holds()) and time.monotonic() < end:
        time.sleep(0.001)
    return held


@has_threads
@pytest.mark.parametrize("threads", [1, 2, 3, 9])
def test_any_number_of_threads_gives_the_same_result(threads):
    work = Reversal()
    dml.set_num_threads(threads)
    assert pool.threads() == threads
    assert all(work.is_done() for _ in range(20))
    assert eventually(lambda: work.is_done() and pool.workers() == threads - 1)


@has_threads
def test_fewer_threads_end_those_that_are_left_over():
    work = Reversal()
    dml.set_num_threads(6)
    assert work.is_done()
    assert eventually(lambda: pool.workers() == 5), "those of the test before this one have ended"
    # Nobody runs anything: they were asleep, or are about to be.
    dml.set_num_threads(2)
    assert eventually(lambda: pool.workers() == 1)
    dml.set_num_threads(1)
    assert eventually(lambda: pool.workers() == 0)
    assert work.is_done()


@has_threads
def test_workers_sleep_and_are_woken_for_what_is_worth_it():
    large, small = Reversal(20_000_000), Reversal(200_000)
    dml.set_num_threads(4)
    assert large.is_done()

    def left_asleep():
        # A worker that was woken before may be counted until it runs.
        time.sleep(0.01)
        before = pool.sleepers()
        return small.is_done() and before == pool.sleepers() == 3

    for _ in range(3):
        assert eventually(left_asleep), "they were woken for little"
        assert large.is_done()

    def woken():
        large.run()
        return pool.sleepers() < 3

    assert eventually(woken)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no such call")
@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="there is one core")
def test_workers_that_could_not_come_are_woken_again_once_they_can():
    work, cores = Reversal(220_000), os.sched_getaffinity(0)
    dml.set_num_threads(1)
    assert eventually(lambda: work.is_done() and pool.workers() == 0)
    dml.set_num_threads(2)
    others = {*os.listdir("/proc/self/task")}
    assert eventually(lambda: work.is_done() and pool.workers() == 1)
    worker = int(({*os.listdir("/proc/self/task")} - others).pop())

    def sleeps():
        with open(f"/proc/self/task/{worker}/status") as file:
            return int(next(line.split()[1] for line in file if line.startswith("voluntary")))

    try:
        # On the caller's core it is of no use.
        os.sched_setaffinity(0, {min(cores)})
        os.sched_setaffinity(worker, {min(cores)})
        for _ in range(50):
            time.sleep(0.001)
            assert work.is_done()
    finally:
        os.sched_setaffinity(0, cores)
        os.sched_setaffinity(worker, cores)
    assert eventually(lambda: pool.sleepers() == 1)
    time.sleep(0.01)
    before = sleeps()
    assert eventually(lambda: work.is_done() and sleeps() > before), "it was never woken again"


def test_several_threads_at_once():
    works = [Reversal(count) for count in (150_000, 400_000, 1_000_000, 2_500_000)]
    results, going = [], threading.Event()

    def call(work):
        results.append(all(work.is_done() for _ in range(100)))

    def change():
        numbers = np.random.default_rng(1).integers(1, 6, 100_000)
        for number in numbers:
            if going.is_set():
                return
            dml.set_num_threads(int(number))
            time.sleep(0.0005)

    others = [threading.Thread(target=call, args=(work,)) for work in works]
    changing = threading.Thread(target=change)
    for thread in (*others, changing):
        thread.start()
    for thread in others:
        thread.join(SOON)
    going.set()
    changing.join(SOON)
    assert results == [True] * len(works)


def test_busy_cores():
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        work = Reversal()
        dml.set_num_threads(3)
        assert all(work.is_done() for _ in range(50))
    finally:
        for process in busy:
            process.kill()
            process.wait()


def test_numbers_of_threads_that_there_are_not():
    before = pool.threads()
    for number in (0, -1, 1025):
        with pytest.raises(ValueError, match="1 to 1024"):
            dml.set_num_threads(number)
    assert pool.threads() == before


def in_process(script, **options):
    """What a script of its own prints."""
    head = """
        import os, signal, sys, threading, time
        import numpy as np
        import anydml as dml
        from anydml.core import pool
        from anydml.core.program import Compiled, run_moves
        from anydml.moves import Access, Move
        def reversal(count):
            return Move((count,), Access(1, 0, (1,)), Access(0, count - 1, (-1,)), 1)
        def is_done(count):
            x, y = np.arange(count).astype(np.uint8), np.zeros(count, np.uint8)
            run_moves([reversal(count)], [x, y])
            return bool((y == x[::-1]).all())
        dml.set_num_threads(3)
    """
    script = textwrap.dedent(head) + textwrap.dedent(script)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-X", "faulthandler", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SOON, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@needs_fork
def test_a_fork_starts_anew():
    printed = in_process("""
        assert is_done(1_000_000)
        child = os.fork()
        if not child:
            before = pool.workers()
            print(is_done(1_000_000), before, pool.workers(), pool.threads(), flush=True)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(is_done(1_000_000), pool.workers())
    """)
    assert printed == ["True", "0", "2", "3", "True", "2"]


@needs_fork
def test_forks_amid_work():
    printed = in_process("""
        over = threading.Event()
        def work():
            while not over.is_set():
                assert is_done(500_000)
        others = [threading.Thread(target=work) for _ in range(2)]
        for other in others:
            other.start()
        for _ in range(30):
            child = os.fork()
            if not child:
                os._exit(0 if is_done(700_000) else 1)
            assert os.waitpid(child, 0)[1] == 0
        over.set()
        for other in others:
            other.join()
        print("well")
    """)
    assert printed == ["well"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="alarms are for POSIX")
def test_an_interruption_ends_long_work_and_leaves_nothing_under_way():
    printed = in_process("""
        class Alarm(Exception): pass
        def ring(number, frame): raise Alarm
        signal.signal(signal.SIGALRM, ring)
        count = 200_000_000
        x, y = np.ones(count, np.uint8), np.zeros(count, np.uint8)
        run = Compiled([reversal(count)] * 50, 2).bind([x, y])
        for _ in range(5):
            y[:] = 0
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.02)
                run()
                raise SystemExit("it was not interrupted")
            except Alarm:
                pass
            seen = int(y.sum(dtype=np.int64))
            time.sleep(0.01)
            assert seen == int(y.sum(dtype=np.int64)), "somebody is still writing"
            assert is_done(1_000_000)
        print("well")
    """)
    assert printed == ["well"]


def test_a_process_ends_while_workers_sleep_and_while_they_work():
    assert in_process("assert is_done(1_000_000); print('well')") == ["well"]
    printed = in_process("""
        def work():
            while True:
                is_done(1_000_000)
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.1)
        print('well', flush=True)
    """)
    assert printed == ["well"]


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are the system's own")
def test_a_system_that_gives_few_threads():
    printed = in_process("""
        import resource
        pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
        x, y = np.arange(3_000_000), np.zeros(3_000_000, int)
        run = Compiled([Move((x.size,), Access(1, 0, (8,)), Access(0, x.nbytes - 8, (-8,)), 8)], 2).bind([x, y])
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (pages + x.nbytes * 2 + (64 << 20), before[1]))
        dml.set_num_threads(1000)
        run()
        resource.setrlimit(resource.RLIMIT_AS, before)
        print((y == x[::-1]).all(), is_done(2_000_000), pool.threads() < 1000, pool.workers() == pool.threads() - 1)
    """)
    assert printed == ["True"] * 4


def test_short_work_is_not_shared():
    printed = in_process("""
        assert all(is_done(count) for count in range(1, 60_000, 997))
        print(pool.workers())
    """)
    assert printed == ["0"]


def test_moves_that_depend_on_each_other_stay_in_order():
    x, y, z = np.arange(1 << 20, dtype=np.int32), np.zeros(1 << 20, np.int32), np.zeros(1 << 20, np.int32)
    size = x.nbytes
    turned = Move((1 << 20,), Access(1, 0, (4,)), Access(0, size - 4, (-4,)), 4)
    back = Move((1 << 20,), Access(2, 0, (4,)), Access(1, size - 4, (-4,)), 4)
    over = Move((), Access(1, 0, ()), Access(2, 0, ()), size)
    for _ in range(20):
        run_moves([turned, back, over], [x, y, z])
        assert np.array_equal(y, x)
        assert np.array_equal(z, x)
