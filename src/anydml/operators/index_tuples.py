"""Index tensors whose last dimension holds coordinates, as in GATHER_ND and SCATTER_ND.

X = the input's last InputDimensionCount sizes        I = the indices' last IndicesDimensionCount sizes
t = I[-1], coordinates of one index                   b = BatchDimensionCount, 0 if the operator has none
picked sizes: I[:-1] ++ X[b+t:], right-aligned in DimensionCount
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from anydml.fields import check_dimensions
from anydml.operators.base import Coordinate, OperatorDesc, Problem, ReadIndex, TensorDesc
from anydml.operators.function import Sizes
from anydml.operators.rule import DescError, Maker, View, holds
from anydml.text import count_noun


class DimensionCounts(NamedTuple):
    """The three counts: InputDimensionCount, IndicesDimensionCount, BatchDimensionCount."""

    input: int
    indices: int
    batch: int = 0


def count_problems(
    desc: OperatorDesc, data: TensorDesc, indices: TensorDesc, counts: DimensionCounts
) -> Iterator[Problem]:
    """Check that counts are in range, preceding dimensions 1, batch sizes equal, and tuples not too long."""
    rank = len(data.sizes)
    broken = False
    for field, count in (("InputDimensionCount", counts.input), ("IndicesDimensionCount", counts.indices)):
        if not 1 <= count <= rank:
            broken = True
            message = f"{field} is {count}, but the tensors have {count_noun(rank, 'dimension')}"
            yield desc.problem(field, message, f"{field} must be 1 to DimensionCount")
    if not broken and not 0 <= counts.batch < min(counts.input, counts.indices):
        broken = True
        rule = "BatchDimensionCount must be less than InputDimensionCount and IndicesDimensionCount"
        yield desc.problem("BatchDimensionCount", f"BatchDimensionCount is {counts.batch}", rule)
    if broken:
        return
    for field, sizes, count in (
        ("InputTensor", data.sizes, counts.input),
        ("IndicesTensor", indices.sizes, counts.indices),
    ):
        if any(size != 1 for size in sizes[: rank - count]):
            message = f"{field}.Sizes is {list(sizes)}, but its first {rank - count} must be 1"
            noun = field.removesuffix("Tensor")
            yield desc.problem(f"{field}.Sizes", message, f"dimensions before the last {noun}DimensionCount must be 1")
    data_sizes, index = _sizes(data, indices, counts)
    if data_sizes[: counts.batch] != index[: counts.batch]:
        message = f"IndicesTensor.Sizes has the batch {list(index[: counts.batch])}, but InputTensor.Sizes has "
        message += f"{list(data_sizes[: counts.batch])}"
        yield desc.problem("IndicesTensor.Sizes", message, "the first BatchDimensionCount sizes must agree")
    max_length = counts.input - counts.batch
    if index[-1] > max_length:
        message = f"IndicesTensor.Sizes[{rank - 1}] is {index[-1]}, for {count_noun(max_length, 'dimension')}"
        yield desc.problem(
            "IndicesTensor.Sizes",
            message,
            "an index must have at most one coordinate per dimension of InputTensor after the batch",
        )


def picked_sizes(data: TensorDesc, indices: TensorDesc, counts: DimensionCounts) -> tuple[int, ...]:
    """Return ``I[:-1] ++ X[b+t:]``, before right-alignment."""
    data_sizes, index = _sizes(data, indices, counts)
    return (*index[:-1], *data_sizes[counts.batch + index[-1] :])


def picked_problems(desc: OperatorDesc, tensor: tuple[str, TensorDesc], sizes: tuple[int, ...]) -> Iterator[Problem]:
    """Check that a tensor has the picked sizes, right-aligned."""
    name, picked = tensor
    count = len(picked.sizes)
    if len(sizes) > count:
        message = f"the picked sizes {list(sizes)} do not fit {name}'s {count_noun(count, 'dimension')}"
        yield desc.problem(f"{name}.Sizes", message, "the picked sizes must have at most DimensionCount dimensions")
        return
    rule = "sizes must be IndicesTensor's but the last, then InputTensor's that are not indexed, right-aligned"
    yield from desc.sizes_are(name, picked, (1,) * (count - len(sizes)) + sizes, rule)


def _sizes(data: TensorDesc, indices: TensorDesc, counts: DimensionCounts) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = len(data.sizes)
    return data.sizes[rank - counts.input :], indices.sizes[rank - counts.indices :]


def drop_leading_dimensions(make: Maker, x: View, count: int) -> View:
    """Drop the dimensions of size 1 before the last `count`."""
    for _ in range(x.rank - count):
        x = make.at(x, 0, 0)
    return x


def picked_elements(
    read: ReadIndex, data: TensorDesc, indices: TensorDesc, counts: DimensionCounts
) -> Iterator[tuple[Coordinate, tuple[int, ...], tuple[int, ...]]]:
    """Yield, for every picked element, its coordinate, the wrapped coordinate in the input, and the input's sizes.

    Coordinates are right-aligned in DimensionCount; those in the input may be out of range.
    """
    rank = len(data.sizes)
    data_sizes, index = _sizes(data, indices, counts)
    length = index[-1]
    trailing_sizes = data_sizes[counts.batch + length :]
    for c in itertools.product(*map(range, index[:-1])):
        leading_zeros = (0,) * (rank - counts.indices)
        coordinates = []
        for q in range(length):
            i = read(1, (*leading_zeros, *c, q))
            coordinates.append(i + data_sizes[counts.batch + q] if i < 0 else i)
        for r in itertools.product(*map(range, trailing_sizes)):
            at = (*c, *r)
            inside = (*c[: counts.batch], *coordinates, *r)
            yield (0,) * (rank - len(at)) + at, (0,) * (rank - len(inside)) + inside, data.sizes


def _have_equal_sizes(shape: Sizes, other_shape: Sizes, count: int) -> bool:
    for d in range(count):  # noqa: SIM110  # compiled, too
        if not holds(shape[d] == other_shape[d]):
            return False
    return True


def check_tuples(name: str, shape: Sizes, indices: Sizes, batch_dims: int) -> Sizes:
    """Check the arguments of a function with coordinates; return the picked sizes.

    Raises:
        DescError: an index has no coordinates or too many, batch sizes differ, or the result has more than 64
            dimensions.
    """
    last: int = len(indices) - 1
    if last < 0:
        raise DescError(
            f"{name}: indices are a scalar",
            name,
            "indices",
            "indices must have a last dimension, which holds the coordinates",
        )
    if not 0 <= batch_dims <= last or batch_dims > len(shape):
        have = f"x has {count_noun(len(shape), 'dimension')} and indices {len(indices)}"
        message = f"{name}: batch_dims is {batch_dims}, but {have}"
        raise DescError(
            message, name, "batch_dims", "batch_dims must be less than the indices' dimensions, at most x's"
        )
    if not _have_equal_sizes(shape, indices, batch_dims):
        message = f"{name}: indices have the batch {tuple(indices[:batch_dims])}, but x {tuple(shape[:batch_dims])}"
        raise DescError(message, name, "indices", "the first batch_dims sizes must agree")
    length: int = int(indices[last])
    if length > len(shape) - batch_dims:
        dimensions = count_noun(len(shape) - batch_dims, "dimension")
        message = f"{name}: indices have {count_noun(length, 'coordinate')} for {dimensions}"
        raise DescError(
            message, name, "indices", "an index must have at most one coordinate per axis of x after the batch"
        )
    shift: int = batch_dims + length - last
    picked: Sizes = tuple([indices[d] if d < last else shape[d + shift] for d in range(len(shape) - shift)])
    check_dimensions(name, "the result", len(picked))
    return picked
