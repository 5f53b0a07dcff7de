"""Headers of new ``.npy`` and ``.npz`` files."""

from __future__ import annotations

import io
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy_format

from anydml.files.json_path import JsonPath
from anydml.stores.formats.block_types import is_of_blocks, not_of_format
from anydml.stores.formats.columns import FileTensors, ShapeAndDtype
from anydml.stores.formats.safetensors import NAMES, is_numpy_dtype
from anydml.stores.formats.store import Numbers
from anydml.stores.formats.zarr_texts import is_text
from anydml.stores.formats.zip_headers import (
    CHECKSUM_OF_DIRECTORY,
    CHECKSUM_OF_ENTRY,
    directory_end,
    entry_header,
)

ALIGNMENT = 64
"""Alignment of elements, in bytes."""

MAX_NAME = (1 << 16) - 1 - len(".npy")
"""Maximum size in bytes of a name in a zip file."""


class NpzHeaders(NamedTuple):
    """The bytes of a ``.npz`` file except its elements.

    Attributes:
        parts: bytes by offset.
        size: the size of the file.
        offsets: the offsets of the elements of each.
        checksums: for each entry, the offset and number of its bytes, and the two places of its checksum, which is
            written after the elements.
    """

    parts: tuple[tuple[int, bytes], ...]
    size: int
    offsets: Numbers
    checksums: Numbers


def npy_header(shape: tuple[int, ...], dtype: np.dtype[Any], place: JsonPath) -> bytes:
    """Return the bytes before the elements of an array in C order.

    Raises:
        ModelError: the format has no such dtype.
    """
    if is_text(dtype):
        raise place.error("cannot hold strings of variable length: name a folder such as x.zarr")
    if not is_numpy_dtype(dtype):
        can = "a .safetensors file can" if dtype in NAMES else "elements must be numbers, strings or plain bytes"
        message = not_of_format(dtype, "NumPy", ()) if is_of_blocks(dtype) else f"cannot store dtype {dtype}: {can}"
        raise place.error(message)
    stream = io.BytesIO()
    header = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    npy_format.write_array_header_1_0(stream, header)
    return stream.getvalue()


def npz_headers(tensors: FileTensors, place: JsonPath) -> NpzHeaders:
    """Lay out arrays contiguously.

    Raises:
        ModelError: as `npy_header`, or a name is too long.
    """
    parts, offsets, places = list[tuple[int, bytes]](), list[int](), list[tuple[int, int, int, int]]()
    directory, end, heads = bytearray(), 0, dict[ShapeAndDtype, bytes]()
    for name, kind in tensors.items():
        if (length := len(name.encode())) > MAX_NAME:
            raise (place / name).error(f"has a name of {length} bytes; a zip file has at most {MAX_NAME}")
        if (head := heads.get(kind)) is None:
            head = heads[kind] = npy_header(*kind, place / name)
        size = len(head) + math.prod(kind[0]) * kind[1].itemsize
        bare = end + len(entry_header(f"{name}.npy", size, 0))
        # An extra field has four bytes at least.
        before = entry_header(f"{name}.npy", size, 0, padding=-(bare + 4) % ALIGNMENT + 4)
        start = end + len(before)
        parts.append((end, before + head))
        offsets.append(start + len(head))
        places.append((start, size, end + CHECKSUM_OF_ENTRY, len(directory) + CHECKSUM_OF_DIRECTORY))
        directory += entry_header(f"{name}.npy", size, 0, end)
        end = start + size
    tail = bytes(directory) + directory_end(len(offsets), len(directory), end)
    checksums = np.array(places, np.int64).reshape(-1, 4)
    checksums[:, 3] += end
    return NpzHeaders((*parts, (end, tail)), end + len(tail), np.array(offsets, np.int64), checksums)
