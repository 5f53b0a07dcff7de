"""Reading the arguments of descs: each is of its type, or the error says which one is not."""

from __future__ import annotations

import operator
import os
import reprlib
from typing import Any

from anydml.errors import DescError, DescTypeError

MOST_DIMENSIONS = 64
"""Of an array, in NumPy (NPY_MAXDIMS) and in PyTorch's operators; NumPy's `take` does not ask, and crashes."""

MOST_ITEMS = 1 << 24
"""Of a range or a broadcast array that becomes a list: a longer one is soon written down, but never gone through."""


def wrong(name: str, field: str, value: object, wanted: str) -> DescTypeError:
    """The error of an argument that is not of its type.

    Args:
        name: the operator, or DML_BUFFER_TENSOR_DESC.
        field: as DirectML writes it.
        value: what was given.
        wanted: what it should be, such as ``"an integer"``.
    """
    given = " ".join(reprlib.repr(value).split())
    return DescTypeError(f"{name}: {field} is {given}, but it must be {wanted}", name, field, f"it must be {wanted}")


def integer(name: str, field: str, value: Any) -> int:
    """An integer of Python, NumPy or any other library.

    Raises:
        DescTypeError: it is none.
    """
    try:
        return operator.index(value)
    except TypeError:
        # The second of two arrays, where a list of them is expected, stands where the axis does.
        is_array = field == "axis" and name in ("join", "stack", "ConcatTraining") and hasattr(value, "shape")
        raise wrong(name, field, value, f"an integer{': pass the arrays as one list' if is_array else ''}") from None


LIST = "a list of integers"
ONE_OR_LIST = f"an integer or {LIST}"


def integers(name: str, field: str, values: Any, wanted: str = LIST) -> tuple[int, ...]:
    """Several integers.

    Args:
        name: the operator.
        field: as DirectML writes it.
        values: what was given.
        wanted: what else it could be, too.

    Raises:
        DescTypeError: it is no sequence, or one of its elements is no integer.
    """
    items = items_of(name, field, values, wanted)
    try:
        return tuple(map(operator.index, items))
    except TypeError:
        if field == "pads" and items and all(isinstance(each, (tuple, list)) and len(each) == 2 for each in items):
            around = f"{wanted}, all starts, then all ends: {[each[k] for k in (0, 1) for each in items]}"
            raise wrong(name, field, values, around) from None
        # One by one, to say which.
        return tuple(integer(name, f"{field}[{i}]", value) for i, value in enumerate(items))


def check_length(name: str, field: str, values: Any) -> None:
    """Refuse a range or a broadcast array that is longer than any list, before a list is made of it.

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
    if count > MOST_ITEMS:
        message = f"{name}: {field} has {count} items that stand nowhere in memory"
        raise DescError(message, name, field, "a range or broadcast array must have at most 2²⁴ items")


def path_text(name: str, value: object) -> str:
    """The path of a file or folder.

    Raises:
        TypeError: it is neither a text nor a `pathlib.Path`.
    """
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(found, str):
        raise TypeError(f"{name} takes the path of a file, as a str or pathlib.Path, not {reprlib.repr(value)}")
    return found


def check_dimensions(name: str, field: str, count: int) -> None:
    """Refuse arrays of more dimensions than NumPy has, before NumPy sees them.

    Raises:
        DescError: there are more than 64.
    """
    if count > MOST_DIMENSIONS:
        message = f"{name}: {field} has {count} dimensions, but arrays have at most {MOST_DIMENSIONS}: reshape first"
        raise DescError(message, name, field, f"arrays must have at most {MOST_DIMENSIONS} dimensions")


def items_of(name: str, field: str, values: Any, wanted: str = LIST) -> tuple[Any, ...]:
    """The elements of a list, which are not looked at.

    Raises:
        DescTypeError: it is none; a text is no list of its letters.
    """
    check_length(name, field, values)
    try:
        if not isinstance(values, str | bytes):
            return tuple(values)
    except TypeError:
        pass
    raise wrong(name, field, values, wanted)
