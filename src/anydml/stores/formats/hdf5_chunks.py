"""HDF5 datasets whose bytes are not elements: h5py reads strings that are padded otherwise, and filters of its own."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import ModelError

CODEC = {"id": "zlib", "level": 1}
"""The codec in the metadata of such datasets, with which they are also written by default."""

MAX_CHUNK = 1 << 20

MAX_STORED = 0xFFFF
"""Maximum size in bytes of a block of a zlib stream that is not compressed."""


def check_elements(data: Any) -> None:
    """Check that elements of a dataset are plain bytes in its file, of a dtype that Zarr has.

    Raises:
        ValueError: they are not.
    """
    dtype = data.dtype
    if data.shape is None:
        raise ValueError("has no elements, not even a shape: leave it out")
    if dtype.hasobject or dtype.subdtype is not None:
        raise ValueError(
            f"is of dtype {dtype}, whose elements are not plain bytes: write it as Zarr by h5py and zarr-python"
        )
    fields = [dtype[name] for name in dtype.names or ()]
    if any(field.names or field.shape for field in fields):
        raise ValueError(
            f"is of dtype {dtype}, but zarr-python reads no records of records or arrays: write each of these fields "
            "as a dataset by h5py"
        )
    if any(field.kind in "fc" and field.itemsize > (8 if field.kind == "f" else 16) for field in fields or [dtype]):
        raise ValueError(f"is of dtype {dtype}, which Zarr does not have: write it as float64 or complex128 by h5py")
    if not has_bytes_of_numpy(data.id.get_type()):
        raise ValueError(
            f"has numbers in a form that NumPy lacks, which h5py converts to {dtype}: write it as Zarr by h5py and "
            "zarr-python"
        )
    if data.is_virtual or data.external:
        raise ValueError("lies in other files: copy its elements into this one by h5py")


def packed_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype without bytes between its fields."""
    return dtype if dtype.names is None else np.dtype([(name, dtype[name]) for name in dtype.names])


def has_bytes_of_numpy(file_type: Any) -> bool:
    """Whether numbers of a type of HDF5 have the bytes of NumPy's; integers of 24 bits, for example, have not."""
    import h5py

    numbers = (h5py.h5t.TypeIntegerID, h5py.h5t.TypeFloatID)
    return all(not isinstance(leaf, numbers) or leaf == h5py.h5t.py_create(leaf.dtype) for leaf in _leaves(file_type))


def has_other_padding(file_type: Any) -> bool:
    """Whether strings end in spaces, as in Fortran, or in a NUL with anything after it, which NumPy would keep."""
    import h5py

    return any(
        isinstance(leaf, h5py.h5t.TypeStringID) and leaf.get_strpad() != h5py.h5t.STR_NULLPAD
        for leaf in _leaves(file_type)
    )


def _leaves(file_type: Any) -> Iterator[Any]:
    """Yield the types of which a type of HDF5 consists."""
    import h5py

    if isinstance(file_type, h5py.h5t.TypeCompoundID):
        for member in range(file_type.get_nmembers()):
            yield from _leaves(file_type.get_member_type(member))
    elif isinstance(file_type, (h5py.h5t.TypeEnumID, h5py.h5t.TypeArrayID)):
        yield from _leaves(file_type.get_super())
    else:
        yield file_type


class DecodedChunk(NamedTuple):
    """A chunk as a zlib stream that is not compressed.

    Attributes:
        path: the HDF5 file.
        name: the name of the dataset.
        start: coordinates of the first element.
        shape: sizes of the chunk, which may exceed the dataset.
        itemsize: bytes of an element.
    """

    path: Path
    name: str
    start: tuple[int, ...]
    shape: tuple[int, ...]
    itemsize: int

    def read(self, start: int | None, stop: int) -> bytes:
        """See `Range.read`."""
        import h5py

        try:
            with h5py.File(self.path, "r") as file:
                box = tuple(slice(first, first + size) for first, size in zip(self.start, self.shape, strict=True))
                elements, dtype = file[self.name][box], file[self.name].dtype
        except (KeyError, RuntimeError) as error:
            raise ModelError(f"{self.path}/{self.name}: cannot be read by h5py: {str(error)[:200]}") from None
        # A single string comes without its padding.
        padded = np.zeros(self.shape, packed_dtype(dtype))
        padded[tuple(map(slice, elements.shape))] = elements
        stream = _stored(padded.tobytes())
        return stream[-stop:] if start is None else stream[start:stop]

    def length(self) -> int:
        """See `Range.length`."""
        size = math.prod(self.shape) * self.itemsize
        return 6 + size + 5 * math.ceil(size / MAX_STORED)


def chunk_shape(shape: tuple[int, ...], itemsize: int, is_decoded: bool) -> tuple[int, ...]:
    """Return the shape of a contiguous dataset's chunks: one, or of about `MAX_CHUNK` bytes each if it is decoded."""
    sizes = [max(1, size) for size in shape]
    for axis in range(len(sizes) if is_decoded else 0):
        sizes[axis] = min(sizes[axis], max(1, MAX_CHUNK // (itemsize * math.prod(sizes[axis + 1 :]))))
    return tuple(sizes)


def decoded_chunks(like: DecodedChunk, shape: tuple[int, ...]) -> Iterator[tuple[str, DecodedChunk]]:
    """Yield the chunks of a contiguous dataset by their Zarr names.

    Args:
        like: a chunk, whose start is replaced.
        shape: the shape of the dataset.
    """
    for index in np.ndindex(*(-(-size // step) for size, step in zip(shape, like.shape, strict=True))):
        start = tuple(number * step for number, step in zip(index, like.shape, strict=True))
        yield ".".join(map(str, index)) or "0", like._replace(start=start)


def _stored(data: bytes) -> bytes:
    """Return a zlib stream of blocks that are not compressed, so that its length depends on that of the data alone."""
    stream = bytearray(b"\x78\x01")
    for start in range(0, len(data), MAX_STORED):
        block = data[start : start + MAX_STORED]
        stream += struct.pack("<BHH", start + MAX_STORED >= len(data), len(block), len(block) ^ 0xFFFF) + block
    return bytes(stream + struct.pack(">I", zlib.adler32(data)))
