"""Arrays of other libraries that compiled code reads directly, and the checks that Python must make first.

Also bridges: fused calls on arrays of some libraries run on NumPy views.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from numpy import ndarray


def is_native(array: Any) -> bool:
    """Whether compiled code may read an array of another library: calls on it are run, not traced."""
    class_ = type(array)
    return (class_ in TRACE_CHECKS or _add_tensors(class_)) and not TRACE_CHECKS[class_]()


def are_native(arrays: Any) -> bool:
    """Whether compiled code may read the arrays of a list, judged by the first."""
    class_ = type(arrays)
    return (class_ is list or class_ is tuple) and bool(arrays) and (type(arrays[0]) is ndarray or is_native(arrays[0]))


def _add_tensors(tensor_class: type) -> bool:
    """Register PyTorch's tensors when the first one is seen; return whether this class is one of PyTorch's."""
    if tensor_class.__module__.partition(".")[0] == "torch":
        import torch

        # PyTorch's compiler may not see the change.
        if not torch.compiler.is_compiling():
            from anydml.arrays import pytorch

            TRACE_CHECKS.update(pytorch.register())
    return tensor_class in TRACE_CHECKS


TRACE_CHECKS: dict[type, Callable[[], bool]] = {}
"""For each type of array, a function that returns whether calls on it are traced now rather than run."""


class Bridge(NamedTuple):
    """The conversion of arrays of one type to NumPy views, and of results back.

    Attributes:
        views: returns NumPy views of arrays; None unless all are of that type, and on one device in host memory.
        give: converts NumPy arrays without other references to arrays on the device of the second argument.
    """

    views: Callable[[Sequence[Any]], list[ndarray[Any, Any]] | None]
    give: Callable[[Sequence[ndarray[Any, Any]], Any], list[Any]]


BRIDGES: dict[type, Bridge] = {}
"""Bridges by type of array, added when the module of the library is imported."""
