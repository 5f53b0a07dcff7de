"""Indices in a model file that are out of range for their axes, which DirectML clamps or skips silently."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from anydml.dxdispatch.json_numbers import Array
from anydml.dxdispatch.model import Resource
from anydml.dxdispatch.schedule import Schedule
from anydml.dxdispatch.steps import DispatchStep, OnnxStep
from anydml.files.location import Location
from anydml.moves import Access, Lookup

MAX_LOOKED_AT = 1 << 22
"""Maximum number of indices of a tensor that are checked."""

OPERATORS = ("GATHER", "SCATTER")
"""Parts of the names of operators whose indices must be in range; ONE_HOT also defines the others."""


def find_out_of_range_indices(
    scheduled: Schedule, contents: Callable[[Resource], Array]
) -> Iterator[tuple[Location, str]]:
    """Yield a line for each tensor of initial values that has an index out of range, with the location of its binding.

    Args:
        scheduled: the schedule of a model.
        contents: returns the initial bytes of a resource.
    """
    written: set[Resource] = set()
    reported: set[tuple[Location, str]] = set()
    for step in scheduled.steps:
        if isinstance(step, OnnxStep):
            written.update(bound.at.resource for bound in step.outputs if bound.at is not None)
        if not isinstance(step, DispatchStep):
            continue
        operator = step.dispatchable.desc.OPERATOR
        for sizes, lookup in _lookups(step) if any(name in operator for name in OPERATORS) else ():
            if lookup.operand >= len(step.inputs):
                continue
            bound = step.inputs[lookup.operand]
            is_known = bound.resource.initializer and (bound.initial or bound.resource not in written)
            description = (
                _describe_indices(contents(bound.resource)[bound.start :], sizes, lookup) if is_known else None
            )
            if description is not None and (bound.location, description) not in reported:
                reported.add((bound.location, description))
                yield bound.location, f"{operator}: {bound.name} has {description}"
        written.update(bound.resource for bound in step.outputs)


def _lookups(step: DispatchStep) -> Iterator[tuple[tuple[int, ...], Lookup]]:
    """Yield the lookups of a dispatch whose own addresses are known, with the sizes of their moves."""
    for move in step.dispatchable.desc.moves():
        for access in (move.destination, move.source):
            for lookup in access.lookups if isinstance(access, Access) else ():
                if not lookup.is_mask and not lookup.lookups:
                    yield move.sizes, lookup


def _describe_indices(buffer: Array, sizes: tuple[int, ...], lookup: Lookup) -> str | None:
    """Describe the first index outside the axis, or say that there are too many indices to check."""
    dims = [(size, stride) for size, stride in zip(sizes, lookup.strides, strict=True) if stride]
    if (count := math.prod(size for size, _ in dims)) > MAX_LOOKED_AT:
        return f"{count} indices, more than the {MAX_LOOKED_AT} that are looked at: some may lie outside the axis"
    plain, dtype = buffer[lookup.offset :], np.dtype(lookup.dtype)
    flat = plain[: plain.size // dtype.itemsize * dtype.itemsize].view(dtype)
    indices = np.lib.stride_tricks.as_strided(flat, [size for size, _ in dims], [stride for _, stride in dims])
    min_index = -lookup.size if dtype.kind == "i" else 0
    wrong = indices[(indices < min_index) | (indices >= lookup.size)]
    if not wrong.size:
        return None
    effect = "clamps it to the nearest end" if lookup.outside == "clamp" else "skips it"
    return f"{wrong[0]}, but the axis has {lookup.size}: DirectML {effect}"
