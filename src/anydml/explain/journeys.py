"""The origin of each element of a small program, found by running its moves coordinate by coordinate.

Where the value of an index is unknown, the index element is recorded instead.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from anydml.explain.section import Section, Tensor
from anydml.moves.move import Access, Fill, Lookup, Move
from anydml.text import escape_controls

MAX_CELLS = 480
"""Maximum number of elements of all operands for which every element is drawn."""

MAX_DRAWN_RUNS = 2000
"""Maximum number of runs for which every element is drawn."""

MAX_LABEL = 8
"""Maximum number of characters of an element's value."""

Cell = tuple[int, int]
"""The number of an operand, and of an element in row-major order."""


class Run(NamedTuple):
    """The bytes that one coordinate of a simplified move copies.

    Attributes:
        move: number of the move.
        destination: the elements that are written; none if they depend on an unknown index, or are skipped.
        source: the elements that are read, in the same order; none if they depend on an unknown index.
        fill: the bytes that are written, if there is no source.
        indices: the index elements that are read.
        is_skipped: whether nothing is written because an index is outside its axis.
    """

    move: int
    destination: tuple[Cell, ...]
    source: tuple[Cell, ...]
    fill: bytes | None
    indices: tuple[Cell, ...]
    is_skipped: bool = False


class Journeys(NamedTuple):
    """All runs of a section.

    Attributes:
        runs: the runs, in the order of their execution.
        labels: text of every element after the last run.
    """

    runs: tuple[Run, ...]
    labels: dict[Cell, str]


class _UnknownError(Exception):
    """The value of an index is unknown."""


class _SkippedError(Exception):
    """An index is outside its axis, so its element is not written."""


def is_small(section: Section) -> bool:
    """Whether a section is small enough to show every element; chunks are always shown as boxes."""
    if any(tensor.chunks for tensor in section.tensors):
        return False
    cells = sum(tensor.count for tensor in section.tensors)
    return cells <= MAX_CELLS and sum(math.prod(move.sizes) for move in section.moves) <= MAX_DRAWN_RUNS


def follow(section: Section) -> Journeys:
    """Follow every element of a small section."""
    memory = _Memory(section)
    runs = tuple(run for move_number, move in enumerate(section.moves) for run in memory.run(move_number, move))
    return Journeys(runs, memory.labels)


class _Memory:
    """The elements of all operands: the label of each element, and its bytes if they are known."""

    def __init__(self, section: Section) -> None:
        self.tensors = section.tensors
        self.cells: list[dict[int, int]] = []
        self.bytes: dict[Cell, bytes] = {}
        self.labels: dict[Cell, str] = {}
        looked_up = {lookup.operand for move in section.moves for lookup in move.all_lookups()}
        for operand, tensor in enumerate(section.tensors):
            places: dict[int, int] = {}
            for cell, coordinates in enumerate(itertools.product(*map(range, tensor.sizes))):
                byte = sum(c * stride for c, stride in zip(coordinates, tensor.strides, strict=True))
                places.setdefault(byte, cell)
                element = None if tensor.values is None else tensor.values[coordinates]
                if element is not None and tensor.dtype is not None and not tensor.dtype.hasobject:
                    self.bytes[operand, cell] = np.asarray(element, tensor.dtype).tobytes()
                if tensor.role in ("input", "constant"):
                    unknown = "?" if operand in looked_up else str(cell)
                    self.labels[operand, cell] = unknown if element is None else _format_value(element)
            self.cells.append(places)

    def run(self, move_number: int, move: Move) -> Iterator[Run]:
        for coordinates in itertools.product(*map(range, move.sizes)):
            indices: list[Cell] = []
            destination: tuple[Cell, ...] = ()
            source: tuple[Cell, ...] = ()
            skipped = False
            fill = move.source.pattern if isinstance(move.source, Fill) else None
            try:
                if isinstance(move.source, Access):
                    source = self._cells(move.source, coordinates, move.element_size, indices)
            except _UnknownError:
                pass
            except _SkippedError:
                skipped = True
            try:
                destination = self._cells(move.destination, coordinates, move.element_size, indices)
            except _UnknownError:
                pass
            except _SkippedError:
                skipped = True
            if skipped:
                destination = ()
            self._write(destination, source, fill)
            yield Run(move_number, destination, source, fill, tuple(dict.fromkeys(indices)), skipped)

    def _cells(self, access: Access, coordinates: tuple[int, ...], size: int, indices: list[Cell]) -> tuple[Cell, ...]:
        byte, places = self._address(access, coordinates, indices), self.cells[access.operand]
        step = self.tensors[access.operand].element_size
        return tuple((access.operand, places[b]) for b in range(byte, byte + size, step) if b in places)

    def _address(self, access: Access | Lookup, coordinates: tuple[int, ...], indices: list[Cell]) -> int:
        """Compute the byte offset of an access by its definition."""
        total = access.offset + sum(c * stride for c, stride in zip(coordinates, access.strides, strict=True))
        for lookup in access.lookups:
            index = self._index(lookup, self._address(lookup, coordinates, indices), indices)
            if not 0 <= index < lookup.size:
                if lookup.outside == "skip":
                    raise _SkippedError
                index = min(max(index, 0), lookup.size - 1)
            total += index * lookup.stride
        return total

    def _index(self, lookup: Lookup, byte: int, indices: list[Cell]) -> int:
        cell = lookup.operand, self.cells[lookup.operand].get(byte, -1)
        if cell[1] >= 0:
            indices.append(cell)
        start = self.bytes.get(cell)
        if start is None:
            raise _UnknownError
        index = int.from_bytes(start, sys.byteorder, signed=lookup.dtype.startswith("i"))
        return index + lookup.size if index < 0 else index

    def _write(self, destination: tuple[Cell, ...], source: tuple[Cell, ...], fill: bytes | None) -> None:
        for k, cell in enumerate(destination):
            tensor = self.tensors[cell[0]]
            self.bytes.pop(cell, None)
            self.labels[cell] = "…" if fill is None else fill.hex()
            if fill is not None:
                self._label_cell(cell, tensor, fill * (tensor.element_size // len(fill)))
            elif len(source) == len(destination):
                if source[k] in self.bytes:
                    self._label_cell(cell, tensor, self.bytes[source[k]])
                self.labels[cell] = self.labels.get(source[k], "")

    def _label_cell(self, cell: Cell, tensor: Tensor, element: bytes) -> None:
        if len(element) == tensor.element_size:
            self.bytes[cell] = element
            if tensor.dtype is not None and not tensor.dtype.hasobject:
                self.labels[cell] = _format_value(np.frombuffer(element, tensor.dtype)[0])


def _format_value(value: Any) -> str:
    """Format an element's value in a few characters."""
    try:
        text = f"{value:g}" if np.asarray(value).dtype.kind in "fiu" else str(value)
        if len(text) > MAX_LABEL and np.asarray(value).dtype.kind == "f":
            text = f"{value:.2g}"
    except (TypeError, ValueError):
        text = str(value)
    text = escape_controls(text)
    return text if len(text) <= MAX_LABEL else f"{text[: MAX_LABEL - 1]}…"
