"""What a fused function refuses: errors of anydml's own, which name the caller's line."""

import inspect
import math
import re
from functools import partial

import numpy as np
import pytest

import anydml as dml

X = np.arange(12.0).reshape(3, 4)


def assigned(x):
    x[0] = 0
    return x


def added_in_place(x):
    x += 1
    return x


COMPUTING = {
    "+": lambda x: x + 1,
    "right +": lambda x: 1 + x,
    "array +": lambda x: X + x,
    "scalar +": lambda x: np.float64(1) + x,
    "-": lambda x: -x,
    "@": lambda x: x @ x.T,
    "**": lambda x: x**2,
    "divmod": lambda x: divmod(x, 2),
    "abs": abs,
    "+=": added_in_place,
    "<": lambda x: x < 2,
    "==": lambda x: x == x,
    "if": lambda x: x if x else 0,
    "if <": lambda x: x if x[0, 0] < 3 else 0,
    "max": lambda x: max(x[0]),
    "in": lambda x: 3 in x,
    "float": lambda x: float(x[0, 0]),
    "int": lambda x: int(x[0, 0]),
    "math": lambda x: math.sqrt(x[0, 0]),
    "range": lambda x: [*range(x[0, 0])],
    "assignment": assigned,
    "ufunc": np.sin,
    "out": lambda x: np.concatenate([x[:1], x[1:]], out=x),
    "copyto": lambda x: np.copyto(x, 0),
    "sum": np.sum,
    "where": np.where,
    "sort": np.sort,
    ".sum": lambda x: x.sum(),
    ".data": lambda x: x.data,
    "asarray": np.asarray,
    "array": np.array,
    "astype": lambda x: x.astype(np.int32),
    "mean": lambda x: np.pad(x, 1, mode="mean"),
    "odd": lambda x: np.pad(x, 1, mode="reflect", reflect_type="odd"),
    "mask": lambda x, m: x[m],
    "dtypes": lambda x, m: np.concatenate([x, m]),
    "repeats": lambda x, m: np.repeat(x, m, 0),
    "own out": lambda x: dml.copy(x, out=np.empty_like(X)),
    "own sizes": lambda x, m: dml.split_training(x, m[0]),
}
FITTING = {
    "reshape": lambda x: x.reshape(5, 2),
    "reshape order": lambda x: x.reshape(12, order="A"),
    "ravel order": lambda x: x.ravel("K"),
    "reshape two": lambda x: x.reshape(-1, -1),
    "transpose": lambda x: x.transpose(0, 0),
    "transpose by a set": lambda x: x.transpose({1, 0}),
    "axis": lambda x: np.flip(x, 2),
    "stack": lambda x: np.stack([x, x.T]),
    "concatenate": lambda x: np.concatenate([x, x.T]),
    "split": lambda x: np.split(x, 2),
    "squeeze": lambda x: x.squeeze(0),
    "broadcast": lambda x: np.broadcast_to(x, (3, 5)),
    "int": lambda x: x[3],
    "many": lambda x: x[0, 0, 0],
    "ellipses": lambda x: x[..., ...],
    "string": lambda x: x["a"],
    "float": lambda x: x[1.0],
    "float index": lambda x, m: x[x],
    "known index": lambda x: x[[0, 3]],
    "take": lambda x: np.take(x, 12),
    "mask that is too short": lambda x: x[np.ones(2, bool)],
    "mask that is too short for a later axis": lambda x: x[..., np.array([True, False])],
    "order of memory": lambda x: x.ravel("K"),
    "rows of a row": lambda x: np.vsplit(x[0], 1),
    "planes of rows": lambda x: np.dsplit(x, 1),
    "mask of another shape": lambda x: x[np.ones((4, 4), bool)],
    "scalar iteration": lambda x: [*x[0, 0]],
    "pad": lambda x: np.pad(x, -1),
    "pad words": lambda x: np.pad(x, 1, mode="wrap", stat_length=2),
    "clip": lambda x, m: np.take(x, m, mode="clip"),
    "number": lambda x: np.full_like(x, -1, dtype=np.uint8),
    "numbers": lambda x: np.full_like(x, [1, 2, 3]),
    "no number": lambda x: np.full_like(x, None),
    "columns of other lengths": lambda x: np.column_stack([x, x[0, :2]]),
    "traced number of another dtype": lambda x: np.full_like(x, x[0, 0], dtype="f4"),
    "object": lambda x: np.concatenate([x, np.full((1, 4), None)]),
    "no parts": lambda x: np.split(x, 0),
    "no parts of columns": lambda x: np.hsplit(x, 0),
    "no parts of rows": lambda x: np.vsplit(x, 0),
    "no parts in depth": lambda x: np.dsplit(x[..., None], 0),
    "fewer than no parts": lambda x: np.split(x, -1),
    "axis rolled too far back": lambda x: np.rollaxis(x, 0, -3),
    "axis rolled too far": lambda x: np.rollaxis(x, 0, 3),
    "view that is a copy": lambda x: np.reshape(x.T, -1, copy=False),
    "view of steps": lambda x: np.reshape(x[:, ::3], -1, copy=False),
    "view of columns": lambda x: np.reshape(x, -1, order="F", copy=False),
    "own": lambda x: dml.split(x, 5),
    "own join": lambda x: dml.join([x, x[:, :2]]),
    "own axis": lambda x: dml.gather(x, [0], 2),
    "returned": lambda x: {x.shape},
    "returned object": lambda x: object(),
}


def called(function):
    try:
        count = len(inspect.signature(function).parameters)
    except ValueError:  # what older NumPys do in C says nothing of its parameters
        count = 1
    try:
        return dml.fuse(function)(*[X, np.zeros((3, 4), bool)][:count])
    finally:
        assert X.tolist() == np.arange(12.0).reshape(3, 4).tolist()


@pytest.mark.parametrize("name", COMPUTING)
def test_what_computes_is_refused_with_its_line(name):
    with pytest.raises(dml.FuseError) as caught:
        called(COMPUTING[name])
    is_told = caught.value.rule == "anydml moves elements and does not compute"
    assert is_told or re.search("cannot (assign|write|convert|join)", str(caught.value))
    assert re.match(rf"{re.escape(__file__)}:\d+: ", str(caught.value))


def test_the_line_is_the_callers():
    def function(x):
        y = x.T
        return y + 1

    line = inspect.getsourcelines(function)[1] + 2
    with pytest.raises(dml.FuseError, match=f"{re.escape(__file__)}:{line}: \\+ of a traced float64 array"):
        dml.fuse(function)(X)


@pytest.mark.parametrize("name", FITTING)
def test_what_does_not_fit_is_an_error_of_anydmls(name):
    with pytest.raises(dml.DescError if name.startswith("own") else dml.FuseError):
        called(FITTING[name])


def test_errors_are_pythons_too():
    for function, error in ((lambda x: x[3], IndexError), (lambda x: x.nothing, AttributeError)):
        with pytest.raises(error):
            dml.fuse(function)(X)


def test_pytorchs_functions_take_no_numpy_array():
    torch = pytest.importorskip("torch")
    with pytest.raises(dml.FuseError, match="cat of PyTorch"):
        dml.fuse(lambda x: torch.cat([x, x]))(np.zeros(2))


@pytest.mark.parametrize("array", [np.array([1, None]), np.array(["a"], np.dtypes.StringDType())])
def test_references_are_refused(array):
    with pytest.raises(dml.FuseError, match="references"):
        dml.fuse(lambda x: x[::-1])(array)


def test_structures_of_records_are_bytes():
    records = np.array([(1, 2.0), (3, 4.0)], [("a", "i2"), ("b", "f8")])
    assert dml.fuse(lambda x: x[::-1])(records).tolist() == [(3, 4.0), (1, 2.0)]
    for name in ("a", ["a", "b"]):
        with pytest.raises(dml.FuseError, match="cannot select fields: pass the field as an argument"):
            dml.fuse(lambda x, name=name: x[name])(records)


def test_untyped_bytes_are_padded_with_zeros():
    x = np.arange(10, dtype=np.uint8).view("V5")
    assert dml.fuse(lambda x: np.pad(x, 1))(x).tobytes() == np.pad(x, 1).tobytes()


def test_no_arrays():
    with pytest.raises(dml.FuseError, match="without arrays"):
        dml.fuse(lambda n: n)(3)


def test_arguments_that_cannot_be_told_apart():
    with pytest.raises(dml.FuseError, match="neither an array nor hashable"):
        dml.fuse(lambda x, s: x)(X, {1, 2})


def test_traced_arrays_end_with_their_call():
    kept = []
    dml.fuse(lambda x: kept.append(x) or x)(X)
    with pytest.raises(dml.FuseError, match="finished"):
        kept[0].reshape(-1)
    with pytest.raises(dml.FuseError, match="finished"):
        dml.fuse(lambda x: np.concatenate([x, kept[0]]))(X)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "float32", "bool", ">i4"])
def test_indices_that_are_arguments_are_of_four_types(dtype):
    for pick in (lambda x, i: x[i], np.take, lambda x, i: np.take_along_axis(x, i[:, None], 0)):
        with pytest.raises(dml.FuseError):
            dml.fuse(pick)(X, np.zeros(2, dtype))


def test_comparing_one_element_is_a_decision():
    for branch in (lambda x: x if x[0, 0] > 3 else x.T, lambda x: x if np.float64(3) < x[0, 0] else x.T):
        with pytest.raises(dml.FuseError, match="decide outside the fused function, and pass the result"):
            dml.fuse(branch)(X)
    with pytest.raises(dml.FuseError, match="does not compute: apply it before or after the fused function"):
        dml.fuse(lambda x: x > 3)(X)


@pytest.mark.parametrize("number", [3, -4, 2**31, -(2**40)])
def test_indices_out_of_range(number):
    indices = np.array([0, number])
    out = np.full((2, 4), 7.0)
    for pick in (lambda x, i: x[i], lambda x, i: np.take(x, i, 0), lambda x, i: dml.gather(x, i, 0)):
        fused = dml.fuse(pick)
        for _ in range(2):
            with pytest.raises(IndexError, match=f"index {number} in i is out of range for an axis of size 3"):
                fused(X, indices, out=out)
        assert (out == 7).all()
        np.testing.assert_array_equal(fused(X, np.array([0, -1])), X[[0, -1]])
    clamping = partial(dml.gather, out_of_range="clamp")
    np.testing.assert_array_equal(dml.fuse(clamping)(X, indices), clamping(X, indices))
    np.testing.assert_array_equal(dml.fuse(lambda x: clamping(x, indices))(X), clamping(X, indices))
    with pytest.raises(IndexError, match=f"index {number} is out of range for an axis of size 3"):
        dml.fuse(lambda x: dml.gather(x, indices))(X)


WORDS = {
    "gather": ("clamp", lambda x, i, **word: dml.gather(x, i, 1, **word)),
    "gather_elements": ("clamp", lambda x, i, **word: dml.gather_elements(x, i, 1, **word)),
    "gather_nd": ("clamp", lambda x, i, **word: dml.gather_nd(x, i[..., None], **word)),
    "scatter": ("skip", lambda x, i, **word: dml.scatter(x, i, x[:, :2] + 0, 1, **word)),
    "scatter_nd": ("skip", lambda x, i, **word: dml.scatter_nd(x, i[0, :, None], x[:2] + 0, **word)),
    "one_hot": ("skip", lambda x, i, **word: dml.one_hot(i, x[0, :2], 3, **word)),
}


@pytest.mark.parametrize("far", [4, -5, 2**40], ids=str)
@pytest.mark.parametrize("name", WORDS)
def test_functions_raise_for_indices_outside_unless_told_otherwise(name, far):
    word, function = WORDS[name]
    x = np.arange(16.0).reshape(4, 4)
    inside, outside = np.array([[0, -1]] * 4), np.array([[0, far]] * 4)
    assert np.array_equal(function(x, inside), function(x, inside, out_of_range=word))
    told = function(x, outside, out_of_range=word)
    out = np.full_like(told, 7)
    for call in (function, partial(function, out_of_range="error")):
        with pytest.raises(IndexError, match=f"{name}: index {far} in indices is out of range for an axis of size"):
            call(x, outside, out=out)
    assert (out == 7).all()
    if name.startswith("gather"):
        by = np.clip(outside, -4, 3)
        assert np.array_equal(told, function(x, by))
    with pytest.raises(dml.DescError, match=f"{name}: out_of_range is 'raise'"):
        function(x, inside, out_of_range="raise")
    if name in ("scatter", "scatter_nd"):
        return
    fused = dml.fuse(function)
    assert np.array_equal(fused(x, outside, out_of_range=word), told)
    with pytest.raises(IndexError, match=f"index {far} in i is out of range"):
        fused(x, outside)
    joined = dml.fuse(lambda x, i: function(x, np.concatenate([i, i[:1]])))
    if name == "one_hot":
        with pytest.raises(
            dml.FuseError, match=f"{name}: indices .* pass indices as an argument, or out_of_range='{word}'"
        ):
            joined(x, inside)
    elif name == "gather_nd":
        # Joined indices are read where they are.
        assert np.array_equal(joined(x, inside), function(x, np.concatenate([inside, inside[:1]])))
    if name not in ("gather", "gather_elements"):
        cut = dml.fuse(lambda x, i: function(x, i[1:]))
        assert np.array_equal(cut(x, inside), function(x, inside[1:]))
        with pytest.raises(IndexError, match=f"index {far} in i is out of range"):
            cut(x, outside)


def test_numpys_where():
    mask, y = X % 2 > 0, X[::-1]
    for function in (
        np.where,
        lambda m, x, y: np.where(m[:, :1], x[0], y),
        lambda m, x, y: np.where(m, x, 0),
        lambda m, x, y: np.where(m, 2.5, y),
        lambda m, x, y: np.where(mask, x.T.T, y),
    ):
        assert np.array_equal(dml.fuse(function)(mask, X, y), function(mask, X, y))
    with pytest.raises(dml.FuseError, match="convert them to one dtype first"):
        dml.fuse(np.where)(mask, X, y.astype("f4"))
    with pytest.raises(dml.FuseError, match=r"a condition alone.*shapes would depend on elements"):
        dml.fuse(np.where)(mask)


def test_views_that_numpy_has_are_taken():
    for function in (
        lambda x: np.reshape(x, -1, copy=False),
        lambda x: np.reshape(x, (2, 6), copy=True),
        lambda x: np.reshape(x[1:], (4, 2), copy=False),
        lambda x: np.reshape(x.T, -1, order="F", copy=False),
        lambda x: np.reshape(x[:, ::2], (3, 1, 2), copy=False),
        lambda x: np.rollaxis(x, 1, -2),
        lambda x: np.rollaxis(x, 0, 2),
    ):
        assert np.array_equal(dml.fuse(function)(X), function(X))


def test_indices_into_an_empty_axis():
    for pick in (lambda x, i: x[i], lambda x, i: np.take(x, i, 0)):
        with pytest.raises(IndexError):
            dml.fuse(pick)(np.empty((0, 2)), np.array([0]))
        assert dml.fuse(pick)(np.empty((0, 2)), np.empty(0, np.int64)).shape == (0, 2)


def test_indices_that_move_before_they_are_looked_at():
    def picked(x, first, second, by):
        return x[np.concatenate([first, second])[by]]

    arguments = X, np.array([0]), np.array([2]), np.array([1, 0, 1])
    with pytest.raises(dml.FuseError, match="would have to move first: pass them as an argument, or"):
        dml.fuse(picked)(*arguments)
    clamped = dml.fuse(lambda x, a, b, by: dml.gather(x, np.concatenate([a, b])[by], out_of_range="clamp"))
    np.testing.assert_array_equal(clamped(*arguments), picked(*arguments))


def test_indices_out_of_range_of_large_arrays():
    x = np.random.default_rng(7).random((1000, 64))
    indices = np.random.default_rng(8).integers(-1000, 1000, 5000)
    fused, out = dml.fuse(lambda x, i: (x[i], np.take(x.T, i, axis=1))), (np.zeros((5000, 64)), np.zeros((64, 5000)))
    for one, other in zip(fused(x, indices), (x[indices], x.T[:, indices]), strict=True):
        np.testing.assert_array_equal(one, other)
    indices[4321] = 1000
    with pytest.raises(IndexError, match="index 1000 in i"):
        fused(x, indices, out=out)
    assert not any(each.any() for each in out)


@pytest.mark.parametrize(
    "function",
    [lambda x: np.repeat(x, 10**30, 0), lambda x: dml.tile(x, [1 << 61, 1]), lambda x: (x, np.tile(x, (1 << 62, 1)))],
    ids=["repeat", "tile", "one of two"],
)
def test_results_that_no_array_can_be(function):
    with pytest.raises(
        dml.DescError, match=r"the result has shape .* and dtype float64: a result must have fewer than 2⁶³ bytes"
    ):
        dml.fuse(function)(np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: 2 * x, "* of a traced"),
        (lambda x: x > 1, "> of a traced"),
        (abs, "abs() of a traced"),
        (lambda x: x.__iadd__(1), "+= of a traced"),
        (lambda x: divmod(1, x), "divmod() of a traced"),
        (lambda x: 3 in x, "in of a traced"),
        (lambda x: x.reshape(5), "into shape [5]: it has 12 elements, and that shape 5"),
        (lambda x: x.reshape(-1, 5), "into shape [-1, 5]: its 12 elements do not divide by 5"),
        (lambda x: np.stack([x, x[1:]]), "array 1 has shape (2, 4), but array 0 has (3, 4): shapes must be equal"),
        (lambda x: np.split(x, 2), "axis 0 has size 3, which 2 equal parts do not divide: use array_split"),
    ],
)
def test_messages_show_the_source_and_numbers(function, text):
    with pytest.raises(dml.FuseError, match=re.escape(text)):
        called(function)
