"""Interleaved columns in registers: a few rows are taken apart, or put together, by one permutation of their lanes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from anydml.engines.cpu.kernels.blanks import Filling, blank
from anydml.engines.cpu.kernels.ir import I32, I64, LINE, load_as, store_as, stream_as
from anydml.engines.cpu.kernels.language import intrinsic, types


@intrinsic
def run_of(typing: Any, column: Any) -> Any:
    """Bytes of a column's elements of a row."""
    return types.uint64(types.uint64), blank("run_of")


@intrinsic
def interleave_rows(typing: Any, interleaved: Any, packed: Any, row: Any, direct: Any) -> Any:
    """Take `count` rows of interleaved columns apart, or put them together, in registers (see `interleave_kernel`).

    Args:
        typing: Numba's typing context.
        interleaved: address of the interleaved rows.
        packed: address of one 64-bit word a column: where its packed elements of row 0 are.
        row: number of rows before these.
        direct: 1 to use non-temporal stores; then what is written falls on whole lines.
    """
    return types.void(types.uint64, types.uint64, types.uint64, types.uint64), blank("interleave_rows")


@intrinsic
def move_row(typing: Any, interleaved: Any, packed: Any, row: Any) -> Any:
    """`interleave_rows` of one row, which touches the columns' own bytes and no others."""
    return types.void(types.uint64, types.uint64, types.uint64), blank("move_row")


def rows_code(spec: str) -> Filling:
    """The code of `interleave_rows`; the pattern is ``"zip word period count reverse offset:run,…"``."""
    zipped, word, period, count, reverse, columns = parse_spec(spec)
    kind, lanes = _lanes(word)
    masks = [
        [
            ((count - 1 - r if reverse else r) * period + offset + k) * lanes + lane
            for r in range(count)
            for k in range(run)
            for lane in range(lanes)
        ]
        for offset, run in columns
    ]
    whole = ir.VectorType(kind, count * period * lanes)

    def write(builder: Any, arguments: list[Any]) -> None:
        at = [_column(builder, arguments[1], arguments[2], c, run * word) for c, (_, run) in enumerate(columns)]
        if zipped:
            parts = [load_as(builder, a, ir.VectorType(kind, len(mask))) for a, mask in zip(at, masks, strict=True)]
            order = [0] * whole.count
            for place, lane in enumerate(lane for mask in masks for lane in mask):
                order[lane] = place
            stores = [(_joined(builder, parts), order, arguments[0])]
        else:
            value = load_as(builder, arguments[0], whole)
            stores = [(value, mask, a) for a, mask in zip(at, masks, strict=True)]
        if not in_lines(spec):
            for value, mask, a in stores:
                store_as(builder, _permuted(builder, value, mask), a)
            return
        # Line by line, because a vector of odd length that lives beyond a branch is taken to pieces.
        step = LINE * 8 // kind.width
        lines = [
            (_permuted(builder, value, mask[k : k + step]), builder.add(a, ir.Constant(I64, k // step * LINE)))
            for value, mask, a in stores
            for k in range(0, len(mask), step)
        ]
        with builder.if_else(builder.icmp_unsigned("!=", arguments[3], ir.Constant(I64, 0))) as (then, otherwise):
            with then:
                for line, a in lines:
                    stream_as(builder, line, a)
            with otherwise:
                for line, a in lines:
                    store_as(builder, line, a)

    return write


def row_code(spec: str) -> Filling:
    """The code of `move_row`."""
    zipped, word, _, _, _, columns = parse_spec(spec)
    kind, lanes = _lanes(word)

    def write(builder: Any, arguments: list[Any]) -> None:
        for c, (offset, run) in enumerate(columns):
            inside = builder.add(arguments[0], ir.Constant(I64, offset * word))
            alone = _column(builder, arguments[1], arguments[2], c, run * word)
            to, source = (inside, alone) if zipped else (alone, inside)
            store_as(builder, load_as(builder, source, ir.VectorType(kind, run * lanes)), to)

    return write


def _lanes(word: int) -> tuple[Any, int]:
    """The integer type that a word is made of, and how many."""
    kind = ir.IntType(8 * min(word, 8))
    return kind, word // (kind.width // 8)


def _column(builder: Any, packed: Any, row: Any, column: int, run: int) -> Any:
    """The address of a column's packed elements of a row."""
    base = load_as(builder, builder.add(packed, ir.Constant(I64, 8 * column)), I64)
    return builder.add(base, builder.mul(row, ir.Constant(I64, run)))


def parse_spec(text: str) -> tuple[bool, int, int, int, bool, list[tuple[int, int]]]:
    """The parts of a pattern: zipped, word, period, count, reverse, columns."""
    zipped, word, period, count, reverse, columns = text.split(" ")
    pairs = [column.split(":") for column in columns.split(",")]
    return zipped == "1", int(word), int(period), int(count), reverse == "1", [(int(a), int(b)) for a, b in pairs]


def in_lines(spec: str) -> bool:
    """Whether what `interleave_rows` writes at a time, to each operand, is whole lines."""
    zipped, word, period, count, _, columns = parse_spec(spec)
    runs = [period] if zipped else [run for _, run in columns]
    return all(run * word * count % LINE == 0 for run in runs)


def _permuted(builder: Any, value: Any, order: list[int]) -> Any:
    mask = ir.Constant(ir.VectorType(I32, len(order)), order)
    return builder.shuffle_vector(value, ir.Constant(value.type, ir.Undefined), mask)


def _joined(builder: Any, values: list[Any]) -> Any:
    """One vector of all lanes, in order."""
    total = values[0]
    for value in values[1:]:
        lanes, count = total.type.count, value.type.count
        # LLVM joins vectors of one length only: the shorter is padded with lanes that are not taken.
        size = max(lanes, count)
        pair = [_permuted(builder, v, [min(i, v.type.count - 1) for i in range(size)]) for v in (total, value)]
        order = [*range(lanes), *range(size, size + count)]
        total = builder.shuffle_vector(*pair, ir.Constant(ir.VectorType(I32, len(order)), order))
    return total
