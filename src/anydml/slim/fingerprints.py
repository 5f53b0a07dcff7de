"""Fingerprints: 64-bit hashes of how each element of a model's results is computed, whatever the inputs are.

A moved element keeps its fingerprint. A computed one gets a hash of the operator, its attributes and the fingerprints
of the elements that it depends on: those at its place, a row, or a row and a column; for unknown operators, all inputs.
Models with equal fingerprints compute the same, with an error probability of about 2⁻⁴⁰. Constants with the same name
are assumed to be equal.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.onnx.budget import Budget
from anydml.onnx.graph import last_use
from anydml.onnx.graph_values import Tensor
from anydml.onnx.run_node import run_node
from anydml.proving.elementwise import ELEMENTWISE_OPERATORS
from anydml.proving.fingerprint_arithmetic import (
    Marks,
    NoFingerprintError,
    mix,
    of_array,
    of_negative,
    of_place,
    of_product,
    of_row,
    seed_of,
)
from anydml.slim.analysis import Analysis
from anydml.slim.graph import Op
from anydml.slim.operators import is_identity_resize, is_plain_gemm, row_axes

MAX_ELEMENTS = 1 << 27
"""Maximum number of elements of all values of a model."""


def fingerprints(analysis: Analysis, shared: Set[str] = frozenset()) -> dict[str, tuple[object, ...]]:
    """Return the type, the shape and the fingerprints of each output of a graph.

    Args:
        analysis: the analysis of the graph.
        shared: names of matrices that are not read, because all compared models multiply by them in the same way.

    Raises:
        NoFingerprintError: a value has no fingerprints.
    """
    # NumPy warns of overflows of scalars; all arithmetic is modulo 2⁶⁴.
    with np.errstate(over="ignore"):
        prints = _Fingerprints(analysis, shared)
        marks = {name: prints.of(name) for name in analysis.graph.outputs}
    return {name: (prints.tensor(name).dtype, mark.shape, mark.tobytes()) for name, mark in marks.items()}


def of_source(analysis: Analysis, name: str) -> Marks:
    """Return the fingerprints of a value: by its elements if it is a constant, else by its name."""
    value, constants = analysis.values[name], analysis.graph.constants
    if name in constants and value.is_constant:
        return of_array(constants.read(name))
    return of_place(seed_of(name), value.sizes)


def of_moved(analysis: Analysis, op: Op, of: Callable[[str], Marks]) -> Sequence[Marks] | None:
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


class _Fingerprints:
    """Computes the fingerprints of a graph's values in order, and frees those that are no longer needed."""

    def __init__(self, analysis: Analysis, shared: Set[str]) -> None:
        self._analysis, self._shared = analysis, shared
        self._known: dict[str, Marks] = {}
        self._left = MAX_ELEMENTS
        graph = analysis.graph
        drops = last_use([((*op.inputs, *op.captured), op.outputs) for op in graph.ops], graph.outputs)
        for node_number, op in enumerate(graph.ops):
            self._visit(op)
            for name in drops.get(node_number, ()):
                if name in analysis.values and not analysis.values[name].is_constant:
                    self._known.pop(name, None)

    def _require(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise NoFingerprintError("too many elements")

    def of(self, name: str) -> Marks:
        """Return the fingerprints of a value."""
        if name not in self._known:
            self._require(self.tensor(name).size)
            self._known[name] = of_source(self._analysis, name)
        return self._known[name]

    def tensor(self, name: str) -> Tensor:
        """Return the type and shape of a value."""
        value = self._analysis.values.get(name)
        if value is None or value.tensor is None:
            raise NoFingerprintError(name)
        return value.tensor

    def _visit(self, op: Op) -> None:
        if op.op_type == "Constant":
            return
        names = [name for name in op.outputs if name]
        tensors = [self.tensor(name) for name in names]
        arrays = [tensor.array for tensor in tensors if tensor.array is not None]
        if len(arrays) == len(tensors):
            self._known.update(zip(names, map(of_array, arrays), strict=True))
            return
        self._require(sum(tensor.size for tensor in tensors))
        prints: Sequence[Marks] | None
        if self._analysis.moves(op):
            prints = of_moved(self._analysis, op, self.of)
        else:
            try:
                computed = self._compute(op)
            except (ValueError, IndexError):
                # Shapes that a model declares may be wrong.
                raise NoFingerprintError(f"the inputs of {op.op_type} do not fit together") from None
            prints = None if computed is None else [computed]
        self._known.update((n, marks) for n, marks in zip(op.outputs, prints or self._unknown(op), strict=False) if n)

    def _compute(self, op: Op) -> Marks | None:
        """Return the fingerprints of a node's results; None if the operator is unknown."""
        if is_identity_resize(op, self._analysis):
            return self.of(op.inputs[0])
        if op.op_type == "Neg":
            return of_negative(self.of(op.inputs[0]))
        if op.op_type == "Mul":
            return of_product(seed_of(_description(op)), *map(self.of, op.inputs))
        if op.op_type in ELEMENTWISE_OPERATORS and all(op.inputs):
            return mix(seed_of(_description(op)), *map(self.of, op.inputs))
        if op.op_type == "MatMul" and all(len(self.tensor(name).shape) > 1 for name in op.inputs):
            return self._products(op)
        if op.op_type == "Gemm" and is_plain_gemm(op):
            marks = self._products(op)
            has_bias = len(op.inputs) > 2 and op.inputs[2]
            return mix(seed_of("Add:[]"), marks, self.of(op.inputs[2])) if has_bias else marks
        return self._rows(op)

    def _products(self, op: Op) -> Marks:
        """Return the fingerprints of dot products, which do not depend on the order of the factors."""
        rows = self._lines(op.inputs[0], -2 if op.get("transA", 0) else -1)[..., :, None]
        columns = self._lines(op.inputs[1], -1 if op.get("transB", 0) else -2)[..., None, :]
        return mix(seed_of("dot product"), np.minimum(rows, columns), np.maximum(rows, columns))

    def _rows(self, op: Op) -> Marks | None:
        """Return the fingerprints of a normalization or reduction along axes; None for other nodes."""
        axes = row_axes(op, self._analysis) if op.inputs and all(op.inputs) else None
        if axes is None:
            return None
        marks = self.of(op.inputs[0])
        last = [*range(marks.ndim - len(axes), marks.ndim)]
        remaining = [n for k, n in enumerate(marks.shape) if k not in axes]
        count = math.prod(marks.shape[k] for k in axes)
        row = of_row(np.moveaxis(marks, axes, last).reshape(*remaining, count), -1)
        seed = seed_of(_description(op, ("axis", "axes", "keepdims")))
        if op.op_type.startswith("Reduce"):
            return mix(seed, row).reshape(self.tensor(op.outputs[0]).shape)
        return mix(seed, marks, np.expand_dims(row, tuple(axes)), *map(self.of, op.inputs[1:]))

    def _lines(self, name: str, axis: int) -> Marks:
        """Return the fingerprints of the rows or columns of matrices."""
        if name not in self._shared:
            return of_row(self.of(name), axis)
        sizes = [*self.tensor(name).shape]
        del sizes[axis]
        return of_place(seed_of(f"axis {axis} of {name}"), sizes)

    def _unknown(self, op: Op) -> Sequence[Marks]:
        """Return fingerprints that depend on all inputs as a whole and on the place of an element."""
        digest = hashlib.blake2b(_description(op).encode(), digest_size=8)
        # Names that a subgraph defines do not refer to values of the outer graph.
        for name in (*op.inputs, *(name for name in op.captured if name in self._analysis.values)):
            is_constant = name and self._analysis.values[name].is_constant
            digest.update(name.encode() if not name or is_constant else self.of(name).tobytes())
            digest.update(f";{None if not name or is_constant else self.tensor(name).shape};".encode())
        seed = int.from_bytes(digest.digest(), "little")
        return [of_place(seed + k, self.tensor(name).shape if name else ()) for k, name in enumerate(op.outputs)]


def _description(op: Op, without: Sequence[str] = ()) -> str:
    """Return the operator and its attributes by name."""
    attributes = sorted(
        (attribute.name, attribute.SerializeToString(deterministic=True))
        for attribute in op.proto.attribute
        if attribute.name not in without
    )
    return f"{op.op_type}:{attributes}"
