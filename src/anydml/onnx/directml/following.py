"""What is known of values while sizes, and the small tensors that decide them, are followed through a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx import NodeProto, TensorProto

from anydml.files.json_path import show
from anydml.onnx.budget import Budget
from anydml.onnx.graph import Node
from anydml.onnx.values import Array, Flowing, Held, Tensor

FOLLOWED = 4096
"""Elements of an integer tensor whose values are followed through the graph."""


@dataclass(frozen=True)
class Unknown:
    """A value of which nothing is known.

    Attributes:
        why: what its sizes depend on.
        sizes: names of sizes that would have to be given.
    """

    why: str
    sizes: tuple[str, ...] = ()


class Names:
    """A node as `last_use` needs it."""

    def __init__(self, proto: NodeProto) -> None:
        self.inputs, self.outputs = proto.input, proto.output


def known_tensor(tensor: Tensor, array: Array, budget: Budget) -> Tensor:
    """A tensor whose elements are known."""
    return Tensor(tensor.dtype, tensor.shape, array, held=Held(budget, array))


def value_of(values: Mapping[str, Flowing | Unknown], node: Node, name: str) -> Flowing | Unknown | None:
    """What a name stands for; None where it is empty.

    Raises:
        ModelError: nothing makes it before.
    """
    if not name:
        return None
    if name not in values:
        raise node.error(f"nothing makes its input {show(name)} before it runs", name, "nodes come in order")
    return values[name]


def can_be_followed(node: Node, inputs: Sequence[Flowing | None], outputs: Sequence[Flowing]) -> bool:
    """Whether a node's results are so few and so known that they are worked out."""
    if node.operator == "Constant" and any(
        attribute.t.data_location == TensorProto.EXTERNAL for attribute in node.attributes.values()
    ):
        return False
    few = all(isinstance(each, Tensor) and each.size <= FOLLOWED and not each.dtype.hasobject for each in outputs)
    is_made = all(isinstance(each, Tensor) and each.array is not None for each in outputs)
    known = all(each is None or (isinstance(each, Tensor) and each.array is not None) for each in inputs)
    return few and known and not is_made
