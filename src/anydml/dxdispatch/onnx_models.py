"""Dispatchables of type "onnx": a graph in a file, whose inputs and outputs are bound to resources by name.

As in DxDispatch (its guide, "Static and Dynamic Shapes"), shapes come from the graph, from overrides in the
dispatchable, or from the bindings of a dispatch. Free dimensions of inputs that none of these sets have size 1.
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
from anydml.files.location import Location, show
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
        kind: element type in ONNX's notation.
        data_type: the corresponding data type of DirectML; None if there is none.
        dtype: the corresponding NumPy dtype.
        sizes: sizes of the dimensions, None for free ones; None if the rank is unknown.
    """

    name: str
    kind: str
    data_type: DataType | None
    dtype: np.dtype[Any]
    sizes: tuple[int | None, ...] | None

    @property
    def static(self) -> Sizes | None:
        """The sizes; None unless all are known."""
        sizes = [size for size in self.sizes or () if size is not None]
        return tuple(sizes) if self.sizes is not None and len(sizes) == len(self.sizes) else None

    def bytes_of(self, shape: Sizes) -> int:
        """Return the number of bytes of a tensor of `shape`."""
        return math.prod(shape) * self.dtype.itemsize


@dataclass(frozen=True, eq=False)
class OnnxModel:
    """An ONNX model as a dispatchable.

    Attributes:
        location: JSON path of the dispatchable.
        program: runs the graph.
        inputs: inputs without a default, by name.
        outputs: outputs, by name.
    """

    location: Location
    name: str
    program: Program
    inputs: Mapping[str, GraphTensor]
    outputs: Mapping[str, GraphTensor]

    @property
    def tensor_count(self) -> int:
        """Number of inputs and outputs."""
        return len(self.inputs) + len(self.outputs)

    def run(self, arrays: Mapping[str, Array], location: Location, log: Any = None) -> dict[str, Array]:
        """Run the graph and return its outputs by name.

        Args:
            arrays: inputs by name.
            location: JSON path of the dispatch, for errors.
            log: called with a line per program.

        Raises:
            ModelError: an input does not match the graph, or a node refuses its inputs.
        """
        try:
            return dict(zip(self.outputs, self.program.run(arrays, log), strict=True))
        except ModelError as error:
            raise location.error(str(error), error.operator, error.rule) from None


def load_onnx(name: str, value: Any, folder: Folder, location: Location) -> OnnxModel:
    """Load a dispatchable and its graph.

    Raises:
        ModelError: a field is missing or wrong, the file cannot be read, anydml cannot run the graph, or the package
            onnx is not installed.
    """
    fields = schema.parse(schema.OnnxFields, value, location)
    path_location = location / "sourcePath"
    path = folder.source(fields.source_path, path_location)
    try:
        from anydml.onnx import load
        from anydml.onnx.program import Program
    except ImportError as error:
        raise (location / "type").error(str(error)) from None
    try:
        model = load(path, allow_outside=folder.allow_outside)
        _override(model, fields.free_dimension_name_overrides, fields.free_dimension_denotation_overrides)
        program = Program(model)
        tensors = [
            {value.name: _tensor(value) for value in values if value.name not in program.defaults}
            for values in (model.graph.input, model.graph.output)
        ]
    except ModelError as error:
        raise path_location.error(str(error), error.operator, error.rule) from None
    return OnnxModel(location, name, program, *tensors)


def _override(model: ModelProto, names: Mapping[str, int], denotations: Mapping[str, int]) -> None:
    """Set free dimensions of inputs and outputs by their names or denotations, in place."""
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                size = names.get(dim.dim_param, denotations.get(dim.denotation))
                if size is not None:
                    dim.dim_value = size


def _tensor(value: ValueInfoProto) -> GraphTensor:
    from anydml.onnx.tensor_protos import directml_type, numpy_type, tensor_type, type_name

    kind, sizes = tensor_type(value)
    dtype = numpy_type(kind)
    if dtype is None:
        raise ModelError(f"{show(value.name)} has {type_name(kind)}")
    shape = None if sizes is None else tuple(size if isinstance(size, int) else None for size in sizes)
    return GraphTensor(value.name, type_name(kind), directml_type(kind), dtype, shape)


def input_shape(tensor: GraphTensor, bound_shape: Iterable[int], location: Location) -> Sizes:
    """Return the shape of an input: that of its binding, or else that of the graph with free sizes set to 1.

    Raises:
        ModelError: the rank is unknown.
    """
    if shape := tuple(bound_shape):
        return shape
    if tensor.sizes is None:
        raise location.error(f"input {show(tensor.name)} has no shape in its graph; bind it with a shape")
    return tuple(1 if size is None else size for size in tensor.sizes)


def output_shape(tensor: GraphTensor, bound_shape: Iterable[int]) -> Sizes | None:
    """Return the shape of an output: that of its binding, or else that of the graph; None if a size is free."""
    return tuple(bound_shape) or tensor.static


def check_result(tensor: GraphTensor, array: Array, shape: Sizes | None, location: Location) -> None:
    """Check that a result has the shape that it is bound with.

    Raises:
        ModelError: its shape differs.
    """
    if shape is not None and array.shape != shape:
        raise location.error(f"output {show(tensor.name)} has shape {list(array.shape)}, but is bound as {list(shape)}")
