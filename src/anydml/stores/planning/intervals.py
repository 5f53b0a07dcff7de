"""Intervals: the bytes of files that are the operands of a plan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.stores.formats.columns import bytes_of
from anydml.stores.formats.known_bytes import KnownBytes
from anydml.stores.formats.packed import DeflatedEntry
from anydml.stores.formats.store import Array, Numbers, Store
from anydml.stores.formats.targets import Targets


class Cast(NamedTuple):
    """Elements of a file that are cast when they are read, addressed as if they were contiguous in a file.

    Attributes:
        path: the file.
        stored: dtype in the file, as in `Store`.
        dtype: the dtype that they are cast to.
        start: offset of the first element, less than an element's size; for packed elements, of their beginning.
        packed: as in `Store`.
    """

    path: Path
    stored: np.dtype[Any]
    dtype: np.dtype[Any]
    start: int
    packed: DeflatedEntry | None

    @classmethod
    def of(cls, store: Store) -> Cast:
        """Return the cast of a store; it is shared by stores of a file whose elements lie at multiples of one size."""
        stored_dtype = store.dtype if store.stored is None else store.stored
        start = store.offset % stored_dtype.itemsize if store.packed is None else store.offset
        return cls(store.path, stored_dtype, store.dtype, start, store.packed)

    def place(self, offset: int) -> int:
        """Return the offset among the cast bytes for an offset in the file."""
        return (offset - self.start) // self.stored.itemsize * self.dtype.itemsize


def widening_of(files: Iterable[Path | Cast | None]) -> int:
    """Return how many bytes of a buffer at most hold the elements of a byte of a file; at least 1."""
    return max([1, *(cast.dtype.itemsize // cast.stored.itemsize for cast in files if isinstance(cast, Cast))])


class Interval(NamedTuple):
    """An interval of bytes of a file.

    Attributes:
        path: the file.
        offset: bytes from the beginning of the file.
        size: number of bytes.
        unit: bytes of an element.
        output: number of the first output in it; None for inputs.
        cast: the cast of the elements, if there is one; offsets and sizes then count cast bytes.
    """

    path: Path
    offset: int
    size: int
    unit: int
    output: int | None = None
    cast: Cast | None = None

    def bytes_in_file(self, size: int) -> int:
        """Return the bytes in the file for a number of cast bytes."""
        return size if self.cast is None else size // self.cast.dtype.itemsize * self.cast.stored.itemsize


class Places(NamedTuple):
    """The places of arrays in files, as columns with one number per array, inputs first.

    Attributes:
        files: paths of all files, and casts, which count as files.
        file: number of the file.
        offset: bytes from the start of the file.
        kind: number of the kind, which tells its bytes.
        sizes: bytes of an array of each kind.
        units: bytes of an element of each kind.
        inputs: number of inputs.
        between: the known bytes beside arrays, by the numbers of files that have any.
    """

    files: list[Path | Cast]
    file: Numbers
    offset: Numbers
    kind: Numbers
    sizes: Numbers
    units: Numbers
    inputs: int
    between: dict[int, KnownBytes]

    @classmethod
    def of(cls, inputs: Sequence[Store], outputs: Targets) -> Places:
        """Return the places of arrays."""
        casts, like = dict[int, Cast](), dict[Any, Cast]()
        for k, store in enumerate(inputs):
            if (stored_dtype := store.stored) is not None:
                key = (
                    id(store.path),
                    id(stored_dtype),
                    id(store.dtype),
                    store.offset % stored_dtype.itemsize,
                    store.packed and k,
                )
                if (cast := like.get(key)) is None:
                    cast = like[key] = Cast.of(store)
                casts[k] = cast
        read = [casts.get(k) or store.path for k, store in enumerate(inputs)]
        # By id, because hashing a path is slow.
        distinct = {id(file): file for file in read} | {id(file.path): file.path for file in outputs.files}
        file_numbers = {file: k for k, file in enumerate(dict.fromkeys(distinct.values()))}
        numbers = {file_id: file_numbers[file] for file_id, file in distinct.items()}
        of_outputs = np.array([numbers[id(file.path)] for file in outputs.files], np.int32)
        offset = np.array([store.offset for store in inputs], np.int64)
        offset[[*casts]] = [cast.place(inputs[k].offset) for k, cast in casts.items()]
        unit = np.array([store.dtype.itemsize for store in inputs], np.int64)
        size = np.array([math.prod(store.shape) for store in inputs], np.int64) * unit
        units_of_outputs = np.array([dtype.itemsize for _, dtype in outputs.kinds], np.int64)
        input_numbers = np.arange(len(inputs), dtype=np.int32)
        between = {numbers[id(file.path)]: file.known_bytes for file in outputs.files if file.known_bytes}
        return cls(
            [*file_numbers],
            np.concatenate(
                [np.array([numbers[id(path)] for path in read], np.int32), of_outputs[outputs.file_numbers]]
            ),
            np.concatenate([offset, outputs.offsets]),
            np.concatenate([input_numbers, outputs.kind_numbers + np.int32(len(inputs))]),
            np.concatenate([size, bytes_of(outputs.kinds)]),
            np.concatenate([unit, units_of_outputs]),
            len(inputs),
            between,
        )

    @property
    def arrays(self) -> int:
        """The number of arrays."""
        return self.file.size

    def size(self, arrays: Any) -> Any:
        """Return the bytes of arrays, by their numbers."""
        return self.sizes[self.kind[arrays]]

    def unit(self, arrays: Any) -> Any:
        """Return the bytes of an element of arrays, by their numbers."""
        return self.units[self.kind[arrays]]

    def part(self, file: int, offset: int, size: int, unit: int, output: int | None = None) -> Interval:
        """Return an interval of a file."""
        file_path = self.files[file]
        if isinstance(file_path, Cast):
            return Interval(file_path.path, offset, size, unit, output, file_path)
        return Interval(file_path, offset, size, unit, output)

    def interval(self, first: int, last: int) -> Interval:
        """Return the interval from one array of a file to another, including everything between them."""
        size = int(self.offset[last] + self.size(last) - self.offset[first])
        output = first - self.inputs if first >= self.inputs else None
        return self.part(int(self.file[first]), int(self.offset[first]), size, int(self.unit(first)), output)

    def are_filled(self, files: Numbers, starts: Numbers, stops: Numbers) -> Array:
        """Whether each interval of a file consists of known bytes, such as headers and padding, and of no array."""
        is_filled: Array = starts == stops
        for file_number, known_bytes in self.between.items():
            empty = np.flatnonzero((files == file_number) & ~is_filled)
            if not empty.size:
                continue
            first, sizes = known_bytes.offsets, known_bytes.sizes
            before = np.cumsum(sizes) - sizes

            def known_until(offsets: Numbers) -> Numbers:
                k = np.maximum(np.searchsorted(first, offsets, "right") - 1, 0)  # noqa: B023  # called before the next turn
                end: Numbers = before[k] + np.clip(offsets - first[k], 0, sizes[k])  # noqa: B023
                return end

            is_filled[empty] = known_until(stops[empty]) - known_until(starts[empty]) == stops[empty] - starts[empty]
        return is_filled
