"""Building blocks of the rules of WebNN's operators: checks of calls, and functions that break them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anydml.referee.drawing import Draw
from anydml.referee.nodes import Array
from anydml.referee.webnn.operators import Call

INDICES = ("int32", "uint32", "int64")
"""Types of indices."""


class CallRule(NamedTuple):
    """A rule of an operator of WebNN.

    Attributes:
        name: the subject of the rule.
        sentence: the step that throws if the rule is broken.
        holds: returns whether a call conforms; true for calls to which the rule does not apply.
        broken: changes a valid call to one that breaks the rule; returns None if that is impossible.
    """

    name: str
    sentence: str
    holds: Callable[[Call], bool]
    broken: Callable[[Call, Draw], Call | None]


def value_of(call: Call, field: str) -> Any:
    """Return an argument or option that is not a tensor; None if it is omitted."""
    return call.arguments.get(field, call.options.get(field))


def with_value(call: Call, field: str, value: Any) -> Call:
    """Return the call with another argument or option."""
    if field in call.arguments:
        return call._replace(arguments={**call.arguments, field: value})
    return call._replace(options={**call.options, field: value})


def tensor_of(call: Call, name: str) -> Array:
    """Return an argument that is a tensor."""
    return call.node.array(call.tensors[name])


def with_tensor(call: Call, name: str, array: Array) -> Call:
    """Return the call with another tensor."""
    return call._replace(node=call.node.with_input(call.tensors[name], array))


def first_of(call: Call) -> Array:
    """Return the first tensor."""
    return call.node.array(0)


def argument_rule(
    field: str,
    sentence: str,
    holds: Callable[[Any, Array], bool],
    wrong: Callable[[Any, Array, Draw], Any],
    name: str = "",
    default: Any = None,
) -> CallRule:
    """Return a rule of an argument or option, given the first tensor; an omitted argument conforms."""

    def keeps(call: Call) -> bool:
        value = value_of(call, field)
        value = default if value is None else value
        return value is None or holds(value, first_of(call))

    def broken(call: Call, draw: Draw) -> Call | None:
        value = value_of(call, field)
        changed = None if value is None else wrong(value, first_of(call), draw)
        return None if changed is None else with_value(call, field, changed)

    return CallRule(name or field, sentence, keeps, broken)


def of_tensor(
    tensor: str, name: str, sentence: str, holds: Callable[[Call], bool], wrong: Callable[[Array], Array | None]
) -> CallRule:
    """Return a rule of a tensor."""

    def broken(call: Call, draw: Draw) -> Call | None:
        changed = wrong(tensor_of(call, tensor)) if tensor in call.tensors else None
        return None if changed is None else with_tensor(call, tensor, changed)

    return CallRule(name, sentence, lambda call: tensor not in call.tensors or holds(call), broken)


def other_type(array: Array) -> Array:
    """Return the array in another type."""
    return array.astype(np.int8 if array.dtype != np.int8 else np.float32)


def one_more(array: Array) -> Array | None:
    """Return an array with one more element along its last axis."""
    return None if not array.ndim else np.concatenate([array, array[..., :1]], -1)


def changed_at(values: Sequence[int], draw: Draw, new_number: Callable[[int], int]) -> list[int] | None:
    """Return a list with one element changed; None for an empty list."""
    if not values:
        return None
    k = draw.randrange(len(values))
    return [*values[:k], new_number(k), *values[k + 1 :]]


def change_length(values: Sequence[int], x: Array, draw: Draw) -> list[int]:
    """Add or remove one element."""
    return [*values[:-1]] if values and draw.is_likely(0.5) else [*values, values[-1] if values else 1]


def is_along(call: Call) -> bool:
    """Whether indices have the input's sizes but on the axis."""
    x, indices, axis = first_of(call), tensor_of(call, "indices"), call.options.get("axis", 0)
    return x.ndim != indices.ndim or all(
        k == axis or a == b for k, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True))
    )


def axis_below(rank: str) -> CallRule:
    """Return the rule that the axis is one of the first tensor's, which the step calls `rank`."""
    return argument_rule(
        "axis",
        f"If axis is greater than or equal to {rank}, then throw a TypeError.",
        lambda axis, x: bool(axis < x.ndim),
        lambda axis, x, draw: draw.choice([x.ndim, x.ndim + 1]),
        default=0,
    )


def type_of_indices(words: str) -> CallRule:
    """Return the rule that indices are of one of `INDICES`, in the words of the step."""
    return of_tensor(
        "indices",
        "type of indices",
        f"If indices's dataType{words} allowed data types (according to this table), then throw a TypeError.",
        lambda call: tensor_of(call, "indices").dtype.name in INDICES,
        lambda array: array.astype(np.float32),
    )
