"""Traced NumPy arrays, which stand for NumPy arrays while a function is traced, with NumPy's methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from anydml.tracing.indexing import indexed
from anydml.tracing.library_functions import attribute
from anydml.tracing.numpy_table import METHODS, call_numpy
from anydml.tracing.refusing import fuse_error
from anydml.tracing.trace import TracedArray


class TracedNdarray(TracedArray):
    """A traced array whose methods are those of `numpy.ndarray`."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """NumPy's class, so that users' `isinstance` checks pass."""
        return np.ndarray

    @property
    def anydml_functions(self) -> Any:
        """The functions of anydml on traced arrays."""
        from anydml.tracing import anydml_functions

        return anydml_functions

    def __iter__(self) -> Iterator[TracedArray]:
        if not self.ndim:
            raise fuse_error("iteration over a 0-d array")
        return (self[k] for k in range(self.shape[0]))

    def __getitem__(self, key: Any) -> TracedArray:
        indexed_array: TracedArray = self.trace.run(indexed, self, key)
        return indexed_array

    def __array_function__(self, function: Any, types: Any, arguments: Any, named: Any) -> Any:
        return call_numpy(self.trace, function, arguments, named)

    def __getattr__(self, name: str) -> Any:
        return attribute(METHODS, name, f"numpy.{name}", self) if name in METHODS else super().__getattr__(name)
