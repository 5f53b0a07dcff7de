"""Where each element of a small program comes from, by the definition of a move: coordinate after coordinate.

Nothing here knows an operator. What an index says is known only where its values are; elsewhere the journey names the
index that decides.
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
from anydml.text import printable

MOST_CELLS = 480
MOST_RUNS = 2000
"""What a picture of every element may have: elements of all operands, and runs of bytes that move."""

MOST_LABEL = 8
"""Characters of an element's value."""

Cell = tuple[int, int]
"""An operand's number, and an element's: its place in row-major order."""


class Run(NamedTuple):
    """Bytes that one coordinate of a simple move copies.

    Attributes:
        move: number of the simple move.
        destination: the elements that are written; none where an index decides that is not known, or skips.
        source: the elements that are read, in the same order; none where an index decides that is not known.
        fill: the bytes that are written instead of a source's.
        indices: the index elements that were looked at.
        is_skipped: whether an index lies outside, and nothing is written for that reason.
    """

    move: int
    destination: tuple[Cell, ...]
    source: tuple[Cell, ...]
    fill: bytes | None
    indices: tuple[Cell, ...]
    is_skipped: bool = False


class Journeys(NamedTuple):
    """What happens to every element.

    Attributes:
        runs: in the order in which they happen.
        labels: of every element, once all has happened.
    """

    runs: tuple[Run, ...]
    labels: dict[Cell, str]


class _UnknownError(Exception):
    """An index is not known."""


class _SkippedError(Exception):
    """An index lies outside its axis, and its element is left as it is."""


def is_small(section: Section) -> bool:
    """Whether every element can be shown."""
    cells = sum(tensor.count for tensor in section.tensors)
    return cells <= MOST_CELLS and sum(math.prod(move.sizes) for move in section.moves) <= MOST_RUNS


def follow(section: Section) -> Journeys:
    """Follow every element of a small section."""
    memory = _Memory(section)
    runs = tuple(run for number, move in enumerate(section.moves) for run in memory.run(number, move))
    return Journeys(runs, memory.labels)


class _Memory:
    """Elements of all operands: their bytes where these are known, and what stands for them."""

    def __init__(self, section: Section) -> None:
        self.tensors = section.tensors
        self.cells: list[dict[int, int]] = []
        self.bytes: dict[Cell, bytes] = {}
        self.labels: dict[Cell, str] = {}
        looked_up = {lookup.operand for move in section.moves for lookup in move.every_lookup()}
        for operand, tensor in enumerate(section.tensors):
            places: dict[int, int] = {}
            for cell, at in enumerate(itertools.product(*map(range, tensor.sizes))):
                byte = sum(c * stride for c, stride in zip(at, tensor.strides, strict=True))
                places.setdefault(byte, cell)
                known = None if tensor.values is None else tensor.values[at]
                if known is not None and tensor.dtype is not None and not tensor.dtype.hasobject:
                    self.bytes[operand, cell] = np.asarray(known, tensor.dtype).tobytes()
                if tensor.role in ("input", "constant"):
                    unknown = "?" if operand in looked_up else str(cell)
                    self.labels[operand, cell] = unknown if known is None else _text(known)
            self.cells.append(places)

    def run(self, number: int, move: Move) -> Iterator[Run]:
        for at in itertools.product(*map(range, move.sizes)):
            indices: list[Cell] = []
            destination: tuple[Cell, ...] = ()
            source: tuple[Cell, ...] = ()
            skipped = False
            fill = move.source.pattern if isinstance(move.source, Fill) else None
            try:
                if isinstance(move.source, Access):
                    source = self._cells(move.source, at, move.element_size, indices)
            except _UnknownError:
                pass
            except _SkippedError:
                skipped = True
            try:
                destination = self._cells(move.destination, at, move.element_size, indices)
            except _UnknownError:
                pass
            except _SkippedError:
                skipped = True
            if skipped:
                destination = ()
            self._write(destination, source, fill)
            yield Run(number, destination, source, fill, tuple(dict.fromkeys(indices)), skipped)

    def _cells(self, access: Access, at: tuple[int, ...], size: int, indices: list[Cell]) -> tuple[Cell, ...]:
        byte, places = self._address(access, at, indices), self.cells[access.operand]
        step = self.tensors[access.operand].element_size
        return tuple((access.operand, places[b]) for b in range(byte, byte + size, step) if b in places)

    def _address(self, access: Access | Lookup, at: tuple[int, ...], indices: list[Cell]) -> int:
        """An access by its definition."""
        total = access.offset + sum(c * stride for c, stride in zip(at, access.strides, strict=True))
        for lookup in access.lookups:
            index = self._index(lookup, self._address(lookup, at, indices), indices)
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
        known = self.bytes.get(cell)
        if known is None:
            raise _UnknownError
        index = int.from_bytes(known, sys.byteorder, signed=lookup.dtype.startswith("i"))
        return index + lookup.size if index < 0 else index

    def _write(self, destination: tuple[Cell, ...], source: tuple[Cell, ...], fill: bytes | None) -> None:
        for k, cell in enumerate(destination):
            tensor = self.tensors[cell[0]]
            self.bytes.pop(cell, None)
            self.labels[cell] = "…" if fill is None else fill.hex()
            if fill is not None:
                self._put(cell, tensor, fill * (tensor.element_size // len(fill)))
            elif len(source) == len(destination):
                if source[k] in self.bytes:
                    self._put(cell, tensor, self.bytes[source[k]])
                self.labels[cell] = self.labels.get(source[k], "")

    def _put(self, cell: Cell, tensor: Tensor, element: bytes) -> None:
        if len(element) == tensor.element_size:
            self.bytes[cell] = element
            if tensor.dtype is not None and not tensor.dtype.hasobject:
                self.labels[cell] = _text(np.frombuffer(element, tensor.dtype)[0])


def _text(value: Any) -> str:
    """An element's value in a few characters."""
    try:
        text = f"{value:g}" if np.asarray(value).dtype.kind in "fiu" else str(value)
        if len(text) > MOST_LABEL and np.asarray(value).dtype.kind == "f":
            text = f"{value:.2g}"
    except (TypeError, ValueError):
        text = str(value)
    text = printable(text)
    return text if len(text) <= MOST_LABEL else f"{text[: MOST_LABEL - 1]}…"
