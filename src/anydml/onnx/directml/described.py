"""A node whose sizes are known, for what says what it is in DirectML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx import helper

from anydml.errors import ModelError
from anydml.onnx.graph import Node
from anydml.onnx.moving import Looking, NotKnownError
from anydml.onnx.tensors import directml_type, type_name
from anydml.onnx.values import Flowing, Sizes, Tensor
from anydml.operators import OperatorDesc
from anydml.tensor import DataType, TensorDesc


class NoTypeError(ModelError):
    """DirectML has no tensors of a type."""


@dataclass(frozen=True)
class Described:
    """A node, and what is known of its inputs and outputs.

    Attributes:
        node: the node.
        inputs: one a name, None where it is left out.
        outputs: as many as the operator has.
        dimensions: that tensors have at least; shorter ones get leading 1s, as ONNX Runtime's provider does it.
        at: reads elements that are known.
        skips_empty: whether tensors without elements are left out, as that provider does it.
    """

    node: Node
    inputs: Sequence[Flowing | None]
    outputs: Sequence[Flowing]
    dimensions: int
    at: Looking
    skips_empty: bool = False

    @property
    def output(self) -> Tensor:
        """The first output."""
        first = self.outputs[0]
        assert isinstance(first, Tensor), "no operator with a desc makes a sequence"
        return first

    def input(self, index: int) -> Tensor:
        """An input that is there."""
        given = self.inputs[index]
        assert isinstance(given, Tensor), "the node was looked at before"
        return given

    def given(self, index: int) -> Tensor | None:
        """An input that may not be there."""
        given = self.inputs[index] if index < len(self.inputs) else None
        return given if isinstance(given, Tensor) else None

    def count(self, *tensors: Tensor) -> int:
        """Dimensions of descs in which these tensors are: the largest rank, and at least `dimensions`."""
        return max(1, self.dimensions, *(len(tensor.shape) for tensor in tensors))

    def type_of(self, tensor: Tensor) -> DataType:
        """DirectML's type of the same elements.

        Raises:
            NoTypeError: it has none.
        """
        elem_type = helper.np_dtype_to_tensor_dtype(tensor.dtype)
        found = directml_type(elem_type)
        if found is None:
            label, rule = self.node.label, "DirectML moves integers and floats of 8 to 64 bits"
            message = f"{label}: moves {type_name(elem_type)}, and DirectML has no tensors of it"
            raise NoTypeError(message, self.node.operator, "DataType", rule)
        return found

    def desc(self, tensor: Tensor, count: int) -> TensorDesc:
        """A packed tensor of `count` dimensions.

        Raises:
            NoTypeError: DirectML has none of its type.
        """
        return TensorDesc(self.type_of(tensor), filled_up(tensor.shape, count))

    def descs(self, *tensors: Tensor) -> list[TensorDesc]:
        """Packed tensors of one dimension count.

        Raises:
            NoTypeError: DirectML has none of a type.
        """
        count = self.count(*tensors)
        return [self.desc(tensor, count) for tensor in tensors]


def filled_up(sizes: Sizes, count: int) -> Sizes:
    """Sizes with leading 1s."""
    return (1,) * (count - len(sizes)) + sizes


def not_ours(name: str) -> OperatorDesc | None:
    """What a node would be in DirectML, of which anydml has no desc.

    Raises:
        NotKnownError: always.
    """
    raise NotKnownError(f"DirectML runs {name} there, which anydml does not check")
