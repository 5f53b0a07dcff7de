"""`copy`: the elements of any view, packed. Views describe (transposed, reversed, stepped, repeated), anydml moves."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.arrays import received
from anydml.functions.calling import call
from anydml.functions.operations import COPY
from anydml.functions.steps import PLANS
from anydml.functions.traced import copied, fused_functions, registered_for


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
    asked = None
    if type(x) is np.ndarray:
        asked = COPY, x.shape, out is None
        step = PLANS.steps.get(asked)
        if step is not None:
            result = step.make() if out is None else out
            given = x, result
            if not step.start(id(given)):
                return result
            # The long way makes its own.
            del result, given
    if (functions := fused_functions(x)) is not None:
        return copied("copy", "out", functions.copy(x), out)
    if type(x) is not np.ndarray and (registered := registered_for(x)) is not None:
        if hasattr(registered, "lazily"):
            return copied("copy", "out", registered.copy(x), out)
        # PyTorch copies as well, and its compiler sees through it.
        return copied("copy", "out", x.contiguous().clone(), out)
    array, adapter = (x, None) if type(x) is np.ndarray else received("copy", x)
    return call("copy", COPY, (array,), (), None if out is None else (out,), adapter, None, asked)[0]
