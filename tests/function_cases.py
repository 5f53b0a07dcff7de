"""Random calls of the functions of the whole family, each with what NumPy makes of them."""

import itertools

import numpy as np
from odd_arrays import odd, random_array

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")
INDICES = ("i1", "i4", "i8", "u1", "u4", "u8", ">i4")


def called(function, arguments, **named):
    """A function's result by its parameters in their order, those that are given by name among them."""
    code = getattr(function, "__wrapped__", function).__code__
    count = code.co_argcount
    names = code.co_varnames[count:]
    return function(*arguments[:count], **dict(zip(names, arguments[count:], strict=False)), **named)


def some(rng, *values):
    return values[int(rng.integers(len(values)))]


def array(rng, shape, dtype):
    made = random_array(rng, dtype, shape)
    return odd(rng, made) if rng.random() < 0.4 else made


def shape_of(rng, rank=None, least=0):
    rank = int(rng.integers(0, 4)) if rank is None else rank
    low = least if rng.random() < 0.1 else max(1, least)
    return tuple(int(n) for n in rng.integers(low, 6, rank))


def numbers(rng, low, high, count):
    return [int(n) for n in rng.integers(low, high, count)]


def tile(rng, dtype):
    x = array(rng, shape_of(rng), dtype)
    repeats = numbers(rng, 0 if rng.random() < 0.1 else 1, 4, int(rng.integers(0, 5)))
    return (x, repeats), np.tile(x, repeats)


def pad(rng, dtype):
    mode = some(rng, *MODES)
    x = array(rng, shape_of(rng, least=mode != "constant"), dtype)
    before, after = numbers(rng, 0, 9, x.ndim), numbers(rng, 0, 9, x.ndim)
    value = random_array(rng, dtype, (1,))[0]
    more = {"constant_values": value} if mode == "constant" else {}
    if dtype.hasobject and mode == "constant":
        value = "any"
        more = {"constant_values": value}
    expected = np.pad(x, [*zip(before, after, strict=True)], mode, **more) if x.ndim else x
    return (x, before + after, mode, value), expected


def permute_dims(rng, dtype):
    x = array(rng, shape_of(rng), dtype)
    axes = [int(axis) - some(rng, 0, x.ndim) for axis in rng.permutation(x.ndim)]
    return (x, axes), x.transpose(axes)


def flip(rng, dtype):
    x = array(rng, shape_of(rng), dtype)
    axis = None if rng.random() < 0.3 or not x.ndim else int(rng.integers(-x.ndim, x.ndim))
    axis = axis if axis is None or rng.random() < 0.5 else [axis]
    return (x, axis), np.flip(x, tuple(axis) if isinstance(axis, list) else axis) if x.ndim else x


def roll(rng, dtype):
    if rng.random() < 0.3:
        x = array(rng, shape_of(rng), dtype)
        shifts = some(rng, int(rng.integers(-99, 99)), numbers(rng, -9, 9, 2))
        return (x, shifts, None), np.roll(x, shifts)
    x = array(rng, shape_of(rng, int(rng.integers(1, 4))), dtype)
    count = int(rng.integers(1, 4))
    axes, shifts = numbers(rng, -x.ndim, x.ndim, count), numbers(rng, -9, 9, count)
    shifts = shifts[0] if rng.random() < 0.3 else shifts
    axes = axes[0] if isinstance(shifts, int) and rng.random() < 0.5 else axes
    return (x, shifts, axes), np.roll(x, shifts, axes)


def repeat(rng, dtype):
    is_flat = rng.random() < 0.3
    x = array(rng, shape_of(rng, None if is_flat else int(rng.integers(1, 4))), dtype)
    axis = None if is_flat else int(rng.integers(-x.ndim, x.ndim))
    count = int(rng.integers(0, 4))
    if rng.random() < 0.5:
        count = numbers(rng, 0, 4, x.size if is_flat else x.shape[axis])
    return (x, count, axis), np.repeat(x, np.array(count, int), axis)


def upsample(rng, dtype):
    x = array(rng, shape_of(rng), dtype)
    scales, expected = numbers(rng, 1, 4, x.ndim), x
    for axis, scale in enumerate(scales):
        expected = np.repeat(expected, scale, axis)
    return (x, scales), expected


def broadcast_to(rng, dtype):
    shape = shape_of(rng)
    x = array(rng, tuple(some(rng, 1, n) for n in shape[int(rng.integers(0, len(shape) + 1)) :]), dtype)
    return (x, list(shape)), np.broadcast_to(x, shape)


def stack(rng, dtype):
    shape = shape_of(rng)
    arrays = [array(rng, shape, dtype) for _ in range(int(rng.integers(1, 5)))]
    axis = int(rng.integers(-len(shape) - 1, len(shape) + 1))
    # NumPy's is in native byte order.
    return (arrays, axis), np.stack(arrays, axis).astype(dtype)


def some_indices(rng, shape, size, low=0):
    """Indices into an axis, some negative."""
    dtype = np.dtype(some(rng, *INDICES))
    found = rng.integers(-size if dtype.kind == "i" else low, max(size, 1), shape)
    return odd(rng, found.astype(dtype)) if rng.random() < 0.3 else found.astype(dtype)


def outside(rng, indices, size):
    """Some of them outside; what each stands for; and whether it lies inside."""
    far = np.asarray(rng.random(indices.shape) < 0.15)
    indices = np.where(far, 100, indices).astype(indices.dtype)
    wide = indices.astype(np.int64)
    wide = np.where(wide < 0, wide + size, wide)
    return indices, np.clip(wide, 0, max(size - 1, 0)), (wide >= 0) & (wide < size)


def along(rng, dtype):
    x = array(rng, shape_of(rng, int(rng.integers(1, 4)), 1), dtype)
    axis = int(rng.integers(-x.ndim, x.ndim))
    shape = [int(rng.integers(0 if rng.random() < 0.1 else 1, n + 1)) for n in x.shape]
    shape[axis] = int(rng.integers(0, 7))
    return x, axis, outside(rng, some_indices(rng, shape, x.shape[axis]), x.shape[axis])


def word(rng, inside, other):
    """What an index outside its axis may do: raise only where there is none."""
    return some(rng, "error", other) if np.all(inside) else other


def gather_elements(rng, dtype):
    x, axis, (indices, places, inside) = along(rng, dtype)
    expected = np.empty(indices.shape, dtype)
    for at in np.ndindex(*indices.shape):
        source = [*at]
        source[axis] = places[at]
        expected[at] = x[tuple(source)]
    return (x, indices, axis, word(rng, inside, "clamp")), expected


def scatter(rng, dtype):
    x, axis, (indices, places, inside) = along(rng, dtype)
    updates, expected = array(rng, indices.shape, dtype), x.copy()
    for at in np.ndindex(*indices.shape):
        if inside[at]:
            to = [*at]
            to[axis] = places[at]
            expected[tuple(to)] = updates[at]
    return (x, indices, updates, axis, word(rng, inside, "skip")), expected


def tuples(rng, dtype, batch):
    x = array(rng, shape_of(rng, int(rng.integers(1, 4)), 1), dtype)
    batch = int(rng.integers(0, x.ndim)) if batch else 0
    length = int(rng.integers(0, x.ndim - batch + 1))
    shape = (*x.shape[:batch], *shape_of(rng, int(rng.integers(0, 3))), length)
    sizes = x.shape[batch : batch + length]
    far = 9 if rng.random() < 0.5 else np.array(sizes, np.int64)
    indices = rng.integers(-far, far, shape)
    wide = np.where(indices < 0, indices + np.array(sizes, np.int64), indices)
    return x, batch, indices, wide, sizes, (wide >= 0) & (wide < np.array(sizes, np.int64))


def gather_nd(rng, dtype):
    x, batch, indices, wide, sizes, inside = tuples(rng, dtype, True)
    expected = np.empty((*indices.shape[:-1], *x.shape[batch + indices.shape[-1] :]), dtype)
    for at in np.ndindex(*indices.shape[:-1]):
        where = tuple(min(max(int(i), 0), n - 1) for i, n in zip(wide[at], sizes, strict=True))
        expected[at] = x[(*at[:batch], *where)]
    return (x, indices, batch, word(rng, inside, "clamp")), expected


def scatter_nd(rng, dtype):
    x, _, indices, wide, sizes, inside = tuples(rng, dtype, False)
    updates = array(rng, (*indices.shape[:-1], *x.shape[indices.shape[-1] :]), dtype)
    expected = x.copy()
    for at in np.ndindex(*indices.shape[:-1]):
        if all(0 <= i < n for i, n in zip(wide[at], sizes, strict=True)):
            expected[tuple(wide[at])] = updates[at]
    return (x, indices, updates, word(rng, inside, "skip")), expected


def one_hot(rng, dtype):
    depth = int(rng.integers(0, 6))
    indices, places, inside = outside(rng, some_indices(rng, shape_of(rng), max(depth, 1)), depth)
    axis = int(rng.integers(-indices.ndim - 1, indices.ndim + 1))
    values = random_array(rng, dtype, (2,))
    expected = np.empty((*indices.shape, depth), dtype)
    expected[...] = values[0]
    for at in np.ndindex(*indices.shape):
        if inside[at]:
            expected[(*at, places[at])] = values[1]
    return (indices, values, depth, axis, word(rng, inside, "skip")), np.moveaxis(expected, -1, axis)


def where(rng, dtype):
    whole = shape_of(rng)

    def part():
        return tuple(1 if rng.random() < 0.2 else n for n in whole[int(rng.random() < 0.2) :])

    shapes = [whole, part(), part()]
    condition, x, y = (shapes[k] for k in rng.permutation(3))
    mask = (rng.integers(0, 2, condition) * rng.integers(1, 128, condition)).astype(some(rng, "?", "u1", "i1"))
    mask = odd(rng, mask) if rng.random() < 0.3 else mask
    x, y = array(rng, x, dtype), array(rng, y, dtype)
    return (mask, x, y), np.where(mask != 0, x, y).astype(dtype)


def reverse_subsequences(rng, dtype):
    x = array(rng, shape_of(rng, int(rng.integers(1, 4))), dtype)
    axis = int(rng.integers(-x.ndim, x.ndim))
    shape = [*x.shape]
    shape[axis] = 1
    size = x.shape[axis]
    kind = np.dtype(some(rng, *INDICES))
    lengths = rng.integers(-3 if kind.kind == "i" else 0, 9, shape).astype(kind)
    expected = np.moveaxis(x.copy(), axis, -1)
    rows = np.moveaxis(lengths, axis, -1)
    for at in np.ndindex(*expected.shape[:-1]):
        count = int(rows[at][0])
        # −1 is the whole axis, −2 one less.
        count = min(max(count + size + 1 if count < 0 else count, 0), size)
        expected[at][:count] = expected[at][:count][::-1].copy()
    return (x, odd(rng, lengths) if rng.random() < 0.3 else lengths, axis), np.moveaxis(expected, -1, axis)


def fill(rng, dtype):
    x = array(rng, shape_of(rng), dtype)
    value = "any" if dtype.hasobject else random_array(rng, dtype, (1,))[0]
    expected = np.empty(x.shape, dtype)
    expected[...] = value
    return (x, value), expected


def sequence(rng, dtype):
    x = array(rng, shape_of(rng), dtype)
    start, delta = (np.dtype(dtype).type(n) for n in rng.integers(0, 100, 2).tolist())
    k = np.arange(x.size).reshape(x.shape)
    if dtype.kind in "iu":
        unsigned = f"u{dtype.itemsize}"
        wrapped = np.array((int(start) + k.astype(object) * int(delta)) % (1 << 8 * dtype.itemsize), unsigned)
        expected = wrapped.view(dtype.newbyteorder("="))
    else:
        wide = np.complex128 if dtype.kind == "c" else np.float64
        expected = wide(start) + k * wide(delta)
    return (x, start, delta), np.asarray(expected).astype(dtype)


def diagonal_matrix(rng, dtype):
    x = array(rng, shape_of(rng, int(rng.integers(2, 5))), dtype)
    value = "any" if dtype.hasobject else random_array(rng, dtype, (1,))[0]
    begin, end = numbers(rng, -6, 7, 2)
    row, column = np.indices(x.shape[-2:])
    t = column - row
    expected = x.copy()
    expected[..., (t >= begin) & (t < end) if begin <= end else (t >= begin) | (t < end)] = value
    return (x, value, begin, end), expected


def triangle(rng, dtype, is_kept):
    x = array(rng, shape_of(rng, int(rng.integers(2, 5))), dtype)
    k = int(rng.choice([*range(-7, 8), 1 << 40, -(1 << 40)]))
    row, column = np.indices(x.shape[-2:])
    return (x, k), np.where(is_kept(column - row, k), x, zeros(x.shape, dtype)).astype(dtype)


def tril(rng, dtype):
    return triangle(rng, dtype, lambda t, k: t <= k)


def triu(rng, dtype):
    return triangle(rng, dtype, lambda t, k: t >= k)


def zeros(shape, dtype):
    """Elements whose bytes are 0, or the objects 0."""
    if dtype.hasobject:
        return np.zeros(shape, dtype)
    return np.frombuffer(bytearray(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)


def slice_grad(rng, dtype):
    sizes = shape_of(rng, least=1)
    offsets = [int(rng.integers(0, n)) for n in sizes]
    window = [int(rng.integers(1, n - o + 1)) for n, o in zip(sizes, offsets, strict=True)]
    strides = [some(rng, -3, -2, -1, 1, 2, 3) for _ in sizes]
    most = [1 + (n - 1) // abs(s) for n, s in zip(window, strides, strict=True)]
    x = array(rng, tuple(int(rng.integers(1, n + 1)) for n in most), dtype)
    expected = zeros(sizes, dtype)
    each = zip(offsets, window, strides, x.shape, strict=True)
    places = [[(o if s > 0 else o + n - 1) + s * k for k in range(count)] for o, n, s, count in each]
    expected[np.ix_(*places)] = x
    return (x, list(sizes), offsets, window, strides), expected


def blocks(rng, dtype):
    n, c, h, w, block = (int(k) for k in rng.integers(1, 4, 5))
    crd = rng.random() < 0.5
    space = array(rng, (n, c, h * block, w * block), dtype)
    split = space.reshape(n, c, h, block, w, block)
    depth = split.transpose((0, 1, 3, 5, 2, 4) if crd else (0, 3, 5, 1, 2, 4)).reshape(n, c * block**2, h, w)
    return space, depth, block, "column_row_depth" if crd else "depth_column_row"


def space_to_depth(rng, dtype):
    space, depth, *how = blocks(rng, dtype)
    return (space, *how), depth


def depth_to_space(rng, dtype):
    space, depth, *how = blocks(rng, dtype)
    return (depth, *how), space


def unfold(rng, dtype):
    rank = int(rng.integers(1, 3))
    x = array(rng, (*shape_of(rng, 2), *(int(n) for n in rng.integers(3, 7, rank))), dtype)
    window, strides, dilations = numbers(rng, 1, 3, rank), numbers(rng, 1, 3, rank), numbers(rng, 1, 3, rank)
    pads = numbers(rng, 0, 3, 2 * rank)
    whole = [size + a + b for size, a, b in zip(x.shape[2:], pads[:rank], pads[rank:], strict=True)]
    padded = zeros((*x.shape[:2], *whole), dtype)
    padded[(..., *(slice(p, p + s) for p, s in zip(pads, x.shape[2:], strict=False)))] = x
    columns = []
    for at in itertools.product(*map(range, window)):
        view = padded
        for d, k in enumerate(at):
            last = (padded.shape[2 + d] - dilations[d] * (window[d] - 1) - 1) // strides[d] + 1
            first = k * dilations[d]
            view = view[(slice(None),) * (2 + d) + (slice(first, first + (last - 1) * strides[d] + 1, strides[d]),)]
        columns.append(view.reshape(*x.shape[:2], int(np.prod(view.shape[2:]))))
    expected = np.stack(columns, 2).astype(dtype)
    return (x, window, strides, dilations, pads), expected.reshape(
        x.shape[0], x.shape[1] * len(columns), expected.shape[3]
    )


DRAW = {
    each.__name__: each
    for each in (
        *(tile, pad, permute_dims, flip, roll, repeat, upsample, broadcast_to, stack, gather_elements, scatter),
        *(gather_nd, scatter_nd, one_hot, diagonal_matrix, slice_grad, space_to_depth, depth_to_space, unfold),
        *(where, reverse_subsequences, fill, sequence, tril, triu),
    )
}
"""By the functions' names: a generator and a dtype in, arguments and the expected result out."""
