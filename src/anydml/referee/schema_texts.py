"""ONNX's own text: what the schemas of the installed package onnx say of each version of an operator."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import onnx.defs
from onnx import TensorProto, helper

NEWEST = 25
FIRST, LAST = 11, min(NEWEST, onnx.defs.onnx_opset_version())
"""First and last opset of the cases: 11, and `NEWEST` or the newest that the installed package has."""


@lru_cache(None)
def schema(operator: str, opset: int) -> Any:
    """Return the operator's schema in an opset.

    Raises:
        ValueError: the opset does not have the operator, or has only deprecated it.
    """
    try:
        definition = onnx.defs.get_schema(operator, opset, "")
    except onnx.defs.SchemaError:
        definition = None
    if definition is None or definition.deprecated:
        raise ValueError(f"opset {opset} of ONNX has no operator {operator!r}")
    return definition


@lru_cache(None)
def versions(operator: str) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return the operator's versions in opsets `FIRST` to `LAST`, each with its opsets."""
    types: dict[int, list[int]] = {}
    for opset in range(FIRST, LAST + 1):
        try:
            types.setdefault(schema(operator, opset).since_version, []).append(opset)
        except ValueError:
            continue
    return tuple((version, tuple(opsets)) for version, opsets in types.items())


@lru_cache(None)
def first_versions() -> Mapping[str, int]:
    """Return every operator of ONNX's own domain, with the first opset that has it."""
    firsts: dict[str, int] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            firsts[schema.name] = min(schema.since_version, firsts.get(schema.name, schema.since_version))
    return firsts


@lru_cache(None)
def default_of(operator: str, opset: int, name: str) -> Any:
    """Return the default of an attribute; None if it has none."""
    declared = schema(operator, opset).attributes.get(name)
    if declared is None or not declared.default_value.type:
        return None
    value = helper.get_attribute_value(declared.default_value)
    return value.decode() if isinstance(value, bytes) else value


class Kind(NamedTuple):
    """A type of values.

    Attributes:
        element: ONNX's name of the element type.
        is_sequence: whether values are sequences, or optional sequences.
        is_optional: whether values are optional.
    """

    element: str
    is_sequence: bool = False
    is_optional: bool = False

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of elements."""
        return dtype_of(self.element)

    def __str__(self) -> str:
        return f"{'optional ' * self.is_optional}{'sequence of ' * self.is_sequence}{self.element}"


@lru_cache(None)
def kinds(operator: str, opset: int, parameter: str) -> tuple[Kind, ...]:
    """Return the types that the text lists for an input.

    Args:
        operator: the operator.
        opset: the opset.
        parameter: the name of the input.
    """
    return _kinds(schema(operator, opset).inputs, parameter)


def _kinds(formals: Any, parameter: str) -> tuple[Kind, ...]:
    formal = next(formal for formal in formals if formal.name == parameter)
    return tuple(
        Kind(text.rpartition("tensor(")[2].strip(")"), "seq(" in text, text.startswith("optional("))
        for text in sorted(formal.types)
    )


@lru_cache(None)
def dtypes(operator: str, opset: int, parameter: str) -> tuple[tuple[str, np.dtype[Any]], ...]:
    """Return names and dtypes of the element types that the text lists for an input that is a tensor or a sequence."""
    return _dtypes(kinds(operator, opset, parameter))


@lru_cache(None)
def result_dtypes(operator: str, opset: int) -> tuple[tuple[str, np.dtype[Any]], ...]:
    """Like `dtypes`, for the output that is called "output"."""
    return _dtypes(_kinds(schema(operator, opset).outputs, "output"))


def _dtypes(kinds: tuple[Kind, ...]) -> tuple[tuple[str, np.dtype[Any]], ...]:
    return tuple((name, dtype_of(name)) for name in sorted({kind.element for kind in kinds}))


@lru_cache(None)
def dtype_of(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype of an element type by ONNX's name; object for strings."""
    if name == "string":
        return np.dtype(object)
    return np.dtype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(name.upper())))


@lru_cache(None)
def element_type(dtype: np.dtype[Any]) -> int:
    """Return ONNX's number of a dtype."""
    return int(TensorProto.STRING) if dtype.hasobject else int(helper.np_dtype_to_tensor_dtype(dtype))


@lru_cache(None)
def name_of(dtype: np.dtype[Any]) -> str:
    """Return ONNX's name of a dtype."""
    return str(TensorProto.DataType.Name(element_type(dtype))).lower()


@lru_cache(None)
def text_of(operator: str, opset: int) -> str:
    """Return an operator's description, attributes, inputs and outputs as one text with single spaces."""
    definition = schema(operator, opset)
    parts = [definition.doc, *(attribute.description for attribute in definition.attributes.values())]
    parts += [formal.description for formal in (*definition.inputs, *definition.outputs)]
    return plain_text(" ".join(parts))


def plain_text(text: str) -> str:
    """Return a text without marks of code and line breaks, its spaces made one."""
    return re.sub(r"\s+", " ", re.sub(r"<br/>|`", " ", text)).strip()


def has_sentence(operator: str, opset: int, sentence: str) -> bool:
    """Whether the text of an operator has a sentence."""
    return plain_text(sentence) in text_of(operator, opset)


def document(operator: str, opset: int) -> str:
    """Return the document that decides, by name."""
    return f"ONNX's Changelog.md, {operator}-{schema(operator, opset).since_version}"
