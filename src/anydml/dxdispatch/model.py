"""Load and check model files: resources, dispatchables and commands, with references between them resolved.

Nothing here allocates a resource or runs anything. As in DxDispatch, a model is first loaded, and then (`runner`)
allocated, initialized and executed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anydml.dxdispatch import jsonc, schema
from anydml.dxdispatch.initializers import Initializer, parse_data_type, parse_initializer
from anydml.dxdispatch.json_descs import parse_desc, parse_operator_type
from anydml.dxdispatch.model_text import lines_of, read_text
from anydml.dxdispatch.onnx_models import OnnxModel, load_onnx
from anydml.dxdispatch.unknown import unknown_fields
from anydml.errors import ModelError
from anydml.feature_level import FeatureLevel
from anydml.files.folder import IMAGES, Folder, extension
from anydml.files.location import Location, names, show
from anydml.hooks import HOOKS
from anydml.operators import OperatorDesc, Problem
from anydml.paths import path_text
from anydml.tensor import DataType
from anydml.text import count_noun, did_you_mean


@dataclass(frozen=True, eq=False)
class Resource:
    """A resource of a model file: a buffer with initial values, or one that a dispatch allocates.

    Attributes:
        initializer: the initial values; None if they are "deferred", so that the dispatch that writes the resource
            allocates it.
        data_type: the type in which the values are printed; None if it is UNKNOWN or deferred.
        size_in_bytes: the size, a multiple of 4 unless the file sets another; 0 if deferred.
    """

    location: Location
    name: str
    initializer: Initializer | None
    data_type: DataType | None
    size_in_bytes: int


@dataclass(frozen=True, slots=True)
class Binding:
    """A resource, from a byte offset to its end, bound to one tensor.

    Attributes:
        shape: shape of an ONNX model's tensor; empty if the binding does not give one.
    """

    location: Location
    resource: Resource
    offset_in_bytes: int
    shape: tuple[int, ...] = ()


Bindings = Mapping[str, tuple[Binding, ...]]
"""Bindings by bind point, which is the name of a desc's field: ``{"InputTensors": (a, b)}``."""


@dataclass(frozen=True, eq=False)
class Dispatchable:
    """An operator, with the bindings that it is initialized with.

    Attributes:
        location: JSON path of its desc.
    """

    location: Location
    name: str
    desc: OperatorDesc
    bindings: Bindings


@dataclass(frozen=True)
class Dispatch:
    """Run a dispatchable."""

    location: Location
    dispatchable: Dispatchable | OnnxModel
    bindings: Bindings


@dataclass(frozen=True)
class Print:
    """Print a resource, in the type of its initial values."""

    location: Location
    resource: Resource
    verbose: bool


@dataclass(frozen=True)
class WriteFile:
    """Write a resource to a file: with the extension .npy as an array of `dimensions`, otherwise as raw bytes."""

    location: Location
    resource: Resource
    target: Path
    dimensions: tuple[int, ...]


Command = Dispatch | Print | WriteFile


@dataclass(frozen=True)
class Model:
    """A model file.

    Attributes:
        warnings: one line per unknown field, for example a misspelt one.

    Examples:
        >>> from anydml import dxdispatch
        >>> model = dxdispatch.load("split.json")
        >>> model.dispatchables["split"].desc
        SplitOperatorDesc(FLOAT32 [1, 1, 6, 2] → 3 × FLOAT32, axis 2)
        >>> list(model.problems("1_0"))
        []
    """

    location: Location
    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, Dispatchable | OnnxModel]
    commands: tuple[Command, ...]
    warnings: tuple[str, ...] = ()

    def problems(self, feature_level: FeatureLevel | str = FeatureLevel.LATEST) -> Iterator[tuple[Location, Problem]]:
        """Yield every rule that an operator violates at a feature level, with the JSON path of the field."""
        for dispatchable in self.dispatchables.values():
            if isinstance(dispatchable, OnnxModel):
                continue
            for problem in dispatchable.desc.problems(feature_level):
                yield dispatchable.location.field(problem.field), problem

    def _repr_html_(self) -> str | None:
        """Draw the dispatches; nothing if a desc or a binding breaks a rule, which `anydml check` names."""
        try:
            return HOOKS["explain"](self, device="")._repr_html_()  # type: ignore[no-any-return]
        except ModelError:
            return None


def load(
    path: str | os.PathLike[str], *, allow_outside: bool = False, folder: str | os.PathLike[str] | None = None
) -> Model:
    """Load a model file in the JSON format of DirectML's DxDispatch.

    Comments and trailing commas are allowed. `sourcePath` and `targetPath` are relative to `folder`.

    Args:
        path: the file.
        allow_outside: whether these paths may lead out of the folder.
        folder: by default that of the file.

    Raises:
        ModelError: the file is not a valid model, or too large to be read; the message names the line or JSON path.

    Examples:
        >>> from anydml import dxdispatch
        >>> model = dxdispatch.load("split.json")
        >>> sorted(model.resources)
        ['Out1', 'Out2', 'Out3', 'input']
    """
    file = Path(path_text("load", path))
    location = Location(str(path), lines=lines_of(file))
    root = jsonc.loads(read_text(file, location), location)
    raw = schema.parse(schema.FileFields, root, location)
    base = Folder(file.resolve().parent if folder is None else Path(folder).resolve(), allow_outside)
    resources = {
        name: _resource(name, value, base, location / "resources" / name) for name, value in raw.resources.items()
    }
    dispatchables = {
        name: _dispatchable(name, value, resources, base, location / "dispatchables" / name)
        for name, value in raw.dispatchables.items()
    }
    commands = tuple(
        _command(value, resources, dispatchables, base, location / "commands" / i)
        for i, value in enumerate(raw.commands)
    )
    graphs = {
        name: [*model.inputs, *model.outputs] for name, model in dispatchables.items() if isinstance(model, OnnxModel)
    }
    return Model(location, resources, dispatchables, commands, unknown_fields(root, location, graphs))


def _resource(name: str, value: Any, folder: Folder, location: Location) -> Resource:
    fields = schema.parse(schema.ResourceFields, value, location)
    data_type = parse_data_type(fields.initial_values_data_type, location / "initialValuesDataType")
    if fields.initial_values == "deferred":
        return Resource(location, name, None, None, 0)
    initializer = parse_initializer(fields.initial_values, data_type, folder, location / "initialValues")
    min_size = initializer.byte_count + fields.initial_values_offset_in_bytes
    size = fields.size_in_bytes
    if size is None:
        # DirectML binds buffers of a multiple of 4 bytes.
        size = (initializer.byte_count + 3) & ~3
    if min_size > size:
        offset_text = (
            f" at offset {fields.initial_values_offset_in_bytes}" if fields.initial_values_offset_in_bytes else ""
        )
        raise (location / "sizeInBytes").error(
            f"is {size}, too few for {count_noun(initializer.byte_count, 'byte')} of values{offset_text}"
        )
    return Resource(location, name, initializer, initializer.data_type, size)


def _dispatchable(
    name: str, value: Any, resources: Mapping[str, Resource], folder: Folder, location: Location
) -> Dispatchable | OnnxModel:
    if schema.parse(schema.KindFields, value, location).type.lower() == "onnx":
        return load_onnx(name, value, folder, location)
    fields = schema.parse(schema.DispatchableFields, value, location)
    desc_class = parse_operator_type(fields.type, location / "type")
    key = next((key for key in ("Desc", "desc") if key in value), None)
    field_location = location / key if key else location
    desc = parse_desc(desc_class, value[key] if key else value, field_location)
    return Dispatchable(field_location, name, desc, _bindings(fields.bindings, resources, location / "bindings"))


def _command(
    value: Any,
    resources: Mapping[str, Resource],
    dispatchables: Mapping[str, Dispatchable | OnnxModel],
    folder: Folder,
    location: Location,
) -> Command:
    command_type = schema.parse(schema.CommandFields, value, location).type.lower()
    if command_type == "dispatch":
        dispatch = schema.parse(schema.DispatchFields, value, location)
        dispatchable = dispatchables.get(dispatch.dispatchable)
        if dispatchable is None:
            hint = f"the model has {names(dispatchables)}{did_you_mean(dispatch.dispatchable, dispatchables)}"
            raise (location / "dispatchable").error(f"there is no dispatchable {show(dispatch.dispatchable)}; {hint}")
        return Dispatch(location, dispatchable, _bindings(dispatch.bindings, resources, location / "bindings"))
    if command_type == "print":
        fields = schema.parse(schema.PrintFields, value, location)
        return Print(location, _find_resource(fields.resource, resources, location / "resource"), fields.verbose)
    if command_type == "writefile":
        write = schema.parse(schema.WriteFileFields, value, location)
        path_location = location / "targetPath"
        if extension(write.target_path) in IMAGES:
            raise path_location.error(f"{show(write.target_path)} is an image; write a .npy file instead")
        resource = _find_resource(write.resource, resources, location / "resource")
        return WriteFile(location, resource, folder.target(write.target_path, path_location), tuple(write.dimensions))
    kinds = ("dispatch", "print", "writeFile")
    advice = did_you_mean(command_type, kinds)
    raise (location / "type").error(f"there is no command {show(value['type'])}; there are {names(kinds)}{advice}")


def _bindings(value: Mapping[str, Any], resources: Mapping[str, Resource], location: Location) -> Bindings:
    bindings: dict[str, tuple[Binding, ...]] = {}
    for name, bound in value.items():
        point_location = location / name
        if isinstance(bound, list):
            bindings[name] = tuple(_binding(item, resources, point_location / i) for i, item in enumerate(bound))
        else:
            bindings[name] = (_binding(bound, resources, point_location),)
    return bindings


def _binding(value: Any, resources: Mapping[str, Resource], location: Location) -> Binding:
    if isinstance(value, str):
        return Binding(location, _find_resource(value, resources, location), 0)
    if not isinstance(value, dict):
        raise location.error(f"must be the name of a resource, or an object with its name, not {show(value)}")
    fields = schema.parse(schema.BindingFields, value, location)
    resource = _find_resource(fields.name, resources, location / "name")
    if fields.counter is not None:
        _find_resource(fields.counter, resources, location / "counter")
    size = fields.element_size_in_bytes or (resource.data_type.itemsize if resource.data_type else 0)
    if fields.element_offset and not size:
        reason = f"{show(fields.name)} has no data type; give elementSizeInBytes"
        raise (location / "elementOffset").error(reason)
    return Binding(location, resource, fields.element_offset * size, tuple(fields.shape))


def _find_resource(name: str, resources: Mapping[str, Resource], location: Location) -> Resource:
    resource = resources.get(name)
    if resource is None:
        hint = f"the model has {names(resources)}{did_you_mean(name, resources)}"
        raise location.error(f"there is no resource {show(name)}; {hint}")
    return resource
