"""Find fields of a model file that neither DxDispatch nor anydml reads, most of which are misspelt.

DxDispatch's fields are those of its schema, guide and parser (microsoft/DirectML, DxDispatch: models/_schema.json,
doc/Guide.md, src/model/JsonParsers.cpp). Fields that only DxDispatch uses count as known.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, cast

from anydml.dxdispatch import schema
from anydml.dxdispatch.json_descs import TENSOR_FIELDS, parse_operator_type
from anydml.files.location import MAX_KEY, Location, names, show
from anydml.operators import OperatorDesc
from anydml.operators.problem import camel
from anydml.text import did_you_mean

MAX_TOLD = 20
"""Unknown fields that are reported individually."""

_PLAIN = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_COMMANDS: dict[str, type[schema.Fields]] = {
    "dispatch": schema.DispatchFields,
    "print": schema.PrintFields,
    "writefile": schema.WriteFileFields,
}

_Found = tuple[Location, str, str, Iterable[str]]
"""JSON path of the object, kind of name ("field" or "bind point"), unknown name, and known names."""


def unknown_fields(
    root: Mapping[str, Any], location: Location, graphs: Mapping[str, list[str]] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return a warning per unknown field, at most `MAX_TOLD` and one that counts the others.

    Args:
        root: root object of a valid model file.
        location: the file.
        graphs: bind points of the dispatchables that are ONNX models, by name.
    """
    lines: list[str] = []
    count = 0
    for field_location, noun, name, allowed in _model(root, location, graphs):
        count += 1
        if count <= MAX_TOLD:
            lines.append(f"{field_location.text}: unknown {noun} {_quote(name)}{_advice(name, list(allowed))}")
    if count > MAX_TOLD:
        lines.append(f"{location}: and {count - MAX_TOLD} more unknown fields")
    return tuple(lines)


def _quote(name: str) -> str:
    return name if len(name) <= MAX_KEY and _PLAIN.fullmatch(name) else show(name)


def _advice(name: str, allowed: list[str]) -> str:
    return did_you_mean(name, allowed) or f"; there are {names(allowed)}"


def _model(root: Mapping[str, Any], location: Location, graphs: Mapping[str, list[str]]) -> Iterator[_Found]:
    yield from _fields(root, location, schema.FileFields)
    for name, resource in root["resources"].items():
        yield from _resource(resource, location / "resources" / name)
    points = {**graphs}
    for name, dispatchable in root["dispatchables"].items():
        if name in graphs:
            yield from _fields(dispatchable, location / "dispatchables" / name, schema.OnnxFields)
            continue
        desc_class = parse_operator_type(dispatchable.get("type", dispatchable.get("Type")), location)
        points[name] = [camel(field) for field in (*desc_class.INPUTS, *desc_class.OUTPUTS)]
        yield from _dispatchable(desc_class, dispatchable, location / "dispatchables" / name)
    for i, command in enumerate(root["commands"]):
        command_location = location / "commands" / i
        fields = _COMMANDS[command["type"].lower()]
        yield from _fields(command, command_location, schema.CommandFields, fields)
        if fields is schema.DispatchFields:
            yield from _bindings(command["bindings"], command_location / "bindings", points[command["dispatchable"]])


def _resource(resource: Mapping[str, Any], location: Location) -> Iterator[_Found]:
    yield from _fields(resource, location, schema.ResourceFields)
    values, values_location = resource["initialValues"], location / "initialValues"
    if isinstance(values, dict):
        kinds: dict[str, type[schema.Fields]] = {"value": schema.ConstantFields, "valueStart": schema.SequenceFields}
        yield from _fields(
            values, values_location, next((kinds[key] for key in kinds if key in values), schema.FileSourceFields)
        )
    elif isinstance(values, list):
        for i, element in enumerate(values):
            if isinstance(element, dict):
                yield from _fields(element, values_location / i, schema.ListElementFields)


def _dispatchable(
    desc_class: type[OperatorDesc], dispatchable: Mapping[str, Any], location: Location
) -> Iterator[_Found]:
    key = next((key for key in ("Desc", "desc") if key in dispatchable), None)
    fields = _known_names(schema.DispatchableFields)
    desc_fields = _desc_fields(desc_class)
    if key is None:
        yield from _unknown_values(dispatchable, location, [*fields, *desc_fields])
        yield from _tensors(desc_class, dispatchable, location)
    else:
        yield from _unknown_values(dispatchable, location, fields)
        yield from _unknown_values(dispatchable[key], location / key, desc_fields)
        yield from _tensors(desc_class, dispatchable[key], location / key)
    points = [camel(field) for field in (*desc_class.INPUTS, *desc_class.OUTPUTS)]
    yield from _bindings(dispatchable.get("bindings", {}), location / "bindings", points)


def _desc_fields(desc_class: type[OperatorDesc]) -> list[str]:
    fields = [camel(field.name) for field in dataclasses.fields(cast(Any, desc_class))]
    counts = [f"{name.removesuffix('Tensors')}Count" for name in fields if name.endswith("Tensors")]
    counts += ["RepeatsCount"] if "Repeats" in fields else []
    counts += ["ScaleCount"] if "Scales" in fields else []
    return [*fields, *counts, "DimensionCount"]


def _tensors(desc_class: type[OperatorDesc], desc: Mapping[str, Any], location: Location) -> Iterator[_Found]:
    for field in (*desc_class.INPUTS, *desc_class.OUTPUTS):
        name = camel(field)
        tensors = desc.get(name)
        if isinstance(tensors, list):
            for i, tensor in enumerate(tensors):
                yield from _tensor(tensor, location / name / i)
        elif tensors is not None:
            yield from _tensor(tensors, location / name)


def _tensor(tensor: Mapping[str, Any], location: Location) -> Iterator[_Found]:
    if "Desc" in tensor:
        yield from _unknown_values(tensor, location, ["Type", "Desc"])
        yield from _unknown_values(tensor["Desc"], location / "Desc", TENSOR_FIELDS)
    else:
        yield from _unknown_values(tensor, location, ["Type", *TENSOR_FIELDS])


def _bindings(bindings: Mapping[str, Any], location: Location, points: Iterable[str]) -> Iterator[_Found]:
    yield from _unknown_values(bindings, location, points, "bind point")
    for point, bound in bindings.items():
        for i, binding in enumerate(bound if isinstance(bound, list) else [bound]):
            if isinstance(binding, dict):
                binding_location = location / point / i if isinstance(bound, list) else location / point
                yield from _fields(binding, binding_location, schema.BindingFields)


def _fields(value: Mapping[str, Any], location: Location, *fields_classes: type[schema.Fields]) -> Iterator[_Found]:
    yield from _unknown_values(
        value, location, [name for fields_class in fields_classes for name in _known_names(fields_class)]
    )


def _known_names(fields_class: type[schema.Fields]) -> list[str]:
    return [*(str(field.alias) for field in fields_class.model_fields.values()), *fields_class.ELSEWHERE]


def _unknown_values(
    value: Mapping[str, Any], location: Location, allowed: Iterable[str], noun: str = "field"
) -> Iterator[_Found]:
    allowed = list(allowed)
    for name in value:
        if name not in allowed:
            yield location, noun, name, allowed
