"""Permissions of new files, which are never wider than those of the files that they are made from."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from anydml.files.addresses import Address

ACCESS_LIST = "system.posix_acl_access"

ALL = 0o777
"""The mode of files whose sources forbid nothing."""


def allowed_by(sources: Iterable[Path], folder: Path) -> int:
    """Return the permissions that all sources have in common, for new files in a folder; the owner always has all.

    Args:
        sources: files, and folders with all that is in them.
        folder: a folder that exists, or in which a folder will be made.
    """
    if sys.platform == "win32":
        return ALL
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    permissions = ALL
    # Objects at an address have no permissions on this machine.
    for path in {source for source in sources if not isinstance(source, Address)}:
        for entry, state in _walk(path):
            permissions &= _file_permissions(entry, state, _group_in(folder))
    return permissions | 0o700


def narrow(path: Path, allowed: int) -> None:
    """Remove permissions that are not allowed from a file, or from a folder and everything in it."""
    if sys.platform == "win32" or allowed == ALL:
        return
    for entry, state in _walk(path):
        mode = stat.S_IMODE(state.st_mode)
        max_mode = folder_permissions(allowed) if stat.S_ISDIR(state.st_mode) else allowed
        if mode & 0o777 & ~max_mode:
            entry.chmod(mode & (max_mode | 0o7000))


def folder_permissions(allowed: int) -> int:
    """Return the permissions of a folder from those of its files: whoever may read these may list the folder."""
    readable = allowed & 0o444
    return 0o700 | readable | (readable >> 2) | (allowed & 0o222)


def _walk(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    yield path, path.stat()
    if path.is_dir():
        # Links may form a cycle, or lead out of the folder.
        for folder, folders, files in os.walk(path):
            for name in (*folders, *files):
                entry = Path(folder, name)
                if not entry.is_symlink() or entry.is_file():
                    yield entry, entry.stat()


def _file_permissions(path: Path, state: os.stat_result, group: int) -> int:
    """Return a file's permissions; for a folder, the permissions of its files for users who may search it."""
    mode = stat.S_IMODE(state.st_mode) & 0o777
    if stat.S_ISDIR(state.st_mode):
        return 0o700 | sum(0o7 << shift for shift in (0, 3) if mode >> shift & 1)
    if state.st_gid != group or _has_list(path):
        # The new file belongs to another group, which gets no more than everybody.
        mode = mode & (0o707 | (mode & 0o007) << 3)
    return mode


def _group_in(folder: Path) -> int:
    """Return the group of new files in a folder."""
    state = folder.stat()
    if sys.platform == "win32" or state.st_mode & stat.S_ISGID:
        return state.st_gid
    return os.getegid()


def _has_list(path: Path) -> bool:
    """Return whether a file has an access list, whose mask then takes the place of the group's permissions."""
    try:
        return sys.platform == "linux" and ACCESS_LIST in os.listxattr(path)
    except OSError:
        return False
