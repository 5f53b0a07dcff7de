"""The emulation of ONNX Runtime's DirectML provider: 64-bit integers are read as every other 32-bit one."""

from __future__ import annotations

import dataclasses
from typing import Any

from anydml.feature_level import FeatureLevel
from anydml.operators import OperatorDesc
from anydml.tensor import DataType, TensorDesc

NARROW = {DataType.INT64: DataType.INT32, DataType.UINT64: DataType.UINT32}
"""Types of 64-bit integers, and what the provider gives to DirectML instead."""


def is_emulated(desc: OperatorDesc, level: FeatureLevel) -> bool:
    """Whether a desc breaks rules at a feature level, but would not with integers of 32 bits for those of 64.

    The provider passes indices as unsigned integers, which are what low feature levels take.
    """
    if not desc.problems(level):
        return False
    fields: dict[str, Any] = {field.name: getattr(desc, field.name) for field in dataclasses.fields(desc)}  # type: ignore[arg-type]
    narrow = {name: _narrow(value, "indices" in name) for name, value in fields.items()}
    return narrow != fields and not dataclasses.replace(desc, **narrow).problems(level)  # type: ignore[type-var]


def _narrow(value: Any, is_index: bool) -> Any:
    """Return a tensor's desc, or several, with 32-bit integers; anything else as it is."""
    if isinstance(value, tuple):
        return tuple(_narrow(item, is_index) for item in value)
    if not isinstance(value, TensorDesc) or value.data_type not in NARROW:
        return value
    data_type = DataType.UINT32 if is_index else NARROW[value.data_type]
    return TensorDesc(data_type, value.sizes, value.strides, value.flags)
