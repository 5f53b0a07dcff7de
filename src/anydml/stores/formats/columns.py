"""Tensors of new files as columns, since a checkpoint may have a million parts with few different shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from json.encoder import encode_basestring
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from anydml.stores.formats.store import Numbers

ShapeAndDtype = tuple[tuple[int, ...], np.dtype[Any]]
"""The shape and the dtype of a tensor."""


class DeferredBytes(Protocol):
    """Bytes that are generated when they are written, so that a plan does not hold all of them at once."""

    def make(self) -> bytes:
        """Return the bytes, which are the same in every call."""
        ...


def content_bytes(content: bytes | DeferredBytes) -> bytes:
    """Return the bytes of a content; the bytes of a `DeferredBytes` are generated now."""
    return content if isinstance(content, bytes) else content.make()


class TensorNames:
    """Names of tensors, shared by several files.

    Args:
        texts: the names.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts

    @cached_property
    def sizes(self) -> Numbers:
        """The bytes of each name as a JSON string, with quotes."""
        return np.array([len(encode_basestring(text).encode()) for text in self.texts], np.int32)

    @cached_property
    def sizes_inside(self) -> Numbers:
        """The bytes of each name as a JSON string inside another JSON string."""
        return np.array([len(escape_json(encode_basestring(text)).encode()) for text in self.texts], np.int32)


def escape_json(text: str) -> str:
    """Escape a string for JSON."""
    return encode_basestring(text)[1:-1]


class FileTensors(NamedTuple):
    """The tensors of a file.

    Attributes:
        names: names of tensors, some of which are in the file.
        name: the number of each tensor's name, in the order of the file.
        kinds: shapes and dtypes.
        kind: the number of each tensor's shape and dtype.
    """

    names: TensorNames
    name: Numbers
    kinds: Sequence[ShapeAndDtype]
    kind: Numbers

    @classmethod
    def of(cls, tensors: Mapping[str, ShapeAndDtype]) -> Self:
        """Return tensors by name."""
        kind_numbers: dict[ShapeAndDtype, int] = {}
        kind = [kind_numbers.setdefault(tensor, len(kind_numbers)) for tensor in tensors.values()]
        numbers = np.arange(len(tensors), dtype=np.int32)
        return cls(TensorNames([*tensors]), numbers, [*kind_numbers], np.array(kind, np.int32))

    def of_own_kinds(self) -> Self:
        """Return these columns without unused kinds: the files of all ranks are made with the same kinds."""
        used, kind = np.unique(self.kind, return_inverse=True)
        return self._replace(kinds=[self.kinds[k] for k in used.tolist()], kind=kind.astype(np.int32))

    @property
    def bytes_of_kinds(self) -> Numbers:
        """Bytes of a tensor of each kind."""
        return bytes_of(self.kinds)

    def items(self) -> Iterator[tuple[str, ShapeAndDtype]]:
        """Return names, shapes and dtypes."""
        texts, kinds = self.names.texts, self.kinds
        return ((texts[name], kinds[kind]) for name, kind in zip(self.name.tolist(), self.kind.tolist(), strict=True))


def bytes_of(kinds: Sequence[ShapeAndDtype]) -> Numbers:
    """Return the size in bytes of each tensor, from shapes and dtypes."""
    return np.array([math.prod(shape) * dtype.itemsize for shape, dtype in kinds], np.int64)


_POWERS = 10 ** np.arange(1, 19, dtype=np.int64)


def digits_of(numbers: Numbers) -> Numbers:
    """Return the number of decimal digits of each number from 0 on."""
    digits: Numbers = np.searchsorted(_POWERS, numbers, "right") + 1
    return digits
