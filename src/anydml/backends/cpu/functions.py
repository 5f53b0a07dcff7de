"""The operators on host arrays, behind the functions of `anydml.functions`, which have checked the arguments.

Results lie in memory that the caller's library can take (`guest`), or in `out`. Elements that are references, and
strings of several lengths, are moved by NumPy, which counts and pads them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anydml.arrays import is_movable, moved_positions, output_array, output_arrays, strides_key
from anydml.backends.cpu.engine import CpuProgram, program
from anydml.backends.cpu.small import take
from anydml.backends.program_cache import ProgramCache
from anydml.interop import Guest
from anydml.moves import Access, Move
from anydml.operators.gather import gather_moves
from anydml.operators.parts import part_moves
from anydml.operators.slice import slice_moves
from anydml.tensor import Layout

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

PATIENT = True
"""How programs are made: each may be the only one of its kind."""

_remembered = ProgramCache()
"""Programs for layouts seen before."""

FEW_BYTES = 4 << 10
TAKE_FACTOR = 16
"""Numbers up to here are moved by one NumPy call a result: to find and bind a program would take longer than that. So
many times as many are picked by one, because `take` stays as fast as a program."""

_ALL = slice(None)


def split(name: str, x: Array, sizes: Sizes, axis: int, out: Sequence[Any] | None, guest: Guest | None) -> list[Array]:
    """Split along an axis.

    Args:
        name: what errors call the function.
        x: array of any dtype.
        sizes: of the parts along `axis`; they add up.
        axis: 0 to rank − 1.
        out: the caller's arrays to write to.
        guest: whose x is, None for NumPy's.

    Raises:
        BindingError: `out` does not fit, or overlaps.
    """
    is_few = _is_few(x.dtype, x.nbytes)
    if is_few and out is None and guest is None:
        return [part.copy() for part in _parts(x, sizes, axis)]
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    outputs: list[Array] = output_arrays(name, out, [(*before, size, *after) for size in sizes], x.dtype, x, guest)
    if is_few or not is_movable(x.dtype):
        for output, part in zip(outputs, _parts(x, sizes, axis), strict=True):
            output[...] = part
    elif not x.size:
        pass
    elif x.flags.c_contiguous and (out is None or all(output.flags.c_contiguous for output in outputs)):
        _packed_split_program(math.prod(before), math.prod(after) * x.itemsize, sizes).run((x, *outputs))
    else:
        strides = None if out is None else tuple(output.strides for output in outputs)
        _split_program(x.shape, x.strides, x.itemsize, sizes, axis, strides).run((x, *outputs))
    return outputs


def join(
    name: str, parts: Sequence[Array], axis: int, shape: Sizes, dtype: np.dtype[Any], out: Any, guest: Guest | None
) -> Array:
    """Join parts along an axis into `shape`; `dtype` holds the elements of all.

    Raises:
        BindingError: `out` does not fit, or overlaps a part.
    """
    result = output_array(name, out, shape, dtype, parts, guest)
    if _is_few(dtype, result.nbytes) or not is_movable(dtype) or any(part.dtype != dtype for part in parts):
        np.concatenate(parts, axis, out=result)
    elif not result.size:
        pass
    elif result.flags.c_contiguous and all(part.flags.c_contiguous for part in parts):
        sizes = tuple(part.shape[axis] for part in parts)
        run = math.prod(shape[axis + 1 :]) * dtype.itemsize
        _packed_join_program(math.prod(shape[:axis]), run, sizes).run((*parts, result))
    else:
        shapes, strides = tuple(p.shape for p in parts), tuple(p.strides for p in parts)
        _join_program(shapes, strides, dtype.itemsize, axis, strides_key(result, out)).run((*parts, result))
    return result


def slice_(name: str, x: Array, starts: Sizes, shape: Sizes, steps: Sizes, out: Any, guest: Guest | None) -> Array:
    """``result[c] = x[starts + steps · c]``.

    Raises:
        BindingError: `out` does not fit, or overlaps x.
    """
    result = output_array(name, out, shape, x.dtype, (x,), guest)
    if _is_few(x.dtype, result.nbytes) or not is_movable(x.dtype):
        result[...] = x[tuple(map(_taken, starts, shape, steps))]
    elif result.size:
        key = (x.shape, x.strides, x.itemsize, starts, shape, steps)
        _slice_program(*key, strides_key(result, out)).run((x, result))
    return result


def gather(x: Array, indices: Array, axis: int, out: Any, guest: Guest | None) -> Array:
    """Elements along an axis picked by integers; x's axis has elements if there are indices.

    Raises:
        BindingError: `out` does not fit, or overlaps x or the indices.
    """
    shape = x.shape[:axis] + indices.shape + x.shape[axis + 1 :]
    is_taken = _is_taken(x, shape)
    if is_taken and out is None and guest is None:
        return take(x, indices, axis)
    result = output_array("gather", out, shape, x.dtype, (x, indices), guest)
    if is_taken:
        result[...] = take(x, indices, axis)
    elif not is_movable(x.dtype):
        positions = gather(moved_positions(x), indices, axis, None, None)
        result[...] = x.reshape(-1)[positions]
    elif result.size:
        if x.strides[-1] != x.itemsize and x.nbytes <= result.nbytes:
            # Single elements far apart are found faster in a copy where they lie side by side.
            x = slice_("gather", x, (0,) * x.ndim, x.shape, (1,) * x.ndim, None, None)
        key = (x.shape, x.strides, x.itemsize, indices.shape, indices.strides, indices.dtype.name)
        _gather_program(*key, axis, strides_key(result, out)).run((x, indices, result))
    return result


def _is_few(dtype: np.dtype[Any], size: int, factor: int = 1) -> bool:
    """Whether so many bytes of this dtype are few numbers, or `factor` times as many."""
    return size <= factor * FEW_BYTES and dtype.kind in "biufc"


def _parts(x: Array, sizes: Sizes, axis: int) -> Iterator[Array]:
    """Views of the parts."""
    before = (_ALL,) * axis
    start = 0
    for size in sizes:
        yield x[(*before, slice(start, start + size))]
        start += size


def _is_taken(x: Array, shape: Sizes) -> bool:
    """Whether a result is left to NumPy's `take`, which copies all of an x that is not contiguous."""
    if x.nbytes > FEW_BYTES and not (x.flags.c_contiguous and x.flags.aligned):
        return False
    # Without dimensions it would be a scalar, which has no byte order.
    return shape != () and _is_few(x.dtype, math.prod(shape) * x.itemsize, TAKE_FACTOR)


def _taken(start: int, size: int, step: int) -> slice:
    """The elements of one dimension, from the first one on, in either direction."""
    end = start + size * step
    return slice(start, end if end >= 0 else None, step) if size else slice(0)


def _output_layout(shape: Sizes, strides: Sizes | None, itemsize: int) -> Layout:
    return Layout.packed(shape, itemsize) if strides is None else Layout(shape, strides, itemsize)


@_remembered
def _split_program(
    shape: Sizes, source_strides: Sizes, itemsize: int, sizes: Sizes, axis: int, out: tuple[Sizes, ...] | None
) -> CpuProgram:
    before, after = shape[:axis], shape[axis + 1 :]
    every = (None,) * len(sizes) if out is None else out
    parts = [
        (k, _output_layout((*before, size, *after), strides, itemsize))
        for k, (size, strides) in enumerate(zip(sizes, every, strict=True), 1)
    ]
    return program(
        "split", part_moves((0, Layout(shape, source_strides, itemsize)), parts, axis, into_whole=False), PATIENT
    )


@_remembered
def _packed_split_program(rows: int, run: int, sizes: Sizes) -> CpuProgram:
    return CpuProgram("split", packed_part_moves(rows, [size * run for size in sizes], into_whole=False), PATIENT)


@_remembered
def _packed_join_program(rows: int, run: int, sizes: Sizes) -> CpuProgram:
    return CpuProgram("join", packed_part_moves(rows, [size * run for size in sizes], into_whole=True), PATIENT)


def packed_part_moves(rows: int, runs: Sequence[int], into_whole: bool) -> tuple[Move, ...]:
    """The simplified moves of a whole and its parts where all lie packed.

    The same as `part_moves`, simplified, in a fraction of the time: sizes that are new on every call pay it every time.

    Args:
        rows: how often the parts follow each other in the whole, at least once.
        runs: each part's bytes in one of these rows.
        into_whole: True joins the parts (operands 0, 1 …) into the whole, False splits the whole (operand 0) into them.
    """
    whole = sum(runs)
    moves = []
    start = 0
    for number, run in enumerate(runs, 0 if into_whole else 1):
        if run:
            single = rows == 1 or run == whole
            part = Access(number, 0, () if single else (run,))
            place = Access(len(runs) if into_whole else 0, start, () if single else (whole,))
            ends = (place, part) if into_whole else (part, place)
            moves.append(Move((), *ends, rows * run) if single else Move((rows,), *ends, run))
            start += run
    return tuple(moves)


@_remembered
def _join_program(
    shapes: tuple[Sizes, ...], strides: tuple[Sizes, ...], itemsize: int, axis: int, out: Sizes | None
) -> CpuProgram:
    first = shapes[0]
    whole = (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])
    parts = [(k, Layout(*pair, itemsize)) for k, pair in enumerate(zip(shapes, strides, strict=True))]
    moves = part_moves((len(parts), _output_layout(whole, out, itemsize)), parts, axis, into_whole=True)
    return program("join", moves, PATIENT)


@_remembered
def _slice_program(
    shape: Sizes, strides: Sizes, itemsize: int, starts: Sizes, sizes: Sizes, steps: Sizes, out: Sizes | None
) -> CpuProgram:
    source = Layout(shape, strides, itemsize)
    return program("slice", slice_moves(source, _output_layout(sizes, out, itemsize), starts, steps), PATIENT)


@_remembered
def _gather_program(
    shape: Sizes, strides: Sizes, itemsize: int, index_shape: Sizes, index_strides: Sizes, index_dtype: str,
    axis: int, out: Sizes | None,
) -> CpuProgram:  # fmt: skip
    source = Layout(shape, strides, itemsize)
    indices = Layout(index_shape, index_strides, np.dtype(index_dtype).itemsize)
    destination = _output_layout(shape[:axis] + index_shape + shape[axis + 1 :], out, itemsize)
    return program("gather", gather_moves(source, indices, destination, axis, index_dtype), PATIENT)
