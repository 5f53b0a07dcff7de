"""SWAP_HALVES: the second half of an axis, then the first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from anydml import infer
from anydml.moves import Access, Move
from anydml.moves.program import Element, ReadIndex
from anydml.operators.base import OperatorDesc
from anydml.operators.function import Array, Composing, Inferred, Sizes, function
from anydml.operators.problem import Problem
from anydml.records import record
from anydml.tensor import Layout, TensorDesc


def halves_moves(source: Layout, output: Layout, axis: int) -> tuple[Move, ...]:
    """Two moves, one a half."""
    half = source.sizes[axis] // 2
    sizes = (*source.sizes[:axis], half, *source.sizes[axis + 1 :])
    return tuple(
        Move(
            sizes,
            Access(1, (1 - k) * half * output.strides[axis], output.strides),
            Access(0, k * half * source.strides[axis], source.strides),
            source.element_size,
        )
        for k in (0, 1)
    )


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
    INPUTS: ClassVar[tuple[str, ...]] = ("input_tensor",)
    OUTPUTS: ClassVar[tuple[str, ...]] = ("output_tensor",)

    def constraints(self) -> Iterator[Problem]:
        """Same kind and sizes; an even axis."""
        yield from self.same_kind("input_tensor", "output_tensor")
        yield from self.sizes_are(
            "OutputTensor", self.output_tensor, self.input_tensor.sizes, "sizes must be InputTensor's"
        )
        broken = [*self.axis_in_range(self.axis, len(self.input_tensor.sizes))]
        yield from broken
        if not broken and self.input_tensor.sizes[self.axis] % 2:
            yield self.problem("Axis", f"Axis is {self.axis}, whose size is odd", "the axis has two equal halves")

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """Two moves."""
        source, output = layouts or self.layouts()
        return halves_moves(source, output, self.axis)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """The formula."""
        size = self.input_tensor.sizes[self.axis]
        for at in itertools.product(*map(range, self.output_tensor.sizes)):
            source = [*at]
            source[self.axis] = (at[self.axis] + size // 2) % size
            yield 1, at, 0, tuple(source)


def _infer(name: str, shape: Sizes, axis: int) -> Inferred:
    axis = infer.axis_of(name, len(shape), axis)
    infer.equal_parts(name, 2, shape[axis], axis, "halves")
    return Inferred((axis,), [tuple(shape)])


def _compose(make: Composing, inputs: Sequence[Any], inferred: Inferred) -> list[Any]:
    (x,), (axis,) = inputs, inferred.parameters
    half = x.shape[axis] // 2
    return [make.join([make.cut(x, axis, half, half), make.cut(x, axis, 0, half)], axis)]


@function(_infer, halves_moves, compose=_compose)
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
