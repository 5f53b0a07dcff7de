"""Requirements of the steps of WebNN's methods on a call, and functions that break them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Array
from anydml.referee.webnn.call_rules import (
    CallRule,
    change_length,
    changed_at,
    first_of,
    is_along,
    of_tensor,
    one_more,
    other_type,
    tensor_of,
    with_tensor,
    with_value,
)
from anydml.referee.webnn.operators import Call

SHAPE_OF_INDICES = "If indices's shape is not equal to indicesShapeExpected, then throw a TypeError."
INPUTS_TYPE = CallRule(
    "type",
    "If input's dataType is not equal to first's dataType, then throw a TypeError.",
    lambda call: all(call.node.array(k).dtype == first_of(call).dtype for k in call.tensors.values()),
    lambda call, draw: None if len(call.tensors) < 2 else with_tensor(call, "inputs[1]", other_type(first_of(call))),
)
INPUTS_RANK = CallRule(
    "rank",
    "If input's rank is not equal to first's rank, then throw a TypeError.",
    lambda call: all(call.node.array(k).ndim == first_of(call).ndim for k in call.tensors.values()),
    lambda call, draw: (
        None if len(call.tensors) < 2 else with_tensor(call, "inputs[1]", tensor_of(call, "inputs[1]")[None])
    ),
)


def _inputs_hold(call: Call) -> bool:
    arrays = [call.node.array(k) for k in call.tensors.values()]
    axis, ranks = call.arguments["axis"], {array.ndim for array in arrays}
    return len(ranks) > 1 or len({(*array.shape[:axis], *array.shape[axis + 1 :]) for array in arrays}) == 1


def _inputs_broken(call: Call, draw: Draw) -> Call | None:
    x, axis = first_of(call), call.arguments["axis"]
    if len(call.tensors) < 2 or x.ndim < 2:
        return None
    other_axis = draw.choice([k for k in range(x.ndim) if k != axis])
    return with_tensor(call, "inputs[1]", np.repeat(tensor_of(call, "inputs[1]"), 2, other_axis))


UPDATES_TYPE = of_tensor(
    "updates",
    "type of updates",
    "If updates's dataType is not equal to input's dataType, then throw a TypeError.",
    lambda call: tensor_of(call, "updates").dtype == first_of(call).dtype,
    other_type,
)
COORDINATES = of_tensor(
    "indices",
    "length of coordinates",
    "If coordinateSize is greater than inputRank, then throw a TypeError.",
    lambda call: tensor_of(call, "indices").shape[-1] <= first_of(call).ndim,
    lambda array: np.concatenate([array] * 6, -1),
)


def _are_ends_fewer(call: Call, field: str) -> bool:
    ends = call.arguments[field]
    shape = first_of(call).shape
    reflects = call.options.get("mode") == "reflection" and len(ends) == len(shape)
    return not reflects or all(end < size for end, size in zip(ends, shape, strict=True))


def ends_below_sizes(field: str) -> CallRule:
    """Check that reflection adds fewer elements at each end than the axis has."""

    def broken(call: Call, draw: Draw) -> Call | None:
        if call.options.get("mode") != "reflection":
            return None
        shape = first_of(call).shape
        changed = changed_at(call.arguments[field], draw, lambda k: shape[k])
        return None if changed is None else with_value(call, field, changed)

    sentence = f"If {field}[index] is greater than or equal to outputShape[index], then throw a TypeError."
    return CallRule(field, sentence, lambda call: _are_ends_fewer(call, field), broken)


def _paddings_hold(call: Call) -> bool:
    return all(len(call.arguments[option]) == first_of(call).ndim for option in ("beginningPadding", "endingPadding"))


def _paddings_broken(call: Call, draw: Draw) -> Call:
    field = draw.choice(["beginningPadding", "endingPadding"])
    return with_value(call, field, change_length(call.arguments[field], first_of(call), draw))


def _windows_hold(call: Call) -> bool:
    x, starts, sizes = first_of(call), call.arguments["starts"], call.arguments["sizes"]
    return not len(starts) == len(sizes) == x.ndim or all(
        start + size <= n or start > n for start, size, n in zip(starts, sizes, x.shape, strict=True)
    )


def _windows_broken(call: Call, draw: Draw) -> Call | None:
    x, starts = first_of(call), call.arguments["starts"]
    changed = changed_at(call.arguments["sizes"], draw, lambda k: x.shape[k] - starts[k] + 1)
    return None if changed is None else with_value(call, "sizes", changed)


def _slice_lists_hold(call: Call) -> bool:
    return len(call.arguments["starts"]) == len(call.arguments["sizes"]) == first_of(call).ndim


def _slice_lists_broken(call: Call, draw: Draw) -> Call:
    field = draw.choice(["starts", "sizes"])
    return with_value(call, field, change_length(call.arguments[field], first_of(call), draw))


def _size_of_axis(call: Call) -> int:
    axis, shape = call.options.get("axis", 0), first_of(call).shape
    return shape[axis] if axis < len(shape) else 0


def about_splits(
    name: str, sentence: str, holds: Callable[[Any, int], bool], wrong: Callable[[Any, int, Draw], Any]
) -> CallRule:
    """Return a rule about ``splits`` and the size of the axis that is split."""

    def broken(call: Call, draw: Draw) -> Call | None:
        changed = wrong(call.arguments["splits"], _size_of_axis(call), draw)
        return None if changed is None else with_value(call, "splits", changed)

    return CallRule(name, sentence, lambda call: holds(call.arguments["splits"], _size_of_axis(call)), broken)


def _can_broadcast(*shapes: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def _where_broken(call: Call, draw: Draw) -> Call | None:
    name = draw.choice([*call.tensors])
    changed = one_more(tensor_of(call, name))
    return None if changed is None else with_tensor(call, name, changed)


def can_expand(shape: Sequence[int], x: Array) -> bool:
    """Whether each size is kept, or 1 before."""
    return len(shape) >= x.ndim and all(
        n in (1, to) for n, to in zip(x.shape, shape[len(shape) - x.ndim :], strict=True)
    )


def is_permutation_in_range(permutation: Sequence[int], x: Array) -> bool:
    """Whether every item is an axis."""
    return all(0 <= axis < x.ndim for axis in permutation)


def _both_broken(call: Call, draw: Draw) -> Call:
    for name in ("indices", "updates"):
        call = with_tensor(call, name, np.repeat(tensor_of(call, name), 2, -1))
    return call


INPUTS_SIZES = CallRule(
    "sizes",
    "If dim is not equal to axis and if input's shape[dim] is not equal to first's shape[dim], then throw a TypeError.",
    _inputs_hold,
    _inputs_broken,
)


LENGTHS_OF_PADDINGS = CallRule(
    "lengths",
    "If beginningPadding's size and endingPadding's size are not both equal to input's rank, then throw a TypeError.",
    _paddings_hold,
    _paddings_broken,
)


LENGTHS_OF_SLICES = CallRule(
    "lengths",
    "If starts's size and sizes's size are not both equal to input's rank, then throw a TypeError.",
    _slice_lists_hold,
    _slice_lists_broken,
)


WINDOWS = CallRule(
    "windows",
    "If starts[index] + inputSliceSize is greater than inputSize, then throw a TypeError.",
    _windows_hold,
    _windows_broken,
)


SIZES_OF_WHERE = CallRule(
    "sizes",
    "If that returns failure, then throw a TypeError.",
    lambda call: _can_broadcast(*(call.node.array(k).shape for k in call.tensors.values())),
    _where_broken,
)


SIZES_OF_INDICES = CallRule("sizes of indices", SHAPE_OF_INDICES, is_along, _both_broken)
