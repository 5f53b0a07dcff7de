"""A node with known sizes, from which descs are created."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnx import helper

from anydml.errors import ModelError
from anydml.onnx.graph import Node
from anydml.onnx.graph_values import GraphValue, Sizes, Tensor
from anydml.onnx.lowering import ShapeContext
from anydml.onnx.tensor_protos import directml_type, type_name
from anydml.tensor import OF_4_BITS, TYPES_OF_4_BITS, DataType, TensorDesc


class NoTypeError(ModelError):
    """DirectML does not support an element type."""


@dataclass(frozen=True)
class Described:
    """A node and its results.

    Attributes:
        node: the node.
        outputs: the results; none if their sizes are only known when the graph runs.
        dimensions: minimum rank of descs; smaller ranks get leading 1s, as in ONNX Runtime's provider.
        ctx: reads known elements.
        skips_empty: whether tensors without elements are left out, as in that provider.
    """

    node: Node
    outputs: Sequence[GraphValue]
    dimensions: int
    ctx: ShapeContext
    skips_empty: bool = False

    @property
    def output(self) -> Tensor:
        """The first output."""
        first = self.outputs[0]
        assert isinstance(first, Tensor), "no operator with a desc makes a sequence"
        return first

    def count(self, *tensors: Tensor) -> int:
        """Return the common rank of the tensors' descs: their largest rank, and at least `dimensions`."""
        return max(1, self.dimensions, *(len(tensor.shape) for tensor in tensors))

    def axis(self, x: Tensor, desc: TensorDesc) -> int:
        """Return the attribute `axis` of a tensor as an axis of its desc."""
        return self.node.axis(len(x.shape)) + len(desc.sizes) - len(x.shape)

    def type_of(self, tensor: Tensor) -> DataType:
        """Return the data type of a tensor.

        Raises:
            NoTypeError: DirectML does not support it.
        """
        elem_type = helper.np_dtype_to_tensor_dtype(tensor.dtype)
        data_type = directml_type(elem_type)
        if data_type is None:
            label, rule = self.node.label, "DirectML moves integers and floats of 8 to 64 bits"
            why = OF_4_BITS if type_name(elem_type) in TYPES_OF_4_BITS else "DirectML has no tensors of it"
            message = f"{label}: moves {type_name(elem_type)}, and {why}"
            raise NoTypeError(message, self.node.operator, "DataType", rule)
        return data_type

    def desc(self, tensor: Tensor, count: int) -> TensorDesc:
        """Return the desc of a packed tensor with `count` dimensions.

        Raises:
            NoTypeError: DirectML does not support its type.
        """
        return TensorDesc(self.type_of(tensor), filled_up(tensor.shape, count))

    def descs(self, *tensors: Tensor) -> list[TensorDesc]:
        """Return descs of packed tensors with a common number of dimensions.

        Raises:
            NoTypeError: DirectML does not support a type.
        """
        count = self.count(*tensors)
        return [self.desc(tensor, count) for tensor in tensors]


def filled_up(sizes: Sequence[int], count: int, value: int = 1) -> Sizes:
    """Prepend a value (1 for sizes) to a list with one number per dimension, until it has `count` items."""
    return (value,) * (count - len(sizes)) + tuple(sizes)
