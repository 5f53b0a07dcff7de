"""What moves mean, written with NumPy's indexing only; and where their operands begin and end."""

from __future__ import annotations

import numpy as np

from anydml.moves import Access, Fill, Move, byte_range


def extents(moves: list[Move]) -> list[tuple[int, int]]:
    """For each operand the first byte and the byte after the last that the moves may touch."""
    found: dict[int, tuple[int, int]] = {}

    def widen(operand: int, first: int, end: int) -> None:
        before = found.get(operand, (first, end))
        found[operand] = min(first, before[0]), max(end, before[1])

    for move in moves:
        for access in (move.destination, move.source):
            if isinstance(access, Fill):
                continue
            widen(access.operand, *byte_range(access, move.sizes, move.element_size))
            for lookup in access.lookups:
                plain = Access(lookup.operand, lookup.offset, lookup.strides)
                widen(lookup.operand, *byte_range(plain, move.sizes, np.dtype(lookup.dtype).itemsize))
    return [found[operand] for operand in range(len(found))]


def expected(moves: list[Move], memories: list[np.ndarray], starts: list[int]) -> list[np.ndarray]:
    """Copies of the operands' memory after the moves; `starts` is the offset of each memory's first byte."""
    after = [memory.copy() for memory in memories]
    for move in moves:
        to, source, element = move.destination, move.source, f"V{move.element_size}"
        if isinstance(source, Fill):
            value = np.frombuffer(source.pattern * (move.element_size // len(source.pattern)), element)
            _box(after[to.operand], element, to.offset - starts[to.operand], move.sizes, to.strides)[...] = value
            continue
        first = source.offset - starts[source.operand]
        box = _box(after[to.operand], element, to.offset - starts[to.operand], move.sizes, to.strides)
        if source.lookups and source.lookups[0].is_mask:
            mask = source.lookups[0]
            keep = _box(memories[mask.operand], "u1", mask.offset - starts[mask.operand], move.sizes, mask.strides) == 0
            box[keep] = _box(memories[source.operand], element, first, move.sizes, source.strides)[keep]
            continue
        if source.lookups:
            origins = np.array(first, np.int64)
            for size, stride in zip(move.sizes, source.strides, strict=True):
                origins = origins[..., None] + np.arange(size) * stride
            for lookup in source.lookups:
                at = lookup.offset - starts[lookup.operand]
                numbers = _box(memories[lookup.operand], lookup.dtype, at, move.sizes, lookup.strides)
                origins = origins + lookup.stride * clamped(numbers, lookup.size)
            memory = memories[source.operand]
            elements = _box(memory, element, 0, (memory.size - move.element_size + 1,), (1,))[origins]
        else:
            elements = _box(memories[source.operand], element, first, move.sizes, source.strides)
        box[...] = elements
    return after


def clamped(numbers: np.ndarray, size: int) -> np.ndarray:
    """Coordinates that indices stand for, in Python's own integers where they are few."""
    if numbers.dtype == np.uint64:
        return np.where(numbers < size, numbers, size - 1).astype(np.int64)
    wide = numbers.astype(np.int64)
    wide = np.where(wide < 0, np.where(wide < -size, 0, wide + size), wide)
    return np.where(wide < size, wide, size - 1)


def _box(memory: np.ndarray, kind: str, first: int, sizes: tuple[int, ...], strides: tuple[int, ...]) -> np.ndarray:
    """Elements of a memory in a box; NumPy looks that none lies outside."""
    return np.ndarray(sizes, kind, memory, first, strides)
