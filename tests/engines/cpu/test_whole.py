"""Calls that compiled code finds and does wholly: the same results and errors, and no reference lost or kept."""

import gc
import sys
import threading
import weakref

import numpy as np
import pytest

import anydml as dml
from anydml.engines.cpu import whole_calls
from anydml.engines.cpu.kernels import whole
from anydml.engines.cpu.loader import LOADER
from anydml.functions.steps import NAMESPACES, PLANS, nobody
from anydml.memory import numpy_struct

pytestmark = [
    pytest.mark.usefixtures("own_plans"),
    pytest.mark.skipif(not numpy_struct.IS_KNOWN, reason="another Python keeps arrays elsewhere"),
]

SMALL, LARGE = (6, 10, 4), (64, 100, 16)
"""Shapes whose work is done under the GIL, and beside it."""


def made(shape):
    return np.random.default_rng(0).random(shape, np.float32)


def found(call, name):
    """Call until compiled code does it; what it does it by."""
    for _ in range(40):
        call()
    assert LOADER.settle(120)
    for _ in range(4):
        call()
    namespace = getattr(dml, name).__globals__
    assert any(namespace in each for each in NAMESPACES.values())
    return namespace


CALLS = {
    "split": (lambda x, out: dml.split(x, 2, 1, out=out), lambda x: np.split(x, 2, 1)),
    "join": (lambda x, out: dml.join([x, x], 1, out=out), lambda x: np.concatenate([x, x], 1)),
    "slice1": (
        lambda x, out: dml.slice1(x, (1, 0, 0), (*x[1:].shape[:2], 2), (1, -1, 1), out=out),
        lambda x: x[1:, ::-1, :2],
    ),
    "gather": (lambda x, out: dml.gather(x, ORDER, 0, out=out), lambda x: x[ORDER]),
    "copy": (lambda x, out: dml.copy(x.T, out=out), lambda x: x.T.copy()),
}
ORDER = np.array([1, 0, 5])


def as_list(result):
    return result if isinstance(result, list) else [result]


@pytest.mark.parametrize("shape", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("with_out", [False, True], ids=["new", "out"])
@pytest.mark.parametrize("name", CALLS)
def test_the_whole_call_is_compiled_and_keeps_no_reference(name, with_out, shape, monkeypatch):
    call, expected = CALLS[name]
    x = made(shape)
    want = as_list(expected(x))
    outs = [np.zeros_like(each, order="C") for each in want] if with_out else None
    out = None if outs is None else outs if name == "split" else outs[0]
    namespace = found(lambda: call(x, out), name)
    # Nobody else is asked.
    monkeypatch.setitem(namespace, "call", None)
    monkeypatch.setattr(PLANS, "steps", {})
    held = [x, ORDER, *(outs or [])]
    before, none = [sys.getrefcount(each) for each in held], sys.getrefcount(None)
    for _ in range(300):
        result = call(x, out)
    if with_out:
        assert result is out or all(map(lambda one, other: one is other, result, out))
    for got, each in zip(as_list(result), want, strict=True):
        assert got.tobytes() == each.tobytes()
        assert got.shape == each.shape
        assert got.dtype == each.dtype
        assert with_out or got.flags.c_contiguous
    del result, got
    assert [sys.getrefcount(each) for each in held] == before
    assert abs(sys.getrefcount(None) - none) < 100
    fresh = None if with_out else weakref.ref(as_list(call(x, out))[0])
    assert fresh is None or fresh() is None, "a result dies with its last reference"


def refusals(x):
    frozen = np.zeros((6, 5, 4), np.float32)
    frozen.flags.writeable = False
    good = np.zeros((6, 5, 4), np.float32)
    yield lambda: dml.split(x, 2, 1, out=[good, frozen])
    yield lambda: dml.split(x, 2, 1, out=[good, good])
    yield lambda: dml.split(x, 2, 1, out=[x[:, :5], good])
    yield lambda: dml.split(x, 2, 1, out=[good])
    yield lambda: dml.split(x, 2, 1, out=[good, None])
    yield lambda: dml.split(x, 2, 1, out=7)
    yield lambda: dml.split(x, 2.0, 1)
    yield lambda: dml.split(x, 2, 1.0)
    yield lambda: dml.split(x, [5, 5.0], 1)
    yield lambda: dml.split(x, 2, 7)
    yield lambda: dml.split(x, (5, 6), 1)
    yield lambda: dml.split(x, (5, 5, 0, 1 << 70), 1)
    yield lambda: dml.split(None, 2, 1)
    yield lambda: dml.split([], 2, 1)
    yield lambda: dml.split([None], 2, 1)
    yield lambda: dml.join([], 1)
    yield lambda: dml.join([x, None], 1)
    yield lambda: dml.join([x, x[:3]], 1)
    yield lambda: dml.join([x, x], "1")
    yield lambda: dml.join([x, x], 1, out=x)
    yield lambda: dml.gather(x, ORDER.astype(float), 0)
    yield lambda: dml.gather(x, [1, 2], 0)


def said(call):
    try:
        return [each.tobytes() for each in as_list(call())]
    except Exception as error:
        return type(error), str(error)


def test_what_does_not_fit_is_refused_as_before():
    x = made(SMALL)
    before = [*map(said, refusals(x))]
    outs = [np.zeros((6, 5, 4), np.float32) for _ in range(2)]
    for name, call in (
        ("split", lambda: dml.split(x, 2, 1)),
        ("split", lambda: dml.split(x, (5, 5), 1)),
        ("split", lambda: dml.split(x, 2, 1, out=outs)),
        ("join", lambda: dml.join([x, x], 1)),
        ("join", lambda: dml.join([x, x], 1, out=np.zeros((6, 20, 4), np.float32))),
        ("gather", lambda: dml.gather(x, ORDER, 0)),
    ):
        assert found(call, name)["whole"] is not nobody
    kept = sys.getrefcount(x)
    assert [*map(said, refusals(x))] == before
    gc.collect()
    assert sys.getrefcount(x) == kept


@pytest.mark.parametrize("number", [1, 255, 256, 257, (1 << 30) - 1, 1 << 30, 1 << 31, (1 << 60) + 3])
def test_numbers_of_any_size_are_told_apart(number):
    # Python keeps small integers once; large ones have several digits.
    x = np.arange(2, dtype=np.uint8)

    def call(stride):
        return dml.slice1(x, (0,), (2,), (stride,))

    others = (int(str(number)), number + 1, number + (1 << 30), -number, True, float(number))
    before = [said(lambda each=each: call(each)) for each in others]
    found(lambda: call(number), "slice1")
    assert [said(lambda each=each: call(each)) for each in others] == before


def test_lists_of_numbers_are_as_good_as_tuples(monkeypatch):
    x = made(SMALL)
    given = (1, 0, 0), (5, 10, 2), (1, -1, 1)
    namespace = found(lambda: dml.slice1(x, *given), "slice1")

    def long_way(*_):
        raise AssertionError("the long way")

    monkeypatch.setitem(namespace, "call", long_way)
    monkeypatch.setattr(PLANS, "steps", {})
    wanted = x[1:, ::-1, :2]
    assert np.array_equal(dml.slice1(x, *map(list, given)), wanted)
    assert np.array_equal(dml.slice1(x, list(given[0]), given[1], list(given[2])), wanted)
    for other in ([1, 0, 1], [0, 0, 0], [True, 0, 0], [np.int64(1), 0, 0], [1, 0], [1, 0, 0, 0], []):
        with pytest.raises(AssertionError, match="the long way"):
            dml.slice1(x, other, *given[1:])
    for odd in ([1.0, 0, 0], [1, 0, None]):
        with pytest.raises(TypeError):
            dml.slice1(x, odd, *given[1:])


def test_fused_calls_tell_lists_from_tuples():
    x = made(SMALL)
    fused = dml.fuse(lambda x, places: x[1:] if type(places) is list else x[places])
    for _ in range(40):
        result = fused(x, (1, 2))
    assert LOADER.settle(120)
    for _ in range(4):
        result = fused(x, (1, 2))
    assert np.array_equal(result, x[1, 2])
    assert np.array_equal(fused(x, [1, 2]), x[1:])


def test_more_calls_than_are_kept_take_turns():
    for size in range(2, 150):
        x = made((size, 2))
        result = often(lambda x=x: dml.copy(x.T))
        assert result.tobytes() == x.T.tobytes()
    for size in (149, 148, 3, 2):
        x = made((size, 2))
        assert dml.copy(x.T).tobytes() == x.T.tobytes()


def often(call):
    for _ in range(18):
        call()
    LOADER.settle(60)
    call()
    return call()


def test_calls_go_with_their_plans():
    x = made(SMALL)
    namespace = found(lambda: dml.split(x, 2, 1), "split")
    assert namespace["whole"](x, 2, 1, None) is not None
    PLANS.clear()
    assert namespace["whole"](x, 2, 1, None) is None


def test_what_making_a_result_does_may_empty_the_table(monkeypatch):
    x = made(LARGE)
    namespace = found(lambda: dml.split(x, 2, 1), "split")
    (table,) = [table for table in PLANS.whole.values() if table.function is namespace["whole"]]
    wanted = [each.tobytes() for each in np.split(x, 2, 1)]

    def make():
        table.clear()
        gc.collect()
        return np.empty((64, 50, 16), np.float32)

    (_, call, _, plain, known), *_ = [kept for kept in table._kept if kept]
    table.clear()
    table.keep(known, call, LARGE, 1, [make, make], plain, False, True, False)
    result = namespace["whole"](x, 2, 1, None)
    assert [each.tobytes() for each in result] == wanted
    assert namespace["whole"](x, 2, 1, None) is None

    def fail():
        raise MemoryError("no more")

    table.keep(known, call, LARGE, 1, [lambda: np.empty((64, 50, 16), np.float32), fail], plain, False, True, False)
    with pytest.raises(MemoryError, match="no more"):
        dml.split(x, 2, 1)
    table.clear()
    assert len(dml.split(x, 2, 1)) == 2


def test_calls_that_differ_in_later_arrays_alone_are_told_apart():
    x = made((8, 6))
    widths = (1, 2, 3)
    outs = [np.zeros((2, 8), np.float32)[:, ::step] for step in (1, 2)]
    for width in widths:
        indices = np.arange(width)
        found(lambda indices=indices: dml.gather(x, indices, 1), "gather")
        found(lambda width=width: dml.join([x, x[:, :width].copy()], 1), "join")
    gather, join = dml.gather.__globals__["whole"], dml.join.__globals__["whole"]
    for width in widths:
        assert np.array_equal(gather(x, np.arange(width), 1, None), x[:, :width])
        assert np.array_equal(join([x, x[:, :width].copy()], 1, None), np.concatenate([x, x[:, :width]], 1))
    for out in outs:
        y = made((2, out.shape[1]))
        found(lambda y=y, out=out: dml.copy(y, out=out), "copy")
        assert np.array_equal(dml.copy.__globals__["whole"](y, out), y)


def test_functions_outlive_what_others_made_at_the_same_time():
    whole_calls.prepare()
    calls, made_of = whole_calls.WholeCalls(True), weakref.ref(whole_calls._method(whole.SMALL))
    # What the cache keeps is what another thread put there.
    whole_calls._method.cache_clear()
    whole_calls._method(whole.SMALL)
    gc.collect()
    assert made_of() is not None
    assert calls.function(np.zeros(3), None) is None


def test_threads_call_at_once():
    x = made((64, 300))
    found(lambda: dml.join([x, x], 1), "join")
    wrong = []

    def work(seed):
        for k in range(200):
            y = np.full((64, 300), seed + k, np.float32)
            result = dml.join([y, x], 1)
            if not ((result[:, :300] == seed + k).all() and (result[:, 300:] == x).all()):
                wrong.append(seed)
            if k % 50 == 0:
                PLANS.forget_steps()

    threads = [threading.Thread(target=work, args=(1000 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_fused_calls_are_whole_too(library):
    torch = pytest.importorskip("torch") if library == "torch" else None
    given = (lambda x: x) if torch is None else torch.from_numpy

    def of_numpys(results):
        return [np.asarray(each) for each in (results if isinstance(results, (list, tuple)) else [results])]

    for function in (
        lambda x, y: np.concatenate([x[:, ::-1], y]),
        lambda x, y: [x.T, y[:2]],
        lambda x, y: (x[1:], y.T),
        lambda x, y: (x[1:],),
    ):
        if torch is not None and function.__code__.co_names[:1] == ("np",):
            continue
        fused = dml.fuse(function)
        for rows in (3, 4):
            x, y = made((rows, 6)), made((5, 6))
            expected = of_numpys(function(x, y))
            a, b = given(x), given(y)
            for _ in range(40):
                result = fused(a, b)
            assert LOADER.settle(120)
            for _ in range(3):
                result = fused(a, b)
            whole = fused._steps.whole
            assert whole is not None
            assert whole(a, b, None) is not None
            assert type(fused(a, b)) is type(result)
            assert type(function(x, y)) in (type(result), np.ndarray)
            for got in (of_numpys(fused(a, b)), of_numpys(result)):
                for one, other in zip(got, expected, strict=True):
                    assert np.array_equal(one, other)
            kept = [np.zeros(each.shape, np.float32) for each in expected]
            out = [*map(given, kept)] if isinstance(result, list) else given(kept[0])
            if isinstance(result, tuple):
                out = tuple(map(given, kept))
            for _ in range(3):
                assert fused(a, b, out=out) is out
            for one, other in zip(kept, expected, strict=True):
                assert np.array_equal(one, other)
            with pytest.raises(dml.BindingError):
                fused(a, b, out=given(x))
