"""onnx's own checker and inliner, whose C++ is safe with valid models only: everything that uses it asks here first."""

from __future__ import annotations

from collections.abc import Iterator
from graphlib import TopologicalSorter

import onnx.checker
import onnx.inliner
from onnx import FunctionProto, ModelProto, NodeProto

from anydml.errors import ModelError
from anydml.onnx.external import external_tensors
from anydml.onnx.graph import plain_domain
from anydml.onnx.walk import Body, bodies

MOST_BYTES = 2**31 - 1
"""The largest message that protobuf serialises."""

MOST_NODES = 1_000_000
"""Of a graph after its functions are inlined: a few of them that call each other can come to any number."""

Name = tuple[str, str, str]
"""A function's domain, name and overload."""


def check(model: ModelProto) -> None:
    """Hold a model against ONNX's own rules. What its external data holds is no part of that.

    Raises:
        ModelError: onnx's checker refuses it.
    """
    if model.ByteSize() > MOST_BYTES:
        # The checker reads serialised models only; those that are larger came here with their external data loaded.
        return
    try:
        onnx.checker.check_model(_without_external_data(model))
    except Exception as error:
        raise ModelError(f"the model breaks a rule of ONNX: {reason(error)}") from None


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
    """Count what there is once each call is replaced by its function's body, without doing it."""
    functions = {_called(one): one for one in model.functions}
    calls = {name: {call for call, _ in _nodes(one) if call in functions} for name, one in functions.items()}
    sizes: dict[Name, tuple[int, int]] = {}

    def size(top: Body) -> tuple[int, int]:
        """Nodes and bytes, as far as they are not too many."""
        found = [sizes.get(call, (1, own)) for call, own in _nodes(top)]
        return min(MOST_NODES + 1, sum(nodes for nodes, _ in found)), min(MOST_BYTES + 1, sum(own for _, own in found))

    for name in TopologicalSorter(calls).static_order():
        sizes[name] = size(functions[name])
    nodes, own = size(model.graph)
    if nodes > MOST_NODES or own > MOST_BYTES:
        message = f"the model's functions, which call each other, come to more than {MOST_NODES} nodes or 2 GiB"
        raise ModelError(message, rule="functions are inlined")


def _nodes(top: Body) -> Iterator[tuple[Name, int]]:
    """What each node calls, and its bytes."""
    return ((_called(node), node.ByteSize()) for body in bodies([top]) for node in body.node)


def _called(one: NodeProto | FunctionProto) -> Name:
    name = one.op_type if isinstance(one, NodeProto) else one.name
    return plain_domain(one.domain), name, one.overload


def reason(error: Exception) -> str:
    """The first line of an error; onnx's own have many, and types that have nothing in common."""
    return (str(error).strip() or repr(error)).splitlines()[0]


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
