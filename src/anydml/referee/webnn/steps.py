"""Rules of WebNN's operators, in the words of the steps of their methods."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Array
from anydml.referee.webnn.operators import RESAMPLED, Call
from anydml.referee.webnn.rules import (
    CallRule,
    about,
    axis_below,
    changed_at,
    first_of,
    is_along,
    longer,
    of_tensor,
    one_more,
    other_type,
    tensor_of,
    type_of_indices,
    with_tensor,
    with_value,
)

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
    axis, ranks = call.arguments["axis"], {each.ndim for each in arrays}
    return len(ranks) > 1 or len({(*each.shape[:axis], *each.shape[axis + 1 :]) for each in arrays}) == 1


def _inputs_broken(call: Call, draw: Draw) -> Call | None:
    x, axis = first_of(call), call.arguments["axis"]
    if len(call.tensors) < 2 or x.ndim < 2:
        return None
    other = draw.choice([k for k in range(x.ndim) if k != axis])
    return with_tensor(call, "inputs[1]", np.repeat(tensor_of(call, "inputs[1]"), 2, other))


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


def _too_far(field: str) -> CallRule:
    def broken(call: Call, draw: Draw) -> Call | None:
        if call.options.get("mode") != "reflection":
            return None
        shape = first_of(call).shape
        changed = changed_at(call.arguments[field], draw, lambda k: shape[k])
        return None if changed is None else with_value(call, field, changed)

    sentence = f"If {field}[index] is greater than or equal to outputShape[index], then throw a TypeError."
    return CallRule(field, sentence, lambda call: _are_ends_fewer(call, field), broken)


def _paddings_hold(call: Call) -> bool:
    return all(len(call.arguments[each]) == first_of(call).ndim for each in ("beginningPadding", "endingPadding"))


def _paddings_broken(call: Call, draw: Draw) -> Call:
    field = draw.choice(["beginningPadding", "endingPadding"])
    return with_value(call, field, longer(call.arguments[field], first_of(call), draw))


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
    return with_value(call, field, longer(call.arguments[field], first_of(call), draw))


def _size_of_axis(call: Call) -> int:
    axis, shape = call.options.get("axis", 0), first_of(call).shape
    return shape[axis] if axis < len(shape) else 0


def _splits(
    name: str, sentence: str, holds: Callable[[Any, int], bool], wrong: Callable[[Any, int, Draw], Any]
) -> CallRule:
    def broken(call: Call, draw: Draw) -> Call | None:
        changed = wrong(call.arguments["splits"], _size_of_axis(call), draw)
        return None if changed is None else with_value(call, "splits", changed)

    return CallRule(name, sentence, lambda call: holds(call.arguments["splits"], _size_of_axis(call)), broken)


def _broadcasts(*shapes: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def _where_broken(call: Call, draw: Draw) -> Call | None:
    name = draw.choice([*call.tensors])
    changed = one_more(tensor_of(call, name))
    return None if changed is None else with_tensor(call, name, changed)


def _expands(shape: Sequence[int], x: Array) -> bool:
    return len(shape) >= x.ndim and all(
        n in (1, to) for n, to in zip(x.shape, shape[len(shape) - x.ndim :], strict=True)
    )


def _is_permutation_in_range(permutation: Sequence[int], x: Array) -> bool:
    return all(0 <= axis < x.ndim for axis in permutation)


def _both_broken(call: Call, draw: Draw) -> Call:
    for name in ("indices", "updates"):
        call = with_tensor(call, name, np.repeat(tensor_of(call, name), 2, -1))
    return call


SHAPE_OF_INDICES = "If indices's shape is not equal to indicesShapeExpected, then throw a TypeError."

RULES: Mapping[str, tuple[CallRule, ...]] = {
    "concat": (
        axis_below("first's rank"),
        INPUTS_TYPE,
        INPUTS_RANK,
        CallRule(
            "sizes",
            "If dim is not equal to axis and if input's shape[dim] is not equal to first's shape[dim], then throw a "
            "TypeError.",
            _inputs_hold,
            _inputs_broken,
        ),
    ),
    "expand": (
        about(
            "newShape",
            "If dimTo is not equal to dimFrom and dimFrom is not equal to 1, then return failure.",
            _expands,
            lambda shape, x, draw: (
                [*shape[:-1], shape[-1] + 1] if x.ndim and x.shape[-1] > 1 else [*shape, 2][1:] if not shape else None
            ),
        ),
    ),
    "gather": (type_of_indices(" is not one of its"), axis_below("inputRank")),
    "gatherElements": (
        type_of_indices(" is not one of its"),
        axis_below("input's rank"),
        of_tensor("indices", "sizes of indices", SHAPE_OF_INDICES, is_along, lambda array: np.repeat(array, 2, -1)),
    ),
    "gatherND": (type_of_indices("'s is not one of the"), COORDINATES),
    "identity": (),
    "pad": (
        CallRule(
            "lengths",
            "If beginningPadding's size and endingPadding's size are not both equal to input's rank, then throw a "
            "TypeError.",
            _paddings_hold,
            _paddings_broken,
        ),
        _too_far("beginningPadding"),
        _too_far("endingPadding"),
    ),
    "resample2d": (
        of_tensor(
            "input",
            "type",
            "If input's dataType is not one of its allowed data types (according to this table), then throw a "
            "TypeError.",
            lambda call: first_of(call).dtype in RESAMPLED,
            lambda array: array.astype(np.int32),
        ),
        of_tensor(
            "input",
            "rank",
            "If input's rank is not its allowed rank, then throw a TypeError.",
            lambda call: first_of(call).ndim == 4,
            lambda array: array[None],
        ),
        about(
            "scales",
            "Otherwise, if any of its items is less than or equal to 0, or if its size is not 2, then throw a "
            "TypeError.",
            lambda scales, x: len(scales) == 2 and min(scales) > 0,
            lambda scales, x, draw: draw.choice([[scales[0], 0.0], [scales[0], -1.0], [*scales, 1.0]]),
        ),
        about(
            "sizes",
            "If options.sizes exists, and if its size is not 2, or if any of its items is 0, then throw a TypeError.",
            lambda sizes, x: len(sizes) == 2 and min(sizes) > 0,
            lambda sizes, x, draw: draw.choice([[sizes[0], 0], [*sizes, 1], sizes[:1]]),
        ),
        about(
            "axes",
            "Otherwise, if options.axes contains duplicate values, or if any of its items is not in the range 0 to "
            "input's rank, exclusive, then throw a TypeError.",
            lambda axes, x: len({*axes}) == len(axes) and all(0 <= axis < x.ndim for axis in axes),
            lambda axes, x, draw: draw.choice([[axes[0], axes[0]], [axes[0], 4]]),
        ),
    ),
    "reshape": (
        about(
            "newShape",
            "If product of all values in newShape is not equal to inputElementCount, then throw a TypeError.",
            lambda shape, x: math.prod(shape) == x.size,
            lambda shape, x, draw: [*shape, 2],
        ),
    ),
    "reverse": (
        about(
            "axes",
            "Otherwise, if axes contains duplicate values, or if any of its elements is not in the range 0 to "
            "inputRank, exclusive, then return failure.",
            lambda axes, x: len({*axes}) == len(axes) and all(0 <= axis < x.ndim for axis in axes),
            lambda axes, x, draw: draw.choice([[*axes, x.ndim], [*axes, axes[0]] if axes else [x.ndim]]),
        ),
    ),
    "scatterElements": (
        type_of_indices(" is not one of its"),
        UPDATES_TYPE,
        axis_below("input's rank"),
        CallRule("sizes of indices", SHAPE_OF_INDICES, is_along, _both_broken),
        of_tensor(
            "updates",
            "sizes of updates",
            "If updates's shape is not equal to indices's shape, then throw a TypeError.",
            lambda call: tensor_of(call, "updates").shape == tensor_of(call, "indices").shape,
            one_more,
        ),
    ),
    "scatterND": (
        type_of_indices("'s is not one of the"),
        UPDATES_TYPE,
        COORDINATES,
        of_tensor(
            "updates",
            "sizes of updates",
            "If updates's shape is not equal to expectedUpdatesShape, then throw a TypeError.",
            lambda call: (
                tensor_of(call, "updates").shape
                == (
                    *tensor_of(call, "indices").shape[:-1],
                    *first_of(call).shape[tensor_of(call, "indices").shape[-1] :],
                )
                or tensor_of(call, "indices").shape[-1] > first_of(call).ndim
            ),
            one_more,
        ),
    ),
    "slice": (
        about(
            "sizes",
            "If any of sizes's items are 0, then throw a TypeError.",
            lambda sizes, x: 0 not in sizes,
            lambda sizes, x, draw: changed_at(sizes, draw, lambda k: 0),
        ),
        CallRule(
            "lengths",
            "If starts's size and sizes's size are not both equal to input's rank, then throw a TypeError.",
            _slice_lists_hold,
            _slice_lists_broken,
        ),
        about(
            "strides",
            "If strides's size is not equal to input's rank, then throw a TypeError.",
            lambda strides, x: len(strides) == x.ndim,
            longer,
            name="number of strides",
        ),
        about(
            "strides",
            "If stride is less than 1, then throw a TypeError.",
            lambda strides, x: 0 not in strides,
            lambda strides, x, draw: changed_at(strides, draw, lambda k: 0),
        ),
        CallRule(
            "windows",
            "If starts[index] + inputSliceSize is greater than inputSize, then throw a TypeError.",
            _windows_hold,
            _windows_broken,
        ),
    ),
    "split": (
        axis_below("input's rank"),
        _splits(
            "equal parts",
            "If input's shape[axis] % splits is not 0, then throw a TypeError.",
            lambda splits, size: not isinstance(splits, int) or not size or (splits > 0 and size % splits == 0),
            lambda splits, size, draw: size + 1 if isinstance(splits, int) else None,
        ),
        _splits(
            "empty parts",
            "If any of its items is equal to 0, then throw a TypeError.",
            lambda splits, size: isinstance(splits, int) or 0 not in splits,
            lambda splits, size, draw: None if isinstance(splits, int) else [*splits, 0],
        ),
        _splits(
            "sum",
            "If the sum of its items is not equal to input's shape[axis], then throw a TypeError.",
            lambda splits, size: isinstance(splits, int) or not size or sum(splits) == size,
            lambda splits, size, draw: (
                None if isinstance(splits, int) else draw.choice([[*splits, 1], [splits[0] + 1, *splits[1:]]])
            ),
        ),
    ),
    "tile": (
        about(
            "repetitions",
            "If repetitions's size is not equal to input's rank, then throw a TypeError.",
            lambda repetitions, x: len(repetitions) == x.ndim,
            longer,
            name="number of repetitions",
        ),
        about(
            "repetitions",
            "If repetitions's values contain 0's, then throw a TypeError.",
            lambda repetitions, x: 0 not in repetitions,
            lambda repetitions, x, draw: changed_at(repetitions, draw, lambda k: 0),
        ),
    ),
    "transpose": (
        about(
            "permutation",
            "If its size is not equal to input's rank, then throw a TypeError.",
            lambda permutation, x: len(permutation) == x.ndim,
            lambda permutation, x, draw: [each for each in permutation if each] if len(permutation) > 1 else None,
            name="length of permutation",
        ),
        about(
            "permutation",
            "If its items are not in the range 0 to input's rank exclusive, then throw a TypeError.",
            _is_permutation_in_range,
            lambda permutation, x, draw: changed_at(permutation, draw, lambda k: x.ndim),
        ),
        about(
            "permutation",
            "If it contains duplicate values, then throw a TypeError.",
            lambda permutation, x: len({*permutation}) == len(permutation),
            lambda permutation, x, draw: [permutation[1], *permutation[1:]] if len(permutation) > 1 else None,
            name="axes twice",
        ),
    ),
    "triangular": (
        of_tensor(
            "input",
            "rank",
            "If input's rank is not one of its allowed ranks (according to this table), then throw a TypeError.",
            lambda call: first_of(call).ndim >= 2,
            lambda array: array.reshape(-1),
        ),
    ),
    "where": (
        of_tensor(
            "condition",
            "type of condition",
            "If the dataType of any of condition, trueValue, or falseValue is not one of its allowed data types "
            "(according to this table), then throw a TypeError.",
            lambda call: tensor_of(call, "condition").dtype == np.uint8,
            lambda array: array.astype(np.float32),
        ),
        of_tensor(
            "falseValue",
            "type of falseValue",
            "If the dataType of any of condition, trueValue, or falseValue is not one of its allowed data types "
            "(according to this table), then throw a TypeError.",
            lambda call: tensor_of(call, "falseValue").dtype == tensor_of(call, "trueValue").dtype,
            other_type,
        ),
        CallRule(
            "sizes",
            "If that returns failure, then throw a TypeError.",
            lambda call: _broadcasts(*(call.node.array(k).shape for k in call.tensors.values())),
            _where_broken,
        ),
    ),
}
"""Rules by operator."""
