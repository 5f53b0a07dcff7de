"""PyDirectML's expressions, their data bindings, and the result types of operators with several outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

import numpy as np

from anydml.arrays.receive import as_numpy
from anydml.errors import BindingError, DescError, DescTypeError
from anydml.pydirectml.tensor_descs import TensorDesc
from anydml.tensor import TensorDesc as BufferTensor
from anydml.text import MOVES_ONLY, operator_text

COMPUTES = MOVES_ONLY

BIND_RESULT = "compute it elsewhere, and bind the result as an input"
"""What to do instead of an operation that computes."""


class Source(NamedTuple):
    """The origin of an expression: output `number` of a node, or input `number` of the graph if `node` is None."""

    node: int | None
    number: int


class Expression:
    """A tensor of a graph under construction.

    Attributes:
        builder: the graph's `GraphBuilder`; None if the expression is empty.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> from anydml import DescError
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 2, 3]))
        >>> try:
        ...     x + x
        ... except DescError as error:
        ...     print(error.rule)
        anydml moves elements and does not compute
    """

    def __init__(self) -> None:
        self.builder: Any = None
        self._source: Source | None = None
        self._tensor: BufferTensor | None = None

    @classmethod
    def of(cls, builder: Any, source: Source, tensor: BufferTensor) -> Expression:
        """Create the expression of an input or of a node's output."""
        expression = cls()
        expression.builder, expression._source, expression._tensor = builder, source, tensor
        return expression

    @property
    def tensor(self) -> BufferTensor:
        """The expression's tensor desc.

        Raises:
            DescTypeError: the expression is empty.
        """
        if self._tensor is None:
            raise _empty()
        return self._tensor

    @property
    def source(self) -> Source:
        """The expression's origin.

        Raises:
            DescTypeError: the expression is empty.
        """
        if self._source is None:
            raise _empty()
        return self._source

    @property
    def input_index(self) -> int:
        """The number of the graph input that this expression stands for.

        Raises:
            BindingError: the expression is not an input.
        """
        if self.source.node is not None:
            raise BindingError("Binding: expr is not an input", "Binding", "expr", "expr must be from input_tensor")
        return self.source.number

    def get_output_desc(self) -> TensorDesc:
        """Return the expression's tensor desc."""
        return TensorDesc.of(self.tensor)


def _refuse_computing(name: str) -> Any:
    def method(self: Expression, *others: Any) -> NoReturn:
        raise DescError(f"{operator_text(name)} of expressions: {COMPUTES}: {BIND_RESULT}", name, None, COMPUTES)

    return method


for _name in ("add", "sub", "mul", "truediv", "mod"):
    for _prefix in ("", "r", "i"):
        setattr(Expression, f"__{_prefix}{_name}__", _refuse_computing(f"__{_prefix}{_name}__"))
setattr(Expression, "__neg__", _refuse_computing("__neg__"))  # noqa: B010  # as the others


class Binding:
    """Data bound to an input.

    Args:
        expr: an expression from `input_tensor`.
        data: an array, converted to the tensor's data type; its elements in row-major order fill the tensor's buffer.

    Raises:
        BindingError: `data` are not numbers, are complex, masked, or do not fill the tensor's buffer exactly; an
            element is outside the data type's range, or a fraction for integers; or `expr` is not an input.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> builder = pydml.GraphBuilder(pydml.Device())
        >>> x = pydml.input_tensor(builder, 0, pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 1, 2, 3]))
        >>> pydml.Binding(x, np.arange(6)).bytes.nbytes
        24
    """

    def __init__(self, expr: Expression, data: Any) -> None:
        self.index, self.builder = expr.input_index, expr.builder
        tensor = expr.get_output_desc().tensor
        field = f"input {self.index}"
        numbers = as_numpy("Binding", field, data)
        if numbers.dtype.kind not in "biufV" or numbers.dtype.type is np.void:
            message = f"Binding: {field} is bound to {numbers.dtype}"
            raise BindingError(message, "Binding", field, f"data must be numbers that {tensor.data_type} can hold")
        numbers = np.ascontiguousarray(numbers).reshape(-1)
        with np.errstate(invalid="ignore", over="ignore"):
            array = numbers.astype(tensor.data_type.dtype)
        # Floats are rounded, as NumPy does.
        is_held = array == numbers if array.dtype.kind in "iu" else np.isfinite(array) | ~np.isfinite(numbers)
        if array.dtype.kind in "iu" and numbers.dtype.kind not in "biu":
            # Where a conversion stops at the largest integer, that compares equal to the float beyond it.
            is_held &= numbers < float(np.iinfo(array.dtype).max) + 1
        if not is_held.all():
            message = f"Binding: {field} is {tensor.data_type}, but data has {numbers[np.argmin(is_held)]}"
            raise BindingError(
                message, "Binding", field, "elements must be in the data type's range, and whole if integers"
            )
        if math.ceil(array.nbytes / 4) * 4 != tensor.size_in_bytes:
            message = f"Binding: {field} has {tensor.size_in_bytes} bytes, but data has {array.nbytes}"
            raise BindingError(message, "Binding", field, "data must have TotalTensorSizeInBytes bytes")
        self.bytes = np.zeros(tensor.size_in_bytes, np.uint8)
        self.bytes[: array.nbytes] = array.view(np.uint8)


@dataclass
class MaxPoolingOutputs:
    """The result type of `max_pooling`, which anydml does not implement.

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
    """The result type of `gru`, which anydml does not implement.

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
    rule = "expressions must come from input_tensor or from operators"
    return DescTypeError("an empty Expression has no tensor", "Expression", None, rule)
