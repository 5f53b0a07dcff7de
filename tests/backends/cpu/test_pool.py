"""The pool of threads: how many, whose work, and what happens when it is busy."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import anydml as dml
from anydml.backends.cpu import engine
from anydml.backends.cpu.pool import POOL, available_cores


@pytest.fixture
def shared_work(monkeypatch):
    """Work that is shared although it is small; the number of threads is put back."""
    monkeypatch.setattr(engine, "SHARED_BYTES", 0)
    before = dml.get_num_threads()
    yield
    dml.set_num_threads(before)


def dispatch_split():
    x = np.arange(3 * 300_000, dtype=np.float32).reshape(-1, 3)
    parts = [np.zeros((300_000, 1), np.float32) for _ in range(3)]
    whole = dml.TensorDesc(dml.DataType.FLOAT32, x.shape)
    desc = dml.SplitOperatorDesc(whole, [dml.TensorDesc(dml.DataType.FLOAT32, p.shape) for p in parts], 1)
    dml.Device("cpu").compile_operator(desc).bind(inputs=[x], outputs=parts).dispatch()
    assert np.array_equal(np.concatenate(parts, 1), x)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
def test_any_number_of_threads_gives_the_same_result(shared_work, threads):
    dml.set_num_threads(threads)
    assert dml.get_num_threads() == threads
    dispatch_split()
    assert len(POOL._workers) == threads - 1


def test_fewer_threads_end_those_that_are_left_over(shared_work):
    dml.set_num_threads(4)
    dispatch_split()
    names = {thread.name for thread in threading.enumerate() if thread.name.startswith("anydml-")}
    assert names >= {"anydml-1", "anydml-2", "anydml-3"}
    dml.set_num_threads(2)
    assert len(POOL._workers) == 1
    dispatch_split()


def test_a_busy_pool_makes_nobody_wait(shared_work):
    dml.set_num_threads(2)
    with POOL._lock:
        dispatch_split()


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


def test_a_system_without_threads_is_no_obstacle(shared_work, monkeypatch):
    dml.set_num_threads(1)
    dml.set_num_threads(5)

    def refuse(number):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("anydml.backends.cpu.pool._Worker", refuse)
    dispatch_split()
    assert dml.get_num_threads() == 1


def test_an_interruption_while_waiting_leaves_the_pool_in_order(shared_work, monkeypatch):
    dml.set_num_threads(3)
    dispatch_split()

    def interrupted(worker):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("anydml.backends.cpu.pool._Worker.join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            dispatch_split()
    assert not POOL._lock.locked()
    for _ in range(3):
        dispatch_split()


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
