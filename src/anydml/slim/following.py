"""A model's values, followed for given sizes: what each is made of by movement alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

from anydml.errors import BindingError, DescError, ModelError
from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value
from anydml.onnx.budget import Budget
from anydml.onnx.directml.following import FOLLOWED, can_be_followed
from anydml.onnx.directml.inference import inferred
from anydml.onnx.graph import ComputesError, Node, opsets_of, plain_domain
from anydml.onnx.lowering import ShapeContext, UnknownElementsError, packed
from anydml.onnx.operators import run_node
from anydml.onnx.read import named, read_node
from anydml.onnx.table import NODES
from anydml.onnx.tensors import numpy_type, tensor_shape, tensor_type, to_array
from anydml.onnx.values import Sizes, Tensor
from anydml.slim.composing import MOST_PIECES, Composing
from anydml.slim.parts import Parts, parts_of
from anydml.slim.walking import captured

MOVES = frozenset(
    [
        "CenterCropPad",
        "Concat",
        "DepthToSpace",
        "Dropout",
        "Expand",
        "Flatten",
        "Gather",
        "Identity",
        "Pad",
        "Reshape",
        "Slice",
        "SpaceToDepth",
        "Split",
        "Squeeze",
        "Tile",
        "Transpose",
        "Unsqueeze",
    ]
)
"""Operators of ONNX's own domain that move elements by numbers that are known."""

WORK = 2048
"""Pieces of all forms that are composed, and 16 more for each node."""

MOST_FORMS = 4
"""Ways in which a value is described: by the sources, and by values in between."""


@dataclass
class Followed:
    """A value.

    Attributes:
        tensor: its type and sizes, and its elements where they are few and known; None where nothing is known.
        forms: what it is made of, the first by sources alone.
        node: the number of the node that moves it, and of the output; None where no movement makes it.
        data: the names that it is moved from.
        is_constant: whether it is an initializer.
    """

    tensor: Tensor | None
    forms: list[Value] = field(default_factory=list)
    node: tuple[int, int] | None = None
    data: tuple[str, ...] = ()
    is_constant: bool = False

    @property
    def sizes(self) -> Sizes:
        """Its shape."""
        assert self.tensor is not None, "it is known"
        return self.tensor.shape

    @property
    def width(self) -> int:
        """Bytes of an element."""
        assert self.tensor is not None, "it is known"
        return self.tensor.dtype.itemsize


class Following:
    """The values of a model's main graph.

    Args:
        model: a valid model.
        sizes: of the names that sizes have, and of those that `free_name` makes up.

    Attributes:
        values: by name.
        names: of the values that forms are made of, by the numbers of their operands.
        uses: how often each value is read.
        nodes: of the main graph, with names; None where anydml does not have the operator.
        opset: of ONNX's own domain.
        outputs: of the main graph.
        output_names: their names.
    """

    def __init__(self, model: ModelProto, sizes: Mapping[str, int]) -> None:
        self._opsets = opsets_of(model.opset_import)
        self.opset = self._opsets.get("", 0)
        self._sizes = sizes
        self._budget = Budget()
        self._composing = Composing()
        self._declared = {value.name: value for value in (*model.graph.value_info, *model.graph.output)}
        self._operands: dict[str, Value] = {}
        self.values: dict[str, Followed] = {}
        self.names: dict[int, str] = {}
        self.uses: dict[str, int] = {}
        self._work = WORK + 16 * len(model.graph.node)
        self.nodes: list[tuple[str, NodeProto, Node | None]] = []
        self.outputs = [*model.graph.output]
        self.output_names = frozenset(output.name for output in self.outputs)
        for name, proto in named(model):
            self.nodes.append((name, proto, self._read(proto, name)))
            for used in (*proto.input, *captured(proto)):
                self.uses[used] = self.uses.get(used, 0) + 1
        for output in model.graph.output:
            self.uses[output.name] = self.uses.get(output.name, 0) + 1
        for value in model.graph.input:
            self.values[value.name] = Followed(self._declared_tensor(value))
        given = {value.name for value in model.graph.input}
        for tensor in model.graph.initializer:
            self.values[tensor.name] = self._initializer(tensor, tensor.name in given)
        for number, (_, proto, node) in enumerate(self.nodes):
            self._follow(number, proto, node)

    def parts(self, form: Value) -> Parts | None:
        """A form by parts, if it has any."""
        try:
            return parts_of(form)
        except NotComposableError:
            return None

    def operand(self, name: str) -> Value:
        """A value as something that is stored."""
        if name not in self._operands:
            found = self.values[name]
            value = self._composing.composer.input(name, found.sizes, packed(found.sizes, found.width), found.width)
            self._operands[name] = value
            if value.pieces:
                source: Any = value.pieces[0].source
                self.names[source.operand] = name
        return self._operands[name]

    def _read(self, proto: NodeProto, name: str) -> Node | None:
        if (plain_domain(proto.domain), proto.op_type) not in NODES:
            return None
        try:
            return read_node(proto, self._opsets, name)
        except ModelError:
            return None

    def _initializer(self, tensor: TensorProto, is_input: bool) -> Followed:
        dtype, shape = numpy_type(tensor.data_type), tensor_shape(tensor)
        if dtype is None:
            return Followed(None)
        found = Tensor(dtype, shape)
        is_here = tensor.data_location != TensorProto.EXTERNAL
        if is_here and not is_input and math.prod(shape) <= FOLLOWED and not dtype.hasobject:
            found.array = to_array(tensor, self._budget)
        return Followed(found, is_constant=not is_input)

    def _declared_tensor(self, value: ValueInfoProto) -> Tensor | None:
        if value.type.WhichOneof("value") != "tensor_type":
            return None
        elem_type, sizes = tensor_type(value)
        dtype = numpy_type(elem_type)
        if sizes is None or dtype is None:
            return None
        found = []
        for axis, size in enumerate(sizes):
            name = size if isinstance(size, str) else free_name(value.name, axis)
            known = size if isinstance(size, int) else self._sizes.get(name)
            if known is None or known < 0:
                return None
            found.append(known)
        return Tensor(dtype, tuple(found))

    def _follow(self, number: int, proto: NodeProto, node: Node | None) -> None:
        tensors = [self.values[name].tensor if name in self.values else None for name in proto.input]
        missing = any(name and tensor is None for name, tensor in zip(proto.input, tensors, strict=True))
        outputs: Sequence[Tensor | None] | None = None
        if node is not None and not missing:
            moved = not node.domain and node.operator in MOVES and self._move(number, node, tensors)
            if moved:
                return
            outputs = self._run(node, tensors)
        if outputs is None:
            outputs = [*inferred(proto, self._opsets, tensors)]
        is_constant = proto.op_type == "Constant" and not plain_domain(proto.domain)
        for k, name in enumerate(proto.output):
            tensor = outputs[k] if k < len(outputs) else None
            if tensor is None and name in self._declared:
                tensor = self._declared_tensor(self._declared[name])
            if name:
                self.values[name] = Followed(tensor, is_constant=is_constant)

    def _run(self, node: Node, tensors: Sequence[Tensor | None]) -> list[Tensor] | None:
        """What a node makes: its sizes, and its elements where they are few and known."""
        try:
            outputs = [*node.entry.run(node, ShapeContext(), tensors)]
            if not all(isinstance(each, Tensor) for each in outputs):
                return None
            return self._known(node, tensors, outputs)
        except (UnknownElementsError, ComputesError, DescError, BindingError, IndexError, ModelError, ValueError):
            # Also of a shape that no array has, as with an axis of 2⁶² and one of 0.
            return None

    def _known(self, node: Node, tensors: Sequence[Tensor | None], outputs: Iterable[Any]) -> list[Tensor]:
        found = [*outputs]
        if node.operator == "Constant" and found[0].array is None and found[0].size <= FOLLOWED:
            return [Tensor.of(run_node(node, (), self._budget)[0])]
        if not can_be_followed(node, tensors, found):
            return found
        arrays = run_node(node, [None if tensor is None else tensor.array for tensor in tensors], self._budget)
        return [Tensor.of(array) for array in arrays]

    def _move(self, number: int, node: Node, tensors: Sequence[Tensor | None]) -> bool:
        """Follow a node that moves; whether that was possible."""
        count = len(tensors) if node.operator == "Concat" else 1
        data = node.inputs[:count]
        if any(not name or self._is_opaque(self.values[name]) for name in data):
            return False
        if node.operator == "Dropout" and len(node.outputs) > 1:
            return False
        if any(tensor is not None and tensor.array is None for tensor in tensors[count:]):
            return False
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
                made: list[Any] = [*node.entry.run(node, self._composing, given)]
            except NotComposableError:
                continue
            except (UnknownElementsError, ComputesError, DescError, BindingError, IndexError, ModelError):
                return False
            found.append(made)
        if found and any(tensor is not None and tensor.array is None for tensor in tensors[:count]):
            plain: list[Tensor] | None = [Tensor(each.dtype, each.shape) for each in found[0]]
        else:
            plain = self._run(node, tensors)
        if plain is None or any(tensor.dtype.hasobject or not tensor.size for tensor in plain):
            return False
        for k, name in enumerate(node.outputs):
            if name:
                values = [
                    value for each in found if (value := each[k].value) is not None and len(value.pieces) <= MOST_PIECES
                ]
                self._work -= sum(len(value.pieces) for value in values if len(value.pieces) > 1)
                self.values[name] = Followed(plain[k], values, (number, k), tuple(data))
        return True

    def _is_opaque(self, value: Followed) -> bool:
        return value.tensor is None or value.tensor.dtype.hasobject or not value.tensor.size

    def _forms(self, name: str) -> list[Value]:
        value = self.values[name]
        own = self.operand(name)
        if value.node is None or not value.forms or self._work < 0:
            return [own]
        if self.uses.get(name, 0) == 1 and len(value.forms[0].pieces) == 1:
            return value.forms[:MOST_FORMS]
        return [*value.forms[: MOST_FORMS - 1], own]


def free_name(value: str, axis: int) -> str:
    """What a size is called that has no name: no name in a model has a line break."""
    return f"{value}\n{axis}"


def size_names(model: ModelProto) -> list[str]:
    """Names of the sizes of inputs, those without one included, in order."""
    found: dict[str, None] = {}
    constants = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.type.WhichOneof("value") != "tensor_type" or value.name in constants:
            continue
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                found[dim.dim_param or free_name(value.name, axis)] = None
    return [*found]
