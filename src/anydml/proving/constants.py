"""The constants of a model: initializers, Constant nodes, external data, and constants that rewrites create."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper

from anydml.errors import ModelError
from anydml.files.folder import Folder
from anydml.files.location import Location, show
from anydml.onnx.budget import Budget
from anydml.onnx.external import external_tensors, find_external
from anydml.onnx.graph_values import Array
from anydml.onnx.tensor_protos import bits_of, numpy_type, tensor_shape, to_array

NUMBER_ATTRIBUTES = {
    "value_int": np.int64,
    "value_ints": np.int64,
    "value_float": np.float32,
    "value_floats": np.float32,
}
"""Attributes of Constant that are not tensors, and their dtypes."""


class Constants:
    """The constants of a model, by name.

    Args:
        model: the model.
        folder: folder of its external data; None if it has none or has been loaded.

    Attributes:
        new_arrays: new constants by name.
        compared: cached results of comparisons of these constants with others.
    """

    def __init__(self, model: ModelProto, folder: Folder | None) -> None:
        self._folder = folder
        self.new_arrays: dict[str, Array] = {}
        self.compared: dict[Hashable, bool | None] = {}
        self._names: dict[Hashable, str] = {}
        self._arrays: dict[str, Array] = {}
        self._tensors = {tensor.name: tensor for tensor in model.graph.initializer}
        for node in model.graph.node:
            for attribute in node.attribute if node.op_type == "Constant" and node.output else ():
                if attribute.HasField("t"):
                    self._tensors[node.output[0]] = attribute.t
                elif attribute.name in NUMBER_ATTRIBUTES:
                    self._arrays[node.output[0]] = np.array(
                        helper.get_attribute_value(attribute), NUMBER_ATTRIBUTES[attribute.name]
                    )

    def __contains__(self, name: str) -> bool:
        return name in self._tensors or name in self.new_arrays or name in self._arrays

    def external_type(self, name: str) -> tuple[np.dtype[Any] | None, tuple[int, ...]] | None:
        """Return the dtype and shape of a constant whose elements are in another file; None for any other constant."""
        tensor = self._tensors.get(name)
        if tensor is None or name in self._arrays or tensor.data_location != TensorProto.EXTERNAL:
            return None
        return numpy_type(tensor.data_type), tensor_shape(tensor)

    def new(self, array: Array, name: Callable[[], str]) -> str:
        """Return the name of a new constant, or that of an equal one that was made before."""
        packed = np.ascontiguousarray(array).reshape(array.shape)
        key = hashlib.sha256(packed.reshape(-1).view(np.uint8).data).digest(), str(packed.dtype), packed.shape
        if key not in self._names:
            self._names[key] = name()
            self.new_arrays[self._names[key]] = packed
        return self._names[key]

    def read(self, name: str) -> Array:
        """Return the elements of a constant.

        Raises:
            ModelError: the elements cannot be read.
        """
        if name in self.new_arrays:
            return self.new_arrays[name]
        if name not in self._arrays:
            tensor = self._tensors[name]
            is_external = tensor.data_location == TensorProto.EXTERNAL
            self._arrays[name] = self._external(tensor) if is_external else np.asarray(to_array(tensor, Budget()))
        return self._arrays[name]

    def _external(self, tensor: TensorProto) -> Array:
        if self._folder is None:
            message = f"tensor {show(tensor.name)} is stored in another file; read the model with anydml.onnx.load"
            raise ModelError(message, field=tensor.name, rule="tensors must be loaded before they are moved")
        external = find_external(tensor, self._folder, Location(str(self._folder.root)))
        dtype, shape = numpy_type(tensor.data_type), tensor_shape(tensor)
        is_plain = dtype is not None and not dtype.hasobject and bits_of(dtype) == 8 * dtype.itemsize
        if dtype is not None and is_plain and external.length == math.prod(shape) * dtype.itemsize:
            # The bytes are used without a copy: weights may have gigabytes.
            Budget().ask(f"tensor {show(tensor.name)}", "reading it", external.length)
            array = np.frombuffer(external.read(), np.uint8).view(dtype).reshape(shape)
            return array if sys.byteorder == "little" else array.byteswap()
        copy = TensorProto()
        copy.CopyFrom(tensor)
        _load(copy, self._folder)
        return np.asarray(to_array(copy, Budget()))


def with_data(model: ModelProto, folder: Folder | None) -> ModelProto:
    """Return the model with its external data loaded; the model itself if it has none.

    Raises:
        ModelError: the data cannot be read.
    """
    if folder is None or not external_tensors(model):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in external_tensors(copy):
        _load(tensor, folder)
    return copy


def _load(tensor: TensorProto, folder: Folder) -> None:
    find_external(tensor, folder, Location(str(folder.root))).load()
