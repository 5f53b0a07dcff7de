"""Tensors read in their order, a few at a time: contiguous parts of those that are large."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import BindingError
from anydml.moves.compose import Composer
from anydml.moves.value import Value
from anydml.stores.checkpoints.composed import ComposedTensor, ComposedTensors, MadeTensors, program_of
from anydml.stores.formats.store import Array
from anydml.stores.formats.target import NewFile, Target
from anydml.stores.planning.planned import Planned
from anydml.stores.running.memory_file import LoadedBlocks
from anydml.text import bytes_text, parse_size

MOST_BYTES = 1 << 23
"""Most bytes that are read at once."""

MOST_AT_ONCE = 10_000
"""Most parts that are read at once."""


class Part(NamedTuple):
    """A box of a tensor whose elements are contiguous in C order.

    Attributes:
        name: of the tensor.
        start: first coordinates.
        shape: sizes of the box.
        first: elements of the tensor before it.
    """

    name: str
    start: tuple[int, ...]
    shape: tuple[int, ...]
    first: int


def parts_of(tensors: Mapping[str, tuple[tuple[int, ...], np.dtype[Any]]], most: int) -> Iterator[list[Part]]:
    """Lists of parts that together have about `most` bytes at most, in the order of the tensors and of their elements.

    Args:
        tensors: shapes and dtypes by name.
        most: bytes, and not more than `MOST_BYTES`; a single element may be larger.
    """
    most = min(most, MOST_BYTES)
    own, size = list[Part](), 0
    for name, (shape, dtype) in tensors.items():
        first = 0
        for start, sizes in _boxes(shape, max(1, most // dtype.itemsize)):
            count = math.prod(sizes)
            if own and (size + count * dtype.itemsize > most or len(own) >= MOST_AT_ONCE):
                yield own
                own, size = [], 0
            own.append(Part(name, start, sizes, first))
            first, size = first + count, size + count * dtype.itemsize
    if own:
        yield own


def _boxes(shape: tuple[int, ...], most: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Starts and sizes of boxes of at most so many elements."""
    if math.prod(shape) <= most:
        yield (0,) * len(shape), shape
        return
    inner = math.prod(shape[1:])
    if rows := most // inner:
        for first in range(0, shape[0], rows):
            yield (first, *(0,) * (len(shape) - 1)), (min(rows, shape[0] - first), *shape[1:])
        return
    for first in range(shape[0]):
        for start, sizes in _boxes(shape[1:], most):
            yield (first, *start), (1, *sizes)


LEAST_MEMORY = 14_000
"""Bytes of memory that suffice: three tenths of them do for the buffers of a plan."""


def memory_of(name: str, memory: int | str) -> int:
    """Bytes of memory, of which a part is for the buffers of each side.

    Raises:
        BindingError: they are too few.
    """
    size = parse_size(memory)
    if size < LEAST_MEMORY:
        raise BindingError(
            f"{name}: {bytes_text(size)} of memory are too few: give at least {bytes_text(LEAST_MEMORY)}"
        )
    return size


class Streamed:
    """Composed tensors of which parts are read.

    Args:
        composer: of their values.
        tensors: by name.
        memory: bytes of all buffers beside the parts.
    """

    def __init__(self, composer: Composer, tensors: ComposedTensors, memory: int) -> None:
        self._composer, self.tensors, self._memory = composer, tensors, memory

    @property
    def paths(self) -> list[Path]:
        """The files of the tensors."""
        return [*{id(store.path): store.path for each in self.tensors.values() for store in each.sources}.values()]

    def read(self, parts: Sequence[Part]) -> list[Array]:
        """The bytes of parts.

        Raises:
            ModelError: a file cannot be read.
            BindingError: the memory is too small.
        """
        made, targets, contents = list[tuple[str, ComposedTensor]](), list[Target](), dict[Path, Array]()
        sliced: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Value] = {}
        results = list[Array]()
        for number, part in enumerate(parts):
            tensor = self.tensors[part.name]
            value, size = tensor.value, math.prod(part.shape) * tensor.dtype.itemsize
            results.append(np.empty(size, np.uint8))
            if not size:
                continue
            if part.shape != tensor.shape:
                key = id(value), part.start, part.shape
                if key not in sliced:
                    sliced[key] = self._composer.slice(value, part.start, part.shape, [1] * len(part.shape))
                value = sliced[key]
            made.append((part.name, tensor.changed(value)))
            path = Path(f"{number}")
            contents[path] = results[-1]
            targets.append(Target(NewFile(path, b"", size), part.name, part.shape, tensor.dtype, 0))
        if made:
            program, inputs = program_of(self._composer, [MadeTensors(made).wholes])
            plan = Planned(program, inputs, targets, self._memory, is_apart=False)
            with LoadedBlocks(plan, contents) as blocks:
                blocks.write(range(len(plan.blocks)), lambda *_: None)
        return results
