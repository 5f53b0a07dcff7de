"""Traced NumPy arrays, which stand for NumPy arrays while a function is traced, with NumPy's methods."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from anydml.tracing.refusing import broken
from anydml.tracing.trace import TracedArray


class TracedNdarray(TracedArray):
    """A traced array whose methods are those of `numpy.ndarray`."""

    __slots__ = ()

    @property
    def T(self) -> TracedArray:  # noqa: N802  # as NumPy calls it
        """The array with its axes reversed."""
        return self.transpose()

    @property
    def mT(self) -> TracedArray:  # noqa: N802  # as NumPy calls it
        """The array with its last two axes swapped."""
        return self._called(np.swapaxes, -1, -2)

    def __iter__(self) -> Iterator[TracedArray]:
        if not self.ndim:
            raise broken("iteration over a 0-d array")
        return (self[k] for k in range(self.shape[0]))

    def __getitem__(self, key: Any) -> TracedArray:
        from anydml.tracing.indexing import indexed

        return indexed(self, key)

    def reshape(self, *shape: Any, **named: Any) -> TracedArray:
        """Like NumPy's method, in order 'C' or 'F'."""
        return self._called(np.reshape, shape[0] if len(shape) == 1 else shape, **named)

    def transpose(self, *axes: Any) -> TracedArray:
        """Like numpy.transpose."""
        return self._called(np.transpose, None if not axes else axes[0] if len(axes) == 1 else axes)

    def flatten(self, order: str = "C") -> TracedArray:
        """Like NumPy's method, in order 'C' or 'F'."""
        return self._called(np.ravel, order)

    def _called(self, function: Any, *arguments: Any, **named: Any) -> TracedArray:
        found: TracedArray = self.__array_function__(function, (), (self, *arguments), named)
        return found

    def __array_function__(self, function: Any, types: Any, arguments: Any, named: Any) -> Any:
        from anydml.tracing.numpy_words import called

        return called(self.trace, function, arguments, named)

    def __getattr__(self, name: str) -> Any:
        from anydml.tracing.making import retype
        from anydml.tracing.numpy_words import METHODS

        if name == "view":
            return partial(retype, self)
        return partial(self._called, getattr(np, name)) if name in METHODS else super().__getattr__(name)

    @property
    def anydml_functions(self) -> Any:
        """The functions of anydml on traced arrays."""
        from anydml.tracing import own_calls

        return own_calls
