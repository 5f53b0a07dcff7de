"""The operators on host arrays, behind the functions of `anydml.functions`, which have checked the arguments.

Results lie in memory that the caller's library can take (`guest`), or in `out`. Elements that are references, and
strings of several lengths, are moved by NumPy, which counts and pads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from anydml.arrays import is_movable, moved_positions, output_array, output_arrays, strides_key
from anydml.backends.cpu.engine import CpuProgram, program
from anydml.interop import Guest
from anydml.operators.gather import gather_moves
from anydml.operators.parts import part_moves
from anydml.operators.slice import slice_moves
from anydml.tensor import Layout

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

PLANS = 512
"""Programs that each function keeps for layouts it has seen."""


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
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    outputs = output_arrays(name, out, [(*before, size, *after) for size in sizes], x.dtype, x, guest)
    if not is_movable(x.dtype):
        start = 0
        for output, size in zip(outputs, sizes, strict=True):
            output[...] = x[(np.s_[:],) * axis + (np.s_[start : start + size],)]
            start += size
    elif x.size:
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
    if not is_movable(dtype) or any(part.dtype != dtype for part in parts):
        np.concatenate(parts, axis, out=result)
    elif result.size:
        shapes, strides = tuple(p.shape for p in parts), tuple(p.strides for p in parts)
        _join_program(shapes, strides, dtype.itemsize, axis, strides_key(result, out)).run((*parts, result))
    return result


def slice_(name: str, x: Array, starts: Sizes, shape: Sizes, steps: Sizes, out: Any, guest: Guest | None) -> Array:
    """``result[c] = x[starts + steps · c]``.

    Raises:
        BindingError: `out` does not fit, or overlaps x.
    """
    result = output_array(name, out, shape, x.dtype, (x,), guest)
    if not is_movable(x.dtype):
        positions = slice_(name, moved_positions(x), starts, shape, steps, None, None)
        result[...] = x.reshape(-1)[positions]
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
    result = output_array("gather", out, shape, x.dtype, (x, indices), guest)
    if not is_movable(x.dtype):
        positions = gather(moved_positions(x), indices, axis, None, None)
        result[...] = x.reshape(-1)[positions]
    elif result.size:
        key = (x.shape, x.strides, x.itemsize, indices.shape, indices.strides, indices.dtype.name)
        _gather_program(*key, axis, strides_key(result, out)).run((x, indices, result))
    return result


def _output_layout(shape: Sizes, strides: Sizes | None, itemsize: int) -> Layout:
    return Layout.packed(shape, itemsize) if strides is None else Layout(shape, strides, itemsize)


@lru_cache(PLANS)
def _split_program(
    shape: Sizes, source_strides: Sizes, itemsize: int, sizes: Sizes, axis: int, out: tuple[Sizes, ...] | None
) -> CpuProgram:
    before, after = shape[:axis], shape[axis + 1 :]
    every = (None,) * len(sizes) if out is None else out
    parts = [
        (k, _output_layout((*before, size, *after), strides, itemsize))
        for k, (size, strides) in enumerate(zip(sizes, every, strict=True), 1)
    ]
    return program("split", part_moves((0, Layout(shape, source_strides, itemsize)), parts, axis, into_whole=False))


@lru_cache(PLANS)
def _join_program(
    shapes: tuple[Sizes, ...], strides: tuple[Sizes, ...], itemsize: int, axis: int, out: Sizes | None
) -> CpuProgram:
    first = shapes[0]
    whole = (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])
    parts = [(k, Layout(*pair, itemsize)) for k, pair in enumerate(zip(shapes, strides, strict=True))]
    return program("join", part_moves((len(parts), _output_layout(whole, out, itemsize)), parts, axis, into_whole=True))


@lru_cache(PLANS)
def _slice_program(
    shape: Sizes, strides: Sizes, itemsize: int, starts: Sizes, sizes: Sizes, steps: Sizes, out: Sizes | None
) -> CpuProgram:
    source = Layout(shape, strides, itemsize)
    return program("slice", slice_moves(source, _output_layout(sizes, out, itemsize), starts, steps))


@lru_cache(PLANS)
def _gather_program(
    shape: Sizes, strides: Sizes, itemsize: int, index_shape: Sizes, index_strides: Sizes, index_dtype: str,
    axis: int, out: Sizes | None,
) -> CpuProgram:  # fmt: skip
    source = Layout(shape, strides, itemsize)
    indices = Layout(index_shape, index_strides, np.dtype(index_dtype).itemsize)
    destination = _output_layout(shape[:axis] + index_shape + shape[axis + 1 :], out, itemsize)
    return program("gather", gather_moves(source, indices, destination, axis, index_dtype))
