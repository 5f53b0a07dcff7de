"""Objects at addresses that are read at places, as files are."""

from __future__ import annotations

import numpy as np

from anydml.files.addresses import Address
from anydml.files.location import Location
from anydml.stores.formats.store import Array, Numbers
from anydml.stores.running.scattered_io import LEFT_OUT

MAX_COLLECTED = 512 << 10
"""Maximum bytes that are received in one piece, which obstore holds twice meanwhile; pieces cost processor time."""


class ObjectFile:
    """An object at an address, which several threads read at once.

    Args:
        path: the address of the object.
        size: bytes that it must have; None where that is known by other means.
    """

    def __init__(self, path: Address, size: int | None = None) -> None:
        self.path = path
        self._size = size

    def __enter__(self) -> ObjectFile:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, view: memoryview, offset: int) -> None:
        """Fill a view with the bytes from an offset on, by one request.

        Raises:
            FileNotFoundError: there is no such object.
            OSError: the object cannot be read.
            ModelError: the object has another size.
        """
        if not view:
            return
        self._check(*self.path.read_into(view, offset), len(view))

    def received(self, offset: int, length: int) -> memoryview:
        """Return bytes from an offset on, at most `MAX_COLLECTED`; errors as in `read`."""
        data, size = self.path.read_range(offset, offset + length)
        self._check(len(data), size, length)
        return data

    def _check(self, count: int, size: int, length: int) -> None:
        """Refuse another number of bytes than was asked for, or an object of another size."""
        if self._size not in (None, size):
            raise Location(str(self.path)).error(f"is {size} bytes now, but was {self._size} when it was opened")
        if count != length:
            raise Location(str(self.path)).error("has become shorter since it was opened")

    def read_runs(self, buffer: Array, starts: Numbers, lengths: Numbers, offset: int) -> None:
        """Fill runs of a buffer with the bytes from an offset on, by one request; some may be `LEFT_OUT`.

        Raises:
            OSError: as in `read`.
            ModelError: the object has another size.
        """
        data, base = np.empty(int(lengths.sum()), np.uint8), 0
        self.read(data.data, offset)
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            if start != LEFT_OUT:
                buffer[start : start + length] = data[base : base + length]
            base += length
