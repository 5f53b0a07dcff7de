"""Larger calls in compiled code: with and without workers, between signals, after forks, beside other threads."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu import launch, pool
from anydml.engines.cpu.block import ALIVE
from anydml.engines.cpu.loader import LOADER
from anydml.engines.cpu.pool import POOL
from anydml.memory.numpy_struct import IS_KNOWN

OWN = os.path.dirname(launch.__file__)
ROWS = 2048
SOON = 60


@pytest.fixture(autouse=True)
def threads(own_plans):
    if not IS_KNOWN:
        pytest.skip("nobody knows where NumPy's arrays keep what they are")
    before = dml.get_num_threads()
    dml.set_num_threads(2)
    yield
    dml.set_num_threads(before)


def source():
    return np.arange(ROWS * 1024, dtype=np.int32).reshape(ROWS, 1024)


def until_compiled(call, monkeypatch):
    """Call until Python has no part in it any more."""
    starts = []
    real = launch._large

    def counted(*arguments):
        start = real(*arguments)

        def count(operands):
            starts.append(operands)
            return start(operands)

        return count

    monkeypatch.setattr(launch, "_large", counted)
    end = time.monotonic() + SOON
    while time.monotonic() < end:
        for _ in range(20):
            call()
        LOADER.settle(SOON)
        seen = len(starts)
        # The plan's step may be there, and its workers not yet.
        call()
        if POOL._crew.words[ALIVE] == 1 and len(starts) == seen and _is_whole(call):
            return starts
    raise AssertionError("Python does it still")


def _is_whole(call):
    """Whether nothing of the engine's Python runs in a call."""
    seen = []
    sys.setprofile(lambda frame, event, _: seen.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return not [name for name in seen if name.startswith(OWN)]


CALLS = {
    "split": (lambda x, out=None: dml.split(x, 2, 1, out=out), lambda x: np.split(x, 2, 1)),
    "permute": (lambda x, out=None: dml.copy(x.T, out=out), lambda x: [np.ascontiguousarray(x.T)]),
    "gather": (lambda x, out=None: dml.gather(x, np.arange(ROWS)[::-1].copy(), out=out), lambda x: [x[::-1]]),
    "join": (lambda x, out=None: dml.join([x, x], 0, out=out), lambda x: [np.concatenate([x, x])]),
}


def listed(results):
    return results if isinstance(results, list) else [results]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("has_out", [False, True])
def test_results_are_numpys_for_any_number_of_threads(name, has_out, monkeypatch):
    x = source()
    function, by_numpy = CALLS[name]
    expected = [np.ascontiguousarray(each) for each in by_numpy(x)]
    targets = [np.zeros_like(each) for each in expected]
    out = None if not has_out else targets if name == "split" else targets[0]
    until_compiled(lambda: function(x, out=out), monkeypatch)
    for count in (1, 2, 3):
        dml.set_num_threads(count)
        for _ in range(5):
            for target in targets:
                target.fill(-1)
            for result, right in zip(listed(function(x, out=out)), expected, strict=True):
                assert np.array_equal(result, right)


def test_what_does_not_fit_is_refused_as_before(monkeypatch):
    x = source()
    out = np.zeros((1024, ROWS), np.int32)
    until_compiled(lambda: dml.copy(x.T, out=out), monkeypatch)
    before = x.copy()
    with pytest.raises(dml.BindingError):
        dml.copy(x.T, out=x.reshape(1024, ROWS))
    out.flags.writeable = False
    with pytest.raises(dml.BindingError):
        dml.copy(x.T, out=out)
    assert np.array_equal(x, before)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no timers")
def test_a_signal_comes_between_rounds(monkeypatch):
    monkeypatch.setattr(pool, "ROUND_BYTES", 1 << 16)
    x = source()
    out = np.zeros((1024, ROWS), np.int32)
    starts = until_compiled(lambda: dml.copy(x.T, out=out), monkeypatch)
    seen = len(starts)

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    cut_short, end = 0, time.monotonic() + SOON
    try:
        while cut_short < 3 and time.monotonic() < end:
            with pytest.raises(KeyboardInterrupt):
                signal.setitimer(signal.ITIMER_REAL, 0.002)
                while True:
                    out.fill(-1)
                    dml.copy(x.T, out=out)
            signal.setitimer(signal.ITIMER_REAL, 0)
            done = out == x.T
            assert (done | (out == -1)).all()
            cut_short += 0 < done.sum() < done.size
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert cut_short == 3, "no call ended between its rounds"
    assert len(starts) == seen
    assert np.array_equal(dml.copy(x.T, out=out), x.T)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_has_workers_of_its_own(monkeypatch):
    x = source()
    until_compiled(lambda: dml.copy(x.T), monkeypatch)
    child = os.fork()
    if not child:
        is_right = all(np.array_equal(dml.copy(x.T), x.T) for _ in range(20))
        os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_other_threads_call_and_count_meanwhile(monkeypatch):
    x = source()
    until_compiled(lambda: dml.copy(x.T), monkeypatch)
    wrong = []

    def work(number):
        own = x + number
        wrong.extend(number for _ in range(30) if not np.array_equal(dml.copy(own.T), own.T))

    workers = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


@pytest.mark.parametrize("count", [1, 2, 3])
def test_bound_work_is_done_in_compiled_code_too(count):
    x = source()
    out = np.zeros((1024, ROWS), np.int32)
    kind = dml.TensorDesc(dml.DataType.INT32, x.T.shape, tuple(stride // 4 for stride in x.T.strides))
    desc = dml.ElementWiseIdentityOperatorDesc(kind, dml.TensorDesc(dml.DataType.INT32, out.shape))
    bound = dml.Device("cpu").compile_operator(desc).bind(inputs=[x.reshape(-1)], outputs=[out])
    dml.set_num_threads(count)
    end = time.monotonic() + SOON
    while True:
        out.fill(-1)
        bound.dispatch()
        assert np.array_equal(out, x.T)
        if POOL._crew.words[ALIVE] == count - 1 and _is_whole(bound.dispatch):
            break
        assert time.monotonic() < end, "Python does it still"
    x += 1
    assert bound.dispatch() is None
    assert np.array_equal(out, x.T)
    out.flags.writeable = False
    with pytest.raises(dml.BindingError):
        bound.dispatch()
