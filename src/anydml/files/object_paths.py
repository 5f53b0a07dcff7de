"""Paths of objects such as ``s3://bucket/x.npy``, read and written by obstore as files are."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import unquote

from anydml.files.object_stores import first_line, store_of

ADDRESS_START = re.compile(r"(s3a?|gs|az|https?|memory):/{1,2}(?=[^/])", re.IGNORECASE)
"""Beginnings of the addresses that obstore is asked for; `pathlib.Path` makes one slash of two."""


MIN_MULTIPART = 64 << 20
"""Bytes of an object from which on it is written in parts."""

PART_BYTES = 8 << 20
"""Bytes of a part, unless an object would have too many."""

MAX_PARTS = 10_000
"""Parts of an object, for which S3 has this limit."""

READ = 256 << 10
"""Bytes of a request for a part of a header."""

KEYS_PER_REQUEST = 1000
"""Objects that are removed by one request."""

if TYPE_CHECKING:
    _LocalPath = Path
else:
    _LocalPath = type(Path())

RESPONSE_CHUNK = 64 << 10
"""Bytes of the pieces in which an object is received; obstore joins smaller ones, and holds their bytes twice."""


class ObjectPath(_LocalPath):
    """The path of an object, with those methods of `pathlib.Path` that readers and writers of one use.

    Names are joined and taken apart as those of local paths. All other methods raise TypeError, for there is no file of
    this name on this machine.
    """

    __slots__ = ("_held",)
    _held: tuple[Any, str]

    def held(self) -> Self:
        """Return the path with its store, which paths below it share; otherwise each looks for settings again."""
        path = type(self)(str(self))
        path._held = self.store, self.key
        return path

    def __truediv__(self, name: Any) -> Self:
        path = super().__truediv__(name)
        if isinstance(name, str) and (held := getattr(self, "_held", None)) is not None:
            path._held = held[0], f"{held[1]}/{name}" if held[1] else name
        return path

    def __str__(self) -> str:
        return ADDRESS_START.sub(lambda match: f"{match[1].lower()}://", super().__str__().replace("\\", "/"), count=1)

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is an address, and no file on this machine")

    @property
    def scheme(self) -> str:
        """The kind of store, such as ``s3``."""
        return str(self).partition("://")[0]

    @property
    def store(self) -> Any:
        """The store of obstore that holds all objects of this bucket, container or server."""
        if (held := getattr(self, "_held", None)) is not None:
            return held[0]
        scheme, _, host_and_key = str(self).partition("://")
        return store_of(scheme, host_and_key.partition("/")[0])

    @property
    def key(self) -> str:
        """The name of the object, or of the folder, in its store."""
        held: tuple[Any, str] | None = getattr(self, "_held", None)
        if held is not None:
            return held[1]
        after_scheme = str(self).partition("://")[2].partition("/")[2]
        return unquote(after_scheme) if self.scheme.startswith("http") else after_scheme

    def read_bytes(self) -> bytes:
        """Return the whole object.

        Raises:
            OSError: the object does not exist, or cannot be read.
        """
        return bytes(self._get(None)[0])

    def open(self, mode: str = "rb", **_: Any) -> Any:  # type: ignore[override]
        """Return the object as a file, which is read by requests of 256 KiB.

        Raises:
            OSError: there is no such object, or it cannot be read.
        """
        if mode != "rb":
            raise TypeError(f"{self} is an address: nothing is written as a file there")
        return io.BufferedReader(_Read(self), READ)

    def stat(self, **_: Any) -> AddressStat:  # type: ignore[override]
        """Return the size of the object.

        Raises:
            OSError: there is no such object.
        """
        if (metadata := self.head()) is None:
            raise FileNotFoundError(2, "there is no such object", str(self))
        return AddressStat(int(metadata["size"]))

    def read_range(self, start: int, stop: int) -> tuple[memoryview, int]:
        """Return bytes of the object, and the size of all of it.

        Raises:
            OSError: there is no such object, or it cannot be read.
        """
        return self._get((start, stop))

    def read_into(self, view: memoryview, start: int) -> tuple[int, int]:
        """Fill a view with bytes of the object as they arrive, so that they are not in memory twice.

        Returns:
            The number of bytes that came, and the size of the object.

        Raises:
            OSError: there is no such object, or it cannot be read.
        """
        import obstore

        position = 0
        try:
            response = obstore.get(self.store, self.key, options={"range": (start, start + len(view))})
            chunks = iter(response.stream(min_chunk_size=RESPONSE_CHUNK))
            while (part := next(chunks, None)) is not None:
                view[position : position + len(part)] = memoryview(part)
                position += len(part)
            return position, int(response.meta["size"])
        except Exception as error:
            raise self.error(error) from None

    def read_end(self, count: int) -> bytes:
        """Return the last bytes of the object.

        Raises:
            OSError: there is no such object, or it cannot be read.
        """
        return bytes(self._get({"suffix": count})[0])

    def _get(self, span: tuple[int, int] | dict[str, int] | None) -> tuple[memoryview, int]:
        import obstore

        try:
            response = obstore.get(self.store, self.key, options=None if span is None else {"range": span})
            return memoryview(response.bytes()), int(response.meta["size"])
        except Exception as error:
            raise self.error(error) from None

    def copy_to(self, path: Path) -> None:
        """Write the object to a file of this machine, in parts.

        Raises:
            OSError: the object cannot be read, or the file cannot be written.
        """
        import obstore

        with path.open("wb") as file:
            try:
                chunks = iter(obstore.get(self.store, self.key).stream(min_chunk_size=1 << 20))
                while (part := next(chunks, None)) is not None:
                    file.write(part)
            except OSError as error:
                raise self.error(error) if isinstance(error, FileNotFoundError) else error from None
            except Exception as error:
                raise self.error(error) from None

    def write_bytes(self, data: Any) -> Any:
        """Write the object, which appears under its name only when it is complete; return its new properties.

        Raises:
            OSError: the object cannot be written.
        """
        import obstore

        try:
            # The parts of a large object take memory beside the object.
            is_large = memoryview(data).nbytes > MIN_MULTIPART
            # A store in memory would keep the caller's, which may change.
            content = bytes(data) if self.scheme == "memory" else data
            return obstore.put(
                self.store, self.key, content, use_multipart=is_large, chunk_size=PART_BYTES, max_concurrency=4
            )
        except Exception as error:
            raise self.error(error) from None

    def copy_from(self, path: Path | IO[bytes]) -> None:
        """Copy a file of this machine, which may be open, or another object to this object.

        Raises:
            OSError: the file or object cannot be read, or this object cannot be written.
        """
        import obstore

        try:
            if not isinstance(path, ObjectPath):
                size = os.fstat(path.fileno()).st_size if hasattr(path, "fileno") else path.stat().st_size
                obstore.put(self.store, self.key, path, chunk_size=part_bytes(size), max_concurrency=2)
            elif type(path) is type(self) and path.store is self.store:
                obstore.copy(self.store, path.key, self.key)
            else:
                step = part_bytes(path.stat().st_size)
                obstore.put(self.store, self.key, path.parts_of(step), chunk_size=step, max_concurrency=2)
        except Exception as error:
            raise self.error(error) from None

    def parts_of(self, size: int) -> Iterator[bytes]:
        """Yield the object in parts of about so many bytes.

        Raises:
            OSError: the object cannot be read.
        """
        import obstore

        yield from map(bytes, obstore.get(self.store, self.key).stream(min_chunk_size=size))

    def unlink(self, missing_ok: bool = False) -> None:
        """Remove the object.

        Args:
            missing_ok: whether there may be none.

        Raises:
            OSError: the object does not exist, or cannot be removed.
        """
        if not missing_ok:
            self.stat()
        self.remove([self])

    def remove(self, paths: Iterable[ObjectPath]) -> None:
        """Remove objects of the same store, in turn.

        Raises:
            OSError: an object cannot be removed.
        """
        import obstore

        remaining = iter(paths)
        try:
            while batch := [path.key for path in islice(remaining, KEYS_PER_REQUEST)]:
                with suppress(FileNotFoundError):
                    obstore.delete(self.store, batch)
        except OSError:
            raise
        except Exception as error:
            raise self.error(error) from None

    def head(self) -> Any:
        """Return the size and other properties of the object, by name; None if there is none.

        Raises:
            OSError: the request for the object failed.
        """
        import obstore

        try:
            return obstore.head(self.store, self.key) if self.key else None
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self.error(error) from None

    def error(self, error: Exception) -> OSError:
        """Return the error of a failed request as OSError."""
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(2, "there is no such object", str(self))
        return ObjectError(0, first_line(error), str(self))


def part_bytes(size: int) -> int:
    """Return bytes of each part but the last of an object."""
    return max(PART_BYTES, -(-size // MAX_PARTS))


class ObjectError(OSError):
    """An error of a store, which has no number of the operating system."""

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class AddressStat(NamedTuple):
    """The properties of an object.

    Attributes:
        st_size: bytes.
    """

    st_size: int


class _Read(io.RawIOBase):
    """An object as a file that is read."""

    def __init__(self, path: ObjectPath) -> None:
        self.name = str(path)
        self._path, self._size, self._at = path, path.stat().st_size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = (0, self._at, self._size)[whence] + offset
        return self._at

    def readinto(self, buffer: Any) -> int:
        stop = min(self._size, self._at + len(buffer))
        if stop <= self._at:
            return 0
        data, _ = self._path.read_range(self._at, stop)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def state_of(metadata: Any) -> tuple[Any, ...]:
    """Return a value that changes with an object, from its properties."""
    return metadata["size"], metadata["e_tag"], str(metadata["last_modified"])
