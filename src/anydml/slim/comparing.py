"""Comparison of two graphs, by the elements that their nodes read."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.functions import copy
from anydml.onnx.budget import Budget
from anydml.onnx.graph_values import Array
from anydml.onnx.run_node import run_node
from anydml.proving.fingerprint_arithmetic import Marks, NoFingerprintError, of_array, of_place, seed_of
from anydml.proving.names import small_sizes
from anydml.slim.analysis import MOVEMENT, Analysis
from anydml.slim.graph import Graph, Op
from anydml.slim.pieces import FlatPiece, Pieces, flat_pieces

MAX_TENSOR_ELEMENTS = 1 << 20
"""Maximum number of elements of a tensor that are compared one by one."""

MAX_COMPARED_ELEMENTS = 1 << 23
"""Total number of elements that are compared one by one."""

ROWS = 64
"""Minimum number of rows that are compared at once: if one array is strided, they share its cache lines."""

LARGE_BITS = (20, 16, 12, 8)
"""Exponents of 2 of the large sizes that are tried, in this order, until tensors are not too large."""


def analyses_at_sizes(graph: Graph, names: Sequence[str]) -> Iterator[Analysis]:
    """Yield analyses for small symbolic sizes, and for large ones, first descending and then ascending by name."""
    if not names:
        return
    for sizes in (*small_sizes(names), dict.fromkeys(names, 1)):
        yield Analysis(graph, sizes)
    for bits in LARGE_BITS:
        large = (1 << bits) + 7
        falling = Analysis(graph, {name: large - n for n, name in enumerate(names)})
        if not falling.is_too_large:
            break
    yield falling
    yield Analysis(graph, {name: large + n for n, name in enumerate(names)})


def differing(before: Analysis, after: Analysis, by_shape: bool = False) -> Iterator[str]:
    """Yield the names of values that have other elements in the second graph than in the first.

    The inputs of nodes that compute are compared, and the outputs: by their pieces, or else element by element. The
    results of movement that only the second graph refuses are yielded, too.

    Args:
        before: the analysis of a graph.
        after: the analysis of the other graph.
        by_shape: whether values whose elements cannot be compared are the same if their shapes are.
    """
    elements = _Elements()
    refused = after.refused - before.refused
    yield from (name for name in refused if name in before.values)
    for old, new in dict.fromkeys(_pairs(before, after)):
        if new in refused or not _are_same(before, old, after, new, elements, by_shape):
            yield old


def _pairs(before: Analysis, after: Analysis) -> Iterator[tuple[str, str]]:
    """Yield pairs of names: the inputs of the same node in both graphs, and the outputs."""
    for op in before.graph.ops:
        if before.moves(op) or _is_empty(before, op):
            continue
        counterpart = after.graph.maker(next((name for name in op.outputs if name), ""))
        # Unused nodes have been dropped.
        if counterpart is None or (op.op_type in MOVEMENT and op.op_type != counterpart.op_type):
            continue
        if _is_alike(op, counterpart):
            yield from zip(op.inputs, counterpart.inputs, strict=True)
            yield from ((name, name) for name in op.captured if name in before.values)
        else:
            # No input or output of the node is known to be the same.
            yield from ((name, "") for name in (*op.inputs, *op.outputs) if name)
    yield from ((name, name) for name in before.graph.outputs)


def _is_alike(op: Op, other_op: Op) -> bool:
    """Whether two nodes have the same operator and, unless it moves elements, the same attributes."""
    if (op.op_type, len(op.inputs)) != (other_op.op_type, len(other_op.inputs)):
        return False
    return op.op_type in MOVEMENT or [*op.proto.attribute] == [*other_op.proto.attribute]


def _is_empty(analysis: Analysis, op: Op) -> bool:
    """Whether a movement node has no elements to move, so that it may be rewritten freely."""
    values = [analysis.values.get(name) for name in op.outputs if name]
    return op.op_type in MOVEMENT and all(value and value.tensor and not value.tensor.size for value in values)


def _are_same(
    before: Analysis, old: str, after: Analysis, new: str, elements: _Elements, by_shape: bool = False
) -> bool:
    if not old or not new:
        return old == new
    first, second = before.values.get(old), after.values.get(new)
    if by_shape and (first is None or first.tensor is None):
        return True
    if first is None or second is None:
        return first is None and second is None and old == new
    types = [(value.dtype, value.shape) for value in (first.tensor, second.tensor) if value is not None]
    if types[1:] and types[0] != types[1]:
        return False
    if old == new and (first is second or (first.op is None and second.op is None)):
        return True
    if first.tensor is None or second.tensor is None:
        return False
    if first.tensor.array is not None and second.tensor.array is not None:
        return bool(np.array_equal(first.tensor.array, second.tensor.array))
    ours, theirs = _pieces(before, old), _pieces(after, new)
    if ours is not None and theirs is not None:
        named = _by_source_names(before, ours)
        if named is not None and named == _by_source_names(after, theirs):
            return True
        are_equal_constants = _equal_constants(before, ours, after, theirs)
        if are_equal_constants is not None:
            return are_equal_constants
    old_marks, new_marks = elements.of(before, old), elements.of(after, new)
    if by_shape and (old_marks is None or new_marks is None):
        return True
    return old_marks is not None and new_marks is not None and np.array_equal(old_marks, new_marks)


def _equal_constants(before: Analysis, ours: Pieces, after: Analysis, theirs: Pieces) -> bool | None:
    """Whether two values have equal elements; None if one is not a piece of a constant."""
    first, second = _constant(before, ours), _constant(after, theirs)
    if not first or not second:
        return None
    # Constants may have gigabytes and do not depend on sizes, so they are compared once for all analyses.
    key = first, ours[0]._replace(source=0), after.graph.constants, second, theirs[0]._replace(source=0)
    compared = before.graph.constants.compared
    if key not in compared:
        arrays = _taken(before, first, ours[0]), _taken(after, second, theirs[0])
        compared[key] = None if arrays[0] is None or arrays[1] is None else _are_equal(arrays[0], arrays[1])
    return compared[key]


def _constant(analysis: Analysis, pieces: Pieces) -> str:
    """Return the name of the constant of which a value is a single piece; empty if there is none."""
    name = analysis.names.get(pieces[0].source, "") if len(pieces) == 1 else ""
    return name if name and analysis.values[name].is_constant else ""


def _taken(analysis: Analysis, name: str, piece: FlatPiece) -> Array | None:
    """Return a view of a piece's elements in a constant, as unsigned integers; None if there is no such view."""
    array = np.ascontiguousarray(analysis.graph.constants.read(name)).reshape(-1)
    if piece.size > array.size or piece.is_reversed:
        return None
    flat = array[piece.offset :]
    sizes = [digit.size for digit in piece.digits] or [1]
    strides = [digit.stride * flat.itemsize for digit in piece.digits] or [flat.itemsize]
    # As unsigned integers, so that NaN equals itself and 0 differs from −0.
    bits = flat.view(f"{'u' if flat.itemsize <= 8 else 'V'}{flat.itemsize}")
    return np.lib.stride_tricks.as_strided(bits, sizes, strides, writeable=False)


def _are_equal(first: Array, second: Array) -> bool:
    """Whether arrays have equal elements in row-major order."""
    # A contiguous array is reshaped to the other's shape, so that neither is copied as a whole.
    shape = max(first, second, key=lambda array: array.ndim).shape
    a, b = (array.reshape(shape) for array in (first, second))
    rows = max(ROWS, MAX_TENSOR_ELEMENTS // max(1, math.prod(shape[1:])))
    parts = (slice(k, k + rows) for k in range(0, len(a), rows))
    return all(np.array_equal(_pack(a[part]), _pack(b[part])) for part in parts)


def _pack(array: Array) -> Array:
    # Unlike NumPy, anydml reads a transposed part tile by tile.
    return array if array.flags.c_contiguous else np.asarray(copy(array))


def _pieces(analysis: Analysis, name: str) -> Pieces | None:
    value = analysis.values[name]
    return flat_pieces(analysis.operand(name)) if value.op is None else value.pieces_of_sources


def _by_source_names(analysis: Analysis, pieces: Pieces) -> list[tuple[str, FlatPiece]] | None:
    """Return pieces with the names of their sources; None if movement makes a source."""
    names = []
    for piece in pieces:
        name = analysis.names.get(piece.source, "")
        if name and analysis.values[name].op is not None:
            return None
        names.append((name, piece._replace(source=min(0, piece.source))))
    return names


class _Elements:
    """Identifies single elements, by fingerprints, within a budget."""

    def __init__(self) -> None:
        self._left = MAX_COMPARED_ELEMENTS

    def of(self, analysis: Analysis, name: str) -> Marks | None:
        """Return the fingerprints of a value; None if there are too many, or they cannot be moved."""
        marks_of: dict[str, Marks | None] = {}
        stack = [name]
        while stack:
            missing = [name for name in analysis.values[stack[-1]].data if name not in marks_of]
            if missing:
                stack += missing
            elif (top := stack.pop()) not in marks_of:
                marks_of[top] = self._moved(analysis, top, marks_of)
        return marks_of[name]

    def _moved(self, analysis: Analysis, name: str, marks_of: Mapping[str, Marks | None]) -> Marks | None:
        """Return the fingerprints of a value, given those of its sources."""
        value = analysis.values[name]
        input_marks = {name: marks for name in value.data if (marks := marks_of[name]) is not None}
        if (
            value.tensor is None
            or value.tensor.size > min(MAX_TENSOR_ELEMENTS, self._left)
            or len(input_marks) < len({*value.data})
        ):
            return None
        self._left -= value.tensor.size
        with np.errstate(over="ignore"), contextlib.suppress(NoFingerprintError):
            if value.op is None:
                return _of_source(analysis, name)
            moved_marks = _of_moved(analysis, value.op, input_marks.__getitem__)
            return None if moved_marks is None else moved_marks[value.output]
        return None


def _of_source(analysis: Analysis, name: str) -> Marks:
    """Return the fingerprints of a value: by its elements if it is a constant, else by its name."""
    value, constants = analysis.values[name], analysis.graph.constants
    if name in constants and value.is_constant:
        return of_array(constants.read(name))
    return of_place(seed_of(name), value.sizes)


def _of_moved(analysis: Analysis, op: Op, of: Callable[[str], Marks]) -> Sequence[Marks] | None:
    """Return the fingerprints of a movement node's outputs, given those of its inputs; None if unknown."""
    node, values = analysis.node(op), analysis.values
    assert node is not None, "it moves"
    value = next(values[name] for name in op.outputs if name)
    count = len(value.data)
    arguments: list[Any] = [of(name).view(np.int64) for name in op.inputs[:count]]
    arguments += [values[name].array if name else None for name in op.inputs[count:]]
    if op.op_type == "CenterCropPad":
        return None
    if op.op_type == "Pad" and value.tensor is not None:
        arguments += [None] * (3 - len(arguments))
        fill = np.zeros((), value.tensor.dtype) if arguments[2] is None else arguments[2]
        arguments[2] = of_array(fill).view(np.int64)
    try:
        return [np.asarray(array).view(np.uint64) for array in run_node(node, arguments, Budget())]
    except (ModelError, ValueError):
        return None
