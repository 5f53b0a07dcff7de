"""PyDirectML's functions that move elements. Each raises DescError if a rule of its operator is violated."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from anydml import infer
from anydml.errors import DescTypeError
from anydml.fields import integer, integers
from anydml.moves.sizing import Integers
from anydml.moves.verbs import Maker
from anydml.operators.element_wise_identity import ElementWiseIdentityOperatorDesc
from anydml.operators.enums import InterpolationMode, PaddingMode
from anydml.operators.enums import Size2D as Scale
from anydml.operators.gather import GatherOperatorDesc
from anydml.operators.join import JoinOperatorDesc
from anydml.operators.padding import PaddingOperatorDesc
from anydml.operators.slice1 import Slice1OperatorDesc, max_copied_elements
from anydml.operators.split import split_rule
from anydml.operators.upsample_2d import Upsample2dOperatorDesc
from anydml.pydirectml.builder import GraphBuilder
from anydml.pydirectml.enums import TensorDataType
from anydml.pydirectml.expressions import Expression
from anydml.pydirectml.tensor_descs import Size2D
from anydml.tensor import DataType, TensorDesc, TensorFlags

__all__ = [
    "activation_identity",
    "gather",
    "join",
    "padding",
    "reinterpret",
    "slice",
    "split",
    "up_sample_2d",
]


def slice(
    input: Expression,
    input_window_offsets: Sequence[int],
    input_window_sizes: Sequence[int],
    input_window_strides: Sequence[int],
) -> Expression:
    """Extract a strided window of a tensor: DML_SLICE1.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 2, 6]))
        >>> pydml.slice(x, [0, 0, 0, 1], [1, 1, 2, 5], [1, 1, 1, -2]).get_output_desc()
        dml.TensorDesc of type 1 and shape [1,1,2,3] with flags 0
    """
    _check("slice", "input", input)
    windows = integers("slice", "input_window_sizes", input_window_sizes)
    steps = integers("slice", "input_window_strides", input_window_strides)
    sizes = [max_copied_elements(window, step or 1) for window, step in zip(windows, steps, strict=False)]
    # Lists of different lengths are refused by the operator's own rules.
    out = _packed_like(input, [*sizes, *input.tensor.sizes[len(sizes) :]])
    desc = Slice1OperatorDesc(_read(input), out, input_window_offsets, windows, steps)
    return _builder_of(input).add(desc, input)


class _WindowMaker(Maker):
    """Makes results that are windows of a tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.results: list[Expression] = []

    def cut(self, x: Expression, axis: int, start: int, size: int, step: int) -> Expression:
        """Cut all other axes."""
        sizes = x.tensor.sizes
        offsets, windows, steps = [0] * len(sizes), [*sizes], [1] * len(sizes)
        offsets[axis], windows[axis], steps[axis] = start, size, step
        return slice(x, offsets, windows, steps)

    def store(self, x: Expression) -> None:
        """Copy a window to the next result."""
        self.results.append(x)


def split(input: Expression, axis: int, output_axis_sizes: Sequence[int]) -> list[Expression]:
    """Split a tensor along an axis, like DirectMLX's Split; parts may stay unused.

    Raises:
        DescError: the sizes do not add up to the size of the axis.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 2, 6]))
        >>> [part.get_output_desc().sizes for part in pydml.split(x, 3, [1, 2, 3])]
        [[1, 1, 2, 1], [1, 1, 2, 2], [1, 1, 2, 3]]
    """
    _check("split", "input", input)
    sizes = input.tensor.sizes
    axis = infer.axis_of("split", len(sizes), integer("split", "axis", axis))
    lengths = integers("split", "output_axis_sizes", output_axis_sizes)
    make = _WindowMaker()
    split_rule(make, input, Integers(infer.part_sizes("split", lengths, sizes[axis], axis)), axis)
    return make.results


def join(input: Sequence[Expression], axis: int) -> Expression:
    """Concatenate tensors along an axis: DML_JOIN.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 2, 6]))
        >>> pydml.join([x, x], 2).get_output_desc()
        dml.TensorDesc of type 1 and shape [1,1,4,6] with flags 0
    """
    if not isinstance(input, (list, tuple)) or not input:
        raise DescTypeError("join: input has no expressions", "join", "input", "there must be at least one")
    for k, expression in enumerate(input):
        _check("join", f"input[{k}]", expression)
    axis = integer("join", "axis", axis)
    sizes = [*input[0].tensor.sizes]
    if 0 <= axis < len(sizes):
        sizes[axis] = sum(expression.tensor.sizes[axis] for expression in input if axis < len(expression.tensor.sizes))
    desc = JoinOperatorDesc([_read(expression) for expression in input], _packed_like(input[0], sizes), axis)
    return _builder_of(input[0]).add(desc, *input)


def gather(input: Expression, indices: Expression, axis: int, index_dimensions: int) -> Expression:
    """Select elements along an axis by indices: DML_GATHER.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 5, 2]))
        >>> rows = pydml.input_tensor(builder, 1, pydml.TensorDesc(pydml.TensorDataType.INT64, [1, 1, 1, 3]))
        >>> pydml.gather(x, rows, axis=2, index_dimensions=1).get_output_desc()
        dml.TensorDesc of type 1 and shape [1,1,3,2] with flags 0
    """
    _check("gather", "input", input)
    _check("gather", "indices", indices)
    axis, count = integer("gather", "axis", axis), integer("gather", "index_dimensions", index_dimensions)
    data_sizes, index = input.tensor.sizes, indices.tensor.sizes
    sizes = [*data_sizes[: max(axis, 0)], *index[len(index) - max(count, 0) :], *data_sizes[axis + 1 :]]
    rank = len(data_sizes)
    out = [1] * (rank - len(sizes)) + sizes[max(0, len(sizes) - rank) :]
    desc = GatherOperatorDesc(_read(input), _read(indices), _packed_like(input, out), axis, count)
    return _builder_of(input).add(desc, input, indices)


def padding(
    input: Expression,
    padding_mode: PaddingMode,
    padding_value: float,
    start_padding: Sequence[int],
    end_padding: Sequence[int],
) -> Expression:
    """Pad a tensor on both sides of each axis: DML_PADDING.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 2, 3]))
        >>> pydml.padding(x, pydml.PaddingMode.EDGE, 0, [0, 0, 0, 1], [0, 0, 0, 1]).get_output_desc()
        dml.TensorDesc of type 1 and shape [1,1,2,5] with flags 0
    """
    _check("padding", "input", input)
    before = integers("padding", "start_padding", start_padding)
    after = integers("padding", "end_padding", end_padding)
    zeros = [0] * len(input.tensor.sizes)
    pads = zip([*before, *zeros], [*after, *zeros], strict=False)
    sizes = [size + a + b for size, (a, b) in zip(input.tensor.sizes, pads, strict=False)]
    desc = PaddingOperatorDesc(_read(input), _packed_like(input, sizes), padding_mode, padding_value, before, after)
    return _builder_of(input).add(desc, input)


def up_sample_2d(input: Expression, scale_size: Size2D, interpolation_mode: InterpolationMode) -> Expression:
    """Repeat rows and columns: DML_UPSAMPLE_2D in mode NEAREST_NEIGHBOR.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 2, 3]))
        >>> nearest = pydml.InterpolationMode.NEAREST_NEIGHBOR
        >>> pydml.up_sample_2d(x, pydml.Size2D(width=4, height=2), nearest).get_output_desc()
        dml.TensorDesc of type 1 and shape [1,1,4,12] with flags 0
    """
    _check("up_sample_2d", "input", input)
    if not isinstance(scale_size, Size2D):
        message = f"up_sample_2d: scale_size is of type {type(scale_size).__name__}: it must be a Size2D"
        raise DescTypeError(message, "up_sample_2d", "scale_size", "it must be a Size2D")
    scale = Scale(scale_size.width, scale_size.height)
    *outer, height, width = (1, 1, *input.tensor.sizes)
    sizes = [*outer[2:], height * scale.height, width * scale.width]
    desc = Upsample2dOperatorDesc(_read(input), _packed_like(input, sizes), scale, interpolation_mode)
    return _builder_of(input).add(desc, input)


def activation_identity(input: Expression) -> Expression:
    """Copy a tensor: DML_ELEMENT_WISE_IDENTITY.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 2, 3]))
        >>> pydml.activation_identity(x).get_output_desc()
        dml.TensorDesc of type 1 and shape [1,1,2,3] with flags 0
    """
    _check("activation_identity", "input", input)
    desc = ElementWiseIdentityOperatorDesc(_read(input), _packed_like(input, input.tensor.sizes))
    return _builder_of(input).add(desc, input)


def reinterpret(
    input: Expression, new_type: TensorDataType, new_size: Sequence[int], new_strides: Sequence[int] | None
) -> Expression:
    """Reinterpret a tensor's buffer with another data type, sizes and strides.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 2, 3]))
        >>> pydml.reinterpret(x, pydml.TensorDataType.UINT8, [1, 1, 2, 12], None).get_output_desc()
        dml.TensorDesc of type 5 and shape [1,1,2,12] with flags 0
    """
    _check("reinterpret", "input", input)
    tensor = TensorDesc(
        DataType.parse(TensorDataType(new_type).name),
        new_size,
        new_strides,
        input.tensor.flags,
        input.tensor.size_in_bytes,
        input.tensor.guaranteed_base_offset_alignment,
    )
    return Expression.of(_builder_of(input), input.source, tensor)


def _check(name: str, field: str, value: object) -> None:
    """Raise DescTypeError unless an argument is an expression."""
    if not isinstance(value, Expression):
        rule = "it must be an Expression, from input_tensor or an operator"
        raise DescTypeError(f"{name}: {field} is of type {type(value).__name__}: {rule}", name, field, rule)


def _builder_of(expression: Expression) -> GraphBuilder:
    if expression.builder is None:
        raise DescTypeError("an empty Expression belongs to no graph", "Expression")
    builder: GraphBuilder = expression.builder
    return builder


def _read(expression: Expression) -> TensorDesc:
    """Return the desc of an operator's input: OWNED_BY_DML applies to graph inputs only."""
    tensor = expression.tensor
    if expression.source.node is None:
        return tensor
    return dataclasses.replace(tensor, flags=TensorFlags.NONE)


def _packed_like(expression: Expression, sizes: Sequence[int]) -> TensorDesc:
    """Return a packed tensor of `sizes` with the data type of `expression`."""
    return TensorDesc(expression.tensor.data_type, sizes)
