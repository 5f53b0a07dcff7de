"""Parse operator descs from JSON for every operator of the registry, driven by the fields of the desc dataclasses.

``input_tensors: tuple[TensorDesc, ...]`` reads the array ``InputTensors`` and checks ``InputCount`` if present;
``offsets: tuple[int, ...]`` reads the array ``Offsets`` and checks ``DimensionCount``.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any

from anydml.dxdispatch.desc_values import (
    parse_enum,
    parse_float,
    parse_scalar,
    parse_scale_bias,
    parse_size_2d,
    parse_value_type,
)
from anydml.dxdispatch.initializers import parse_data_type
from anydml.errors import DescError
from anydml.files.location import Location, names, show
from anydml.operators import REGISTRY, OperatorDesc
from anydml.operators.enums import NamedEnum, ScaleBias, Size2D
from anydml.operators.problem import camel
from anydml.operators.scalars import Scalar
from anydml.operators.unsupported import why_refused
from anydml.tensor import DataType, TensorDesc, TensorFlags
from anydml.text import closest_name, count_noun, did_you_mean

_OTHER_DISPATCHABLES = ("hlsl", "dmlserializedgraph")
_LARGEST = 2**64

TENSOR_FIELDS = (
    "DataType", "Flags", "DimensionCount", "Sizes", "Strides", "TotalTensorSizeInBytes",
    "GuaranteedBaseOffsetAlignment",
)  # fmt: skip
"""Fields of DML_BUFFER_TENSOR_DESC (directml.h)."""


SEE_OPS = "`anydml ops` lists the operators"


def parse_operator_type(text: str, location: Location) -> type[OperatorDesc]:
    """Return the desc class for a dispatchable's `type`, such as ``"DML_OPERATOR_SPLIT"`` or ``"SPLIT"``.

    Raises:
        ModelError: the text names another kind of dispatchable, or an unsupported operator.
    """
    if text.lower() in _OTHER_DISPATCHABLES:
        raise location.error(
            f"dispatchables of type {show(text)} are not supported, only ONNX models and operators; {SEE_OPS}"
        )
    for prefix in ("", "DML_OPERATOR_", "ORT_OPERATOR_"):
        if prefix + text in REGISTRY:
            return REGISTRY[prefix + text]
    if reason := why_refused(text):
        raise location.error(f"{show(text)} {reason}; {SEE_OPS}")
    advice = did_you_mean(text, REGISTRY) or did_you_mean(f"DML_OPERATOR_{text}", REGISTRY)
    raise location.error(f"{show(text)} is not supported; {SEE_OPS}{advice}")


def parse_desc(desc_class: type[OperatorDesc], value: Any, location: Location) -> OperatorDesc:
    """Parse an operator desc from its JSON object.

    Unknown fields are ignored, as in DxDispatch. The operator's rules are not checked here.

    Raises:
        ModelError: a field is missing or of the wrong type, or a count differs from the length of its array.
    """
    desc = _object(value, location)
    hints = typing.get_type_hints(desc_class)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(typing.cast(Any, desc_class)):
        name, hint = camel(field.name), hints[field.name]
        optional = isinstance(hint, types.UnionType) and types.NoneType in hint.__args__
        if name not in desc or (desc[name] is None and optional):
            # Only operators that are not DirectML's have fields with defaults in files.
            if field.default is not dataclasses.MISSING and not desc_class.OPERATOR.startswith("DML_"):
                values[field.name] = field.default
            elif optional:
                values[field.name] = None
            else:
                raise _missing_field_error(
                    desc,
                    name,
                    location,
                    [camel(declared.name) for declared in dataclasses.fields(typing.cast(Any, desc_class))],
                )
            continue
        field_location = location / name
        if hint == tuple[TensorDesc, ...]:
            tensors = _array(desc[name], field_location)
            values[field.name] = tuple(parse_tensor(tensor, field_location / i) for i, tensor in enumerate(tensors))
            _check_count(desc, f"{name.removesuffix('Tensors')}Count", name, len(tensors), location)
        elif hint == tuple[int, ...]:
            values[field.name] = integers = _integers(desc[name], field_location)
            for count in ("DimensionCount", f"{name}Count"):
                _check_count(desc, count, name, len(integers), location)
        elif hint == tuple[float, ...]:
            numbers = _array(desc[name], field_location)
            values[field.name] = tuple(parse_float(number, field_location / i) for i, number in enumerate(numbers))
            for count in ("DimensionCount", f"{name.removesuffix('s')}Count"):
                _check_count(desc, count, name, len(numbers), location)
        elif hint == Scalar:
            data_type = next(
                data_type_value for data_type_value in values.values() if isinstance(data_type_value, DataType)
            )
            values[field.name] = parse_scalar(desc[name], data_type, field_location)
        else:
            values[field.name] = _parse_single(_without_none(hint), desc[name], field_location)
    return desc_class(**values)


def _without_none(hint: Any) -> Any:
    """Return T for ``T | None``, and any other type unchanged."""
    return next((option for option in typing.get_args(hint) if option is not types.NoneType), hint)


def _parse_single(hint: Any, value: Any, location: Location) -> Any:
    if issubclass(hint, NamedEnum):
        return parse_enum(hint, value, location)
    return _PARSERS[hint](value, location)


def parse_tensor(value: Any, location: Location) -> TensorDesc:
    """Parse a DML_TENSOR_DESC: ``{"Type": …, "Desc": {…}}``, or the fields of DML_BUFFER_TENSOR_DESC inline.

    As in DxDispatch, empty `Strides` and a `TotalTensorSizeInBytes` of 0 mean that the field is not set.

    Raises:
        ModelError: a field is missing or of the wrong type, or DimensionCount differs from the length of Sizes.
    """
    fields = _object(value, location)
    tensor_type = fields.get("Type", "BUFFER")
    if tensor_type not in ("BUFFER", "DML_TENSOR_TYPE_BUFFER"):
        raise (location / "Type").error(f"{show(tensor_type)} is not supported, only DML_TENSOR_TYPE_BUFFER")
    if "Desc" in fields:
        location = location / "Desc"
        fields = _object(fields["Desc"], location)
    for name in ("DataType", "Sizes"):
        if name not in fields:
            raise _missing_field_error(fields, name, location, TENSOR_FIELDS)
    sizes = _integers(fields["Sizes"], location / "Sizes")
    _check_count(fields, "DimensionCount", "Sizes", len(sizes), location)
    type_location = location / "DataType"
    data_type = parse_data_type(_string(fields["DataType"], type_location), type_location)
    if data_type is None:
        raise type_location.error("a tensor of type UNKNOWN cannot be read")
    strides = None if fields.get("Strides") is None else _integers(fields["Strides"], location / "Strides")
    flags = _flags(fields.get("Flags", []), location / "Flags")
    total = _integer(fields.get("TotalTensorSizeInBytes", 0), location / "TotalTensorSizeInBytes")
    alignment = _integer(fields.get("GuaranteedBaseOffsetAlignment", 0), location / "GuaranteedBaseOffsetAlignment")
    try:
        return TensorDesc(data_type, sizes, strides or None, flags, total or None, alignment)
    except DescError as error:
        raise location.error(str(error)) from None


def _flags(value: Any, location: Location) -> TensorFlags:
    flags = TensorFlags.NONE
    for i, flag in enumerate(value if isinstance(value, list) else [value]):
        name = _string(flag, location).removeprefix("DML_TENSOR_FLAG_")
        if name not in TensorFlags.__members__:
            flag_location = location / i if isinstance(value, list) else location
            raise flag_location.error(f"{show(flag)} is not a tensor flag; there are {names(TensorFlags.__members__)}")
        flags |= TensorFlags[name]
    return flags


def _check_count(fields: Mapping[str, Any], count: str, array: str, length: int, location: Location) -> None:
    if count in fields and _integer(fields[count], location / count) != length:
        raise (location / count).error(f"is {show(fields[count])}, but {array} has {count_noun(length, 'entry')}")


def _missing_field_error(
    fields: Mapping[str, Any], name: str, location: Location, known_names: Collection[str]
) -> Exception:
    similar = next((key for key in fields if key.lower() == name.lower()), None)
    if similar:
        hint = f"; this object has {show(similar)}, but names are case-sensitive"
    else:
        close_name = closest_name(name, [key for key in fields if key not in known_names])
        hint = f"; this object has {show(close_name)}: is that meant?" if close_name else ""
    return (location / name).error(f"is required, but missing{hint}")


def _object(value: Any, location: Location) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise location.error(f"must be an object, not {show(value)}")
    return value


def _array(value: Any, location: Location) -> list[Any]:
    if not isinstance(value, list):
        raise location.error(f"must be an array, not {show(value)}")
    return value


def _string(value: Any, location: Location) -> str:
    if not isinstance(value, str):
        raise location.error(f"must be a string, not {show(value)}")
    return value


def _integer(value: Any, location: Location) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise location.error(f"must be an integer, not {show(value)}")
    if not -_LARGEST < value < _LARGEST:
        raise location.error(f"{show(value)} does not fit 64 bits")
    return value


def _integers(value: Any, location: Location) -> tuple[int, ...]:
    return tuple(_integer(item, location / i) for i, item in enumerate(_array(value, location)))


def _bool(value: Any, location: Location) -> bool:
    if not isinstance(value, bool):
        raise location.error(f"must be true or false, not {show(value)}")
    return value


_PARSERS: dict[Any, Callable[[Any, Location], Any]] = {
    bool: _bool,
    int: _integer,
    float: parse_float,
    TensorDesc: parse_tensor,
    DataType: parse_value_type,
    ScaleBias: parse_scale_bias,
    Size2D: parse_size_2d,
}
"""Parsers of single values, by field type."""
