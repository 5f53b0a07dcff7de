"""Follow a graph's values for given sizes: what each is made of by movement alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import TensorProto, ValueInfoProto

from anydml.errors import BindingError, DescError, ModelError
from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value
from anydml.onnx.budget import Budget
from anydml.onnx.folding import folded
from anydml.onnx.graph import ComputesError, Node, opsets_of
from anydml.onnx.inference import FOLLOWED, declared, inferred, initial
from anydml.onnx.lowering import ShapeContext, UnknownElementsError
from anydml.onnx.read import read_node
from anydml.onnx.table import NODES
from anydml.onnx.values import Tensor
from anydml.onnx.walk import plain_domain
from anydml.slim.composing import MOST_PIECES, Composing
from anydml.slim.followed import Followed
from anydml.slim.graph import Graph, Op
from anydml.slim.sizes import free_name
from anydml.tensor import Layout

_MOVES = """
    CenterCropPad Concat DepthToSpace Dropout Expand Flatten Gather Identity Pad Reshape Slice SpaceToDepth Split
    Squeeze Tile Transpose Unsqueeze
"""

MOVES = frozenset(_MOVES.split())
"""Operators of ONNX's own domain that move elements by numbers that are known."""

WORK = 2048
"""Pieces of all forms that are composed, and 16 more for each node."""

MOST_FORMS = 4
"""Ways in which a value is described: by the sources, and by values in between."""


@dataclass
class _Visit:
    """What was found of a node, and from what."""

    node: Node | None
    given: list[Followed | None]
    made: list[tuple[str, Followed]]

    def stands(self, given: Sequence[Followed | None]) -> bool:
        """Whether the same would be found of the inputs of today."""
        if all(a is b for a, b in zip(self.given, given, strict=True)):
            return True
        if any(value.op is not None for _, value in self.made):
            return False
        return all(a is b or (a is not None and a.is_like(b)) for a, b in zip(self.given, given, strict=True))


class Following:
    """The values of a graph.

    A name stands for the same elements in all graphs that are made of one model. So what was followed in one of them is
    followed again only where it is moved from something else.

    Args:
        graph: of a valid model.
        sizes: of the names that sizes have, and of those that `free_name` makes up.
        before: a graph of the same model, followed for the same sizes.

    Attributes:
        graph: the graph.
        sizes: the sizes.
        values: by name.
        names: of the values that forms are made of, by the numbers of their operands.
    """

    def __init__(self, graph: Graph, sizes: Mapping[str, int], before: Following | None = None) -> None:
        self.graph, self.sizes = graph, sizes
        self._opsets = opsets_of(graph.model.opset_import)
        self._budget = Budget()
        self._work = WORK + 16 * len(graph.ops)
        self._composing: Composing = Composing() if before is None else before._composing
        self._operands: dict[str, Value] = {} if before is None else before._operands
        self.names: dict[int, str] = {} if before is None else before.names
        self._given: dict[str, Followed] = self._inputs() if before is None else before._given
        known: Mapping[Op, _Visit] = {} if before is None else before._visits
        for name, array in graph.constants.made.items():
            if name not in self._given:
                small = array if array.size <= FOLLOWED else None
                self._given[name] = Followed(Tensor(array.dtype, array.shape, small), is_constant=True)
        self.values = dict(self._given)
        self._declared = {value.name: value for value in (*graph.model.graph.value_info, *graph.model.graph.output)}
        self._visits: dict[Op, _Visit] = {}
        for op in graph.ops:
            given = [self.values.get(name) for name in op.inputs]
            visit = known.get(op)
            if visit is None or not visit.stands(given):
                node = self._read(op) if visit is None else visit.node
                visit = _Visit(node, given, self._follow(op, node, given))
            self._visits[op] = visit
            self.values.update(visit.made)

    def node(self, op: Op) -> Node | None:
        """A node as anydml reads it; None where it does not have the operator."""
        return self._visits[op].node

    def moves(self, op: Op) -> bool:
        """Whether a node is movement."""
        return any(value.op is op for _, value in self._visits[op].made)

    def operand(self, name: str) -> Value:
        """A value as something that is stored."""
        if name not in self._operands:
            found = self.values[name]
            value = self._composing.composer.input(
                name, found.sizes, Layout.packed(found.sizes, found.width).strides, found.width
            )
            self._operands[name] = value
            if value.pieces:
                source: Any = value.pieces[0].source
                self.names[source.operand] = name
        return self._operands[name]

    def _inputs(self) -> dict[str, Followed]:
        """Inputs and initializers."""
        graph = self.graph.model.graph
        found = {value.name: Followed(self._declared_tensor(value)) for value in graph.input}
        given = {*found}
        for tensor in graph.initializer:
            found[tensor.name] = self._initializer(tensor, tensor.name in given)
        return found

    def _read(self, op: Op) -> Node | None:
        if (plain_domain(op.proto.domain), op.proto.op_type) not in NODES:
            return None
        try:
            return read_node(op.proto, self._opsets, op.proto.name)
        except ModelError:
            return None

    def _initializer(self, tensor: TensorProto, is_input: bool) -> Followed:
        return Followed(initial(tensor, not is_input, self._budget), is_constant=not is_input)

    def _declared_tensor(self, value: ValueInfoProto) -> Tensor | None:
        return declared(value, lambda axis, name: self.sizes.get(name or free_name(value.name, axis)))

    def _follow(self, op: Op, node: Node | None, given: Sequence[Followed | None]) -> list[tuple[str, Followed]]:
        """What a node makes, by name."""
        tensors = [None if value is None else value.tensor for value in given]
        missing = any(name and tensor is None for name, tensor in zip(op.inputs, tensors, strict=True))
        outputs: Sequence[Tensor | None] | None = None
        if node is not None and not missing:
            moved = self._move(op, node, tensors) if op.kind in MOVES else None
            if moved is not None:
                return moved
            outputs = self._run(node, tensors)
        if outputs is None:
            outputs = [*inferred(op.proto, self._opsets, tensors)]
        made = []
        for k, name in enumerate(op.outputs):
            tensor = outputs[k] if k < len(outputs) else None
            if tensor is None and name in self._declared:
                tensor = self._declared_tensor(self._declared[name])
            if name:
                is_constant = op.kind == "Constant" and name in self.graph.constants
                made.append((name, Followed(tensor, is_constant=is_constant)))
        return made

    def _run(self, node: Node, tensors: Sequence[Tensor | None]) -> list[Tensor] | None:
        """What a node makes: its sizes, and its elements where they are few and known."""
        try:
            found = folded(node, tensors, FOLLOWED, self._budget)
            outputs: list[Any] = [*(ShapeContext().lower(node, tensors) if found is None else found)]
        except (UnknownElementsError, ComputesError, DescError, BindingError, IndexError, ModelError, ValueError):
            # Also of a shape that no array has, as with an axis of 2⁶² and one of 0.
            return None
        return outputs if all(isinstance(each, Tensor) for each in outputs) else None

    def _move(self, op: Op, node: Node, tensors: Sequence[Tensor | None]) -> list[tuple[str, Followed]] | None:
        """What a node makes by movement; None where it cannot be followed."""
        count = len(tensors) if op.kind == "Concat" else 1
        data = op.inputs[:count]
        if any(not name or _is_opaque(self.values[name]) for name in data):
            return None
        if op.kind == "Dropout" and len(op.outputs) > 1:
            return None
        if any(tensor is not None and tensor.array is None for tensor in tensors[count:]):
            return None
        forms = [self._forms(name) for name in data]
        # What is joined is described by the sources, or by the nearest values.
        several = len(forms[0]) if count == 1 else min(2, max(map(len, forms)))
        found: list[list[Tensor]] = []
        for k in range(several):
            given: list[Tensor | None] = [*tensors]
            for i, (own, tensor) in enumerate(zip(forms, tensors, strict=False)):
                assert tensor is not None, "it is not opaque"
                given[i] = Tensor(tensor.dtype, tensor.shape, None, own[k if count == 1 else -k])
            try:
                made: list[Any] = [*self._composing.lower(node, given)]
            except NotComposableError:
                continue
            except (UnknownElementsError, ComputesError, DescError, BindingError, IndexError, ModelError):
                return None
            found.append(made)
        if found and any(tensor is not None and tensor.array is None for tensor in tensors[:count]):
            plain: list[Tensor] | None = [Tensor(each.dtype, each.shape) for each in found[0]]
        else:
            plain = self._run(node, tensors)
        if plain is None or any(tensor.dtype.hasobject or not tensor.size for tensor in plain):
            return None
        result = []
        for k, name in enumerate(op.outputs):
            if name:
                values = [
                    value for each in found if (value := each[k].value) is not None and len(value.pieces) <= MOST_PIECES
                ]
                self._work -= sum(len(value.pieces) for value in values if len(value.pieces) > 1)
                result.append((name, Followed(plain[k], values, op, k, data)))
        return result

    def _forms(self, name: str) -> list[Value]:
        value = self.values[name]
        own = self.operand(name)
        if value.op is None or not value.forms or self._work < 0:
            return [own]
        if len(self.graph.users[name]) == 1 and len(value.forms[0].pieces) == 1:
            return value.forms[:MOST_FORMS]
        return [*value.forms[: MOST_FORMS - 1], own]


def _is_opaque(value: Followed) -> bool:
    return value.tensor is None or value.tensor.dtype.hasobject or not value.tensor.size
