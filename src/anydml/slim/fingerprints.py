"""Fingerprints of a model's results: 64 bits for every element that say how it is made, whatever the inputs are.

An element that moves keeps its fingerprint. One that is computed gets one of the operator, its attributes and the
fingerprints of what it is made of: the elements at its place, a row, a row and a column; of a node of which no more is
known, all of its inputs. So models with the same fingerprints compute the same, but for one chance in
some 2⁴⁰. Constants of the same name are taken to be the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.onnx.budget import Budget
from anydml.onnx.graph import last_use
from anydml.onnx.operators import run_node
from anydml.onnx.values import Tensor
from anydml.slim.computing import ELEMENTWISE, is_plain_gemm, row_axes
from anydml.slim.following import Following
from anydml.slim.graph import Op
from anydml.slim.resizing import is_identity

MOST = 1 << 27
"""Elements of all values of a model; with more there are no fingerprints."""

Marks = np.ndarray[Any, np.dtype[np.uint64]]

_ODD = np.uint64(0x9E3779B97F4A7C15)


class NoFingerprintError(Exception):
    """There are too many elements, or sizes are not known."""


def fingerprints(following: Following, shared: Set[str] = frozenset()) -> dict[str, bytes]:
    """One for each output of a graph.

    Args:
        following: the graph's values.
        shared: matrices that need not be read, for whatever is compared multiplies by the same in the same way.

    Raises:
        NoFingerprintError: there are none.
    """
    # They are numbers modulo 2⁶⁴, which NumPy warns of where they are scalars.
    with np.errstate(over="ignore"):
        found = _Fingerprints(following, shared)
        return {name: found.of(name).tobytes() for name in following.graph.outputs}


def of_source(following: Following, name: str) -> Marks:
    """Of a value that nothing makes, or of which no more is known: of its elements if it is a constant."""
    value, constants = following.values[name], following.graph.constants
    if name in constants and value.is_constant:
        return of_array(constants.read(name))
    return _numbered(_seed(name), value.sizes)


def of_moved(following: Following, op: Op, of: Callable[[str], Marks]) -> Sequence[Marks] | None:
    """Of what a node moves, of whose inputs `of` gives them; None where that is not known."""
    node, values = following.node(op), following.values
    assert node is not None, "it moves"
    count = len(values[next(name for name in op.outputs if name)].data)
    given: list[Any] = [of(name).view(np.int64) for name in op.inputs[:count]]
    for k, name in enumerate(op.inputs[count:]):
        tensor = values[name].tensor if name else None
        array = None if tensor is None else tensor.array
        if array is not None and op.kind == "Pad" and k == 1:
            array = of_array(array).view(np.int64)
        given.append(array)
    if op.kind == "CenterCropPad":
        return None
    value = values[op.outputs[0]]
    if op.kind == "Pad" and len(given) < 3 and value.tensor is not None:
        given.append(of_array(np.zeros((), value.tensor.dtype)).view(np.int64))
    try:
        return [np.asarray(array).view(np.uint64) for array in run_node(node, given, Budget())]
    except (ModelError, ValueError):
        return None


class _Fingerprints:
    def __init__(self, following: Following, shared: Set[str]) -> None:
        self._following, self._shared = following, shared
        self._known: dict[str, Marks] = {}
        self._left = MOST
        graph = following.graph
        drops = last_use([(op.inputs, op.outputs) for op in graph.ops], graph.outputs)
        for number, op in enumerate(graph.ops):
            self._op(op)
            for name in drops.get(number, ()):
                if not following.values[name].is_constant:
                    self._known.pop(name, None)

    def _ask(self, count: int) -> None:
        self._left -= count
        if self._left < 0:
            raise NoFingerprintError("too many elements")

    def of(self, name: str) -> Marks:
        """The fingerprints of a value's elements."""
        if name not in self._known:
            tensor = self._tensor(name)
            self._ask(tensor.size)
            self._known[name] = of_source(self._following, name)
        return self._known[name]

    def _tensor(self, name: str) -> Tensor:
        value = self._following.values.get(name)
        if value is None or value.tensor is None:
            raise NoFingerprintError(name)
        tensor: Tensor = value.tensor
        return tensor

    def _op(self, op: Op) -> None:
        if op.kind == "Constant":
            return
        names = [name for name in op.outputs if name]
        tensors = [self._tensor(name) for name in names]
        arrays = [tensor.array for tensor in tensors if tensor.array is not None]
        if len(arrays) == len(tensors):
            self._known.update(zip(names, map(of_array, map(np.asarray, arrays)), strict=True))
            return
        self._ask(sum(tensor.size for tensor in tensors))
        is_moved = self._following.moves(op)
        found = (of_moved(self._following, op, self.of) if is_moved else self._computed(op)) or self._unknown(op)
        self._known.update((name, marks) for name, marks in zip(op.outputs, found, strict=False) if name)

    def _computed(self, op: Op) -> Sequence[Marks] | None:
        """What a node computes; None if it is not known how."""
        if is_identity(op, self._following):
            return [self.of(op.inputs[0])]
        if op.kind == "Neg":
            return [_negative(self.of(op.inputs[0]))]
        if op.kind == "Mul":
            return [_product(_seed(_description(op)), *map(self.of, op.inputs))]
        if op.kind in ELEMENTWISE and all(op.inputs):
            return [_mixed(_seed(_description(op)), *map(self.of, op.inputs))]
        if op.kind == "MatMul" and all(len(self._tensor(name).shape) > 1 for name in op.inputs):
            return [self._products(op.inputs[:2], False, False)]
        if op.kind == "Gemm" and (found := self._gemm(op)) is not None:
            return [found]
        found = self._rows(op)
        return None if found is None else [found]

    def _products(self, names: Sequence[str], first_transposed: bool, second_transposed: bool) -> Marks:
        """Of dot products, whichever of the factors comes first."""
        rows = self._lines(names[0], -2 if first_transposed else -1)[..., :, None]
        columns = self._lines(names[1], -1 if second_transposed else -2)[..., None, :]
        return _mixed(_seed("dot product"), np.minimum(rows, columns), np.maximum(rows, columns))

    def _gemm(self, op: Op) -> Marks | None:
        """Of products of matrices, to which something may be added; None where they are multiplied by numbers."""
        if not is_plain_gemm(op):
            return None
        found = self._products(op.inputs[:2], bool(op.integer("transA", 0)), bool(op.integer("transB", 0)))
        if len(op.inputs) < 3 or not op.inputs[2]:
            return found
        return _mixed(_seed("Add:[]"), found, self.of(op.inputs[2]))

    def _rows(self, op: Op) -> Marks | None:
        """Of rows that are reduced, or computed with; None of other nodes."""
        axes = row_axes(op, self._following) if op.inputs and all(op.inputs) else None
        if axes is None:
            return None
        marks = self.of(op.inputs[0])
        last = [*range(marks.ndim - len(axes), marks.ndim)]
        kept = [n for k, n in enumerate(marks.shape) if k not in axes]
        row = _row(np.moveaxis(marks, axes, last).reshape(*kept, -1), -1)
        seed = _seed(_description(op, ("axis", "axes", "keepdims")))
        if op.kind.startswith("Reduce"):
            return _mixed(seed, row).reshape(self._tensor(op.outputs[0]).shape)
        return _mixed(seed, marks, np.expand_dims(row, axes), *map(self.of, op.inputs[1:]))

    def _lines(self, name: str, axis: int) -> Marks:
        """Of the rows or columns of matrices; matrices that both models have are told apart by their names."""
        if name not in self._shared:
            return _row(self.of(name), axis)
        sizes = [*self._tensor(name).shape]
        del sizes[axis]
        return _numbered(_seed(f"axis {axis} of {name}"), sizes)

    def _unknown(self, op: Op) -> Sequence[Marks]:
        """Of all inputs, and of where an element is."""
        digest = hashlib.blake2b(_description(op).encode(), digest_size=8)
        for name in op.inputs:
            is_constant = name and self._following.values[name].is_constant
            digest.update(name.encode() if not name or is_constant else self.of(name).tobytes())
            digest.update(f";{None if not name or is_constant else self._tensor(name).shape};".encode())
        seed = int.from_bytes(digest.digest(), "little")
        return [_numbered(seed + k, self._tensor(name).shape if name else ()) for k, name in enumerate(op.outputs)]


def _description(op: Op, without: Sequence[str] = ()) -> str:
    """The operator, and its attributes by name."""
    attributes = sorted(
        (each.name, each.SerializeToString(deterministic=True))
        for each in op.proto.attribute
        if each.name not in without
    )
    return f"{op.kind}:{attributes}"


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _spread(marks: Marks) -> Marks:
    """Bits that depend on all bits (splitmix64)."""
    marks = marks ^ (marks >> np.uint64(30))
    marks *= np.uint64(0xBF58476D1CE4E5B9)
    marks ^= marks >> np.uint64(27)
    marks *= np.uint64(0x94D049BB133111EB)
    marks ^= marks >> np.uint64(31)
    return marks


def _mixed(seed: int, *marks: Marks) -> Marks:
    """Of several, in order, after broadcasting."""
    found: Marks = np.array([seed & (2**64 - 1)], np.uint64).reshape(())[...]
    for each in marks:
        found = _spread(found * _ODD + each)
    return found


def _negative(marks: Marks) -> Marks:
    """Of a number with the other sign."""
    return ~marks + np.uint64(1)


def _product(seed: int, first: Marks, second: Marks) -> Marks:
    """Of products, whose sign is that of both factors."""
    wrong = (first > _negative(first)) ^ (second > _negative(second))
    sizes = np.minimum(first, _negative(first)), np.minimum(second, _negative(second))
    found = _mixed(seed, *sizes) >> np.uint64(1)
    return np.where(wrong, _negative(found), found)


def _row(marks: Marks, axis: int) -> Marks:
    """One for all along an axis, in order."""
    moved = np.moveaxis(marks, axis, -1)
    weights = _spread(np.arange(1, moved.shape[-1] + 1, dtype=np.uint64) * _ODD) | np.uint64(1)
    return _spread((_spread(moved) * weights).sum(-1, dtype=np.uint64))


def _numbered(seed: int, sizes: Sequence[int]) -> Marks:
    count = int(np.prod(sizes, dtype=np.int64))
    start = np.uint64(seed & (2**64 - 1))
    return _spread(_spread(np.arange(count, dtype=np.uint64) * _ODD + start)).reshape(sizes)


def of_array(array: Any) -> Marks:
    """Of elements that are known: of their bytes, and their type."""
    if array.dtype.hasobject:
        raise NoFingerprintError("strings")
    flat = np.ascontiguousarray(array).reshape(-1)
    sizes = np.abs(flat) if flat.dtype.kind == "f" else flat
    wide = np.zeros((flat.size, 16), np.uint8)
    wide[:, : flat.itemsize] = sizes.view(np.uint8).reshape(flat.size, flat.itemsize)
    halves = wide.view(np.uint64)
    found = _mixed(_seed(f"constant {array.dtype}"), halves[:, 0], halves[:, 1])
    if flat.dtype.kind == "f":
        found = np.where(np.signbit(flat), _negative(found >> np.uint64(1)), found >> np.uint64(1))
    return found.reshape(array.shape)
