"""Convert ONNX tensors to NumPy arrays, without trusting their metadata.

Element types map to dtypes as in the onnx package: bfloat16, float8 and the 4-bit types to those of ml_dtypes (with one
byte per element for the 4-bit types), strings to objects.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

from anydml.errors import ModelError
from anydml.fields import MAX_DIMENSIONS
from anydml.files.location import show
from anydml.onnx.budget import Budget
from anydml.tensor import DataType
from anydml.text import escape_controls

Array = np.ndarray[Any, Any]

VALUE = 48
"""Memory in bytes per number of a repeated field while NumPy reads it, via a list of Python objects."""

TEXT = 72
"""Overhead of a Python string in bytes, without its characters of up to 4 bytes each."""

_PACKED = frozenset(("INT2", "UINT2", "INT4", "UINT4", "FLOAT4E2M1", "FLOAT6E2M3", "FLOAT6E3M2"))
"""Types whose elements are not stored in whole bytes."""

_FIELDS = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")

_DIRECTML: dict[int, DataType] = {
    TensorProto.FLOAT: DataType.FLOAT32,
    TensorProto.FLOAT16: DataType.FLOAT16,
    TensorProto.DOUBLE: DataType.FLOAT64,
    # DirectML has no boolean; its operators read and write one as a byte.
    TensorProto.BOOL: DataType.UINT8,
    **{getattr(TensorProto, t.name): t for t in DataType if not t.name.startswith("FLOAT")},
}


def type_name(elem_type: int) -> str:
    """Return the name of an element type in ONNX, such as ``"FLOAT16"``."""
    kinds: Any = TensorProto.DataType
    try:
        return str(kinds.Name(elem_type))
    except ValueError:
        return f"element type {elem_type}"


def directml_type(elem_type: int) -> DataType | None:
    """Return the corresponding DirectML type; None if there is none."""
    return _DIRECTML.get(elem_type)


def numpy_type(elem_type: int) -> np.dtype[Any] | None:
    """Return the dtype of an element type; None if onnx does not know the type."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(elem_type))
    except (KeyError, TypeError, ValueError):
        return None


def to_array(tensor: TensorProto, budget: Budget) -> Array:
    """Return the elements of a tensor; the array is read-only if no copy is needed.

    Args:
        tensor: the tensor.
        budget: checked before each allocation; it does not hold the array.

    Raises:
        ModelError: its sizes do not match its data, its type is unknown, its data is in another file, it has more than
            64 dimensions, or there is not enough memory.
    """
    label = f"tensor {show(tensor.name)}"
    if tensor.data_location == TensorProto.EXTERNAL:
        message = f"{label} is stored in another file; read the model with onnx.load or anydml.onnx.load"
        raise ModelError(message, field=tensor.name, rule="tensors must be loaded before they are used")
    shape = tensor_shape(tensor)
    budget.ask(label, "reading it", _cost(tensor, shape))
    try:
        return _texts(tensor, shape) if tensor.data_type == TensorProto.STRING else numpy_helper.to_array(tensor)
    except MemoryError:
        raise
    except Exception as error:
        # onnx raises errors of many types for invalid tensors.
        reason = escape_controls((str(error) or repr(error)).splitlines()[0])
        data_type_name = type_name(tensor.data_type)
        message = f"{label} ({data_type_name}, sizes {list(shape)}) cannot be read: {reason}"
        raise ModelError(message, field=tensor.name, rule="sizes, type and data must agree") from None


def tensor_shape(tensor: TensorProto) -> tuple[int, ...]:
    """Return the sizes that a tensor declares.

    Raises:
        ModelError: a size is negative, or there are more than 64.
    """
    label = f"tensor {show(tensor.name)}"
    check_rank(label, len(tensor.dims), tensor.name)
    if any(size < 0 for size in tensor.dims):
        raise ModelError(f"{label} has sizes {list(tensor.dims)}", field=tensor.name, rule="sizes must be 0 or more")
    return tuple(tensor.dims)


def check_rank(label: str, rank: int, field: str | None = None) -> None:
    """Check a rank against NumPy's limit.

    Raises:
        ModelError: the rank is larger than 64.
    """
    if rank > MAX_DIMENSIONS:
        message = f"{label} has {rank} dimensions, but anydml moves tensors of at most {MAX_DIMENSIONS}"
        raise ModelError(message, field=field, rule=f"tensors must have at most {MAX_DIMENSIONS} dimensions")


def _cost(tensor: TensorProto, shape: tuple[int, ...]) -> int:
    """Return an upper bound of the memory in bytes that reading a tensor takes."""
    if tensor.data_type == TensorProto.STRING:
        return sum(8 + TEXT + 4 * len(text) for text in tensor.string_data)
    itemsize = getattr(numpy_type(tensor.data_type), "itemsize", 1)
    if tensor.HasField("raw_data"):
        # Packed types are unpacked in several steps.
        return math.prod(shape) * (4 if type_name(tensor.data_type) in _PACKED else itemsize)
    return VALUE * sum(len(getattr(tensor, field)) for field in _FIELDS)


def _texts(tensor: TensorProto, shape: tuple[int, ...]) -> Array:
    """Decode strings one by one, because onnx creates an array that pads all strings to the longest."""
    texts = np.empty(len(tensor.string_data), np.object_)
    texts[:] = [text.decode("utf-8") for text in tensor.string_data]
    return texts.reshape(shape)


def bits_of(dtype: np.dtype[Any]) -> int:
    """Return the number of bits of an element in ONNX; dtypes of fewer than 8 bits take a byte in NumPy."""
    small = re.fullmatch(r"(?:u?int|float)([246])(?:_\w+)?", dtype.name)
    return int(small[1]) if small else 8 * dtype.itemsize


def tensor_type(value: ValueInfoProto) -> tuple[int, list[int | str | None] | None]:
    """Return element type and sizes of a graph's input or output.

    Unknown sizes are their names, or None if unnamed. If the rank is unknown, the sizes are None.

    Raises:
        ModelError: the value is not a tensor, or has more than 64 dimensions.
    """
    label = f"{show(value.name)}"
    type_name = value.type.WhichOneof("value")
    if type_name != "tensor_type":
        message = f"{label} is a {(type_name or 'value without a type').removesuffix('_type')}; anydml moves tensors"
        raise ModelError(message, field=value.name, rule="inputs must be tensors")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return tensor.elem_type, None
    check_rank(label, len(tensor.shape.dim), value.name)
    return tensor.elem_type, [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim
    ]


def sequence_type(value: ValueInfoProto) -> tuple[int, list[int | str | None] | None]:
    """Return element type and sizes of the tensors of a sequence, as `tensor_type` does.

    Raises:
        ModelError: its items are not tensors, or have more than 64 dimensions.
    """
    return tensor_type(ValueInfoProto(name=value.name, type=value.type.sequence_type.elem_type))


def sizes_text(sizes: Iterable[int | str | None]) -> str:
    """Format sizes for an error message: ``"[2, N, ?]"``."""
    return f"[{', '.join('?' if size is None else escape_controls(str(size)) for size in sizes)}]"
