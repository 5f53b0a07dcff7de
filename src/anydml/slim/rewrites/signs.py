"""Negations that are moved into constants, as in rotary embeddings.

``Concat(Neg(b), a) · c`` becomes ``Concat(b, a) · c′``, where c′ contains the signs: then Concat joins what only moves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anydml.onnx.graph_values import Array
from anydml.slim.graph import Op
from anydml.slim.rewrites.rewrite import Rewrite


class SignFolding(Rewrite):
    """Finds products of a Concat and a constant."""

    title = "signs move into constants"

    def new_nodes(self) -> list[Op] | None:
        """See `Rewrite.new_nodes`."""
        for op in self._graph.ops:
            join, constant = self._product(op)
            if join is None:
                self._ops.append(op)
                continue
            (name,) = join.outputs
            plain = self._graph.new_name(name, "plain")
            inputs = [self._negate(term) or term for term in join.inputs]
            self._ops.append(join.copy_with(inputs, [plain], self._graph.new_name(name, "Concat")))
            signed = self._graph.constant(constant, self._signed(join, constant))
            self._ops.append(op.copy_with([plain if operand == name else signed for operand in op.inputs]))
        return self._ops if len(self._ops) > len(self._graph.ops) else None

    def _product(self, op: Op) -> tuple[Op | None, str]:
        """Return the Concat and the constant that a node multiplies; None for other nodes."""
        for name, constant_name in (op.inputs, op.inputs[::-1]) if op.op_type == "Mul" else ():
            join, constant = self._graph.maker(name), self._values.get(constant_name)
            if join is None or join.op_type != "Concat" or not self._are_known(name, constant_name, *join.inputs):
                continue
            if constant is None or constant.tensor is None or not constant.is_constant:
                continue
            fits = constant.tensor.dtype.kind == "f" and self._takes_signs(constant.sizes, join)
            if fits and self._graph.is_read_once(name) and any(map(self._negate, join.inputs)):
                return join, constant_name
        return None, ""

    def _takes_signs(self, sizes: Sequence[int], join: Op) -> bool:
        """Whether a constant of a shape can be multiplied by a sign for each element along the joined axis."""
        parts, rank = [self._values[name].sizes for name in join.inputs], len(self._values[join.outputs[0]].sizes)
        # Shapes that a model declares may be wrong.
        if not rank or len(sizes) > rank or any(len(part) != rank for part in parts):
            return False
        axis = join.get("axis", 0) % rank
        counts = [part[axis] for part in parts]
        size = [*(1,) * (rank - len(sizes)), *sizes][axis]
        return self._stand_ins.is_constant(*counts) and size in (1, sum(counts))

    def _negate(self, name: str) -> str:
        """Return the input of the Neg that computes a value; empty if no Neg does, or several nodes read the value."""
        op = self._graph.maker(name)
        return op.inputs[0] if op is not None and op.op_type == "Neg" and self._graph.is_read_once(name) else ""

    def _signed(self, join: Op, constant: str) -> Array:
        """Return the constant with the signs of the joined values."""
        array = self._graph.constants.read(constant)
        sizes = self._values[join.outputs[0]].sizes
        axis = join.get("axis", 0) % len(sizes)
        signs = [
            np.full(self._values[name].sizes[axis], -1 if self._negate(name) else 1, array.dtype)
            for name in join.inputs
        ]
        signed: Array = array * np.concatenate(signs).reshape([-1 if k == axis else 1 for k in range(len(sizes))])
        return signed
