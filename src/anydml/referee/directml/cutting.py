"""Random descs of the operators that cut, join, slice and gather."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.random import Generator

from anydml import operators
from anydml.operators import OperatorDesc
from anydml.referee.directml.random_tensors import BITS_32_AND_LESS, INDEX_TYPES, random_sizes, random_tensor
from anydml.tensor import DataType, TensorDesc

OPERATORS = ("split", "join", "slice", "slice1", "gather", "split_training", "concat_training")

Make = Callable[..., TensorDesc]


def random_parts(rng: Generator, size: int) -> list[int]:
    """Return sizes of at least 1 that add up."""
    cuts = np.flatnonzero(rng.random(size - 1) < 0.4) + 1
    return [int(n) for n in np.diff([0, *cuts, size])]


def random_desc(rng: Generator, operator: str) -> OperatorDesc:
    """Return a desc of `operator` that every rule allows at the latest level."""
    types = BITS_32_AND_LESS if operator == "split" else tuple(DataType)
    data_type = types[rng.integers(len(types))]
    sizes = random_sizes(rng)

    def tensor(shape: Sequence[int], is_output: bool, data_type: DataType = data_type) -> TensorDesc:
        return random_tensor(rng, data_type, shape, is_output)

    if operator in ("slice", "slice1"):
        return _random_slice(rng, operator, sizes, tensor)
    if operator == "gather":
        return _random_gather(rng, sizes, tensor)
    axis = int(rng.integers(len(sizes)))
    lengths = random_parts(rng, sizes[axis])
    if operator == "split_training" and rng.random() < 0.3:
        lengths = [1] * sizes[axis]
    shapes = [[*sizes[:axis], n, *sizes[axis + 1 :]] for n in lengths]
    signed_axis = axis - len(sizes) if rng.random() < 0.5 else axis
    if operator == "split":
        return operators.SplitOperatorDesc(tensor(sizes, False), [tensor(s, True) for s in shapes], axis)
    if operator == "join":
        return operators.JoinOperatorDesc([tensor(s, False) for s in shapes], tensor(sizes, True), axis)
    numbers = tensor([len(lengths)], operator == "concat_training", DataType.INT64) if rng.random() < 0.7 else None
    if operator == "concat_training":
        parts = [tensor(s, False) for s in shapes]
        return operators.ConcatTrainingOperatorDesc(parts, tensor(sizes, True), numbers, signed_axis)
    if len(set(lengths)) > 1 or numbers is not None:
        numbers = TensorDesc(DataType.INT64, [len(lengths)], [int(rng.integers(1, 4))])
    return operators.SplitTrainingOperatorDesc(
        tensor(sizes, False), numbers, [tensor(s, True) for s in shapes], signed_axis
    )


def _random_slice(rng: Generator, operator: str, sizes: list[int], make_tensor: Make) -> OperatorDesc:
    offsets, windows, steps, result_sizes = [], [], [], []
    for size in sizes:
        step = int(rng.integers(1, size + 2))
        offset = int(rng.integers(0, size))
        window = int(rng.integers(1, size - offset + 1))
        limit = 1 + (window - 1) // step
        if operator == "slice1" and rng.random() < 0.5:
            step = -(2**31) if limit == 1 and rng.random() < 0.2 else -step
        offsets.append(offset)
        windows.append(window)
        steps.append(step)
        result_sizes.append(int(rng.integers(1, limit + 1)))
    x, y = make_tensor(sizes, False), make_tensor(result_sizes, True)
    if operator == "slice":
        return operators.SliceOperatorDesc(x, y, offsets, result_sizes, steps)
    return operators.Slice1OperatorDesc(x, y, offsets, windows, steps)


def _random_gather(rng: Generator, sizes: list[int], make_tensor: Make) -> OperatorDesc:
    rank, axis = len(sizes), int(rng.integers(len(sizes)))
    leading_ones = next(d for d, size in enumerate(sizes) if size != 1 or d == axis)
    meaningful = random_sizes(rng, 8, 12)[: int(rng.integers(0, leading_ones + 2))]
    more_ones = int(rng.integers(0, rank - len(meaningful) + 1)) if rng.random() < 0.3 else 0
    indices = [1] * more_ones + meaningful
    overflow = max(0, len(indices) - 1)
    from_lead = min(overflow, leading_ones)
    output = [*sizes[from_lead:axis], *indices[overflow - from_lead :], *sizes[axis + 1 :]]
    x, y = make_tensor(sizes, False), make_tensor([1] * (rank - len(output)) + output, True)
    index_tensor = make_tensor([1] * (rank - len(indices)) + indices, False, INDEX_TYPES[rng.integers(4)])
    return operators.GatherOperatorDesc(x, index_tensor, y, axis, len(indices))
