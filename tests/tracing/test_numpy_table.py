"""NumPy's words in fused functions, by random arguments: what they give is what NumPy gives."""

import inspect
import operator
import re
from itertools import chain

import numpy as np
import pytest
from how_many import how_many
from numpy.lib.stride_tricks import sliding_window_view

import anydml as dml
from anydml.tracing.library_functions import ElementDependentFunction
from anydml.tracing.numpy_table import NUMPY

CALLS = how_many(40)
DTYPES = "u1", "i2", "i4", "i8", "f4", "f8", "c8", "?", "U3", "V5", [("a", "i2"), ("b", "f4")]


class Draw:
    """Random arguments."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def int(self, low, high):
        """From low to high − 1."""
        return int(self.rng.integers(low, high))

    def pick(self, *ways):
        return ways[self.int(0, len(ways))]

    def shape(self, least=0, most=4):
        return tuple(
            int(n) for n in self.rng.choice([0, 1, 2, 3, 5], self.int(least, most + 1), p=[0.1, 0.2, 0.3, 0.3, 0.1])
        )

    def array(self, shape, dtype):
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        if dtype.kind in "iufc":
            return np.asarray(self.rng.integers(0, 100, shape)).astype(dtype)
        size = int(np.prod(shape)) * dtype.itemsize
        text = self.rng.integers(65, 90, size // 4 if dtype.kind == "U" else size)
        return (
            text.astype("u4" if dtype.kind == "U" else "u1").view(dtype).reshape(shape)
            if size
            else np.empty(shape, dtype)
        )

    def x(self, least=0, most=4, dtypes=DTYPES):
        x = self.array(self.shape(least, most), self.pick(*dtypes))
        way = self.int(0, 4)
        return x.T if way == 1 else x[::-1] if way == 2 and x.ndim else x

    def axis(self, x):
        return self.int(-x.ndim, x.ndim) if x.ndim else 0

    def mask(self, shape):
        return self.rng.random(shape) < 0.5


def places(draw, size):
    """An int, a list of ints, a slice or a mask along an axis."""
    if draw.int(0, 4) == 0:
        return slice(*(draw.pick(None, draw.int(-6, 7)) for _ in range(2)), draw.pick(None, 1, 2, -1, -2))
    if draw.int(0, 3) == 0 or not size:
        return draw.mask(size)
    if draw.int(0, 2):
        return draw.int(-size, size)
    return [draw.int(-size, size) for _ in range(draw.int(1, 4))]


def delete(draw):
    x = draw.x(1)
    axis = draw.pick(None, draw.axis(x))
    where = places(draw, x.size if axis is None else x.shape[axis])
    return lambda x: np.delete(x, where, axis), x


def insert(draw):
    x = draw.x(1)
    axis = draw.pick(None, draw.axis(x))
    size = x.size if axis is None else x.shape[axis]
    where = draw.pick(draw.int(-size, size + 1), [draw.int(0, size + 1) for _ in range(3)], slice(None, None, 2))
    values = draw.array(draw.pick((), (1,)), x.dtype)
    return lambda x, values: np.insert(x, where, values, axis), x, values


def insert_rows(draw):
    x = draw.x(2, 3)
    rows = draw.array((2, *x.shape[1:]), x.dtype)
    where = [draw.int(0, len(x) + 1) for _ in range(2)]
    return lambda x, rows: (np.insert(x, where, rows, 0), np.insert(x, where[0], rows[0], 0)), x, rows


def where_(draw):
    x = draw.x()
    y = draw.array([draw.pick(1, n) for n in x.shape], x.dtype)
    mask = draw.mask(x.shape[draw.int(0, x.ndim + 1) :])
    if draw.int(0, 3) == 0:
        return lambda x, y: np.where(mask, x, y), x, y
    return lambda x, y, mask: np.where(mask, y, x), x, y, mask


def where_number(draw):
    x = draw.x(dtypes=("i2", "i8", "f4", "f8", "c8"))
    return lambda x, mask: (np.where(mask, x, 3), np.where(mask, 7, x)), x, draw.mask(x.shape)


def triangles(draw):
    x, k = draw.x(1, dtypes=DTYPES[:8]), draw.int(-6, 7)
    return draw.pick(lambda x: np.tril(x, k), lambda x: np.triu(x, k), lambda x: (np.tril(x), np.triu(x))), x


def diagonals(draw):
    x, k = draw.x(2), draw.int(-5, 6)
    one, other = (int(n) for n in draw.rng.permutation(x.ndim)[:2])
    return lambda x: (np.diagonal(x, k, one - x.ndim, other), np.linalg.diagonal(x, offset=k)), x


def diag(draw):
    x, k = draw.x(1, 2, DTYPES[:8]), draw.int(-4, 5)
    return lambda x: (np.diag(x, k), np.diagflat(x, k)), x


def block(draw):
    a, b, c, d = (draw.int(1, 4) for _ in range(4))
    dtype = draw.pick(*DTYPES)
    parts = [draw.array(shape, dtype) for shape in ((a, c), (a, d), (b, c), (b, d), (d,))]
    if draw.int(0, 2):
        return lambda p, q, r, s, t: np.block([[p, q], [r, s]]), *parts
    return lambda p, q, r, s, t: np.block([t, t, q[0]]), *parts


def resize(draw):
    shape = draw.shape()
    return draw.pick(lambda x: np.resize(x, shape), lambda x: np.resize(x, 7)), draw.x(1, dtypes=DTYPES[:8])


def meshgrid(draw):
    dtype, more = draw.pick(*DTYPES), {"indexing": draw.pick("xy", "ij"), "sparse": draw.pick(True, False)}
    arrays = [draw.array(draw.shape(0, 1), dtype) for _ in range(draw.int(1, 4))]
    return lambda *arrays: np.meshgrid(*arrays, **more), *arrays


def select(draw):
    x = draw.x(dtypes=("i8", "f4", "f8"))
    masks = [draw.mask(x.shape) for _ in range(2)]
    y = draw.array(x.shape, x.dtype)
    return lambda x, y, *masks: (np.select(masks, [x, y]), np.select(masks, [x, y], 5)), x, y, *masks


def choose(draw):
    x = draw.x(0, 3)
    arrays = [x, draw.array(x.shape, x.dtype), draw.array(x.shape[1:], x.dtype)]
    mode = draw.pick("raise", "wrap", "clip")
    index = draw.rng.integers(0, 3, x.shape) if mode == "raise" else draw.rng.integers(-4, 5, x.shape)
    if mode == "raise" and draw.int(0, 2):
        return lambda i, *arrays: np.choose(i, arrays), index, *arrays
    return lambda *arrays: np.choose(index, arrays, mode=mode), *arrays


def compress(draw):
    x = draw.x(1)
    axis = draw.pick(None, draw.axis(x))
    mask = draw.mask(draw.int(0, 1 + (x.size if axis is None else x.shape[axis])))
    return lambda x: (np.compress(mask, x, axis), np.extract(np.resize(mask, x.shape), x)), x


def windows(draw):
    x = draw.x(1)
    axis = draw.axis(x)
    size = draw.int(0, x.shape[axis] + 1)
    if draw.int(0, 3) == 0:
        return lambda x: sliding_window_view(x[..., None].repeat(2, -1), [n // 2 + 1 for n in (*x.shape, 2)]), x
    return draw.pick(
        lambda x: sliding_window_view(x, size, axis),
        lambda x: sliding_window_view(np.concatenate([x, x], axis), (size, 2), (axis, axis)),
        lambda x: np.flip(sliding_window_view(x.T, 1 + (not x.size), 0)),
    ), x


def append(draw):
    x = draw.x(1, dtypes=("i8", "f8", "c16"))
    return lambda x: (np.append(x, [3, 4]), np.append(x, x, -1), np.append(2, x)), x


def shifts(draw):
    x = draw.x(1)
    axes = draw.pick(None, draw.axis(x))
    return lambda x: (np.fft.fftshift(x, axes), np.fft.ifftshift(x, axes)), x


def views(draw):
    x = draw.x(1, dtypes=("i4", "f4"))
    return lambda x: (x.view("u4"), np.astype(x.view(np.float32)[::-1], "f4").view(x.dtype)), x


def of_other_dtypes(draw):
    x, dtype = draw.x(1, dtypes=DTYPES[:8]), draw.pick(*DTYPES[:8])
    return lambda x: (np.zeros_like(x, dtype), np.full_like(x, 1, dtype), np.full_like(x, x[::-1])), x


WORDS = [
    *(append, block, choose, compress, delete, diag, diagonals, insert, insert_rows, meshgrid, of_other_dtypes, resize),
    *(select, shifts, triangles, views, where_, where_number, windows),
]


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.__name__.strip("_"))
def test_words(word):
    done = 0
    for number in range(CALLS):
        function, *arrays = word(Draw([41, *word.__name__.encode(), number]))
        try:
            expected = function(*arrays)
        except (ValueError, IndexError, TypeError):
            with pytest.raises((dml.FuseError, IndexError)):
                dml.fuse(function)(*arrays)
            continue
        found = dml.fuse(function)(*arrays)
        if not isinstance(expected, (tuple, list)):
            found, expected = [found], [np.asarray(expected)]
        assert type(found) is type(expected)
        for one, other in zip(found, expected, strict=True):
            assert (one.shape, one.dtype) == (other.shape, other.dtype), (number, arrays)
            assert one.tobytes() == other.tobytes(), (number, arrays)
        assert list(dml.fuse(function).lower(*arrays).problems()) == []
        done += 1
    assert done > CALLS // 2


def test_words_take_numpys_own_parameters():
    for name, word in NUMPY.items():
        try:
            parameters = inspect.signature(operator.attrgetter(name)(np)).parameters.values()
        except (AttributeError, ValueError):  # what older NumPys do in C says nothing of its parameters
            continue
        if isinstance(word, ElementDependentFunction) or any(each.kind is each.VAR_KEYWORD for each in parameters):
            continue
        by_position = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
        own = re.findall(r"(?:^| )[@*-]*(\w+)", word.parameters)
        assert own[: len(by_position)] == by_position, name
        # What `like` says is gone when a function is called for it.
        assert {each.name for each in parameters} <= {*own, "like"}, name


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_parts_of_all_sizes_share_traces(count):
    fused = dml.fuse(lambda x: [np.array_split(x, count, axis=-1), np.split(x, count)])
    for size in [7, 10, 30, 3, 2, 1, 0, 4, 6, 12]:
        x = np.arange(size**2).reshape(size, size).T
        try:
            right = fused.__wrapped__(x)
        except ValueError:
            with pytest.raises(dml.FuseError, match="equal parts do not divide"):
                fused(x)
            continue
        for found, wanted in zip(chain(*fused(x)), chain(*right), strict=True):
            np.testing.assert_array_equal(found, wanted, strict=True)
    # One for each remainder, at most: where it is the same, so are the parts.
    assert fused.counts.traces <= 2 * count
