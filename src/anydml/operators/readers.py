"""Converters of the fields of operator descs, by annotation."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from anydml.fields import integer, integers, type_error
from anydml.operators.enums import (
    AxisDirection,
    DepthSpaceOrder,
    InterpolationMode,
    NamedEnum,
    PaddingMode,
    ScaleBias,
    Size2D,
)
from anydml.tensor import DataType, TensorDesc


def _tensor(name: str, field: str, value: Any) -> TensorDesc:
    if not isinstance(value, TensorDesc):
        raise type_error(name, field, value, "a TensorDesc")
    return value


def _optional_tensor(name: str, field: str, value: Any) -> TensorDesc | None:
    return None if value is None else _tensor(name, field, value)


def _tensors(name: str, field: str, values: Any) -> tuple[TensorDesc, ...]:
    if not isinstance(values, Iterable):
        raise type_error(name, field, values, "a list of TensorDescs")
    return tuple(_tensor(name, f"{field}[{i}]", value) for i, value in enumerate(values))


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


def _floats(name: str, field: str, values: Any) -> tuple[float, ...]:
    if not isinstance(values, Iterable) or isinstance(values, str):
        raise type_error(name, field, values, "a list of numbers")
    return tuple(_float(name, f"{field}[{i}]", value) for i, value in enumerate(values))


def _bool(name: str, field: str, value: Any) -> bool:
    if isinstance(value, bool | np.bool_ | int | np.integer) and int(value) in (0, 1):
        return bool(value)
    raise type_error(name, field, value, "a BOOL")


def _data_type(name: str, field: str, value: Any) -> DataType:
    try:
        return DataType.parse(value)
    except ValueError:
        raise type_error(name, field, value, f"one of {', '.join(DataType.__members__)}") from None


def _enum(enum_class: type[NamedEnum], name: str, field: str, value: Any) -> NamedEnum:
    try:
        return enum_class.parse(value)
    except ValueError:
        raise type_error(name, field, value, f"one of {', '.join(enum_class.__members__)}") from None


def _scale_bias(name: str, field: str, value: Any) -> ScaleBias | None:
    if value is None:
        return None
    scale, bias = _two(name, field, value, "a ScaleBias")
    return ScaleBias(_float(name, f"{field}.Scale", scale), _float(name, f"{field}.Bias", bias))


def _size_2d(name: str, field: str, value: Any) -> Size2D:
    width, height = _two(name, field, value, "a Size2D")
    return Size2D(integer(name, f"{field}.Width", width), integer(name, f"{field}.Height", height))


def _two(name: str, field: str, value: Any, requirement: str) -> tuple[Any, Any]:
    if isinstance(value, tuple | list) and len(value) == 2:
        return value[0], value[1]
    raise type_error(name, field, value, requirement)


READERS: dict[Any, Callable[[str, str, Any], Any]] = {
    "int": integer,
    "float": _float,
    "Scalar": _number,
    "bool": _bool,
    "tuple[int, ...]": integers,
    "tuple[float, ...]": _floats,
    "TensorDesc": _tensor,
    "TensorDesc | None": _optional_tensor,
    "tuple[TensorDesc, ...]": _tensors,
    "DataType": _data_type,
    "PaddingMode": partial(_enum, PaddingMode),
    "DepthSpaceOrder": partial(_enum, DepthSpaceOrder),
    "AxisDirection": partial(_enum, AxisDirection),
    "InterpolationMode": partial(_enum, InterpolationMode),
    "ScaleBias | None": _scale_bias,
    "Size2D": _size_2d,
}
"""Converters of fields, by annotation."""
