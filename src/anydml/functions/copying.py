"""`copy`: the elements of any view, packed. Views describe (transposed, reversed, stepped, repeated), anydml moves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy import ndarray

from anydml.arrays import received
from anydml.arrays.quick import is_native
from anydml.core import native
from anydml.functions.calling import call
from anydml.functions.traced import copied, fused_functions, registered_for
from anydml.operators.function import ARRAY, Function, Inferred, Parameter, Parameters, Sizes
from anydml.operators.slice import lower_slice

moved = native("copy")


def copy(x: Any, out: Any | None = None) -> Any:
    """The elements of an array, moved: ``result[c] = x[c]``.

    Args:
        x: array of any shape, dtype and strides: a transposed, reversed, stepped or broadcast view, of any library.
        out: array of x's shape and dtype to write to, with strides of its own.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        BindingError: x has no memory that could be read, or `out` does not fit, or overlaps x or itself.

    Examples:
        >>> y = dml.copy(np.arange(6).reshape(2, 3).T)
        >>> y.flags.c_contiguous
        True
    """
    if moved is not None and (type(x) is ndarray or is_native(x)):
        found = moved(x, out)
        if found is not None:
            return found
    return _copied(x, out)


def _copied(x: Any, out: Any | None) -> Any:
    """The same where compiled code does not do it all."""
    is_own = type(x) is ndarray
    if (functions := fused_functions(x)) is not None:
        return copied("copy", "out", functions.copy(x), out)
    if not is_own and (registered := registered_for(x)) is not None:
        if hasattr(registered, "lazily"):
            return copied("copy", "out", registered.copy(x), out)
        # PyTorch copies as well, and its compiler sees through it.
        return copied("copy", "out", x.contiguous().clone(), out)
    array, adapter = (x, None) if is_own else received("copy", x)
    return call("copy", COPY, (array,), (), None if out is None else (out,), adapter)[0]


def _infer_copy(name: str, shapes: Sequence[Sizes], arguments: Parameters) -> Inferred:
    (shape,) = shapes
    return Inferred(((0,) * len(shape), (1,) * len(shape)), [shape], [(...,)])


COPY = Function(copy, "copy", "copy", (Parameter("x", ARRAY, False, None),), _infer_copy, lower_slice)
