"""Many at once, each scenario in a process of its own: python -m trust.many SCENARIO. It prints "well" at its end."""

from __future__ import annotations

import dataclasses
import math
import multiprocessing
import os
import signal
import sys
import threading
import time

import numpy as np

import anydml as dml

THREADS = 16


def together(work) -> None:
    """Call `work(number)` in 16 threads that begin at one moment; an error of any is raised."""
    errors = []
    start = threading.Barrier(THREADS)

    def run(number):
        start.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def threads() -> None:
    """The same and different operators, and a fused function, at once; results are looked at byte for byte."""
    # Imported here, because children of the other scenarios would spend most of their time on it.
    from fuzz.check import check
    from fuzz.draw import Seeded
    from fuzz.forced import CPU_WAYS
    from fuzz.generate import random_case

    dml.set_num_threads(4)
    # Distinct cases, and as many that everybody runs.
    as_found = dataclasses.replace(CPU_WAYS[0], kernels="as found")
    same = [random_case(Seeded(number), [as_found]) for number in range(6)]
    own = [random_case(Seeded(100 + number), [as_found]) for number in range(THREADS)]
    x = np.arange(600_000, dtype=np.uint32).reshape(-1, 3)
    planes = [np.zeros((200_000, 1), np.uint32) for _ in range(3)]
    tensor, plane = dml.TensorDesc("UINT32", x.shape), dml.TensorDesc("UINT32", (200_000, 1))
    traced, arrays = [], [np.arange(k * 700, dtype=np.uint16).reshape(700, k) for k in range(1, 5)]

    def halves(array):
        traced.append(array.shape)
        return np.concatenate([array[350:], array[:350]]), array[:, ::-1].T

    fused = dml.fuse(halves)

    def work(number):
        compiled = dml.Device().compile_operator(dml.SplitOperatorDesc(tensor, [plane] * 3, 1))
        mine = [np.zeros_like(p) for p in planes]
        bound = compiled.bind([x], mine)
        for turn in range(int(os.environ.get("ANYDML_TURNS", "3"))):
            bound.dispatch()
            for k, result in enumerate(mine):
                assert (result[:, 0] == x[:, k]).all()
                result[...] = 0
            for array in arrays:
                swapped, turned = fused(array)
                assert (swapped == np.roll(array, 350, 0)).all()
                assert (turned == array[:, ::-1].T).all()
                outs = np.zeros_like(swapped), np.zeros(array.shape, array.dtype)[:, ::-1].T
                assert fused(array, out=outs) is outs
                assert (outs[0] == swapped).all()
                assert (outs[1] == turned).all()
            for case in (own[number], *same[turn % 2 :: 2]):
                check(case)

    together(work)
    assert len(traced) == 1, "traced more than once"
    bound = dml.Device().compile_operator(dml.SplitOperatorDesc(tensor, [plane] * 3, 1)).bind([x], planes)
    together(lambda number: [bound.dispatch() for _ in range(20)])
    assert all((p[:, 0] == x[:, k]).all() for k, p in enumerate(planes))


def threads_come_and_go() -> None:
    """The number of threads changes while others dispatch."""
    dml.set_num_threads(4)
    x = np.arange(200_000, dtype=np.uint16)

    def work(number):
        for turn in range(60):
            dml.set_num_threads(1 + (number + turn) % 5)
            assert (dml.slice1(x, [0], x.shape, [-1]) == x[::-1]).all()

    together(work)


def _reversed_in_child(size: int) -> bool:
    x = np.arange(size)
    return bool((dml.slice1(x, [0], [size], [-1]) == x[::-1]).all())


def fork() -> None:
    """Children go on after a fork, also one that happens while other threads dispatch."""
    dml.set_num_threads(4)
    x = np.arange(400_000)
    stop = threading.Event()

    def work():
        while not stop.is_set():
            dml.slice1(x, [0], x.shape, [-1])

    busy = [threading.Thread(target=work) for _ in range(3)]
    for thread in busy:
        thread.start()
    for _ in range(10):
        assert _reversed_in_child(300_000)
        child = os.fork()
        if not child:
            os._exit(0 if all(_reversed_in_child(300_000) for _ in range(3)) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    stop.set()
    for thread in busy:
        thread.join()


def _fused(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x[::-1], x]).T


def _work_in_child(seed: int) -> bool:
    """Functions, a fused one and a bound operator, on arrays that came from another process."""
    x = np.random.default_rng(seed).integers(0, 99, (300, 7)).astype("f4")
    tensor, out = dml.TensorDesc("FLOAT32", x.shape), np.zeros_like(x)
    desc = dml.Slice1OperatorDesc(tensor, tensor, [0, 0], x.shape, [-1, 1])
    dml.Device().compile_operator(desc).bind([x], [out]).dispatch()
    return bool((out == x[::-1]).all() and (dml.fuse(_fused)(x) == _fused(x)).all() and _reversed_in_child(300_000))


def _in_pools(method: str) -> None:
    """Processes of a pool do the same work, while threads of this one are at theirs; functions are pickled."""
    dml.set_num_threads(4)
    x, stop = np.arange(400_000), threading.Event()

    def work() -> None:
        while not stop.is_set():
            dml.slice1(x, [0], x.shape, [-1])

    busy = [threading.Thread(target=work) for _ in range(3)]
    for thread in busy:
        thread.start()
    try:
        for _ in range(2):
            with multiprocessing.get_context(method).Pool(2) as pool:
                assert all(pool.map(_work_in_child, range(6)))
                rows = [np.arange(k, k + 12.0).reshape(3, 4) for k in range(5)]
                for found, row in zip(pool.map(dml.copy, rows), rows, strict=True):
                    assert (found == row).all()
    finally:
        stop.set()
        for thread in busy:
            thread.join()


def spawn() -> None:
    """Processes that begin anew."""
    _in_pools("spawn")


def forkserver() -> None:
    """Processes that a server forks, which had begun anew."""
    _in_pools("forkserver")


def interrupt() -> None:
    """An interrupt ends a dispatch long before its end; the next one is whole."""
    # By a clock of this process's own work: however busy the machine is, it comes in the middle.
    signal.signal(signal.SIGPROF, signal.default_int_handler)
    # A transposition of single bytes: slow, and nothing of it fits a cache.
    size = 12288
    x = np.broadcast_to(np.arange(1, 252, dtype=np.uint8)[:, None].repeat(size // 64, 1).ravel()[:size], (size, size))
    x = np.ascontiguousarray(x).T
    out = np.zeros((size, size), np.uint8)
    for threads in (1, 3):
        dml.set_num_threads(threads)
        whole = math.inf
        for attempt in range(20):
            out[...] = 0
            started = time.process_time()
            # The first time it is only measured; where others slowed that down, the interrupt came too late once.
            signal.setitimer(signal.ITIMER_PROF, whole / 4 if attempt else 0)
            try:
                dml.join([x], out=out)
                signal.setitimer(signal.ITIMER_PROF, 0)
            except KeyboardInterrupt:
                if not out.all():
                    break
            whole = min(whole, time.process_time() - started)
        else:
            raise AssertionError("the interrupt was lost, or came when all was done")
        # What is written is not 0.
        written = np.count_nonzero(out)
        time.sleep(0.05)
        assert np.count_nonzero(out) == written, "somebody still writes"
        dml.join([x[:2000]], out=out[:2000])
        assert (out[:2000] == x[:2000]).all()
    assert _reversed_in_child(300_000)


if __name__ == "__main__":
    {f.__name__: f for f in (threads, threads_come_and_go, fork, spawn, forkserver, interrupt)}[sys.argv[1]]()
    print("well")
