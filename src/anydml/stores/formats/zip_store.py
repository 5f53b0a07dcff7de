"""Zip stores of Zarr: objects as entries of a zip file, which are not compressed once more."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

from anydml.files.location import Location, show
from anydml.stores.formats.references import Range, References
from anydml.stores.formats.zarr_metadata import METADATA

HEADER = 30
"""Bytes of the header before an entry, without its name and extra fields, whose lengths are its last two fields."""


def is_zip_store(path: Path) -> bool:
    """Whether a zip file has metadata of Zarr, at its top or in folders."""
    try:
        with zipfile.ZipFile(path) as archive:
            return any(name.rpartition("/")[2] in METADATA for name in archive.NameToInfo)
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile):
        return False


def references_of_zip(path: Path, location: Location) -> References:
    """Return the byte ranges of the entries of a zip store.

    Raises:
        ModelError: the file is broken, or its entries are compressed or encrypted.
    """
    objects = dict[str, bytes | Range]()
    with location.reading(), zipfile.ZipFile(path) as archive, path.open("rb") as file:
        # Of entries with one name, the last counts.
        for name, entry in archive.NameToInfo.items():
            if entry.is_dir():
                continue
            if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
                raise location.error(
                    f"has entry {show(name)}, which the zip file compresses or encrypts: unpack it to a folder, and "
                    "name that"
                )
            file.seek(entry.header_offset)
            header = file.read(HEADER)
            if len(header) < HEADER or not header.startswith(b"PK\3\4"):
                raise location.error(f"is broken: there is no header of entry {show(name)}")
            start = entry.header_offset + HEADER + sum(struct.unpack("<2H", header[-4:]))
            objects[name] = Range(path, start, entry.file_size)
    return References(objects)
