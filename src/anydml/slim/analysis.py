"""Analysis of a graph for given sizes: the shape and type of each value, and its composition from other values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from onnx import ValueInfoProto

from anydml.errors import BindingError, DescError, ModelError
from anydml.moves.move import Access
from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value
from anydml.onnx.budget import Budget
from anydml.onnx.folding import fold
from anydml.onnx.graph import ComputesError, Node, opsets_of
from anydml.onnx.graph_values import Array, Sizes, Tensor
from anydml.onnx.inference import FOLLOWED, declared_tensor, infer_outputs, initial
from anydml.onnx.lowering import MAX_BYTES, ShapeContext, UnknownElementsError
from anydml.onnx.read import read_node
from anydml.onnx.table import NODES
from anydml.onnx.walk import plain_domain
from anydml.proving.names import unnamed_size
from anydml.slim.composing import MAX_PIECES, CompositionContext, has_open_end
from anydml.slim.graph import Graph, Op
from anydml.slim.pieces import Pieces, flat_pieces
from anydml.tensor import Layout

_MOVEMENT = """
    CenterCropPad Concat DepthToSpace Dropout Expand Flatten Gather Identity Pad Reshape Slice SpaceToDepth Split
    Squeeze Tile Transpose Unsqueeze
"""

MOVEMENT = frozenset(_MOVEMENT.split())
"""Operators of ONNX's own domain that move elements if their other inputs are known."""

WORK, WORK_PER_NODE = 2048, 16
"""Number of pieces that all compositions may have; beyond it, each node's inputs count as sources."""

MAX_COMPOSITIONS = 4
"""Maximum number of compositions of a value."""

_REFUSALS = (UnknownElementsError, ComputesError, DescError, BindingError, IndexError, ModelError)


@dataclass(eq=False)
class ValueInfo:
    """The shape, type and source of a value, as far as they are known.

    Attributes:
        tensor: dtype and shape, and the elements if they are few and known; None if nothing is known.
        compositions: ways to compose the value from others; the first one uses only values that no movement makes.
        op: the movement node that makes it, if any.
        output: the number of that node's output.
        data: names of the values whose elements that node moves.
        is_constant: whether it is an initializer or the result of a Constant node.
    """

    tensor: Tensor | None
    compositions: list[Value] = field(default_factory=list)
    op: Op | None = None
    output: int = 0
    data: tuple[str, ...] = ()
    is_constant: bool = False

    @cached_property
    def pieces(self) -> list[Pieces | None]:
        """The flat pieces of each composition; None if it contains lookups."""
        return [*map(_flat, self.compositions)]

    @property
    def pieces_of_sources(self) -> Pieces | None:
        """The flat pieces of the first composition; None if there is none or it contains lookups."""
        return self.pieces[0] if self.compositions else None

    @property
    def sizes(self) -> Sizes:
        """The shape, which must be known."""
        assert self.tensor is not None, "its shape is known"
        return self.tensor.shape

    @property
    def width(self) -> int:
        """Bytes per element, which must be known."""
        assert self.tensor is not None, "its dtype is known"
        return self.tensor.dtype.itemsize

    @property
    def bytes(self) -> int:
        """Size in bytes; 0 if unknown."""
        return 0 if self.tensor is None else self.tensor.nbytes

    @property
    def array(self) -> Array | None:
        """The elements; None if unknown."""
        return None if self.tensor is None else self.tensor.array

    def is_like(self, other_info: ValueInfo) -> bool:
        """Whether two values have the same type and shape, and the same elements if these are known."""
        if self.tensor is None or other_info.tensor is None:
            return False
        first, second = self.tensor, other_info.tensor
        is_same = (first.dtype, first.shape, self.is_constant) == (second.dtype, second.shape, other_info.is_constant)
        if first.array is None or second.array is None:
            return is_same and first.array is second.array
        return is_same and bool(np.array_equal(first.array, second.array))


def _flat(value: Value) -> Pieces | None:
    try:
        return flat_pieces(value)
    except NotComposableError:
        return None


@dataclass
class _Visit:
    """A node as it was read: inputs, outputs by name, and whether it is movement that refuses its inputs."""

    node: Node | None
    inputs: list[ValueInfo | None]
    outputs: list[tuple[str, ValueInfo]]
    is_refused: bool

    def holds(self, inputs: Sequence[ValueInfo | None]) -> bool:
        """Whether these inputs would give the same outputs."""
        pairs = [*zip(self.inputs, inputs, strict=True)]
        if all(a is b for a, b in pairs):
            return True
        if any(value.op is not None for _, value in self.outputs):
            return False
        return all(a is b or (a is not None and b is not None and a.is_like(b)) for a, b in pairs)


class Analysis:
    """An analysis of the values of a graph.

    A name has the same elements in all graphs that are derived from one model. So only nodes that move other values
    than before are analysed again.

    Args:
        graph: the graph of a valid model.
        sizes: symbolic sizes by name (see `unnamed_size`).
        before: the analysis of another graph of this model, for the same sizes.

    Attributes:
        graph: the graph.
        sizes: the symbolic sizes.
        values: the values by name.
        names: names of the sources of compositions, by operand number.
    """

    def __init__(self, graph: Graph, sizes: Mapping[str, int], before: Analysis | None = None) -> None:
        self.graph, self.sizes = graph, sizes
        self._opsets = opsets_of(graph.model.opset_import)
        self._budget = Budget()
        self._work = WORK + WORK_PER_NODE * len(graph.ops)
        self._context: CompositionContext = CompositionContext() if before is None else before._context
        self._operands: dict[str, Value] = {} if before is None else before._operands
        self.names: dict[int, str] = {} if before is None else before.names
        self._given: dict[str, ValueInfo] = self._inputs() if before is None else before._given
        for name, array in graph.constants.new_arrays.items():
            if name not in self._given:
                followed = array if array.size <= FOLLOWED else None
                self._given[name] = ValueInfo(Tensor(array.dtype, array.shape, followed), is_constant=True)
        self.values = dict(self._given)
        self._declared = {value.name: value for value in (*graph.model.graph.value_info, *graph.model.graph.output)}
        self._visits: dict[Op, _Visit] = {}
        for op in graph.ops:
            inputs = [self.values.get(name) for name in op.inputs]
            visit = None if before is None else before._visits.get(op)
            if visit is None or not visit.holds(inputs):
                node = self._read(op) if visit is None else visit.node
                visit = _Visit(node, inputs, *self._visit(op, node, inputs))
            self._visits[op] = visit
            self.values.update(visit.outputs)

    @property
    def is_too_large(self) -> bool:
        """Whether a tensor would have more bytes than possible."""
        return any(value.bytes >= MAX_BYTES // 2 for value in self.values.values())

    def node(self, op: Op) -> Node | None:
        """Return a node in anydml's form; None if anydml does not support the operator."""
        return self._visits[op].node

    def moves(self, op: Op) -> bool:
        """Whether a node is movement."""
        return any(value.op is op for _, value in self._visits[op].outputs)

    @cached_property
    def refused(self) -> frozenset[str]:
        """Names of the outputs of movement nodes that refuse their inputs, and of movement of these outputs."""
        refused = set[str]()
        for op in self.graph.ops:
            if op.op_type in MOVEMENT and (self._visits[op].is_refused or not refused.isdisjoint(op.inputs)):
                refused.update(op.outputs)
        return frozenset(refused)

    def operand(self, name: str) -> Value:
        """Return a value as a source of other values."""
        operand_value = self.values[name]
        # Where a rewritten graph is wrong, a value may have another shape than before.
        if name not in self._operands or self._operands[name].sizes != operand_value.sizes:
            layout = Layout.packed(operand_value.sizes, operand_value.width)
            value = self._context.composer.input(name, layout.sizes, layout.strides, layout.element_size)
            self._operands[name] = value
            for piece in value.pieces:
                assert isinstance(piece.source, Access), "it is an input"
                self.names[piece.source.operand] = name
        return self._operands[name]

    def _inputs(self) -> dict[str, ValueInfo]:
        graph = self.graph.model.graph
        values = {value.name: ValueInfo(self._declared_tensor(value)) for value in graph.input}
        inputs = {*values}
        for tensor in graph.initializer:
            is_constant = tensor.name not in inputs
            values[tensor.name] = ValueInfo(
                initial(tensor, FOLLOWED if is_constant else -1, self._budget), is_constant=is_constant
            )
        return values

    def _declared_tensor(self, value: ValueInfoProto) -> Tensor | None:
        return declared_tensor(value, lambda axis, name: self.sizes.get(name or unnamed_size(value.name, axis)))

    def _read(self, op: Op) -> Node | None:
        if (plain_domain(op.proto.domain), op.proto.op_type) not in NODES:
            return None
        try:
            return read_node(op.proto, self._opsets, op.proto.name)
        except ModelError:
            return None

    def _visit(
        self, op: Op, node: Node | None, inputs: Sequence[ValueInfo | None]
    ) -> tuple[list[tuple[str, ValueInfo]], bool]:
        """Return a node's outputs by name, and whether it is movement that refuses its inputs."""
        tensors = [None if value is None else value.tensor for value in inputs]
        outputs: Sequence[Tensor | None] | None = None
        is_refused = False
        if node is not None and not any(
            name and tensor is None for name, tensor in zip(op.inputs, tensors, strict=True)
        ):
            is_movement = op.op_type in MOVEMENT and not (op.op_type == "Slice" and has_open_end(tensors))
            moved = self._moved(op, node, tensors) if is_movement else None
            if moved is not None:
                return moved, False
            outputs = self._lower(node, tensors)
            parameters = tensors[len(tensors) if op.op_type == "Concat" else 1 :]
            is_refused = outputs is None and all(tensor is None or tensor.array is not None for tensor in parameters)
        if op.op_type == "Slice" and has_open_end(tensors):
            outputs, is_refused = [], False
        elif outputs is None:
            outputs = [*infer_outputs(op.proto, self._opsets, tensors)]
        moved_tensors = []
        for k, name in enumerate(op.outputs):
            tensor = outputs[k] if k < len(outputs) else None
            if tensor is None and name in self._declared:
                tensor = self._declared_tensor(self._declared[name])
            if name:
                is_constant = op.op_type == "Constant" and name in self.graph.constants
                moved_tensors.append((name, ValueInfo(tensor, is_constant=is_constant)))
        return moved_tensors, is_refused

    def _lower(self, node: Node, tensors: Sequence[Tensor | None]) -> list[Tensor] | None:
        """Return the shapes of a node's results, and their elements if they are few; None if unknown."""
        try:
            results = fold(node, tensors, FOLLOWED, self._budget)
            outputs: list[Any] = [*(ShapeContext().lower(node, tensors) if results is None else results)]
        except (*_REFUSALS, ValueError):
            # NumPy raises ValueError for impossible shapes, as with an axis of 2⁶² beside one of 0.
            return None
        return outputs if all(isinstance(output, Tensor) for output in outputs) else None

    def _moved(self, op: Op, node: Node, tensors: Sequence[Tensor | None]) -> list[tuple[str, ValueInfo]] | None:
        """Return the outputs of a node that moves elements, by name; None if it cannot be analysed as movement."""
        count = len(tensors) if op.op_type == "Concat" else 1
        data = op.inputs[:count]
        if any(not name or _is_opaque(self.values[name].tensor) for name in data):
            return None
        if op.op_type == "Dropout" and len(op.outputs) > 1:
            return None
        if any(tensor is not None and tensor.array is None for tensor in tensors[count:]):
            return None
        compositions = [self._compositions(name) for name in data]
        # All inputs of a Concat use their first compositions, or all use their last ones.
        result_count = len(compositions[0]) if count == 1 else min(2, max(map(len, compositions)))
        results_of: list[list[Tensor]] = []
        for k in range(result_count):
            given_inputs: list[Tensor | None] = [*tensors]
            for i, (composition, tensor) in enumerate(zip(compositions, tensors, strict=False)):
                assert tensor is not None, "it is not opaque"
                given_inputs[i] = Tensor(tensor.dtype, tensor.shape, None, composition[k if count == 1 else -k])
            try:
                outputs: list[Any] = [*self._context.lower(node, given_inputs)]
            except NotComposableError:
                continue
            except _REFUSALS:
                return None
            results_of.append(outputs)
        if results_of and any(tensor is not None and tensor.array is None for tensor in tensors[:count]):
            plain: list[Tensor] | None = [Tensor(tensor.dtype, tensor.shape) for tensor in results_of[0]]
        else:
            plain = self._lower(node, tensors)
        if plain is None or any(map(_is_opaque, plain)):
            return None
        result = []
        for k, name in enumerate(op.outputs):
            if name:
                values = [result[k].value for result in results_of]
                small_values = [value for value in values if value is not None and len(value.pieces) <= MAX_PIECES]
                self._work -= sum(len(value.pieces) for value in small_values if len(value.pieces) > 1)
                result.append((name, ValueInfo(plain[k], small_values, op, k, data)))
        return result

    def _compositions(self, name: str) -> list[Value]:
        """Return a value's compositions; the last one is the value itself, if other values may share the value."""
        value = self.values[name]
        operand = self.operand(name)
        if value.op is None or not value.compositions or self._work < 0:
            return [operand]
        if len(self.graph.readers[name]) == 1 and len(value.compositions[0].pieces) == 1:
            return value.compositions[:MAX_COMPOSITIONS]
        return [*value.compositions[: MAX_COMPOSITIONS - 1], operand]


def _is_opaque(tensor: Tensor | None) -> bool:
    """Whether a tensor is unknown, empty, or of strings."""
    return tensor is None or tensor.dtype.hasobject or not tensor.size
