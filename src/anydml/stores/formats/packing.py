"""Outputs in one file or repository: written as a folder, and packed when they are complete."""

from __future__ import annotations

import json
import os
import re
import shutil
import zipfile
from pathlib import Path

from anydml.files.addresses import Address
from anydml.files.location import Location, names
from anydml.files.modes import folder_permissions, narrow
from anydml.stores.formats.icechunk import require_icechunk, write_icechunk
from anydml.stores.formats.zarr_metadata import GROUP_FILES
from anydml.stores.formats.zip_store import is_zip_store

ZIP = ".zip"
"""Suffix of zip stores that are written."""

ICECHUNK = ".icechunk"
"""Suffix of repositories of Icechunk that are written."""

LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The time of entries of zip files, so that equal arrays make equal files."""


def is_packed(path: Path) -> bool:
    """Whether an output of this name is packed."""
    return path.suffix.lower() in (ZIP, ICECHUNK)


def check_packed(path: Path, version: int, location: Location) -> None:
    """Refuse outputs that cannot be packed.

    Args:
        path: the path of the output.
        version: the version of Zarr's format.
        location: names the output in errors.

    Raises:
        ModelError: a library is missing, Icechunk does not have this version, or it is an address.
    """
    if is_packed(path) and isinstance(path, Address):
        raise location.error(
            "would be one file or repository at an address: write it to this machine, and copy it there; or name a "
            "folder such as x.zarr"
        )
    if path.suffix.lower() == ICECHUNK:
        require_icechunk(location)
        if version != 3:
            raise location.error(
                "would be a repository of Icechunk, which has version 3 of Zarr alone: --zarr-format 3"
            )


def check_replaced(path: Path, array_file: re.Pattern[str], location: Location) -> None:
    """Refuse to replace a file that is not a zip store of Zarr arrays and groups only.

    Args:
        path: the path of the output.
        array_file: names that files of an array have, relative to its folder.
        location: names the output in errors.

    Raises:
        ModelError: the file is of another kind.
    """
    if path.suffix.lower() == ICECHUNK:
        raise location.error("exists already, and repositories are not replaced: name another")
    if not path.is_file() or not is_zip_store(path):
        raise location.error("is not a zip store of Zarr, and is not replaced: name another, or remove it first")
    with location.reading(), zipfile.ZipFile(path) as file:
        all_names = [name for name in file.namelist() if not name.endswith("/")]
        node_types = {name: _kind(file, name) for name in all_names}
    arrays = {name.rpartition("/")[0] for name, node_type in node_types.items() if node_type == "array"}
    foreign = [
        name for name, node_type in node_types.items() if node_type is None and not _is_inside(name, arrays, array_file)
    ]
    if foreign:
        raise location.error(f"has {names(foreign)} beside arrays and groups of Zarr; it is not replaced: name another")


def _kind(file: zipfile.ZipFile, name: str) -> str | None:
    """Return whether an entry describes an array or a group; None if neither."""
    last = name.rpartition("/")[2]
    if last != "zarr.json":
        return "array" if last == ".zarray" else "group" if last in GROUP_FILES else None
    node = json.loads(file.read(name))
    node_type = node.get("node_type") if isinstance(node, dict) else None
    return node_type if node_type in ("array", "group") else None


def _is_inside(name: str, arrays: set[str], array_file: re.Pattern[str]) -> bool:
    """Whether an entry is a file of an array."""
    starts = [0, *(match.end() for match in re.finditer("/", name))]
    return any(name[: max(0, start - 1)] in arrays and array_file.fullmatch(name[start:]) for start in starts)


def pack(folder: Path, path: Path, allowed: int) -> None:
    """Write all files of a folder to a zip file, or to a new repository of Icechunk by one commit.

    Args:
        folder: the folder of a Zarr array or group.
        path: the path of the file or repository, which must not exist.
        allowed: maximum permissions of the file, or of the repository's files.

    Raises:
        OSError: the file cannot be written.
    """
    file_names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    shutil.rmtree(path, ignore_errors=True)
    path.unlink(missing_ok=True)
    if path.suffix.lower() == ICECHUNK:
        path.mkdir(folder_permissions(allowed))
        write_icechunk(folder, path, file_names)
        narrow(path, allowed)
        return
    # Nobody may read the file before it has its permissions.
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, allowed & 0o666)) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as packed:
            for name in file_names:
                entry = zipfile.ZipInfo(name, LONG_AGO)
                entry.external_attr = 0o644 << 16
                entry.file_size = (folder / name).stat().st_size
                with (folder / name).open("rb") as source, packed.open(entry, "w") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
        file.flush()
        os.fsync(file.fileno())
