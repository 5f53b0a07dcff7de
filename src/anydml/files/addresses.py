"""Addresses such as ``s3://bucket/x.zarr``: objects elsewhere, read and written by obstore as files are."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterator
from typing import Any

from anydml.files.location import Location
from anydml.files.object_paths import ObjectPath, state_of

WITH_TENSORS = (
    "model.safetensors.index.json", "model.safetensors", "pytorch_model.bin.index.json", "pytorch_model.bin",
)  # fmt: skip
BESIDE = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model",
    "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt", "chat_template.jinja",
    "preprocessor_config.json", "processor_config.json",
)  # fmt: skip
"""Names of files with tensors, and of small ones, that are looked for where nothing can be listed."""


class Address(ObjectPath):
    """The path of an object, or of a folder of objects, with those methods of `pathlib.Path` that readers use."""

    __slots__ = ()

    @property
    def is_listed(self) -> bool:
        """Whether the names of objects in a folder can be listed."""
        return not self.scheme.startswith("http")

    @property
    def is_local(self) -> bool:
        """Whether the path lies in a file of this machine; such files are only read."""
        return False

    @property
    def is_near(self) -> bool:
        """Whether requests cost no more than those of files of this machine."""
        return False

    def is_file(self, **_: Any) -> bool:
        """Whether there is an object of this name."""
        return self.head() is not None

    def is_dir(self, **_: Any) -> bool:
        """Whether there are objects in a folder of this name; over http, only usual names are tried."""
        if self.is_listed:
            return next(self.inside(), None) is not None
        return any((self / name).is_file() for name in ("zarr.json", ".zarray", ".zgroup", *WITH_TENSORS))

    def exists(self, **_: Any) -> bool:
        """Whether there is an object, or objects in a folder of this name."""
        return self.is_file() or self.is_dir()

    def is_symlink(self) -> bool:
        """Return False, since stores have no links."""
        return False

    def iterdir(self) -> Generator[Address, None, None]:
        """Yield the entries of the folder; for http only files with the usual names of checkpoints.

        Raises:
            OSError: the folder cannot be listed.
        """
        import obstore

        if not self.is_listed and any((self / name).is_file() for name in WITH_TENSORS):
            yield from (self / name for name in (*WITH_TENSORS, *BESIDE) if (self / name).is_file())
            return
        self._check_listed()
        try:
            listing = obstore.list_with_delimiter(self.store, self.key)
        except Exception as error:
            raise self.error(error) from None
        for name in (*listing["common_prefixes"], *(entry["path"] for entry in listing["objects"])):
            yield self / name.rstrip("/").rpartition("/")[2]

    def inside(self) -> Iterator[Any]:
        """Yield the properties of all objects in the folder and its subfolders, each with its whole ``path``.

        Raises:
            OSError: the objects cannot be listed.
        """
        import obstore

        self._check_listed()
        try:
            for batch in obstore.list(self.store, f"{self.key}/" if self.key else None):
                yield from batch
        except Exception as error:
            raise self.error(error) from None

    def files(self) -> Iterator[Address]:
        """Yield the addresses of all objects in the folder and its subfolders."""
        start = len(self.key) + 1 if self.key else 0
        for entry in self.inside():
            yield self / entry["path"][start:]

    def state(self) -> tuple[Any, ...]:
        """Return a value that changes with an object, or with any in a folder; by http, only with Zarr's metadata.

        Raises:
            OSError: the object cannot be read.
        """
        count = total = 0
        for entry in self.inside() if self.is_listed else ():
            # A sum, for the names may not fit in memory.
            text = repr((entry["path"], *state_of(entry)))
            count, total = count + 1, total + int.from_bytes(hashlib.sha256(text.encode()).digest())
        if count:
            return count, total % (1 << 256)
        if (metadata := self.head()) is not None:
            return state_of(metadata)
        heads = [(self / name).head() for name in ("zarr.json", ".zarray", ".zattrs", ".zgroup")]
        return tuple(state_of(entry) for entry in heads if entry)

    def _check_listed(self) -> None:
        if not self.is_listed:
            raise OSError(0, "nothing can be listed there: name one array", str(self))


def check_written(path: Address) -> None:
    """Refuse addresses at which nothing is written.

    Raises:
        ModelError: the address is one of a web server, or a whole bucket.
    """
    if path.is_local:
        raise Location(str(path)).error("lies in a file that is only read: name a folder such as x.zarr")
    if not path.is_listed:
        raise Location(str(path)).error("is of a web server, which is only read: name one such as s3://bucket/x.zarr")
    if not path.key:
        raise Location(str(path)).error("is a whole bucket: name a folder in it, such as x.zarr")
