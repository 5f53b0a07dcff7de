"""Random tensors of DirectML: sizes with many 1s, strides of every kind, every data type."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.random import Generator

from anydml.tensor import DataType, TensorDesc, TensorFlags

DATA_TYPES = tuple(DataType)
BITS_64 = (DataType.FLOAT64, DataType.INT64, DataType.UINT64)
BITS_32_AND_LESS = tuple(data_type for data_type in DATA_TYPES if data_type not in BITS_64)
INDEX_TYPES = (DataType.INT32, DataType.INT64, DataType.UINT32, DataType.UINT64)


def random_sizes(rng: Generator, max_rank: int = 8, elements: int = 120) -> list[int]:
    """Draw 1 to `max_rank` sizes, with few elements in all and many 1s."""
    sizes: list[int] = []
    for _ in range(int(rng.integers(1, max_rank + 1))):
        remaining = elements // math.prod(sizes)
        sizes.append(int(rng.integers(1, max(2, min(remaining, 7) + 1))) if rng.random() < 0.75 else 1)
    return sizes


def padded_strides(rng: Generator, sizes: Sequence[int], unit: int = 1, gap: int = 3) -> list[int]:
    """Return strides of a tensor whose dimensions lie in any order with gaps between: no two elements meet."""
    strides = [0] * len(sizes)
    span = unit
    for d in rng.permutation(len(sizes)):
        strides[d] = span + int(rng.integers(0, gap))
        span += (sizes[d] - 1) * strides[d]
    return strides


def interleaved_strides(rng: Generator, sizes: Sequence[int]) -> list[int]:
    """Return small strides whose elements interleave and yet never meet, where a few tries find some."""
    for _ in range(20):
        strides = [int(s) for s in rng.integers(1, 12, len(sizes))]
        if not collides(sizes, strides):
            return strides
    return padded_strides(rng, sizes)


def collides(sizes: Sequence[int], strides: Sequence[int], element: int = 1) -> bool:
    """Whether two elements share a unit of memory, by looking at each."""
    spots = np.arange(element)
    for size, stride in zip(sizes, strides, strict=True):
        spots = (spots + stride * np.arange(size)[:, None]).reshape(-1)
    return len(set(spots.tolist())) != len(spots)


def random_tensor(rng: Generator, data_type: DataType, sizes: Sequence[int], is_output: bool) -> TensorDesc:
    """Return a desc with packed, permuted, padded, interleaved and (inputs only) broadcast or overlapping strides."""
    draw = rng.random()
    if draw < 0.25:
        strides = None
    elif draw < 0.65 or (is_output and draw < 0.85):
        strides = padded_strides(rng, sizes)
    elif is_output:
        strides = interleaved_strides(rng, sizes)
    elif draw < 0.85:
        strides = [0 if rng.random() < 0.5 else s for s in padded_strides(rng, sizes)]
    else:
        strides = [int(s) for s in rng.integers(0, 5, len(sizes))]
    flags = TensorFlags.OWNED_BY_DML if rng.random() < 0.2 else TensorFlags.NONE
    alignment = int(rng.choice([0, 8, 16, 256]))
    tensor = TensorDesc(data_type, sizes, strides, flags, None, alignment)
    if rng.random() < 0.3:
        total = tensor.minimum_size_in_bytes + int(rng.integers(0, 9))
        tensor = TensorDesc(data_type, sizes, strides, flags, total, alignment)
    return tensor


def pair(
    rng: Generator, data_type: DataType, sizes: Sequence[int], out: Sequence[int]
) -> tuple[TensorDesc, TensorDesc]:
    """Return an input and an output of one type."""
    return random_tensor(rng, data_type, sizes, False), random_tensor(rng, data_type, out, True)


def a_type(rng: Generator, types: Sequence[DataType] = DATA_TYPES) -> DataType:
    """Return a random one of some types."""
    return types[int(rng.integers(len(types)))]


def a_number(rng: Generator, data_type: DataType) -> int | float:
    """Return a number that the type has."""
    if data_type.dtype.kind == "f":
        return float(data_type.dtype.type(rng.normal() * 10))
    bounds = np.iinfo(data_type.dtype)
    return int([bounds.min, bounds.max, 0, 7, bounds.max // 3][rng.integers(5)])
