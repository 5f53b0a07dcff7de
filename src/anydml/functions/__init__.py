"""The operators as functions on arrays: they return new contiguous arrays, or write to `out`.

Arrays are NumPy's, PyTorch's, JAX's, CuPy's, or those of any library that supports DLPack; results have the same
library, dtype and device. Arrays are read in place: in host memory by the CPU engine, on a GPU by the GPU engine, on
the caller's current stream, where the parts of a split share one block of memory. Lists and scalars are converted by
NumPy. All arrays of a call must be of one library and on one device; only sizes and indices may be lists or NumPy
arrays in any case. Masks are not moved, so masked arrays are refused.

Neither feature levels nor a maximum number of elements apply; arrays have at most 64 dimensions, as in NumPy; arrays
and parts may be empty. Arguments that break a rule raise `DescError`, an `out` that does not fit raises `BindingError`,
before anything is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anydml.functions.copying import copy as copy  # public
from anydml.functions.public_functions import public_function
from anydml.name_hints import missing_attribute_message
from anydml.operators.registry import FUNCTIONS

if TYPE_CHECKING:
    from anydml.operators.names import *  # noqa: F403
else:

    def __getattr__(name: str) -> Any:
        """Make a function when it is first used."""
        if name not in FUNCTIONS:
            raise AttributeError(missing_attribute_message(__name__, name, FUNCTIONS))
        return globals().setdefault(name, public_function(FUNCTIONS[name]))

    def __dir__() -> list[str]:
        return sorted({*globals(), *FUNCTIONS})


__all__ = [*FUNCTIONS]  # noqa: PLE0604  # its keys are names
