"""Traces and traced arrays: an array's shape and dtype are known, its elements are described by a `Value`."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from anydml.arrays import read_argument
from anydml.errors import FuseAttributeError, FuseError, FuseTypeError
from anydml.functions.argument_conversion import is_movable
from anydml.memory.device_array import DeviceArray
from anydml.moves.composer import Composer
from anydml.moves.move import Access
from anydml.moves.value import Value
from anydml.strides import each_once
from anydml.text import escape_controls, operator_text
from anydml.tracing.executed_instructions import unwatched
from anydml.tracing.refusing import (
    COMPUTE_OUTSIDE,
    CONVERT_OUTSIDE,
    MOVES_ONLY_RULE,
    conversion_remedy,
    fuse_error,
    is_assigned,
    not_assignable,
    not_created,
    refusal,
)
from anydml.tracing.scope import Scope
from anydml.tracing.traced_fields import TracedFields

Sizes = tuple[int, ...]


class Trace:
    """One run of a function on traced arrays.

    Args:
        name: the function's name.
        kind: the class of the traced arrays, which has the methods of their library.
        device: the arrays' device in their library's terms; None for NumPy.
        composer: composes the arrays' values; by default, a new one.
        input_count: number of the integers that a call provides, which are open.

    Attributes:
        assignable_arrays: the module of this name if the function may assign into arrays of its own; else None.
        replacements: the functions by which PyTorch's are replaced, each by one, so that `is` compares them.
        is_naming: whether a function on arrays got a text, a dtype or the like.
        lazy_indices: what an error says of indices that have no elements before a result is computed; else empty.
        number_arguments: positions or keywords of arguments that are integer arrays without dimensions, by operand.
    """

    def __init__(
        self,
        name: str,
        kind: type[TracedArray],
        device: Any = None,
        composer: Composer | None = None,
        input_count: int = 0,
    ) -> None:
        self.name = name
        self.kind = kind
        self.device = device
        self.composer = composer or Composer(name)
        self.is_over = False
        self.assignable_arrays: Any = None
        self.is_naming = False
        self.lazy_indices = ""
        self.replacements: dict[Any, Any] = {}
        self.unsigned: dict[str, int] = {}
        self.number_arguments: dict[int, int | str] = {}
        self._constants = 0
        self._input_count = input_count

    @property
    def is_assigning(self) -> bool:
        """Whether the function may assign into arrays of its own."""
        return self.assignable_arrays is not None

    @cached_property
    def scope(self) -> Scope:
        """The open sizes."""
        return Scope(self._input_count)

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function of this package for the traced one: unwatched, and without guards on types of numbers."""
        scope = self.scope
        is_typed, scope.is_typed = scope.is_typed, False
        try:
            return unwatched(function, *arguments)
        finally:
            scope.is_typed = is_typed

    def array(self, array: Any) -> TracedArray:
        """Convert to a traced array: anything that NumPy accepts becomes a constant."""
        if isinstance(array, TracedArray):
            if array.trace is not self or self.is_over:
                raise fuse_error(f"{array!r} belongs to another call, which is finished")
            return array
        return self._constant(array)

    def new_array(self, value: Value, dtype: np.dtype[Any], like: int | None = None) -> TracedArray:
        """Create an array of this trace (see `TracedArray`)."""
        return self.kind(self, value, dtype, like)

    def pattern(self, element: np.ndarray[Any, Any]) -> bytes:
        """Return the bytes of a one-element array, for fills."""
        return element.tobytes()

    def note_unsigned(self, indices: Value, bits: int) -> None:
        """Note which operands with signed indices are read as unsigned, so that errors can show the signed values."""
        for piece in indices.pieces:
            if isinstance(piece.source, Access):
                self.unsigned[self.composer.operand(piece.source.operand).name] = bits

    def _constant(self, array: Any) -> TracedArray:
        view, _ = read_argument(self.name, array, "a constant")
        if isinstance(view, DeviceArray):
            raise fuse_error("a constant array on a GPU: pass it as an argument")
        check_dtype(view.dtype, "a constant")
        packed = np.array(each_once(view), order="C", copy=True)
        if view.size > 1:
            rows = packed.reshape(-1).view((np.void, packed.itemsize)).view(np.uint8).reshape(packed.size, -1)
            if packed.itemsize and (rows == rows[0]).all():
                return self.new_array(Value.of_fill(view.shape, rows[0].tobytes()), packed.dtype)
        self._constants += 1
        value = self.composer.constant(f"constant {self._constants}", packed)
        return self.new_array(self.composer.broadcast(value, view.shape), packed.dtype)


def check_dtype(dtype: np.dtype[Any], field: str) -> None:
    """Check that a dtype's elements are plain bytes.

    Raises:
        FuseError: the elements are references.
    """
    if not is_movable(dtype):
        raise fuse_error(f"{field} is of dtype {dtype}, whose elements are references, not plain bytes")


NUMBER_METHODS = frozenset(("item", "tolist"))
"""Methods that return the number of an array without dimensions."""


def with_needed_argument(error: FuseError, x: Any) -> FuseError:
    """Let an error say that the number of x is needed, if x is an argument without dimensions."""
    if isinstance(x, TracedArray) and not x.ndim and x.value.pieces:
        source = x.value.pieces[0].source
        if isinstance(source, Access) and not source.lookups:
            error.argument = x.trace.number_arguments.get(source.operand)
    return error


UNKNOWN_ELEMENTS = (
    "its elements are not known while the function is traced: decide outside the fused function, "
    "and pass the result as an argument"
)
"""Why a traced array has no number for Python, and the remedy."""


_COMPARISONS = {"lt", "le", "gt", "ge", "eq", "ne"}
_COMPARISONS |= {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}


def _remedy(x: TracedArray, name: str) -> str:
    """Return the remedy for an operator or ufunc; functions branch by comparing one element."""
    return UNKNOWN_ELEMENTS if not x.ndim and name.strip("_") in _COMPARISONS else COMPUTE_OUTSIDE


def _refusing_operator(name: str) -> Any:
    def method(self: TracedArray, *arguments: Any, **named: Any) -> NoReturn:
        raise with_needed_argument(refusal(f"{operator_text(name)} of {self!r}", _remedy(self, name)), self)

    return method


def _refusing_conversion(name: str) -> Any:
    text = "in" if name == "contains" else f"{name}()"

    def method(self: TracedArray, *arguments: Any) -> NoReturn:
        raise with_needed_argument(refusal(f"{text} of {self!r}", UNKNOWN_ELEMENTS), self)

    return method


class TracedArray(TracedFields):
    """An array of known shape and dtype, whose elements are not known yet (see `TracedFields`)."""

    __slots__ = ()
    trace: Trace
    MIN_RANK = 0
    """1 if arrays without dimensions have an axis 0, too, as in PyTorch."""
    INDEXES_LIKE_TORCH = False
    """Whether bytes as an index are a mask, and lists with parts may be tuples, as in PyTorch."""

    __hash__ = None  # type: ignore[assignment]  # as NumPy's arrays

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(self.value.sizes)

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self.count

    @property
    def dtype(self) -> Any:
        """The NumPy dtype."""
        return self.element

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return self.element.itemsize

    @property
    def nbytes(self) -> int:
        """Total bytes."""
        return self.count * self.itemsize

    def __len__(self) -> int:
        if not self.ndim:
            message = f"len() of {self!r}, which has no length, and whose elements are not known"
            raise with_needed_argument(fuse_error(f"{message}: {CONVERT_OUTSIDE}", FuseTypeError), self)
        return self.shape[0]

    def __setitem__(self, key: Any, value: Any) -> None:
        raise not_assignable(self)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> NoReturn:
        error = refusal(f"numpy.{ufunc.__name__} of {self!r}", _remedy(self, ufunc.__name__))
        for operand in inputs:
            if error.argument is None:
                with_needed_argument(error, operand)
        raise error

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        if is_assigned():
            raise with_needed_argument(not_created(self, "NumPy"), self)
        message = (
            f"cannot convert {self!r} to a NumPy array, because its elements are not known while the function is "
            f"traced: {conversion_remedy()}"
        )
        raise with_needed_argument(fuse_error(message, rule=MOVES_ONLY_RULE), self)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Any = (), named: Any = None) -> NoReturn:
        raise fuse_error(
            f"{getattr(function, '__name__', function)} of PyTorch takes no traced array: NumPy's functions do"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if not hasattr(self.library_class(), name):
            # The text has no sizes, which it would need as numbers, as `hasattr` ignores it.
            class_name = f"{self.library_class().__module__}.{self.library_class().__name__}"
            raise fuse_error(f"{class_name} has no attribute {escape_controls(name)}", FuseAttributeError)
        # No AttributeError, for which `hasattr` would say that arrays have none.
        error = fuse_error(
            f".{name} of {self!r} is not supported: {MOVES_ONLY_RULE}: {COMPUTE_OUTSIDE}", rule=MOVES_ONLY_RULE
        )
        raise with_needed_argument(error, self) if name in NUMBER_METHODS else error

    def __setattr__(self, name: str, value: Any) -> None:
        try:
            super().__setattr__(name, value)
        except AttributeError:
            advice = ": call reshape" if name == "shape" else ""
            message = f"attributes of arrays cannot be set in a fused function{advice}"
            raise fuse_error(message, FuseAttributeError) from None

    @staticmethod
    def library_class() -> type:
        """The class of arrays that this one stands for."""
        return np.ndarray

    def __repr__(self) -> str:
        return f"a traced {self.element} array of shape {self.shape}"


_OPERATORS = "add sub mul truediv floordiv mod divmod pow matmul lshift rshift and or xor"
for _name in _OPERATORS.split():
    for _prefix in ("", "r", "i") if _name != "divmod" else ("", "r"):
        setattr(TracedArray, f"__{_prefix}{_name}__", _refusing_operator(f"__{_prefix}{_name}__"))
for _name in ["neg", "pos", "abs", "invert", "round", "eq", "ne", "lt", "le", "gt", "ge"]:
    setattr(TracedArray, f"__{_name}__", _refusing_operator(f"__{_name}__"))
for _name in ["bool", "int", "float", "complex", "index", "contains"]:
    setattr(TracedArray, f"__{_name}__", _refusing_conversion(_name))
