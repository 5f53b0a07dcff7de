"""Contents of the inputs of descs that a document decides: indices that exist, none twice where they are written to."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.random import Generator

from anydml import operators
from anydml.feature_level import FeatureLevel
from anydml.referee.directml.features import columns_of
from anydml.tensor import DataType

NEAR = Fraction(1, 1000)
"""Positions of a resample this near to a change of rounding are left out: the document does not say its arithmetic."""


def elements(rng: Generator, dtype: np.dtype[Any], count: int, has_nan: bool) -> Any:
    """Return elements that differ as far as the type permits, among them zeros and the type's limits."""
    values = (int(rng.integers(1, 30)) + np.arange(count)).astype(dtype)
    specials: list[Any] = [0]
    if dtype.kind == "f":
        specials += [-0.0, np.inf, -1.5, *([np.nan] if has_nan else [])]
    else:
        specials += [np.iinfo(dtype).min, np.iinfo(dtype).max]
    for k in np.flatnonzero(rng.random(count) < 0.1):
        values[k] = specials[int(rng.integers(len(specials)))]
    return values


def an_index(rng: Generator, size: int, is_signed: bool) -> int:
    """Return an index of an axis, from either end if the type is signed; the first and the last are likely."""
    low = -size if is_signed else 0
    candidates = [int(rng.integers(low, size)), low, size - 1, 0]
    return candidates[int(rng.integers(4))]


def fill(rng: Generator, desc: Any, inputs: list[Any]) -> None:
    """Write valid contents to the inputs of a desc.

    Args:
        rng: the random numbers.
        desc: the desc.
        inputs: arrays with the sizes of the desc's inputs; where elements share memory, the last one counts.
    """
    for (name, _), array in zip(desc.inputs, inputs, strict=True):
        is_signed = array.dtype.kind == "i"
        if name == "IndicesTensor":
            array[...] = _indices(rng, desc, array, is_signed)
        elif name == "SequenceLengthsTensor":
            longest = desc.input_tensor.sizes[desc.axis]
            array[...] = rng.integers(0, longest + 2, array.shape).astype(array.dtype)
        elif name == "ConditionTensor":
            array[...] = rng.integers(0, 256, array.shape) * rng.integers(0, 2, array.shape)
        else:
            has_nan = desc.OPERATOR != "DML_NONZERO_COORDINATES"
            array[...] = elements(rng, array.dtype, array.size, has_nan).reshape(array.shape)
            if not has_nan:
                array[rng.random(array.shape) < 0.5] = 0


def _indices(rng: Generator, desc: Any, array: Any, is_signed: bool) -> Any:
    """Return indices of the kind that a desc has."""
    shape = array.shape
    if desc.OPERATOR == "DML_ONE_HOT":
        size = desc.output_tensor.sizes[desc.axis]
        beyond = rng.integers(size + 1, size + 9, shape)
        return np.where(rng.random(shape) < 0.2, beyond, _one_of_each(rng, shape, size, is_signed))
    if hasattr(desc, "axis"):
        size = desc.input_tensor.sizes[desc.axis]
        if desc.OPERATOR == "DML_SCATTER":
            return _distinct(rng, shape, desc.axis, size, is_signed)
        return _one_of_each(rng, shape, size, is_signed)
    batch = getattr(desc, "batch_dimension_count", 0)
    axes = desc.input_tensor.sizes[len(desc.input_tensor.sizes) - desc.input_dimension_count :]
    sizes = axes[batch : batch + shape[-1]]
    if desc.OPERATOR != "DML_SCATTER_ND":
        return np.stack([_one_of_each(rng, shape[:-1], size, is_signed) for size in sizes], -1)
    chosen = rng.permutation(math.prod(sizes))[: math.prod(shape[:-1])]
    columns = np.stack(np.unravel_index(chosen, sizes), -1).reshape(shape)
    return np.where(is_signed & (rng.random(shape) < 0.4), columns - np.array(sizes), columns)


def _one_of_each(rng: Generator, shape: tuple[int, ...], size: int, is_signed: bool) -> Any:
    indices = [an_index(rng, size, is_signed) for _ in range(math.prod(shape))]
    return np.array(indices, np.int64).reshape(shape)


def _distinct(rng: Generator, shape: tuple[int, ...], axis: int, size: int, is_signed: bool) -> Any:
    """Return indices along an axis that differ within each line."""
    lines = np.zeros((*shape[:axis], *shape[axis + 1 :], shape[axis]), np.int64)
    for at in np.ndindex(*lines.shape[:-1]):
        lines[at] = rng.permutation(size)[: shape[axis]]
    indices = np.moveaxis(lines, -1, axis)
    return np.where(is_signed & (rng.random(shape) < 0.4), indices - size, indices)


def is_decided(desc: Any, level: FeatureLevel) -> bool:
    """Return whether the documents determine the desc's results, whatever its inputs contain."""
    types = {name: tensor.data_type for name, tensor in (*desc.inputs, *desc.outputs)}
    if level < FeatureLevel.LEVEL_3_0 and types.get("IndicesTensor", DataType.UINT32).dtype.kind == "i":
        return False
    match desc:
        case operators.PaddingOperatorDesc() | operators.Padding1OperatorDesc():
            return _is_padding_decided(desc)
        case operators.DiagonalMatrixOperatorDesc():
            return _is_held(desc.value, desc.output_tensor.data_type)
        case operators.FillValueSequenceOperatorDesc():
            count = math.prod(desc.output_tensor.sizes)
            ends = [desc.value_start + k * desc.value_delta for k in (0, count)]
            are_integers = all(
                float(number).is_integer() and abs(number) < 2048 for number in (*ends, desc.value_delta)
            )
            return are_integers and all(_is_held(number, desc.output_tensor.data_type) for number in ends)
        case operators.ScatterOperatorDesc():
            return bool(desc.indices_tensor.sizes[desc.axis] <= desc.input_tensor.sizes[desc.axis])
        case operators.ScatterNdOperatorDesc():
            sizes = desc.input_tensor.sizes[len(desc.input_tensor.sizes) - desc.input_dimension_count :]
            *leading, length = desc.indices_tensor.sizes
            return math.prod(leading) <= math.prod(sizes[:length])
    return all(_is_place_decided(desc, grid, axis) for axis, grid in enumerate(getattr(desc, "grids", list)()))


def _is_held(value: float, data_type: DataType) -> bool:
    """Return whether an integer type holds a number without truncation."""
    dtype = data_type.dtype
    if dtype.kind == "f":
        return True
    bounds = np.iinfo(dtype)
    return math.isfinite(value) and float(value).is_integer() and bounds.min <= value <= bounds.max


def _is_padding_decided(desc: Any) -> bool:
    ends = [max(pair) for pair in zip(desc.start_padding, desc.end_padding, strict=True)]
    sizes = desc.input_tensor.sizes
    mode = desc.padding_mode.name
    if mode == "CONSTANT":
        value = getattr(desc, "padding_value", 0)
        return _is_held(value, desc.output_tensor.data_type) and math.isfinite(value)
    if mode == "REFLECTION":
        return all(end < size for end, size in zip(ends, sizes, strict=True))
    if mode == "SYMMETRIC":
        return all(end <= size for end, size in zip(ends, sizes, strict=True))
    return bool(mode == "EDGE")


def _is_place_decided(desc: Any, grid: Any, axis: int) -> bool:
    """Return whether no coordinate of an axis is close to a coordinate that is rounded the other way."""
    halves = Fraction(1, 2) if grid.direction is None else Fraction(0)
    scale, of_input, of_output = (
        Fraction(float(np.float32(numbers))) for numbers in (grid.scale, grid.of_input, grid.of_output)
    )
    for c in range(desc.output_tensor.sizes[axis]):
        coordinate = (c - of_output) / scale - of_input - halves
        if abs(coordinate - round(coordinate)) < NEAR:
            return False
    return True


def are_decided(desc: Any, inputs: list[Any]) -> bool:
    """Return whether the documents determine the results for these inputs: indices are in range, and written once.

    Args:
        desc: the desc.
        inputs: arrays in the sizes of its inputs.
    """
    for (name, _), array in zip(desc.inputs, inputs, strict=True):
        if name != "IndicesTensor":
            continue
        columns = columns_of(desc, array)
        if desc.OPERATOR != "DML_ONE_HOT" and any(
            ((column < -size) | (column >= size)).any() for column, size in columns
        ):
            return False
        if desc.OPERATOR == "DML_SCATTER":
            ((indices, size),) = columns
            lines = np.moveaxis(indices % size, desc.axis, -1).reshape(-1, array.shape[desc.axis])
            return all(len({*line}) == len(line) for line in lines.tolist())
        if desc.OPERATOR == "DML_SCATTER_ND":
            places = np.stack([column % size for column, size in columns], -1).reshape(-1, len(columns))
            return len({*map(tuple, places.tolist())}) == len(places)
    return True
