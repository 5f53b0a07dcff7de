"""The arrays of a call of a fused function, and what tells it from calls that need another program."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter
from anydml.arrays.receive import as_numpy, guest_of
from anydml.fields import check_dimensions
from anydml.functions.traced import is_lazy
from anydml.tracing.refusing import broken
from anydml.tracing.structure import static_key
from anydml.tracing.trace import TracedArray

Array = np.ndarray[Any, Any]

_STATIC = frozenset((bool, int, float, complex, str, bytes, type(None), slice))
"""Types of arguments that are part of a call's key as they are."""


class Call:
    """The arrays of a call, in order.

    Attributes:
        inputs: as the engines see them.
        adapters: whose they are.
        is_traced: whether one is traced: the call is part of another function's.
        is_lazy: whether one is Dask's: results are, too.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[Array] = []
        self.adapters: list[ArrayAdapter | None] = []
        self.is_traced = self.is_lazy = False

    def key(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Hashable:
        """What tells calls that need another program."""
        key = tuple([self._key(item) for item in arguments])
        if not keywords:
            return key
        return key, tuple([(name, self._key(item)) for name, item in keywords.items()])

    def _key(self, item: Any) -> Hashable:
        kind = type(item)
        if kind is np.ndarray:
            self.inputs.append(item)
            self.adapters.append(None)
            return item.shape, item.strides, item.dtype
        if kind in _STATIC:
            return static_key(item)
        if isinstance(item, (list, tuple)):
            return kind, tuple([self._key(each) for each in item]), None
        if isinstance(item, dict):
            return kind, tuple([(name, self._key(each)) for name, each in item.items()]), None
        if isinstance(item, TracedArray):
            self.is_traced = True
            return None
        return self._array_key(item)

    def _array_key(self, item: Any) -> Hashable:
        if is_lazy(item):
            self.is_lazy = True
            return None
        adapter, field = guest_of(item), f"array {len(self.inputs)}"
        if adapter is None and not isinstance(item, np.ndarray):
            try:
                return static_key(item)
            except TypeError:
                raise broken(f"{self.name}: a {type(item).__name__} is neither an array nor hashable") from None
        if adapter is None:
            view = as_numpy(self.name, field, item)
            self.inputs.append(view)
            self.adapters.append(None)
            return view.shape, view.strides, view.dtype
        check_dimensions(self.name, field, getattr(adapter.array, "ndim", 0))
        view = adapter.view(self.name, field)
        self.inputs.append(view)
        self.adapters.append(adapter)
        dtype = getattr(adapter.array, "dtype", None)
        return type(adapter), str(adapter.device), dtype, view.shape, view.strides, view.dtype
