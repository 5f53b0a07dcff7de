"""Files of ``torch.save`` before PyTorch 1.6: pickles, followed by the storages.

PyTorch still writes them with ``_use_new_zipfile_serialization=False``. They have a magic number, a version, properties
of the machine, the content, and the keys of storages; then, for each storage, the number of its elements, and these.
"""

from __future__ import annotations

import os
from typing import Any, BinaryIO

from anydml.files.location import Location, show
from anydml.stores.formats.npz import ZipEntry
from anydml.stores.formats.pickle_reader import PickledCall, PickledDict, PickledReference, next_pickle

MAGIC, VERSION = 0x1950A86A20F9469CFC6C, 1001
MAX_STORAGES = 1 << 20

SIZES = {
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8), "ComplexDouble": 16,
    **dict.fromkeys(("Float", "Int", "QInt32", "ComplexHalf"), 4), **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    **dict.fromkeys(("Char", "Byte", "Bool", "QInt8", "QUInt8", "Untyped"), 1),
}  # fmt: skip
"""Bytes of an element of a storage, by the beginning of its class's name."""


def read_legacy(file: BinaryIO, location: Location) -> tuple[Any, dict[str, ZipEntry]]:
    """Return the content of a file in the old format, and the offsets and sizes of its storages by key.

    Args:
        file: at its beginning.
        location: the location that errors name.

    Raises:
        ModelError: the file has another form, is broken, or is of a machine with another byte order.
    """
    if file.read(1) != b"\x80":
        raise location.error("is not a file of torch.save, neither a zip file nor pickles")
    file.seek(-1, os.SEEK_CUR)
    if next_pickle(file, location) != MAGIC or next_pickle(file, location) != VERSION:
        raise location.error("is a pickle, but not one of torch.save: load it in Python, and save it by torch.save")
    machine = next_pickle(file, location)
    machine_fields = dict(machine) if isinstance(machine, PickledDict) else {}
    if machine_fields.get("little_endian") is not True:
        raise location.error("is of a machine whose byte order is big-endian")
    content, keys = next_pickle(file, location), next_pickle(file, location)
    if not isinstance(keys, list) or len(keys) > MAX_STORAGES:
        raise location.error("has no list of storages behind its content")
    kinds = dict[str, str]()
    _storages(content, kinds, set())
    size, entries = file.seek(0, os.SEEK_CUR), dict[str, ZipEntry]()
    end = file.seek(0, os.SEEK_END)
    offset = size
    for key in map(str, keys):
        file.seek(offset)
        count = int.from_bytes(file.read(8), "little")
        if key not in kinds or kinds[key] not in SIZES:
            raise location.error(f"has a storage {show(key)} of a kind that is not known: {show(kinds.get(key))}")
        length = count * SIZES[kinds[key]]
        if offset + 8 + length > end:
            raise location.error(f"is cut off within the storage {show(key)}, which has {length} bytes")
        entries[key] = ZipEntry(offset + 8, length)
        offset += 8 + length
    return content, entries


def _storages(value: Any, names: dict[str, str], visited: set[int]) -> None:
    """Note, by key, the class name of every storage that a content refers to, without the word ``Storage``."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, PickledReference):
            identity = item.identity
            if isinstance(identity, tuple) and len(identity) > 2 and identity[0] == "storage":
                storage_class = getattr(identity[1], "name", "")
                names[str(identity[2])] = (
                    "Untyped" if storage_class == "UntypedStorage" else storage_class.removesuffix("Storage")
                )
        elif id(item) in visited:
            continue
        elif isinstance(item, PickledCall):
            visited.add(id(item))
            waiting += [item.arguments, item.items, item.state]
        elif isinstance(item, (list, tuple)):
            visited.add(id(item))
            waiting += item
