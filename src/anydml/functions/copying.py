"""`copy`: the elements of any view, packed. Views describe (transposed, reversed, stepped, repeated), anydml moves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from numpy import ndarray

from anydml.arrays import received
from anydml.arrays.quick import BRIDGES, QUICK
from anydml.functions.calling import call
from anydml.functions.operations import COPY
from anydml.functions.steps import ANSWERED, NAMESPACES, PLANS, Asked, nobody
from anydml.functions.traced import copied, fused_functions, registered_for

whole: Callable[[Any, Any], Any] = nobody
"""What does whole calls in compiled code, once there is one."""

type_of = type
"""Found among the module's own names, in fewer lines of memory, which counts after idleness."""

NAMESPACES[COPY] = [globals()]


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
    if type_of(x) is ndarray:
        found = whole(x, out)
        if found is not None:
            return found
    elif type_of(x) in QUICK and not QUICK[type_of(x)].is_traced() and (found := whole(x, out)) is not None:
        return found
    return _copied(x, out)


def _copied(x: Any, out: Any | None) -> Any:
    """The same where compiled code does not do it all."""
    is_own = type(x) is ndarray
    if type(x) in BRIDGES and out is None:
        bridge = BRIDGES[type(x)]
        if (views := bridge.views((x,))) is not None:
            return bridge.give([copy(*views)], x)[0]
    key: tuple[Any, ...] = ()
    if is_own:
        key = COPY, x.shape, out is None
        for step in PLANS.steps.get(key, ()):
            result = step.make() if out is None else out
            given = x, result
            if not step.start(id(given)):
                return result
            # The long way makes its own.
            del result, given
    elif type(x) in QUICK and not QUICK[type(x)].is_traced():
        # A nested tensor has no shape.
        with suppress(RuntimeError):
            key = (COPY, type(x), x.shape, out is None)
        for step in PLANS.steps.get(key, ()) if key else ():
            taken = step.take((x,), (), None if out is None else (out,))
            if taken is not None:
                return taken[0]
    if (functions := fused_functions(x)) is not None:
        return copied("copy", "out", functions.copy(x), out)
    if not is_own and (registered := registered_for(x)) is not None:
        if hasattr(registered, "lazily"):
            return copied("copy", "out", registered.copy(x), out)
        # PyTorch copies as well, and its compiler sees through it.
        return copied("copy", "out", x.contiguous().clone(), out)
    array, adapter = (x, None) if is_own else received("copy", x)
    asked = Asked(key, 0, adapter and adapter.array) if key else None
    return call("copy", COPY, (array,), (), None if out is None else (out,), adapter, None, asked)[0]


ANSWERED[COPY] = copy, ("x", "out"), ()
