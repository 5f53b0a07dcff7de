"""ONNX's own text: what the schemas of the installed package onnx say of each version of an operator."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
import onnx.defs
from onnx import TensorProto, helper

FIRST, LAST = 11, 25
"""Opsets that cases are of."""

_NAMES = {"FLOAT": "tensor(float)", "DOUBLE": "tensor(double)"}


@lru_cache(None)
def schema(operator: str, opset: int) -> Any:
    """The operator's schema in an opset.

    Raises:
        ValueError: the opset does not have the operator, or has only deprecated it.
    """
    try:
        found = onnx.defs.get_schema(operator, opset, "")
    except onnx.defs.SchemaError:
        found = None
    if found is None or found.deprecated:
        raise ValueError(f"opset {opset} of ONNX has no operator {operator!r}")
    return found


@lru_cache(None)
def versions(operator: str) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The operator's versions that some opset in `FIRST` to `LAST` has, each with those opsets."""
    found: dict[int, list[int]] = {}
    for opset in range(FIRST, LAST + 1):
        try:
            found.setdefault(schema(operator, opset).since_version, []).append(opset)
        except ValueError:
            continue
    return tuple((version, tuple(opsets)) for version, opsets in found.items())


@lru_cache(None)
def default_of(operator: str, opset: int, name: str) -> Any:
    """The default of an attribute; None if it has none."""
    declared = schema(operator, opset).attributes.get(name)
    if declared is None or not declared.default_value.type:
        return None
    value = helper.get_attribute_value(declared.default_value)
    return value.decode() if isinstance(value, bytes) else value


@lru_cache(None)
def dtypes(operator: str, opset: int, parameter: str) -> tuple[tuple[str, np.dtype[Any]], ...]:
    """Names and dtypes of the element types that the text lists for an input.

    Args:
        operator: the operator.
        opset: the opset.
        parameter: the name of the input.
    """
    return _dtypes(schema(operator, opset).inputs, parameter)


@lru_cache(None)
def result_dtypes(operator: str, opset: int, parameter: str) -> tuple[tuple[str, np.dtype[Any]], ...]:
    """As `dtypes`, for an output."""
    return _dtypes(schema(operator, opset).outputs, parameter)


def _dtypes(formals: Any, parameter: str) -> tuple[tuple[str, np.dtype[Any]], ...]:
    formal = next(each for each in formals if each.name == parameter)
    names = sorted(text[7:-1] for text in formal.types if text.startswith("tensor("))
    return tuple((name, dtype_of(name)) for name in names)


@lru_cache(None)
def dtype_of(name: str) -> np.dtype[Any]:
    """NumPy's dtype of an element type by ONNX's name; object for strings."""
    if name == "string":
        return np.dtype(object)
    return np.dtype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(name.upper())))


@lru_cache(None)
def name_of(dtype: np.dtype[Any]) -> str:
    """ONNX's name of a dtype."""
    return (
        "string" if dtype.hasobject else str(TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(dtype))).lower()
    )


@lru_cache(None)
def text_of(operator: str, opset: int) -> str:
    """All that the text says of an operator: its description, attributes, inputs and outputs, spaces made one."""
    found = schema(operator, opset)
    parts = [found.doc, *(each.description for each in found.attributes.values())]
    parts += [each.description for each in (*found.inputs, *found.outputs)]
    return plain(" ".join(parts))


def plain(text: str) -> str:
    """A text without marks of code and line breaks, its spaces made one."""
    return re.sub(r"\s+", " ", re.sub(r"<br/>|`", " ", text)).strip()


def says(operator: str, opset: int, sentence: str) -> bool:
    """Whether the text of an operator has a sentence."""
    return plain(sentence) in text_of(operator, opset)


def document(operator: str, opset: int) -> str:
    """The document that decides, by name."""
    return f"ONNX's Changelog.md, {operator}-{schema(operator, opset).since_version}"
