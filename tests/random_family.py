"""Random valid descs of the operators that came after the first seven, and random contents for them."""

import math

import numpy as np
from random_descs import BITS_32_AND_LESS, INDEX_TYPES, random_sizes, random_tensor

import anydml as dml

T = dml.DataType
INT_MIN, INT_MAX = -(2**31), 2**31 - 1
MODES = ("CONSTANT", "EDGE", "REFLECTION", "SYMMETRIC", "WRAP")
UNSIGNED = (T.UINT32, T.UINT64)


def _type(rng, types=tuple(T)):
    return types[rng.integers(len(types))]


def _pair(rng, data_type, sizes, out):
    return random_tensor(rng, data_type, sizes, False), random_tensor(rng, data_type, out, True)


def _number(rng, data_type):
    """A number that the type has."""
    if data_type.dtype.kind == "f":
        return float(data_type.dtype.type(rng.normal() * 10))
    bounds = np.iinfo(data_type.dtype)
    return int([bounds.min, bounds.max, 0, 7, bounds.max // 3][rng.integers(5)])


def tile(rng):
    sizes = random_sizes(rng, elements=30)
    repeats = [int(n) for n in rng.choice([1, 1, 1, 2, 3], len(sizes))]
    data_type = _type(rng, tuple(t for t in T if t != T.FLOAT64))
    return dml.TileOperatorDesc(
        *_pair(rng, data_type, sizes, [n * k for n, k in zip(sizes, repeats, strict=True)]), repeats
    )


def _around(rng):
    sizes = random_sizes(rng, elements=30)
    most = 3 if len(sizes) > 4 else 9
    start, end = ([int(rng.integers(0, most)) if rng.random() < 0.4 else 0 for _ in sizes] for _ in range(2))
    while math.prod(out := [a + n + b for a, n, b in zip(start, sizes, end, strict=True)]) > 1500:
        d = int(rng.integers(len(sizes)))
        start[d] = end[d] = 0
    return sizes, out, start, end


def padding(rng):
    sizes, out, start, end = _around(rng)
    value = float(rng.choice([0, 10.6, -3.5, 1e30, np.inf, 200]))
    return dml.PaddingOperatorDesc(*_pair(rng, _type(rng), sizes, out), str(rng.choice(MODES)), value, start, end)


def padding1(rng):
    sizes, out, start, end = _around(rng)
    data_type = _type(rng)
    return dml.Padding1OperatorDesc(
        *_pair(rng, data_type, sizes, out), str(rng.choice(MODES)), data_type, _number(rng, data_type), start, end
    )


def gather_elements(rng):
    sizes = random_sizes(rng)
    axis = int(rng.integers(len(sizes)))
    taken = [*sizes[:axis], int(rng.integers(1, 8)), *sizes[axis + 1 :]]
    x, y = _pair(rng, _type(rng), sizes, taken)
    return dml.GatherElementsOperatorDesc(x, random_tensor(rng, _type(rng, INDEX_TYPES), taken, False), y, axis)


def scatter(rng):
    sizes = random_sizes(rng)
    axis = int(rng.integers(len(sizes)))
    taken = [*sizes[:axis], int(rng.integers(1, 8)), *sizes[axis + 1 :]]
    data_type = _type(rng)
    x, y = _pair(rng, data_type, sizes, sizes)
    indices = random_tensor(rng, _type(rng, INDEX_TYPES), taken, False)
    return dml.ScatterOperatorDesc(x, indices, random_tensor(rng, data_type, taken, False), y, axis)


def _tuples(rng, batched):
    """Sizes of input, indices and what is picked, and the three counts."""
    while True:
        own, positions = random_sizes(rng, 5, 60), random_sizes(rng, 4, 12)
        batch = int(rng.integers(0, len(own))) if batched else 0
        length = int(rng.integers(1, len(own) - batch + 1))
        indices = [*own[:batch], *positions[: int(rng.integers(0, 4))], length]
        picked = [*indices[:-1], *own[batch + length :]]
        rank = max(len(own), len(indices), len(picked), 1)
        if rank <= 8 and math.prod(picked) <= 400:
            break
    rank = int(rng.integers(rank, 9)) if rng.random() < 0.3 else rank
    whole, numbers, result = ([1] * (rank - len(sizes)) + sizes for sizes in (own, indices, picked))
    return whole, numbers, result, (len(own), len(indices), batch)


def _gather_nd(rng, kind, batched):
    own, numbers, picked, counts = _tuples(rng, batched)
    x, y = _pair(rng, _type(rng), own, picked)
    indices = random_tensor(rng, _type(rng, INDEX_TYPES), numbers, False)
    return kind(x, indices, y, *counts[: 3 if batched else 2])


def gather_nd(rng):
    return _gather_nd(rng, dml.GatherNdOperatorDesc, False)


def gather_nd1(rng):
    return _gather_nd(rng, dml.GatherNd1OperatorDesc, True)


def scatter_nd(rng):
    own, numbers, picked, counts = _tuples(rng, False)
    data_type = _type(rng)
    x, y = _pair(rng, data_type, own, own)
    indices = random_tensor(rng, _type(rng, INDEX_TYPES), numbers, False)
    return dml.ScatterNdOperatorDesc(x, indices, random_tensor(rng, data_type, picked, False), y, *counts[:2])


def slice_grad(rng):
    sizes = random_sizes(rng)
    offsets, windows, steps, taken = [], [], [], []
    dense = rng.random() < 0.4
    for size in sizes:
        step = 1 if dense else int(rng.integers(1, size + 2))
        offset = int(rng.integers(0, size))
        window = int(rng.integers(1, size - offset + 1))
        most = 1 + (window - 1) // step
        if rng.random() < 0.5:
            step = INT_MIN if most == 1 and rng.random() < 0.2 else -step
        offsets.append(offset)
        windows.append(window)
        steps.append(step)
        taken.append(int(rng.integers(1, most + 1)))
    return dml.SliceGradOperatorDesc(*_pair(rng, _type(rng), taken, sizes), offsets, windows, steps)


def _depth_space(rng, to_space):
    n, c, h, w = (int(k) for k in rng.integers(1, 4, 4))
    block = int(rng.integers(1, 4))
    depth, space = [n, c * block * block, h, w], [n, c, h * block, w * block]
    return (*_pair(rng, _type(rng), *((depth, space) if to_space else (space, depth))), block)


def space_to_depth(rng):
    return dml.SpaceToDepthOperatorDesc(*_depth_space(rng, False))


def space_to_depth1(rng):
    return dml.SpaceToDepth1OperatorDesc(*_depth_space(rng, False), dml.DepthSpaceOrder(int(rng.integers(2))))


def depth_to_space(rng):
    return dml.DepthToSpaceOperatorDesc(*_depth_space(rng, True))


def depth_to_space1(rng):
    return dml.DepthToSpace1OperatorDesc(*_depth_space(rng, True), dml.DepthSpaceOrder(int(rng.integers(2))))


def _matrix(rng):
    most = 90 if rng.random() < 0.2 else 9
    batch = [int(n) for n in rng.integers(1, 3, int(rng.integers(0, 3)))]
    return [*batch, int(rng.integers(1, most)), int(rng.integers(1, most))]


def diagonal_matrix(rng):
    y = random_tensor(rng, _type(rng), _matrix(rng), True)
    return dml.DiagonalMatrixOperatorDesc(y, int(rng.integers(-9, 10)), float(rng.choice([1, 10.6, -1, 300])))


def diagonal_matrix1(rng):
    sizes, data_type = _matrix(rng), _type(rng)
    x, y = _pair(rng, data_type, sizes, sizes)
    begin, end = (int(rng.choice([INT_MIN, INT_MAX, *range(-20, 21)])) for _ in range(2))
    x = x if rng.random() < 0.6 else None
    return dml.DiagonalMatrix1OperatorDesc(x, y, data_type, _number(rng, data_type), begin, end)


def fill_value_constant(rng):
    data_type = _type(rng)
    y = random_tensor(rng, data_type, random_sizes(rng), True)
    return dml.FillValueConstantOperatorDesc(y, data_type, _number(rng, data_type))


def fill_value_sequence(rng):
    data_type = _type(rng, tuple(t for t in T if t != T.FLOAT64))
    y = random_tensor(rng, data_type, random_sizes(rng), True)
    return dml.FillValueSequenceOperatorDesc(y, data_type, _number(rng, data_type), _number(rng, data_type))


def element_wise_identity(rng):
    sizes = random_sizes(rng)
    return dml.ElementWiseIdentityOperatorDesc(*_pair(rng, _type(rng), sizes, sizes))


def reverse_subsequences(rng):
    sizes = random_sizes(rng)
    axis = int(rng.integers(len(sizes)))
    x, y = _pair(rng, _type(rng), sizes, sizes)
    lengths = random_tensor(rng, _type(rng, UNSIGNED), [*sizes[:axis], 1, *sizes[axis + 1 :]], False)
    return dml.ReverseSubsequencesOperatorDesc(x, lengths, y, axis)


def one_hot(rng):
    sizes = random_sizes(rng)
    axis = int(rng.integers(len(sizes)))
    data_type = _type(rng)
    indices = random_tensor(rng, _type(rng, INDEX_TYPES), [*sizes[:axis], 1, *sizes[axis + 1 :]], False)
    values = [1] * len(sizes)
    values[int(rng.integers(len(sizes)))] = int(rng.integers(2, 4))
    x, y = _pair(rng, data_type, values, sizes)
    return dml.OneHotOperatorDesc(indices, x, y, axis)


def element_wise_if(rng):
    sizes = random_sizes(rng)
    x, y = _pair(rng, _type(rng), sizes, sizes)
    condition = random_tensor(rng, T.UINT8, sizes, False)
    return dml.ElementWiseIfOperatorDesc(condition, x, random_tensor(rng, x.data_type, sizes, False), y)


def upsample_2d(rng):
    sizes = [int(n) for n in rng.integers(1, 4, int(rng.integers(4, 6)))]
    width, height = (int(k) for k in rng.integers(1, 4, 2))
    out = [*sizes[:-2], sizes[-2] * height, sizes[-1] * width]
    pair = _pair(rng, _type(rng, (T.FLOAT16, T.FLOAT32)), sizes, out)
    return dml.Upsample2dOperatorDesc(*pair, dml.Size2D(width, height), "NEAREST_NEIGHBOR")


def _resample(rng, kind, *more, types=(T.FLOAT16, T.FLOAT32, T.INT8, T.UINT8)):
    sizes = random_sizes(rng, 4, 60)
    scales = [float(rng.choice([1, 2, 3, 0.5, 1.5, 0.3, rng.random() * 3 + 0.05])) for _ in sizes]
    out = [max(1, int(n * scale)) + int(rng.choice([0, 0, 1, 2])) for n, scale in zip(sizes, scales, strict=True)]
    while math.prod(out) > 1500:
        out[int(rng.integers(len(out)))] = 1
    x, y = _pair(rng, _type(rng, types), sizes, out)
    if kind is dml.ResampleOperatorDesc:
        return kind(x, y, "NEAREST_NEIGHBOR", scales)
    offsets = [[float(rng.choice([0, 0.5, -0.5, rng.normal()])) for _ in sizes] for _ in range(2)]
    direction = [str(rng.choice(["INCREASING", "DECREASING"]))] if kind is not dml.Resample1OperatorDesc else []
    return kind(x, y, "NEAREST_NEIGHBOR", *direction, scales, *offsets, *more)


def resample(rng):
    return _resample(rng, dml.ResampleOperatorDesc)


def resample1(rng):
    return _resample(rng, dml.Resample1OperatorDesc)


def resample2(rng):
    return _resample(rng, dml.Resample2OperatorDesc)


def resample3(rng):
    return _resample(rng, dml.Resample3OperatorDesc, bool(rng.integers(2)))


def unfold(rng):
    while True:
        d = int(rng.integers(1, 4))
        sizes = [int(n) for n in (*rng.integers(1, 3, 2), *rng.integers(1, 6, d))]
        windows, strides, dilations = ([int(k) for k in rng.integers(1, 4, d)] for _ in range(3))
        start, end = ([int(k) for k in rng.integers(0, 3, d) * (rng.random(d) < 0.4)] for _ in range(2))
        each = zip(sizes[2:], start, end, dilations, windows, strict=True)
        reach = [s + a + b - dilation * (w - 1) - 1 for s, a, b, dilation, w in each]
        blocks = [r // stride + 1 for r, stride in zip(reach, strides, strict=True)]
        out = [sizes[0], sizes[1] * math.prod(windows), math.prod(blocks)]
        if min(reach) >= 0 and math.prod(out) < 1500:
            return dml.UnfoldOperatorDesc(*_pair(rng, _type(rng), sizes, out), windows, strides, dilations, start, end)


def nonzero_coordinates(rng):
    sizes = random_sizes(rng)
    least = max(1, len(sizes) - next((k for k, size in enumerate(sizes) if size > 1), len(sizes)))
    width = int(rng.integers(least, len(sizes) + 1))
    ranks = rng.integers(0, 7, 2)
    x = random_tensor(rng, _type(rng, BITS_32_AND_LESS), sizes, False)
    count = random_tensor(rng, T.UINT32, [1] * (1 + ranks[0]), True)
    rows = random_tensor(rng, T.UINT32, [*[1] * ranks[1], math.prod(sizes), width], True)
    return dml.NonzeroCoordinatesOperatorDesc(x, count, rows)


FAMILY = {
    make.__name__: make
    for make in (
        *(tile, padding, padding1, gather_elements, gather_nd, gather_nd1, scatter, scatter_nd, slice_grad),
        *(space_to_depth, space_to_depth1, depth_to_space, depth_to_space1, diagonal_matrix, diagonal_matrix1),
        *(fill_value_constant, fill_value_sequence, element_wise_identity, reverse_subsequences, one_hot),
        *(element_wise_if, upsample_2d, resample, resample1, resample2, resample3, unfold),
        nonzero_coordinates,
    )
}
"""What draws a desc that every rule allows at the latest level, by the operator's name in small letters."""


def fill_indices(rng, inputs):
    """Indices and lengths near what exists, some hostile, and zeros; `inputs` are names and arrays of a desc."""
    for name, array in inputs:
        if name in ("IndicesTensor", "SequenceLengthsTensor"):
            bounds = np.iinfo(array.dtype)
            near = rng.integers(-7 if bounds.min else 0, 8, array.shape)
            some = np.array([bounds.min, bounds.min + 1, bounds.max, bounds.max - 1], object)
            hostile = some[rng.integers(0, len(some), array.shape)]
            array[...] = np.where(rng.random(array.shape) < 0.1, hostile, near.astype(object)).astype(array.dtype)
        elif name == "ConditionTensor":
            array[...] = rng.integers(0, 256, array.shape) * rng.integers(0, 2, array.shape)
        elif name == "InputTensor" and rng.random() < 0.5:
            # Zeros of either sign, for who looks for them.
            array[rng.random(array.shape) < 0.5] = -0.0 if array.dtype.kind == "f" else 0
            array[rng.random(array.shape) < 0.2] = 0
