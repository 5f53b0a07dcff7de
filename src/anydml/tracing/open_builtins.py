"""`len`, `max` and `min` for traced functions: open sizes stay open, where Python's would need integers.

`type` and `isinstance` report the classes of arguments, not those of the traced arrays and open sizes that stand for
them. Clocks are replaced, too (see `clocks`).
"""

from __future__ import annotations

import builtins
import dis
import inspect
import sys
import types
from collections.abc import Callable, Set
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from anydml.core import instruction_watch
from anydml.tracing import assignable_arrays
from anydml.tracing.array_creators import CREATOR_NAMES, REPLACED_FUNCTIONS, creator_replacement
from anydml.tracing.categories import is_of_a_library, package_of
from anydml.tracing.class_queries import names_old_class, old_class_error, refuse_type_of_traced
from anydml.tracing.clocks import clock_replacement
from anydml.tracing.executed_instructions import is_watched
from anydml.tracing.names_in_code import names_of, opcodes_of, reaches_variables
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
        extreme = first.open_size.scope.extreme([short.open_size for short in values], is_minimum=function is min)
        return ShortInteger(extreme, first.number_type) if type(extreme) is OpenSize else first
    if len(values) > 1 and all(type(value) in (int, OpenSize) for value in values):
        size = next((value for value in values if type(value) is OpenSize), None)
        if size is not None:
            return size.scope.extreme(values, is_minimum=function is min)
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


class _GlobalVariables(dict[str, Any]):
    """The global variables of a copy: those of the original as they are when they are read, with their replacements.

    The dictionary itself has only what Python reads there without `__getitem__`.
    """

    def __init__(
        self,
        copier: FunctionCopier,
        function: types.FunctionType,
        names: Set[str],
        builtins_: dict[str, Any],
        replaced: dict[str, tuple[Any, Any]],
    ) -> None:
        self.copier, self.variables, self._names = copier, variables_of(function), names
        super().__init__({name: self.variables[name] for name in _OF_MODULES if name in self.variables})
        dict.__setitem__(self, "__builtins__", builtins_)
        self._replaced = replaced

    def __getitem__(self, name: str) -> Any:
        value = self.variables[name]
        if self.copier.is_over:
            return value
        replaced = self._replaced.get(name)
        if replaced is None or replaced[0] is not value:
            replaced = self._replaced[name] = value, self.copier.replace(value, self._names)
        return replaced[1]


_OF_MODULES = ("__name__", "__package__", "__spec__", "__file__", "__path__")
"""Names of variables by which Python imports, and names the module of new functions and classes."""


def variables_of(function: types.FunctionType) -> dict[str, Any]:
    """Return the global variables of a function, or those of the original of a copy."""
    variables = function.__globals__
    return variables.variables if isinstance(variables, _GlobalVariables) else variables


class FunctionCopier:
    """Makes copies of functions for a trace, with these builtins, with `array_creators`, and without clocks.

    Args:
        is_creating: whether arrays that a function creates are traced.
        is_kept: whether the trace serves later calls, so that no clock may be read.
        is_assigning: whether functions may assign into arrays, also if the code that is known beforehand does not.

    Attributes:
        is_assigning: as above.
        is_over: whether the trace is over, after which the functions that copies have created see no replacements.
        may_repeat: whether another attempt is of use.
    """

    def __init__(self, is_creating: bool = True, is_kept: bool = True, is_assigning: bool = False) -> None:
        self._is_creating, self._is_kept, self.is_assigning = is_creating, is_kept, is_assigning
        self._replace_clock = clock_replacement if is_kept else lambda value: value
        self._has_created = self._assigns_late = self.is_over = False
        self._new_cells: dict[int, tuple[types.CellType, types.CellType, Any]] = {}
        self._is_following = instruction_watch is not None and sys.gettrace() is None and sys.version_info < (3, 14)
        self.may_repeat: Callable[[], bool] = lambda: True

    def after_failure(self) -> FunctionCopier | None:
        """Return the copier of another attempt, which may succeed; None if none may."""
        if not self.may_repeat():
            return None
        if self._assigns_late and not self.is_assigning:
            # Functions that ran before created arrays that another one assigns into.
            return FunctionCopier(self._is_creating, self._is_kept, is_assigning=True)
        # The function may compute with arrays that it creates, as with a table of indices.
        return FunctionCopier(False, self._is_kept, self.is_assigning) if self._has_created else None

    def end(self) -> None:
        """Give the functions that copies have created, and that are kept, the variables of the originals."""
        self.is_over = True
        for cell, new_cell, replacement in self._new_cells.values():
            # A function may have assigned or deleted the variable.
            try:
                assigned = new_cell.cell_contents
            except ValueError:
                del cell.cell_contents
                continue
            if assigned is not replacement:
                cell.cell_contents = assigned
            new_cell.cell_contents = cell.cell_contents

    def copy_for_trace(self, function: Callable[..., Any], trace: Trace) -> Callable[..., Any]:
        """Return a copy of a Python function, also of one in a partial or method; other callables are unchanged.

        An object with a method ``__call__`` is called by a copy of it. Functions that are called by name are copied,
        too, apart from those of libraries. A function that assigns global variables, or reaches them by other ways than
        their names, is returned unchanged.

        Args:
            function: the function.
            trace: the trace, which learns whether one of the functions may assign into arrays.
        """
        if inspect.ismethod(function):
            return types.MethodType(self.copy_for_trace(function.__func__, trace), function.__self__)
        call_method: Any = getattr(type(function), "__call__", None)  # noqa: B004  # the method itself is needed
        if type(call_method) is types.FunctionType and not is_of_a_library(call_method):
            return types.MethodType(self.copy_for_trace(call_method, trace), function)
        self._trace, self._package = trace, package_of(function)
        self._copies: dict[int, tuple[Any, Any]] = {}
        if self.is_assigning:
            trace.assignable_arrays = assignable_arrays
        copied: Callable[..., Any] = self._copy_of(function)
        return copied

    def follow(self, function: types.FunctionType | None, frame: types.FrameType) -> types.FunctionType | None:
        """Return a copy to run in place of the function whose frame begins, or None if the function itself must run.

        Args:
            function: the function; None if it is not known.
            frame: the frame.

        Raises:
            FuseError: the function itself must run, and may ask for the type of a traced array.
        """
        if function is not None and (copied := self._copy_of(function)) is not function:
            return copied  # type: ignore[no-any-return]
        if "type" in names_of(frame.f_code) and frame.f_builtins.get("type") is not _Type:
            refuse_type_of_traced(frame)
        return None

    def _copy_of(self, function: Any) -> Any:
        """Return a copy of a function, or of a partial of one, that belongs to no library or to the traced one's."""
        if type(function) is partial:
            function_copy = self._copy_of(function.func)
            return (
                function
                if function_copy is function.func
                else partial(function_copy, *function.args, **function.keywords)
            )
        if type(function) is not types.FunctionType or _is_active_copy(function):
            return function
        if id(function) not in self._copies:
            # A recursive function calls the original, which is kept so that no other one gets its identity.
            self._copies[id(function)] = function, function
            # This package's functions already distinguish traced arrays from others.
            is_copied = not is_of_a_library(function) or package_of(function) == self._package != _PACKAGE
            # PyTorch's default_collate asks for the classes that `collating` registers.
            if is_copied and not (function.__module__ or "").startswith("torch.utils.data"):
                self._copies[id(function)] = function, self._new_copy(function)
        return self._copies[id(function)][1]

    def _new_copy(self, function: types.FunctionType) -> types.FunctionType:
        opcodes, names = opcodes_of(function.__code__), {*_global_names(function.__code__)}
        if reaches_variables(function.__code__):
            return function
        if not self._trace.is_assigning and not (_ITEM_STORES.isdisjoint(opcodes) and _WRITING_NAMES.isdisjoint(names)):
            self._trace.assignable_arrays = assignable_arrays
            self._assigns_late = len(self._copies) > 1
        variables = variables_of(function)
        values = {name: variables[name] for name in names if name in variables}
        replaced = {name: (value, self.replace(value, names)) for name, value in values.items()}
        cells = tuple(self._cell_copy(cell, names) for cell in function.__closure__ or ())
        is_importing = _IMPORT in opcodes and not names.isdisjoint(("numpy", "torch"))
        if (
            all(value is replacement for value, replacement in replaced.values())
            and variables is function.__globals__
            and cells == (function.__closure__ or ())
            and _REPLACED_NAMES.isdisjoint(names)
            and not is_importing
        ):
            return function
        code, defaults = function.__code__, function.__defaults__
        builtins_ = {**_OPEN_BUILTINS, "__import__": self._import} if is_importing else _OPEN_BUILTINS
        globals_ = _GlobalVariables(self, function, names, builtins_, replaced)
        copied = types.FunctionType(code, globals_, function.__name__, defaults, cells)
        copied.__kwdefaults__ = function.__kwdefaults__
        return copied

    def _import(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Import as Python does, but replace NumPy, PyTorch and clocks."""
        module = __import__(name, *arguments, **named)
        return module if self.is_over else self._replacement_of(module, REPLACED_FUNCTIONS)

    def replace(self, value: Any, names: Set[str]) -> Any:
        """Return what stands for a variable's value in a function that uses such names.

        Functions are copied here, so that it is known in time whether they assign into arrays; but where calls are
        followed, the functions themselves are called.
        """
        replacement = self._replacement_of(value, names)
        copied = self._copy_of(replacement)
        return replacement if self._is_following and copied is not replacement and is_watched(value) else copied

    def _replacement_of(self, value: Any, names: Set[str]) -> Any:
        """Return the replacement of a value for a function that uses such names."""
        if (
            type(value) is types.ModuleType
            and value.__name__ in ("numpy", "torch")
            and names.isdisjoint(REPLACED_FUNCTIONS)
        ):
            return value
        is_creating = self._is_creating and self._trace.is_assigning
        replacement = creator_replacement(self._trace, value, is_creating)
        self._has_created |= is_creating and replacement is not value
        return replacement if replacement is not value else self._replace_clock(value)

    def _cell_copy(self, cell: types.CellType, names: set[str]) -> types.CellType:
        """Return the cell of a variable that stands for it in all copies."""
        if id(cell) in self._new_cells:
            return self._new_cells[id(cell)][1]
        try:
            value = cell.cell_contents
        except ValueError:  # a variable that has no value yet
            return cell
        replacement = self.replace(value, names)
        if replacement is value:
            return cell
        self._new_cells[id(cell)] = cell, types.CellType(replacement), replacement
        return self._new_cells[id(cell)][1]


def traced_again(is_kept: bool) -> Callable[[Callable[Concatenate[FunctionCopier, P], T]], Callable[P, T]]:
    """Decorate a function that traces another: if it fails, but may succeed by another copier, it is called again.

    Created arrays are traced at first; in a later attempt they are NumPy's. If all attempts fail, the first error is
    raised, apart from errors of attempts in which it was too late for a function to assign into arrays.

    Args:
        is_kept: as for `FunctionCopier`, which the function gets as its first argument.
    """

    def decorate(attempt: Callable[Concatenate[FunctionCopier, P], T]) -> Callable[P, T]:
        @wraps(attempt)
        def attempts(*arguments: P.args, **keywords: P.kwargs) -> T:
            copier: FunctionCopier | None = FunctionCopier(is_kept=is_kept)
            first_error: Exception | None = None
            while copier is not None:
                try:
                    return attempt(copier, *arguments, **keywords)
                except Exception as error:
                    previous, copier = copier, copier.after_failure()
                    was_too_late = copier is not None and copier.is_assigning > previous.is_assigning
                    first_error = None if was_too_late else first_error or error
            assert first_error is not None
            raise first_error from None

        return attempts

    return decorate


def _is_active_copy(function: types.FunctionType) -> bool:
    """Whether a function is a copy, or was created by one, for a trace that is not over."""
    variables = function.__globals__
    return isinstance(variables, _GlobalVariables) and not variables.copier.is_over


_PACKAGE = __name__.partition(".")[0]
_IMPORT = dis.opmap["IMPORT_NAME"]
_ITEM_STORES = frozenset(dis.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in dis.opmap)
_WRITING_NAMES = frozenset(("copyto", "fill", "copy_", "fill_", "zero_", *CREATOR_NAMES))
"""Names of functions that assign into arrays, or that accept an `out`."""


def _global_names(code: types.CodeType) -> list[str]:
    """Return the global names of a code object and of functions inside it."""
    inner = [nested for nested in code.co_consts if isinstance(nested, types.CodeType)]
    return [*code.co_names, *(name for nested in inner for name in _global_names(nested))]
