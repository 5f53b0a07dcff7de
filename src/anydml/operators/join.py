"""DML_OPERATOR_JOIN: concatenation of tensors along an axis (DML_JOIN_OPERATOR_DESC)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from anydml import infer
from anydml.moves.program import Element
from anydml.operators.base import ListOf, OperatorDesc, Problem, ReadIndex, TensorDesc, record
from anydml.operators.function import Array, Sizes, function
from anydml.operators.rule import FLAT, DescError, Maker, View, Views, call_check, int64, rule
from anydml.operators.split_join import part_elements, part_problems
from anydml.operators.types import ALL_TYPES, TYPES_8_TO_32, TYPES_16_AND_32


@record
class JoinOperatorDesc(OperatorDesc):
    """DML_JOIN_OPERATOR_DESC: the inverse of SPLIT.

    Args:
        input_tensors: at least one; sizes equal the output's except along `axis`, where they add up to it.
        output_tensor: the tensor to write.
        axis: 0 to DimensionCount − 1.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.JoinOperatorDesc([T("FLOAT32", [4]), T("FLOAT32", [2])], T("FLOAT32", [6]), axis=0)
        JoinOperatorDesc(2 × FLOAT32 → FLOAT32 [6], axis 0)
    """

    input_tensors: ListOf[TensorDesc]
    output_tensor: TensorDesc
    axis: int

    SAME = ("output_tensor", "input_tensors")
    LEVELS = (
        ("4_1", 1, 8, ALL_TYPES),
        # Absent from the operator's page; from DirectML's release notes and feature-level history.
        ("3_1", 1, 8, TYPES_8_TO_32),
        ("3_0", 4, 5, TYPES_8_TO_32),
        ("2_1", 4, 4, TYPES_8_TO_32),
        ("1_0", 4, 4, TYPES_16_AND_32),
    )

    def constraints(self) -> Iterator[Problem]:
        """Sizes that add up."""
        yield from part_problems(self, self.outputs[0], self.inputs, self.axis)

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Join along Axis."""
        join_rule(maker, inputs, self.axis)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``output[..., start of k + i, ...] = input[k][..., i, ...]``."""
        for part, at, inside in part_elements(self.input_tensors, self.axis):
            yield len(self.input_tensors), inside, part, at


def joined_axis(name: str, shapes: Sequence[Sizes], dtypes: Any, axis: Any) -> int:
    """Check arrays to join, and normalize the axis. Without `dtypes`, these are known to be compatible.

    Raises:
        DescError: there are no arrays, the axis is out of range, or dtypes or shapes are incompatible.
    """
    if len(shapes) == 0:
        raise DescError(f"{name}: there are no arrays to join", name, "arrays", "pass at least one array")
    first: Sizes = shapes[0]
    along: int = infer.axis_of(name, len(first), axis)
    for i in range(1, len(shapes)):
        shape: Sizes = shapes[i]
        if dtypes is not None and dtypes[i] != dtypes[0]:
            message = f"{name}: arrays[{i}] is {dtypes[i]}, but arrays[0] is {dtypes[0]}: convert one of them"
            raise DescError(message, name, f"arrays[{i}]", "all arrays must have the same dtype")
        if not infer.are_equal_but(shape, first, along):
            shapes_text = f"arrays[{i}] has shape {tuple(shape)}, but arrays[0] has {tuple(first)}"
            message = f"{name}: {shapes_text} and axis is {along}"
            raise DescError(message, name, f"arrays[{i}]", "shapes must be equal except along axis")
    return along


@rule
def join_rule(maker: Maker, arrays: Views, axis: int) -> None:
    """Write each array where the one before ends: along an axis, or in the flattened result."""
    total: int64 = 0
    start: int64 = 0
    for k in range(len(arrays)):
        total += maker.count(arrays[k]) if axis < 0 else arrays[k].sizes[axis]
    to: View = maker.result(maker.ints(total) if axis < 0 else maker.resized(arrays[0], axis, total))
    for k in range(len(arrays)):
        x: View = arrays[k]
        if axis < 0:
            maker.copy(maker.split(maker.cut(to, 0, start, maker.count(x), 1), 0, maker.sizes(x)), x)
            start += maker.count(x)
        else:
            maker.copy(maker.cut(to, axis, start, x.sizes[axis], 1), x)
            start += x.sizes[axis]


@call_check
def check_join(name: str, shapes: Sequence[Sizes], axis: Any) -> tuple[int]:
    """Return the axis."""
    if axis is None and len(shapes) != 0:
        return (FLAT,)
    return (joined_axis(name, shapes, None, axis),)


@function(check_join, rule=join_rule)
def join(arrays: Sequence[Array], axis: int | None = 0, *, out: Array | None = None) -> Array:
    """Join arrays along an axis (DML_OPERATOR_JOIN, without its limits): the inverse of `split`.

    Args:
        arrays: at least one, of one dtype (strings may differ in length), with equal shapes except along `axis`.
        axis: −rank to rank − 1; None flattens the arrays first, like `numpy.concatenate`.
        out: output array of the joined shape and dtype.

    Returns:
        The joined array, new and contiguous, or `out`.

    Raises:
        DescError: there are no arrays, their dtypes or shapes are incompatible, or the axis is out of range.
        BindingError: `out` does not fit, or overlaps an input.

    Examples:
        >>> dml.join([np.arange(2), np.arange(3)])
        array([0, 1, 0, 1, 2])
    """
