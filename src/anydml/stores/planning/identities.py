"""Identities: values that change with a file or folder; and marks, which tell the plan that wrote an output."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from anydml.errors import BindingError
from anydml.files.addresses import Address
from anydml.files.located import map_concurrently
from anydml.stores.formats.store import state_of

R = TypeVar("R")


def identity(path: Path) -> tuple[Any, ...]:
    """Return a value that changes with a file, or with anything inside a folder.

    Raises:
        BindingError: the file cannot be read.
    """
    try:
        if isinstance(path, Address):
            return path.state()
        return _of_folder(path) if path.is_dir() else state_of(os.stat(path))
    except OSError as error:
        raise BindingError(f"{path} cannot be read: {error.strerror or error}") from None


def identities_of(paths: Iterable[object]) -> dict[Path, tuple[Any, ...]]:
    """Return the identities of all paths among some values.

    Raises:
        BindingError: a file cannot be read.
    """
    distinct = sorted({path for path in paths if isinstance(path, Path)})
    return dict(zip(distinct, _map_paths(identity, distinct), strict=True))


def identities_of_stores(
    name: str, stores: Iterable[Any], further: Iterable[object] = ()
) -> dict[Path, tuple[Any, ...]]:
    """Return the identities of the files of stores, and of the files that locate their elements.

    Args:
        name: the name of the plan, for errors.
        stores: `Store` objects or Zarr arrays.
        further: further values; the paths among them are included.

    Raises:
        BindingError: a file cannot be read, or has changed since its header was read.
    """
    # By id, because hashing a path is slow.
    files = {id(store.path): (store.path, getattr(store, "seen", None)) for store in stores}
    files_of_store = {id(described): described for store in stores if (described := getattr(store, "described_by", ()))}
    described_files = [
        *files.values(),
        *(described_file for described in files_of_store.values() for described_file in described),
    ]
    identities = identities_of([*(path for path, _ in described_files), *further])
    for path, state in described_files:
        if state not in (None, identities[path]):
            raise _change(name, path)
    return identities


def _change(name: str, path: Path) -> BindingError:
    return BindingError(f"{name}: {path} has changed since it was opened: open it again", name)


def _map_paths(function: Callable[[Path], R], paths: Sequence[Path]) -> list[R]:
    """Return the results of a function of paths, of many addresses at once."""
    is_elsewhere = sum(isinstance(path, Address) for path in paths) > 1
    return map_concurrently(function, paths) if is_elsewhere else [*map(function, paths)]


def check_unchanged(name: str, identities: Mapping[Path, tuple[Any, ...]]) -> None:
    """Refuse inputs that have changed.

    Raises:
        BindingError: a file has changed or no longer exists.
    """

    def is_changed(path: Path) -> bool:
        # An address without objects has another identity than before.
        return not (isinstance(path, Address) or path.exists()) or identity(path) != identities[path]

    paths = [*identities]
    for path, is_other in zip(paths, _map_paths(is_changed, paths), strict=True):
        if is_other:
            raise _change(name, path)


def _of_folder(path: Path) -> tuple[int, int]:
    """Return the number of files, and a sum of digests of their relative names, sizes and times.

    The sum does not depend on the order of the files, whose names may not fit in memory.
    """
    count, total = 0, 0
    folders, start = [str(path)], len(str(path))
    # Symbolic links may form a cycle.
    visited: set[tuple[int, int]] = set()
    while folders:
        folder = folders.pop()
        status = os.stat(folder)
        if (status.st_dev, status.st_ino) in visited:
            continue
        visited.add((status.st_dev, status.st_ino))
        with os.scandir(folder) as entries:
            for name in entries:
                if name.is_dir():
                    folders.append(name.path)
                else:
                    text = repr((name.path[start:], *state_of(name.stat())[1:]))
                    count, total = count + 1, total + int.from_bytes(hashlib.sha256(text.encode()).digest())
    return count, total % (1 << 256)


NAME = "user.anydml.plan"

NAMING, MARKING = 2_000_000_000, 20_000_000
"""Maximum nanoseconds between a file's mark and its final name, and between its name and its final mark."""


def mark(path: Path, digest: str, within: int = NAMING) -> None:
    """Mark a complete file or folder as written by a plan, where the file system keeps attributes.

    Args:
        path: the file or folder.
        digest: the digest of the plan.
        within: nanoseconds after which a change counts as somebody else's.
    """
    if hasattr(os, "setxattr"):
        with suppress(OSError):
            os.setxattr(path, NAME, b"%s %d" % (_mark_content(path, digest), time.time_ns() + within))


def mark_named(path: Path, digest: str) -> None:
    """Mark a renamed output once more, so that even immediate changes are noticed."""
    for _ in range(10):
        mark(path, digest, MARKING)
        if is_marked(path, digest):
            return
    # The machine is too busy.
    mark(path, digest)


def is_marked(path: Path, digest: str) -> bool:
    """Whether a plan has written a file or folder that has not changed since."""
    try:
        if not hasattr(os, "getxattr"):
            return False
        text, last = os.getxattr(path, NAME).split()
        return text == _mark_content(path, digest) and (path.is_dir() or path.stat().st_ctime_ns <= int(last))
    except (OSError, ValueError):
        return False


def _mark_content(path: Path, digest: str) -> bytes:
    # The mark itself, and the final name, change the last time of a file.
    text = identity(path) if path.is_dir() else identity(path)[:-1]
    return hashlib.sha256(f"{digest} {text}".encode()).hexdigest().encode()
