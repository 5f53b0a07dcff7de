"""References: the places of a Zarr hierarchy's objects in other files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from anydml.files.addresses import Address
from anydml.stores.formats.store import state_of


class Range(NamedTuple):
    """Bytes of a file or object.

    Attributes:
        path: the file's path.
        start: offset of the first byte.
        size: number of bytes; None for all up to the end.
    """

    path: Path
    start: int
    size: int | None

    def read(self, start: int | None, stop: int) -> bytes:
        """Return some of the bytes; with no `start`, the last `stop` of them.

        Raises:
            OSError: the bytes cannot be read; for a missing file, the error is another one than for a missing object.
        """
        size = self.length()
        first, last = (max(0, size - stop), size) if start is None else (min(start, size), min(stop, size))
        try:
            if isinstance(self.path, Address):
                return bytes(self.path.read_range(self.start + first, self.start + last)[0]) if last > first else b""
            with self.path.open("rb") as file:
                # No more memory than the file has bytes.
                if self.start + last > file.seek(0, os.SEEK_END):
                    raise OSError(0, f"is too short for {last} bytes from {self.start} on", str(self.path))
                file.seek(self.start + first)
                return file.read(last - first)
        except FileNotFoundError:
            raise OSError(0, "does not exist, but should hold elements", str(self.path)) from None

    def length(self) -> int:
        """Return number of bytes.

        Raises:
            OSError: there is no such file.
        """
        if self.size is not None:
            return self.size
        if isinstance(self.path, Address):
            metadata = self.path.head()
            size = None if metadata is None else int(metadata["size"])
        else:
            size = self.path.stat().st_size if self.path.exists() else None
        if size is None:
            raise OSError(0, "does not exist, but should hold elements", str(self.path))
        return max(0, size - self.start)


class Object(Protocol):
    """An object of which parts can be read."""

    def read(self, start: int | None, stop: int) -> bytes:
        """See `Range.read`."""

    def length(self) -> int:
        """See `Range.length`."""


@dataclass
class References:
    """The objects of a Zarr hierarchy.

    Attributes:
        objects: the objects' bytes, or the places of these, by name.
        refused: why arrays cannot be read, by name.
        version: the state of a repository; empty if the state of files identifies it.
        remark: a remark on every array that is read, or an empty text. Such arrays are written in the usual layout of
            Zarr.
        lost: the names of attributes that JSON cannot represent, by the names of arrays and groups.
    """

    objects: Mapping[str, bytes | Object]
    refused: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    remark: str = ""
    lost: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inside: dict[str, dict[str, None]] = {"": {}}
        for name in self.objects:
            folder, _, last = name.rpartition("/")
            while last not in (members := self.inside.setdefault(folder, {})):
                members[last] = None
                if not folder:
                    break
                folder, _, last = folder.rpartition("/")
        self._files = {reference.path: None for reference in self.objects.values() if isinstance(reference, Range)}

    def files(self) -> Iterator[Path]:
        """Yield the files and objects that contain the bytes."""
        yield from self._files

    def state(self) -> tuple[object, ...]:
        """Return a value that changes with any of these files.

        Raises:
            OSError: a file cannot be read.
        """
        try:
            states = (path.state() if isinstance(path, Address) else state_of(path.stat()) for path in self._files)
            return (self.version, *states)
        except FileNotFoundError as error:
            raise OSError(0, f"it refers to {error.filename}, which does not exist") from None
