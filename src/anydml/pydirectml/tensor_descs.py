"""PyDirectML's tensor descs, tensor policies and result data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from anydml import tensor as core
from anydml.errors import DescTypeError
from anydml.pydirectml.enums import OperatorType, TensorDataType
from anydml.tensor import TensorFlags, packed_strides

Dimensions = tuple[int, ...]
"""Sizes or strides, one number per dimension."""


class TensorPolicy:
    """Default strides of tensors: packed for `default`, channels last for `interleaved_channel`.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> pydml.TensorDesc(pydml.TensorDataType.FLOAT32, [1, 3, 4, 5], pydml.TensorPolicy.interleaved_channel).strides
        [60, 1, 15, 3]
    """

    default: ClassVar[TensorPolicy]
    interleaved_channel: ClassVar[TensorPolicy]

    def __init__(self, strides: Callable[[Sequence[int]], tuple[int, ...] | None]) -> None:
        self.strides = strides


def _channels_last(sizes: Sequence[int]) -> tuple[int, ...]:
    if len(sizes) < 2:
        return packed_strides(sizes)
    batch, channels, *spatial = sizes
    inner = packed_strides((batch, *spatial, channels))
    return (inner[0], inner[-1], *inner[1:-1])


TensorPolicy.default = TensorPolicy(lambda sizes: None)
TensorPolicy.interleaved_channel = TensorPolicy(_channels_last)


class TensorDesc:
    """A tensor desc.

    The constructor has four signatures: ``(data_type, sizes, tensor_policy=default)``, ``(data_type, flags, sizes,
    tensor_policy=default)``, ``(data_type, sizes, strides)``, and ``(data_type, flags, sizes, strides,
    total_tensor_size_in_bytes, guaranteed_base_offset_alignment)``.

    Raises:
        DescTypeError: the arguments match none of the signatures.
        ValueError: `data_type` is not a data type.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> pydml.TensorDesc(pydml.TensorDataType.FLOAT16, [1, 1, 2, 3])
        dml.TensorDesc of type 2 and shape [1,1,2,3] with flags 0
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        values = _signature(arguments, named)
        sizes, strides = values["sizes"], values.get("strides")
        policy = values.get("tensor_policy")
        if policy is not None:
            strides = policy.strides(sizes)
        self.tensor = core.TensorDesc(
            core.DataType.parse(TensorDataType(values["data_type"]).name),
            sizes,
            strides,
            values.get("flags", TensorFlags.NONE),
            values.get("total_tensor_size_in_bytes"),
            values.get("guaranteed_base_offset_alignment", 0),
        )

    @classmethod
    def of(cls, tensor: core.TensorDesc) -> TensorDesc:
        """Wrap a desc of anydml."""
        desc = cls.__new__(cls)
        desc.tensor = tensor
        return desc

    @property
    def data_type(self) -> TensorDataType:
        """The data type of the elements."""
        return TensorDataType(self.tensor.data_type)

    @property
    def flags(self) -> TensorFlags:
        """NONE or OWNED_BY_DML."""
        return self.tensor.flags

    @property
    def sizes(self) -> list[int]:
        """The size of each dimension."""
        return [*self.tensor.sizes]

    @property
    def strides(self) -> list[int] | None:
        """The strides in elements; None if the tensor is packed."""
        return None if self.tensor.strides is None else [*self.tensor.strides]

    @property
    def total_tensor_size_in_bytes(self) -> int:
        """The size of the buffer in bytes."""
        return self.tensor.size_in_bytes

    @property
    def guaranteed_base_offset_alignment(self) -> int:
        """The guaranteed alignment in bytes; 0 if none is guaranteed."""
        return self.tensor.guaranteed_base_offset_alignment

    def __repr__(self) -> str:
        sizes = ",".join(map(str, self.sizes))
        return f"dml.TensorDesc of type {int(self.data_type)} and shape [{sizes}] with flags {int(self.flags)}"


class _Signature(NamedTuple):
    """Parameter names, of which the first `required` have no default."""

    names: tuple[str, ...]
    required: int


_LAST = ("total_tensor_size_in_bytes", "guaranteed_base_offset_alignment")
_SIGNATURES = (
    _Signature(("data_type", "sizes", "tensor_policy"), 2),
    _Signature(("data_type", "flags", "sizes", "tensor_policy"), 3),
    _Signature(("data_type", "sizes", "strides"), 3),
    _Signature(("data_type", "flags", "sizes", "strides", *_LAST), 6),
)


def _signature(arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by name, for the first signature that they match."""
    for names, required in _SIGNATURES:
        if len(arguments) > len(names):
            continue
        values = {**dict(zip(names, arguments, strict=False)), **named}
        if (
            len(values) == len(arguments) + len(named)
            and {*names[:required]} <= {*values} <= {*names}
            and _is_in_range(values)
        ):
            return values
    message = "TensorDesc takes (data_type, sizes, tensor_policy), (data_type, flags, sizes, tensor_policy), "
    message += f"(data_type, sizes, strides) or (data_type, flags, sizes, strides, {', '.join(_LAST)})"
    raise DescTypeError(message, "TensorDesc", None, "arguments must match one of four signatures")


def _is_in_range(values: dict[str, Any]) -> bool:
    lists = [values["sizes"], *([values["strides"]] if values.get("strides") is not None else [])]
    if not all(isinstance(item, (list, tuple, np.ndarray)) for item in lists):
        return False
    is_policy = isinstance(values.get("tensor_policy", TensorPolicy.default), TensorPolicy)
    return is_policy and isinstance(values.get("flags", 0), int) and isinstance(values["data_type"], int)


class TensorData:
    """Result elements, which ``numpy.array`` and other consumers of the array protocol convert.

    Args:
        data: an array, copied as FLOAT32.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> np.array(pydml.TensorData([[1, 2], [3, 4]]))
        array([[1., 2.],
               [3., 4.]], dtype=float32)
    """

    def __init__(self, data: Any) -> None:
        self._array: np.ndarray[Any, Any] = np.array(data, np.float32, order="C")

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> TensorData:
        """Wrap an array without copying or converting it."""
        data = cls.__new__(cls)
        data._array = array
        return data

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._array, dtype, copy=copy)

    def __buffer__(self, flags: int) -> memoryview:
        return self._array.data


@dataclass
class Size2D:
    """DML_SIZE_2D: a width and a height, such as the factors of UPSAMPLE_2D.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> pydml.Size2D(width=4, height=2)
        Size2D(width=4, height=2)
    """

    width: int
    height: int


@dataclass
class FusedActivation:
    """An activation fused into an operator that computes.

    Examples:
        >>> import anydml.pydirectml as pydml
        >>> pydml.FusedActivation(pydml.OperatorType.ACTIVATION_ELU, 1.5).param_1
        1.5
    """

    activation: OperatorType
    param_1: float = 0
    param_2: float = 0
