"""A whole and its parts along an axis: rules that SPLIT, JOIN, SplitTraining and ConcatTraining share."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from anydml.operators.base import Coordinate, OperatorDesc, Problem, TensorDesc
from anydml.tensor import DataType
from anydml.text import count_noun


def part_elements(parts: Sequence[TensorDesc], axis: int) -> Iterator[tuple[int, Coordinate, Coordinate]]:
    """Yield, for every element of every part, the part's number and the coordinates in the part and in the whole."""
    start = 0
    for part_number, part in enumerate(parts):
        for at in itertools.product(*map(range, part.sizes)):
            yield part_number, at, (*at[:axis], start + at[axis], *at[axis + 1 :])
        start += part.sizes[axis]


def part_problems(
    desc: OperatorDesc, joined: tuple[str, TensorDesc], parts: Sequence[tuple[str, TensorDesc]], axis: int
) -> Iterator[Problem]:
    """Check the rules of DML_SPLIT_OPERATOR_DESC's pseudocode: sizes add up along `axis`; others are equal."""
    name, tensor = joined
    array = parts[0][0].partition("[")[0]
    for part_name, part in parts:
        for d, (size, expected) in enumerate(zip(part.sizes, tensor.sizes, strict=True)):
            if d != axis and size != expected:
                message = f"{part_name}.Sizes[{d}] is {size}, but {name}.Sizes[{d}] is {expected}"
                rule = f"{array} must have the sizes of {name} in every dimension but Axis"
                yield desc.problem(f"{part_name}.Sizes[{d}]", message, rule)
    total = sum(part.sizes[axis] for _, part in parts)
    if total != tensor.sizes[axis]:
        message = f"{array} sizes along Axis {axis} add up to {total}, but {name}.Sizes[{axis}] is {tensor.sizes[axis]}"
        yield desc.problem(
            f"{array}.Sizes[{axis}]", message, f"the sizes of {array} along Axis must add up to {name}'s"
        )


class Training(OperatorDesc):
    """Base class of SplitTraining and ConcatTraining: a negative Axis counts from the end; sizes are a host tensor."""

    __slots__ = ()

    axis: int

    @property
    def positive_axis(self) -> int:
        """Axis, counted from 0."""
        return self.axis + len(getattr(self, self.SAME[0]).sizes) if self.axis < 0 else self.axis

    def axis_problems(self, tensor: str, dimensions: int) -> Iterator[Problem]:
        """Check that Axis is one of the dimensions; negative ones count from the end."""
        if not -dimensions <= self.axis < dimensions:
            message = f"Axis is {self.axis}, but the rank is {dimensions}"
            yield self.problem("Axis", message, f"Axis must be {-dimensions} to {dimensions - 1}")

    def lengths_are(self, name: str, tensor: TensorDesc | None, count: int) -> Iterator[Problem]:
        """Check that a tensor on the host, if there is one, is INT64, with one dimension and one entry per part."""
        if tensor is None:
            return
        yield from self.type_is(name, tensor, (DataType.INT64,))
        if tensor.sizes != (count,):
            message = f"{name}.Sizes is {list(tensor.sizes)} for {count_noun(count, 'part')}"
            yield self.problem(f"{name}.Sizes", message, f"{name} must have one dimension, one entry per part")
