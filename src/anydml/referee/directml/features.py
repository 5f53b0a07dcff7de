"""The features of a desc, as text, and those that the cases of an operator must reach: levels, types, fields, edges."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from anydml.feature_level import FeatureLevel, row_at
from anydml.operators import OperatorDesc
from anydml.operators.enums import NamedEnum
from anydml.operators.problem import camel
from anydml.referee.directml.random_descs import DRAWS

NOT_DRAWN = ("WRAP", "LINEAR", "LINEAR_INTERPOLATION")
"""Members of enumerations whose results the documents leave open, or compute."""

LEFT_OUT = {
    "join": ("InputTensors is OWNED_BY_DML",),
    "unfold": ("InputTensor has 6 dimensions", *(f"OutputTensor has {rank} dimensions" for rank in (4, 5, 6))),
}
"""Features that no desc that is drawn has."""

EDGES = ("indices first", "indices last", "indices below 0")
"""Features of what is in tensors of indices."""


def levels_of(desc: OperatorDesc) -> list[FeatureLevel]:
    """Return the levels that have the operator of a desc."""
    return [level for level in FeatureLevel if not desc.SUPPORT or row_at(desc.SUPPORT, level) is not None]


@lru_cache(None)
def reachable_features(name: str) -> tuple[str, ...]:
    """Return the features that the cases of an operator must reach."""
    desc: Any = DRAWS[name](np.random.default_rng(0))
    names = [f"level {level.short}" for level in levels_of(desc)]
    row = row_at(desc.SUPPORT, FeatureLevel.LATEST) if desc.SUPPORT else None
    inputs = {tensor.partition("[")[0] for tensor, _ in desc.inputs}
    for tensor, support in row.tensors.items() if row else ():
        names += [f"{tensor} is {data_type}" for data_type in support.data_types]
        limit = min(support.max_dimensions, 6)
        names += [f"{tensor} has {rank} dimensions" for rank in range(support.min_dimensions, limit + 1)]
        names += [f"{tensor} has strides", f"{tensor} is OWNED_BY_DML"]
        # Indices that share memory would be there twice.
        if tensor in inputs and tensor != "IndicesTensor":
            names.append(f"{tensor} is broadcast")
    for field in dataclasses.fields(desc):
        value, plain = getattr(desc, field.name), camel(field.name)
        if isinstance(value, NamedEnum):
            names += [f"{plain}={member}" for member in type(value) if member.name not in NOT_DRAWN]
        if field.name == "axis":
            names += ["Axis first", "Axis last"]
        if field.type == "TensorDesc | None":
            names += [f"{plain} omitted", f"{plain} given"]
    if "IndicesTensor" in inputs:
        names += EDGES
    return tuple(feature for feature in names if feature not in LEFT_OUT.get(name, ()))


def features_of(desc: Any, level: FeatureLevel) -> tuple[str, ...]:
    """Return the features of a desc, in words."""
    return tuple(dict.fromkeys(_features(desc, level)))


def _features(desc: Any, level: FeatureLevel) -> Iterator[str]:
    yield f"level {level.short}"
    for name, tensor in (*desc.inputs, *desc.outputs):
        plain = name.partition("[")[0]
        yield f"{plain} is {tensor.data_type}"
        yield f"{plain} has {len(tensor.sizes)} dimensions"
        if tensor.strides is not None:
            yield f"{plain} has strides"
            if any(stride == 0 and size > 1 for stride, size in zip(tensor.strides, tensor.sizes, strict=True)):
                yield f"{plain} is broadcast"
        if tensor.flags:
            yield f"{plain} is {tensor.flags.name}"
    for field in dataclasses.fields(desc):
        value, plain = getattr(desc, field.name), camel(field.name)
        if isinstance(value, NamedEnum):
            yield f"{plain}={value}"
        elif isinstance(value, tuple) and any(isinstance(item, int) and item < 0 for item in value):
            yield f"{plain} below 0"
        if field.name == "axis":
            rank = len(desc.outputs[0][1].sizes)
            yield from (f"Axis {end}" for end, at in (("first", 0), ("last", rank - 1)) if value % rank == at)
        if field.type == "TensorDesc | None":
            yield f"{plain} {'omitted' if value is None else 'given'}"


def of_indices(desc: Any, inputs: Sequence[Any]) -> Iterator[str]:
    """Whether indices have the first and the last element, and count from the end.

    Args:
        desc: the desc.
        inputs: arrays in the sizes of its inputs.
    """
    for (name, _), indices in zip(desc.inputs, inputs, strict=True):
        if name != "IndicesTensor":
            continue
        for column, size in columns_of(desc, indices):
            if (column == 0).any():
                yield "indices first"
            if (column == size - 1).any():
                yield "indices last"
            if (column < 0).any():
                yield "indices below 0"


def columns_of(desc: Any, indices: Any) -> list[tuple[Any, int]]:
    """Return indices of each axis, with its size."""
    signed = indices.astype(np.int64) if indices.dtype != np.uint64 else indices
    if desc.OPERATOR == "DML_ONE_HOT":
        return [(signed, desc.output_tensor.sizes[desc.axis])]
    if hasattr(desc, "axis"):
        return [(signed, desc.input_tensor.sizes[desc.axis])]
    batch = getattr(desc, "batch_dimension_count", 0)
    sizes = desc.input_tensor.sizes[len(desc.input_tensor.sizes) - desc.input_dimension_count :]
    return [(signed[..., k], size) for k, size in enumerate(sizes[batch : batch + signed.shape[-1]])]
