"""Fused functions as callers see them: structures, `out`, libraries, constants, what is kept, threads."""

import collections
import copy
import functools
import gc
import os
import pickle
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import anydml as dml

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
Pair = collections.namedtuple("Pair", "first second")


def counted(function):
    """A fused function, and how often it was traced."""
    runs = []

    def traced(*arguments, **keywords):
        runs.append(arguments)
        return function(*arguments, **keywords)

    return dml.fuse(traced), runs


def test_what_traced_arrays_know():
    def shapes(x):
        assert (x.shape, x.ndim, x.size, len(x), x.dtype) == ((2, 3, 4), 3, 24, 2, np.float32)
        assert (x.itemsize, x.nbytes, np.shape(x), np.ndim(x), np.size(x, 1)) == (4, 96, (2, 3, 4), 3, 3)
        assert (x.T.shape, x.mT.shape, [row.shape for row in x]) == ((4, 3, 2), (2, 4, 3), [(3, 4)] * 2)
        assert repr(x) == "a traced float32 array of shape (2, 3, 4)"
        return [x.flatten(), x.astype("f4"), x.astype(np.float32).copy(), np.ascontiguousarray(x.T, like=x)]

    for found, expected in zip(dml.fuse(shapes)(X), (X.flatten(), X, X, X.T), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_structures():
    def function(arrays, flags=None):
        a, b = arrays["a"], arrays["b"][0]
        return {"pair": Pair(a.T, [b, b[0]]), "none": None, "shape": a.shape, "flags": flags, "one": (a[0],)}

    found = dml.fuse(function)({"a": X, "b": [X[0]]}, flags=(True, "s", 1.5))
    assert type(found["pair"]) is Pair
    np.testing.assert_array_equal(found["pair"].first, X.T)
    np.testing.assert_array_equal(found["pair"].second[1], X[0, 0])
    np.testing.assert_array_equal(found["one"][0], X[0])
    assert (found["none"], found["shape"], found["flags"]) == (None, X.shape, (True, "s", 1.5))
    assert type(found["pair"].second) is list


def test_results_are_new_and_apart():
    fused = dml.fuse(lambda x: (x, x, x[:1]))
    first, second, third = fused(X)
    for result, expected in ((first, X), (second, X), (third, X[:1])):
        np.testing.assert_array_equal(result, expected)
        assert result.base is None
    assert not np.shares_memory(first, second)
    assert not any(np.shares_memory(result, X) for result in (first, second, third))


def test_the_repr_is_short():
    @dml.fuse
    def halves(x):
        """Long."""
        return x[:2], x[2:]

    assert repr(halves) == "<fused halves>"
    assert repr(dml.fuse(lambda x: x)) == "<fused <lambda>>"


def test_a_function_is_traced_once_for_what_calls_have_in_common():
    fused, runs = counted(lambda x, n=0: x[n])
    for x in (X, X[:, :2].copy(), np.tile(X, (3, 1, 1)), X.reshape(4, 3, 2)):
        np.testing.assert_array_equal(fused(x), x[0])
    assert len(runs) == 1
    # Strides are numbers.
    np.testing.assert_array_equal(fused(X[:, :, ::-1]), X[0, :, ::-1])
    assert len(runs) == 1
    # Another dtype or order of bytes, an argument more, and None where there was a number.
    different = [
        (X.astype(np.float64),),
        (X, 1),
        (X, None),
        (X.view(np.int32),),
        (X.view(">f4"),),
    ]
    for count, arguments in enumerate(different, 2):
        fused(*arguments)
        fused(*arguments)
        assert len(runs) == count
    for n in (1, 0):
        np.testing.assert_array_equal(fused(X, n), X[n])
        np.testing.assert_array_equal(fused(X[::-1], n=n), X[1 - n])
    # By position, and by name.
    assert len(runs) == len(different) + 2
    fused, runs = counted(np.full_like)
    assert np.signbit(fused(X, -0.0)).all()
    assert not np.signbit(fused(X, 0.0)).any()
    assert np.isnan(fused(X, float("nan"))).all()
    fused(X, float("nan"))
    assert len(runs) == 3
    # Nor are sets equal whose numbers differ.
    fused, runs = counted(lambda x, values: np.full_like(x, max(values)))
    for values in (frozenset([0.0]), frozenset([-0.0]), frozenset([(0.0,)]), frozenset([(-0.0,)]), frozenset([0.0])):
        assert np.signbit(fused(X, values)).all() == (str(max(values)) in ("-0.0", "(-0.0,)"))
    assert len(runs) == 4


def test_what_is_kept_is_bounded():
    # A trace for each length, with an array of its own of 1 MiB, that nobody else holds.
    table = np.arange(1 << 18)
    fused = dml.fuse(lambda x: dml.gather(table[: (1 << 17) + len(x)].copy(), x))
    tracemalloc.start()
    for k in range(150):
        indices, out = np.arange(k + 1), np.empty(k + 1, np.int64)
        # Calls with an array for the result are always traced.
        np.testing.assert_array_equal(fused(indices, out=out), indices)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 80 << 20


def test_functions_go_with_their_programs():
    fused = dml.fuse(lambda x: x.T)
    fused(X)
    gone = weakref.ref(fused)
    del fused
    gc.collect()
    assert gone() is None


def test_large_constants_are_those_of_the_first_call():
    table, order = np.tile([[1, 2], [3, 4], [5, 6]], (100, 1)), [2, 0, 1, 0, 0]
    fused = dml.fuse(lambda i: (dml.gather(table, i), np.array([7, 8]), table[order][:2]))
    indices = np.array([2, -1, 0])
    assert fused(indices)[0].tolist() == [[5, 6], [5, 6], [1, 2]]
    table[...] = 0
    rows, constant, picked = fused(indices)
    assert rows.tolist() == [[5, 6], [5, 6], [1, 2]]
    assert picked.tolist() == [[5, 6], [1, 2]]
    constant[0] = 9
    assert fused(indices)[1].tolist() == [7, 8]


def test_small_constants_that_change_are_traced_again():
    table, order = np.array([[1, 2], [3, 4], [5, 6]]), [2, 0, 1, 0, 0]
    fused = dml.fuse(lambda i: (dml.gather(table, i), table[order][:2]))
    indices = np.array([2, -1, 0])
    assert fused(indices)[0].tolist() == [[5, 6], [5, 6], [1, 2]]
    table[2] = 8, 9
    rows, picked = fused(indices)
    assert rows.tolist() == [[8, 9], [8, 9], [1, 2]]
    assert picked.tolist() == [[8, 9], [1, 2]]


def test_a_constant_without_dimensions():
    result = dml.fuse(lambda x: np.stack([x[0], np.float64(7), np.array(8.0)]))(np.arange(3.0))
    assert result.tolist() == [0, 7, 8]


def test_known_indices_are_slices_where_they_can_be():
    program = dml.fuse(lambda x: x[:, [2, 1, 0]]).lower(X)
    assert len(program.moves) == 1
    assert not program.constants
    program = dml.fuse(lambda x: x[..., [0, 3, 1, 0, 2, 2, 0, 3, 1]]).lower(X)
    assert [operand.role for operand in program.operands] == ["input", "output", "constant"]


def test_fused_functions_within_another():
    inner, _runs = counted(lambda x: x[::-1])
    outer = dml.fuse(lambda x: inner(inner(x).T))
    np.testing.assert_array_equal(outer(X), X[::-1].T[::-1])
    assert len(outer.lower(X).moves) == 1
    with pytest.raises(dml.FuseError, match="part of the enclosing program"):
        dml.fuse(inner.lower)(X)


def test_methods():
    class Model:
        def __init__(self, by):
            self.by = by

        @dml.fuse
        def shifted(self, x):
            return np.roll(x, self.by)

    one, other = Model(1), Model(2)
    for model in (one, other, one):
        np.testing.assert_array_equal(model.shifted(X), np.roll(X, model.by))


@dml.fuse
def reversed_rows(x):
    return x[::-1]


def first_row(x):
    return x[0]


@pytest.mark.parametrize("copied", [lambda f: pickle.loads(pickle.dumps(f)), copy.copy, copy.deepcopy])
def test_pickled_and_copied_like_functions(copied):
    assert copied(reversed_rows) is reversed_rows
    for function in (first_row, np.transpose, functools.partial(np.flip, axis=1)):
        np.testing.assert_array_equal(copied(dml.fuse(function))(X), function(X))


def test_integers_of_any_size():
    fused = dml.fuse(lambda x, n: (x[:n], np.roll(x, n, 0)))
    x = np.arange(6)
    for n in (3, 10**30, -(10**30), 2**63, -(2**63), -(2**63) - 1, 2**63 - 1, 2, -(10**30)):
        for found, right in zip(fused(x, n), (x[:n], np.roll(x, n % 6)), strict=True):
            np.testing.assert_array_equal(found, right)


def test_strings_without_utf8():
    fused = dml.fuse(lambda x, word: x[::-1] if word == "\udcff" else x)
    by_name = dml.fuse(lambda arrays: arrays["\udcff"])
    for _ in range(2):
        np.testing.assert_array_equal(fused(X, "\udcff"), X[::-1])
        np.testing.assert_array_equal(fused(X, "a"), X)
        np.testing.assert_array_equal(by_name({"\udcff": X}), X)


def test_anydmls_functions():
    def function(x, i):
        first, second = dml.split(x, [1, 2], axis=1)
        parts = dml.split_training(x, [1, 1], 0)
        joined, lengths = dml.concat_training([first, second], 1)
        window = dml.slice(x, [0, 1, 0], [2, 2, 2], [1, 1, 2])
        backwards = dml.slice1(x, [0, 0, 0], [2, 3, 4], [-1, 2, -3])
        return first, parts, joined, lengths, window, backwards, dml.gather(X[0], i), dml.copy(x.T), dml.join([X, x], 2)

    i = np.array([0, -1, 1])
    found, expected = dml.fuse(function)(X, i), function(X, i)
    found, expected = ([*each[0:1], *each[1], *each[2:]] for each in (found, expected))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def test_lower_and_explain():
    def swapped(x, i):
        return np.concatenate([x[:, 2:], x[:, :2]], axis=1), np.concatenate([x, x])[i], np.zeros_like(x)

    fused = dml.fuse(swapped)
    arguments = X, np.array([3, 0])
    program = fused.lower(*arguments)
    assert program.scratch_bytes == 192
    text = fused.explain(*arguments)
    assert text == f"{program}\n  {sum(m.bytes_read for m in program.moves)} B to read, 480 B to write"
    assert text.startswith("swapped: ")
    assert "#5 scratch scratch 0: 192 B, because it is looked up along axis 0, which consists of several pieces" in text
    assert "#0 input x" in text
    assert "#1 input i" in text


def test_out():
    fused, runs = counted(lambda x: {"a": x.T, "b": [x[0], x.shape]})
    plain = {"a": np.empty(X.T.shape, X.dtype), "b": [np.empty(X[0].shape, X.dtype), None]}
    strided = {"a": np.empty(X.shape, X.dtype).T, "b": (np.empty((3, 8), X.dtype)[:, ::-2], None)}
    for out in (plain, strided, strided):
        assert fused(X, out=out) is out
        np.testing.assert_array_equal(out["a"], X.T)
        np.testing.assert_array_equal(out["b"][0], X[0])
    assert len(runs) == 1
    one = np.empty_like(X)
    assert dml.fuse(lambda x: x)(X, out=one) is one


@pytest.mark.parametrize(
    "out, message",
    [
        (np.empty(3), "does not have the structure"),
        ([np.empty((2, 3, 4), np.float32)], "does not have the structure"),
        ([np.empty((2, 3, 4)), np.empty((3, 4), np.float32)], r"out\[0\] is float64"),
        ([np.empty((2, 4, 3), np.float32), np.empty((3, 4), np.float32)], r"out\[0\] is float32 \(2, 4, 3\)"),
        ([X, np.empty((3, 4), np.float32)], r"out\[0\] overlaps x"),
        ([np.broadcast_to(np.float32(0), X.shape), np.empty((3, 4), np.float32)], "share an element"),
        ([np.empty((2, 3, 4), np.float32), [1]], "does not have the structure"),
        ([np.empty((2, 3, 4), np.float32), 1], r"out\[1\] is an int"),
    ],
)
def test_out_that_does_not_fit(out, message):
    before = X.copy()
    with pytest.raises(dml.BindingError, match=message):
        dml.fuse(lambda x: (x[::-1], x[0]))(X, out=out)
    np.testing.assert_array_equal(X, before)


def test_out_overlapping_and_read_only():
    block = np.empty((3, 3, 4), np.float32)
    fused = dml.fuse(lambda x: (x, x))
    with pytest.raises(dml.BindingError, match=r"out\[1\] overlaps out\[0\]"):
        fused(X, out=(block[:2], block[1:]))
    block.setflags(write=False)
    with pytest.raises(dml.BindingError, match="read-only"):
        fused(X, out=(block[:2], np.empty_like(X)))


SPELLINGS = {
    "append": lambda x: np.append(x, x[:1], axis=0),
    "append to all": lambda x: np.append(x, values=[1.0, 2.0]),
    "columns": lambda x: np.column_stack((x[0, 0], x[0].T, np.arange(4.0))),
    "rollaxis": lambda x: [np.rollaxis(x, k, start) for k in range(-3, 3) for start in range(-3, 4)],
    "columns counted first": lambda x: [x.ravel("F"), x.flatten("F"), x.reshape((4, -1), order="F"), np.ravel(x, "F")],
    "a shape by columns": lambda x: np.reshape(x[:, ::-1], (3, 2, 4), order="F"),
    "a mask along an axis": lambda x: [x[np.array([False, True])], x[:, np.array([True, False, True])]],
    "a mask of two axes": lambda x: x[np.eye(2, 3, dtype=bool)],
    "filled with a row": lambda x: np.full_like(x, [1.7, 2, 3, 4], dtype=np.int16),
    "filled with a column": lambda x: np.full_like(x, fill_value=np.arange(3)[:, None], shape=(3, 2)),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_of_numpy(name):
    x = X.astype(np.float64)
    pytree(lambda one, other: np.testing.assert_array_equal(one, other, strict=True), *[
        each(x) for each in (dml.fuse(SPELLINGS[name]), SPELLINGS[name])
    ])  # fmt: skip


OFTEN = {
    "one result": lambda x: np.concatenate([x[..., 1::2], x[..., ::2]], -1),
    "a constant": lambda x: np.pad(x, ((1, 0), (0, 0), (2, 1)), constant_values=7),
    "a known array": lambda x: np.concatenate([x, np.arange(8, dtype=np.float32).reshape(2, 1, 4)], 1),
    "several results": lambda x: (x[:1], x.T, x[:, ::-1]),
    "a list": lambda x: [x[1], x[0]],
    "a dict": lambda x: {"a": x[1], "b": [x[0]]},
    "an empty result": lambda x: (x[:0], x[1:]),
    "known indices": lambda x: np.take(x, np.array([1, 0]), 0),
}


@pytest.mark.parametrize("name", OFTEN)
@pytest.mark.parametrize("copies", [1, 40, 9000])
def test_calls_that_come_again_do_the_same(name, copies):
    function, fused = OFTEN[name], dml.fuse(OFTEN[name])
    # Known arrays have one size.
    x = np.tile(X, (1, 1 if name == "a known array" else copies, 1))
    for k in range(40):
        x[0, 0, 0] = k
        found = fused(x)
    x[0, 0, 0] = -1
    expected, first, second = function(x), fused(x), fused(x=x)
    out = pytree(lambda array: np.zeros(array.shape, array.dtype), expected)
    assert fused(x, out=out) is out
    for results in (first, second, out):
        pytree(np.testing.assert_array_equal, results, expected)
    x[0, 0, 1] = -2
    pytree(np.testing.assert_array_equal, found, function(np.where(x == -2, 1, np.where(x == -1, 39, x))))
    assert not any(np.shares_memory(*pair) for pair in zip(leaves(first), leaves(second), strict=True))
    wrong = pytree(lambda array: np.zeros(array.shape, np.int8), expected)
    with pytest.raises(dml.BindingError, match="is int8"):
        fused(x, out=wrong)
    frozen = pytree(lambda array: np.broadcast_to(np.float32(0), array.shape), expected)
    with pytest.raises(dml.BindingError):
        fused(x, out=frozen)
    memory = np.zeros(4 * x.size, np.float32)
    over = memory[: x.size].reshape(x.shape)
    with pytest.raises(dml.BindingError, match="overlap"):
        fused(over, out=pytree(lambda array: memory[: array.size].reshape(array.shape), expected))


def pytree(function, tree, *others):
    """A function of the arrays of structures that are alike."""
    if isinstance(tree, dict):
        return {key: pytree(function, each, *[other[key] for other in others]) for key, each in tree.items()}
    if isinstance(tree, (tuple, list)):
        return type(tree)(pytree(function, *each) for each in zip(tree, *others, strict=True))
    return function(tree, *others)


def leaves(tree):
    found = []
    pytree(found.append, tree)
    return found


def test_large_results_are_the_same():
    rng = np.random.default_rng(3)
    x = rng.integers(0, 1 << 30, (64, 48, 128)).astype(np.int32)
    fused = dml.fuse(lambda x: np.concatenate([np.pad(x, ((0, 0), (1, 1), (0, 0)), "edge").transpose(2, 0, 1)] * 2, 1))
    padded = np.pad(x, ((0, 0), (1, 1), (0, 0)), "edge").transpose(2, 0, 1)
    for _ in range(3):
        np.testing.assert_array_equal(fused(x), np.concatenate([padded] * 2, 1))


def test_threads_that_call_at_once_trace_once():
    fused, runs = counted(lambda x: np.concatenate([x[::-1], np.roll(x, 1, 0)]))
    arrays = [np.arange(k * 7.0).reshape(7, k) for k in range(1, 5)]
    barrier, errors = threading.Barrier(8), []

    def call():
        try:
            barrier.wait()
            for array in arrays * 5:
                out = np.zeros((array.shape[1], 14)).T
                assert fused(array, out=out) is out
                for found in (fused(array), out):
                    np.testing.assert_array_equal(found, np.concatenate([array[::-1], np.roll(array, 1, 0)]))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(runs) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_a_fork_does_not_wait_for_threads_that_it_lacks():
    inside, leave = threading.Event(), threading.Event()

    def function(x):
        if x.ndim == 2:
            inside.set()
            leave.wait(600)
        return x[::-1]

    fused = dml.fuse(function)
    thread = threading.Thread(target=fused, args=(np.zeros((2, 2)),))
    thread.start()
    assert inside.wait(600)
    child = os.fork()
    if not child:
        os._exit(0 if fused(np.arange(3)).tolist() == [2, 1, 0] else 1)
    leave.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_several_places_are_refused():
    torch = pytest.importorskip("torch")
    with pytest.raises(dml.BindingError, match="convert or move one"):
        dml.fuse(lambda x, y: (x, y))(X, torch.zeros(2))


def test_pytorch():
    torch = pytest.importorskip("torch")
    x = torch.arange(24, dtype=torch.bfloat16).reshape(2, 3, 4)
    i = torch.tensor([1, 0, 1])
    fused, runs = counted(
        lambda x, i: {"a": np.flip(np.transpose(x, (2, 0, 1)), -1), "b": np.pad(x, 1)[i], "i": np.stack([i, i])}
    )
    for _ in range(2):
        found = fused(x, i)
        assert torch.equal(found["a"], x.permute(2, 0, 1).flip(-1))
        assert torch.equal(found["b"], torch.nn.functional.pad(x, (1,) * 6)[i])
        assert torch.equal(found["i"], torch.stack([i, i]))
        assert [each.dtype for each in found.values()] == [torch.bfloat16, torch.bfloat16, torch.int64]
        assert all(type(each) is torch.Tensor and each.is_contiguous() for each in found.values())
    assert len(runs) == 1
    out = torch.empty(4, 2, 3, dtype=torch.bfloat16)
    version = out._version
    assert dml.fuse(lambda x: x.permute(2, 0, 1))(x, out=out) is out
    assert torch.equal(out, x.permute(2, 0, 1))
    assert out._version > version
    with pytest.raises(dml.BindingError, match="the result is torch"):
        dml.fuse(lambda x: x)(x, out=torch.empty_like(x, dtype=torch.int16))
    joined, lengths = dml.fuse(lambda x: dml.concat_training([x, x], 1))(x)
    assert torch.equal(joined, torch.cat([x, x], 1))
    assert lengths.tolist() == [3, 3]
    zeros = dml.fuse(lambda x: np.zeros_like(x, dtype=np.uint8))(x)
    assert torch.equal(zeros, torch.zeros(2, 3, 4, dtype=torch.uint8))
    with pytest.raises(dml.FuseError, match="its library's array cannot be created"):
        dml.fuse(lambda x: np.zeros((2, 3), "V3"))(x)
    with pytest.raises(dml.BindingError, match="requires grad"):
        fused(torch.zeros(2, requires_grad=True), i)


def test_jax():
    jnp = pytest.importorskip("jax.numpy")
    x = jnp.arange(12.0).reshape(3, 4)
    found = dml.fuse(lambda x: (x.T, x[::-1]))(x)
    assert [type(each) for each in found] == [type(x)] * 2
    np.testing.assert_array_equal(found[0], np.asarray(x).T)


def test_dlpack():
    class Foreign:
        """An array of a library that speaks DLPack and the array API's namespaces."""

        def __init__(self, array):
            self.array, self.shape, self.dtype, self.ndim = array, array.shape, array.dtype, array.ndim

        def __array_namespace__(self):
            return Foreign

        def __dlpack__(self, **named):
            return self.array.__dlpack__(**named)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

        from_dlpack = staticmethod(lambda array: Foreign(np.from_dlpack(array)))

    fused, runs = counted(lambda x: (x[::-1], x.T))
    for _ in range(2):
        found = fused(Foreign(X))
        assert [type(each) for each in found] == [Foreign] * 2
        np.testing.assert_array_equal(found[0].array, X[::-1])
        np.testing.assert_array_equal(found[1].array, X.T)
    assert len(runs) == 1


def test_scratch_of_more_values_than_pieces():
    rows = [np.full((1, 2), k) for k in range(5000)]
    fused = dml.fuse(lambda rows: np.concatenate(rows)[::7])
    np.testing.assert_array_equal(fused(rows), np.concatenate(rows)[::7])


class Shifted:
    """A function with attributes that are named like a fused function's own."""

    def __init__(self):
        self.pattern, self._trace, self.explain, self.lower, self.note = "a b", 3, "said", 1, "shifts"

    def __call__(self, x):
        return x[self._trace :]


def test_attributes_of_a_function_hide_no_methods():
    fused = dml.fuse(Shifted())
    for size in (9, 8):
        assert fused(np.arange(size)).tolist() == [*range(3, size)]
    assert fused.note == "shifts"
    assert "x" in fused.explain(np.arange(9))
    assert fused.lower(np.arange(9)).moves


OBJECTS = {
    "s_": lambda x: x[np.s_[1:3]],
    "index_exp": lambda x: x[np.index_exp[1:3]],
    "r_": lambda x: x[np.r_[0:3]],
    "c_": lambda x: np.pad(x, np.c_[1:2, 2:3]),
    "mgrid": lambda x: x[np.mgrid[0:2]],
    "newaxis": lambda x: x[np.newaxis],
    "finfo": lambda x: np.pad(x, 1, constant_values=np.finfo(np.float32).max),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_of_numpy_that_are_no_functions(name):
    x = np.arange(5.0)
    assert np.array_equal(dml.fuse(OBJECTS[name])(x), OBJECTS[name](x))


@pytest.mark.filterwarnings("ignore:.* runs without a trace")
def test_a_function_may_change_lists_of_its_arguments_which_stay():
    torch = pytest.importorskip("torch")
    for array in (np.arange, torch.arange):
        fused = dml.fuse(lambda xs, name: xs.pop(0)[1:])
        for k in range(20):
            xs = [array(3 + k), array(5)]
            assert fused(xs, f"call {k}").tolist() == [*range(1, 3 + k)]
            assert len(xs) == 2
