"""`copy`: the elements of any view (transposed, reversed, stepped, broadcast) as a contiguous array."""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from anydml.arrays import read_argument
from anydml.arrays.quick import is_native
from anydml.core import native
from anydml.functions.calling import call
from anydml.functions.traced import copied_to, fused_functions, registered_for
from anydml.operators.function import ARRAY, Function, Inferred, Parameter, Sizes
from anydml.operators.slice import slice_moves

_native_copy = native("copy")


def copy(x: Any, out: Any | None = None) -> Any:
    """Copy the elements of an array: ``result[c] = x[c]``.

    Args:
        x: array of any shape, dtype and strides: a transposed, reversed, stepped or broadcast view, of any library.
        out: array of x's shape and dtype to write to, of any strides.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        BindingError: x has no memory that could be read, or `out` does not fit, or overlaps x or itself.

    Examples:
        >>> y = dml.copy(np.arange(6).reshape(2, 3).T)
        >>> y.flags.c_contiguous
        True
    """
    if _native_copy is not None and (type(x) is ndarray or is_native(x)):
        found = _native_copy(x, out)
        if found is not None:
            return found
    return _general_copy(x, out)


def _general_copy(x: Any, out: Any | None) -> Any:
    """Copy arrays that compiled code does not handle, or raise an error."""
    is_numpy = type(x) is ndarray
    if (functions := fused_functions(x)) is not None:
        return copied_to("copy", "out", functions.copy(x), out)
    if not is_numpy and (registered := registered_for(x)) is not None:
        if hasattr(registered, "lazily"):
            return copied_to("copy", "out", registered.copy(x), out)
        # PyTorch's own copy, which its compiler can trace.
        return copied_to("copy", "out", x.contiguous().clone(), out)
    array, adapter = (x, None) if is_numpy else read_argument("copy", x)
    return call("copy", COPY, (array,), (), None if out is None else (out,), adapter)[0]


def _infer_copy(name: str, shape: Sizes) -> Inferred:
    return Inferred(((0,) * len(shape), (1,) * len(shape)), [shape], [(...,)])


COPY = Function(copy, "copy", (Parameter("x", ARRAY, False, None),), _infer_copy, slice_moves)
