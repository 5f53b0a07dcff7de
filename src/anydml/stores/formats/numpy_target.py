"""Headers of new ``.npy`` and ``.npz`` files."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy_format

from anydml.files.location import Location
from anydml.stores.formats.block_types import is_of_blocks, not_of_format
from anydml.stores.formats.columns import FileTensors, ShapeAndDtype
from anydml.stores.formats.known_bytes import KnownBytes
from anydml.stores.formats.safetensors import NAMES, is_numpy_dtype
from anydml.stores.formats.store import Numbers
from anydml.stores.formats.zarr_strings import holds_strings
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
        known_bytes: the bytes before each array, and the directory.
        size: the size of the file.
        offsets: the offsets of the elements of each.
        checksums: for each entry, the offset and number of its bytes, and the two places of its checksum, which is
            written after the elements.
    """

    known_bytes: KnownBytes
    size: int
    offsets: Numbers
    checksums: Numbers


def npy_header(shape: tuple[int, ...], dtype: np.dtype[Any], location: Location) -> bytes:
    """Return the bytes before the elements of an array in C order.

    Raises:
        ModelError: the format has no such dtype.
    """
    if holds_strings(dtype):
        raise location.error("cannot hold strings of variable length: name a folder such as x.zarr")
    if not is_numpy_dtype(dtype):
        can = "a .safetensors file can" if dtype in NAMES else "elements must be numbers, strings or plain bytes"
        message = not_of_format(dtype, "NumPy", ()) if is_of_blocks(dtype) else f"cannot store dtype {dtype}: {can}"
        raise location.error(message)
    stream = io.BytesIO()
    header = {"descr": npy_format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    npy_format.write_array_header_1_0(stream, header)
    return stream.getvalue()


def npz_headers(tensors: FileTensors, location: Location) -> NpzHeaders:
    """Lay out arrays contiguously.

    Raises:
        ModelError: as `npy_header`, or a name is too long.
    """
    heads = dict[ShapeAndDtype, bytes]()
    starts, offsets, places = (np.empty((tensors.name.size, *shape), np.int64) for shape in ((), (), (4,)))
    directory_size = end = 0
    for number, (name, kind) in enumerate(tensors.items()):
        if (length := len(name.encode())) > MAX_NAME:
            raise (location / name).error(f"has a name of {length} bytes; a zip file has at most {MAX_NAME}")
        if (head := heads.get(kind)) is None:
            head = heads[kind] = npy_header(*kind, location / name)
        size = len(head) + math.prod(kind[0]) * kind[1].itemsize
        starts[number], start = end, end + len(_before(name, size, end))
        offsets[number] = start + len(head)
        places[number] = start, size, end + CHECKSUM_OF_ENTRY, directory_size + CHECKSUM_OF_DIRECTORY
        directory_size += len(entry_header(f"{name}.npy", size, 0, end))
        end = start + size
    places[:, 3] += end
    tail_size = directory_size + len(directory_end(len(starts), directory_size, end))
    lengths = np.append(offsets - starts, tail_size).reshape(-1, 1)
    contents = _NpzContents(tensors, heads, starts, places[:, 1], end)
    at, numbers = np.append(starts, end), np.arange(len(contents))
    known_bytes = KnownBytes(at, numbers, np.zeros_like(lengths), lengths, contents)
    return NpzHeaders(known_bytes, end + tail_size, offsets, places)


def _before(name: str, size: int, start: int) -> bytes:
    """Return the header of an entry of a zip file, after which the bytes of an array are aligned."""
    bare = start + len(entry_header(f"{name}.npy", size, 0))
    # An extra field has four bytes at least.
    return entry_header(f"{name}.npy", size, 0, padding=-(bare + 4) % ALIGNMENT + 4)


@dataclass(frozen=True, eq=False)
class _NpzContents(Sequence[tuple[bytes]]):
    """The bytes before each array, and the directory after all, which are generated when they are written.

    Attributes:
        tensors: the arrays.
        heads: the bytes of a ``.npy`` file before the elements, by kind.
        starts: offsets of the entries of the arrays.
        sizes: bytes of a ``.npy`` file of each.
        end: offset of the directory.
    """

    tensors: FileTensors
    heads: Mapping[ShapeAndDtype, bytes]
    starts: Numbers
    sizes: Numbers
    end: int

    def __len__(self) -> int:
        return self.starts.size + 1

    def __getitem__(self, number: Any) -> Any:
        names, name, kinds, kind = self.tensors
        if number < self.starts.size:
            start, size = int(self.starts[number]), int(self.sizes[number])
            return (_before(names.texts[name[number]], size, start) + self.heads[kinds[kind[number]]],)
        if number > self.starts.size:
            raise IndexError(number)
        columns = zip(name.tolist(), self.sizes.tolist(), self.starts.tolist(), strict=True)
        directory = b"".join(entry_header(f"{names.texts[k]}.npy", size, 0, start) for k, size, start in columns)
        return (directory + directory_end(self.starts.size, len(directory), self.end),)
