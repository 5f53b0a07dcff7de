"""Functions that cannot draw random numbers, since they reach only arrays, plain values, and functions that move.

Their generators need not be compared, which takes longer than to trace a small function.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from anydml.tracing.attributes import MAX_ITEMS
from anydml.tracing.categories import category_of, is_of_a_library, package_of
from anydml.tracing.numpy_table import NUMPY

_BUILTINS = frozenset(("abs", "all", "any", "bool", "dict", "divmod", "enumerate", "filter", "float", "int",
                       "isinstance", "iter", "len", "list", "map", "max", "min", "next", "print", "range", "reversed",
                       "round", "set", "slice", "sorted", "str", "sum", "tuple", "type", "zip"))  # fmt: skip
"""Builtins that call no function that the code does not name, and read nothing by a text."""

_FIELDS = frozenset(("device", "dim", "numel", "element_size", "stride", "is_contiguous"))
"""Attributes of tensors that describe them."""


def cannot_draw(names: Iterable[str], objects: Iterable[Any]) -> bool:
    """Whether a function cannot draw random numbers, whatever its arguments' elements are.

    Args:
        names: all names in its code and in the code of the functions that it calls.
        objects: all objects that it can reach, other than plain values.
    """
    return all(map(_is_movement_function_name, names)) and all(map(_is_known, objects))


def _is_movement_function_name(name: str) -> bool:
    """Whether no object that `_is_known` accepts draws by an attribute of this name."""
    return _is_safe(name, sys.modules.get("torch"), _names_of_moves())


@lru_cache(maxsize=4096)
def _is_safe(name: str, torch: Any, torch_words: frozenset[str]) -> bool:
    if name.startswith("__") or (hasattr(builtins, name) and name not in _BUILTINS):
        return False
    # Tensors alone have methods that draw. Other names are those of variables and of attributes of modules, which are
    # among the objects.
    is_of_tensors = torch is not None and hasattr(torch.Tensor, name) and not hasattr(np.ndarray, name)
    return not is_of_tensors or name in torch_words or name in _FIELDS or name in _BUILTINS


def _names_of_moves() -> frozenset[str]:
    """Return the names of functions and methods that move; PyTorch's own only once tensors were traced."""
    return _names_in(sys.modules.get(f"{__package__}.torch_table"))


@lru_cache(maxsize=2)
def _names_in(torch_table: Any) -> frozenset[str]:
    tables = (NUMPY,) if torch_table is None else (NUMPY, torch_table.TORCH)
    return frozenset(name.rpartition(".")[2] for table in tables for name in table)


def _is_known(value: Any) -> bool:
    class_ = type(value)
    category, package = category_of(class_), package_of(value)
    if category == "function":
        if not is_of_a_library(value):
            # Everything that a function reaches is visited, too. A builtin function may be a method of a generator.
            return class_ is types.FunctionType
        return value.__name__ in _names_of_moves() if package == "torch" else _comes_from_deterministic_package(value)
    if category == "wrapper":
        return package in _OWN_PACKAGES
    if category == "module":
        return package in _PACKAGES
    if category == "library":
        # Functions of NumPy; other objects of NumPy's classes may call users' functions.
        name = getattr(value, "__name__", None)
        return package in _OWN_PACKAGES or (
            package == "numpy" and name is not None and getattr(np, name, None) is value
        )
    if category == "class":
        return issubclass(value, (np.generic, np.ndarray, np.dtype)) and is_of_a_library(value)
    if category == "container":
        return class_ in (tuple, list, dict) and len(value) <= MAX_ITEMS
    return class_ is np.ndarray and not value.dtype.hasobject


def _comes_from_deterministic_package(function: Any) -> bool:
    package = package_of(function)
    return package in _OWN_PACKAGES or (package == "numpy" and not function.__module__.startswith("numpy.random"))


_OWN_PACKAGES = frozenset(("anydml", "einops"))
_PACKAGES = _OWN_PACKAGES | {"numpy", "torch"}
