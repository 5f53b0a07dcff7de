"""Moves of an operator in coordinates instead of addresses: steps along the axes of its tensors.

An operator lowers itself to moves between layouts. If the layouts' strides are powers of one large number, the digits
of each address in these moves are the steps along the axes.
"""

from __future__ import annotations

from collections.abc import Sequence

from anydml.tensor import Layout, TensorDesc

BITS = 96
"""Bits per digit: more than the product of a coordinate and any stride of an operator needs."""

_HALF, _MASK = 1 << (BITS - 1), (1 << BITS) - 1


def symbolic_layout(tensor: TensorDesc) -> Layout:
    """Return a layout whose stride along axis k is ``2 ** (BITS · k)``."""
    strides = tuple(1 << (BITS * axis) for axis in range(len(tensor.sizes)))
    return Layout(tensor.sizes, strides, tensor.data_type.itemsize)


def digits(number: int, rank: int) -> tuple[int, ...]:
    """Decode an address or stride of a symbolic layout: signed steps along each axis."""
    found = []
    for _ in range(rank):
        digit = ((number + _HALF) & _MASK) - _HALF
        found.append(digit)
        number = (number - digit) >> BITS
    return tuple(found)


def in_bytes(number: int, strides: Sequence[int]) -> int:
    """Convert an address or stride of a symbolic layout to bytes, given the axes' strides."""
    return sum(digit * stride for digit, stride in zip(digits(number, len(strides)), strides, strict=True))
