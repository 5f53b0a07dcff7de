"""Parsers for fields of operator descs other than tensors and integers: enumerations, scalars and small structs."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.dxdispatch.initializers import parse_data_type
from anydml.dxdispatch.json_numbers import scalar_of
from anydml.files.location import Location, names, show
from anydml.operators.enums import NamedEnum, ScaleBias, Size2D
from anydml.operators.scalars import Scalar
from anydml.tensor import DataType
from anydml.text import did_you_mean

MEMBERS = {
    data_type: data_type.name.replace("UINT", "UInt").replace("INT", "Int").replace("FLOAT", "Float")
    for data_type in DataType
} | {DataType.FLOAT16: "UInt16"}
"""Members of DML_SCALAR_UNION, which stores a FLOAT16 as the bits of a UInt16."""


def parse_enum(enum_class: type[NamedEnum], value: Any, location: Location) -> NamedEnum:
    """Parse an enumeration member, given by its full or abbreviated name.

    Raises:
        ModelError: there is no such member.
    """
    if isinstance(value, str):
        try:
            return enum_class.parse(value)
        except ValueError:
            pass
    advice = (
        did_you_mean(value.removeprefix(enum_class.prefix()), enum_class.__members__) if isinstance(value, str) else ""
    )
    hint = f"there are {names(enum_class.__members__)}{advice}"
    raise location.error(f"{show(value)} is not a {enum_class.prefix().removesuffix('_')}; {hint}")


def parse_value_type(value: Any, location: Location) -> DataType:
    """Parse the data type of a DML_SCALAR_UNION.

    Raises:
        ModelError: there is no such type.
    """
    if not isinstance(value, str):
        raise location.error(f"must be a string, not {show(value)}")
    data_type = parse_data_type(value, location)
    if data_type is None:
        raise location.error("a value of type UNKNOWN cannot be read")
    return data_type


def parse_scalar(value: Any, data_type: DataType, location: Location) -> Scalar:
    """Parse a DML_SCALAR_UNION: a number, or an object with the member of its data type, such as ``{"Float32": 1}``.

    Raises:
        ModelError: the object has another member, or the number does not fit the data type.
    """
    if isinstance(value, dict):
        member = MEMBERS[data_type]
        if list(value) != [member]:
            raise location.error(f"must have the one member {member}, of {data_type}, not {show(value)}")
        if data_type == DataType.FLOAT16:
            bits = scalar_of(value[member], DataType.UINT16, location / member)
            return float(bits.view(np.float16)[0])
        value, location = value[member], location / member
    if data_type.dtype.kind == "u" and type(value) is int and -(1 << 63) <= value < 0:
        # The delta of an unsigned sequence may be negative; the desc checks where it may not.
        return value
    number: Scalar = scalar_of(value, data_type, location)[0].item()
    return number


def parse_float(value: Any, location: Location) -> float:
    """Parse a FLOAT.

    Raises:
        ModelError: the value is not a number.
    """
    return float(scalar_of(value, DataType.FLOAT32, location)[0])


def parse_scale_bias(value: Any, location: Location) -> ScaleBias:
    """Parse a DML_SCALE_BIAS, such as ``{"Scale": 1, "Bias": 0}``.

    Raises:
        ModelError: a field is missing or is not a number.
    """
    scale, bias = _members(value, ("Scale", "Bias"), location)
    return ScaleBias(parse_float(scale, location / "Scale"), parse_float(bias, location / "Bias"))


def parse_size_2d(value: Any, location: Location) -> Size2D:
    """Parse a DML_SIZE_2D, such as ``{"Width": 2, "Height": 2}``.

    Raises:
        ModelError: a field is missing or is not a UINT.
    """
    width, height = _members(value, ("Width", "Height"), location)
    return Size2D(
        *(int(scalar_of(n, DataType.UINT32, location / k)[0]) for k, n in (("Width", width), ("Height", height)))
    )


def _members(value: Any, fields: tuple[str, str], location: Location) -> list[Any]:
    if not isinstance(value, dict):
        raise location.error(f"must be an object, not {show(value)}")
    for field in fields:
        if field not in value:
            raise (location / field).error("is required, but missing")
    return [value[field] for field in fields]
