"""Words: a library's names and parameters of an operation.

A table has one line per word: its names, the operation, and the library's parameters, in the order of the operation's:

    name          passed on                     @name     an array, converted to a traced array
    name=0        0 by default                  @@names   a list of arrays
    -name         accepted and ignored          *names    a list, or the remaining positional arguments
    name|other    with an alternative name      @*names   a list of arrays, or the remaining positional arguments
    **names       the remaining positional arguments, unchanged
    *             all others are passed by name

An `out` other than None is refused in any position.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import numpy as np

from anydml.tracing.constants import arrays_of, refuse_traced_numbers
from anydml.tracing.refusing import MOVES_ONLY_RULE, fuse_error, named_errors, refusal
from anydml.tracing.trace import NUMBER_METHODS, Trace, TracedArray, with_needed_argument

PROPERTIES = frozenset(("T", "mT", "H", "mH", "real"))
"""Attributes of arrays that are not called."""

_REQUIRED: Any = object()


class LazyModule:
    """A module of operations, imported when one of them is first called: most functions need few modules.

    Args:
        name: the module's name in this package.
    """

    def __init__(self, name: str) -> None:
        self._name = f"{__package__}.{name}"

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def operation(*arguments: Any, **named: Any) -> Any:
            return getattr(sys.modules.get(self._name) or import_module(self._name), name)(*arguments, **named)

        return operation


class _Parameter(NamedTuple):
    names: list[str]
    kind: str
    default: Any


class LibraryFunction:
    """A line of a table.

    Args:
        operation: the function on traced arrays.
        parameters: the library's parameters, in the syntax above.
        fixed: constant arguments of the operation.

    Attributes:
        is_strict: whether bools are not integers, and only tensors are arrays, as PyTorch has it.
    """

    is_strict = False

    def __init__(self, operation: Callable[..., Any], parameters: str, **fixed: Any) -> None:
        self.operation = operation
        self.parameters = parameters
        self.fixed = fixed

    @cached_property
    def _parsed(self) -> list[_Parameter]:
        parsed = []
        for text in self.parameters.split():
            name, equals, default = text.partition("=")
            kind = name[: len(name) - len(name.lstrip("@*-"))]
            default_value = ast.literal_eval(default) if equals else None if kind == "-" else _REQUIRED
            parsed.append(_Parameter(name[len(kind) :].split("|"), kind, default_value))
        return parsed

    @property
    def signature(self) -> str:
        """The supported parameters, as Python text."""
        shown = [parameter.partition("=") for parameter in self.parameters.split() if not parameter.startswith("-")]
        if shown and shown[-1][0] == "*":
            shown.pop()
        names = ["*" * ("*" in name) + name.lstrip("@*").partition("|")[0] for name, _, _ in shown]
        return ", ".join(name + equals + default for name, (_, equals, default) in zip(names, shown, strict=True))

    def call(self, trace: Trace, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """Call the operation.

        Raises:
            FuseError: the operation computes, or its arguments do not fit.
            TypeError: an argument is missing or unknown.
        """
        positional, by_name = [*arguments], {**keywords}
        values: list[Any] = []
        for names, kind, default in self._parsed:
            if names == [""]:
                if positional:
                    raise TypeError(f"unexpected argument {positional[0]!r}")
                continue
            if kind == "**" or ("*" in kind and len(positional) > 1):
                value, positional = positional, []
            elif positional:
                value = positional.pop(0)
            else:
                value = _pop_named(by_name, names, default) if by_name else default
            if value is _REQUIRED or (value is None and self.is_strict and kind == "*"):
                raise TypeError(f"missing argument {names[0]!r}")
            if kind == "-":
                _check_ignored(names[0], value)
                continue
            if self.is_strict and "@" in kind:
                _check_tensors(names[0], kind, value)
            elif self.is_strict and names[0] not in _MAY_BE_FLAGS:
                _check_no_flag(names[0], value)
            values.append(_convert(trace, kind, value))
        if by_name:
            _check_ignored("out", by_name.pop("out", None))
        if positional or by_name:
            raise TypeError(f"unexpected argument {next(iter(by_name), None) or positional[0]!r}")
        return self.operation(*values, **self.fixed)


class ElementDependentFunction(LibraryFunction):
    """A word that is not supported, since its result or shape depends on elements.

    Args:
        name: the word's name in errors.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def call(self, trace: Trace, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> NoReturn:
        """Refuse the call.

        Raises:
            FuseError: always.
        """
        error = refusal(self.name, "its result or shape would depend on elements: call it outside the fused function")
        raise with_needed_argument(error, arguments[0]) if self.name in NUMBER_METHODS and arguments else error


UNSUPPORTED = f"is not a supported function: {MOVES_ONLY_RULE}: call it outside the fused function"
"""The error's reason for a function that is in no table."""

Table = Mapping[str, LibraryFunction]


def lines(names: str, operation: Callable[..., Any], parameters: str, **fixed: Any) -> dict[str, LibraryFunction]:
    """Return the entries of one word under several names."""
    return dict.fromkeys(names.split(), LibraryFunction(operation, parameters, **fixed))


def call_library_function(
    table: Table, key: str, name: str, trace: Trace, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> Any:
    """Call a function of a library on traced arrays.

    Args:
        table: the library's words.
        key: the word's name in the table.
        name: the function's name in errors.
        trace: the arrays' trace.
        arguments: positional arguments.
        keywords: keyword arguments.

    Raises:
        FuseError: the function is unknown or computes, or its arguments do not fit.
    """
    word = table.get(key)
    if word is None:
        raise fuse_error(f"{name} {UNSUPPORTED}", rule=MOVES_ONLY_RULE)
    if not trace.is_naming:
        for value in (*arguments, *keywords.values()):
            trace.is_naming = trace.is_naming or _is_name(value)
    with named_errors(name):
        if trace.assignable_arrays is not None:
            return trace.run(trace.assignable_arrays.call, word, key, trace, arguments, keywords)
        result = trace.run(word.call, trace, arguments, keywords)
    if key in _RETURNING_ARGUMENTS or (key in ("array", "astype") and not keywords.get("copy", True)):
        return result
    if key == ("flatten" if trace.kind.INDEXES_LIKE_TORCH else "squeeze"):
        # Only in one of the libraries an argument that has this shape is returned itself.
        return result
    return result.new_array(result.value) if any(result is argument for argument in arguments) else result


_RETURNING_ARGUMENTS = frozenset(
    (
        *("asanyarray", "asarray", "ascontiguousarray", "asfortranarray", "atleast_1d", "atleast_2d", "atleast_3d"),
        *("bfloat16", "bool", "byte", "cartesian_prod", "char", "conj", "conj_physical", "contiguous", "copy_", "cpu"),
        *("double", "fill_", "float", "half", "int", "long", "positive", "real", "require", "resolve_conj"),
        *("resolve_neg", "short", "to", "type_as", "zero_"),
    )
)
"""Words that return an argument itself if it need not be converted; the others return new arrays."""


def _convert(trace: Trace, parameter_kind: str, value: Any) -> Any:
    """Convert an argument to the form in which operations get it."""
    if parameter_kind == "@":
        return trace.array(value)
    if parameter_kind == "@@":
        return arrays_of(trace, value)
    if parameter_kind in ("*", "@*"):
        items = [*value] if isinstance(value, (list, tuple)) else [value]
        if parameter_kind == "*":
            for item in items:
                refuse_traced_numbers(item)
        return [*map(trace.array, items)] if parameter_kind == "@*" else None if value is None else items
    return value


def _pop_named(by_name: dict[str, Any], names: Sequence[str], default: Any) -> Any:
    """Remove and return the argument that has one of several names."""
    for name in names:
        if name in by_name:
            return by_name.pop(name)
    return default


def _is_name(value: Any) -> bool:
    """Whether an argument is a text, a dtype or the like, which decides what a function does."""
    return isinstance(value, (str, np.dtype, type)) or type(value).__name__ in _TORCH_NAMES


_TORCH_NAMES = frozenset(("dtype", "memory_format", "layout", "device"))


def attribute(table: Table, name: str, label: str, x: TracedArray) -> Any:
    """Return a method or property of a traced array.

    Args:
        table: the methods and properties.
        name: the attribute's name.
        label: the name of the attribute in errors.
        x: the array.
    """

    def method(*arguments: Any, **keywords: Any) -> Any:
        return call_library_function(table, name, label, x.trace, (x, *arguments), keywords)

    return method() if name in PROPERTIES else method


_MAY_BE_FLAGS = frozenset(("accumulate", "batch_first", "fill_value", "given", "input", "key", "mask", "other",
                           "padding_value", "recompute_scale_factor", "src", "tensors", "value",
                           "with_replacement"))  # fmt: skip
"""Parameters of PyTorch's functions that may be bools, or elements; the others are integers."""


def _check_tensors(name: str, kind: str, value: Any) -> None:
    """Check that an argument is a tensor, or tensors in a tuple or list.

    Raises:
        TypeError: it is something else.
    """
    is_list = isinstance(value, (tuple, list))
    if kind == "@@" and name == "tensors" and not is_list:
        raise TypeError(f"{name!r} must be a tuple or list of tensors, not {value!r}")
    torch = sys.modules["torch"]
    for item in [value] if kind == "@" or not is_list else value:
        if not isinstance(item, (TracedArray, torch.Tensor)):
            raise TypeError(f"{name!r} must be {'a tensor' if kind == '@' else 'tensors'}, not {type(item).__name__}")


def _check_no_flag(name: str, value: Any) -> None:
    """Check that an argument holds no bool, which PyTorch's functions do not take as an integer.

    Raises:
        TypeError: the value contains a bool.
    """
    if type(value) is bool or (isinstance(value, (list, tuple)) and bool in map(type, value)):
        raise TypeError(f"{name!r} must be an integer, not a bool")


def _check_ignored(name: str, value: Any) -> None:
    """Check an argument without effect: an `order`, or an `out`, which must be None.

    Raises:
        TypeError: the order is unknown.
        FuseError: something is to be written into `out`.
    """
    if name == "order" and value is not None and (type(value) is not str or value.upper() not in {*"CFAK"}):
        raise TypeError(f"order must be 'C', 'F', 'A' or 'K', not {value!r}")
    if name == "out" and value is not None:
        raise fuse_error("cannot write into out: use the result instead", rule=MOVES_ONLY_RULE)
