"""Square tiles transposed in vector registers: as many rows as elements fit a line, each of one line.

Two stages. Within groups of rows that fill 16 bytes, neighbours are interleaved until each 16 bytes of a register hold
one column of the group; then the four 16-byte lanes of four registers change places. Both are single instructions on
every processor with vectors of 16 bytes and more. Elements of 3, 6 and 12 bytes go through registers as 4, 8 and 16.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from anydml.engines.cpu.kernels.blanks import Filling, blank
from anydml.engines.cpu.kernels.ir import I8, I32, I64, LINE, load_as, store_as, stream_as
from anydml.engines.cpu.kernels.language import intrinsic, types

LANE = 16
LANES = LINE // LANE

PADDED = {3: 4, 6: 8, 12: 16}
"""Bytes that an element takes in a register, where they are more than its own."""


def side_of(size: int) -> int:
    """Rows and columns of a tile of elements of so many bytes."""
    return LINE // PADDED.get(size, size)


@intrinsic
def turn_tile(typing: Any, source: Any, rows: Any, destination: Any, columns: Any) -> Any:
    """Transpose a tile of as many rows as `side_of` says, by one line; of padded elements by 48 bytes.

    Args:
        typing: Numba's typing context.
        source: address that the rows' offsets are added to; 64 bytes of each row are read, of padded elements 52.
        rows: address of one 64-bit offset a row of the source.
        destination: address that the offsets of what is written are added to.
        columns: address of one 64-bit offset a column of the source, which becomes a row of one line; those lines are
            stored in order. Of padded elements, 4 bytes after each 48 are overwritten.
    """
    return types.void(types.uint64, types.uint64, types.uint64, types.uint64), blank("turn_tile")


@intrinsic
def turn_tile_streamed(typing: Any, source: Any, rows: Any, destination: Any, columns: Any) -> Any:
    """The same by non-temporal stores, to whole lines, of elements that are not padded."""
    return types.void(types.uint64, types.uint64, types.uint64, types.uint64), blank("turn_tile_streamed")


def tile_code(packed: int, is_streamed: bool) -> Filling:
    """The code of `turn_tile` for elements of 1, 2, 3, 4, 6, 8, 12 or 16 bytes."""
    element = PADDED.get(packed, packed)
    step = LANE * packed // element
    kind = ir.IntType(8 * min(element, 8))
    line = ir.VectorType(kind, LINE * 8 // kind.width)
    group = LANE // element

    def write(builder: Any, start: Any, offsets: Any, end: Any, places: Any) -> None:
        def offset(table: Any, number: int) -> Any:
            return load_as(builder, builder.add(table, ir.Constant(I64, 8 * number)), I64)

        def row(number: int) -> Any:
            address = builder.add(start, offset(offsets, number))
            return load_as(builder, address, line) if step == LANE else _spread(builder, address, packed, line)

        groups = [_columns(builder, [row(g * group + k) for k in range(group)]) for g in range(LANES)]
        lines: list[Any] = [None] * (LANES * group)
        for k in range(group):
            for lane, value in enumerate(_lanes(builder, [columns[k] for columns in groups])):
                lines[lane * group + k] = value
        for number, value in enumerate(lines):
            address = builder.add(end, offset(places, number))
            if step < LANE:
                _store_close(builder, value, address, packed)
                continue
            (stream_as if is_streamed else store_as)(builder, value, address)

    def call(builder: Any, arguments: list[Any]) -> None:
        # A function of its own: where several places of a kernel need it, it is compiled once.
        name = f"tile_{packed}_{int(is_streamed)}"
        function = builder.module.globals.get(name)
        if function is None:
            function = ir.Function(builder.module, ir.FunctionType(ir.VoidType(), [I64] * 4), name)
            function.linkage = "internal"
            function.attributes.add("noinline")
            inside = ir.IRBuilder(function.append_basic_block())
            write(inside, *function.args)
            inside.ret_void()
        builder.call(function, arguments)

    return call


def _spread(builder: Any, address: Any, size: int, line: Any) -> Any:
    """A register of padded elements that lie side by side in memory."""
    step = LANE * size // PADDED[size]
    lane = ir.VectorType(I8, LANE)
    parts = [load_as(builder, builder.add(address, ir.Constant(I64, step * k)), lane) for k in range(LANES)]
    order = _padding(size, to=PADDED[size])
    parts = [_permuted(builder, part, part, order) for part in parts]
    halves = [_permuted(builder, parts[k], parts[k + 1], list(range(2 * LANE))) for k in (0, 2)]
    return builder.bitcast(_permuted(builder, halves[0], halves[1], list(range(LINE))), line)


def _store_close(builder: Any, value: Any, address: Any, size: int) -> None:
    """Store padded elements side by side."""
    step = LANE * size // PADDED[size]
    value = builder.bitcast(value, ir.VectorType(I8, LINE))
    order = _padding(PADDED[size], to=size)
    for k in range(LANES):
        lane = _permuted(builder, value, value, [LANE * k + index for index in order])
        store_as(builder, lane, builder.add(address, ir.Constant(I64, step * k)))


def _padding(size: int, to: int) -> list[int]:
    """Which byte of 16 stands where, when elements of so many bytes shall have others; what is left over is any."""
    order = [0] * LANE
    for k in range(LANE // max(size, to)):
        for byte in range(min(size, to)):
            order[k * to + byte] = k * size + byte
    return order


def _columns(builder: Any, rows: list[Any]) -> list[Any]:
    """Rows of a group to its columns: 16-byte lane l of vector k is column ``l · group + k``."""
    half = len(rows) // 2
    width = rows[0].type.count // LANES
    low = [width * lane + k // 2 + (k % 2) * rows[0].type.count for lane in range(LANES) for k in range(width)]
    high = [index + width // 2 for index in low]
    while half:
        # Rows i and i + half interleaved: after all stages, every row's bits have gone round once.
        rows = [
            _permuted(builder, rows[k], rows[k + len(rows) // 2], order)
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
        _permuted(builder, rows[first], rows[first + 1], order(a, a + 1, a + 4, a + 5))
        for first in (0, 2)
        for a in (0, 2)
    ]
    low, high = (pairs[0], pairs[2]), (pairs[1], pairs[3])
    return [_permuted(builder, *pair, order(a, a + 2, a + 4, a + 6)) for pair in (low, high) for a in (0, 1)]


def _permuted(builder: Any, one: Any, other: Any, order: list[int]) -> Any:
    return builder.shuffle_vector(one, other, ir.Constant(ir.VectorType(I32, len(order)), order))
