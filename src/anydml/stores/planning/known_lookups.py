"""Lookups by known index arrays, as moves of evenly spaced runs, or as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from anydml.engines.common import index_error
from anydml.errors import BindingError
from anydml.moves import Access, Fill, Lookup, Move, Program
from anydml.moves.simplify import simplify
from anydml.moves.wrapped_indices import wrapped
from anydml.stores.formats.store import Array
from anydml.stores.planning.copies import MAX_COPIES, MAX_SINGLE_COPIES, RunCopies, copies_of
from anydml.stores.planning.picks import Pick, distances
from anydml.text import bytes_text

MAX_MOVE_RUNS = 1 << 16
"""Maximum number of runs that one move may pick."""

ReadOperand = Callable[[int], Array]
"""Returns the bytes of an operand."""


def reader_of(name: str, inputs: Sequence[Any], constants: Mapping[int, Array], max_bytes: int) -> ReadOperand:
    """Return a function that returns the bytes of a constant, or of an input, which it reads once, by number.

    Args:
        name: the name of the program, for errors.
        inputs: stores, by number.
        constants: the constants, by operand number.
        max_bytes: the maximum size in bytes of an input.
    """
    constant_bytes = {k: value.reshape(-1).view(np.uint8) for k, value in constants.items()}

    def read(operand: int) -> Array:
        if operand not in constant_bytes:
            if (size := inputs[operand].nbytes) > max_bytes:
                raise BindingError(
                    f"{name}: the indices in {inputs[operand]!r} need {bytes_text(size)} of memory, but buffers have "
                    f"{bytes_text(max_bytes)}: give more memory"
                )
            constant_bytes[operand] = np.frombuffer(inputs[operand].read().tobytes("A"), np.uint8)
        return constant_bytes[operand]

    return read


def pick_of(program: Program, move: Move, read: ReadOperand) -> Pick:
    """Return a move with known lookups as a pick.

    Raises:
        BindingError: its destination is looked up, or an index depends on another.
        IndexError: an index is out of range, and that is refused.
    """
    source = move.source
    if isinstance(source, Fill) or move.destination.lookups or any(lookup.lookups for lookup in source.lookups):
        raise BindingError(f"{program.name}: writing by indices, or indices of indices, cannot be planned over files")
    by = sorted({k for x in source.lookups for k, stride in enumerate(x.strides) if stride and move.sizes[k] > 1})
    sizes = tuple(move.sizes[k] for k in by)
    shift = distances(sizes, [source.strides[k] for k in by])
    is_kept = np.ones(sizes, bool)
    for lookup in source.lookups:
        index, in_range = _indices(program, lookup, by, sizes, read)
        is_kept &= in_range | (lookup.outside != "skip")
        shift += np.clip(index, 0, lookup.size - 1) * lookup.stride
    strides = tuple(0 if k in by else stride for k, stride in enumerate(source.strides))
    return Pick(move._replace(source=Access(source.operand, source.offset, strides)), tuple(by), shift, is_kept)


def resolve_lookups(program: Program, read: ReadOperand) -> Iterator[Move | RunCopies]:
    """Yield the moves of a program, with a move per evenly spaced run of indices in place of each lookup.

    Many runs of contiguous bytes become rows, which may run over several axes.

    Raises:
        BindingError: as `pick_of`, or there are too many runs.
        IndexError: as `pick_of`.
    """
    for move in program.moves:
        if not move.has_lookups:
            yield move
            continue
        pick = pick_of(program, move, read)
        rows = _rows(program, pick)
        yield from runs_of(program, pick) if rows is None else (rows,)


def runs_of(program: Program, pick: Pick) -> Iterator[Move]:
    """Yield one move per evenly spaced run of a pick's elements, with dimensions of the pick.

    Raises:
        BindingError: there are too many.
    """
    move, by, shift = pick.move, pick.by, pick.shift
    sizes, to, source = shift.shape, move.destination, move.reads
    other_dimensions = [k for k in range(len(move.sizes)) if k not in by]
    last = sizes[-1] if by else 1
    table, keeps = shift.reshape(-1, last), pick.is_kept.reshape(-1, last)
    heads = np.stack(np.unravel_index(np.arange(len(table)), sizes[:-1] or (1,)), 1)
    count = 0
    for head, row, keep in zip(heads, table, keeps, strict=True):
        start = to.offset + sum(int(i) * to.strides[k] for i, k in zip(head, by[:-1], strict=False))
        for first, run, step in _evenly_spaced_runs(row, keep):
            count += 1
            if count > MAX_MOVE_RUNS:
                raise BindingError(
                    f"{program.name}: it picks more than {MAX_MOVE_RUNS} runs, the maximum of a move: divide the "
                    "indices among several plans"
                )
            inner = by[-1:] if run > 1 else ()
            writes = [to.strides[k] for k in (*other_dimensions, *inner)]
            reads = [*(source.strides[k] for k in other_dimensions), *([step] if inner else [])]
            yield Move(
                (*(move.sizes[k] for k in other_dimensions), *([run] if inner else [])),
                Access(to.operand, start + (first * to.strides[by[-1]] if by else 0), tuple(writes)),
                Access(source.operand, source.offset + int(row[first]), tuple(reads)),
                move.element_size,
            )


def _rows(program: Program, pick: Pick) -> RunCopies | None:
    """Return a pick as rows; None if runs are few, or elements are not contiguous."""
    if pick.runs <= MAX_SINGLE_COPIES:
        return None
    move, to, source = pick.move, pick.move.destination, pick.move.reads
    if program.operands[source.operand].role != "input" or program.operands[to.operand].role != "output":
        return None
    other_dimensions = [k for k in range(len(move.sizes)) if k not in pick.by]
    sizes = tuple(move.sizes[k] for k in other_dimensions)
    ends = [Access(end.operand, 0, tuple(end.strides[k] for k in other_dimensions)) for end in (to, source)]
    simplified = simplify([Move(sizes, ends[0], ends[1], move.element_size)])
    if len(simplified) != 1 or simplified[0].sizes:
        return None
    to_offsets = (
        distances(pick.shift.shape, [to.strides[k] for k in pick.by]) + to.offset + simplified[0].destination.offset
    )
    from_offsets, is_kept = pick.shift + source.offset + simplified[0].reads.offset, pick.is_kept
    copies = copies_of(
        to.operand, source.operand, to_offsets[is_kept], from_offsets[is_kept], simplified[0].element_size
    )
    if copies.to.size > MAX_COPIES:
        raise BindingError(
            f"{program.name}: it picks {copies.to.size} runs, but the maximum of a plan is {MAX_COPIES}: divide the "
            "indices among several plans"
        )
    return copies


def _indices(
    program: Program, lookup: Lookup, by: list[int], sizes: tuple[int, ...], read: ReadOperand
) -> tuple[Array, Array]:
    """Return the indices at each coordinate of some dimensions, and which are in range, as `_check_indices` does."""
    dtype = np.dtype(lookup.dtype)
    flat = read(lookup.operand)[lookup.offset :]
    strides = tuple(lookup.strides[k] for k in by)
    low = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if s < 0)
    high = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True) if s > 0) + dtype.itemsize
    content = read(lookup.operand)
    if lookup.offset + low < 0 or lookup.offset + high > content.size:
        raise AssertionError("indices lie within their operand")
    raw = np.lib.stride_tricks.as_strided(flat[: dtype.itemsize].view(dtype), (*sizes, 1), (*strides, dtype.itemsize))
    numbers = raw[..., 0]
    return _check_indices(program, lookup, numbers)


def _check_indices(program: Program, lookup: Lookup, indices: Array) -> tuple[Array, Array]:
    """Return indices, with negative ones counted from the end, and which of them are in range.

    Raises:
        IndexError: an index is out of range, and that is refused.
    """
    index = wrapped(indices, lookup.size)
    in_range = (index >= 0) & (index < lookup.size)
    if lookup.outside == "error" and not in_range.all():
        raise index_error(program, lookup, int(indices[~in_range].reshape(-1)[0]))
    return index, in_range


def _evenly_spaced_runs(row: Array, keep: Array) -> Iterator[tuple[int, int, int]]:
    """Yield the evenly spaced runs of a row: first index, length and step of each."""
    start, count = 0, len(row)
    steps = np.diff(row)
    # Runs end where the step changes, and before and after elements that are left out.
    breaks = np.flatnonzero((steps[1:] != steps[:-1]) | ~keep[2:] | ~keep[1:-1] | ~keep[:-2]) + 2
    ends = [*breaks.tolist(), count]
    position = 0
    while start < count:
        if not keep[start]:
            start += 1
            continue
        end = start + 1
        if end < count and keep[end]:
            while ends[position] < start + 2:
                position += 1
            end = ends[position]
            if steps[start] <= 0 and end - start < 3:
                end = start + 1
        yield start, end - start, int(steps[start]) if end - start > 1 else 0
        start = end
