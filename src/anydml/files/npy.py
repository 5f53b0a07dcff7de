"""Reading and writing .npy files (numpy.lib.format), without unpickling and without believing the header.

Whatever a header says, at most `MOST_HEADER` bytes of it are read, and the elements that it promises must be in the
file before memory is taken for them.
"""

from __future__ import annotations

import io
import math
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy_format

from anydml.files.json_path import JsonPath

Array = np.ndarray[Any, np.dtype[Any]]

MOST_HEADER = 10_000
"""Bytes of a header: what NumPy itself reads of a file that nobody vouches for."""

MOST_DIMENSIONS = 64
"""NumPy's."""

CHUNK = 1 << 20
"""Bytes of a file in Fortran order that are turned into C order at a time."""


@dataclass(frozen=True)
class NpyFile:
    """What a .npy file says it holds, checked against its size.

    Attributes:
        dtype: the dtype as stored, which may be of foreign byte order; never with references or fields.
        offset: where the elements begin.
    """

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    offset: int

    @property
    def byte_count(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(path: Path, place: JsonPath, start: int = 0, size: int | None = None) -> NpyFile:
    """Read the header of a .npy file, version 1 to 3.

    Args:
        path: the file, or one that has it inside.
        place: for errors.
        start: where it begins in the file.
        size: its bytes; None if it goes on to the end of the file.

    Raises:
        ModelError: not a .npy file, elements that are not plain bytes, or a header that is too long or does not agree
            with the size of the file.
    """
    name = "" if str(place) == str(path) else f"{path} "
    try:
        with path.open("rb") as file:
            file.seek(start)
            first = file.read(12 + MOST_HEADER if size is None else min(size, 12 + MOST_HEADER))
            size = file.seek(0, 2) - start if size is None else size
    except OSError as error:
        raise place.error(f"{name}cannot be read: {error.strerror or error}") from None
    if not size:
        raise place.error(f"{name}is not a .npy file: it is empty")
    try:
        shape, fortran_order, dtype, offset = _parse(first)
    except Exception as error:
        # NumPy lets the errors of every parser that it uses pass through; whatever they are, the file is to blame.
        reason = (str(error) or repr(error)).splitlines()[0]
        raise place.error(f"{name}is not a .npy file: {reason}") from None
    if dtype.hasobject or dtype.names is not None or dtype.subdtype is not None:
        raise place.error(f"{name}holds elements of type {dtype}, which are neither numbers nor texts")
    if any(not 0 <= extent < 1 << 63 for extent in shape):
        raise place.error(f"{name}has a header that says shape {shape}")
    if len(shape) > MOST_DIMENSIONS:
        raise place.error(f"{name}has a header with {len(shape)} dimensions; an array has at most {MOST_DIMENSIONS}")
    found = NpyFile(path, dtype, tuple(shape), fortran_order, start + offset)
    if size - offset != found.byte_count:
        raise place.error(
            f"{path} has a header that says shape {found.shape} of {dtype}, {found.byte_count} bytes, "
            f"but {size - offset} bytes follow it"
        )
    return found


def _parse(start: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order, dtype and length of the header that these bytes begin with."""
    stream = io.BytesIO(start)
    version = npy_format.read_magic(stream)
    if version[0] > 3:
        raise ValueError(f"version {version[0]} is not known")
    # Version 3 differs from 2 in the encoding of field names only, and records are refused.
    v1 = version[0] == 1
    (length,) = struct.unpack_from("<H" if v1 else "<I", start, 8)
    if length > MOST_HEADER:
        raise ValueError(f"its header is said to have {length} bytes, but {MOST_HEADER} are the most")
    read = npy_format.read_array_header_1_0 if v1 else npy_format.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape, fortran_order, dtype = read(stream)
    return shape, fortran_order, dtype, stream.tell()


def read_elements(npy: NpyFile, target: Array, place: JsonPath) -> None:
    """Read the elements, in C order and native byte order, into a 1-D array, with `CHUNK` bytes of memory besides.

    Args:
        npy: what `read_header` returned.
        target: `npy.byte_count` bytes of `npy.dtype`, but in native byte order.
        place: for errors.

    Raises:
        ModelError: the file has become shorter since its header was read.
        OSError: it cannot be read.
    """
    stored = target.view(npy.dtype)
    with npy.path.open("rb") as file:
        file.seek(npy.offset)
        if npy.fortran_order and len(npy.shape) > 1 and npy.byte_count:
            whole = _read_columns(file, stored.reshape(npy.shape))
        else:
            whole = _read_all(file, stored)
    if not whole:
        raise place.error(f"{npy.path} changed while it was read")
    if not npy.dtype.isnative:
        stored.byteswap(inplace=True)


def _read_all(file: BinaryIO, stored: Array) -> bool:
    """Fill a contiguous array; whether there was enough."""
    return file.readinto(stored.reshape(-1).view(np.uint8).data) == stored.nbytes  # type: ignore[attr-defined,no-any-return]


def _read_columns(file: BinaryIO, target: Array) -> bool:
    """Fill an array from elements in Fortran order; whether there were enough."""
    each = target.nbytes // target.shape[-1]
    if each > CHUNK and target.ndim > 1:
        return all(_read_columns(file, target[..., i]) for i in range(target.shape[-1]))
    step = max(1, CHUNK // each)
    return all(_read_piece(file, target[..., start : start + step]) for start in range(0, target.shape[-1], step))


def _read_piece(file: BinaryIO, piece: Array) -> bool:
    stored = np.empty(piece.shape[::-1], piece.dtype)
    if not _read_all(file, stored):
        return False
    piece[...] = stored.T
    return True


def mapped(npy: NpyFile, place: JsonPath) -> Array:
    """The array in a file, mapped into memory rather than read: read-only, in the order and byte order of the file.

    Raises:
        ModelError: the file cannot be mapped, or has become shorter since its header was read.
    """
    try:
        if not npy.byte_count:
            return np.empty(npy.shape, npy.dtype)
        if npy.fortran_order:
            return np.asarray(np.memmap(npy.path, npy.dtype, "r", npy.offset, npy.shape, "F"))
        return np.asarray(np.memmap(npy.path, npy.dtype, "r", npy.offset, npy.shape))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise place.error(f"{npy.path} cannot be read: {reason}") from None


def write(file: BinaryIO, elements: Array) -> None:
    """Write an array as a .npy file. Nothing is pickled: elements must be plain bytes."""
    npy_format.write_array(file, elements, allow_pickle=False)
