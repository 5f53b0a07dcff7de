"""Arguments that are arrays without dimensions, but are used as numbers, as in ``x[k:]``.

They are first traced as arrays. Once a function needs the number of one, all calls are traced with a number there.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from anydml.arrays import read_argument
from anydml.arrays.receive import adapter_of
from anydml.tracing.structure import leaves

Place = int | str
"""The position or the keyword of an argument."""

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def number_of(leaf: Any) -> Any:
    """Return the NumPy scalar of an integer array without dimensions in host memory; None for anything else.

    PyTorch's tensors of UINT8 are not converted, because they are masks when used as indices.
    """
    if type(leaf) is np.ndarray:
        return leaf[()] if not leaf.ndim and leaf.dtype.kind in "iu" else None
    torch = sys.modules.get("torch")
    if torch is not None and type(leaf) is torch.Tensor:
        is_number = not leaf.ndim and leaf.dtype in (torch.int64, torch.int32, torch.int16, torch.int8) and leaf.is_cpu
        return leaf.numpy()[()] if is_number else None
    if getattr(leaf, "ndim", None) != 0 or (adapter := adapter_of(leaf)) is None or isinstance(leaf, np.generic):
        return None
    array, _ = read_argument("fuse", adapter, "a number")
    return number_of(array) if type(array) is np.ndarray else None


def with_arrays_as_numbers(
    arguments: tuple[Any, ...], keywords: dict[str, Any], places: Iterable[Place]
) -> Arguments | None:
    """Replace arrays in some arguments by Python's numbers; return None if the arguments contain no arrays."""
    positional, named, is_changed = [*arguments], {**keywords}, False
    for argument_name in places:
        if isinstance(argument_name, int):
            if argument_name < len(positional):
                positional[argument_name] = _numbers_in(argument := positional[argument_name])
                is_changed = is_changed or positional[argument_name] is not argument
        elif argument_name in named:
            named[argument_name] = _numbers_in(argument := named[argument_name])
            is_changed = is_changed or named[argument_name] is not argument
    return (tuple(positional), named) if is_changed else None


def _numbers_in(tree: Any) -> Any:
    """Replace the arrays in a structure by numbers; without arrays, return the structure itself."""
    if isinstance(tree, (list, tuple)):
        items = [*map(_numbers_in, tree)]
        if all(map(operator.is_, items, tree)):
            return tree
        if isinstance(tree, list):
            return items
        return type(tree)(*items) if hasattr(tree, "_fields") else tuple(items)
    if isinstance(tree, dict):
        by_name = {name: _numbers_in(item) for name, item in tree.items()}
        return tree if all(map(operator.is_, by_name.values(), tree.values())) else by_name
    number = number_of(tree)
    return tree if number is None else number


def contains_arrays(arguments: Arguments) -> bool:
    """Whether arguments contain an array."""
    return any(isinstance(leaf, np.ndarray) or adapter_of(leaf) is not None for leaf in leaves(arguments))
