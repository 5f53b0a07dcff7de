"""DML_TENSOR_DATA_TYPE and DML_BUFFER_TENSOR_DESC: types, sizes and strides of a tensor in a buffer.

A `TensorDesc` holds its arguments unchecked; `tensor_problems` lists the rules that they break. No memory is accessed.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np

from anydml.errors import DescError
from anydml.fields import integer, integers
from anydml.records import Record, record
from anydml.strides import has_overlap
from anydml.text import count_noun, did_you_mean

UINT_MAX = 2**32 - 1
MAX_BYTES = 2**63 - 1
MAX_DIMENSIONS = 8

_NAME, _ONE_EACH = "DML_BUFFER_TENSOR_DESC", "one stride per dimension"
_SIZES, _STRIDES = "each size must be 1 to 4294967295", "each stride must be 0 to 4294967295"

TYPES_OF_4_BITS = ("INT4", "UINT4")
OF_4_BITS = "DirectML has 4-bit integers in QUANTIZE and DEQUANTIZE alone, which compute, from DML_FEATURE_LEVEL_6_3 on"
"""A rule from DirectML's feature level history."""

DataTypeName = Literal[
    "FLOAT32", "FLOAT16", "UINT32", "UINT16", "UINT8", "INT32", "INT16", "INT8", "FLOAT64", "UINT64", "INT64",
    "float32", "float16", "uint32", "uint16", "uint8", "int32", "int16", "int8", "float64", "uint64", "int64",
    "DML_TENSOR_DATA_TYPE_FLOAT32", "DML_TENSOR_DATA_TYPE_FLOAT16", "DML_TENSOR_DATA_TYPE_UINT32",
    "DML_TENSOR_DATA_TYPE_UINT16", "DML_TENSOR_DATA_TYPE_UINT8", "DML_TENSOR_DATA_TYPE_INT32",
    "DML_TENSOR_DATA_TYPE_INT16", "DML_TENSOR_DATA_TYPE_INT8", "DML_TENSOR_DATA_TYPE_FLOAT64",
    "DML_TENSOR_DATA_TYPE_UINT64", "DML_TENSOR_DATA_TYPE_INT64",
]  # fmt: skip
"""The names of data types that `DataType.parse` takes."""


class DataType(enum.IntEnum):
    """DML_TENSOR_DATA_TYPE (directml.h), with DirectML's own values.

    Examples:
        >>> dml.DataType.parse("DML_TENSOR_DATA_TYPE_FLOAT16").dtype
        dtype('float16')
    """

    FLOAT32 = 1
    FLOAT16 = 2
    UINT32 = 3
    UINT16 = 4
    UINT8 = 5
    INT32 = 6
    INT16 = 7
    INT8 = 8
    FLOAT64 = 9
    UINT64 = 10
    INT64 = 11

    @classmethod
    def parse(cls, text: str | DataType) -> DataType:
        """Parse a type from ``"FLOAT32"``, ``"float32"`` or ``"DML_TENSOR_DATA_TYPE_FLOAT32"``.

        Raises:
            ValueError: the string names no type; the message lists those that exist.
        """
        try:
            return cls[text.upper().removeprefix("DML_TENSOR_DATA_TYPE_")] if isinstance(text, str) else cls(text)
        except (KeyError, ValueError):
            advice = did_you_mean(getattr(text, "__name__", str(text)), cls.__members__)
            if isinstance(text, str) and text.upper().removeprefix("DML_TENSOR_DATA_TYPE_") in TYPES_OF_4_BITS:
                advice = f"; {OF_4_BITS}"
            raise ValueError(
                f"unknown data type {text!r}: it must be one of {', '.join(cls.__members__)}{advice}"
            ) from None

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype of one element, in native byte order."""
        return np.dtype(self.name.lower())

    @cached_property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def __str__(self) -> str:
        return self.name


class TensorFlags(enum.IntFlag):
    """DML_TENSOR_FLAGS (directml.h). OWNED_BY_DML is for tensors that DirectML binds once; it has no effect here.

    Examples:
        >>> dml.TensorDesc("INT64", [3], flags=dml.TensorFlags.OWNED_BY_DML).flags.name
        'OWNED_BY_DML'
    """

    NONE = 0
    OWNED_BY_DML = 1


class Layout:
    """Sizes, strides in bytes, and element size in bytes of a tensor: the input of every lowering to moves."""

    __slots__ = ("element_size", "sizes", "strides")

    def __init__(self, sizes: tuple[int, ...], strides: tuple[int, ...], element_size: int) -> None:
        self.sizes = sizes
        self.strides = strides
        self.element_size = element_size

    @classmethod
    def packed(cls, sizes: tuple[int, ...], element_size: int) -> Layout:
        """Return the layout of a contiguous row-major tensor."""
        return cls(sizes, packed_strides(sizes, element_size), element_size)

    @classmethod
    def of(cls, array: np.ndarray[Any, Any]) -> Layout:
        """Return the layout of a NumPy array, relative to its first element."""
        return cls(array.shape, array.strides, array.itemsize)

    @property
    def is_packed(self) -> bool:
        """Whether the tensor is contiguous and row-major."""
        return self.strides == tuple(s * self.element_size for s in packed_strides(self.sizes))

    def broadcast(self, sizes: tuple[int, ...]) -> Layout:
        """Return the layout broadcast to `sizes` by NumPy's rules: new dimensions are prepended."""
        new_axes = len(sizes) - len(self.sizes)
        dimensions = zip(self.sizes, self.strides, sizes[new_axes:], strict=True)
        strides = (0,) * new_axes + tuple(stride if size == n else 0 for size, stride, n in dimensions)
        return Layout(sizes, strides, self.element_size)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Layout)
            and self.sizes == other.sizes
            and self.strides == other.strides
            and self.element_size == other.element_size
        )

    def __hash__(self) -> int:
        return hash((self.sizes, self.strides, self.element_size))

    def __repr__(self) -> str:
        return f"Layout({self.sizes}, {self.strides}, {self.element_size})"


def packed_strides(sizes: Sequence[int], element_size: int = 1) -> tuple[int, ...]:
    """Return row-major strides of a contiguous tensor: in elements, or in bytes if their size is given."""
    strides = []
    stride = 1
    for size in reversed(sizes):
        strides.append(stride * element_size)
        stride *= size
    strides.reverse()
    return tuple(strides)


@record
class TensorDesc(Record):
    """DML_BUFFER_TENSOR_DESC (directml.h): a tensor of `sizes` in a buffer.

    Args:
        data_type: a `DataType`, or its name, such as ``"FLOAT32"``; `DataType.parse` takes any text.
        sizes: 1 to 8 sizes, each 1 … 2³²−1.
        strides: one unsigned stride per dimension, in elements; None means packed. 0 broadcasts (inputs only).
        flags: `TensorFlags`; OWNED_BY_DML is accepted and has no effect.
        total_tensor_size_in_bytes: least size of a bound buffer in bytes; defaults to `minimum_size_in_bytes`.
        guaranteed_base_offset_alignment: 0, or a power of two no smaller than the element.

    Raises:
        DescTypeError: an argument has the wrong type. All other rules are checked by the operator desc's `check`.
        DescError: a size or stride is negative.
        ValueError: there is no such data type.

    Examples:
        >>> desc = dml.TensorDesc("FLOAT32", [2, 3])
        >>> desc
        TensorDesc('FLOAT32', [2, 3])
        >>> desc.size_in_bytes, desc.element_strides
        (24, (3, 1))
    """

    data_type: DataType
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None
    flags: TensorFlags
    total_tensor_size_in_bytes: int | None
    guaranteed_base_offset_alignment: int

    def __init__(
        self,
        data_type: DataType | DataTypeName,
        sizes: Sequence[int],
        strides: Sequence[int] | None = None,
        flags: TensorFlags = TensorFlags.NONE,
        total_tensor_size_in_bytes: int | None = None,
        guaranteed_base_offset_alignment: int = 0,
    ) -> None:
        put, name, field = object.__setattr__, _NAME, "TotalTensorSizeInBytes"
        total, alignment = total_tensor_size_in_bytes, guaranteed_base_offset_alignment
        put(self, "data_type", DataType.parse(data_type))
        put(self, "sizes", _check_unsigned(name, "Sizes", sizes, _SIZES))
        put(self, "strides", None if strides is None else _check_unsigned(name, "Strides", strides, _STRIDES))
        put(self, "flags", TensorFlags(integer(name, "Flags", flags)))
        put(self, "total_tensor_size_in_bytes", None if total is None else integer(name, field, total))
        put(self, "guaranteed_base_offset_alignment", integer(name, "GuaranteedBaseOffsetAlignment", alignment))

    def __repr__(self) -> str:
        parts = [repr(self.data_type.name), str([*self.sizes])]
        fields = {
            "strides": None if self.strides is None else [*self.strides],
            "flags": self.flags or None,
            "total_tensor_size_in_bytes": self.total_tensor_size_in_bytes,
            "guaranteed_base_offset_alignment": self.guaranteed_base_offset_alignment or None,
        }
        parts += [f"{name}={value!s}" for name, value in fields.items() if value is not None]
        return f"TensorDesc({', '.join(parts)})"

    @property
    def element_strides(self) -> tuple[int, ...]:
        """The strides in elements; packed ones if `strides` is None.

        Raises:
            DescError: there is not one stride per dimension.
        """
        if self.strides is None:
            return packed_strides(self.sizes)
        if len(self.strides) != len(self.sizes):
            raise DescError(f"{_NAME}: Strides {_unlike(self.strides, self.sizes)}", _NAME, "Strides", _ONE_EACH)
        return self.strides

    @property
    def layout(self) -> Layout:
        """The layout of the elements in a bound flat buffer."""
        size = self.data_type.itemsize
        return Layout(self.sizes, tuple([stride * size for stride in self.element_strides]), size)

    @property
    def span_in_bytes(self) -> int:
        """Bytes from the first element to the end of the last, without padding."""
        last = sum([(size - 1) * stride for size, stride in zip(self.sizes, self.element_strides, strict=True)])
        return (1 + last) * self.data_type.itemsize

    @property
    def minimum_size_in_bytes(self) -> int:
        """The minimum implied size: the span, rounded up to a multiple of 4 bytes."""
        return (self.span_in_bytes + 3) & ~3

    @property
    def size_in_bytes(self) -> int:
        """Bytes that a bound buffer needs: `total_tensor_size_in_bytes`, or `minimum_size_in_bytes` if that is None."""
        total = self.total_tensor_size_in_bytes
        return self.minimum_size_in_bytes if total is None else total


def _check_unsigned(name: str, field: str, values: Sequence[int], rule: str) -> tuple[int, ...]:
    numbers = integers(name, field, values)
    for i, value in enumerate(numbers):
        if value < 0:
            raise DescError(f"{name}: {field}[{i}] is {value}", name, f"{field}[{i}]", rule)
    return numbers


def _unlike(strides: tuple[int, ...], sizes: tuple[int, ...]) -> str:
    """Describe what is wrong with strides whose number is not that of the sizes."""
    return f"has {count_noun(len(strides), 'entry')} for {count_noun(len(sizes), 'size')}"


def tensor_problems(tensor: TensorDesc, is_output: bool) -> Iterator[tuple[str, str, str]]:
    """Yield every rule of DML_BUFFER_TENSOR_DESC that `tensor` breaks.

    Yields:
        ``(field, values, rule)``: the field's name, its values as a string, and the rule as a sentence. Rules that
        depend on invalid sizes or strides are skipped.
    """
    sizes, strides = tensor.sizes, tensor.strides
    broken = False
    if not 1 <= len(sizes) <= MAX_DIMENSIONS:
        yield (
            "Sizes",
            f"has {count_noun(len(sizes), 'dimension')}",
            f"a tensor must have 1 to {MAX_DIMENSIONS} dimensions",
        )
        broken = True
    for i, size in enumerate(sizes):
        if not 1 <= size <= UINT_MAX:
            yield f"Sizes[{i}]", f"is {size}", _SIZES
            broken = True
    if not broken and math.prod(sizes) > UINT_MAX:
        yield (
            "Sizes",
            f"{list(sizes)} make {math.prod(sizes)} elements",
            "a tensor must have at most 4294967295 elements",
        )
        broken = True
    if strides is not None:
        if len(strides) != len(sizes):
            yield "Strides", _unlike(strides, sizes), _ONE_EACH
            broken = True
        for i, stride in enumerate(strides):
            if not 0 <= stride <= UINT_MAX:
                yield f"Strides[{i}]", f"is {stride}", _STRIDES
                broken = True
        if not broken and tensor.span_in_bytes > MAX_BYTES:
            yield (
                "Strides",
                f"{list(strides)} over sizes {list(sizes)} span {tensor.span_in_bytes} bytes",
                "a tensor must span fewer than 2^63 bytes",
            )
            broken = True
        if not broken and is_output and has_overlap(sizes, strides):
            yield (
                "Strides",
                f"{list(strides)} over sizes {list(sizes)} make coordinates share an element",
                "an output must write each element once; only inputs may broadcast",
            )
    yield from _buffer_problems(tensor, broken)


def _buffer_problems(tensor: TensorDesc, broken: bool) -> Iterator[tuple[str, str, str]]:
    if int(tensor.flags) not in (TensorFlags.NONE, TensorFlags.OWNED_BY_DML):
        yield "Flags", f"is {int(tensor.flags)}", "flags must be NONE (0) or OWNED_BY_DML (1)"
    alignment = tensor.guaranteed_base_offset_alignment
    if alignment and (alignment < tensor.data_type.itemsize or alignment & (alignment - 1)):
        yield (
            "GuaranteedBaseOffsetAlignment",
            f"is {alignment}",
            f"it must be 0, or a power of two no smaller than the element ({tensor.data_type.itemsize} bytes)",
        )
    elif alignment > UINT_MAX:
        yield "GuaranteedBaseOffsetAlignment", f"is {alignment}", "it must be a UINT, at most 2^31 as a power of two"
    total = tensor.total_tensor_size_in_bytes
    if not broken and total is not None and total < tensor.minimum_size_in_bytes:
        yield (
            "TotalTensorSizeInBytes",
            f"is {total}, but sizes and strides need {tensor.minimum_size_in_bytes} bytes",
            "it may not be smaller than the minimum implied size, (1 + Σ(size−1)·stride)·element rounded up to 4",
        )
    if total is not None and total > MAX_BYTES:
        yield "TotalTensorSizeInBytes", f"is {total}", "it must be below 2^63 bytes"
