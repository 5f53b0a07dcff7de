"""onnx's own checker and inliner, whose C++ is safe with valid models only: everything that uses it asks here first."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import TopologicalSorter

import onnx.checker
import onnx.inliner
from google.protobuf.message import EncodeError
from onnx import AttributeProto, FunctionProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

from anydml.errors import ModelError
from anydml.onnx.budget import Budget
from anydml.onnx.external import external_tensors
from anydml.onnx.graph import plain_domain
from anydml.onnx.walk import Body, all_bodies, bodies, names, tensors
from anydml.text import printable

MOST_BYTES = 2**31 - 1
"""The largest message that protobuf serialises."""

MOST_NODES = 100_000
"""Of a graph after its functions are inlined: a few of them that call each other can come to any number."""

MOST_IMPORTS = 1000
"""Opsets that a model imports: onnx's checker goes through all of them for each function."""

NODE = 2048
"""Bytes that a node of a few inputs takes in all the forms in which it is read and checked."""

NAME = 64
"""Bytes by which a name may grow where a function is inlined, so that it differs in every call."""

Name = tuple[str, str, str]
"""A function's domain, name and overload."""


def check(model: ModelProto) -> None:
    """Hold a model against ONNX's own rules. What its external data holds is no part of that.

    One rule is left out: the graph's inputs and outputs may come without a shape, and outputs without a type, as onnx's
    own evaluator has it.

    Raises:
        ModelError: onnx's checker refuses it, or there is not enough memory to check it.
    """
    size = _byte_size(model)
    if size > MOST_BYTES:
        # The checker reads serialised models only; those that are larger came here with their external data loaded.
        return
    if len(model.opset_import) > MOST_IMPORTS:
        message = f"the model imports {len(model.opset_import)} opsets, but anydml reads at most {MOST_IMPORTS}"
        raise ModelError(message, field="opset_import", rule="an import for each domain that is used")
    Budget().ask("the model", "checking it", 2 * size + NODE * len(model.graph.node))
    try:
        onnx.checker.check_model(_without_external_data(_with_shapes(model)))
    except Exception as error:
        raise ModelError(f"the model breaks a rule of ONNX: {reason(error)}") from None


def serialized(model: ModelProto) -> bytes:
    """The bytes of a model.

    Raises:
        ModelError: it has 2 GiB or more, or there is not enough memory.
    """
    try:
        return bytes(model.SerializeToString())
    except EncodeError:
        message = "the model cannot be serialised: it has 2 GiB or more, or there is not enough memory"
        raise ModelError(message, rule="protobuf writes less than 2 GiB") from None


def inlined(model: ModelProto) -> ModelProto:
    """The model, checked before, without functions: each call replaced by the nodes of its body.

    Raises:
        ModelError: onnx cannot inline them, or they come to too many nodes or bytes.
    """
    if not model.functions:
        return model
    try:
        _check_inlined_size(model)
        return onnx.inliner.inline_local_functions(model)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"the model's functions cannot be inlined: {reason(error)}") from None


def _check_inlined_size(model: ModelProto) -> None:
    """Count what there is once each call is replaced by its function's body, without doing it.

    A body's names become those of the call, and its references to attributes the call's attributes: each counts as
    much as the longest that there is.
    """
    longest = NAME + max(map(_bytes, names(model)), default=0)
    largest = max(map(_bytes, _passed(model)), default=0)
    functions = {_called(one): one for one in model.functions}
    calls = {name: {_called(node) for node in _nodes(one)} & functions.keys() for name, one in functions.items()}
    sizes: dict[Name, tuple[int, int]] = {}

    def size(top: Body) -> tuple[int, int]:
        """Nodes and bytes, as far as they are not too many."""
        count = total = 0
        for node in _nodes(top):
            own = node.ByteSize() + (len(node.input) + len(node.output)) * longest
            own += largest * sum(bool(attribute.ref_attr_name) for attribute in node.attribute)
            nodes, inside = sizes.get(_called(node), (1, own))
            count, total = min(MOST_NODES + 1, count + nodes), min(MOST_BYTES + 1, total + inside)
        return count, total

    for name in TopologicalSorter(calls).static_order():
        sizes[name] = size(functions[name])
    nodes, total = size(model.graph)
    if nodes > MOST_NODES or total > MOST_BYTES:
        message = f"the model's functions, which call each other, come to more than {MOST_NODES} nodes or 2 GiB"
        raise ModelError(message, rule="functions must be inlined")
    Budget().ask("the model's functions", "inlining them", 4 * total + NODE * nodes)


def _passed(model: ModelProto) -> Iterator[AttributeProto]:
    """Attributes that may come into a function: from calls, and its own defaults."""
    domains = {plain_domain(function.domain) for function in model.functions}
    for function in model.functions:
        yield from function.attribute_proto
    for body in all_bodies(model):
        for node in body.node:
            if plain_domain(node.domain) in domains:
                yield from node.attribute


def _bytes(one: str | AttributeProto) -> int:
    if isinstance(one, AttributeProto):
        return int(one.ByteSize())
    return len(one) if one.isascii() else 4 * len(one)


def _nodes(top: Body) -> Iterator[NodeProto]:
    return (node for body in bodies([top]) for node in body.node)


def _called(one: NodeProto | FunctionProto) -> Name:
    name = one.op_type if isinstance(one, NodeProto) else one.name
    return plain_domain(one.domain), name, one.overload


def reason(error: Exception) -> str:
    """The first line of an error; onnx's own have many, and types that have nothing in common."""
    return printable((str(error).strip() or repr(error)).splitlines()[0])


def _byte_size(model: ModelProto) -> int:
    """The bytes of a model; of one that protobuf cannot serialise, those of its tensors.

    Raises:
        MemoryError: there is not enough memory to find out.
    """
    try:
        return int(model.ByteSize())
    except EncodeError:
        size = sum(len(tensor.raw_data) for tensor in tensors(model))
    if size <= MOST_BYTES:
        raise MemoryError
    return size


def _with_shapes(model: ModelProto) -> ModelProto:
    """The model, its inputs and outputs with the shapes that the checker wants, but never compares."""
    fields = ("input", "output")
    if all(_has_shape(value) for field in fields for value in getattr(model.graph, field)):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for field in fields:
        for value in getattr(copy.graph, field):
            if not _has_shape(value):
                tensor = value.type.tensor_type
                tensor.shape.SetInParent()
                if field == "output" and not tensor.elem_type:
                    tensor.elem_type = TensorProto.FLOAT
    return copy


def _has_shape(value: ValueInfoProto) -> bool:
    kind = value.type.WhichOneof("value")
    return kind not in (None, "tensor_type") or value.type.tensor_type.HasField("shape")


def _without_external_data(model: ModelProto) -> ModelProto:
    """The model with empty tensors where data lies in other files, which the checker seeks in the current folder."""
    if not external_tensors(model):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in external_tensors(copy):
        for field in ("dims", "external_data", "data_location", "raw_data"):
            tensor.ClearField(field)
        tensor.dims.append(0)
    return copy
