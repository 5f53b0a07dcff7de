"""Constants of models: initializers, and what Constant nodes have, those whose data lies in other files included."""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, TensorProto

from anydml.errors import ModelError
from anydml.files.folder import Folder
from anydml.files.json_path import JsonPath, show
from anydml.onnx.budget import Budget
from anydml.onnx.external import external_tensors, find_external
from anydml.onnx.tensors import to_array
from anydml.onnx.values import Array


class Constants:
    """Constants of some models, by name; those of one name are the same.

    Args:
        folder: where external data lies; None where there is none.
        models: whose they are.
    """

    def __init__(self, folder: Folder | None, *models: ModelProto) -> None:
        self._folder = folder
        self._tensors: dict[str, TensorProto] = {}
        self._arrays: dict[str, Array] = {}
        for model in models:
            self.add(model)

    def add(self, model: ModelProto) -> None:
        """Those of another model, too."""
        self._tensors.update((tensor.name, tensor) for tensor in model.graph.initializer)
        for node in model.graph.node:
            if node.op_type == "Constant" and node.output:
                self._tensors.update((node.output[0], each.t) for each in node.attribute if each.HasField("t"))

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def read(self, name: str) -> Array:
        """Its elements.

        Raises:
            ModelError: they cannot be read.
        """
        if name not in self._arrays:
            tensor = self._tensors[name]
            if tensor.data_location == TensorProto.EXTERNAL:
                tensor = self._loaded(tensor)
            self._arrays[name] = np.asarray(to_array(tensor, Budget()))
        return self._arrays[name]

    def _loaded(self, tensor: TensorProto) -> TensorProto:
        if self._folder is None:
            message = f"tensor {show(tensor.name)} is stored in another file; read the model with anydml.onnx.load"
            raise ModelError(message, field=tensor.name, rule="tensors must be loaded before they are moved")
        copy = TensorProto()
        copy.CopyFrom(tensor)
        find_external(copy, self._folder, JsonPath(str(self._folder.root))).load()
        return copy


def with_data(model: ModelProto, folder: Folder | None) -> ModelProto:
    """The model with its external data inside; itself where there is none.

    Raises:
        ModelError: it cannot be read.
    """
    if folder is None or not external_tensors(model):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in external_tensors(copy):
        find_external(tensor, folder, JsonPath(str(folder.root))).load()
    return copy
