"""Stores: arrays in files, only the headers of which have been read."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn, Protocol

import numpy as np

from anydml.errors import BindingError, ModelError
from anydml.files.addresses import Address
from anydml.files.location import Location, show
from anydml.stores.formats.block_types import name_of, shape_in_elements
from anydml.stores.formats.chunk_grid import ChunkGrid
from anydml.stores.formats.packed import DeflatedEntry, Read
from anydml.tensor import Layout
from anydml.text import did_you_mean

Array = np.ndarray[Any, np.dtype[Any]]
Numbers = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]

PAGE = 4096
"""Bytes of a page of memory: from whole pages to whole pages of a file, the system copies faster."""


REQUEST_BYTES = 16 << 20
"""Bytes of a request to an address by `Store.read`."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause the garbage collector, which would visit a hundred thousand new objects again and again."""
    was_enabled = gc.isenabled()
    try:
        gc.disable()
        yield
    finally:
        if was_enabled:
            gc.enable()


def state_of(status: os.stat_result) -> tuple[int, ...]:
    """Return the state of a file: device, inode, size, and times of modification and of change in nanoseconds.

    Programs may set the time of modification freely, but the time of change only by the clock.
    """
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def file_state(path: Path) -> tuple[Any, ...]:
    """Return the state of a file, or of an object at an address.

    Raises:
        OSError: the file does not exist.
    """
    return path.state() if isinstance(path, Address) else state_of(os.stat(path))


def reader_of(file: BinaryIO) -> Read:
    """Return a function that fills a view with the bytes of an open file from an offset on."""

    def read(view: memoryview, offset: int) -> None:
        file.seek(offset)
        if file.readinto(view) != len(view):  # type: ignore[attr-defined]
            raise Location(file.name).error("has become shorter since it was opened")

    return read


class _HasShape(Protocol):
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...


class StoredArray:
    """An array in a file or folder, which has a `shape` and a `dtype`."""

    __slots__ = ()

    @property
    def ndim(self: _HasShape) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self: _HasShape) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self: _HasShape) -> int:
        """Bytes of the elements, without compression."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def strides(self: _HasShape) -> tuple[int, ...]:
        """Bytes from one element to the next, by dimension, without chunks."""
        return Layout.packed(self.shape, self.dtype.itemsize).strides


class StoredPiece(NamedTuple):
    """A box of a tensor that lies in a store.

    Attributes:
        store: the store that contains it.
        start: first coordinates in the tensor.
        inside: first coordinates in the store.
        shape: sizes of the box.
    """

    store: Store
    start: tuple[int, ...]
    inside: tuple[int, ...]
    shape: tuple[int, ...]

    @classmethod
    def of_store(cls, store: Store, start: tuple[int, ...] | None = None) -> StoredPiece:
        """Return a whole store as a piece, by default of a tensor of its own."""
        zeros = (0,) * store.ndim
        return cls(store, zeros if start is None else start, zeros, store.shape)

    @property
    def is_whole(self) -> bool:
        """Whether the piece is the whole store."""
        return self.shape == self.store.shape


# Not frozen: a checkpoint may have a hundred thousand stores, and to make a frozen one takes three times as long.
@dataclass(slots=True, eq=False)
class Store(StoredArray):
    """An array in a file, whose elements have not been read.

    Attributes:
        path: the file.
        name: the name of the array in its file; empty if the file has only one array.
        shape: sizes, by dimension.
        dtype: the dtype of the elements, in their byte order.
        offset: bytes from the start of the file to the first element.
        order: axes by descending distance of their elements in the file; None for row-major order.
        stored: dtype of the elements in the file, if they are cast when they are read; otherwise None. The name of its
            field, if any, is a prior operation, as in `resolved`.
        seen: the state of the file when its header was read; None if unknown.
        described_by: other files that locate the elements, each with its state at the time of reading.
        packed: decompresses the content, in which `offset` then counts; None if it is not compressed. If set, so is
            `stored`.

    Examples:
        >>> from anydml import stores
        >>> np.save("x.npy", np.arange(3))
        >>> x = stores.open("x.npy")
        >>> x.read()
        array([0, 1, 2])
    """

    path: Path
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int
    order: tuple[int, ...] | None = None
    stored: np.dtype[Any] | None = None
    seen: tuple[Any, ...] | None = None
    packed: DeflatedEntry | None = None
    described_by: tuple[tuple[Path, tuple[Any, ...]], ...] = ()

    @property
    def pieces(self) -> tuple[StoredPiece, ...]:
        """The only piece of the array."""
        return (StoredPiece.of_store(self),)

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from one element to the next, by dimension."""
        strides = self.layout.packed.strides
        return strides if self.order is None else tuple(strides[self.order.index(axis)] for axis in range(self.ndim))

    @property
    def layout(self) -> ChunkGrid:
        """The array as one chunk in row-major order, its axes in the order of the file."""
        shape = self.shape if self.order is None else tuple(self.shape[axis] for axis in self.order)
        return ChunkGrid.of_plain_file(shape, self.dtype, self.offset)

    def read(self) -> Array:
        """Read the whole array into new memory.

        Raises:
            ModelError: the file cannot be read, or has changed.
        """
        location = Location(str(self.path))
        read = np.empty(self.layout.shape, self.dtype if self.stored is None else self.stored)
        view = read.reshape(-1).view(np.uint8).data
        with location.reading(), self._opened(location) as fill:
            if self.packed is not None:
                self.packed.fill(view, self.offset, fill)
            else:
                fill(view, self.offset)
        result = read if self.stored is None else resolved(read, self.dtype)
        return result if self.order is None else result.transpose(np.argsort(self.order))

    @contextmanager
    def _opened(self, location: Location) -> Iterator[Read]:
        """Open the file, or the object at an address, for reading."""
        path = self.path
        if isinstance(path, Address):
            if self.seen not in (None, path.state()):
                raise location.error("has changed since it was opened: open it again")
            yield partial(_read_elsewhere, path)
            return
        with path.open("rb") as file:
            if self.seen not in (None, state_of(os.fstat(file.fileno()))):
                raise location.error("has changed since it was opened: open it again")
            yield reader_of(file)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise BindingError(
            f"{self!r} is an array in a file, and is not converted implicitly: call .read(), or pass it to a plan"
        )

    def __getitem__(self, key: Any) -> NoReturn:
        self.__array__()

    def __repr__(self) -> str:
        name = f" {self.name!r} of" if self.name else ""
        return f"<store{name} {str(self.path)!r}: {name_of(self.dtype)} {shape_in_elements(self.shape, self.dtype)}>"


def _read_elsewhere(path: Address, view: memoryview, offset: int) -> None:
    """Fill a view with the bytes at an address from an offset on, by requests that take little memory."""
    for first in range(0, len(view), REQUEST_BYTES):
        part = view[first : first + REQUEST_BYTES]
        data, _ = path.read_range(offset + first, offset + first + len(part))
        if len(data) != len(part):
            raise Location(str(path)).error("has become shorter since it was opened")
        part[:] = data


def resolved(read: Array, dtype: np.dtype[Any]) -> Array:
    """Return elements as they are in a file, of another dtype.

    A field of the first dtype names what PyTorch leaves for later: ``neg``, ``conj``, or both.
    """
    for name in read.dtype.names or ():
        read = read[name]
        read = np.conj(read) if "conj" in name else read
        read = -read if "neg" in name else read
    # Numbers out of the new dtype's range become infinite, as in NumPy.
    with np.errstate(all="ignore"):
        return read.astype(dtype)


class FileContent(NamedTuple):
    """The contents of a file of several arrays.

    Attributes:
        stores: the arrays by name.
        metadata: strings by key.
        other_objects: names of objects that are not arrays.
        refused: errors of arrays that cannot be read, by name.
    """

    stores: dict[str, Store]
    metadata: Mapping[str, str]
    other_objects: Sequence[str] = ()
    refused: Mapping[str, ModelError] = {}


class UnknownTensorError(KeyError):
    """A name that no tensor of a checkpoint has; its text, which may take a search, is made only when it is shown."""

    def __str__(self) -> str:
        name, tensors = str(self.args[0]), self.args[1]
        return str(Location(str(tensors.path)).error(f"has no tensor {show(name)}{did_you_mean(name, tensors)}"))


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint(Mapping[str, Store]):
    """The tensors of a file or folder of any format of checkpoints, by name.

    Attributes:
        path: the file or folder.
        stores: the tensors by name.
        metadata: ``__metadata__`` of all files together; asking for a key in which files differ raises `ModelError`.
        file_metadata: the metadata of each file.
        other_objects: names of the files' other objects, which are not arrays.
        refused: errors of tensors that cannot be read, such as sparse ones, by name; asking for one raises its error.

    Examples:
        >>> from anydml import stores
        >>> np.save("w.npy", np.ones((4, 2), "f4"))
        >>> files = stores.create("w.safetensors", shape={"w": [4, 2]}, dtype="float32")
        >>> dml.fuse(lambda w: {"w": w}).plan(stores.open("w.npy"), files).run()
        >>> checkpoint = stores.open("w.safetensors")
        >>> list(checkpoint), checkpoint["w"].shape
        (['w'], (4, 2))
    """

    path: Path
    stores: Mapping[str, Store] = field(repr=False)
    metadata: Mapping[str, str] = field(repr=False)
    file_metadata: Mapping[Path, Mapping[str, str]] = field(repr=False)
    other_objects: Sequence[str] = field(default=(), repr=False)
    refused: Mapping[str, ModelError] = field(default_factory=dict, repr=False)

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(store.nbytes for store in self.stores.values())

    def __getitem__(self, name: str) -> Store:
        if name in self.refused:
            raise self.refused[name]
        if name not in self.stores:
            raise UnknownTensorError(name, self)
        return self.stores[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.stores
        yield from self.refused

    def __len__(self) -> int:
        return len(self.stores) + len(self.refused)
