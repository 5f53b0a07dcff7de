"""Reading and writing .npy files (numpy.lib.format), without unpickling and without believing the header."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy_format

from anydml.dxdispatch.place import Place
from anydml.dxdispatch.values import Array
from anydml.tensor import DataType

_TYPES: dict[tuple[str, int], DataType] = {(t.dtype.kind, t.itemsize): t for t in DataType}


@dataclass(frozen=True)
class NpyFile:
    """What a .npy file says it holds, checked against its size.

    Attributes:
        data_type: the element type; NumPy's bool is read as INT8, as DxDispatch does.
        dtype: the dtype as stored, which may be of foreign byte order.
    """

    path: Path
    data_type: DataType
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    fortran_order: bool
    offset: int

    @property
    def byte_count(self) -> int:
        """Bytes of the elements."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_header(path: Path, place: Place) -> NpyFile:
    """Read the header of a .npy file, version 1 to 3.

    Raises:
        ModelError: not a .npy file, an element type that no tensor has, or a header that does not agree with the size
            of the file.
    """
    try:
        with path.open("rb") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            version = npy_format.read_magic(file)
            if version[0] > 3:
                raise ValueError(f"version {version[0]} is not known")
            # Version 3 differs from 2 in the encoding of field names only, and records are refused below.
            v1 = version[0] == 1
            read = npy_format.read_array_header_1_0 if v1 else npy_format.read_array_header_2_0
            shape, fortran_order, dtype = read(file)
            offset, size = file.tell(), file.seek(0, 2)
    except OSError as error:
        raise place.error(f"{path} cannot be read: {error.strerror}") from None
    except Exception as error:
        # NumPy lets the errors of every parser that it uses pass through; whatever they are, the file is to blame.
        reason = (str(error) or repr(error)).splitlines()[0]
        raise place.error(f"{path} is not a .npy file: {reason}") from None
    kind: tuple[str, int] = ("i", 1) if dtype == np.bool_ else (dtype.kind, dtype.itemsize)
    data_type = _TYPES.get(kind)
    if data_type is None:
        types = ", ".join(t.name for t in DataType)
        raise place.error(f"{path} holds elements of type {dtype}, which is none of {types}")
    if any(extent < 0 for extent in shape):
        raise place.error(f"{path} has a header that says shape {shape}")
    found = NpyFile(path, data_type, dtype, tuple(shape), fortran_order, offset)
    if size - offset != found.byte_count:
        raise place.error(
            f"{path} has a header that says shape {found.shape} of {dtype}, {found.byte_count} bytes, "
            f"but {size - offset} bytes follow it"
        )
    return found


def read_elements(npy: NpyFile, target: Array, place: Place) -> None:
    """Read the elements, in C order and native byte order, into a 1-D array of ``npy.data_type.dtype``.

    Raises:
        ModelError: the file has become shorter since its header was read.
    """
    columns_first = npy.fortran_order and len(npy.shape) > 1
    stored = np.empty(npy.shape[::-1], npy.dtype) if columns_first else target.view(npy.dtype)
    with npy.path.open("rb") as file:
        file.seek(npy.offset)
        if file.readinto(stored.reshape(-1).view(np.uint8).data) != npy.byte_count:
            raise place.error(f"{npy.path} changed while it was read")
    if columns_first:
        target.reshape(npy.shape)[...] = stored.T
    elif not npy.dtype.isnative:
        stored.byteswap(inplace=True)


def write(file: BinaryIO, elements: Array) -> None:
    """Write an array as a .npy file."""
    npy_format.write_array(file, elements, allow_pickle=False)
