"""Traced arrays of NumPy: what a function gets for NumPy's arrays while it is traced. They have NumPy's methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from anydml.tracing.refusing import broken
from anydml.tracing.trace import TracedArray


class TracedNdarray(TracedArray):
    """A traced array whose methods are those of `numpy.ndarray`."""

    __slots__ = ()

    @property
    def T(self) -> TracedArray:  # noqa: N802  # as NumPy calls it
        """All axes reversed."""
        return self.transpose()

    @property
    def mT(self) -> TracedArray:  # noqa: N802  # as NumPy calls it
        """The last two axes exchanged."""
        return self.swapaxes(-1, -2)

    def __iter__(self) -> Iterator[TracedArray]:
        if not self.ndim:
            raise broken("iteration over a 0-d array")
        return (self[k] for k in range(self.shape[0]))

    def __getitem__(self, key: Any) -> TracedArray:
        from anydml.tracing.indexing import taken

        return taken(self, key)

    def reshape(self, *shape: Any, **named: Any) -> TracedArray:
        """As NumPy's, in order 'C' or 'F'."""
        return self._called(np.reshape, shape[0] if len(shape) == 1 else shape, **named)

    def transpose(self, *axes: Any) -> TracedArray:
        """As NumPy's."""
        return self._called(np.transpose, None if not axes else axes[0] if len(axes) == 1 else axes)

    def swapaxes(self, axis1: int, axis2: int) -> TracedArray:
        """As NumPy's."""
        return self._called(np.swapaxes, axis1, axis2)

    def ravel(self, order: str = "C") -> TracedArray:
        """As NumPy's, in order 'C' or 'F'."""
        return self._called(np.ravel, order)

    def flatten(self, order: str = "C") -> TracedArray:
        """As NumPy's, in order 'C' or 'F'."""
        return self._called(np.ravel, order)

    def squeeze(self, axis: Any = None) -> TracedArray:
        """As NumPy's."""
        return self._called(np.squeeze, axis)

    def repeat(self, repeats: Any, axis: Any = None) -> TracedArray:
        """As NumPy's; counts are constants."""
        return self._called(np.repeat, repeats, axis)

    def take(self, indices: Any, axis: Any = None, out: None = None, mode: str = "raise") -> TracedArray:
        """As NumPy's."""
        return self._called(np.take, indices, axis, out, mode)

    def _called(self, function: Any, *arguments: Any, **named: Any) -> TracedArray:
        found: TracedArray = self.__array_function__(function, (), (self, *arguments), named)
        return found

    def __array_function__(self, function: Any, types: Any, arguments: Any, named: Any) -> Any:
        from anydml.tracing.numpy_words import called

        return called(self.trace, function, arguments, named)

    @property
    def anydml_functions(self) -> Any:
        """The functions of anydml for traced arrays."""
        from anydml.tracing import own_calls

        return own_calls
