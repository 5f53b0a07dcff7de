"""SWAP_HALVES: the second half of an axis, then the first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import ClassVar

from anydml import infer
from anydml.moves.program import Element, ReadIndex
from anydml.operators.base import OperatorDesc
from anydml.operators.function import Array, Parameters, Sizes, function
from anydml.operators.problem import Problem
from anydml.operators.rule import Maker, View, int64, rule
from anydml.records import record
from anydml.tensor import TensorDesc


@rule
def halves_rule(maker: Maker, x: View, axis: int) -> None:
    """Two cuts."""
    half: int64 = x.sizes[axis] // 2
    to: View = maker.result(maker.sizes(x))
    maker.copy(maker.cut(to, axis, half, half, 1), maker.cut(x, axis, 0, half, 1))
    maker.copy(maker.cut(to, axis, 0, half, 1), maker.cut(x, axis, half, half, 1))


@record
class SwapHalvesOperatorDesc(OperatorDesc):
    """``output[c] = input[c with c[Axis] := (c[Axis] + half) mod size]``.

    Args:
        input_tensor: the tensor to read; its size along `axis` is even.
        output_tensor: of the same sizes.
        axis: 0 to DimensionCount − 1.
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    axis: int

    OPERATOR: ClassVar[str] = "SWAP_HALVES"
    TYPES: ClassVar[tuple[str, ...]] = ("MY_OPERATOR_SWAP_HALVES",)

    def constraints(self) -> Iterator[Problem]:
        """Same sizes; an even axis."""
        yield from self.sizes_are("output_tensor", self.input_tensor.sizes, "sizes must be InputTensor's")
        if self.input_tensor.sizes[self.axis] % 2:
            yield self.problem("Axis", f"Axis is {self.axis}, whose size is odd", "the axis has two equal halves")

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Swap the halves of Axis."""
        halves_rule(maker, inputs[0], self.axis)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """The formula."""
        size = self.input_tensor.sizes[self.axis]
        for at in itertools.product(*map(range, self.output_tensor.sizes)):
            source = [*at]
            source[self.axis] = (at[self.axis] + size // 2) % size
            yield 1, at, 0, tuple(source)


def _check(name: str, shape: Sizes, axis: int) -> Parameters:
    axis = infer.axis_of(name, len(shape), axis)
    infer.equal_parts(name, 2, shape[axis], axis, "halves")
    return (axis,)


@function(_check, rule=halves_rule)
def swap_halves(x: Array, axis: int = 0, *, out: Array | None = None) -> Array:
    """The second half of an axis, then the first.

    Args:
        x: array of any dtype.
        axis: −rank to rank − 1; its size is even.
        out: array of x's shape and dtype to write to.

    Returns:
        An array of x's shape, new and contiguous, or `out`.

    Raises:
        DescError: the axis is out of range or odd.
        BindingError: `out` does not fit, or overlaps x.
    """
