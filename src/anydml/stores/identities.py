"""Identities: what tells that a file or folder has changed since it was opened."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
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


def _of_folder(path: Path) -> tuple[int, str]:
    """How many files, and a digest of the names, bytes and times of all of them."""
    found, waiting = [], [str(path)]
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
                    found.append((each.path, *_of(each.stat())[1:]))
    return len(found), hashlib.sha256(repr(sorted(found)).encode()).hexdigest()
