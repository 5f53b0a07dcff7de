"""Random descs of the operators that fill, choose, reverse and sample."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from numpy.random import Generator

from anydml import operators
from anydml.operators import OperatorDesc
from anydml.operators.enums import Size2D
from anydml.referee.directml.random_tensors import (
    BITS_32_AND_LESS,
    DATA_TYPES,
    INDEX_TYPES,
    a_number,
    a_type,
    pair,
    random_sizes,
    random_tensor,
)
from anydml.tensor import DataType

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
SAMPLED = (DataType.FLOAT16, DataType.FLOAT32, DataType.INT8, DataType.UINT8)
UNSIGNED = (DataType.UINT32, DataType.UINT64)


def _matrix(rng: Generator) -> list[int]:
    limit = 90 if rng.random() < 0.2 else 9
    batch = [int(n) for n in rng.integers(1, 3, int(rng.integers(0, 3)))]
    return [*batch, int(rng.integers(1, limit)), int(rng.integers(1, limit))]


def diagonal_matrix(rng: Generator) -> OperatorDesc:
    """Return a desc of DIAGONAL_MATRIX."""
    y = random_tensor(rng, a_type(rng), _matrix(rng), True)
    return operators.DiagonalMatrixOperatorDesc(y, int(rng.integers(-9, 10)), float(rng.choice([1, 10.6, -1, 300])))


def diagonal_matrix1(rng: Generator) -> OperatorDesc:
    """Return a desc of DIAGONAL_MATRIX1."""
    sizes, data_type = _matrix(rng), a_type(rng)
    x, y = pair(rng, data_type, sizes, sizes)
    begin, end = (int(rng.choice([INT_MIN, INT_MAX, *range(-20, 21)])) for _ in range(2))
    background = x if rng.random() < 0.6 else None
    return operators.DiagonalMatrix1OperatorDesc(background, y, data_type, a_number(rng, data_type), begin, end)


def fill_value_constant(rng: Generator) -> OperatorDesc:
    """Return a desc of FILL_VALUE_CONSTANT."""
    data_type = a_type(rng)
    y = random_tensor(rng, data_type, random_sizes(rng), True)
    return operators.FillValueConstantOperatorDesc(y, data_type, a_number(rng, data_type))


def fill_value_sequence(rng: Generator) -> OperatorDesc:
    """Return a desc of FILL_VALUE_SEQUENCE."""
    data_type = a_type(rng, tuple(t for t in DATA_TYPES if t != DataType.FLOAT64))
    y = random_tensor(rng, data_type, random_sizes(rng), True)
    return operators.FillValueSequenceOperatorDesc(y, data_type, a_number(rng, data_type), a_number(rng, data_type))


def element_wise_identity(rng: Generator) -> OperatorDesc:
    """Return a desc of ELEMENT_WISE_IDENTITY."""
    sizes = random_sizes(rng)
    return operators.ElementWiseIdentityOperatorDesc(*pair(rng, a_type(rng), sizes, sizes))


def reverse_subsequences(rng: Generator) -> OperatorDesc:
    """Return a desc of REVERSE_SUBSEQUENCES."""
    sizes = random_sizes(rng)
    axis = int(rng.integers(len(sizes)))
    x, y = pair(rng, a_type(rng), sizes, sizes)
    lengths = random_tensor(rng, a_type(rng, UNSIGNED), [*sizes[:axis], 1, *sizes[axis + 1 :]], False)
    return operators.ReverseSubsequencesOperatorDesc(x, lengths, y, axis)


def one_hot(rng: Generator) -> OperatorDesc:
    """Return a desc of ONE_HOT."""
    sizes = random_sizes(rng)
    axis = int(rng.integers(len(sizes)))
    data_type = a_type(rng)
    indices = random_tensor(rng, a_type(rng, INDEX_TYPES), [*sizes[:axis], 1, *sizes[axis + 1 :]], False)
    values = [1] * len(sizes)
    values[int(rng.integers(len(sizes)))] = int(rng.integers(2, 4))
    x, y = pair(rng, data_type, values, sizes)
    return operators.OneHotOperatorDesc(indices, x, y, axis)


def element_wise_if(rng: Generator) -> OperatorDesc:
    """Return a desc of ELEMENT_WISE_IF."""
    sizes = random_sizes(rng)
    x, y = pair(rng, a_type(rng), sizes, sizes)
    condition = random_tensor(rng, DataType.UINT8, sizes, False)
    return operators.ElementWiseIfOperatorDesc(condition, x, random_tensor(rng, x.data_type, sizes, False), y)


def upsample_2d(rng: Generator) -> OperatorDesc:
    """Return a desc of UPSAMPLE_2D."""
    sizes = [int(n) for n in rng.integers(1, 4, int(rng.integers(4, 6)))]
    width, height = (int(k) for k in rng.integers(1, 4, 2))
    out = [*sizes[:-2], sizes[-2] * height, sizes[-1] * width]
    x, y = pair(rng, a_type(rng, (DataType.FLOAT16, DataType.FLOAT32)), sizes, out)
    return operators.Upsample2dOperatorDesc(x, y, Size2D(width, height), "NEAREST_NEIGHBOR")


def _resample(
    rng: Generator, desc_class: Callable[..., OperatorDesc], *flags: bool, types: Sequence[DataType] = SAMPLED
) -> OperatorDesc:
    sizes = random_sizes(rng, 4, 60)
    scales = [float(rng.choice([1, 2, 3, 0.5, 1.5, 0.3, rng.random() * 3 + 0.05])) for _ in sizes]
    out = [max(1, int(n * scale)) + int(rng.choice([0, 0, 1, 2])) for n, scale in zip(sizes, scales, strict=True)]
    while math.prod(out) > 1500:
        out[int(rng.integers(len(out)))] = 1
    x, y = pair(rng, a_type(rng, types), sizes, out)
    if desc_class is operators.ResampleOperatorDesc:
        return desc_class(x, y, "NEAREST_NEIGHBOR", scales)
    offsets = [[float(rng.choice([0, 0.5, -0.5, rng.normal()])) for _ in sizes] for _ in range(2)]
    direction = (
        [str(rng.choice(["INCREASING", "DECREASING"]))] if desc_class is not operators.Resample1OperatorDesc else []
    )
    return desc_class(x, y, "NEAREST_NEIGHBOR", *direction, scales, *offsets, *flags)


def resample(rng: Generator) -> OperatorDesc:
    """Return a desc of RESAMPLE."""
    return _resample(rng, operators.ResampleOperatorDesc)


def resample1(rng: Generator) -> OperatorDesc:
    """Return a desc of RESAMPLE1."""
    return _resample(rng, operators.Resample1OperatorDesc)


def resample2(rng: Generator) -> OperatorDesc:
    """Return a desc of RESAMPLE2."""
    return _resample(rng, operators.Resample2OperatorDesc)


def resample3(rng: Generator) -> OperatorDesc:
    """Return a desc of RESAMPLE3."""
    return _resample(rng, operators.Resample3OperatorDesc, bool(rng.integers(2)))


def unfold(rng: Generator) -> OperatorDesc:
    """Return a desc of UNFOLD."""
    while True:
        d = int(rng.integers(1, 4))
        sizes = [int(n) for n in (*rng.integers(1, 3, 2), *rng.integers(1, 6, d))]
        windows, strides, dilations = ([int(k) for k in rng.integers(1, 4, d)] for _ in range(3))
        start, end = ([int(k) for k in rng.integers(0, 3, d) * (rng.random(d) < 0.4)] for _ in range(2))
        columns = zip(sizes[2:], start, end, dilations, windows, strict=True)
        reach = [s + a + b - dilation * (w - 1) - 1 for s, a, b, dilation, w in columns]
        blocks = [r // stride + 1 for r, stride in zip(reach, strides, strict=True)]
        out = [sizes[0], sizes[1] * math.prod(windows), math.prod(blocks)]
        if min(reach) >= 0 and math.prod(out) < 1500:
            return operators.UnfoldOperatorDesc(
                *pair(rng, a_type(rng), sizes, out), windows, strides, dilations, start, end
            )


def nonzero_coordinates(rng: Generator) -> OperatorDesc:
    """Return a desc of NONZERO_COORDINATES."""
    sizes = random_sizes(rng)
    columns = max(1, len(sizes) - next((k for k, size in enumerate(sizes) if size > 1), len(sizes)))
    width = int(rng.integers(columns, len(sizes) + 1))
    ranks = rng.integers(0, 7, 2)
    x = random_tensor(rng, a_type(rng, BITS_32_AND_LESS), sizes, False)
    count = random_tensor(rng, DataType.UINT32, [1] * (1 + ranks[0]), True)
    rows = random_tensor(rng, DataType.UINT32, [*[1] * ranks[1], math.prod(sizes), width], True)
    return operators.NonzeroCoordinatesOperatorDesc(x, count, rows)
