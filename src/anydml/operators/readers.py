"""Converters of the fields of operator descs, by annotation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from anydml.fields import integer, integers, type_error
from anydml.operators.enums import NamedEnum, ScaleBias, Size2D
from anydml.operators.problem import camel
from anydml.tensor import DataType, TensorDesc

Reader: TypeAlias = Callable[[str, str, Any], Any]
"""Converts the value of a field, from the operator's name, the field's and the value."""


def _tensor(name: str, field: str, value: Any) -> TensorDesc:
    if not isinstance(value, TensorDesc):
        raise type_error(name, field, value, "a TensorDesc")
    return value


def _optional(read: Reader, name: str, field: str, value: Any) -> Any:
    return None if value is None else read(name, field, value)


def _list(read: Reader, requirement: str, name: str, field: str, values: Any) -> tuple[Any, ...]:
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise type_error(name, field, values, requirement)
    return tuple(read(name, f"{field}[{i}]", value) for i, value in enumerate(values))


def _number(name: str, field: str, value: Any) -> int | float:
    """Convert a number of Python or NumPy to `int` if it is an integer, else to `float`."""
    try:
        return operator.index(value)
    except TypeError:
        if isinstance(value, float | np.floating):
            return float(value)
    raise type_error(name, field, value, "a number")


def _float(name: str, field: str, value: Any) -> float:
    try:
        return float(_number(name, field, value))
    except OverflowError:
        raise type_error(name, field, value, "a FLOAT") from None


def _bool(name: str, field: str, value: Any) -> bool:
    if isinstance(value, bool | np.bool_ | int | np.integer) and int(value) in (0, 1):
        return bool(value)
    raise type_error(name, field, value, "a BOOL")


def _member(enum_class: Any, name: str, field: str, value: Any) -> Any:
    try:
        return enum_class.parse(value)
    except ValueError:
        raise type_error(name, field, value, f"one of {', '.join(enum_class.__members__)}") from None


def _struct(struct: Any, read: Reader, name: str, field: str, values: Any) -> Any:
    if not isinstance(values, tuple | list) or len(values) != len(struct._fields):
        raise type_error(name, field, values, f"a {struct.__name__}")
    parts = zip(struct._fields, values, strict=True)
    return struct(*(read(name, f"{field}.{camel(part)}", value) for part, value in parts))


READERS: dict[Any, Reader] = {
    "int": integer,
    "float": _float,
    "Scalar": _number,
    "bool": _bool,
    "tuple[int, ...]": integers,
    "tuple[float, ...]": partial(_list, _float, "a list of numbers"),
    "TensorDesc": _tensor,
    "TensorDesc | None": partial(_optional, _tensor),
    "tuple[TensorDesc, ...]": partial(_list, _tensor, "a list of TensorDescs"),
    "ScaleBias | None": partial(_optional, partial(_struct, ScaleBias, _float)),
    "Size2D": partial(_struct, Size2D, integer),
    "DataType": partial(_member, DataType),
    **{kind.__name__: partial(_member, kind) for kind in NamedEnum.__subclasses__()},
}
"""Converters of fields, by annotation."""
