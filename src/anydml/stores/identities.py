"""Identities: what tells that a file or folder has changed since it was opened."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from anydml.errors import BindingError


def identity(path: Path) -> tuple[Any, ...]:
    """What changes when a file does, or a folder with all that is in it.

    Raises:
        BindingError: it cannot be read.
    """
    try:
        return _of_folder(path) if path.is_dir() else _of(os.stat(path))
    except OSError as error:
        raise BindingError(f"{path} cannot be read: {error.strerror or error}") from None


def identities_of(paths: Iterable[object]) -> dict[Path, tuple[Any, ...]]:
    """What tells that files and folders have changed; what is no path is left out.

    Raises:
        BindingError: one cannot be read.
    """
    return {path: identity(path) for path in sorted({path for path in paths if isinstance(path, Path)})}


def check_unchanged(name: str, identities: Mapping[Path, tuple[Any, ...]]) -> None:
    """Refuse inputs that are not what they were.

    Raises:
        BindingError: one has changed, or is gone.
    """
    for path, known in identities.items():
        if not path.exists() or identity(path) != known:
            raise BindingError(f"{name}: {path} has changed since it was opened: open it again", name)


def _of(found: os.stat_result) -> tuple[int, int, int, int]:
    """Device, number, bytes, and when it was written in nanoseconds."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _of_folder(path: Path) -> tuple[int, int]:
    """How many files, and a sum of digests of their names, bytes and times, wherever the folder is.

    A folder may have more files than there is memory for their names, and has them in no order.
    """
    count, total = 0, 0
    waiting, start = [str(path)], len(str(path))
    # Links may lead back to a folder that was seen already.
    seen: set[tuple[int, int]] = set()
    while waiting:
        folder = waiting.pop()
        known = os.stat(folder)
        if (known.st_dev, known.st_ino) in seen:
            continue
        seen.add((known.st_dev, known.st_ino))
        with os.scandir(folder) as inside:
            for each in inside:
                if each.is_dir():
                    waiting.append(each.path)
                else:
                    text = repr((each.path[start:], *_of(each.stat())[1:]))
                    count, total = count + 1, total + int.from_bytes(hashlib.sha256(text.encode()).digest())
    return count, total % (1 << 256)
