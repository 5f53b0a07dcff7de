"""Square tiles transposed in vector registers: as many rows as elements fit a line, each of one line.

Two stages. Within groups of rows that fill 16 bytes, neighbours are interleaved until each 16 bytes of a register hold
one column of the group; then the four 16-byte lanes of four registers change places. Both are single instructions on
every processor with vectors of 16 bytes and more.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from anydml.backends.cpu.kernels.ir import I32, I64, LINE, literal_value, load_as, store_as, stream_as

LANE = 16
LANES = LINE // LANE


@intrinsic
def turn_tile(typing: Any, source: Any, rows: Any, destination: Any, columns: Any, size: Any, past: Any) -> Any:
    """Transpose a tile of ``64 / size`` rows by one line.

    Args:
        typing: Numba's typing context.
        source: address that the rows' offsets are added to; 64 bytes of each row are read.
        rows: address of one 64-bit offset a row of the source.
        destination: address that the offsets of what is written are added to.
        columns: address of one 64-bit offset a column of the source, which becomes a row of one line; those lines are
            stored in order.
        size: bytes of an element as a constant: 1, 2, 4, 8 or 16.
        past: 1 as a constant to store past the caches, to whole lines; 0 to store anywhere.
    """
    element, streamed = literal_value(size), literal_value(past)
    kind = ir.IntType(8 * min(element, 8))
    line = ir.VectorType(kind, LINE * 8 // kind.width)
    group = LANE // element

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        start, offsets, end, places = arguments[:4]

        def offset(table: Any, number: int) -> Any:
            return load_as(builder, builder.add(table, ir.Constant(I64, 8 * number)), I64)

        def row(number: int) -> Any:
            return load_as(builder, builder.add(start, offset(offsets, number)), line)

        groups = [_columns(builder, [row(g * group + k) for k in range(group)]) for g in range(LANES)]
        lines: list[Any] = [None] * (LANES * group)
        for k in range(group):
            for lane, value in enumerate(_lanes(builder, [columns[k] for columns in groups])):
                lines[lane * group + k] = value
        for number, value in enumerate(lines):
            address = builder.add(end, offset(places, number))
            (stream_as if streamed else store_as)(builder, value, address)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64, types.uint64, size, past), generate


def _columns(builder: Any, rows: list[Any]) -> list[Any]:
    """Rows of a group to its columns: 16-byte lane l of vector k is column ``l · group + k``."""
    half = len(rows) // 2
    width = rows[0].type.count // LANES
    low = [width * lane + k // 2 + (k % 2) * rows[0].type.count for lane in range(LANES) for k in range(width)]
    high = [index + width // 2 for index in low]
    while half:
        # Rows i and i + half interleaved: after all stages, every row's bits have gone round once.
        rows = [
            _shuffled(builder, rows[k], rows[k + len(rows) // 2], order)
            for k in range(len(rows) // 2)
            for order in (low, high)
        ]
        half //= 2
    return rows


def _lanes(builder: Any, rows: list[Any]) -> list[Any]:
    """Four vectors of four 16-byte lanes, transposed."""
    width = rows[0].type.count // LANES

    def order(*lanes: int) -> list[int]:
        return [lane * width + k for lane in lanes for k in range(width)]

    pairs = [
        _shuffled(builder, rows[first], rows[first + 1], order(a, a + 1, a + 4, a + 5))
        for first in (0, 2)
        for a in (0, 2)
    ]
    low, high = (pairs[0], pairs[2]), (pairs[1], pairs[3])
    return [_shuffled(builder, *pair, order(a, a + 2, a + 4, a + 6)) for pair in (low, high) for a in (0, 1)]


def _shuffled(builder: Any, one: Any, other: Any, order: list[int]) -> Any:
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(I32, len(order)), order))
