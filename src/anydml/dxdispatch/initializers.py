"""Initial values of a resource: constant, sequence, array, list and file.

Everything is checked before memory is allocated: an initializer has a data type and a size, and fills a buffer of that
size later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anydml.dxdispatch import schema
from anydml.dxdispatch.json_numbers import Array, array_of, fill_sequence, scalar_of
from anydml.files import npy
from anydml.files.folder import IMAGES, Folder, extension
from anydml.files.location import Location, show
from anydml.tensor import DataType


@dataclass(frozen=True)
class Initializer:
    """The initial values of a resource.

    Attributes:
        data_type: the type of the elements; None if they have several types (UNKNOWN).
        byte_count: number of bytes that `fill` writes.
        fill: writes the values to a 1-D uint8 array of `byte_count` elements; raises OSError or ModelError if a file
            cannot be read.
    """

    data_type: DataType | None
    byte_count: int
    fill: Callable[[Array], None]


def parse_data_type(text: str, location: Location) -> DataType | None:
    """Parse a DML_TENSOR_DATA_TYPE, given by its full or abbreviated name; return None for UNKNOWN.

    Raises:
        ModelError: there is no such type.
    """
    if text in ("UNKNOWN", "DML_TENSOR_DATA_TYPE_UNKNOWN"):
        return None
    try:
        return DataType.parse(text)
    except ValueError as error:
        raise location.error(str(error)) from None


def parse_initializer(values: Any, data_type: DataType | None, folder: Folder, location: Location) -> Initializer:
    """Parse `initialValues`.

    Args:
        values: the JSON value.
        data_type: `initialValuesDataType`; None if UNKNOWN or missing.
        folder: the folder that `sourcePath` is relative to.
        location: JSON path of `initialValues`.

    Raises:
        ModelError: there is no such initializer, a value does not fit the data type, a file cannot be used, or there
            are no values.
    """
    if isinstance(values, list):
        initializer = _list(values, location) if data_type is None else _array(values, data_type, location)
    elif isinstance(values, dict):
        initializer = _generate_values(values, data_type, folder, location)
    else:
        raise location.error(f'must be an array, an object or "deferred", not {show(values)}')
    if initializer.byte_count == 0:
        raise location.error("must have at least one value")
    return initializer


def _array(values: list[Any], data_type: DataType, location: Location) -> Initializer:
    return _stored_values(data_type, array_of(values, data_type, lambda i: location / i))


def _list(values: list[Any], location: Location) -> Initializer:
    elements = bytearray()
    for i, value in enumerate(values):
        element_location = location / i
        if not isinstance(value, dict):
            raise element_location.error(
                f"must be an object with type and value (or give an initialValuesDataType): {show(value)}"
            )
        element = schema.parse(schema.ListElementFields, value, element_location)
        data_type = parse_data_type(element.type, element_location / "type")
        if data_type is None:
            raise (element_location / "type").error("UNKNOWN is not the type of a value")
        elements += scalar_of(element.value, data_type, element_location / "value").tobytes()
    return _stored_values(None, np.frombuffer(elements, np.uint8))


def _stored_values(data_type: DataType | None, elements: Array) -> Initializer:
    def fill(target: Array) -> None:
        target[...] = elements.view(np.uint8)

    return Initializer(data_type, elements.nbytes, fill)


def _generate_values(
    values: dict[str, Any], data_type: DataType | None, folder: Folder, location: Location
) -> Initializer:
    kinds = [key for key in ("value", "valueStart", "sourcePath") if key in values]
    if len(kinds) != 1:
        hint = f"it has {' and '.join(kinds)}" if kinds else "it has none of them"
        raise location.error(f"must have one of value, valueStart and sourcePath, but {hint}")
    if kinds == ["sourcePath"]:
        return _file(values, data_type, folder, location)
    if data_type is None:
        raise location.error("needs an initialValuesDataType beside it, such as FLOAT32")
    if kinds == ["value"]:
        constant = schema.parse(schema.ConstantFields, values, location)
        return _constant(data_type, constant, location)
    return _sequence(data_type, schema.parse(schema.SequenceFields, values, location), location)


def _constant(data_type: DataType, fields: schema.ConstantFields, location: Location) -> Initializer:
    value = scalar_of(fields.value, data_type, location / "value")

    def fill(target: Array) -> None:
        target.view(data_type.dtype)[...] = value

    return Initializer(data_type, fields.value_count * data_type.itemsize, fill)


def _sequence(data_type: DataType, fields: schema.SequenceFields, location: Location) -> Initializer:
    start = scalar_of(fields.value_start, data_type, location / "valueStart")
    delta = scalar_of(fields.value_delta, data_type, location / "valueDelta")

    def fill(target: Array) -> None:
        fill_sequence(target.view(data_type.dtype), start, delta)

    return Initializer(data_type, fields.value_count * data_type.itemsize, fill)


def _file(values: dict[str, Any], data_type: DataType | None, folder: Folder, location: Location) -> Initializer:
    written = schema.parse(schema.FileSourceFields, values, location).source_path
    path_location = location / "sourcePath"
    suffix = extension(written)
    if suffix in IMAGES:
        raise path_location.error(f"{show(written)} is an image; read its pixels into a .npy file first")
    path = folder.source(written, path_location)
    if suffix == ".npy":
        return _npy(path, data_type, path_location)
    if data_type is None:
        raise path_location.error(f"{show(written)} is raw bytes; give their initialValuesDataType")
    size = path.stat().st_size

    def fill(target: Array) -> None:
        with path.open("rb") as file:
            if file.readinto(target.data) != size:
                raise path_location.error(f"{path} changed while it was read")

    return Initializer(data_type, size, fill)


def _npy(path: Path, data_type: DataType | None, location: Location) -> Initializer:
    header = npy.read_header(path, location)
    stored_type = _stored_type(header, location)
    if data_type not in (None, stored_type):
        raise location.error(f"{path} holds {stored_type}, but initialValuesDataType is {data_type}")

    def fill(target: Array) -> None:
        npy.read_elements(header, target.view(stored_type.dtype), location)

    return Initializer(stored_type, header.byte_count, fill)


def _stored_type(header: npy.NpyFile, location: Location) -> DataType:
    """Return the data type of a .npy file's elements; bool is read as INT8, as in DxDispatch."""
    dtype = header.dtype
    code_and_size = ("i", 1) if dtype == np.bool_ else (dtype.kind, dtype.itemsize)
    for data_type in DataType:
        if code_and_size == (data_type.dtype.kind, data_type.itemsize):
            return data_type
    types = ", ".join(t.name for t in DataType)
    raise location.error(f"{header.path} holds elements of type {dtype}, but must be one of {types}")
