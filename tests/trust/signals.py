"""Signals that raise over shared dispatches: python -m trust.signals [--seconds N] [--seed S] [--busy].

An alarm goes off every 0.7 ms or so and raises wherever the main thread is. After each one nobody may write any more,
and at the end every thread must still serve. With ``--busy`` other threads change the number of threads, fork, and
fuse meanwhile. It prints "well" and what it saw at its end.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import os
import random
import signal
import sys
import threading
import time

import numpy as np

import anydml as dml
from anydml.core import pool

PERIOD = 0.0007
HANG = 300
COLUMNS = 16


class Alarm(Exception):
    """What the handler raises."""


class Work:
    """A bound reversal that is shared, and what it should give."""

    def __init__(self, rng: random.Random) -> None:
        size = rng.choice([300_000, 1_000_000, 3_000_000])
        self.x = np.random.default_rng(rng.getrandbits(32)).integers(0, 1 << 31, size).astype(np.int32)
        self.out = np.zeros_like(self.x)
        tensor = dml.TensorDesc("INT32", self.x.shape)
        operator = dml.Device().compile_operator(dml.Slice1OperatorDesc(tensor, tensor, [0], [size], [-1]))
        self.bound = operator.bind([self.x], [self.out])

    def is_whole(self) -> bool:
        return bool((self.out == self.x[::-1]).all())


def checksum(work: Work) -> int:
    """A number that grows with whatever is written: it is positive, and there is 0 before."""
    return int(work.out.view(np.uint64).sum())


def dispatch_until(work: Work, end: float) -> None:
    """Dispatch again and again; not in the ``try`` itself, whose handlers CPython 3.13 skips at a loop's jump back."""
    while time.monotonic() < end:
        work.bound.dispatch()


def interrupted_at(work: Work, seconds: float) -> bool:
    """Dispatch until an alarm raises, and whether it did before its time was long over."""
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        dispatch_until(work, time.monotonic() + HANG)
    except Alarm:
        return True
    finally:
        # Another alarm cannot follow: the timer is not repeated.
        signal.setitimer(signal.ITIMER_REAL, 0)
    return False


def raise_alarm(*_: object) -> None:
    raise Alarm


def change_threads(stop: threading.Event, rng: random.Random) -> None:
    while not stop.wait(rng.uniform(0, 0.002)):
        dml.set_num_threads(rng.randint(1, 5))


def fork(stop: threading.Event, rng: random.Random) -> None:
    while not stop.wait(rng.uniform(0, 0.2)):
        child = os.fork()
        if not child:
            # A child that hangs is ended; faulthandler's own watchdog does not survive a fork.
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(HANG)
            work = Work(random.Random(1))
            for _ in range(3):
                work.bound.dispatch()
            os._exit(0 if work.is_whole() else 1)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            raise AssertionError("a child did not end well")


def fuse_columns(stop: threading.Event, rng: random.Random) -> None:
    """Patterns that nobody has seen, one after the other: each is a program of its own."""
    for period in range(5, 1 << 30):
        if stop.wait(rng.uniform(0, 0.2)):
            return
        columns = 5 + period % COLUMNS
        first = 1 + period // COLUMNS % (columns - 1)
        x = np.arange(columns * 30_000, dtype=np.uint8).reshape(-1, columns)
        apart = dml.fuse(lambda x, first=first: np.split(x, [first], 1))
        for part, wanted in zip(apart(x), np.split(x, [first], 1), strict=True):
            assert (part == wanted).all()


def storm(seconds: float, seed: int, others: bool) -> dict[str, int]:
    """Interrupt dispatches for a while, longer where the machine is too busy for many interrupts in that time.

    Returns:
        How many were interrupted, and what went wrong: late writes, interrupts that were lost.
    """
    rng = random.Random(seed)
    works = [Work(rng) for _ in range(3)]
    signal.signal(signal.SIGALRM, raise_alarm)
    stop, failures = threading.Event(), []

    def run(work, number):
        try:
            work(stop, random.Random(seed + number))
        except BaseException as error:
            failures.append(error)

    chores = (change_threads, fork, fuse_columns) if others else ()
    threads = [threading.Thread(target=run, args=(work, n), daemon=True) for n, work in enumerate(chores, 1)]
    for thread in threads:
        thread.start()
    seen = {"interrupts": 0, "late writes": 0, "lost": 0}
    # Others that are at work leave little time.
    least = seconds * (1 if others else 10)
    end = time.monotonic() + seconds
    while time.monotonic() < end or seen["interrupts"] <= least:
        faulthandler.dump_traceback_later(HANG, exit=True)
        work = rng.choice(works)
        work.out[...] = 0
        # Now and then the pool is caught while workers sleep, or while they are started.
        if rng.random() < 0.05:
            time.sleep(0.003)
        if rng.random() < 0.05:
            dml.set_num_threads(rng.randint(1, 4))
        interrupted = False
        with contextlib.suppress(Alarm):
            interrupted = interrupted_at(work, PERIOD * rng.uniform(0.2, 1.8))
        seen["interrupts" if interrupted else "lost"] += 1
        before = checksum(work)
        if rng.random() < 0.1:
            time.sleep(0.001)
        seen["late writes"] += checksum(work) != before
    stop.set()
    for thread in threads:
        thread.join(HANG)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]
    for work in works:
        work.bound.dispatch()
        assert work.is_whole()
    return seen


def served(threads: int) -> bool:
    """Whether so many threads work together before long."""
    dml.set_num_threads(threads)
    end = time.monotonic() + HANG
    work = Work(random.Random(0))
    work.bound.dispatch()
    while pool.workers() != threads - 1 and time.monotonic() < end:
        work.bound.dispatch()
    return pool.workers() == threads - 1 and work.is_whole()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--busy", action="store_true", help="others change threads, fork and fuse")
    given = parser.parse_args()
    dml.set_num_threads(4)
    seen = storm(given.seconds, given.seed, given.busy)
    faulthandler.dump_traceback_later(2 * HANG, exit=True)
    whole = served(4)
    print({**seen, "all serve": whole}, file=sys.stderr)
    assert whole, "a thread was lost"
    assert seen["late writes"] == seen["lost"] == 0
    print("well")


if __name__ == "__main__":
    main()
