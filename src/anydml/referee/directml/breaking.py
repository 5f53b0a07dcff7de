"""Descs that break one rule each: a field of a valid one is changed, until one rule alone forbids it at every level."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from numpy.random import Generator

from anydml.errors import AnydmlError
from anydml.feature_level import FeatureLevel
from anydml.operators import OperatorDesc
from anydml.operators.enums import NamedEnum
from anydml.operators.problem import Problem
from anydml.tensor import DataType, TensorDesc


def broken(rng: Generator, desc: OperatorDesc) -> tuple[OperatorDesc, Problem] | None:
    """Return a desc with another field that breaks one rule alone, whatever the level; None if this attempt failed."""
    fields = dataclasses.fields(desc)  # type: ignore[arg-type]  # every desc is a dataclass
    field = fields[int(rng.integers(len(fields)))].name
    changes = [*_changes(rng, getattr(desc, field))]
    if not changes:
        return None
    try:
        changed: OperatorDesc = dataclasses.replace(desc, **{field: changes[int(rng.integers(len(changes)))]})  # type: ignore[type-var]
        problems = [*changed.problems(FeatureLevel.LATEST)]
    # Values that no desc can have are not cases.
    except (AnydmlError, ValueError, TypeError, OverflowError, IndexError, ZeroDivisionError):
        return None
    return (changed, problems[0]) if len(problems) == 1 and not problems[0].comes_from_level else None


def _changes(rng: Generator, value: Any) -> Iterator[Any]:
    """Yield values close to a given one, of the same type."""
    match value:
        case TensorDesc():
            yield from _tensors(rng, value)
        case bool():
            yield not value
        case NamedEnum() | DataType():
            yield from (member for member in type(value) if member != value)
        case int():
            yield from (value - 1, value + 1, value + 9)
        case float():
            yield from (value + 0.5, -value, 0.0, float("nan"))
        case tuple() if value and not hasattr(value, "_fields"):
            k = int(rng.integers(len(value)))
            yield from (value[:-1], (*value, value[-1]))
            yield from ((*value[:k], changed, *value[k + 1 :]) for changed in _changes(rng, value[k]))
        case _:
            return


def _tensors(rng: Generator, tensor: TensorDesc) -> Iterator[TensorDesc]:
    sizes = tensor.sizes
    k = int(rng.integers(len(sizes)))
    for size in (sizes[k] - 1, sizes[k] + 1):
        if size > 0:
            yield TensorDesc(tensor.data_type, [*sizes[:k], size, *sizes[k + 1 :]])
    yield TensorDesc(tensor.data_type, [1, *sizes])
    if len(sizes) > 1:
        yield TensorDesc(tensor.data_type, sizes[1:])
    types = [data_type for data_type in DataType if data_type != tensor.data_type]
    yield TensorDesc(types[int(rng.integers(len(types)))], sizes)
    # Elements of an output that share memory.
    yield TensorDesc(tensor.data_type, sizes, [0] * len(sizes))
