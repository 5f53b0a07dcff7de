"""The arguments of a call of a fused function: its arrays, its key among traces, and its numbers.

`anydml.core.signatures` computes the same in the same order.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from anydml.arrays import ArrayAdapter, read_argument
from anydml.arrays.receive import adapter_of
from anydml.functions.traced_calls import is_lazy
from anydml.tensor import packed_strides
from anydml.tracing.categories import classes_of
from anydml.tracing.open_sizes import OpenSize
from anydml.tracing.refusing import fuse_error
from anydml.tracing.short_integers import ShortInteger, kind_of
from anydml.tracing.structure import leaves, state_key, static_key
from anydml.tracing.trace import TracedArray

Array = np.ndarray[Any, Any]

MAX_OPEN = 4096
"""Maximum number of arrays with open sizes in a call: the compiled core supports no more, and guards would be many."""

_ITEM_METHODS = frozenset(("__getitem__", "__iter__", "__len__", "__contains__", "__reversed__"))
"""Methods that give the items of a list or tuple."""

_KEY_TYPES = frozenset((bool, float, complex, str, bytes, type(None), slice))
"""Types of arguments that are part of a call's key unchanged."""


class CallArguments:
    """The arrays of a call, in order.

    Attributes:
        inputs: the arrays as engines take them.
        adapters: the arrays' libraries; None for NumPy.
        numbers: sizes and strides in bytes of arrays, integer arguments, and `are_long` if one is.
        are_long: for each integer of Python, or of NumPy with 64 bits, whether it is NumPy's.
        is_traced: whether an argument is traced, or an open number, so that the call is part of another's trace.
        is_lazy: whether an argument is a Dask array, so that the results are, too.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[Array] = []
        self.adapters: list[ArrayAdapter | None] = []
        self.numbers: list[int] = []
        self.are_long: list[bool] = []
        self.is_traced = self.is_lazy = False

    def key(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Hashable:
        """Collect the call's arrays and numbers, and return the key of its traces: everything but the numbers."""
        key: Hashable = tuple([self._key(item) for item in arguments])
        if keywords:
            key = key, tuple([(name, self._key(item)) for name, item in keywords.items()])
        if any(self.are_long):
            key = key, np.int64
            self.numbers += self.are_long
        if len(self.inputs) > MAX_OPEN:
            key, self.numbers = (key, tuple(self.numbers)), []
        return key

    def _key(self, item: Any) -> Hashable:
        class_ = type(item)
        if class_ is np.ndarray:
            return self._layout(item), item.dtype
        if class_ is OpenSize or class_ is ShortInteger:
            self.is_traced = True
            return None
        if (short := kind_of(item)) is not None:
            self.numbers.append(int(item))
            if short is int:
                self.are_long.append(class_ is not int)
            return short  # type: ignore[no-any-return]
        if class_ in _KEY_TYPES:
            return static_key(item)
        if isinstance(item, (list, tuple)):
            if class_ not in (list, tuple):
                self._check_reads_as_usual(item)
            return class_, tuple([self._key(part) for part in item]), None
        if isinstance(item, dict):
            items = tuple([(static_key(name), self._key(part)) for name, part in item.items()])
            return class_, items, None if class_ is dict else self._attributes_key(item)
        if isinstance(item, TracedArray):
            self.is_traced = True
            return None
        return self._array_key(item)

    def _check_reads_as_usual(self, item: Any) -> None:
        """Check that the list or tuple that replaces an object of a subclass in a trace has all that it has."""
        class_ = type(item)
        base = "list" if issubclass(class_, list) else "tuple"
        if object.__getstate__(item) is not None:
            raise fuse_error(f"{self.name}: a {class_.__name__} has attributes besides items: pass {base}(…) of it")
        reads_otherwise = any(not _ITEM_METHODS.isdisjoint(vars(base)) for base in classes_of(class_))
        if reads_otherwise and not hasattr(class_, "_fields"):
            raise fuse_error(f"{self.name}: a {class_.__name__} has items by methods of its own: pass {base}(…) of it")

    def _attributes_key(self, item: Any) -> Hashable:
        """Return the key of the attributes of a dict's subclass, which are constants of a trace."""
        attributes = object.__getstate__(item)
        if isinstance(attributes, tuple) or any(map(_is_array, leaves(attributes))):
            class_name = type(item).__name__
            raise fuse_error(
                f"{self.name}: a {class_name} has arrays or slots as attributes, which a trace would keep from one "
                "call: pass dict(…) of it"
            )
        return state_key(attributes, 1)

    def _array_key(self, item: Any) -> Hashable:
        if is_lazy(item):
            self.is_lazy = True
            return None
        adapter, field = adapter_of(item), f"array {len(self.inputs)}"
        if adapter is None and not isinstance(item, np.ndarray):
            try:
                return static_key(item)
            except TypeError:
                raise fuse_error(
                    f"{self.name} was called with a {type(item).__name__}, which is neither an array nor hashable: "
                    "pass arrays in tuples, lists or dicts"
                ) from None
        view, _ = read_argument(self.name, adapter or item, field)
        if isinstance(item, np.ndarray) and indexes_otherwise(type(item)):
            class_name = f"{type(item).__module__}.{type(item).__qualname__}"
            raise fuse_error(
                f"{self.name}: {field} is a {class_name}, which indexes otherwise: pass numpy.asarray of it"
            )
        if adapter is None:
            return self._layout(view), view.dtype
        dtype = getattr(adapter.array, "dtype", None)
        return type(adapter), str(adapter.device), dtype, self._layout(view, adapter), view.dtype

    def _layout(self, array: Array, adapter: ArrayAdapter | None = None) -> int:
        self.inputs.append(array)
        self.adapters.append(adapter)
        self.numbers += array.shape
        self.numbers += strides_of(array)
        return array.ndim


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, np.ndarray) or adapter_of(leaf) is not None


def indexes_otherwise(class_: Any) -> bool:
    """Whether indexing arrays of a class gives other elements or shapes than indexing NumPy's arrays."""
    # NumPy's other subclasses return the same elements as `numpy.ndarray`.
    return issubclass(class_, np.matrix) or (
        class_.__getitem__ is not np.ndarray.__getitem__
        and class_.__getitem__ not in (np.memmap.__getitem__, np.recarray.__getitem__)
    )


def strides_of(array: Array) -> tuple[int, ...]:
    """Return an array's strides; for contiguous arrays, the strides that the shape implies."""
    if array.flags.c_contiguous:
        return packed_strides(array.shape, array.itemsize)
    return array.strides
