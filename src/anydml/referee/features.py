"""The features of a case: types, versions, sizes, signs, edges. They are counted for coverage, and name causes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from anydml.referee.nodes import Array, Node, OptionalValue, TensorList, Value, tensors_of
from anydml.referee.operator_rules import Operator
from anydml.referee.operators import OPERATORS
from anydml.referee.schema_texts import Kind, kinds, name_of, schema, versions

BEYOND_SIZES = 2**31 - 1
"""Numbers from this one on are larger than every size."""

MAX_VALUES = 16
"""Maximum number of elements of an input whose values are features."""


def features_of(operator: Operator, node: Node) -> tuple[str, ...]:
    """Return the features of a node, in words."""
    return tuple(dict.fromkeys(_features(operator, node)))


def _features(operator: Operator, node: Node) -> Iterator[str]:
    declared = schema(node.operator, node.opset)
    yield f"version {declared.since_version}"
    formals = [formal.name for formal in declared.inputs]
    for k, value in enumerate(node.inputs):
        name = formals[min(k, len(formals) - 1)]
        if value is None:
            yield f"{name} omitted"
            continue
        yield f"{name} is {kind_of(value)}"
        yield f"{name} {'is an initializer' if k in node.constant else 'given at run time'}"
        yield from _value_features(name, value)
    for name in formals[len(node.inputs) :]:
        yield f"{name} omitted"
    for name in declared.attributes:
        if name not in node.attributes:
            yield f"{name} omitted"
            continue
        value = node.attributes[name]
        yield f"{name} given"
        if isinstance(value, str):
            yield f"{name}={value}"
        elif isinstance(value, int):
            yield f"{name} {'below 0' if value < 0 else 'is 0' if value == 0 else 'above 0'}"
        elif isinstance(value, list) and any(not isinstance(item, str) and item < 0 for item in value):
            yield f"{name} below 0"
    for rule in operator.rules:
        yield from rule.edges(node)


def kind_of(value: Value) -> Kind:
    """Return the type of a value."""
    element, is_optional = name_of(value.dtype), isinstance(value, OptionalValue)
    is_sequence = value.is_sequence if isinstance(value, OptionalValue) else isinstance(value, TensorList)
    return Kind(element, is_sequence, is_optional)


def _value_features(name: str, value: Value) -> Iterator[str]:
    tensors = tensors_of(value)
    if isinstance(value, OptionalValue) and value.element is None:
        yield f"{name} has no element"
    elif not isinstance(value, np.ndarray) and kind_of(value).is_sequence:
        yield f"{name} has {('no tensors', 'one tensor')[len(tensors)] if len(tensors) < 2 else 'several tensors'}"
    for tensor in tensors:
        yield f"{name} of rank {tensor.ndim}"
        if 0 in tensor.shape:
            yield f"{name} is empty"
        if 1 in tensor.shape:
            yield f"{name} has a size of 1"
        yield from _number_features(name, tensor)


def _number_features(name: str, value: Array) -> Iterator[str]:
    if value.dtype.kind not in "iu" or value.size > MAX_VALUES or name == "data":
        return
    numbers = [int(element) for element in value.reshape(-1)]
    if any(number < 0 for number in numbers):
        yield f"{name} below 0"
    if 0 in numbers:
        yield f"{name} has 0"
    if any(abs(number) >= BEYOND_SIZES for number in numbers):
        yield f"{name} beyond 2^31"


@lru_cache(None)
def reachable_features(operator: Operator) -> tuple[str, ...]:
    """Return the features that an operator's cases must reach: versions, types, attributes, omitted inputs, edges."""
    names: dict[str, None] = {}
    for version, opsets in versions(operator.name):
        declared = schema(operator.name, opsets[0])
        names[f"version {version}"] = None
        for formal in declared.inputs:
            if formal.option.name == "Optional":
                names[f"{formal.name} omitted"] = None
            for kind in kinds(operator.name, opsets[0], formal.name):
                if not (operator.name == "NonZero" and kind.element == "string"):
                    names[f"{formal.name} is {kind}"] = None
        for name, attribute in declared.attributes.items():
            if name not in NOT_DRAWN.get(operator.name, ()):
                names[f"{name} given"] = None
                if not attribute.required:
                    names[f"{name} omitted"] = None
    for rule in operator.rules:
        if rule.name in ("axis", "axes", "indices"):
            names[f"{rule.name} first"] = names[f"{rule.name} last"] = None
    return tuple(names)


NOT_DRAWN = {
    "Constant": ("sparse_value",),
    "Dropout": ("seed",),
    "Resize": ("antialias", "cubic_coeff_a", "exclude_outside"),
}
"""Attributes that only nodes outside the cases have."""


def reachable_of(name: str) -> tuple[str, ...]:
    """Return the features to reach, by operator."""
    return reachable_features(OPERATORS[name])
