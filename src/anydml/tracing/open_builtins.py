"""`len`, `max` and `min` for traced functions: open sizes stay open, where Python's would need integers.

`type` and `isinstance` report the classes of arguments, not those of the traced arrays and open sizes that stand for
them. Clocks are replaced, too (see `clocks`).
"""

from __future__ import annotations

import builtins
import dis
import inspect
import types
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from anydml.tracing import assignable_arrays
from anydml.tracing.array_creators import CREATOR_NAMES, REPLACED_FUNCTIONS, creator_replacement
from anydml.tracing.categories import is_of_a_library, package_of
from anydml.tracing.class_queries import names_old_class, old_class_error
from anydml.tracing.clocks import clock_replacement
from anydml.tracing.names_in_code import opcodes_of
from anydml.tracing.open_sizes import OpenSize
from anydml.tracing.short_integers import ShortInteger
from anydml.tracing.trace import Trace, TracedArray
from anydml.tracing.traced_ndarray import TracedNdarray
from anydml.tracing.traced_tensor import TracedTensor


def _len(value: Any, /) -> Any:
    return value.shape[0] if isinstance(value, TracedArray) and value.ndim else len(value)


def _max(*arguments: Any, **named: Any) -> Any:
    return _extreme(max, arguments, named)


def _min(*arguments: Any, **named: Any) -> Any:
    return _extreme(min, arguments, named)


def _extreme(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return the maximum or minimum of integers, open if an integer is open; Python compares all other arguments."""
    if named or (len(arguments) == 1 and type(arguments[0]) in (str, bytes)):
        return function(*arguments, **named)
    values = [*arguments[0]] if len(arguments) == 1 else [*arguments]
    if (
        len(values) > 1
        and all(type(value) is ShortInteger for value in values)
        and len({short.number_type for short in values}) == 1
    ):
        first: ShortInteger = values[0]
        extreme = first.open_size.scope.extreme([short.open_size for short in values], is_least=function is min)
        return ShortInteger(extreme, first.number_type) if type(extreme) is OpenSize else first
    if len(values) > 1 and all(type(value) in (int, OpenSize) for value in values):
        size = next((value for value in values if type(value) is OpenSize), None)
        if size is not None:
            return size.scope.extreme(values, is_least=function is min)
    return function(values)


def _class_of(value: Any) -> type:
    """Return the class of an object; for a stand-in of an argument, the argument's class."""
    if isinstance(value, TracedTensor):
        import torch

        return torch.Tensor  # type: ignore[no-any-return]
    class_ = type(value)
    if class_ is OpenSize:
        return value.scope.type_of(value)  # type: ignore[no-any-return]
    return value.__class__ if class_ is ShortInteger or issubclass(class_, TracedNdarray) else class_


def _isinstance(value: Any, kinds: Any, /) -> bool:
    # Classes may define `isinstance` themselves, so only those of tensors and numbers are treated differently.
    if type(value) is OpenSize and value.scope.longs:
        return issubclass(_class_of(value), kinds)
    if not issubclass(type(value), TracedTensor):
        return isinstance(value, kinds)
    if names_old_class([kinds]):
        raise old_class_error()
    return isinstance(value, kinds) or issubclass(_class_of(value), kinds)


class _Types(type):
    """Python's `type`, with differences for open numbers."""

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        return _class_of(arguments[0]) if len(arguments) == 1 and not named else type(*arguments, **named)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, type)

    def __subclasscheck__(cls, class_: type) -> bool:
        return issubclass(class_, type)


class _Type(type, metaclass=_Types):
    """Python's `type`, except that traced arrays and open numbers are of the types that they stand for."""


_OPEN_BUILTINS = {**vars(builtins), "len": _len, "max": _max, "min": _min, "isinstance": _isinstance, "type": _Type}
P = ParamSpec("P")
T = TypeVar("T")
_REPLACED_NAMES = frozenset(("len", "max", "min", "isinstance", "type"))


class FunctionCopier:
    """Makes copies of functions for a trace, with these builtins, with `array_creators`, and without clocks.

    Args:
        is_creating: whether arrays that a function creates are traced.
        is_kept: whether the trace serves later calls, so that no clock may be read.

    Attributes:
        has_created: whether functions that create arrays were replaced.
        may_repeat: whether a second attempt is of use.
    """

    def __init__(self, is_creating: bool = True, is_kept: bool = True) -> None:
        self._is_creating = is_creating
        self._replace_clock = clock_replacement if is_kept else lambda value: value
        self.has_created = False
        self.may_repeat: Callable[[], bool] = lambda: True

    def copy_for_trace(self, function: Callable[..., Any], trace: Trace) -> Callable[..., Any]:
        """Return a copy of a Python function, also of one in a partial or method; other callables are unchanged.

        An object with a method ``__call__`` is called by a copy of it. Functions that are called by name are copied,
        too, apart from those of libraries. A function that assigns global variables is returned unchanged: a copy
        would assign its own.

        Args:
            function: the function.
            trace: the trace, which learns whether one of the functions may assign into arrays.
        """
        if inspect.ismethod(function):
            return types.MethodType(self.copy_for_trace(function.__func__, trace), function.__self__)
        call_method: Any = getattr(type(function), "__call__", None)  # noqa: B004  # the method itself is needed
        if type(call_method) is types.FunctionType and not is_of_a_library(call_method):
            return types.MethodType(self.copy_for_trace(call_method, trace), function)
        self._trace = trace
        self._copies: dict[int, Any] = {}
        copied: Callable[..., Any] = self._copy_of(function, package_of(function))
        return copied

    def _copy_of(self, function: Any, package: str) -> Any:
        """Return a copy of a function, or of a partial of one, that belongs to a package or to no library."""
        if type(function) is partial:
            function_copy = self._copy_of(function.func, package)
            return (
                function
                if function_copy is function.func
                else partial(function_copy, *function.args, **function.keywords)
            )
        if type(function) is not types.FunctionType:
            return function
        if id(function) not in self._copies:
            # A recursive function calls the original.
            self._copies[id(function)] = function
            # This package's functions already distinguish traced arrays from others.
            is_copied = not is_of_a_library(function) or package_of(function) == package != _PACKAGE
            # PyTorch's default_collate asks for the classes that `collating` registers.
            if is_copied and not (function.__module__ or "").startswith("torch.utils.data"):
                self._copies[id(function)] = self._new_copy(function, package)
        return self._copies[id(function)]

    def _new_copy(self, function: types.FunctionType, package: str) -> types.FunctionType:
        opcodes = opcodes_of(function.__code__)
        if not _GLOBAL_WRITES.isdisjoint(opcodes):
            return function
        names = {*_global_names(function.__code__)}
        if not (_ITEM_STORES.isdisjoint(opcodes) and _WRITING_NAMES.isdisjoint(names)):
            self._trace.assignable_arrays = assignable_arrays
        values = {name: function.__globals__[name] for name in names if name in function.__globals__}
        values = {name: self._copy_of(self._replacement_of(helper, names), package) for name, helper in values.items()}
        replaced_values = {name: helper for name, helper in values.items() if helper is not function.__globals__[name]}
        cells = tuple(self._cell_copy(cell, names, package) for cell in function.__closure__ or ())
        if not replaced_values and cells == (function.__closure__ or ()) and _REPLACED_NAMES.isdisjoint(names):
            return function
        code, defaults = function.__code__, function.__defaults__
        globals_ = {**function.__globals__, **replaced_values, "__builtins__": _OPEN_BUILTINS}
        copied = types.FunctionType(code, globals_, function.__name__, defaults, cells)
        copied.__kwdefaults__ = function.__kwdefaults__
        return copied

    def _replacement_of(self, value: Any, names: set[str]) -> Any:
        """Return the replacement of a value for a function that uses such names."""
        if (
            type(value) is types.ModuleType
            and value.__name__ in ("numpy", "torch")
            and names.isdisjoint(REPLACED_FUNCTIONS)
        ):
            return value
        is_creating = self._is_creating and self._trace.is_assigning
        replacement = creator_replacement(self._trace, value, is_creating)
        self.has_created |= is_creating and replacement is not value
        return replacement if replacement is not value else self._replace_clock(value)

    def _cell_copy(self, cell: types.CellType, names: set[str], package: str) -> types.CellType:
        try:
            value = cell.cell_contents
        except ValueError:  # a variable that has no value yet
            return cell
        replacement = self._copy_of(self._replacement_of(value, names), package)
        return cell if replacement is value else types.CellType(replacement)


def traced_twice(is_kept: bool) -> Callable[[Callable[Concatenate[FunctionCopier, P], T]], Callable[P, T]]:
    """Decorate a function that traces another: if that computes with arrays that it creates, it is traced once more.

    Created arrays are traced at first; in the second attempt they are NumPy's, as for a table of indices. If both
    attempts fail, the first error is raised.

    Args:
        is_kept: as for `FunctionCopier`, which the function gets as its first argument.
    """

    def decorate(attempt: Callable[Concatenate[FunctionCopier, P], T]) -> Callable[P, T]:
        @wraps(attempt)
        def attempt_twice(*arguments: P.args, **keywords: P.kwargs) -> T:
            copier = FunctionCopier(is_kept=is_kept)
            try:
                return attempt(copier, *arguments, **keywords)
            except Exception as error:
                if not copier.has_created or not copier.may_repeat():
                    raise
                try:
                    return attempt(FunctionCopier(is_creating=False, is_kept=is_kept), *arguments, **keywords)
                except Exception:
                    raise error from None

        return attempt_twice

    return decorate


_PACKAGE = __name__.partition(".")[0]
_GLOBAL_WRITES = frozenset((dis.opmap["STORE_GLOBAL"], dis.opmap["DELETE_GLOBAL"]))
_ITEM_STORES = frozenset(dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap)
_WRITING_NAMES = frozenset(("copyto", "fill", "copy_", "fill_", "zero_", *CREATOR_NAMES))
"""Names of functions that assign into arrays, or that accept an `out`."""


def _global_names(code: types.CodeType) -> list[str]:
    """Return the global names of a code object and of functions inside it."""
    inner = [nested for nested in code.co_consts if isinstance(nested, types.CodeType)]
    return [*code.co_names, *(name for nested in inner for name in _global_names(nested))]
