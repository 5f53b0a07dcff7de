"""Reading and writing .npy files (numpy.lib.format), without unpickling and without trusting the header.

At most `MAX_HEADER` bytes of a header are read, and memory is allocated only for elements that are in the file.
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

from anydml.files.addresses import Address
from anydml.files.location import Location

Array = np.ndarray[Any, np.dtype[Any]]

MAX_HEADER = 10_000
"""Maximum bytes of a header, as in NumPy for files that are not trusted."""

MAX_START = 12 + MAX_HEADER
"""Maximum bytes before the elements."""

MAX_DIMENSIONS = 64
"""NumPy's maximum."""

ELEMENTS = "elements must be numbers or texts"
"""The rule of errors about arrays of Python's objects and of records."""

CONVERTED_BYTES = 1 << 20
"""Bytes of a file in Fortran order that are converted to C order at once."""


@dataclass(frozen=True)
class NpyFile:
    """The header of a .npy file, checked against the size of the file.

    Attributes:
        path: the file.
        dtype: the dtype as stored, in either byte order; without references or fields.
        shape: sizes, by dimension.
        fortran_order: whether the first index varies fastest.
        offset: position of the first element in the file, in bytes.
    """

    path: Path
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran_order: bool
    offset: int

    @property
    def order(self) -> tuple[int, ...] | None:
        """Axes in the order of the file, from the outermost on; None for C order."""
        return tuple(reversed(range(len(self.shape)))) if self.fortran_order else None

    @property
    def byte_count(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(
    path: Path, location: Location, start: int = 0, size: int | None = None, first: bytes | bytearray | None = None
) -> NpyFile:
    """Read the header of a .npy file, version 1 to 3.

    Args:
        path: the file, or one that contains it.
        location: the location that errors name.
        start: position of the .npy file in `path`, in bytes.
        size: the array's size in the file, in bytes; None if it extends to the end of `path`.
        first: its first bytes, up to `MAX_START`, where `path` has them in another form.

    Raises:
        ModelError: the file is not a .npy file, its elements are not plain bytes, or its header is too long or
            contradicts the size of the file.
    """
    name = "" if str(location) == str(path) else f"{path} "
    try:
        if isinstance(path, Address) and size is None:
            beginning, size = path.read_range(0, MAX_START)
            first = bytes(beginning)
        else:
            with path.open("rb") as file:
                file.seek(start)
                if first is None:
                    first = file.read(MAX_START if size is None else min(size, MAX_START))
                size = file.seek(0, 2) - start if size is None else size
    except OSError as error:
        raise location.error(f"{name}cannot be read: {error.strerror or error}") from None
    if not size:
        raise location.error(f"{name}is not a .npy file: it is empty")
    try:
        shape, fortran_order, dtype, offset = _parse(first)
    except Exception as error:
        # NumPy lets the exceptions of all its parsers through; the cause is always the file.
        reason = (str(error) or repr(error)).splitlines()[0]
        if first[:6] != npy_format.MAGIC_PREFIX:
            reason = f"it begins with {first[:6]!r}"
        elif reason.startswith("EOF"):
            reason = "it ends within its header; copy or save it again"
        raise location.error(f"{name}is not a .npy file: {reason}") from None
    if dtype.hasobject or dtype.names is not None or dtype.subdtype is not None:
        hint = "; save each field by itself, or the array as one of Zarr, whose records are read" * bool(dtype.names)
        raise location.error(
            f"{name}holds elements of type {dtype}, which are neither numbers nor texts{hint}", rule=ELEMENTS
        )
    if any(not 0 <= extent < 1 << 63 for extent in shape):
        raise location.error(f"{name}has a header that says shape {shape}")
    if len(shape) > MAX_DIMENSIONS:
        raise location.error(f"{name}has a header with {len(shape)} dimensions; an array has at most {MAX_DIMENSIONS}")
    npy_file = NpyFile(path, dtype, tuple(shape), fortran_order, start + offset)
    if size - offset != npy_file.byte_count:
        raise location.error(
            f"{path} has a header that says shape {npy_file.shape} of {dtype}, {npy_file.byte_count} bytes, "
            f"but {size - offset} bytes follow it"
        )
    return npy_file


def _parse(start: bytes | bytearray) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return the shape, order, dtype and length of the header at the start of a file."""
    stream = io.BytesIO(start)
    version = npy_format.read_magic(stream)
    if version[0] > 3:
        raise ValueError(f"version {version[0]} is not known")
    # Versions 2 and 3 differ only in the encoding of field names, and dtypes with fields are refused.
    v1 = version[0] == 1
    (length,) = struct.unpack_from("<H" if v1 else "<I", start, 8)
    if length > MAX_HEADER:
        raise ValueError(f"its header declares {length} bytes, but the maximum is {MAX_HEADER}")
    read = npy_format.read_array_header_1_0 if v1 else npy_format.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shape, fortran_order, dtype = read(stream)
    return shape, fortran_order, dtype, stream.tell()


def read_elements(npy: NpyFile, target: Array, location: Location) -> None:
    """Read the elements, in C order and native byte order, into a 1-D array, with at most `CONVERTED_BYTES` of scratch.

    Args:
        npy: the header, from `read_header`.
        target: `npy.byte_count` bytes of `npy.dtype`, but in native byte order.
        location: the location that errors name.

    Raises:
        ModelError: the file has become shorter since its header was read.
        OSError: the file cannot be read.
    """
    elements = target.view(npy.dtype)
    with npy.path.open("rb") as file:
        file.seek(npy.offset)
        if npy.fortran_order and len(npy.shape) > 1 and npy.byte_count:
            is_complete = _read_columns(file, elements.reshape(npy.shape))
        else:
            is_complete = _read_all(file, elements)
    if not is_complete:
        raise location.error(f"{npy.path} changed while it was read")
    if not npy.dtype.isnative:
        elements.byteswap(inplace=True)


def _read_all(file: BinaryIO, elements: Array) -> bool:
    """Fill a contiguous array; return whether the file had enough bytes."""
    return file.readinto(elements.reshape(-1).view(np.uint8).data) == elements.nbytes  # type: ignore[attr-defined,no-any-return]


def _read_columns(file: BinaryIO, target: Array) -> bool:
    """Fill an array from elements in Fortran order; return whether the file had enough bytes."""
    count = target.shape[-1]
    column_bytes = target.nbytes // count
    if column_bytes > CONVERTED_BYTES and target.ndim > 1:
        return all(_read_columns(file, target[..., i]) for i in range(count))
    step = max(1, CONVERTED_BYTES // column_bytes)
    return all(_read_chunk(file, target[..., start : start + step]) for start in range(0, count, step))


def _read_chunk(file: BinaryIO, target: Array) -> bool:
    elements = np.empty(target.shape[::-1], target.dtype)
    if not _read_all(file, elements):
        return False
    target[...] = elements.T
    return True


def map_elements(npy: NpyFile, location: Location) -> Array:
    """Map a file's elements into memory: a read-only array, in the order and byte order of the file.

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
        raise location.error(f"{npy.path} cannot be read: {reason}") from None


def write(file: BinaryIO, elements: Array) -> None:
    """Write an array as a .npy file. Nothing is pickled: elements must be plain bytes."""
    npy_format.write_array(file, elements, allow_pickle=False)
