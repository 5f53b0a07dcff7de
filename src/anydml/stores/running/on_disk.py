"""Durable writes to the local file system: allocation, checksums and syncs."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from anydml.stores.formats.store import Numbers
from anydml.stores.running.files import open_file
from anydml.stores.running.journal import sync_folder

MANY_FILES = 1000
"""Files of a folder from which the whole file system is synced at once, which is faster than one file at a time."""

CHECKSUM_READ_BYTES = 1 << 20
"""Bytes that are read at a time for a checksum."""


def allocate(descriptor: int, size: int) -> None:
    """Give a new file its size, so that a full disk is noticed at once."""
    if hasattr(os, "posix_fallocate") and size:
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                raise
    os.ftruncate(descriptor, size)
    os.lseek(descriptor, 0, os.SEEK_SET)


def names_inside(folder: Path) -> Iterator[str]:
    """Yield the relative path of every file in a folder and its subfolders."""
    folders = [""]
    while folders:
        folder_inside = folders.pop()
        with os.scandir(folder / folder_inside) as entries:
            for entry in entries:
                name = f"{folder_inside}{entry.name}"
                if entry.is_dir(follow_symlinks=False):
                    folders.append(f"{name}/")
                else:
                    yield name


def write_checksums(path: Path, checksums: Numbers) -> None:
    """Write checksums of parts of a file: each row has the start and size of a part, and the places of its checksum."""
    with path.open("r+b") as file:
        for start, size, *places in checksums.tolist():
            checksum = 0
            file.seek(start)
            for position in range(0, size, CHECKSUM_READ_BYTES):
                checksum = zlib.crc32(file.read(min(CHECKSUM_READ_BYTES, size - position)), checksum)
            for offset in places:
                file.seek(offset)
                file.write(checksum.to_bytes(4, "little"))


def sync_file(path: Path) -> None:
    """Sync a file to the disk."""
    descriptor = open_file(path)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_inside(folder: Path) -> None:
    """Sync a folder and everything inside it."""
    are_many = next(islice(names_inside(folder), MANY_FILES, None), None) is not None
    if are_many and sync_disk(folder):
        return
    for name in names_inside(folder):
        sync_file(folder / name)
    for folder_inside, _, _ in os.walk(folder):
        sync_folder(Path(folder_inside))


def sync_disk(folder: Path) -> bool:
    """Sync the file system of a folder; False where the system cannot."""
    if sys.platform != "linux":
        return False
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(AttributeError, OSError):
            return bool(ctypes.CDLL(None, use_errno=True).syncfs(descriptor) == 0)
        return False
    finally:
        os.close(descriptor)
