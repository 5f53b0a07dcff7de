"""`len`, `max` and `min` for traced functions: open sizes stay open, where Python's would need integers.

`type` and `isinstance` say what the classes of arguments are, not those of what stands for them. Clocks are replaced as
well (see `clocks`).
"""

from __future__ import annotations

import builtins
import dis
import inspect
import types
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from anydml.tracing import own_arrays
from anydml.tracing.categories import is_of_a_library, package_of
from anydml.tracing.clocks import watched
from anydml.tracing.creating import CREATED, NAMES, creating
from anydml.tracing.names_in_code import opcodes_of
from anydml.tracing.ndarray import TracedNdarray
from anydml.tracing.short_integers import Short
from anydml.tracing.sizes import Size
from anydml.tracing.tensor import TracedTensor
from anydml.tracing.trace import Trace, TracedArray


def _len(value: Any, /) -> Any:
    return value.shape[0] if isinstance(value, TracedArray) and value.ndim else len(value)


def _max(*arguments: Any, **named: Any) -> Any:
    return _extreme(max, arguments, named)


def _min(*arguments: Any, **named: Any) -> Any:
    return _extreme(min, arguments, named)


def _extreme(function: Callable[..., Any], arguments: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return the maximum or minimum of integers, open if one of them is; other arguments are compared by Python."""
    if named or (len(arguments) == 1 and type(arguments[0]) in (str, bytes)):
        return function(*arguments, **named)
    values = [*arguments[0]] if len(arguments) == 1 else [*arguments]
    if len(values) > 1 and all(type(value) is Short for value in values) and len({short.kind for short in values}) == 1:
        first: Short = values[0]
        extreme = first.size.scope.extreme([short.size for short in values], is_least=function is min)
        return Short(extreme, first.kind) if type(extreme) is Size else first
    if len(values) > 1 and all(type(value) in (int, Size) for value in values):
        size = next((value for value in values if type(value) is Size), None)
        if size is not None:
            return size.scope.extreme(values, is_least=function is min)
    return function(values)


def _class_of(value: Any) -> type:
    """Return the class of an object; for a stand-in of an argument, the argument's class."""
    if isinstance(value, TracedTensor):
        import torch

        return torch.Tensor  # type: ignore[no-any-return]
    kind = type(value)
    return value.__class__ if kind in (Size, Short) or issubclass(kind, TracedNdarray) else kind


def _isinstance(value: Any, kinds: Any, /) -> bool:
    # Classes may define `isinstance` themselves, so only those of tensors are treated differently.
    return isinstance(value, kinds) or (isinstance(value, TracedTensor) and issubclass(_class_of(value), kinds))


class _Types(type):
    """Python's `type`, with differences for open numbers."""

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        return _class_of(arguments[0]) if len(arguments) == 1 and not named else type(*arguments, **named)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, type)

    def __subclasscheck__(cls, kind: type) -> bool:
        return issubclass(kind, type)


class _Type(type, metaclass=_Types):
    """Python's `type`, except that traced arrays and open numbers are of the types that they stand for."""


_OPEN = {**vars(builtins), "len": _len, "max": _max, "min": _min, "isinstance": _isinstance, "type": _Type}
P = ParamSpec("P")
T = TypeVar("T")
_REPLACED = frozenset(("len", "max", "min", "isinstance", "type"))


class Opening:
    """Makes copies of functions for a trace, which use these builtins and the functions in `creating`, but no clocks.

    Args:
        is_creating: whether arrays that a function creates are traced.
        is_kept: whether the trace serves later calls, so that no clock may be read.

    Attributes:
        has_created: whether functions that create arrays were replaced.
        may_repeat: whether a second attempt is of use.
    """

    def __init__(self, is_creating: bool = True, is_kept: bool = True) -> None:
        self._is_creating = is_creating
        self._watched = watched if is_kept else lambda value: value
        self.has_created = False
        self.may_repeat: Callable[[], bool] = lambda: True

    def opened(self, function: Callable[..., Any], trace: Trace) -> Callable[..., Any]:
        """Return a copy of a Python function, also of one in a partial or method; other callables are unchanged.

        An object with a method ``__call__`` is called by a copy of it. Functions that are called by name are copied,
        too, apart from those of libraries. A function that assigns global variables is returned unchanged: a copy
        would assign its own.

        Args:
            function: the function.
            trace: the trace, which learns whether one of the functions may assign into arrays.
        """
        if inspect.ismethod(function):
            return types.MethodType(self.opened(function.__func__, trace), function.__self__)
        calling: Any = getattr(type(function), "__call__", None)  # noqa: B004  # what it is is asked
        if type(calling) is types.FunctionType and not is_of_a_library(calling):
            return types.MethodType(self.opened(calling, trace), function)
        self._trace = trace
        self._copies: dict[int, Any] = {}
        copied: Callable[..., Any] = self._opened(function, package_of(function))
        return copied

    def _opened(self, function: Any, package: str) -> Any:
        """Return a copy of a function that is of a package, or of no library, or of a partial of one."""
        if type(function) is partial:
            called = self._opened(function.func, package)
            return function if called is function.func else partial(called, *function.args, **function.keywords)
        if type(function) is not types.FunctionType:
            return function
        if id(function) not in self._copies:
            # A recursive function calls the original.
            self._copies[id(function)] = function
            # This package's functions distinguish traced arrays from others themselves.
            if not is_of_a_library(function) or package_of(function) == package != _OWN:
                self._copies[id(function)] = self._copied(function, package)
        return self._copies[id(function)]

    def _copied(self, function: types.FunctionType, package: str) -> types.FunctionType:
        used = opcodes_of(function.__code__)
        if not _ASSIGNING.isdisjoint(used):
            return function
        names = {*_names(function.__code__)}
        if not (_STORING.isdisjoint(used) and _WRITING.isdisjoint(names)):
            self._trace.own_arrays = own_arrays
        helpers = {name: function.__globals__[name] for name in names if name in function.__globals__}
        helpers = {name: self._opened(self._replaced(helper, names), package) for name, helper in helpers.items()}
        changed = {name: helper for name, helper in helpers.items() if helper is not function.__globals__[name]}
        cells = tuple(self._opened_cell(cell, names, package) for cell in function.__closure__ or ())
        if not changed and cells == (function.__closure__ or ()) and _REPLACED.isdisjoint(names):
            return function
        code, defaults = function.__code__, function.__defaults__
        globals_ = {**function.__globals__, **changed, "__builtins__": _OPEN}
        copied = types.FunctionType(code, globals_, function.__name__, defaults, cells)
        copied.__kwdefaults__ = function.__kwdefaults__
        return copied

    def _replaced(self, value: Any, names: set[str]) -> Any:
        """Return the replacement of a value for a function that uses such names."""
        if type(value) is types.ModuleType and value.__name__ in ("numpy", "torch") and names.isdisjoint(NAMES):
            return value
        is_creating = self._is_creating and self._trace.is_assigning
        replacement = creating(self._trace, value, is_creating)
        self.has_created |= is_creating and replacement is not value
        return replacement if replacement is not value else self._watched(value)

    def _opened_cell(self, cell: types.CellType, names: set[str], package: str) -> types.CellType:
        try:
            value = cell.cell_contents
        except ValueError:  # a variable that has no value yet
            return cell
        replacement = self._opened(self._replaced(value, names), package)
        return cell if replacement is value else types.CellType(replacement)


def attempting(is_kept: bool) -> Callable[[Callable[Concatenate[Opening, P], T]], Callable[P, T]]:
    """Decorate a function that traces another: if that computes with arrays that it creates, it is traced once more.

    Created arrays are traced at first; in the second attempt they are NumPy's, as for a table of indices. If both
    attempts fail, the first error is raised.

    Args:
        is_kept: as for `Opening`, which the function gets as its first argument.
    """

    def decorated(attempt: Callable[Concatenate[Opening, P], T]) -> Callable[P, T]:
        @wraps(attempt)
        def attempts(*arguments: P.args, **keywords: P.kwargs) -> T:
            opening = Opening(is_kept=is_kept)
            try:
                return attempt(opening, *arguments, **keywords)
            except Exception as error:
                if not opening.has_created or not opening.may_repeat():
                    raise
                try:
                    return attempt(Opening(is_creating=False, is_kept=is_kept), *arguments, **keywords)
                except Exception:
                    raise error from None

        return attempts

    return decorated


_OWN = __name__.partition(".")[0]
_ASSIGNING = frozenset((dis.opmap["STORE_GLOBAL"], dis.opmap["DELETE_GLOBAL"]))
_STORING = frozenset(dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap)
_WRITING = frozenset(("copyto", "fill", "copy_", "fill_", "zero_", *CREATED))
"""Names of functions that assign into arrays, or that accept an `out`."""


def _names(code: types.CodeType) -> list[str]:
    """Return the global names of a code object and of functions inside it."""
    inner = [nested for nested in code.co_consts if isinstance(nested, types.CodeType)]
    return [*code.co_names, *(name for nested in inner for name in _names(nested))]
