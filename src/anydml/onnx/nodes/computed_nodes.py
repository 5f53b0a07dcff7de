"""The few nodes that NumPy computes: Cast, CastLike, and shape arithmetic.

Exporters compute sizes in the graph by Shape, Gather, Mul, Concat … To support such graphs, arithmetic is evaluated on
at most `MAX_SHAPE_ELEMENTS` elements: 64-bit integers and booleans, and 1-D floats such as scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from anydml.onnx.graph import Node
from anydml.onnx.graph_values import MAX_SHAPE_ELEMENTS, Array, Tensor
from anydml.onnx.lowering import LoweringContext
from anydml.onnx.nodes.node_arguments import axes_of, elements_of
from anydml.onnx.nodes.shaping import broadcast_sizes
from anydml.onnx.tensor_protos import TEXT, numpy_type, type_name

CAST_BYTES = 24
"""Temporary memory in bytes per element of a cast: intermediate floats, and masks for saturation."""

ROUNDINGS = ("up", "down", "nearest")


def cast(node: Node, ctx: LoweringContext, x: Tensor) -> Tensor:
    """Cast: convert elements by NumPy and ml_dtypes."""
    kinds: Any = TensorProto.DataType
    # Version 1 has a name in place of a number.
    to_type: int = node.get("to") if node.version >= 6 else kinds.Value(node.word("to", kinds.keys()))
    if numpy_type(to_type) is None:
        raise node.error(f"to is {type_name(to_type)}", "to", "to must be an element type that onnx knows")
    return _cast(node, ctx, x, to_type)


def cast_like(node: Node, ctx: LoweringContext, x: Tensor, like: Tensor) -> Tensor:
    """CastLike: convert elements to the type of the second input."""
    return _cast(node, ctx, x, helper.np_dtype_to_tensor_dtype(like.dtype))


def _cast(node: Node, ctx: LoweringContext, x: Tensor, to_type: int) -> Tensor:
    dtype = numpy_type(to_type)
    assert dtype is not None, "it is a type"
    if dtype == x.dtype:
        return x
    saturates, rounding = node.get("saturate") != 0, node.word("round_mode", ROUNDINGS) or "up"
    array = ctx.elements(x)
    if array is not None and array.dtype != x.dtype:
        if dtype == np.int64 and x.dtype == np.int32:
            # Open sizes: INT32 objects become INT64 objects unchanged.
            return ctx.computed_result(node, x.shape, dtype, lambda: array)
        array = array.astype(x.dtype)

    def make() -> Array:
        try:
            with np.errstate(all="ignore"):
                return _convert(array, to_type, saturates, rounding)
        except (ValueError, OverflowError, TypeError):
            message = f"{x.dtype} cannot be cast to {type_name(to_type)}"
            raise node.error(message, "to", "the other type must have a value for every element") from None

    working_bytes = CAST_BYTES * x.size + (8 + TEXT + 4 * 32) * x.size * dtype.hasobject
    return ctx.computed_result(node, x.shape, dtype, make, working_bytes)


def _convert(array: Array, to_type: int, saturates: bool, rounding: str) -> Array:
    from onnx.reference.ops.op_cast import cast_to

    if to_type == TensorProto.STRING:
        return np.array([str(item) for item in array.reshape(-1)], object).reshape(array.shape)
    if array.dtype.hasobject:
        # Integer types parse integers, all others floats such as "3.0", "-inf" and "1e3".
        dtype = numpy_type(to_type)
        reads = int if dtype is not None and dtype.kind in "iu" else float
        array = np.array([reads(item) for item in array.reshape(-1)]).reshape(array.shape)
    converted = cast_to(array, to_type, saturates, rounding)  # type: ignore[arg-type]  # enums are integers
    return np.array(converted, numpy_type(to_type), copy=None if converted is not array else True)


def _divide(a: Array, b: Array) -> Array:
    """Divide; integers are rounded towards zero."""
    if a.dtype.kind == "f":
        return np.divide(a, b)
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient)


def _remainder(node: Node) -> Callable[[Array, Array], Array]:
    return np.fmod if node.get("fmod") else np.mod


BINARY: Mapping[str, Callable[[Array, Array], Array]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divide, "Min": np.minimum, "Max": np.maximum,
    "Equal": np.equal, "Greater": np.greater, "Less": np.less, "GreaterOrEqual": np.greater_equal,
    "LessOrEqual": np.less_equal, "And": np.logical_and, "Or": np.logical_or,
}  # fmt: skip
UNARY: Mapping[str, Callable[[Array], Array]] = {
    "Ceil": np.ceil, "Floor": np.floor, "Neg": np.negative, "Abs": np.abs, "Not": np.logical_not,
}  # fmt: skip
ARITHMETIC = frozenset((*BINARY, *UNARY, "Mod", "ReduceProd"))
"""Arithmetic operators, supported on shapes only."""

_LOGIC = ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual", "And", "Or", "Not")


def arithmetic(node: Node, ctx: LoweringContext, *tensors: Tensor) -> Tensor:
    """Evaluate an elementwise operator on few elements."""
    shape = broadcast_sizes(node, *(tensor.shape for tensor in tensors))
    for tensor in tensors:
        _check_few(node, tensor, math.prod(shape))
    dtype = np.dtype(bool) if node.operator in _LOGIC else tensors[0].dtype
    is_known = ctx.fetch(*tensors)
    arrays: list[Any] = [tensor.array for tensor in tensors]
    if is_known and node.operator in ("Div", "Mod") and dtype.kind in "iu" and not np.all(arrays[1]):
        raise node.error("divides by 0", "B", "integers must not be divided by 0")

    def make() -> Array:
        with np.errstate(all="ignore"):
            if node.operator in UNARY:
                computed = UNARY[node.operator](arrays[0])
            else:
                work = _remainder(node) if node.operator == "Mod" else BINARY[node.operator]
                computed = arrays[0]
                for operand in arrays[1:]:
                    computed = work(computed, operand)
        is_open = dtype.kind == "i" and any(array.dtype.hasobject for array in arrays)
        return np.array(computed, object if is_open else dtype).reshape(shape)

    return ctx.computed_result(node, shape, dtype, make, 8 * MAX_SHAPE_ELEMENTS)


def _check_few(node: Node, tensor: Tensor, count: int) -> None:
    kinds = tensor.dtype in (np.int64, bool) or (tensor.dtype in (np.float32, np.float64) and len(tensor.shape) < 2)
    if not kinds or max(count, tensor.size) > MAX_SHAPE_ELEMENTS:
        message = f"computes on {tensor.dtype} of shape {list(tensor.shape)}, but anydml moves data"
        raise node.computes(
            message, None, f"only arithmetic on shapes is folded: {MAX_SHAPE_ELEMENTS} 64-bit integers at most"
        )


def reduce_prod(node: Node, ctx: LoweringContext, x: Tensor, axes_input: Tensor | None = None) -> Tensor:
    """ReduceProd: multiply few elements along axes."""
    _check_few(node, x, x.size)
    rank = len(x.shape)
    axis_list = elements_of(node, ctx, axes_input, "axes")
    keeps, default_axes = bool(node.get("keepdims")), () if node.get("noop_with_empty_axes") else range(rank)
    axes = axes_of(node, axis_list or default_axes, rank)
    sizes = tuple(1 if k in axes else size for k, size in enumerate(x.shape) if keeps or k not in axes)
    array = ctx.elements(x)

    def make() -> Array:
        named: dict[str, Any] = {"axis": tuple(axes), "keepdims": keeps, "dtype": array.dtype}
        with np.errstate(all="ignore"):
            return np.array(np.prod(array, **named), array.dtype)

    return ctx.computed_result(node, sizes, x.dtype, make, 8 * MAX_SHAPE_ELEMENTS)
