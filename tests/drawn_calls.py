"""Random calls of every function that has a compiled way, each with what NumPy makes of it."""

import function_cases
import numpy as np
from function_cases import array, numbers, some
from odd_arrays import MOVABLE, odd


def shape_of(rng, least=0):
    """Sizes of up to six dimensions, the fewer the more there are."""
    rank = int(rng.integers(least, 7))
    low = 0 if rng.random() < 0.1 else 1
    return tuple(int(n) for n in rng.integers(low, 6 if rank < 4 else 4, rank))


def of_rank(rng, dtype, least=0):
    return array(rng, shape_of(rng, least), dtype)


def cuts(rng, size):
    """Sizes of parts, some of them 0, which add up."""
    ends = sorted(numbers(rng, 0, size + 1, int(rng.integers(0, 5))))
    return [b - a for a, b in zip([0, *ends], [*ends, size], strict=True)]


def copy(rng, dtype):
    x = of_rank(rng, dtype)
    return (x,), x


def split(rng, dtype):
    x = of_rank(rng, dtype, 1)
    axis = int(rng.integers(-x.ndim, x.ndim))
    if rng.random() < 0.4:
        sections = some(rng, *(k for k in range(1, 7) if x.shape[axis] % k == 0))
        return (x, sections, axis), np.split(x, sections, axis)
    sizes = cuts(rng, x.shape[axis])
    return (x, sizes, axis), np.split(x, np.cumsum(sizes)[:-1], axis)


def split_training(rng, dtype):
    x = of_rank(rng, dtype, 1)
    axis = int(rng.integers(-x.ndim, x.ndim))
    sizes = cuts(rng, x.shape[axis])
    given = some(rng, sizes, tuple(sizes), np.array(sizes), odd(rng, np.array(sizes, "u2")))
    expected = np.split(x, np.cumsum(sizes)[:-1], axis)
    return (x, given, axis, some(rng, None, len(sizes))), expected


def parts(rng, dtype):
    shape = [*shape_of(rng, 1)]
    axis = int(rng.integers(-len(shape), len(shape)))
    arrays = []
    for _ in range(int(rng.integers(1, 6))):
        shape[axis] = int(rng.integers(0, 5))
        arrays.append(array(rng, tuple(shape), dtype))
    return arrays, axis


def join(rng, dtype):
    arrays, axis = parts(rng, dtype)
    axis = some(rng, axis, axis, None)
    # NumPy's is in native byte order.
    return (some(rng, arrays, tuple(arrays)), axis), np.concatenate(arrays, axis).astype(dtype)


def concat_training(rng, dtype):
    arrays, axis = parts(rng, dtype)
    return (arrays, axis), (
        np.concatenate(arrays, axis).astype(dtype),
        np.array([each.shape[axis] for each in arrays], np.int64),
    )


def window(rng, n, is_backwards):
    """An offset, a size, a stride that is not 0, and how many elements there are at most."""
    offset = int(rng.integers(0, n + 1))
    size = int(rng.integers(0, n - offset + 1))
    stride = some(rng, 1, 1, 2, 3, 7) * (-1 if is_backwards and rng.random() < 0.4 else 1)
    return offset, size, stride, -(-size // abs(stride))


def sliced(rng, dtype):
    x = of_rank(rng, dtype)
    chosen = [window(rng, n, False) for n in x.shape]
    offsets, _, strides, counts = [[*each] for each in zip(*chosen, strict=True)] if chosen else [[]] * 4
    index = tuple(np.s_[o : o + s * k : s] for o, k, s in zip(offsets, counts, strides, strict=True))
    return (x, offsets, counts, strides), x[index] if index else x


def slice1(rng, dtype):
    x = of_rank(rng, dtype)
    chosen = [window(rng, n, True) for n in x.shape]
    offsets, sizes, strides, most = [[*each] for each in zip(*chosen, strict=True)] if chosen else [[]] * 4
    counts = most if rng.random() < 0.5 else [int(rng.integers(0, n + 1)) for n in most]
    given = None if counts is most and rng.random() < 0.5 else counts
    places = [
        [(o if s > 0 else o + n - 1) + s * k for k in range(count)]
        for o, n, s, count in zip(offsets, sizes, strides, counts, strict=True)
    ]
    expected = x[np.ix_(*(np.array(each, int) for each in places))] if x.ndim else x
    return (x, offsets, sizes, strides, given), expected


def gather(rng, dtype):
    x = of_rank(rng, dtype, 1)
    axis = int(rng.integers(-x.ndim, x.ndim))
    size = x.shape[axis]
    shape = function_cases.shape_of(rng) if size else (0,)
    indices = function_cases.some_indices(rng, shape, size)
    wide = indices.astype(np.int64)
    # NumPy's of one element is a scalar in native byte order.
    return (x, indices, axis), np.array(np.take(x, np.where(wide < 0, wide + size, wide), axis), dtype)


OWN = (copy, split, split_training, join, concat_training, sliced, slice1, gather)
DRAW = function_cases.DRAW | {each.__name__.removesuffix("d"): each for each in OWN}
"""By the functions' names: a generator and a dtype in, arguments and the expected result out."""

# NumPy leaves the gaps of longer floats behind where it copies elements.
DTYPES = [dtype for dtype in MOVABLE.values() if dtype.char not in "gG"]
NUMBERS = [dtype for dtype in DTYPES if dtype.kind in "iufc"]


def call_of(rng, name):
    """Arguments, and what NumPy makes of them."""
    return DRAW[name](rng, some(rng, *(NUMBERS if name == "sequence" else DTYPES)))


def alike(rng, value):
    """A number or numbers as callers write them, too: all that counts as the same."""
    if type(value) is int and rng.random() < 0.3:
        return some(rng, np.int64, np.int16 if abs(value) < 1 << 15 else np.int64)(value)
    if type(value) is list and value and all(type(each) is int for each in value):
        return some(rng, value, tuple(value), np.array(value), [np.int64(each) for each in value])
    return value


WRONG = (None, 1.0, "1", -1, 0, 7, 99, 1 << 40, 1 << 70, -(1 << 63), True, (), [], [1], [0, 0], [1.0], [None], "wrap")
"""What a caller may give in place of a number, or of numbers."""


def spoiled(rng, given):
    """The same arguments with one of them exchanged for something that may be wrong."""
    at = int(rng.integers(0, len(given)))
    value = given[at]
    if isinstance(value, np.ndarray):
        plain = np.zeros(value.shape, some(rng, "f8", "V3", "?", "i8"))
        value = some(rng, None, value[..., None], plain, value[:0] if value.ndim else value, np.array(3), "text")
    elif isinstance(value, (list, tuple)) and value and rng.random() < 0.6:
        changed = [*value]
        changed[int(rng.integers(0, len(changed)))] = some(rng, *WRONG)
        value = changed
    else:
        value = some(rng, *WRONG)
    return (*given[:at], value, *given[at + 1 :])


def target(rng, expected, given):
    """An array to write to: one that fits in its own way, or one that must be refused."""
    if isinstance(expected, list):
        made = [target(rng, each, given) for each in expected]
        return made[:-1] if rng.random() < 0.1 else made
    if isinstance(expected, tuple):
        return target(rng, expected[0], given)
    chance = rng.random()
    fits = np.zeros(expected.shape, expected.dtype)
    if chance < 0.4:
        return fits
    if chance < 0.8:
        return odd(rng, fits)
    arrays = [each for each in given if isinstance(each, np.ndarray)]
    return some(rng, None, fits[..., None], np.zeros(fits.shape, "V11"), *arrays)
