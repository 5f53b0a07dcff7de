"""Rules of WebNN's operators, in the words of the steps of their methods."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from anydml.referee.webnn.call_rules import (
    CallRule,
    argument_rule,
    axis_below,
    change_length,
    changed_at,
    first_of,
    is_along,
    of_tensor,
    one_more,
    other_type,
    tensor_of,
    type_of_indices,
)
from anydml.referee.webnn.operators import RESAMPLED
from anydml.referee.webnn.step_rules import (
    COORDINATES,
    INPUTS_RANK,
    INPUTS_SIZES,
    INPUTS_TYPE,
    LENGTHS_OF_PADDINGS,
    LENGTHS_OF_SLICES,
    SHAPE_OF_INDICES,
    SIZES_OF_INDICES,
    SIZES_OF_WHERE,
    UPDATES_TYPE,
    WINDOWS,
    about_splits,
    can_expand,
    ends_below_sizes,
    is_permutation_in_range,
)

RULES: Mapping[str, tuple[CallRule, ...]] = {
    "concat": (
        axis_below("first's rank"),
        INPUTS_TYPE,
        INPUTS_RANK,
        INPUTS_SIZES,
    ),
    "expand": (
        argument_rule(
            "newShape",
            "If dimTo is not equal to dimFrom and dimFrom is not equal to 1, then return failure.",
            can_expand,
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
        LENGTHS_OF_PADDINGS,
        ends_below_sizes("beginningPadding"),
        ends_below_sizes("endingPadding"),
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
        argument_rule(
            "scales",
            "Otherwise, if any of its items is less than or equal to 0, or if its size is not 2, then throw a "
            "TypeError.",
            lambda scales, x: len(scales) == 2 and min(scales) > 0,
            lambda scales, x, draw: draw.choice([[scales[0], 0.0], [scales[0], -1.0], [*scales, 1.0]]),
        ),
        argument_rule(
            "sizes",
            "If options.sizes exists, and if its size is not 2, or if any of its items is 0, then throw a TypeError.",
            lambda sizes, x: len(sizes) == 2 and min(sizes) > 0,
            lambda sizes, x, draw: draw.choice([[sizes[0], 0], [*sizes, 1], sizes[:1]]),
        ),
        argument_rule(
            "axes",
            "Otherwise, if options.axes contains duplicate values, or if any of its items is not in the range 0 to "
            "input's rank, exclusive, then throw a TypeError.",
            lambda axes, x: len({*axes}) == len(axes) and all(0 <= axis < x.ndim for axis in axes),
            lambda axes, x, draw: draw.choice([[axes[0], axes[0]], [axes[0], 4]]),
        ),
    ),
    "reshape": (
        argument_rule(
            "newShape",
            "If product of all values in newShape is not equal to inputElementCount, then throw a TypeError.",
            lambda shape, x: math.prod(shape) == x.size,
            lambda shape, x, draw: [*shape, 2],
        ),
    ),
    "reverse": (
        argument_rule(
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
        SIZES_OF_INDICES,
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
        argument_rule(
            "sizes",
            "If any of sizes's items are 0, then throw a TypeError.",
            lambda sizes, x: 0 not in sizes,
            lambda sizes, x, draw: changed_at(sizes, draw, lambda k: 0),
        ),
        LENGTHS_OF_SLICES,
        argument_rule(
            "strides",
            "If strides's size is not equal to input's rank, then throw a TypeError.",
            lambda strides, x: len(strides) == x.ndim,
            change_length,
            name="number of strides",
        ),
        argument_rule(
            "strides",
            "If stride is less than 1, then throw a TypeError.",
            lambda strides, x: 0 not in strides,
            lambda strides, x, draw: changed_at(strides, draw, lambda k: 0),
        ),
        WINDOWS,
    ),
    "split": (
        axis_below("input's rank"),
        about_splits(
            "equal parts",
            "If input's shape[axis] % splits is not 0, then throw a TypeError.",
            lambda splits, size: not isinstance(splits, int) or not size or (splits > 0 and size % splits == 0),
            lambda splits, size, draw: size + 1 if isinstance(splits, int) else None,
        ),
        about_splits(
            "empty parts",
            "If any of its items is equal to 0, then throw a TypeError.",
            lambda splits, size: isinstance(splits, int) or 0 not in splits,
            lambda splits, size, draw: None if isinstance(splits, int) else [*splits, 0],
        ),
        about_splits(
            "sum",
            "If the sum of its items is not equal to input's shape[axis], then throw a TypeError.",
            lambda splits, size: isinstance(splits, int) or not size or sum(splits) == size,
            lambda splits, size, draw: (
                None if isinstance(splits, int) else draw.choice([[*splits, 1], [splits[0] + 1, *splits[1:]]])
            ),
        ),
    ),
    "tile": (
        argument_rule(
            "repetitions",
            "If repetitions's size is not equal to input's rank, then throw a TypeError.",
            lambda repetitions, x: len(repetitions) == x.ndim,
            change_length,
            name="number of repetitions",
        ),
        argument_rule(
            "repetitions",
            "If repetitions's values contain 0's, then throw a TypeError.",
            lambda repetitions, x: 0 not in repetitions,
            lambda repetitions, x, draw: changed_at(repetitions, draw, lambda k: 0),
        ),
    ),
    "transpose": (
        argument_rule(
            "permutation",
            "If its size is not equal to input's rank, then throw a TypeError.",
            lambda permutation, x: len(permutation) == x.ndim,
            lambda permutation, x, draw: [axis for axis in permutation if axis] if len(permutation) > 1 else None,
            name="length of permutation",
        ),
        argument_rule(
            "permutation",
            "If its items are not in the range 0 to input's rank exclusive, then throw a TypeError.",
            is_permutation_in_range,
            lambda permutation, x, draw: changed_at(permutation, draw, lambda k: x.ndim),
        ),
        argument_rule(
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
        SIZES_OF_WHERE,
    ),
}
"""Rules by operator."""
