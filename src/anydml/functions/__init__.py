"""The operators as functions on arrays: any array in, new contiguous arrays of its kind (or `out`) back.

An array is NumPy's, PyTorch's, JAX's, CuPy's, or of any library that speaks DLPack; results are of its library, dtype
and device. It is read where it lies: in host memory by the CPU engine, on a GPU by the GPU engine, on the caller's
current stream, where the parts of a split share one block of memory. Lists and scalars are NumPy's. All arrays of one
call are of one library and on one device; only sizes and indices may be lists, or NumPy's, beside another's.
A mask is not moved, so masked arrays are refused.

No feature level binds them, nor a limit on elements; arrays have at most 64 dimensions, as NumPy's do; empty arrays and
parts are welcome. Arguments that break a rule raise `DescError`, an `out` that does not fit raises `BindingError`;
nothing is written before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.elsewhere import unknown
from anydml.functions.derived import derived as _derived
from anydml.operators.registry import FUNCTIONS

if TYPE_CHECKING:
    from anydml.operators.registry import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """A function, made when it is first asked for: importing the package makes none."""
        if name not in FUNCTIONS:
            raise AttributeError(unknown(__name__, name, __all__))
        return globals().setdefault(name, _derived(FUNCTIONS[name]))

    def __dir__() -> list[str]:
        return sorted({*globals(), *FUNCTIONS})


__all__ = [*FUNCTIONS]  # noqa: PLE0604  # its keys are names
