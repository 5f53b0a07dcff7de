"""Propagation of sizes, and of the small tensors that determine them, through a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnx import NodeProto, TensorProto

from anydml.files.json_path import show
from anydml.onnx.budget import Budget
from anydml.onnx.graph import Node
from anydml.onnx.values import Array, GraphValue, Held, Tensor

FOLLOWED = 4096
"""Largest number of elements of a tensor whose values are propagated."""


@dataclass(frozen=True)
class Unknown:
    """A value of unknown sizes.

    Attributes:
        why: what its sizes depend on, for messages.
        sizes: symbolic sizes that must be given to know it.
    """

    why: str
    sizes: tuple[str, ...] = ()


class Names:
    """The names of a NodeProto, for `last_use`."""

    def __init__(self, proto: NodeProto) -> None:
        self.inputs, self.outputs = proto.input, proto.output


def known_tensor(tensor: Tensor, array: Array, budget: Budget) -> Tensor:
    """Return a copy of a tensor with known elements."""
    return Tensor(tensor.dtype, tensor.shape, array, held=Held(budget, array))


def value_of(values: Mapping[str, GraphValue | Unknown], node: Node, name: str) -> GraphValue | Unknown | None:
    """Return the value of a name; None if the name is empty.

    Raises:
        ModelError: no earlier node creates it.
    """
    if not name:
        return None
    if name not in values:
        raise node.error(f"nothing makes its input {show(name)} before it runs", name, "nodes come in order")
    return values[name]


def can_be_followed(node: Node, inputs: Sequence[GraphValue | None], outputs: Sequence[GraphValue]) -> bool:
    """Return whether to evaluate a node: its inputs are known, and its results few and not known yet."""
    if node.operator == "Constant" and any(
        attribute.t.data_location == TensorProto.EXTERNAL for attribute in node.attributes.values()
    ):
        return False
    few = all(isinstance(each, Tensor) and each.size <= FOLLOWED and not each.dtype.hasobject for each in outputs)
    is_made = all(isinstance(each, Tensor) and each.array is not None for each in outputs)
    known = all(each is None or (isinstance(each, Tensor) and each.array is not None) for each in inputs)
    return few and known and not is_made
