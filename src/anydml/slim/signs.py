"""Signs moved from what is joined into the constant that it is multiplied by, as in rotary embeddings.

``Concat(Neg(b), a) · c`` is ``Concat(b, a) · c′``, where c′ has the signs: what is joined then only moves.
"""

from __future__ import annotations

import numpy as np
from onnx import ModelProto, NodeProto, numpy_helper

from anydml.onnx.graph import plain_domain
from anydml.onnx.training_nodes import FreshNames
from anydml.slim.constants import Constants
from anydml.slim.following import Following
from anydml.slim.walking import captured


class Signs:
    """Looks for such products in one model.

    Args:
        model: the model, whose movement is composed already.
        following: its values.
        constants: reads its constants.
    """

    def __init__(self, model: ModelProto, following: Following, constants: Constants) -> None:
        self._model, self._following, self._constants = model, following, constants
        self._fresh = FreshNames(model)
        self._makers = {name: node for node in model.graph.node for name in node.output if name}
        self._bound = {output.name for output in model.graph.output}
        for node in model.graph.node:
            self._bound.update(captured(node))

    def moved(self) -> ModelProto | None:
        """The model with all such products; None where there is none."""
        found = {id(node): pair for node in self._model.graph.node if (pair := self._product(node)) is not None}
        if not found:
            return None
        result = ModelProto()
        result.CopyFrom(self._model)
        del result.graph.node[:]
        for node in self._model.graph.node:
            joined, constant = found.get(id(node), (None, ""))
            copy = NodeProto()
            copy.CopyFrom(node)
            if joined is not None:
                plain = NodeProto()
                plain.CopyFrom(joined)
                plain.output[0] = self._fresh.new(joined.output[0], "plain")
                plain.name = self._fresh.new(joined.output[0], "Concat")
                for k, name in enumerate(joined.input):
                    plain.input[k] = self._without_sign(name) or name
                array = self._signed(joined, constant)
                tensor = numpy_helper.from_array(array, self._fresh.new(constant, "signed"))
                result.graph.initializer.append(tensor)
                result.graph.node.append(plain)
                names = [plain.output[0] if name == joined.output[0] else tensor.name for name in node.input]
                del copy.input[:]
                copy.input.extend(names)
            result.graph.node.append(copy)
        return result

    def _product(self, node: NodeProto) -> tuple[NodeProto, str] | None:
        """What is joined, and the constant by which it is multiplied."""
        if node.op_type != "Mul" or plain_domain(node.domain):
            return None
        values = self._following.values
        for name, other in (tuple(node.input), tuple(reversed(node.input))):
            joined, constant = self._makers.get(name), values.get(other)
            if joined is None or joined.op_type != "Concat" or plain_domain(joined.domain):
                continue
            if constant is None or not constant.is_constant or constant.tensor is None:
                continue
            if values[name].tensor is None or len(constant.sizes) > len(values[name].sizes):
                continue
            if constant.tensor.dtype.kind != "f" or name in self._bound or self._following.uses[name] != 1:
                continue
            if any(self._without_sign(each) for each in joined.input):
                return joined, other
        return None

    def _without_sign(self, name: str) -> str:
        """What is negated; empty where nothing is, or where others read the negative, too."""
        node = self._makers.get(name)
        if node is None or node.op_type != "Neg" or plain_domain(node.domain) or self._following.uses[name] != 1:
            return ""
        return str(node.input[0])

    def _signed(self, joined: NodeProto, constant: str) -> np.ndarray[tuple[int, ...], np.dtype[np.generic]]:
        """The constant with the signs of what is joined."""
        array = self._constants.read(constant)
        sizes = self._following.values[joined.output[0]].sizes
        axis = next(each.i for each in joined.attribute if each.name == "axis") % len(sizes)
        signs = [
            np.full(self._following.values[name].sizes[axis], -1 if self._without_sign(name) else 1)
            for name in joined.input
        ]
        shape = [1] * len(sizes)
        shape[axis] = sizes[axis]
        found = array * np.concatenate(signs).reshape(shape).astype(array.dtype)
        return np.ascontiguousarray(found, array.dtype)
