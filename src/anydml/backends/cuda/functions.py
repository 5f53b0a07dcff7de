"""The operators on device arrays, behind the functions of `anydml.functions`, which have checked the arguments.

Results come from the caller's library. The parts of a split share one new block, each at a multiple of 16 bytes: the
kernel finds evenly spaced parts without a pointer or a table, and what table others need holds no address, so that it
is uploaded once and serves every later call.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from anydml.arrays import output_array, output_arrays
from anydml.backends.cuda import memory
from anydml.backends.cuda.available import is_interpreted, require_gpu
from anydml.backends.cuda.engine import CudaProgram, as_operand, check_interpretable
from anydml.backends.device_array import DeviceArray, as_array
from anydml.backends.program_cache import ProgramCache
from anydml.errors import BindingError
from anydml.moves import Access, Move, simplify
from anydml.operators.gather import gather_moves
from anydml.operators.parts import part_moves
from anydml.operators.slice import slice_moves
from anydml.tensor import Layout

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]

_remembered = ProgramCache()
"""Programs for layouts seen before."""

ALIGNMENT = 16
"""Bytes that divide where a part begins in its block: the widest load."""


def split(name: str, x: Array, sizes: Sizes, axis: int, out: Sequence[Any] | None) -> list[Any]:
    """Split along an axis, into parts of one block or into `out`.

    Args:
        name: what errors call the function.
        x: a `DeviceArray`, or a NumPy array where kernels are interpreted.
        sizes: of the parts along `axis`; they add up.
        axis: 0 to rank − 1.
        out: device arrays to write to.

    Raises:
        BindingError: `out` does not fit, or overlaps.
    """
    gpu = _gpu(name, x)
    shapes = [(*x.shape[:axis], size, *x.shape[axis + 1 :]) for size in sizes]
    if out is not None:
        operands = [as_operand(name, f"out[{k}]", array, gpu) for k, array in enumerate(out)]
        output_arrays(name, operands, shapes, x.dtype, x)
        if x.size:
            strides = tuple(operand.strides for operand in operands)
            _split_program(x.shape, x.strides, x.itemsize, sizes, axis, strides, gpu).run((x, *operands))
        return list(out)
    starts = block_starts(shapes, x.itemsize)
    block = memory.empty(x, starts[-1])
    if x.size:
        _block_program(x.shape, x.strides, x.itemsize, sizes, axis, gpu).run((x, as_array(block)))
    return [
        block[start : start + math.prod(shape)].reshape(shape) for start, shape in zip(starts, shapes, strict=False)
    ]


def join(name: str, parts: Sequence[Array], axis: int, shape: Sizes, out: Any | None) -> Any:
    """Join parts of one dtype along an axis into `shape`.

    Raises:
        BindingError: the parts do not lie on one device, or `out` does not fit or overlaps one.
    """
    gpu = _gpu(name, *parts)
    result, operand = _result(name, parts, shape, out, gpu)
    if operand.size:
        shapes, strides = tuple(p.shape for p in parts), tuple(p.strides for p in parts)
        _join_program(shapes, strides, operand.itemsize, axis, operand.strides, gpu).run((*parts, operand))
    return result


def slice_(name: str, x: Array, starts: Sizes, shape: Sizes, steps: Sizes, out: Any | None) -> Any:
    """``result[c] = x[starts + steps · c]``.

    Raises:
        BindingError: `out` does not fit, or overlaps x.
    """
    gpu = _gpu(name, x)
    result, operand = _result(name, (x,), shape, out, gpu)
    if operand.size:
        layouts = (x.shape, x.strides, x.itemsize, shape, operand.strides)
        _slice_program(*layouts, starts, steps, gpu).run((x, operand))
    return result


def gather(x: Array, indices: Array, axis: int, out: Any | None) -> Any:
    """Elements along an axis picked by integers; x's axis has elements if there are indices.

    Raises:
        BindingError: x and the indices do not lie on one device, or `out` does not fit or overlaps one of them.
    """
    gpu = _gpu("gather", x, indices)
    shape = x.shape[:axis] + indices.shape + x.shape[axis + 1 :]
    result, operand = _result("gather", (x, indices), shape, out, gpu)
    if operand.size:
        layouts = (x.shape, x.strides, x.itemsize, indices.shape, indices.strides, operand.strides)
        _gather_program(*layouts, axis, indices.dtype.name, gpu).run((x, indices, operand))
    return result


def block_starts(shapes: Sequence[Sizes], itemsize: int) -> list[int]:
    """Where parts begin in their common block, in elements, and its size."""
    unit = math.lcm(ALIGNMENT, itemsize) // itemsize
    return [0, *itertools.accumulate(-(-math.prod(shape) // unit) * unit for shape in shapes)]


def _gpu(name: str, *arrays: Array) -> int | None:
    """The one GPU that all arrays lie on, None where kernels are interpreted.

    Raises:
        BindingError: they do not lie on one.
        ValueError: what `Device("cuda")` needs is missing.
    """
    if _is_host():
        for array in arrays:
            check_interpretable(name, "an array", array)
        return None
    places = {f"cuda:{array.gpu}" if isinstance(array, DeviceArray) else "the host" for array in arrays}
    if len(places) > 1 or places == {"the host"}:
        message = f"{name}: the arrays lie on {' and '.join(sorted(places))}"
        raise BindingError(message, name, None, "all arrays lie on one GPU")
    gpu: int = arrays[0].gpu  # type: ignore[attr-defined]  # all are DeviceArrays
    return gpu


@cache
def _is_host() -> bool:
    require_gpu("cuda")
    return is_interpreted()


def _result(name: str, inputs: Sequence[Array], shape: Sizes, out: Any | None, gpu: int | None) -> tuple[Any, Array]:
    """What the caller gets, and the operand that stands for it."""
    if out is None:
        result = memory.empty(inputs[0], math.prod(shape)).reshape(shape)
        return result, as_array(result)
    operand = as_operand(name, "out", out, gpu)
    output_array(name, operand, shape, inputs[0].dtype, inputs)
    return out, operand


def _program(name: str, moves: Sequence[Move], gpu: int | None) -> CudaProgram:
    return CudaProgram(name, simplify(moves), set(), gpu)


@_remembered
def _block_program(
    shape: Sizes, strides: Sizes, itemsize: int, sizes: Sizes, axis: int, gpu: int | None
) -> CudaProgram:
    shapes = [(*shape[:axis], size, *shape[axis + 1 :]) for size in sizes]
    layouts = [Layout.packed(part, itemsize) for part in shapes]
    moves = part_moves((0, Layout(shape, strides, itemsize)), list(enumerate(layouts, 1)), axis, into_whole=False)
    starts = block_starts(shapes, itemsize)
    moves = tuple(
        move._replace(destination=Access(1, start * itemsize, move.destination.strides))
        for move, start in zip(moves, starts, strict=False)
    )
    return _program("split", moves, gpu)


@_remembered
def _split_program(
    shape: Sizes, strides: Sizes, itemsize: int, sizes: Sizes, axis: int, out: tuple[Sizes, ...], gpu: int | None
) -> CudaProgram:
    parts = [
        (k, Layout((*shape[:axis], size, *shape[axis + 1 :]), steps, itemsize))
        for k, (size, steps) in enumerate(zip(sizes, out, strict=True), 1)
    ]
    return _program("split", part_moves((0, Layout(shape, strides, itemsize)), parts, axis, into_whole=False), gpu)


@_remembered
def _join_program(
    shapes: tuple[Sizes, ...], strides: tuple[Sizes, ...], itemsize: int, axis: int, out: Sizes, gpu: int | None
) -> CudaProgram:
    first = shapes[0]
    whole = (*first[:axis], sum(shape[axis] for shape in shapes), *first[axis + 1 :])
    parts = [(k, Layout(*pair, itemsize)) for k, pair in enumerate(zip(shapes, strides, strict=True))]
    return _program("join", part_moves((len(parts), Layout(whole, out, itemsize)), parts, axis, into_whole=True), gpu)


@_remembered
def _slice_program(
    shape: Sizes, strides: Sizes, itemsize: int, sizes: Sizes, out: Sizes, starts: Sizes, steps: Sizes, gpu: int | None
) -> CudaProgram:
    moves = slice_moves(Layout(shape, strides, itemsize), Layout(sizes, out, itemsize), starts, steps)
    return _program("slice", moves, gpu)


@_remembered
def _gather_program(
    shape: Sizes, strides: Sizes, itemsize: int, index_shape: Sizes, index_strides: Sizes, out: Sizes,
    axis: int, index_dtype: str, gpu: int | None,
) -> CudaProgram:  # fmt: skip
    destination = Layout(shape[:axis] + index_shape + shape[axis + 1 :], out, itemsize)
    indices = Layout(index_shape, index_strides, np.dtype(index_dtype).itemsize)
    return _program(
        "gather", gather_moves(Layout(shape, strides, itemsize), indices, destination, axis, index_dtype), gpu
    )
