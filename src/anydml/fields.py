"""Conversion of desc fields and function arguments to their types; errors name the field that does not fit."""

from __future__ import annotations

import copy
import operator
import reprlib
from contextlib import suppress
from typing import Any

import numpy as np

from anydml.errors import DescError, DescTypeError

MAX_DIMENSIONS = 64
"""Maximum number of dimensions of an array in NumPy (NPY_MAXDIMS) and PyTorch. NumPy's `take` crashes beyond it."""

SHORT_INTEGERS = frozenset(
    kind.type for kind in map(np.dtype, ("b", "B", "h", "H", "i", "I", "l", "L")) if kind.itemsize < 8
)
"""NumPy's types of integers of fewer than 64 bits, which wrap."""

MAX_ITEMS = 1 << 24
"""Maximum number of items of a range or broadcast array that becomes a list: huge ones are cheap to write only."""


def with_items(tree: dict[Any, Any], items: dict[Any, Any]) -> dict[Any, Any]:
    """Return a dict of the same class, such as an OrderedDict, and with the same attributes, with other items."""
    copied = copy.copy(tree)
    if [*map(id, copied)] != [*map(id, items)]:
        # A dict keeps its own key where an equal one is assigned.
        copied.clear()
    for name, item in items.items():
        copied[name] = item
    return copied


def type_error(name: str, field: str, value: object, requirement: str) -> DescTypeError:
    """Return the error for an argument of the wrong type.

    Args:
        name: the operator, or DML_BUFFER_TENSOR_DESC.
        field: its name in DirectML's spelling.
        value: the argument.
        requirement: a description of valid values, such as ``"an integer"``.
    """
    shown = " ".join(reprlib.repr(value).split())
    return DescTypeError(
        f"{name}: {field} is {shown}, but it must be {requirement}", name, field, f"it must be {requirement}"
    )


def integer(name: str, field: str, value: Any) -> int:
    """Convert an integer of Python, NumPy or any other library to `int`.

    Raises:
        DescTypeError: `value` is not an integer, or is a bool, which in an integer's place is a mask or a mistake.
    """
    if not is_bool(value):
        with suppress(TypeError):
            return operator.index(value)
    # In join(x, y), a common mistake for join([x, y]), the second array takes the axis' place.
    is_array = field == "axis" and name in ("join", "stack", "ConcatTraining") and getattr(value, "shape", ()) != ()
    raise type_error(name, field, value, f"an integer{': pass the arrays as one list' if is_array else ''}")


def is_bool(value: Any) -> bool:
    """Whether a value is a bool of Python or of an array library, some of which count theirs as integers."""
    return isinstance(value, bool) or str(getattr(value, "dtype", "")).endswith("bool")


UNORDERED = str, bytes, set, frozenset, dict
"""Types that can be iterated, but are not lists of integers or arrays."""

LIST = "a list of integers"
ONE_OR_LIST = f"an integer or {LIST}"


def integers(name: str, field: str, values: Any, requirement: str = LIST) -> tuple[int, ...]:
    """Convert a sequence of integers to a tuple of `int`.

    Args:
        name: the operator.
        field: its name in DirectML's spelling.
        values: the sequence.
        requirement: a description of valid values.

    Raises:
        DescTypeError: `values` is not a sequence, or an element is not an integer.
    """
    items = items_of(name, field, values, requirement)
    try:
        if {*map(type, items)} == {int} or not any(map(is_bool, items)):
            return tuple(map(operator.index, items))
    except TypeError:
        if field == "pads" and items and all(isinstance(pair, (tuple, list)) and len(pair) == 2 for pair in items):
            around = f"{requirement}, all starts, then all ends: {[pair[k] for k in (0, 1) for pair in items]}"
            raise type_error(name, field, values, around) from None
    # Item by item, so that the error names the index.
    return tuple(integer(name, f"{field}[{i}]", value) for i, value in enumerate(items))


def check_length(name: str, field: str, values: Any) -> None:
    """Reject a range or broadcast array that is too long to convert to a list.

    Raises:
        DescError: it has more than 2²⁴ items.
    """
    strides = getattr(values, "strides", None)
    if isinstance(strides, tuple) and 0 in strides:
        count = values.shape[0]
    elif isinstance(values, range):
        count = (values.stop - values.start) // values.step
    else:
        return
    if count > MAX_ITEMS:
        message = f"{name}: {field} has {count} items that are not stored in memory"
        raise DescError(message, name, field, "a range or broadcast array must have at most 2²⁴ items")


def check_dimensions(name: str, field: str, count: int) -> None:
    """Reject arrays with more dimensions than NumPy supports.

    Raises:
        DescError: there are more than 64.
    """
    if count > MAX_DIMENSIONS:
        message = f"{name}: {field} has {count} dimensions, but arrays have at most {MAX_DIMENSIONS}: reshape first"
        raise DescError(message, name, field, f"arrays must have at most {MAX_DIMENSIONS} dimensions")


def items_of(name: str, field: str, values: Any, requirement: str = LIST) -> tuple[Any, ...]:
    """Return the items of a sequence, unchecked.

    Raises:
        DescTypeError: `values` is not a sequence, or is a string, or a set or dict, whose order callers seldom mean.
    """
    check_length(name, field, values)
    try:
        if not isinstance(values, UNORDERED):
            return tuple(values)
    except TypeError:
        if type(values) is int and requirement == LIST:
            requirement += f", such as [{values}, {values}]"
    raise type_error(name, field, values, requirement)
