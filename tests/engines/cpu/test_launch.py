"""Calls that come often are one step of compiled code, which does and refuses what the long way does and refuses."""

import ctypes
import gc
import subprocess
import sys
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest
from refused import f32

import anydml as dml
from anydml.engines.cpu import compiler, launch, loader
from anydml.engines.cpu.loader import LOADER
from anydml.functions.calling import PLANS
from anydml.functions.planning import OFTEN
from anydml.memory import numpy_struct
from anydml.memory.warm import CACHE

pytestmark = [
    pytest.mark.usefixtures("own_plans"),
    pytest.mark.skipif(not numpy_struct.IS_KNOWN, reason="another Python keeps arrays elsewhere"),
]


def often(call, times=2 * OFTEN):
    """Call until it is one step; whether it is."""
    for _ in range(times):
        call()
    assert LOADER.settle(120)
    call()
    call()
    return bool(PLANS.quick)


X = np.random.default_rng(0).integers(0, 255, (6, 10, 12), np.uint8).view(np.float32).reshape(6, 10, 3)

CASES = {
    "split": (lambda x, out: dml.split(x, [2, 3, 5], 1, out=out), lambda x: [x[:, :2], x[:, 2:5], x[:, 5:]]),
    "equal parts": (lambda x, out: dml.split(x, 3, 0, out=out), lambda x: [x[:2], x[2:4], x[4:]]),
    "an empty part": (lambda x, out: dml.split(x, [0, 6], 0, out=out), lambda x: [x[:0], x]),
    "split_training": (
        lambda x, out: dml.split_training(x, np.array([1, 9]), 1, out=out),
        lambda x: [x[:, :1], x[:, 1:]],
    ),
    "join": (
        lambda x, out: [dml.join([x, x[:, ::-1]], 1, out=out and out[0])],
        lambda x: [np.concatenate([x, x[:, ::-1]], 1)],
    ),
    "slice": (
        lambda x, out: [dml.slice(x, (1, 0, 2), (2, 5, 1), (2, 2, 1), out=out and out[0])],
        lambda x: [x[1:4:2, ::2, 2:]],
    ),
    "slice1": (
        lambda x, out: [dml.slice1(x, (0, 1, 0), (6, 8, 3), (1, -1, -2), out=out and out[0])],
        lambda x: [x[:, 8:0:-1, ::-2]],
    ),
    "gather": (
        lambda x, out: [dml.gather(x, np.array([[0, -1], [99, -99]]), 1, out=out and out[0])],
        lambda x: [x[:, [[0, 9], [9, 0]]]],
    ),
    "copy": (lambda x, out: [dml.copy(x.transpose(2, 0, 1), out=out and out[0])], lambda x: [x.transpose(2, 0, 1)]),
}  # fmt: skip


@pytest.fixture
def without_threads(monkeypatch):
    """Kernels are loaded by whoever asks for them."""
    here = SimpleNamespace(
        start_new_thread=lambda run, arguments: run(*arguments), allocate_lock=loader._thread.allocate_lock
    )
    monkeypatch.setattr(loader, "_thread", here)


def same(results, expected):
    return all(
        result.shape == array.shape and result.tobytes() == array.tobytes()
        for result, array in zip(results, expected, strict=True)
    )


@pytest.mark.parametrize(
    ("copies", "view"),
    [(1, "packed"), (1, "strided"), (1, "reversed"), (40, "packed"), (40, "strided"), (1600, "packed")],
)
@pytest.mark.parametrize("name", CASES)
def test_every_function_does_the_same_in_one_step(name, copies, view):
    call, expected = CASES[name]
    x = np.tile(X, (1, 1, copies))
    x = {"packed": x, "strided": np.repeat(x, 2, 2)[..., ::2], "reversed": x[::-1]}[view]
    want = expected(x)
    outs = [np.zeros(part.shape, part.dtype) for part in want]
    gaps = [np.zeros((*part.shape, 2), part.dtype)[..., 0] for part in want]
    for out in (None, outs, gaps):
        PLANS.clear()
        if copies * X.shape[2] > 3 and name in ("slice", "slice1"):
            continue
        assert often(lambda out=out: call(x, out))
        for _ in range(3):
            x.reshape(-1)[:1] += 1
            for each in out or ():
                each[...] = 0
            results = call(x, out)
            assert same(results, expected(x))
            assert out is None or all(map(lambda one, other: one is other, results, out))


def test_new_results_are_new():
    assert often(lambda: dml.split(X, 2, 0))
    first, second = dml.split(X, 2, 0), dml.split(X, 2, 0)
    assert not any(np.shares_memory(a, b) for a in first for b in [*second, X])


def wrong_calls():
    x, out = X.copy(), [np.zeros((3, 10, 3), np.float32) for _ in range(2)]
    memory = np.zeros((12, 10, 3), np.float32)
    frozen = out[1].copy()
    frozen.flags.writeable = False
    yield "read-only", x, [out[0], frozen], "out[1] is read-only"
    yield "over x", memory[:6], [out[0], memory[5:8]], "out[1] overlaps x"
    yield "over out", x, [memory[:3], memory[2:5]], "out[1] overlaps out[0]"
    yield "dtype", x, [out[0], out[1].astype(np.float64)], "out[1] is float64"
    yield "bytes swapped", x, [out[0], out[1].astype(">f4")], "out[1] is >f4"
    yield "shape", x, [out[0], np.zeros((3, 10, 4), np.float32)], "out[1] is float32"
    yield "dimensions", x, [out[0], np.zeros((3, 30), np.float32)], "out[1] is float32"
    yield "strides", x, [out[0], np.broadcast_to(np.zeros((3, 10, 1), np.float32), (3, 10, 3))], "out[1]"
    yield "few", x, out[:1], "out has 1 array"
    yield "many", x, [*out, out[0].copy()], "out has 3 arrays"
    yield "a list", x, [out[0], [1, 2]], "out[1] is a list"
    yield "nothing", x, [out[0], None], "out[1] is a NoneType"


@pytest.mark.parametrize("case", [*wrong_calls()], ids=lambda case: case[0])
def test_what_does_not_fit_is_refused_as_before(case):
    _, x, out, message = case
    good = [np.zeros((3, 10, 3), np.float32) for _ in range(2)]
    assert often(lambda: dml.split(X, 2, 0, out=good))
    before = [np.array(each, copy=True) if isinstance(each, np.ndarray) else each for each in out]
    with pytest.raises(dml.BindingError) as caught:
        dml.split(x, 2, 0, out=out)
    assert message in str(caught.value)
    for each, old in zip(out, before, strict=True):
        assert not isinstance(each, np.ndarray) or each.tobytes() == old.tobytes()


def test_arrays_that_mesh_but_share_nothing_are_welcome():
    memory = np.zeros((3, 10, 6), np.float32)
    out = [memory[..., ::2], memory[..., 1::2]]
    assert often(lambda: dml.split(X, 2, 0, out=out))
    dml.split(X, 2, 0, out=out)
    assert same(out, [X[:3], X[3:]])


def test_other_arrays_with_the_same_numbers_take_their_own_way():
    same_sizes = np.arange(X.size, dtype=np.float32).reshape(X.shape)
    assert often(lambda: dml.gather(same_sizes, np.array([1, 2])))
    others = (
        *(same_sizes.astype(dtype) for dtype in (np.float64, ">f4", object)),
        *(same_sizes[:, ::-1], np.asfortranarray(same_sizes), [*same_sizes]),
    )
    for x in others:
        for indices in (np.array([1, 2]), np.array([2, 2], np.uint32), [0, -1], np.array([1, 2])[::-1]):
            expected = np.asarray(x)[np.asarray(indices)]
            got = dml.gather(x, indices)
            assert got.dtype == expected.dtype
            assert got.tolist() == expected.tolist()


class Sub(np.ndarray):
    """An array of a class of its own."""


def test_a_subclass_is_seen():
    assert often(lambda: dml.copy(X))
    assert type(dml.copy(X.view(Sub))) is type(dml.copy(np.asarray(X)))
    out = np.zeros_like(X).view(Sub)
    assert often(lambda: dml.copy(X, np.zeros_like(X)))
    assert dml.copy(X, out) is out
    assert same([out], [X])


@pytest.mark.parametrize("rows", [4, 4000])
def test_threads_share_a_plan(rows):
    x = [np.full((rows, 96), k, np.float32) for k in range(4)]
    assert often(lambda: dml.split(x[0], 3, 1))
    wrong = []

    def work(k):
        for _ in range(200 if rows < 100 else 20):
            parts = dml.split(x[k], 3, 1)
            if not all((part == k).all() for part in parts):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_waits_for_kernels_keeps_no_memory(monkeypatch):
    asked = []
    monkeypatch.setattr(LOADER, "ask", asked.append)
    x = np.zeros((100, 50), np.int16)
    owner = ctypes.py_object(x)
    references = ctypes.c_ssize_t.from_address(id(x)).value
    for _ in range(2 * OFTEN):
        dml.split(x, 2, 1)
    assert len(asked) == 1
    assert ctypes.c_ssize_t.from_address(id(x)).value == references
    assert owner.value is x


def test_plans_with_steps_weigh_more_and_go_with_the_cache():
    dml.copy(X)
    before = PLANS.info().bytes
    assert often(lambda: dml.copy(X))
    assert PLANS.info().bytes > before
    PLANS.clear()
    assert not PLANS.quick


def test_where_nothing_can_be_compiled_all_goes_on(monkeypatch):
    def refuse(*arguments):
        raise compiler.NoCompilerError("not here")

    monkeypatch.setattr(launch, "launch_of", refuse)
    monkeypatch.setattr("anydml.engines.cpu.engine.launch_of", refuse)
    assert not often(lambda: dml.copy(X))
    assert same([dml.copy(X)], [X])


@pytest.mark.parametrize("kind", ["split", "gather", "rows"])
def test_bound_work_that_comes_often(kind):
    x = X[:, :, 0].copy()
    if kind == "split":
        desc = dml.SplitOperatorDesc(f32(6, 10), [f32(6, 4), f32(6, 6)], 1)
        inputs, outputs = [x], [np.zeros((6, 4), np.float32), np.zeros((6, 12), np.float32)[:, ::2]]
        expected = lambda: [x[:, :4], x[:, 4:]]  # noqa: E731
    elif kind == "rows":
        desc = dml.SplitOperatorDesc(f32(6, 10), [f32(2, 10), f32(4, 10)], 0)
        inputs, outputs = [x], [np.zeros((2, 10), np.float32), np.zeros((4, 10), np.float32)]
        expected = lambda: [x[:2], x[2:]]  # noqa: E731
    else:
        indices = np.array([[3, 99, -1, 0]])
        desc = dml.GatherOperatorDesc(f32(6, 10), dml.TensorDesc("INT64", [1, 4]), f32(4, 10), 0, 1)
        inputs, outputs = [x, indices], [np.zeros((4, 10), np.float32)]
        expected = lambda: [x[[3, 5, 5, 0]]]  # noqa: E731
    bound = dml.Device("cpu").compile_operator(desc).bind(inputs, outputs)
    for _ in range(40):
        bound.dispatch()
    assert LOADER.settle(120)
    for _ in range(3):
        x += 1
        bound.dispatch()
        assert same(outputs, expected())
    for output in outputs:
        before = [each.copy() for each in outputs]
        x += 1
        output.flags.writeable = False
        with pytest.raises(dml.BindingError, match="is read-only"):
            bound.dispatch()
        assert same(outputs, before), "nothing was written"
        output.flags.writeable = True
    bound.dispatch()
    assert same(outputs, expected())


def test_tensors_take_the_same_step():
    torch = pytest.importorskip("torch")
    x = torch.arange(48.0).reshape(4, 12)
    assert often(lambda: dml.split(x, 3, 1))
    for _ in range(3):
        x += 1
        parts = dml.split(x, 3, 1)
        assert all(torch.equal(part, own) for part, own in zip(parts, x.split(4, 1), strict=True))
        assert all(type(part) is torch.Tensor and part.is_contiguous() for part in parts)
    out = [torch.zeros(4, 4) for _ in range(3)]
    assert often(lambda: dml.split(x, 3, 1, out=out))
    versions = [each._version for each in out]
    assert all(one is other for one, other in zip(dml.split(x, 3, 1, out=out), out, strict=True))
    assert [each._version for each in out] == [version + 1 for version in versions]
    for wrong, message in (
        ([*out[:2], x[:, :4]], r"out\[2\] overlaps x"),
        ([*out[:2], out[0]], r"out\[2\] overlaps out\[0\]"),
        ([*out[:2], out[0].numpy()], "out.2. is a NumPy array"),
        ([*out[:2], out[2].double()], "out.2. is torch.float64"),
        (out[:2], "out has 2 arrays"),
    ):
        with pytest.raises(dml.BindingError, match=message):
            dml.split(x, 3, 1, out=wrong)
    # NumPy's arrays of the same sizes go the same way, but are no tensors.
    assert all(type(part) is np.ndarray for part in dml.split(x.numpy(), 3, 1))
    lazy = torch.complex(x, -x).conj().imag
    assert torch.equal(torch.cat(dml.split(lazy, 3, 1), 1), x)


@pytest.mark.parametrize("copies", [1, 400, 40_000])
@pytest.mark.parametrize("name", CASES)
def test_whoever_asks_loads_kernels_where_there_is_one_thread(without_threads, name, copies):
    call, expected = CASES[name]
    # Slices name their sizes.
    x = np.tile(X, (1, 1, 1 if name in ("slice", "slice1") else copies))
    out = [np.zeros_like(array, order="C") for array in expected(x)]
    assert often(lambda: call(x, out), OFTEN + 1) or copies > 1
    for array in out:
        array[...] = 0
    call(x, out)
    assert same(out, expected(x))
    assert same(call(x, None), expected(x))
    out[0].flags.writeable = False
    with pytest.raises(dml.BindingError, match="read-only"):
        call(x, out)


@pytest.mark.parametrize("size", [1, 300, 100_000])
def test_a_bound_operator_loads_its_kernels_where_there_is_one_thread(without_threads, size):
    x, out = np.arange(4 * size, dtype=np.int32), np.zeros(4 * size, np.int32)
    tensor = dml.TensorDesc("INT32", x.shape)
    desc = dml.Slice1OperatorDesc(tensor, tensor, [0], x.shape, [-1])
    bound = dml.Device().compile_operator(desc).bind([x], [out])
    for _ in range(2 * OFTEN):
        out[...] = 0
        bound.dispatch()
        assert np.array_equal(out, x[::-1])
    out.flags.writeable = False
    with pytest.raises(dml.BindingError, match="read-only"):
        bound.dispatch()


STEPPED = {
    "split": (lambda x, out: dml.split(x, [4, 6], 1, out=out), 2),
    "join": (lambda x, out: dml.join([x, x], 1, out=out), 1),
    "slice1": (lambda x, out: dml.slice1(x, [0, 1, 0], (6, 8, 3), (1, -1, 1), out=out), 1),
    "gather": (lambda x, out: dml.gather(x, np.array([1, 0]), 1, out=out), 1),
    "copy": (lambda x, out: dml.copy(x[:, ::-1], out=out), 1),
    "permute_dims": (lambda x, out: dml.permute_dims(x, (2, 0, 1), out=out), 1),
}


@pytest.mark.parametrize("with_out", [False, True])
@pytest.mark.parametrize("name", STEPPED)
def test_what_was_given_finds_the_step(name, with_out, monkeypatch):
    call, _ = STEPPED[name]
    expected = call(X, None)
    expected = expected if isinstance(expected, list) else [expected]
    out = [np.zeros_like(each) for each in expected] if with_out else None
    given = out if out is None or name == "split" else out[0]
    assert often(lambda: call(X, given))
    assert PLANS.steps
    # Nothing else is asked any more.
    from anydml.functions import calling, derived

    for module in (calling, derived):
        monkeypatch.setattr(module, "received", None, raising=False)
    monkeypatch.setattr(calling, "_call", None)
    monkeypatch.setattr(PLANS, "quick", {})
    result = call(X, given)
    if with_out:
        assert result is given or all(one is other for one, other in zip(result, given, strict=True))
    assert same(result if isinstance(result, list) else [result], expected)
    changed = np.roll(X, 1, 0)
    again = call(changed, given)
    monkeypatch.undo()
    PLANS.clear()
    fresh = call(changed, None)
    assert same(*[each if isinstance(each, list) else [each] for each in (again, fresh)])


def test_what_equals_an_argument_but_is_of_another_type_is_refused_as_before():
    x = X.copy()
    for call, bad in (
        (lambda axis: dml.split(x, 2, axis), (1.0, np.float32(1), "1")),
        (lambda window: dml.slice1(x, window, (6, 8, 3), (1, 1, 1)), ((0, 1.0, 0), [0, 1.0, 0], "010", 1)),
        (lambda order: dml.permute_dims(x, order), ((2.0, 0, 1), (2, 0), (2, 0, 1, 3), None)),
    ):
        good = 1 if bad[0] == 1.0 else (0, 1, 0) if bad[0] == (0, 1, 0) else (2, 0, 1)
        before = []
        for each in bad:
            with pytest.raises(Exception) as error:
                call(each)
            before.append((type(error.value), str(error.value)))
        assert often(lambda call=call, good=good: call(good))
        assert PLANS.steps
        after = []
        for each in bad:
            with pytest.raises(Exception) as error:
                call(each)
            after.append((type(error.value), str(error.value)))
        assert after == before
        PLANS.clear()
    # Integers of other libraries are integers.
    assert often(lambda: dml.split(x, 2, 1))
    assert same(dml.split(x, np.int64(2), np.int8(1)), np.split(x, 2, 1))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_step_found_by_the_same_arguments_is_not_for_other_arrays(dtype):
    x = X.copy()
    assert often(lambda: dml.split(x, 2, 1))
    for other in (
        x.view(dtype),
        x.astype("f8"),
        x[:, ::-1],
        np.asfortranarray(x),
        x.byteswap().view(">f4"),
        X[:0],
    ):
        assert same(dml.split(other, 2, 1), [each.copy() for each in np.split(other, 2, 1)])
    frozen = np.zeros((6, 5, 3), np.float32)
    outs = [frozen, np.zeros_like(frozen)]
    assert often(lambda: dml.split(x, 2, 1, out=outs))
    frozen.flags.writeable = False
    for bad, words in (
        (outs, "read-only"),
        ([x[:, :5], outs[1]], "overlap"),
        (outs[1:] * 2, "overlap"),
        (outs[1:], "1 array"),
        (7, "int"),
    ):
        with pytest.raises(dml.BindingError, match=words):
            dml.split(x, 2, 1, out=bad)


def test_so_many_steps_are_kept_and_no_more(monkeypatch):
    from anydml.functions import steps

    monkeypatch.setattr(steps, "MOST_STEPS", 3)
    for k in range(1, 7):
        x = np.ones((2 * k, 4), np.float32)
        assert often(lambda x=x: dml.split(x, 2, 0))
        assert 1 <= len(PLANS.steps) <= 3


def test_what_is_no_number_of_pythons_own_is_not_kept():
    class Axis:
        def __index__(self):
            return 1

    assert often(lambda: dml.split(X, 2, 1))
    kept = len(PLANS.steps)
    gone = []
    for _ in range(5):
        axis = Axis()
        gone.append(weakref.ref(axis))
        assert same(dml.split(X, 2, axis), np.split(X, 2, 1))
        assert same(dml.split(X, (size for size in (5, 5)), 1), np.split(X, 2, 1))
        dml.split(X, 2, np.int64(1))
    del axis
    gc.collect()
    assert [each() for each in gone] == [None] * 5
    assert len(PLANS.steps) == kept


@pytest.mark.parametrize("call", [lambda x: dml.flip(x, 0), lambda x: dml.split(x, 1, 0), dml.copy])
def test_results_of_a_refused_step_take_no_memory_beside_the_others(call):
    x = np.ones((1024, 1024), np.uint8)
    assert often(lambda: call(x))
    assert PLANS.steps
    CACHE.empty()
    for _ in range(3):
        call(np.asfortranarray(x))
        call(x)
    assert CACHE.bytes == x.nbytes


def test_plans_that_do_not_come_often_alone_pay_together():
    code = """
import numpy as np
import anydml as dml
from anydml.engines.cpu import compiler
from anydml.engines.cpu.launch import OFTEN, OFTEN_WITH_COMPILER
from anydml.engines.cpu.loader import LOADER
from anydml.functions.calling import PLANS

def called(plans, times):
    for n in range(2, 2 + plans):
        x = np.arange(2 * n, dtype=np.uint8).reshape(2, n)
        for _ in range(times):
            assert np.array_equal(dml.flip(x, 1), x[:, ::-1])
    assert LOADER.settle(60)
    return compiler.is_imported(), len(PLANS.quick)

few = OFTEN // OFTEN_WITH_COMPILER
print(called(few // 2, OFTEN_WITH_COMPILER))
print(called(few, 2 * OFTEN_WITH_COMPILER)[0], called(few, 3)[1] >= few // 2)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(False, 0)\nTrue True\n", done.stdout
