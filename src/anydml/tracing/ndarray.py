"""Traced NumPy arrays, which stand for NumPy arrays while a function is traced, with NumPy's methods."""

from __future__ import annotations

from typing import Any

from anydml.tracing.trace import TracedArray


class TracedNdarray(TracedArray):
    """A traced array whose methods are those of `numpy.ndarray`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        from anydml.tracing.numpy_words import METHODS
        from anydml.tracing.words import attribute

        return attribute(METHODS, name, f"numpy.{name}", self) if name in METHODS else super().__getattr__(name)
