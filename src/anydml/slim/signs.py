"""Signs moved from what is joined into the constant that it is multiplied by, as in rotary embeddings.

``Concat(Neg(b), a) · c`` is ``Concat(b, a) · c′``, where c′ has the signs: what is joined then only moves.
"""

from __future__ import annotations

import numpy as np

from anydml.onnx.values import Array
from anydml.slim.graph import Op
from anydml.slim.rewriting import Rewriting


class Signs(Rewriting):
    """Looks for such products."""

    def rewritten(self) -> list[Op] | None:
        """The nodes with all such products; None where there is none."""
        for op in self._graph.ops:
            joined, constant = self._product(op)
            if joined is None:
                self._ops.append(op)
                continue
            (name,) = joined.outputs
            plain = self._graph.new_name(name, "plain")
            inputs = [self._without_sign(each) or each for each in joined.inputs]
            self._ops.append(joined.replaced(inputs, [plain], self._graph.new_name(name, "Concat")))
            signed = self._graph.constant(constant, self._signed(joined, constant))
            self._ops.append(op.replaced([plain if each == name else signed for each in op.inputs]))
        return self._ops if len(self._ops) > len(self._graph.ops) else None

    def _product(self, op: Op) -> tuple[Op | None, str]:
        """What is joined, and the constant by which it is multiplied; None of other nodes."""
        values = self._values
        for name, other in (op.inputs, op.inputs[::-1]) if op.kind == "Mul" else ():
            joined, constant = self._graph.maker(name), values.get(other)
            if joined is None or joined.kind != "Concat":
                continue
            if constant is None or not constant.is_constant or constant.tensor is None:
                continue
            if values[name].tensor is None or len(constant.sizes) > len(values[name].sizes):
                continue
            if constant.tensor.dtype.kind != "f" or not self._graph.is_read_once(name):
                continue
            if any(self._without_sign(each) for each in joined.inputs):
                return joined, other
        return None, ""

    def _without_sign(self, name: str) -> str:
        """What is negated; empty where nothing is, or where others read the negative, too."""
        op = self._graph.maker(name)
        return op.inputs[0] if op is not None and op.kind == "Neg" and self._graph.is_read_once(name) else ""

    def _signed(self, joined: Op, constant: str) -> Array:
        """The constant with the signs of what is joined."""
        array = self._graph.constants.read(constant)
        sizes = self._values[joined.outputs[0]].sizes
        axis = joined.integer("axis", 0) % len(sizes)
        signs = [
            np.full(self._values[name].sizes[axis], -1 if self._without_sign(name) else 1, array.dtype)
            for name in joined.inputs
        ]
        shape = [1] * len(sizes)
        shape[axis] = sizes[axis]
        signed: Array = array * np.concatenate(signs).reshape(shape)
        return signed
