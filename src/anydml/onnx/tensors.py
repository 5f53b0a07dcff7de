"""ONNX tensors as NumPy arrays, without believing what they say about themselves.

Element types are those of the onnx package: bfloat16, float8 and the 4-bit types are ml_dtypes' (one byte an element
for the 4-bit ones), strings are objects.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

from anydml.dxdispatch import memory
from anydml.errors import ModelError
from anydml.files.place import show
from anydml.tensor import DataType

Array = np.ndarray[Any, Any]

SMALL = 2**26
"""Bytes that are allocated without asking the system what it has left."""

_DIRECTML: dict[int, DataType] = {
    TensorProto.FLOAT: DataType.FLOAT32,
    TensorProto.FLOAT16: DataType.FLOAT16,
    TensorProto.DOUBLE: DataType.FLOAT64,
    # DirectML has no boolean; its operators read and write one as a byte.
    TensorProto.BOOL: DataType.UINT8,
    **{getattr(TensorProto, t.name): t for t in DataType if not t.name.startswith("FLOAT")},
}


def type_name(elem_type: int) -> str:
    """An element type as ONNX writes it: ``"FLOAT16"``."""
    kinds: Any = TensorProto.DataType
    try:
        return str(kinds.Name(elem_type))
    except ValueError:
        return f"element type {elem_type}"


def directml_type(elem_type: int) -> DataType | None:
    """DirectML's type of the same elements, or None where it has none."""
    return _DIRECTML.get(elem_type)


def numpy_type(elem_type: int) -> np.dtype[Any] | None:
    """The dtype that arrays of an element type have, or None for a type that onnx does not know."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(elem_type))
    except (KeyError, TypeError, ValueError):
        return None


def to_array(tensor: TensorProto) -> Array:
    """The elements of a tensor, read-only where they need no copy.

    Raises:
        ModelError: its sizes do not fit its data, its type is unknown, or its data lies in another file.
    """
    label = f"tensor {show(tensor.name)}"
    if tensor.data_location == TensorProto.EXTERNAL:
        message = f"{label} is stored in another file; read the model with onnx.load or anydml.onnx.load"
        raise ModelError(message, field=tensor.name, rule="tensors are loaded before they are used")
    if any(size < 0 for size in tensor.dims):
        raise ModelError(f"{label} has sizes {list(tensor.dims)}", field=tensor.name, rule="sizes are 0 or more")
    try:
        array = numpy_helper.to_array(tensor)
    except MemoryError:
        raise
    except Exception as error:
        # onnx lets the errors of all that it uses pass through; whatever they are, the tensor is to blame.
        reason = (str(error) or repr(error)).splitlines()[0]
        kind = type_name(tensor.data_type)
        message = f"{label} ({kind}, sizes {list(tensor.dims)}) cannot be read: {reason}"
        raise ModelError(message, field=tensor.name, rule="sizes, type and data agree") from None
    return array


def tensor_type(value: ValueInfoProto) -> tuple[int, list[int | str | None]]:
    """Element type and sizes of a graph's input or output; a size that is not known is its name or None.

    Raises:
        ModelError: it is no tensor, or its rank is not given.
    """
    label = f"{show(value.name)}"
    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        message = f"{label} is a {(kind or 'value without a type').removesuffix('_type')}; anydml moves tensors"
        raise ModelError(message, field=value.name, rule="inputs are tensors")
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        raise ModelError(f"{label} has no shape", field=value.name, rule="the rank of an input is known")
    sizes: list[int | str | None] = [
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim
    ]
    return tensor.elem_type, sizes


def check_allocation(label: str, shape: tuple[int, ...], itemsize: int) -> None:
    """Refuse a result that this machine has no memory for; an allocation that succeeds proves nothing.

    Raises:
        ModelError: it is larger than the memory that is available.
    """
    size = math.prod(shape) * max(itemsize, 1)
    if size > SMALL:
        available = memory.available_memory()
        if available is not None and size > available:
            have, need = memory.text(available), memory.text(size)
            message = f"{label}: the result of shape {list(shape)} needs {need}, but {have} of memory are available"
            raise ModelError(message, rule="results fit into memory")
