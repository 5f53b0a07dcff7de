"""Conversion of desc fields and function arguments to their types; errors name the field that does not fit."""

from __future__ import annotations

import copy
import operator
import os
import re
import reprlib
from typing import Any

import numpy as np

from anydml.errors import DescError, DescTypeError, ModelError

MOST_DIMENSIONS = 64
"""Most dimensions of an array in NumPy (NPY_MAXDIMS) and PyTorch. NumPy's `take` crashes beyond it."""

SHORT_INTEGERS = frozenset(
    kind.type for kind in map(np.dtype, ("b", "B", "h", "H", "i", "I", "l", "L")) if kind.itemsize < 8
)
"""NumPy's types of integers of fewer than 64 bits, which wrap."""

MOST_ITEMS = 1 << 24
"""Most items of a range or broadcast array that is converted to a list: huge ones are cheap to write, not to read."""


def with_items(tree: dict[Any, Any], items: dict[Any, Any]) -> dict[Any, Any]:
    """Return a dict of the same class, such as an OrderedDict, and with the same attributes, with other items."""
    found = copy.copy(tree)
    for name, each in items.items():
        found[name] = each
    return found


_SCHEMES = "abfss?|adl|az|dbfs|file|ftps?|gcs|github|gs|hdfs|hf|https?|memory|oci|oss|r2|s3[an]?|sftp|smb|ssh|wasbs?"
"""Of addresses; `pathlib.Path` makes one slash of the two behind them."""

_CHAINED = "simplecache|filecache|blockcache|reference|tar|zip"

_ADDRESS = re.compile(
    rf"\s*([A-Za-z][A-Za-z0-9+.-]+(::[A-Za-z0-9+.-]+)*://|({_SCHEMES}):/|({_SCHEMES}|{_CHAINED})::)", re.IGNORECASE
)
"""The beginning of an address. Drives of Windows are one letter."""


def wrong(name: str, field: str, value: object, wanted: str) -> DescTypeError:
    """Return the error for an argument of the wrong type.

    Args:
        name: the operator, or DML_BUFFER_TENSOR_DESC.
        field: its name in DirectML's spelling.
        value: the argument.
        wanted: a description of valid values, such as ``"an integer"``.
    """
    given = " ".join(reprlib.repr(value).split())
    return DescTypeError(f"{name}: {field} is {given}, but it must be {wanted}", name, field, f"it must be {wanted}")


def integer(name: str, field: str, value: Any) -> int:
    """Convert an integer of Python, NumPy or any other library to `int`.

    Raises:
        DescTypeError: `value` is not an integer.
    """
    try:
        return operator.index(value)
    except TypeError:
        # In join(x, y), a common mistake for join([x, y]), the second array takes the axis' place.
        is_array = field == "axis" and name in ("join", "stack", "ConcatTraining") and hasattr(value, "shape")
        raise wrong(name, field, value, f"an integer{': pass the arrays as one list' if is_array else ''}") from None


LIST = "a list of integers"
ONE_OR_LIST = f"an integer or {LIST}"


def integers(name: str, field: str, values: Any, wanted: str = LIST) -> tuple[int, ...]:
    """Convert a sequence of integers to a tuple of `int`.

    Args:
        name: the operator.
        field: its name in DirectML's spelling.
        values: the sequence.
        wanted: a description of valid values.

    Raises:
        DescTypeError: `values` is not a sequence, or an element is not an integer.
    """
    items = items_of(name, field, values, wanted)
    try:
        return tuple(map(operator.index, items))
    except TypeError:
        if field == "pads" and items and all(isinstance(each, (tuple, list)) and len(each) == 2 for each in items):
            around = f"{wanted}, all starts, then all ends: {[each[k] for k in (0, 1) for each in items]}"
            raise wrong(name, field, values, around) from None
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
    if count > MOST_ITEMS:
        message = f"{name}: {field} has {count} items that are not stored in memory"
        raise DescError(message, name, field, "a range or broadcast array must have at most 2²⁴ items")


def path_text(name: str, value: object) -> str:
    """Return the path of a local file or folder as text.

    Raises:
        TypeError: `value` is neither a `str` nor a `pathlib.Path`.
        ModelError: it is an address, such as ``s3://bucket/x.zarr``.
    """
    found = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(found, str):
        raise TypeError(f"{name} takes the path of a file, as a str or pathlib.Path, not {reprlib.repr(value)}")
    if (said := address(found)) is not None:
        raise ModelError(f"{name}: {found[:200]!r} {said}")
    return found


def address(path: str) -> str | None:
    """Say that a path is the address of something that is no local file, and what to do; None if it is not."""
    found = _ADDRESS.match(path)
    if found is None:
        return None
    what = (
        "copy it to this machine first, or write here and copy the result; a folder of this name needs its whole path"
    )
    if found[0].strip().lower().startswith("file:"):
        what = f"write /{path[found.end() :].lstrip('/')[:200]}"
    return f"is an address, and only files on this machine are read and written here: {what}"


def check_dimensions(name: str, field: str, count: int) -> None:
    """Reject arrays with more dimensions than NumPy supports.

    Raises:
        DescError: there are more than 64.
    """
    if count > MOST_DIMENSIONS:
        message = f"{name}: {field} has {count} dimensions, but arrays have at most {MOST_DIMENSIONS}: reshape first"
        raise DescError(message, name, field, f"arrays must have at most {MOST_DIMENSIONS} dimensions")


def items_of(name: str, field: str, values: Any, wanted: str = LIST) -> tuple[Any, ...]:
    """Return the items of a sequence, unchecked.

    Raises:
        DescTypeError: `values` is not a sequence, or is a string.
    """
    check_length(name, field, values)
    try:
        if not isinstance(values, str | bytes):
            return tuple(values)
    except TypeError:
        pass
    raise wrong(name, field, values, wanted)
