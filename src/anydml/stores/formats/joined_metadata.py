"""The metadata of several files as one mapping, in which keys with differing values are errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from anydml.errors import ModelError
from anydml.files.location import show
from anydml.stores.formats.gguf import SPLIT


class JoinedMetadata(Mapping[str, str]):
    """The metadata of files, without the keys that number the files.

    Args:
        folder: the folder of the files, for errors.
        by_file: the metadata of each.

    Raises:
        ModelError: on access to a key whose values differ between files.
    """

    def __init__(self, folder: Path, by_file: Mapping[Path, Mapping[str, str]]) -> None:
        self._folder, self._by_file, self._values = folder, by_file, last_values(by_file.values())

    def __getitem__(self, key: str) -> str:
        value = self._values[key]
        for path, file_metadata in self._by_file.items():
            if key in file_metadata and are_different(file_metadata[key], value):
                last = [file.name for file, metadata in self._by_file.items() if key in metadata][-1]
                raise ModelError(
                    f"{self._folder}: files differ in their metadata {show(key)}: {path.name} says "
                    f"{show(file_metadata[key])}, {last} {show(value)}; file_metadata has those of each file"
                )
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"metadata of {len(self._by_file)} files: {', '.join(map(show, self._values)) or 'none'}"


def last_values(files: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the metadata of files; where values differ, the last file decides. One file keeps all keys."""
    documents = [*files]
    split_keys = SPLIT if len(documents) > 1 else ()
    return {key: value for metadata in documents for key, value in metadata.items() if key not in split_keys}


def are_different(first: str, second: str) -> bool:
    """Whether two values differ; arrays of GGUF files are compared by their raw bytes."""
    return first != second or getattr(first, "raw", None) != getattr(second, "raw", None)
