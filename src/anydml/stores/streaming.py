"""Reading of tensors in their order, a few at a time, and of large ones in contiguous parts."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from anydml.errors import BindingError
from anydml.moves.composer import Composer
from anydml.moves.value import Value
from anydml.stores.checkpoints.composed import ComposedTensor, ComposedTensors, WholeTensors, program_of
from anydml.stores.formats.store import Array, Store
from anydml.stores.formats.target import NewFile, Target
from anydml.stores.planning.base_plan import BasePlan
from anydml.stores.planning.file_blocking import FileBlocking
from anydml.stores.running.memory_file import LoadedBlocks
from anydml.text import bytes_text, parse_size

MAX_BYTES = 1 << 25
"""Maximum number of bytes that are read at once: parts of a tensor in the files of eight ranks are then 4 MiB."""

MAX_AT_ONCE = 10_000
"""Maximum number of parts that are read at once."""

MAX_LISTS = 1024
"""Maximum number of lists of parts whose reads are planned together."""

MAX_PARTS = 20_000
"""Maximum number of parts whose reads are planned together."""

T = TypeVar("T")


class Part(NamedTuple):
    """A box of a tensor whose elements are contiguous in C order.

    Attributes:
        name: the name of the tensor.
        start: first coordinates.
        shape: sizes of the box.
        first: number of elements of the tensor before it.
    """

    name: str
    start: tuple[int, ...]
    shape: tuple[int, ...]
    first: int


def parts_of(tensors: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]], max_bytes: int) -> Iterator[list[Part]]:
    """Yield lists of parts of about `max_bytes` bytes each, in the order of the tensors and of their elements.

    Args:
        tensors: shapes and dtypes by name.
        max_bytes: the maximum size in bytes of a batch, and not more than `MAX_BYTES`; a single element may be larger.
    """
    max_bytes = min(max_bytes, MAX_BYTES)
    parts, size = list[Part](), 0
    for name, (shape, dtype) in tensors.items():
        first = 0
        for start, sizes in _boxes(shape, max(1, max_bytes // dtype.itemsize)):
            count = math.prod(sizes)
            if parts and (size + count * dtype.itemsize > max_bytes or len(parts) >= MAX_AT_ONCE):
                yield parts
                parts, size = [], 0
            parts.append(Part(name, start, sizes, first))
            first, size = first + count, size + count * dtype.itemsize
    if parts:
        yield parts


def _boxes(shape: tuple[int, ...], max_bytes: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield starts and sizes of boxes of at most so many elements."""
    if math.prod(shape) <= max_bytes:
        yield (0,) * len(shape), shape
        return
    inner = math.prod(shape[1:])
    if rows := max_bytes // inner:
        for first in range(0, shape[0], rows):
            yield (first, *(0,) * (len(shape) - 1)), (min(rows, shape[0] - first), *shape[1:])
        return
    for first in range(shape[0]):
        for start, sizes in _boxes(shape[1:], max_bytes):
            yield (first, *start), (1, *sizes)


MIN_MEMORY = 17_000
"""Bytes of memory that suffice: a quarter of them does for the buffers of a plan."""


def memory_of(name: str, memory: int | str) -> int:
    """Return bytes of memory, of which a part is for the buffers of each side.

    Raises:
        BindingError: the memory is not enough.
    """
    size = parse_size(memory, f"{name}: memory")
    if size < MIN_MEMORY:
        raise BindingError(f"{name}: memory is {bytes_text(size)}, but must be at least {bytes_text(MIN_MEMORY)}")
    return size


class TensorStream:
    """Composed tensors that are read in parts.

    Args:
        composer: the composer of their values.
        tensors: the tensors by name.
        memory: bytes of all buffers beside the parts.
    """

    def __init__(self, composer: Composer, tensors: ComposedTensors, memory: int) -> None:
        self._composer, self.tensors, self._memory = composer, tensors, memory

    @property
    def sources(self) -> list[Store]:
        """The stores of the tensors."""
        return [store for tensor in self.tensors.values() for store in tensor.sources]

    def read(self, batches: Iterable[list[Part]]) -> Generator[tuple[list[Part], list[Array]]]:
        """Yield lists of parts, each with the bytes of its parts; files are opened once for many lists.

        Raises:
            ModelError: a file cannot be read.
            BindingError: the memory is too small.
        """
        batches_ahead, count = list[list[Part]](), 0
        for parts in batches:
            if batches_ahead and (len(batches_ahead) == MAX_LISTS or count + len(parts) > MAX_PARTS):
                yield from self._read(batches_ahead)
                batches_ahead, count = [], 0
            batches_ahead.append(parts)
            count += len(parts)
        yield from self._read(batches_ahead)

    def _read(self, batches: Sequence[list[Part]]) -> Iterator[tuple[list[Part], list[Array]]]:
        composed, targets, files = list[tuple[str, ComposedTensor]](), list[Target](), list[NewFile]()
        sliced: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Value] = {}
        places = list[list[int]]()
        for batch_number, parts in enumerate(batches):
            places_of, end = list[int](), 0
            for part in parts:
                tensor = self.tensors[part.name]
                end += -end % tensor.dtype.itemsize
                places_of.append(end)
                end += math.prod(part.shape) * tensor.dtype.itemsize
            files.append(NewFile(Path(f"{batch_number}"), b"", end))
            places.append(places_of)
            for part, start in zip(parts, places_of, strict=True):
                tensor = self.tensors[part.name]
                if 0 in part.shape:
                    continue
                value = tensor.value
                if part.shape != tensor.shape:
                    key = id(value), part.start, part.shape
                    if key not in sliced:
                        sliced[key] = self._composer.slice(value, part.start, part.shape, [1] * len(part.shape))
                    value = sliced[key]
                composed.append((part.name, tensor.with_value(value)))
                targets.append(Target(files[-1], part.name, part.shape, tensor.dtype, start))
        if not composed:
            yield from ((parts, [np.empty(0, np.uint8)] * len(parts)) for parts in batches)
            return
        program, inputs = program_of(self._composer, WholeTensors(composed).as_parts)
        plan = BasePlan(program, inputs, targets, self._memory, is_apart=False, max_divided=0)
        assert isinstance(plan.blocking, FileBlocking)
        blocks = {files[0].path: [*range(len(plan.blocks))]} if len(files) == 1 else plan.blocking.by_path()
        if blocks is None:
            for parts in batches:
                yield from self._read([parts])
            return
        contents = dict[Path, Array]()
        with LoadedBlocks(plan, contents) as writer:
            for file, parts, places_of in zip(files, batches, places, strict=True):
                contents[file.path] = content = np.empty(file.size, np.uint8)
                writer.write(blocks.get(file.path, ()), lambda *_: None)
                del contents[file.path]
                ends = (start + math.prod(part.shape) * self.tensors[part.name].dtype.itemsize
                        for part, start in zip(parts, places_of, strict=True))  # fmt: skip
                yield parts, [content[start:end] for start, end in zip(places_of, ends, strict=True)]


def ahead(batches: Iterator[T], pool: ThreadPoolExecutor) -> Iterator[T]:
    """Yield the items of an iterator, and make the next item in a thread meanwhile."""
    waiting = pool.submit(next, batches, None)
    while (result := waiting.result()) is not None:
        waiting = pool.submit(next, batches, None)
        yield result
