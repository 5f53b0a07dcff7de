"""Paths of Zarr arrays and groups in one file, a zip store, references of kerchunk or HDF5, in Icechunk or N5."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, Self

from anydml.errors import ModelError
from anydml.files.addresses import Address
from anydml.files.located import locate
from anydml.files.location import Location, names
from anydml.stores.formats.hdf5 import SUFFIXES, is_hdf5, references_of_hdf5
from anydml.stores.formats.icechunk import is_icechunk, references_of_icechunk, snapshot_of
from anydml.stores.formats.kerchunk import is_kerchunk, references_of_kerchunk
from anydml.stores.formats.n5 import is_n5, references_of_n5, state_of_n5
from anydml.stores.formats.references import References
from anydml.stores.formats.store import state_of
from anydml.stores.formats.zip_store import is_zip_store, references_of_zip

_KNOWN: dict[str, tuple[tuple[Any, ...], References]] = {}
"""Cached references by path, each with the state of the file when it was read."""


class PathInFile(Address):
    """The path of an object, or of a folder of objects, in a file that holds a Zarr hierarchy: ``x.zip/temp``."""

    __slots__ = ()

    def __str__(self) -> str:
        return str(Path(*self.parts))

    def held(self) -> Self:
        """Return the path itself, since it has no store."""
        return self

    @property
    def file(self) -> Path:
        """The file, or the folder of a repository."""
        return Path(_split_path(self)[0])

    @property
    def key(self) -> str:
        """The name of the object, or of the folder, in the file."""
        return _split_path(self)[1]

    @property
    def references(self) -> References:
        """The objects of the file.

        Raises:
            ModelError: the file cannot be read.
        """
        return _read_references(_split_path(self)[0])

    @property
    def is_local(self) -> bool:
        """True, because the file is on this machine."""
        return True

    @property
    def is_near(self) -> bool:
        """Whether all bytes are in local files."""
        return not any(isinstance(path, Address) for path in self.references.files())

    @property
    def is_listed(self) -> bool:
        """True, because a file lists its contents."""
        return True

    def _get(self, span: tuple[int, int] | dict[str, int] | None) -> tuple[memoryview, int]:
        content = self.references.objects.get(self.key)
        if content is None:
            raise FileNotFoundError(2, "there is no such object", str(self))
        size = len(content) if isinstance(content, bytes) else content.length()
        start, stop = (0, size) if span is None else (None, span["suffix"]) if isinstance(span, dict) else span
        if not isinstance(content, bytes):
            return memoryview(content.read(start, stop)), size
        return memoryview(content[max(0, size - stop) if start is None else start :][: stop - (start or 0)]), size

    def read_into(self, view: memoryview, start: int) -> tuple[int, int]:
        """See `Address.read_into`."""
        data, size = self._get((start, start + len(view)))
        view[: len(data)] = data
        return len(data), size

    def parts_of(self, size: int) -> Iterator[bytes]:
        """Yield the object in parts."""
        end = self.head()["size"]
        yield from (bytes(self._get((start, min(end, start + size)))[0]) for start in range(0, end, size))

    def copy_to(self, path: Path) -> None:
        """Write the object to a file of this machine."""
        path.write_bytes(self.read_bytes())

    def head(self) -> Any:
        """Return a dict with the `size` of the object; None if it does not exist."""
        content = self.references.objects.get(self.key)
        return None if content is None else {"size": len(content) if isinstance(content, bytes) else content.length()}

    def is_file(self, **_: Any) -> bool:
        """Whether there is an object of this name."""
        return self.key in self.references.objects

    def is_dir(self, **_: Any) -> bool:
        """Whether there are objects in a folder of this name."""
        return bool(self.references.inside.get(self.key))

    def iterdir(self) -> Generator[PathInFile, None, None]:
        """Yield the entries of the folder."""
        yield from (self / name for name in self.references.inside.get(self.key, ()))

    def inside(self) -> Iterator[Any]:
        """Yield the names of all objects in the folder and its subfolders, as properties ``path``."""
        start = f"{self.key}/" if self.key else ""
        yield from ({"path": name} for name in self.references.objects if name.startswith(start))

    def state(self) -> tuple[Any, ...]:
        """Return a value that changes with the file, and with every file that it refers to."""
        return _state(self.file), self.references.state()


def locate_inside(name: str, value: object) -> Path:
    """Locate a path as `locate` does; a path in a file that holds a Zarr hierarchy is a `PathInFile`.

    Raises:
        ModelError: as in `locate`, or the file is broken, or the library is missing that reads it.
    """
    placed_path = locate(name, value)
    if isinstance(placed_path, Address):
        return placed_path
    try:
        for path in (placed_path, *placed_path.parents):
            if path.is_file() or _is_folder(path):
                _forget_others(path)
                return PathInFile(placed_path) if _is_current(path) or _kind(path) is not None else placed_path
            if path.exists():
                break
    except ModelError:
        raise
    except (OSError, ValueError) as error:
        raise Location(str(placed_path)).error(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return placed_path


def _is_current(path: Path) -> bool:
    """Whether the references of a file were read, and the file has not changed since."""
    cached = _KNOWN.get(str(path))
    if cached is not None and cached[0] != _state(path):
        del _KNOWN[str(path)]
        return False
    return cached is not None


def _state(path: Path) -> tuple[Any, ...]:
    """Return a value that changes with a file or repository."""
    if not path.is_dir():
        return state_of(path.stat())
    return state_of_n5(path) if is_n5(path) else (snapshot_of(path),)


def _is_folder(path: Path) -> bool:
    """Whether a folder is read as one file."""
    return is_icechunk(path) or is_n5(path)


def _forget_others(path: Path) -> None:
    """Forget cached references inside and around a folder, which may have changed."""
    overlapping = [
        file for file in _KNOWN if file != str(path) and (path in Path(file).parents or Path(file) in path.parents)
    ]
    for file in overlapping:
        del _KNOWN[file]


def lost_of(path: Path) -> list[str]:
    """Return the names of attributes that are left out of the array or group at a path, and of all its members."""
    if not isinstance(path, PathInFile):
        return []
    start = f"{path.key}/" if path.key else ""
    lost = {name: of for name, of in path.references.lost.items() if name == path.key or name.startswith(start)}
    return [f"{name}.{key}" if name else key for name, of in lost.items() for key in of]


def remarks_on_reading(path: Path) -> list[str]:
    """Return remarks: other files from which a path is read, the state of a repository, lost attributes."""
    if lost := lost_of(path):
        return [f"leaves out attributes that JSON cannot hold: {names(lost)}"]
    if isinstance(path, PathInFile) and path.references.version:
        return [f"reads {path.references.version} of {path.file}"]
    if isinstance(path, PathInFile) and path.references.remark:
        return [path.references.remark]
    others = (
        [str(reference) for reference in path.references.files() if reference != path.file]
        if isinstance(path, PathInFile)
        else []
    )
    ending = f" and {len(others) - 3} more" * (len(others) > 3)
    return [f"reads {', '.join(others[:3])}{ending}, to which {path} refers"] if others else []


def absolute_path(path: Path) -> Path:
    """Return a path that means the same in another folder."""
    if isinstance(path, PathInFile):
        return PathInFile(os.path.abspath(str(path)))
    return path if isinstance(path, Address) else Path(os.path.abspath(path))


def _kind(path: Path) -> Any:
    """Return the function that reads the references of a file; None for a file without references."""
    if path.is_dir():
        return references_of_n5 if is_n5(path) else references_of_icechunk
    with path.open("rb") as file:
        start = file.read(2)
    if start == b"PK" and path.suffix.lower() in (".zip", ".zarr") and is_zip_store(path):
        return references_of_zip
    if is_hdf5(path):
        return references_of_hdf5
    if path.suffix.lower() in SUFFIXES:
        raise ModelError(
            f"{path}: is not an HDF5 or NetCDF-4 file, though its name says so: it is damaged, or of an older format, "
            "such as NetCDF-3; write it anew by the program that has made it"
        )
    return references_of_kerchunk if path.suffix.lower() == ".json" and is_kerchunk(path) else None


def _split_path(path: PathInFile) -> tuple[str, str]:
    """Return the path of the file, and the name of the object in it."""
    text = str(path)
    for file in _KNOWN:
        if text == file or text.startswith(file + os.sep):
            return file, text[len(file) + 1 :].replace(os.sep, "/")
    # This is not the process that opened the path.
    file = next(
        str(candidate)
        for candidate in (Path(text), *Path(text).parents)
        if candidate.is_file() or _is_folder(candidate)
    )
    return file, text[len(file) + 1 :].replace(os.sep, "/")


def _read_references(file: str) -> References:
    """Return the references of a file, which are read once."""
    path = Path(file)
    cached = _KNOWN.get(file)
    if cached is None:
        read = _kind(path)
        if read is None:
            raise ModelError(f"{file}: holds no Zarr hierarchy")
        cached = _KNOWN[file] = _state(path), read(path, Location(file))
    return cached[1]
