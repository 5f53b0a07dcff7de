"""Random descs of the operators that move by indices, windows, padding and blocks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from anydml import operators
from anydml.operators import OperatorDesc
from anydml.operators.enums import DepthSpaceOrder
from anydml.referee.directml.random_tensors import (
    DATA_TYPES,
    INDEX_TYPES,
    a_number,
    a_type,
    pair,
    random_sizes,
    random_tensor,
)
from anydml.tensor import DataType, TensorDesc

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
MODES = ("CONSTANT", "EDGE", "REFLECTION", "SYMMETRIC", "WRAP")


def tile(rng: Generator) -> OperatorDesc:
    """Return a desc of TILE."""
    sizes = random_sizes(rng, elements=30)
    repeats = [int(n) for n in rng.choice([1, 1, 1, 2, 3], len(sizes))]
    data_type = a_type(rng, tuple(t for t in DATA_TYPES if t != DataType.FLOAT64))
    return operators.TileOperatorDesc(
        *pair(rng, data_type, sizes, [n * k for n, k in zip(sizes, repeats, strict=True)]), repeats
    )


def _window_fields(rng: Generator) -> tuple[list[int], list[int], list[int], list[int]]:
    sizes = random_sizes(rng, elements=30)
    limit = 3 if len(sizes) > 4 else 9
    start, end = ([int(rng.integers(0, limit)) if rng.random() < 0.4 else 0 for _ in sizes] for _ in range(2))
    while math.prod(out := [a + n + b for a, n, b in zip(start, sizes, end, strict=True)]) > 1500:
        d = int(rng.integers(len(sizes)))
        start[d] = end[d] = 0
    return sizes, out, start, end


def padding(rng: Generator) -> OperatorDesc:
    """Return a desc of PADDING."""
    sizes, out, start, end = _window_fields(rng)
    value = float(rng.choice([0, 10.6, -3.5, 1e30, np.inf, 200]))
    return operators.PaddingOperatorDesc(*pair(rng, a_type(rng), sizes, out), str(rng.choice(MODES)), value, start, end)


def padding1(rng: Generator) -> OperatorDesc:
    """Return a desc of PADDING1."""
    sizes, out, start, end = _window_fields(rng)
    data_type = a_type(rng)
    return operators.Padding1OperatorDesc(
        *pair(rng, data_type, sizes, out), str(rng.choice(MODES)), data_type, a_number(rng, data_type), start, end
    )


def gather_elements(rng: Generator) -> OperatorDesc:
    """Return a desc of GATHER_ELEMENTS."""
    sizes = random_sizes(rng)
    axis = int(rng.integers(len(sizes)))
    index_sizes = [*sizes[:axis], int(rng.integers(1, 8)), *sizes[axis + 1 :]]
    x, y = pair(rng, a_type(rng), sizes, index_sizes)
    return operators.GatherElementsOperatorDesc(
        x, random_tensor(rng, a_type(rng, INDEX_TYPES), index_sizes, False), y, axis
    )


def scatter(rng: Generator) -> OperatorDesc:
    """Return a desc of SCATTER."""
    sizes = random_sizes(rng)
    axis = int(rng.integers(len(sizes)))
    index_sizes = [*sizes[:axis], int(rng.integers(1, 8)), *sizes[axis + 1 :]]
    data_type = a_type(rng)
    x, y = pair(rng, data_type, sizes, sizes)
    indices = random_tensor(rng, a_type(rng, INDEX_TYPES), index_sizes, False)
    return operators.ScatterOperatorDesc(x, indices, random_tensor(rng, data_type, index_sizes, False), y, axis)


def _tuples(rng: Generator, batched: bool) -> tuple[list[int], list[int], list[int], tuple[int, int, int]]:
    """Return the sizes of the input, indices and picked elements, and the three counts."""
    while True:
        data_sizes, positions = random_sizes(rng, 5, 60), random_sizes(rng, 4, 12)
        batch = int(rng.integers(0, len(data_sizes))) if batched else 0
        length = int(rng.integers(1, len(data_sizes) - batch + 1))
        indices = [*data_sizes[:batch], *positions[: int(rng.integers(0, 4))], length]
        picked = [*indices[:-1], *data_sizes[batch + length :]]
        rank = max(len(data_sizes), len(indices), len(picked), 1)
        if rank <= 8 and math.prod(picked) <= 400:
            break
    rank = int(rng.integers(rank, 9)) if rng.random() < 0.3 else rank
    data_dimensions, numbers, result = ([1] * (rank - len(sizes)) + sizes for sizes in (data_sizes, indices, picked))
    return data_dimensions, numbers, result, (len(data_sizes), len(indices), batch)


def _gather_nd(rng: Generator, desc_class: Callable[..., OperatorDesc], batched: bool) -> OperatorDesc:
    sizes, numbers, picked, counts = _tuples(rng, batched)
    x, y = pair(rng, a_type(rng), sizes, picked)
    indices = random_tensor(rng, a_type(rng, INDEX_TYPES), numbers, False)
    return desc_class(x, indices, y, *counts[: 3 if batched else 2])


def gather_nd(rng: Generator) -> OperatorDesc:
    """Return a desc of GATHER_ND."""
    return _gather_nd(rng, operators.GatherNdOperatorDesc, False)


def gather_nd1(rng: Generator) -> OperatorDesc:
    """Return a desc of GATHER_ND1."""
    return _gather_nd(rng, operators.GatherNd1OperatorDesc, True)


def scatter_nd(rng: Generator) -> OperatorDesc:
    """Return a desc of SCATTER_ND."""
    sizes, numbers, picked, counts = _tuples(rng, False)
    data_type = a_type(rng)
    x, y = pair(rng, data_type, sizes, sizes)
    indices = random_tensor(rng, a_type(rng, INDEX_TYPES), numbers, False)
    return operators.ScatterNdOperatorDesc(x, indices, random_tensor(rng, data_type, picked, False), y, *counts[:2])


def slice_grad(rng: Generator) -> OperatorDesc:
    """Return a desc of SLICE_GRAD."""
    sizes = random_sizes(rng)
    offsets, windows, steps, result_sizes = [], [], [], []
    dense = rng.random() < 0.4
    for size in sizes:
        step = 1 if dense else int(rng.integers(1, size + 2))
        offset = int(rng.integers(0, size))
        window = int(rng.integers(1, size - offset + 1))
        limit = 1 + (window - 1) // step
        if rng.random() < 0.5:
            step = INT_MIN if limit == 1 and rng.random() < 0.2 else -step
        offsets.append(offset)
        windows.append(window)
        steps.append(step)
        result_sizes.append(int(rng.integers(1, limit + 1)))
    return operators.SliceGradOperatorDesc(*pair(rng, a_type(rng), result_sizes, sizes), offsets, windows, steps)


def _depth_space(rng: Generator, to_space: bool) -> tuple[TensorDesc, TensorDesc, int]:
    n, c, h, w = (int(k) for k in rng.integers(1, 4, 4))
    block = int(rng.integers(1, 4))
    depth, space = [n, c * block * block, h, w], [n, c, h * block, w * block]
    return (*pair(rng, a_type(rng), *((depth, space) if to_space else (space, depth))), block)


def space_to_depth(rng: Generator) -> OperatorDesc:
    """Return a desc of SPACE_TO_DEPTH."""
    return operators.SpaceToDepthOperatorDesc(*_depth_space(rng, False))


def space_to_depth1(rng: Generator) -> OperatorDesc:
    """Return a desc of SPACE_TO_DEPTH1."""
    return operators.SpaceToDepth1OperatorDesc(*_depth_space(rng, False), order=DepthSpaceOrder(int(rng.integers(2))))


def depth_to_space(rng: Generator) -> OperatorDesc:
    """Return a desc of DEPTH_TO_SPACE."""
    return operators.DepthToSpaceOperatorDesc(*_depth_space(rng, True))


def depth_to_space1(rng: Generator) -> OperatorDesc:
    """Return a desc of DEPTH_TO_SPACE1."""
    return operators.DepthToSpace1OperatorDesc(*_depth_space(rng, True), order=DepthSpaceOrder(int(rng.integers(2))))
