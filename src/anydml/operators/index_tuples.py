"""Index tensors whose last dimension holds coordinates, as in GATHER_ND and SCATTER_ND.

X = the input's last InputDimensionCount sizes        I = the indices' last IndicesDimensionCount sizes
t = I[-1], coordinates of one index                   b = BatchDimensionCount, 0 if the operator has none
picked sizes: I[:-1] ++ X[b+t:], right-aligned in DimensionCount
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from anydml.fields import check_dimensions
from anydml.operators.base import Coordinate, OperatorDesc, Problem, ReadIndex, TensorDesc
from anydml.operators.function import Sizes
from anydml.operators.problem import camel
from anydml.operators.rule import DescError, Maker, View
from anydml.symbols import are_equal
from anydml.text import count_noun


class TupleDesc(OperatorDesc):
    """Base class of the descs with coordinates; the second tensor of `SAME` has the picked sizes."""

    __slots__ = ()

    input_tensor: TensorDesc
    indices_tensor: TensorDesc
    input_dimension_count: int
    indices_dimension_count: int

    @property
    def batch(self) -> int:
        """BatchDimensionCount."""
        return getattr(self, "batch_dimension_count", 0)

    @property
    def input_sizes(self) -> Sizes:
        """X."""
        sizes = self.input_tensor.sizes
        return sizes[len(sizes) - self.input_dimension_count :]

    @property
    def index_sizes(self) -> Sizes:
        """I."""
        sizes = self.indices_tensor.sizes
        return sizes[len(sizes) - self.indices_dimension_count :]

    @property
    def picked_sizes(self) -> Sizes:
        """``I[:-1] ++ X[b+t:]``, before right-alignment."""
        return (*self.index_sizes[:-1], *self.input_sizes[self.batch + self.index_sizes[-1] :])

    def constraints(self) -> Iterator[Problem]:
        """Check that counts are in range, preceding dimensions 1, batch sizes equal, tuples not too long, and sizes."""
        broken = [*self._count_problems()] or [*self._index_problems()]
        yield from broken
        if broken:
            return
        field, sizes, count = self.SAME[1], self.picked_sizes, len(self.input_tensor.sizes)
        if len(sizes) > count:
            message = f"the picked sizes {list(sizes)} do not fit {camel(field)}'s {count_noun(count, 'dimension')}"
            rule = "the picked sizes must have at most DimensionCount dimensions"
            yield self.problem(f"{camel(field)}.Sizes", message, rule)
            return
        rule = "sizes must be IndicesTensor's but the last, then InputTensor's that are not indexed, right-aligned"
        yield from self.sizes_are(field, (1,) * (count - len(sizes)) + sizes, rule)

    def _count_problems(self) -> Iterator[Problem]:
        rank, counts = len(self.input_tensor.sizes), (self.input_dimension_count, self.indices_dimension_count)
        for field, count in zip(("InputDimensionCount", "IndicesDimensionCount"), counts, strict=True):
            if not 1 <= count <= rank:
                message = f"{field} is {count}, but the tensors have {count_noun(rank, 'dimension')}"
                yield self.problem(field, message, f"{field} must be 1 to DimensionCount")
        if all(1 <= count <= rank for count in counts) and not 0 <= self.batch < min(counts):
            rule = "BatchDimensionCount must be less than InputDimensionCount and IndicesDimensionCount"
            yield self.problem("BatchDimensionCount", f"BatchDimensionCount is {self.batch}", rule)

    def _index_problems(self) -> Iterator[Problem]:
        for noun, tensor, count in (
            ("Input", self.input_tensor, self.input_dimension_count),
            ("Indices", self.indices_tensor, self.indices_dimension_count),
        ):
            ignored = len(tensor.sizes) - count
            if any(size != 1 for size in tensor.sizes[:ignored]):
                message = f"{noun}Tensor.Sizes is {list(tensor.sizes)}, but its first {ignored} must be 1"
                rule = f"dimensions before the last {noun}DimensionCount must be 1"
                yield self.problem(f"{noun}Tensor.Sizes", message, rule)
        batch, index_batch = self.input_sizes[: self.batch], self.index_sizes[: self.batch]
        if batch != index_batch:
            message = f"IndicesTensor.Sizes has the batch {list(index_batch)}, but InputTensor.Sizes has {list(batch)}"
            yield self.problem("IndicesTensor.Sizes", message, "the first BatchDimensionCount sizes must agree")
        length, max_length = self.index_sizes[-1], self.input_dimension_count - self.batch
        if length > max_length:
            last = len(self.indices_tensor.sizes) - 1
            message = f"IndicesTensor.Sizes[{last}] is {length}, for {count_noun(max_length, 'dimension')}"
            rule = "an index must have at most one coordinate per dimension of InputTensor after the batch"
            yield self.problem("IndicesTensor.Sizes", message, rule)

    def picked_elements(self, read: ReadIndex) -> Iterator[tuple[Coordinate, Coordinate]]:
        """Yield, for every picked element, its coordinate, and the wrapped coordinate in the input.

        Coordinates are right-aligned in DimensionCount; those in the input may be out of range.
        """
        rank, sizes, index = len(self.input_tensor.sizes), self.input_sizes, self.index_sizes
        end = self.batch + index[-1]
        for c in itertools.product(*map(range, index[:-1])):
            before = (0,) * (rank - len(index))
            wrapped = [read(1, (*before, *c, q)) for q in range(index[-1])]
            wrapped = [i + n if i < 0 else i for i, n in zip(wrapped, sizes[self.batch : end], strict=True)]
            for r in itertools.product(*map(range, sizes[end:])):
                at, inside = (*c, *r), (*c[: self.batch], *wrapped, *r)
                yield (0,) * (rank - len(at)) + at, (0,) * (rank - len(inside)) + inside


def drop_leading_dimensions(maker: Maker, x: View, count: int) -> View:
    """Drop the dimensions of size 1 before the last `count`."""
    for _ in range(x.rank - count):
        x = maker.at(x, 0, 0)
    return x


def check_tuples(name: str, shape: Sizes, indices: Sizes, batch_dims: int) -> Sizes:
    """Check the arguments of a function with coordinates; return the picked sizes.

    Raises:
        DescError: an index has no coordinates or too many, batch sizes differ, or the result has more than 64
            dimensions.
    """
    last: int = len(indices) - 1
    if last < 0:
        rule = "indices must have a last dimension, which holds the coordinates"
        raise DescError(f"{name}: indices are a scalar", name, "indices", rule)
    if not 0 <= batch_dims <= last or batch_dims > len(shape):
        have = f"x has {count_noun(len(shape), 'dimension')} and indices {len(indices)}"
        message = f"{name}: batch_dims is {batch_dims}, but {have}"
        raise DescError(
            message, name, "batch_dims", "batch_dims must be less than the indices' dimensions, at most x's"
        )
    batch: Sizes = tuple([shape[d] for d in range(batch_dims)])
    index_batch: Sizes = tuple([indices[d] for d in range(batch_dims)])
    if not are_equal(index_batch, batch):
        message = f"{name}: indices have the batch {index_batch}, but x {batch}"
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
