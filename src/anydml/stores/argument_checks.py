"""Types of the arguments of public functions, checked before anything else is done."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from inspect import signature
from numbers import Integral
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from anydml.errors import BindingError
from anydml.text import did_you_mean

P = ParamSpec("P")
T = TypeVar("T")


class Kind(NamedTuple):
    """A kind of arguments.

    Attributes:
        fits: whether a value is of this kind.
        advice: the advice on what to pass instead.
    """

    fits: Callable[[Any], bool]
    advice: str


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _is_integer(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_list(value: Any, fits: Callable[[Any], bool]) -> bool:
    """Whether a value is a sequence of such items; a string is not."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes)) and all(map(fits, value))


def _is_string(value: Any) -> bool:
    return isinstance(value, str)


def _is_chunk(value: Any) -> bool:
    """Whether a value is a size, a list of sizes, or None, which is refused with its place."""
    return value is None or _is_integer(value) or _is_list(value, _is_integer) or isinstance(value, np.ndarray)


def _is_chunks(value: Any) -> bool:
    return _is_list(value, _is_chunk)


def _is_pair(value: Any) -> bool:
    return _is_list(value, _is_string) and len(value) == 2


PATHS = Kind(lambda value: _is_path(value) or _is_list(value, _is_path), "pass a path, or a list of paths")
FLAG = Kind(lambda value: isinstance(value, (bool, np.bool_)), "pass True or False")
LIST = Kind(lambda value: isinstance(value, (list, tuple)), "pass a list")
COUNT = Kind(_is_integer, "pass an integer")
SIZES = Kind(lambda value: _is_list(value, _is_integer), "pass a list of integers, such as [2, 2]")
STRING = Kind(_is_string, "pass a string")
STRINGS = Kind(lambda value: _is_string(value) or _is_list(value, _is_string), "pass a string, or a list of strings")

KINDS: Mapping[str, Kind] = {
    "inputs": PATHS,
    **dict.fromkeys(("overwrite", "follow", "dcp"), FLAG),
    **dict.fromkeys(("rank", "vocab_size", "zarr_format"), COUNT),
    **dict.fromkeys(("permute", "flip", "shards"), SIZES),
    **dict.fromkeys(("slices", "codec", "to"), STRING),
    **dict.fromkeys(("only", "drop", "strip"), STRINGS),
    "progress": Kind(lambda value: isinstance(value, bool) or callable(value), "pass True, False or a function"),
    "remark": Kind(callable, "pass a function that takes a line"),
    "extras": Kind(lambda value: isinstance(value, bool) or _is_path(value), "pass True, False or a folder"),
    "ranks": Kind(
        lambda value: _is_integer(value) or isinstance(value, Mapping),
        'pass an integer, or numbers by name such as {"tp": 2}',
    ),
    "rename": Kind(
        lambda value: all(map(_is_pair, value.items())) if isinstance(value, Mapping) else _is_list(value, _is_pair),
        'pass new names by patterns, such as {"*.gamma": "*.weight"}',
    ),
    "chunks": Kind(
        lambda value: all(map(_is_chunks, value.values())) if isinstance(value, Mapping) else _is_chunks(value),
        "pass a list of sizes, such as [2, 2], or for a group such lists by name",
    ),
}
"""Kinds by the names of arguments, which are the same in all functions that have them.

Arguments that are not here, such as single paths, dtypes and sizes of memory, are checked where they are read.
"""


def checked(**kinds: Kind) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function, so that arguments of other types are refused by name.

    Args:
        kinds: the kinds of arguments that are not in `KINDS`, or differ from it.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        parameters, all_kinds = signature(function), {**KINDS, **kinds}

        @wraps(function)
        def checking(*arguments: P.args, **keywords: P.kwargs) -> T:
            try:
                bound = parameters.bind(*arguments, **keywords).arguments
            except TypeError as error:
                unknown = next((name for name in keywords if name not in parameters.parameters), None)
                if unknown is None:
                    raise TypeError(f"{function.__name__}: {error}") from None
                raise TypeError(_unknown_argument(function.__name__, unknown, parameters.parameters)) from None
            for name, value in bound.items():
                reader = all_kinds.get(name)
                is_default = value is None and parameters.parameters[name].default is None
                if reader is not None and not is_default and not reader.fits(value):
                    raise argument_error(function.__name__, name, value, reader.advice)
            return function(*arguments, **keywords)

        return checking

    return decorate


def _unknown_argument(function: str, name: str, known: Iterable[str]) -> str:
    """Return the error for an argument that a function does not have."""
    if name in ("tp", "ep", "pp", "fsdp") and "ranks" in known:
        return f'{function}: {name} is one of the kinds of ranks: pass ranks={{"{name}": 2}}'
    return f"{function}: there is no argument {name}{did_you_mean(name, known)}; there are {', '.join(known)}"


def argument_error(function: str, argument: str, value: Any, advice: str) -> BindingError:
    """Return the error for an argument of a wrong type."""
    text = f"the string {value!r:.80}" if isinstance(value, str) else reprlib.repr(value)
    return BindingError(f"{function}: {argument} is {text}: {advice}", function, argument)
