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
from anydml.files.json_path import JsonPath, names, show
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

    place: JsonPath
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

    place: JsonPath
    resource: Resource
    offset_in_bytes: int
    shape: tuple[int, ...] = ()


Bindings = Mapping[str, tuple[Binding, ...]]
"""Bindings by bind point, which is the name of a desc's field: ``{"InputTensors": (a, b)}``."""


@dataclass(frozen=True, eq=False)
class Dispatchable:
    """An operator, with the bindings that it is initialized with.

    Attributes:
        place: JSON path of its desc.
    """

    place: JsonPath
    name: str
    desc: OperatorDesc
    bindings: Bindings


@dataclass(frozen=True)
class Dispatch:
    """Run a dispatchable."""

    place: JsonPath
    dispatchable: Dispatchable | OnnxModel
    bindings: Bindings


@dataclass(frozen=True)
class Print:
    """Print a resource, in the type of its initial values."""

    place: JsonPath
    resource: Resource
    verbose: bool


@dataclass(frozen=True)
class WriteFile:
    """Write a resource to a file: with the extension .npy as an array of `dimensions`, otherwise as raw bytes."""

    place: JsonPath
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

    place: JsonPath
    resources: Mapping[str, Resource]
    dispatchables: Mapping[str, Dispatchable | OnnxModel]
    commands: tuple[Command, ...]
    warnings: tuple[str, ...] = ()

    def problems(self, feature_level: FeatureLevel | str = FeatureLevel.LATEST) -> Iterator[tuple[JsonPath, Problem]]:
        """Yield every rule that an operator violates at a feature level, with the JSON path of the field."""
        for dispatchable in self.dispatchables.values():
            if isinstance(dispatchable, OnnxModel):
                continue
            for problem in dispatchable.desc.problems(feature_level):
                yield dispatchable.place.field(problem.field), problem

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
    place = JsonPath(str(path), lines=lines_of(file))
    root = jsonc.loads(read_text(file, place), place)
    raw = schema.parse(schema.FileFields, root, place)
    base = Folder(file.resolve().parent if folder is None else Path(folder).resolve(), allow_outside)
    resources = {
        name: _resource(name, value, base, place / "resources" / name) for name, value in raw.resources.items()
    }
    dispatchables = {
        name: _dispatchable(name, value, resources, base, place / "dispatchables" / name)
        for name, value in raw.dispatchables.items()
    }
    commands = tuple(
        _command(value, resources, dispatchables, base, place / "commands" / i) for i, value in enumerate(raw.commands)
    )
    graphs = {
        name: [*model.inputs, *model.outputs] for name, model in dispatchables.items() if isinstance(model, OnnxModel)
    }
    return Model(place, resources, dispatchables, commands, unknown_fields(root, place, graphs))


def _resource(name: str, value: Any, folder: Folder, place: JsonPath) -> Resource:
    fields = schema.parse(schema.ResourceFields, value, place)
    data_type = parse_data_type(fields.initial_values_data_type, place / "initialValuesDataType")
    if fields.initial_values == "deferred":
        return Resource(place, name, None, None, 0)
    initializer = parse_initializer(fields.initial_values, data_type, folder, place / "initialValues")
    min_size = initializer.byte_count + fields.initial_values_offset_in_bytes
    size = fields.size_in_bytes
    if size is None:
        # DirectML binds buffers of a multiple of 4 bytes.
        size = (initializer.byte_count + 3) & ~3
    if min_size > size:
        offset_text = (
            f" at offset {fields.initial_values_offset_in_bytes}" if fields.initial_values_offset_in_bytes else ""
        )
        raise (place / "sizeInBytes").error(
            f"is {size}, too few for {count_noun(initializer.byte_count, 'byte')} of values{offset_text}"
        )
    return Resource(place, name, initializer, initializer.data_type, size)


def _dispatchable(
    name: str, value: Any, resources: Mapping[str, Resource], folder: Folder, place: JsonPath
) -> Dispatchable | OnnxModel:
    if schema.parse(schema.KindFields, value, place).type.lower() == "onnx":
        return load_onnx(name, value, folder, place)
    fields = schema.parse(schema.DispatchableFields, value, place)
    desc_class = parse_operator_type(fields.type, place / "type")
    key = next((key for key in ("Desc", "desc") if key in value), None)
    field_place = place / key if key else place
    desc = parse_desc(desc_class, value[key] if key else value, field_place)
    return Dispatchable(field_place, name, desc, _bindings(fields.bindings, resources, place / "bindings"))


def _command(
    value: Any,
    resources: Mapping[str, Resource],
    dispatchables: Mapping[str, Dispatchable | OnnxModel],
    folder: Folder,
    place: JsonPath,
) -> Command:
    command_type = schema.parse(schema.CommandFields, value, place).type.lower()
    if command_type == "dispatch":
        dispatch = schema.parse(schema.DispatchFields, value, place)
        dispatchable = dispatchables.get(dispatch.dispatchable)
        if dispatchable is None:
            hint = f"the model has {names(dispatchables)}{did_you_mean(dispatch.dispatchable, dispatchables)}"
            raise (place / "dispatchable").error(f"there is no dispatchable {show(dispatch.dispatchable)}; {hint}")
        return Dispatch(place, dispatchable, _bindings(dispatch.bindings, resources, place / "bindings"))
    if command_type == "print":
        fields = schema.parse(schema.PrintFields, value, place)
        return Print(place, _find_resource(fields.resource, resources, place / "resource"), fields.verbose)
    if command_type == "writefile":
        write = schema.parse(schema.WriteFileFields, value, place)
        path_place = place / "targetPath"
        if extension(write.target_path) in IMAGES:
            raise path_place.error(f"{show(write.target_path)} is an image; write a .npy file instead")
        resource = _find_resource(write.resource, resources, place / "resource")
        return WriteFile(place, resource, folder.target(write.target_path, path_place), tuple(write.dimensions))
    kinds = ("dispatch", "print", "writeFile")
    advice = did_you_mean(command_type, kinds)
    raise (place / "type").error(f"there is no command {show(value['type'])}; there are {names(kinds)}{advice}")


def _bindings(value: Mapping[str, Any], resources: Mapping[str, Resource], place: JsonPath) -> Bindings:
    bindings: dict[str, tuple[Binding, ...]] = {}
    for name, bound in value.items():
        point_place = place / name
        if isinstance(bound, list):
            bindings[name] = tuple(_binding(item, resources, point_place / i) for i, item in enumerate(bound))
        else:
            bindings[name] = (_binding(bound, resources, point_place),)
    return bindings


def _binding(value: Any, resources: Mapping[str, Resource], place: JsonPath) -> Binding:
    if isinstance(value, str):
        return Binding(place, _find_resource(value, resources, place), 0)
    if not isinstance(value, dict):
        raise place.error(f"must be the name of a resource, or an object with its name, not {show(value)}")
    fields = schema.parse(schema.BindingFields, value, place)
    resource = _find_resource(fields.name, resources, place / "name")
    if fields.counter is not None:
        _find_resource(fields.counter, resources, place / "counter")
    size = fields.element_size_in_bytes or (resource.data_type.itemsize if resource.data_type else 0)
    if fields.element_offset and not size:
        reason = f"{show(fields.name)} has no data type; give elementSizeInBytes"
        raise (place / "elementOffset").error(reason)
    return Binding(place, resource, fields.element_offset * size, tuple(fields.shape))


def _find_resource(name: str, resources: Mapping[str, Resource], place: JsonPath) -> Resource:
    resource = resources.get(name)
    if resource is None:
        hint = f"the model has {names(resources)}{did_you_mean(name, resources)}"
        raise place.error(f"there is no resource {show(name)}; {hint}")
    return resource
