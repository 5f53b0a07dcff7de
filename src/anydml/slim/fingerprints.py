"""Fingerprints of a model's results: 64 bits for every element that say how it is made, whatever the inputs are.

An element that moves keeps its fingerprint. One that is computed gets one of the operator, its attributes and the
fingerprints of what it is made of: the elements at its place, a row, a row and a column; of a node of which no more is
known, all of its inputs. So models with the same fingerprints compute the same, but for one chance in
some 2⁴⁰. Constants of the same name are taken to be the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence, Set
from typing import Any

import numpy as np
from onnx import NodeProto

from anydml.errors import ModelError
from anydml.onnx.budget import Budget
from anydml.onnx.directml.following import Names
from anydml.onnx.graph import last_use, plain_domain
from anydml.onnx.operators import run_node
from anydml.slim.constants import Constants
from anydml.slim.following import Following
from anydml.slim.pushing import ELEMENTWISE
from anydml.slim.resizing import is_identity

MOST = 1 << 27
"""Elements of all values of a model; with more there are no fingerprints."""

Marks = np.ndarray[Any, np.dtype[np.uint64]]

_ODD = np.uint64(0x9E3779B97F4A7C15)


class NoFingerprintError(Exception):
    """There are too many elements, or sizes are not known."""


def fingerprints(following: Following, constants: Constants, shared: Set[str] = frozenset()) -> dict[str, bytes]:
    """One for each output of a graph.

    Args:
        following: the model's values.
        constants: reads its constants.
        shared: matrices that need not be read, for whatever is compared multiplies by the same in the same way.

    Raises:
        NoFingerprintError: there are none.
    """
    # They are numbers modulo 2⁶⁴, which NumPy warns of where they are scalars.
    with np.errstate(over="ignore"):
        found = _Fingerprints(following, constants, shared)
        return {output.name: found.of(output.name).tobytes() for output in following.outputs}


class _Fingerprints:
    def __init__(self, following: Following, constants: Constants, shared: Set[str]) -> None:
        self._following, self._constants, self._shared = following, constants, shared
        self._known: dict[str, Marks] = {}
        self._left = MOST
        drops = last_use([Names(proto) for _, proto, _ in following.nodes], [each.name for each in following.outputs])
        for number, (_, proto, node) in enumerate(following.nodes):
            self._node(proto, node)
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
            value = self._following.values.get(name)
            if value is None or value.tensor is None:
                raise NoFingerprintError(name)
            self._ask(value.tensor.size)
            if name in self._constants and value.is_constant:
                self._known[name] = of_array(self._constants.read(name))
            else:
                self._known[name] = _numbered(_seed(name), value.sizes)
        return self._known[name]

    def _node(self, proto: NodeProto, node: Any) -> None:
        values = self._following.values
        made = next((values[name] for name in proto.output if name), None)
        if made is None or (made.is_constant and proto.op_type == "Constant"):
            return
        known = [values[name].tensor for name in proto.output if name]
        if all(tensor is not None and tensor.array is not None for tensor in known):
            for name, tensor in zip((name for name in proto.output if name), known, strict=True):
                assert tensor is not None, "it is known"
                self._known[name] = of_array(np.asarray(tensor.array))
            return
        if None in known:
            raise NoFingerprintError(proto.op_type)
        self._ask(sum(tensor.size for tensor in known if tensor is not None))
        found = self._moved(proto, node) if made.node is not None else self._computed(proto)
        self._known.update((name, marks) for name, marks in zip(proto.output, found, strict=False) if name)

    def _moved(self, proto: NodeProto, node: Any) -> Sequence[Marks]:
        values = self._following.values
        count = len(values[next(name for name in proto.output if name)].data)
        given: list[Any] = [self.of(name).view(np.int64) for name in proto.input[:count]]
        for k, name in enumerate(proto.input[count:]):
            tensor = values[name].tensor if name else None
            array = None if tensor is None else tensor.array
            if array is not None and proto.op_type == "Pad" and k == 1:
                array = of_array(array).view(np.int64)
            given.append(array)
        if proto.op_type in ("Pad", "CenterCropPad") and len(given) < 3:
            return self._unknown(proto)
        try:
            return [np.asarray(array).view(np.uint64) for array in run_node(node, given, Budget())]
        except (ModelError, ValueError):
            return self._unknown(proto)

    def _computed(self, proto: NodeProto) -> Sequence[Marks]:
        if not plain_domain(proto.domain):
            seed = _seed(_description(proto, ()))
            if is_identity(proto, self._following):
                return [self.of(proto.input[0])]
            if proto.op_type == "Neg":
                return [_negative(self.of(proto.input[0]))]
            if proto.op_type == "Mul":
                return [_product(seed, *map(self.of, proto.input))]
            if proto.op_type in ELEMENTWISE and all(proto.input):
                return [_mixed(seed, *map(self.of, proto.input))]
            if proto.op_type == "MatMul" and all(len(self._sizes(name)) > 1 for name in proto.input):
                return [self._products(proto.input[:2], False, False)]
            if proto.op_type == "Gemm" and (found := self._gemm(proto)) is not None:
                return [found]
            if (found := self._rows(proto)) is not None:
                return [found]
        return self._unknown(proto)

    def _sizes(self, name: str) -> Sequence[int]:
        value = self._following.values[name]
        if value.tensor is None:
            raise NoFingerprintError(name)
        return value.sizes

    def _products(self, names: Sequence[str], first_turned: bool, second_turned: bool) -> Marks:
        """Of dot products, whichever of the factors comes first."""
        rows = self._lines(names[0], -2 if first_turned else -1)[..., :, None]
        columns = self._lines(names[1], -1 if second_turned else -2)[..., None, :]
        return _mixed(_seed("dot product"), np.minimum(rows, columns), np.maximum(rows, columns))

    def _gemm(self, proto: NodeProto) -> Marks | None:
        """Of products of matrices, to which something may be added; None where they are multiplied by numbers."""
        numbers = {each.name: each.f or each.i for each in proto.attribute}
        if numbers.get("alpha", 1) != 1 or numbers.get("beta", 1) != 1:
            return None
        found = self._products(proto.input[:2], bool(numbers.get("transA", 0)), bool(numbers.get("transB", 0)))
        if len(proto.input) < 3 or not proto.input[2]:
            return found
        return _mixed(_seed(_description(NodeProto(op_type="Add"), ())), found, self.of(proto.input[2]))

    def _rows(self, proto: NodeProto) -> Marks | None:
        """Of rows that are reduced, or computed with; None of other nodes."""
        given = {each.name: each for each in proto.attribute}
        rank = len(self._sizes(proto.input[0])) if proto.input and all(proto.input) else 0
        if not rank:
            return None
        if proto.op_type in ("Softmax", "LogSoftmax"):
            axes = [(given["axis"].i if "axis" in given else -1) % rank]
        elif proto.op_type == "LayerNormalization" and len(proto.output) == 1:
            axes = [*range((given["axis"].i if "axis" in given else -1) % rank, rank)]
        elif proto.op_type.startswith("Reduce"):
            more = self._following.values[proto.input[1]].tensor if len(proto.input) > 1 and proto.input[1] else None
            array = None if more is None else more.array
            axes = [
                axis % rank for axis in ([*given["axes"].ints] if "axes" in given else [] if array is None else array)
            ]
        else:
            return None
        if not axes:
            return None
        marks = self.of(proto.input[0])
        last = [*range(rank - len(axes), rank)]
        flat = np.moveaxis(marks, sorted(axes), last).reshape(
            *(n for k, n in enumerate(marks.shape) if k not in axes), -1
        )
        seed, row = _seed(_description(proto, ("axis", "axes", "keepdims"))), _row(flat, -1)
        if proto.op_type.startswith("Reduce"):
            return _mixed(seed, row).reshape(self._sizes(proto.output[0]))
        return _mixed(seed, marks, np.expand_dims(row, axes), *map(self.of, proto.input[1:]))

    def _lines(self, name: str, axis: int) -> Marks:
        """Of the rows or columns of matrices; matrices that both models have are told apart by their names."""
        if name not in self._shared:
            return _row(self.of(name), axis)
        sizes = [*self._sizes(name)]
        del sizes[axis]
        return _numbered(_seed(f"axis {axis} of {name}"), sizes)

    def _unknown(self, proto: NodeProto) -> Sequence[Marks]:
        """Of all inputs, and of where an element is."""
        digest = hashlib.blake2b(_description(proto, ()).encode(), digest_size=8)
        for name in proto.input:
            is_constant = name and self._following.values[name].is_constant
            digest.update(name.encode() if not name or is_constant else self.of(name).tobytes())
            digest.update(f";{None if not name or is_constant else self._sizes(name)};".encode())
        seed = int.from_bytes(digest.digest(), "little")
        found = []
        for k, name in enumerate(proto.output):
            tensor = self._following.values[name].tensor if name else None
            if tensor is None and name:
                raise NoFingerprintError(name)
            found.append(_numbered(seed + k, () if tensor is None else tensor.shape))
        return found


def _description(proto: NodeProto, without: Sequence[str]) -> str:
    """The operator, and its attributes by name."""
    attributes = sorted(
        (each.name, each.SerializeToString(deterministic=True)) for each in proto.attribute if each.name not in without
    )
    return f"{plain_domain(proto.domain)}:{proto.op_type}:{attributes}"


def _seed(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _spread(marks: Marks) -> Marks:
    """Bits that depend on all bits (splitmix64)."""
    marks = (marks ^ (marks >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    marks = (marks ^ (marks >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return marks ^ (marks >> np.uint64(31))


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
