"""PyDirectML's expressions, data that is bound to them, and what operators with several outputs would give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

from anydml.errors import BindingError, DescError, DescTypeError
from anydml.pydirectml.tensors import TensorDesc
from anydml.tensor import TensorDesc as Tensor

COMPUTES = "anydml moves elements and does not compute"


class Source(NamedTuple):
    """Where an expression comes from: a node's output, or, without a node, an input of the graph."""

    node: int | None
    number: int


class Expression:
    """A tensor of a graph that is being built.

    Attributes:
        builder: which graph it is of: a `GraphBuilder`.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 2, 3]))
        >>> x + x
        Traceback (most recent call last):
          ...
        anydml.errors.DescError: __add__ of expressions: anydml moves elements and does not compute
    """

    def __init__(self) -> None:
        self.builder: Any = None
        self._source: Source | None = None
        self._tensor: Tensor | None = None

    @classmethod
    def made(cls, builder: Any, source: Source, tensor: Tensor) -> Expression:
        """What an input, or an output of a node, is."""
        expression = cls()
        expression.builder, expression._source, expression._tensor = builder, source, tensor
        return expression

    @property
    def tensor(self) -> Tensor:
        """Its tensor, as anydml has it.

        Raises:
            DescTypeError: the expression is empty.
        """
        if self._tensor is None:
            raise _empty()
        return self._tensor

    @property
    def source(self) -> Source:
        """Where it comes from.

        Raises:
            DescTypeError: the expression is empty.
        """
        if self._source is None:
            raise _empty()
        return self._source

    @property
    def input_index(self) -> int:
        """Which input of the graph it is.

        Raises:
            BindingError: it is none.
        """
        if self.source.node is not None:
            raise BindingError("Binding: expr is no input", "Binding", "expr", "expr must be what input_tensor gave")
        return self.source.number

    def get_output_desc(self) -> TensorDesc:
        """The expression's tensor."""
        return TensorDesc.of(self.tensor)


def _computing(name: str) -> Any:
    def method(self: Expression, *others: Any) -> NoReturn:
        raise DescError(f"{name} of expressions: {COMPUTES}", name, None, COMPUTES)

    return method


for _name in ("add", "sub", "mul", "truediv", "mod"):
    for _prefix in ("", "r", "i"):
        setattr(Expression, f"__{_prefix}{_name}__", _computing(f"__{_prefix}{_name}__"))
setattr(Expression, "__neg__", _computing("__neg__"))  # noqa: B010  # as the others


class Binding:
    """Data for an input.

    Args:
        expr: what `input_tensor` gave.
        data: an array, converted to the tensor's data type; its elements, in row-major order, are the tensor's buffer.

    Raises:
        BindingError: it has more or fewer elements than the tensor's buffer, or `expr` is no input.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 2, 3]))
        >>> pydml.Binding(x, np.arange(6)).bytes.nbytes
        24
    """

    def __init__(self, expr: Expression, data: Any) -> None:
        self.index = expr.input_index
        tensor = expr.get_output_desc().tensor
        array = np.ascontiguousarray(data, tensor.data_type.dtype).reshape(-1)
        field = f"input {self.index}"
        if math.ceil(array.nbytes / 4) * 4 != tensor.size_in_bytes:
            message = f"Binding: {field} has {tensor.size_in_bytes} bytes, but data has {array.nbytes}"
            raise BindingError(message, "Binding", field, "data must have TotalTensorSizeInBytes bytes")
        self.bytes = np.zeros(tensor.size_in_bytes, np.uint8)
        self.bytes[: array.nbytes] = array.view(np.uint8)


@dataclass
class MaxPoolingOutputs:
    """What `max_pooling` would give.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 2, 3]))
        >>> pydml.MaxPoolingOutputs(values=x, indices=x).values is x
        True
    """

    values: Expression
    indices: Expression


@dataclass
class GRUOutputs:
    """What `gru` would give.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 2, 3]))
        >>> pydml.GRUOutputs(sequence=x, single=x).single is x
        True
    """

    sequence: Expression
    single: Expression


def _empty() -> DescTypeError:
    return DescTypeError("an empty Expression is no tensor", "Expression", None, "input_tensor and operators make them")
