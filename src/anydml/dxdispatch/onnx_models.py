"""Dispatchables of type "onnx": a graph in a file, whose inputs and outputs are bound to resources by name.

Shapes are known as DxDispatch knows them (its guide, "Static and Dynamic Shapes"): by the graph, by overrides of the
dispatchable, or by the bindings of a dispatch. What is free in an input, and nobody says, is 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.dxdispatch import schema
from anydml.errors import ModelError
from anydml.files.folder import Folder
from anydml.files.json_path import JsonPath, show
from anydml.tensor import DataType

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

    from anydml.onnx.program import Program

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GraphTensor:
    """An input or output of a graph.

    Attributes:
        kind: its element type as ONNX writes it.
        data_type: DirectML's type of the same elements; None where it has none.
        dtype: NumPy's.
        sizes: None for each that is free; None where not even their number is known.
    """

    name: str
    kind: str
    data_type: DataType | None
    dtype: np.dtype[Any]
    sizes: tuple[int | None, ...] | None

    @property
    def static(self) -> Sizes | None:
        """The sizes, if all are known."""
        sizes = [size for size in self.sizes or () if size is not None]
        return tuple(sizes) if self.sizes is not None and len(sizes) == len(self.sizes) else None

    def bytes_of(self, shape: Sizes) -> int:
        """Bytes of all elements."""
        return math.prod(shape) * self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """A graph of operators that anydml has.

    Attributes:
        place: of the dispatchable.
        program: what runs it.
        inputs: those that need a value, by name.
        outputs: by name.
    """

    place: JsonPath
    name: str
    program: Program
    inputs: Mapping[str, GraphTensor]
    outputs: Mapping[str, GraphTensor]

    @property
    def tensor_count(self) -> int:
        """Number of inputs and outputs."""
        return len(self.inputs) + len(self.outputs)

    def run(self, given: Mapping[str, Array], place: JsonPath, log: Any = None) -> dict[str, Array]:
        """The outputs, by name.

        Raises:
            ModelError: an input does not fit the graph, or a node's inputs do not fit it; `place` is the dispatch's.
        """
        try:
            return dict(zip(self.outputs, self.program.run(given, log), strict=True))
        except ModelError as error:
            raise place.error(str(error), error.operator, error.rule) from None


def load_onnx(name: str, value: Any, folder: Folder, place: JsonPath) -> OnnxModel:
    """A dispatchable and its graph.

    Raises:
        ModelError: a field is missing or wrong, the file cannot be read or is no graph that anydml can run, or the
            package onnx is not installed.
    """
    fields = schema.parse(schema.OnnxFields, value, place)
    at = place / "sourcePath"
    path = folder.source(fields.source_path, at)
    try:
        from anydml.onnx import load
        from anydml.onnx.program import Program
    except ImportError as error:
        raise (place / "type").error(str(error)) from None
    try:
        model = load(path, allow_outside=folder.allow_outside)
        _override(model, fields.free_dimension_name_overrides, fields.free_dimension_denotation_overrides)
        program = Program(model)
        tensors = [
            {each.name: _tensor(each) for each in values if each.name not in program.defaults}
            for values in (model.graph.input, model.graph.output)
        ]
    except ModelError as error:
        raise at.error(str(error), error.operator, error.rule) from None
    return OnnxModel(place, name, program, *tensors)


def _override(model: ModelProto, names: Mapping[str, int], denotations: Mapping[str, int]) -> None:
    """Sizes for free dimensions of inputs and outputs, by their names or by what they denote."""
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                size = names.get(dim.dim_param, denotations.get(dim.denotation))
                if size is not None:
                    dim.dim_value = size


def _tensor(value: ValueInfoProto) -> GraphTensor:
    from anydml.onnx.tensors import directml_type, numpy_type, tensor_type, type_name

    kind, sizes = tensor_type(value)
    dtype = numpy_type(kind)
    if dtype is None:
        raise ModelError(f"{show(value.name)} has {type_name(kind)}")
    known = None if sizes is None else tuple(size if isinstance(size, int) else None for size in sizes)
    return GraphTensor(value.name, type_name(kind), directml_type(kind), dtype, known)


def input_shape(tensor: GraphTensor, given: Iterable[int], place: JsonPath) -> Sizes:
    """The shape of an input: what its binding says, else the graph, with 1 where a size is free.

    Raises:
        ModelError: nobody says how many sizes there are.
    """
    if shape := tuple(given):
        return shape
    if tensor.sizes is None:
        raise place.error(f"input {show(tensor.name)} has no shape in its graph; bind it with a shape")
    return tuple(1 if size is None else size for size in tensor.sizes)


def output_shape(tensor: GraphTensor, given: Iterable[int]) -> Sizes | None:
    """The shape of an output: what its binding says, else the graph; None where a size is free."""
    return tuple(given) or tensor.static


def check_result(tensor: GraphTensor, array: Array, shape: Sizes | None, place: JsonPath) -> None:
    """A result has the shape that its binding was planned for.

    Raises:
        ModelError: it has another.
    """
    if shape is not None and array.shape != shape:
        raise place.error(f"output {show(tensor.name)} has shape {list(array.shape)}, but is bound as {list(shape)}")
