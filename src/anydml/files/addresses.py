"""Addresses such as ``s3://bucket/x.zarr``: objects elsewhere, read and written by obstore as files are."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from anydml.files.json_path import JsonPath
from anydml.files.object_stores import first_line, store_of

ADDRESS_START = re.compile(r"(s3a?|gs|az|https?|memory):/{1,2}(?=[^/])", re.IGNORECASE)
"""Beginnings of the addresses that obstore is asked for; `pathlib.Path` makes one slash of two."""


MIN_MULTIPART, PART_BYTES = 64 << 20, 8 << 20
"""Bytes of an object from which it is written in parts, and of a part."""

READ = 256 << 10
"""Bytes of a request for a part of a header."""

WITH_TENSORS = (
    "model.safetensors.index.json", "model.safetensors", "pytorch_model.bin.index.json", "pytorch_model.bin",
)  # fmt: skip
BESIDE = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model",
    "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "chat_template.jinja",
    "preprocessor_config.json", "processor_config.json",
)  # fmt: skip
"""Names of files with tensors, and of small ones, that are looked for where nothing can be listed."""

AT_A_TIME = 1000
"""Objects that are removed by one request."""

if TYPE_CHECKING:
    _LocalPath = Path
else:
    _LocalPath = type(Path())

RESPONSE_CHUNK = 64 << 10
"""Bytes in which an object comes that is put where it belongs; larger ones are joined, and held twice."""


class Address(_LocalPath):
    """The path of an object, or of a folder of objects, with those methods of `pathlib.Path` that readers use.

    Names are joined and taken apart as those of local paths. All other methods raise TypeError, for there is no file of
    this name on this machine.
    """

    __slots__ = ()

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
        scheme, _, rest = str(self).partition("://")
        return store_of(scheme, rest.partition("/")[0])

    @property
    def key(self) -> str:
        """The name of the object, or of the folder, in its store."""
        rest = str(self).partition("://")[2].partition("/")[2]
        return unquote(rest) if self.scheme.startswith("http") else rest

    @property
    def is_listed(self) -> bool:
        """Whether the names of objects in a folder can be listed."""
        return not self.scheme.startswith("http")

    @property
    def is_local(self) -> bool:
        """Whether it lies in a file of this machine, which is only read."""
        return False

    @property
    def is_near(self) -> bool:
        """Whether requests cost no more than those of files of this machine."""
        return False

    def read_bytes(self) -> bytes:
        """The whole object.

        Raises:
            OSError: there is none, or it cannot be read.
        """
        return bytes(self._get(None)[0])

    def open(self, mode: str = "rb", **_: Any) -> Any:  # type: ignore[override]
        """The object as a file, which is read by requests of 256 KiB.

        Raises:
            OSError: there is no such object, or it cannot be read.
        """
        if mode != "rb":
            raise TypeError(f"{self} is an address: nothing is written as a file there")
        return io.BufferedReader(_Read(self), READ)

    def stat(self, **_: Any) -> AddressStat:  # type: ignore[override]
        """The size of the object.

        Raises:
            OSError: there is no such object.
        """
        if (metadata := self.head()) is None:
            raise FileNotFoundError(2, "there is no such object", str(self))
        return AddressStat(int(metadata["size"]))

    def read_range(self, start: int, stop: int) -> tuple[memoryview, int]:
        """Bytes of the object, and the size of all of it.

        Raises:
            OSError: there is no such object, or it cannot be read.
        """
        return self._get((start, stop))

    def read_into(self, view: memoryview, start: int) -> tuple[int, int]:
        """Fill a view with bytes of the object as they come, so that they are not held twice.

        Returns:
            The number of bytes that came, and the size of the object.

        Raises:
            OSError: there is no such object, or it cannot be read.
        """
        import obstore

        at = 0
        try:
            response = obstore.get(self.store, self.key, options={"range": (start, start + len(view))})
            parts = iter(response.stream(min_chunk_size=RESPONSE_CHUNK))
            while (part := next(parts, None)) is not None:
                view[at : at + len(part)] = memoryview(part)
                at += len(part)
            return at, int(response.meta["size"])
        except Exception as error:
            raise self._error(error) from None

    def read_end(self, count: int) -> bytes:
        """The last bytes of the object.

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
            raise self._error(error) from None

    def copy_to(self, path: Path) -> None:
        """Write the object to a file of this machine, in parts.

        Raises:
            OSError: it cannot be read, or the file cannot be written.
        """
        import obstore

        with path.open("wb") as file:
            try:
                parts = iter(obstore.get(self.store, self.key).stream(min_chunk_size=1 << 20))
                while (part := next(parts, None)) is not None:
                    file.write(part)
            except OSError as error:
                raise self._error(error) if isinstance(error, FileNotFoundError) else error from None
            except Exception as error:
                raise self._error(error) from None

    def write_bytes(self, data: Any) -> Any:
        """Write the object, which has its name only when it is whole; returns its new properties.

        Raises:
            OSError: it cannot be written.
        """
        import obstore

        try:
            # Parts of a large object are held beside it.
            is_large = memoryview(data).nbytes > MIN_MULTIPART
            return obstore.put(
                self.store, self.key, data, use_multipart=is_large, chunk_size=PART_BYTES, max_concurrency=4
            )
        except Exception as error:
            raise self._error(error) from None

    def copy_from(self, path: Path | IO[bytes]) -> None:
        """Write the object as a file of this machine, which may be open, or another object, has it.

        Raises:
            OSError: that cannot be read, or the object cannot be written.
        """
        import obstore

        try:
            if not isinstance(path, Address):
                obstore.put(self.store, self.key, path, chunk_size=PART_BYTES, max_concurrency=2)
            elif type(path) is Address and path.store is self.store:
                obstore.copy(self.store, path.key, self.key)
            else:
                obstore.put(self.store, self.key, path.parts_of(PART_BYTES), chunk_size=PART_BYTES, max_concurrency=2)
        except Exception as error:
            raise self._error(error) from None

    def parts_of(self, size: int) -> Iterator[bytes]:
        """The object in parts of about so many bytes.

        Raises:
            OSError: it cannot be read.
        """
        import obstore

        yield from map(bytes, obstore.get(self.store, self.key).stream(min_chunk_size=size))

    def unlink(self, missing_ok: bool = True) -> None:
        """Remove the object, if there is one.

        Raises:
            OSError: it cannot be removed.
        """
        self.remove([self])

    def remove(self, paths: Iterable[Address]) -> None:
        """Remove objects of the same store, in turn.

        Raises:
            OSError: one cannot be removed.
        """
        import obstore

        remaining = iter(paths)
        try:
            while several := [path.key for path in islice(remaining, AT_A_TIME)]:
                with suppress(FileNotFoundError):
                    obstore.delete(self.store, several)
        except OSError:
            raise
        except Exception as error:
            raise self._error(error) from None

    def head(self) -> Any:
        """Size and other properties of the object, by name; None if there is none.

        Raises:
            OSError: it cannot be looked for.
        """
        import obstore

        try:
            return obstore.head(self.store, self.key) if self.key else None
        except FileNotFoundError:
            return None
        except Exception as error:
            raise self._error(error) from None

    def is_file(self, **_: Any) -> bool:
        """Whether there is an object of this name."""
        return self.head() is not None

    def is_dir(self, **_: Any) -> bool:
        """Whether there are objects in a folder of this name; of http only usual ones of Zarr and of checkpoints."""
        if self.is_listed:
            return next(self.inside(), None) is not None
        return any((self / name).is_file() for name in ("zarr.json", ".zarray", ".zgroup", *WITH_TENSORS))

    def exists(self, **_: Any) -> bool:
        """Whether there is an object, or objects in a folder of this name."""
        return self.is_file() or self.is_dir()

    def is_symlink(self) -> bool:
        """False, for stores have no links."""
        return False

    def iterdir(self) -> Generator[Address, None, None]:
        """Yield the entries of the folder; for http only files with the usual names of checkpoints.

        Raises:
            OSError: it cannot be listed.
        """
        import obstore

        if not self.is_listed and any((self / name).is_file() for name in WITH_TENSORS):
            yield from (self / name for name in (*WITH_TENSORS, *BESIDE) if (self / name).is_file())
            return
        self._check_listed()
        try:
            listing = obstore.list_with_delimiter(self.store, self.key)
        except Exception as error:
            raise self._error(error) from None
        for name in (*listing["common_prefixes"], *(entry["path"] for entry in listing["objects"])):
            yield self / name.rstrip("/").rpartition("/")[2]

    def inside(self) -> Iterator[Any]:
        """Properties of all objects in the folder, and in folders in it: each with its whole ``path``.

        Raises:
            OSError: they cannot be listed.
        """
        import obstore

        self._check_listed()
        try:
            for several in obstore.list(self.store, f"{self.key}/" if self.key else None):
                yield from several
        except Exception as error:
            raise self._error(error) from None

    def files(self) -> Iterator[Address]:
        """The addresses of all objects in the folder, and in folders in it."""
        start = len(self.key) + 1 if self.key else 0
        for entry in self.inside():
            yield self / entry["path"][start:]

    def state(self) -> tuple[Any, ...]:
        """A value that changes with the object, or with anything in the folder; of http only with metadata of Zarr.

        Raises:
            OSError: it cannot be read.
        """
        count = total = 0
        for entry in self.inside() if self.is_listed else ():
            # A sum, for the names may not fit in memory.
            text = repr((entry["path"], *_state_of(entry)))
            count, total = count + 1, total + int.from_bytes(hashlib.sha256(text.encode()).digest())
        if count:
            return count, total % (1 << 256)
        if (metadata := self.head()) is not None:
            return _state_of(metadata)
        heads = [(self / name).head() for name in ("zarr.json", ".zarray", ".zattrs", ".zgroup")]
        return tuple(_state_of(entry) for entry in heads if entry)

    def _check_listed(self) -> None:
        if not self.is_listed:
            raise OSError(0, "nothing can be listed there: name one array", str(self))

    def _error(self, error: Exception) -> OSError:
        if isinstance(error, FileNotFoundError):
            return FileNotFoundError(2, "there is no such object", str(self))
        return OSError(0, first_line(error), str(self))


class AddressStat(NamedTuple):
    """The properties of an object.

    Attributes:
        st_size: bytes.
    """

    st_size: int


class _Read(io.RawIOBase):
    """An object as a file that is read."""

    def __init__(self, path: Address) -> None:
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


def _state_of(metadata: Any) -> tuple[Any, ...]:
    """Return what changes with an object, by its properties."""
    return metadata["size"], metadata["e_tag"], str(metadata["last_modified"])


def check_written(path: Address) -> None:
    """Refuse addresses at which nothing is written.

    Raises:
        ModelError: it is one of a web server, or a whole bucket.
    """
    if path.is_local:
        raise JsonPath(str(path)).error("lies in a file that is only read: name a folder such as x.zarr")
    if not path.is_listed:
        raise JsonPath(str(path)).error("is of a web server, which is only read: name one such as s3://bucket/x.zarr")
    if not path.key:
        raise JsonPath(str(path)).error("is a whole bucket: name a folder in it, such as x.zarr")
