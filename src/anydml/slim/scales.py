"""Factors and biases of channels, merged into the weights of the nodes before, as in Mul(MatMul(x, w), c)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from anydml.onnx.graph_values import Array
from anydml.proving.sizes import Sizes
from anydml.proving.terms import Term
from anydml.slim.costs import SHAPE_OPERATORS
from anydml.slim.folding import MAX_GROWTH
from anydml.slim.graph import Graph, Op

SCALES_TITLE = "factors and biases of channels are merged into weights"

_MOVING = SHAPE_OPERATORS | {"Identity", "Transpose"}
"""Movement through which a single number passes."""

Changes = dict[tuple[Op, int], Array]
"""New numbers of constants, by the node that reads one and the number of the input."""


class ScaleMerging:
    """Merges nodes that multiply by constants or add them into constants of the nodes before.

    Numbers are multiplied and added in 64 bits, and rounded once.

    Args:
        graph: the graph.
        terms: the terms of its values, by name.
    """

    def __init__(self, graph: Graph, terms: Mapping[str, Term | None]) -> None:
        self._graph, self._terms = graph, terms
        self._ops = [*graph.ops]
        self._makers = dict(graph.makers)
        self._unrounded: dict[str, Array] = {}

    def remaining_nodes(self) -> list[Op] | None:
        """Return the remaining nodes; None if nothing changes."""
        removed = set[int]()
        for number, op in enumerate(self._graph.ops):
            changes = Changes()
            value = self._merge(self._ops[number], changes)
            if value is not None and self._apply(changes):
                removed.add(number)
                maker = self._makers[op.outputs[0]] = self._makers[value]
                names = [op.outputs[0] if name == value else name for name in self._ops[maker].outputs]
                self._ops[maker] = self._ops[maker].copy_with(outputs=names)
        return [op for number, op in enumerate(self._ops) if number not in removed] if removed else None

    def _merge(self, op: Op, changes: Changes) -> str | None:
        """Note the changes by which a node becomes its input; return the input's name, or None."""
        if op.op_type == "BatchNormalization":
            return self._merge_normalization(op, changes)
        if op.op_type not in ("Mul", "Div", "Add"):
            return None
        for k in (0,) if op.op_type == "Div" else (0, 1):
            value, numbers = str(op.inputs[k]), self._numbers(op.inputs[1 - k])
            if numbers is None or self._shape(value) != self._shape(op.outputs[0]):
                continue
            numbers = self._broadcastable(numbers, value)
            if numbers is None:
                continue
            with np.errstate(all="ignore"):
                numbers = 1 / numbers if op.op_type == "Div" else numbers
            note = self._add if op.op_type == "Add" else self._scale
            if note(value, numbers, changes):
                return value
        return None

    def _merge_normalization(self, op: Op, changes: Changes) -> str | None:
        """As `_merge`, for a BatchNormalization by constants: a factor and a number to add for each channel."""
        value: str = op.inputs[0]
        rank = len(self._shape(op.inputs[0]) or ())
        known = [numbers for name in op.inputs[1:] if (numbers := self._numbers(name)) is not None]
        if len(op.outputs) > 1 or op.get("training_mode", 0) or len(known) < 4 or rank < 2:
            return None
        if any(numbers.shape != known[0].shape for numbers in known):
            return None
        scale, bias, mean, variance = (numbers.reshape(1, -1, *[1] * (rank - 2)) for numbers in known)
        with np.errstate(all="ignore"):
            factor = scale / np.sqrt(variance + op.get("epsilon", 1e-5))
            added = bias - mean * factor
        is_merged = self._scale(value, factor, changes) and self._add(value, added, changes)
        return value if is_merged else None

    def _scale(self, name: str, by: Array, changes: Changes) -> bool:
        """Note the changes by which a value is multiplied; `by` has as many axes as the value. False if impossible."""
        op = self._only_maker(name)
        if op is None:
            return False
        if op.op_type in _MOVING:
            shape = self._shape(op.inputs[0])
            return (
                by.size == 1 and shape is not None and self._scale(op.inputs[0], by.reshape([1] * len(shape)), changes)
            )
        if op.op_type == "Mul":
            return any(self._change(op, k, by, changes, name) for k in (0, 1))
        if op.op_type == "Add":
            return any(
                self._shape(op.inputs[1 - k]) == self._shape(name)
                and self._change(op, k, by, changes, name)
                and self._scale(op.inputs[1 - k], by, changes)
                for k in (0, 1)
            )
        along = _along(by, by.ndim - 1 if op.op_type == "MatMul" else 1)
        if along is None or op.op_type not in ("MatMul", "Gemm", "Conv"):
            return False
        weights = self._shape(op.inputs[1])
        if weights is None or len(weights) < 2:
            return False
        if op.op_type == "MatMul" and by.size == 1 and self._numbers(op.inputs[1]) is None:
            return self._change(op, 0, by.reshape(()), changes)
        if len(op.inputs) > 2 and op.inputs[2] and not self._change(op, 2, along, changes):
            return False
        rows = (-1, *[1] * (len(weights) - 1))
        is_by_row = op.op_type == "Conv" or op.get("transB", 0)
        return self._change(op, 1, along.reshape(rows) if is_by_row else along, changes)

    def _add(self, name: str, added: Array, changes: Changes) -> bool:
        """Note the changes by which numbers are added to a value; see `_scale`."""
        op = self._only_maker(name)
        if op is None:
            return False
        if op.op_type == "Add":
            return any(self._change(op, k, added, changes, name, adds=True) for k in (0, 1))
        along, weights = _along(added, 1), self._shape(op.inputs[1]) if op.op_type in ("Gemm", "Conv") else None
        if along is None or weights is None:
            return False
        channels = weights[0] if op.op_type == "Conv" or op.get("transB", 0) else weights[1]
        if not isinstance(channels, int) or along.size not in (1, channels):
            return False
        along = np.broadcast_to(along, channels)
        if len(op.inputs) > 2 and op.inputs[2]:
            return self._change(op, 2, along, changes, adds=True)
        changes[op, 2] = along
        return True

    def _change(self, op: Op, place: int, by: Array, changes: Changes, result: str = "", adds: bool = False) -> bool:
        """Note that a constant input is multiplied by numbers, or added to them; False if it is not constant.

        Args:
            op: the node.
            place: the number of the input.
            by: the numbers.
            changes: gets the change.
            result: the node's result, if the constant is broadcast to it.
            adds: whether the numbers are added.
        """
        name = op.inputs[place]
        old = changes[op, place] if (op, place) in changes else self._numbers(name)
        if old is not None and result:
            old = self._broadcastable(old, result)
        if old is None or any(1 != a != b != 1 for a, b in zip(old.shape[::-1], by.shape[::-1], strict=False)):
            # Runtimes refuse a bias of another size.
            return False
        with np.errstate(all="ignore"):
            changes[op, place] = old + by if adds else old * by
        # What other nodes read stays in the file.
        is_shared = len(self._graph.readers.get(name, ())) > 1
        return not is_shared or old.size * 4 <= MAX_GROWTH

    def _apply(self, changes: Changes) -> bool:
        """Give nodes their new constants, unless their numbers are too large or too small for their type."""
        rounded = list[Array]()
        for (op, _), numbers in changes.items():
            term = self._terms.get(op.outputs[0])
            if term is None or term.dtype is None or term.dtype.kind != "f":
                return False
            with np.errstate(all="ignore"):
                rounded.append(numbers.astype(term.dtype))
                # Floats have fewer digits for the smallest numbers, and none for the largest.
                lost, largest = np.abs(rounded[-1] - numbers), np.max(np.abs(numbers), initial=0)
                if not (lost <= largest * float(np.finfo(term.dtype).eps)).all():
                    return False
        for ((op, place), numbers), constant in zip(changes.items(), rounded, strict=True):
            number = self._makers[op.outputs[0]]
            inputs = [*self._ops[number].inputs, *[""] * (place + 1 - len(op.inputs))]
            inputs[place] = self._graph.constant(
                op.inputs[1] if place >= len(op.inputs) else op.inputs[place], constant
            )
            self._unrounded[inputs[place]] = numbers
            self._ops[number] = self._ops[number].copy_with(inputs)
        return True

    def _only_maker(self, name: str) -> Op | None:
        """Return the node that makes a value which a single node reads; None for other values."""
        op = self._ops[self._makers[name]] if name in self._makers and self._graph.is_read_once(name) else None
        # The factors alpha and beta of a Gemm do not apply to one of its inputs alone.
        is_plain = op is not None and op.get("alpha", 1.0) == op.get("beta", 1.0) == 1.0
        return op if is_plain else None

    def _shape(self, name: str) -> Sizes | None:
        if name in self._unrounded:
            return tuple(map(int, self._unrounded[name].shape))
        term = self._terms.get(name)
        return None if term is None else term.shape

    def _numbers(self, name: str) -> Array | None:
        """Return the elements of a constant of floats, in 64 bits; None for other values."""
        if name in self._unrounded:
            return self._unrounded[name]
        term = self._terms.get(name)
        if term is None or term.dtype is None or term.dtype.kind != "f":
            return None
        if term.kind == "stored":
            return self._graph.constants.read(name).astype(np.float64)
        return term.array.astype(np.float64) if term.is_constant and term.array is not None else None

    def _broadcastable(self, numbers: Array, result: str) -> Array | None:
        """Return numbers with an axis for each axis of a result; None if they have more elements along one."""
        shape = self._shape(result)
        if shape is None or numbers.ndim > len(shape):
            return None
        numbers = numbers.reshape([1] * (len(shape) - numbers.ndim) + [*numbers.shape])
        return numbers if all(count in (1, size) for count, size in zip(numbers.shape, shape, strict=True)) else None


def _along(numbers: Array, axis: int) -> Array | None:
    """Return numbers that differ along one axis alone, as a row; None for other numbers."""
    is_row = all(size == 1 for k, size in enumerate(numbers.shape) if k != axis)
    return numbers.reshape(-1) if is_row else None
