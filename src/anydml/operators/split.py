"""DML_OPERATOR_SPLIT: parts of a tensor along an axis (DML_SPLIT_OPERATOR_DESC)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from anydml import infer
from anydml.moves.program import Element
from anydml.operators.base import ListOf, OperatorDesc, Problem, ReadIndex, TensorDesc, record
from anydml.operators.function import Array, Ints, Sizes, function
from anydml.operators.rule import Integers, Maker, View, call_check, int64, rule
from anydml.operators.split_join import part_elements, part_problems
from anydml.operators.types import TYPES_8_TO_32, TYPES_16_AND_32


@record
class SplitOperatorDesc(OperatorDesc):
    """DML_SPLIT_OPERATOR_DESC: the inverse of JOIN.

    Args:
        input_tensor: the tensor to split.
        output_tensors: at least one; sizes equal the input's except along `axis`, where they add up to it.
        axis: 0 to DimensionCount − 1.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.SplitOperatorDesc(T("FLOAT32", [6]), [T("FLOAT32", [4]), T("FLOAT32", [2])], axis=0)
        SplitOperatorDesc(FLOAT32 [6] → 2 × FLOAT32, axis 0)
    """

    input_tensor: TensorDesc
    output_tensors: ListOf[TensorDesc]
    axis: int

    UNSUPPORTED_HINT = (
        "; DirectML's release notes (1.7.0) and feature-level history list 64-bit types from 4_1, but its own page, "
        "which is the specification here, does not: anydml.split (the function) and SplitTraining split any data type"
    )
    LEVELS = (
        ("3_0", 1, 8, TYPES_8_TO_32),
        ("2_1", 4, 4, TYPES_8_TO_32),
        ("1_0", 4, 4, TYPES_16_AND_32),
    )

    def constraints(self) -> Iterator[Problem]:
        """Sizes that add up."""
        yield from part_problems(self, self.inputs[0], self.outputs, self.axis)

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Split along Axis."""
        split_rule(maker, inputs[0], Integers([part.sizes[self.axis] for part in self.output_tensors]), self.axis)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``output[k][..., i, ...] = input[..., start of k + i, ...]``."""
        for part, at, inside in part_elements(self.output_tensors, self.axis):
            yield 1 + part, at, 0, inside


@rule
def split_rule(maker: Maker, x: View, sizes: Integers, axis: int) -> None:
    """Make one result per size; each begins where the one before ends."""
    start: int64 = 0
    for k in range(sizes.count):
        maker.store(maker.cut(x, axis, start, sizes.at[k], 1))
        start += sizes.at[k]


@call_check
def check_split(name: str, shape: Sizes, sizes_or_sections: Any, axis: Any) -> tuple[Sizes, int]:
    """Return the parts' sizes, from their number or their sizes, and the axis."""
    along: int = infer.axis_of(name, len(shape), axis)
    return infer.part_sizes(name, sizes_or_sections, shape[along], along), along


@function(check_split, rule=split_rule)
def split(x: Array, sizes_or_sections: int | Ints, axis: int = 0, *, out: Sequence[Array] | None = None) -> list[Array]:
    """Split an array along an axis (DML_OPERATOR_SPLIT, without its limits).

    Args:
        x: array of any shape with at least one dimension, and any dtype.
        sizes_or_sections: a number of equal parts, or the parts' sizes along `axis`, 0 or more, adding up to its size.
        axis: −rank to rank − 1.
        out: output arrays of the parts' shapes and x's dtype.

    Returns:
        The parts, as new contiguous arrays, or `out`'s arrays.

    Raises:
        DescError: the axis is out of range, does not divide, or the sizes do not add up.
        BindingError: `out` does not fit, or overlaps x or itself.

    Examples:
        >>> dml.split(np.arange(6), 3)
        [array([0, 1]), array([2, 3]), array([4, 5])]
        >>> dml.split(np.arange(6), [1, 5])
        [array([0]), array([1, 2, 3, 4, 5])]
    """
