"""Moves of an operator in coordinates: which axes of its tensors they walk along, whatever the strides.

An operator lowers itself to moves between layouts. Given strides that are powers of one large number, each address in
these moves is a number whose digits say how far it goes along each axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anydml.moves.move import Access, Lookup
from anydml.tensor import Layout, TensorDesc

BITS = 96
"""Of a digit. A coordinate, times any stride of an operator, needs fewer."""

_HALF, _MASK = 1 << (BITS - 1), (1 << BITS) - 1


def symbolic(tensor: TensorDesc) -> Layout:
    """A layout in which a step along axis k is worth ``2 ** (BITS · k)``."""
    strides = tuple(1 << (BITS * axis) for axis in range(len(tensor.sizes)))
    return Layout(tensor.sizes, strides, tensor.data_type.itemsize)


def digits(number: int, rank: int) -> tuple[int, ...]:
    """Steps along each axis of a symbolic layout that an address, or a stride, stands for; they have a sign."""
    found = []
    for _ in range(rank):
        digit = ((number + _HALF) & _MASK) - _HALF
        found.append(digit)
        number = (number - digit) >> BITS
    return tuple(found)


def real(number: int, strides: Sequence[int]) -> int:
    """The same address, or stride, where axes have these strides."""
    return sum(digit * stride for digit, stride in zip(digits(number, len(strides)), strides, strict=True))


def remapped(access: Access, change: Callable[[tuple[int, ...]], tuple[int, tuple[int, ...]]]) -> Access:
    """An access over another box: `change` gives, for the strides of each address in it, a shift and new strides."""

    def inner(each: Lookup) -> Lookup:
        shift, strides = change(each.strides)
        lookups = tuple(map(inner, each.lookups))
        return each._replace(offset=each.offset + shift, strides=strides, lookups=lookups)

    shift, strides = change(access.strides)
    return Access(access.operand, access.offset + shift, strides, tuple(map(inner, access.lookups)))
