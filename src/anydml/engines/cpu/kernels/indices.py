"""Indices of an axis: read, wrapped and clamped without a branch that could be mispredicted."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from anydml.engines.cpu.kernels.ir import I64, literal_value, load_as

LARGEST = ir.Constant(I64, (1 << 63) - 1)
"""What stands for all larger unsigned indices: no axis is as long."""


@intrinsic
def index_at(typing: Any, address: Any, bits: Any) -> Any:
    """The index at an address as a signed 64-bit number; `bits` is a constant: 8, 32 or 64, negative if signed."""
    width: int = literal_value(bits)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _index_at(builder, arguments[0], width)

    return types.uint64(types.uint64, bits), generate


@intrinsic
def clamped(typing: Any, index: Any, axis: Any) -> Any:
    """The coordinate that a signed index stands for: wrapped once if negative, then clamped into the axis."""
    return types.uint64(types.uint64, types.uint64), lambda _, builder, __, arguments: _clamped(builder, *arguments)


@intrinsic
def lies_outside(typing: Any, index: Any, axis: Any) -> Any:
    """1 where a signed index, wrapped once if negative, lies outside the axis."""
    return types.uint64(types.uint64, types.uint64), lambda _, builder, __, arguments: _outside(builder, *arguments)


@intrinsic
def clamp_index(typing: Any, address: Any, axis: Any, bits: Any) -> Any:
    """The coordinate that the index at an address stands for (see `clamped`, `index_at`)."""
    width: int = literal_value(bits)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _clamped(builder, _index_at(builder, arguments[0], width), arguments[1])

    return types.uint64(types.uint64, types.uint64, bits), generate


@intrinsic
def is_outside(typing: Any, address: Any, axis: Any, bits: Any) -> Any:
    """1 where the index at an address lies outside the axis (see `lies_outside`, `index_at`)."""
    width: int = literal_value(bits)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _outside(builder, _index_at(builder, arguments[0], width), arguments[1])

    return types.uint64(types.uint64, types.uint64, bits), generate


def _index_at(builder: Any, address: Any, width: int) -> Any:
    value = load_as(builder, address, ir.IntType(abs(width)))
    if width == 64:
        return builder.select(builder.icmp_unsigned("<", value, LARGEST), value, LARGEST)
    if width == -64:
        return value
    return (builder.sext if width < 0 else builder.zext)(value, I64)


def _wrapped(builder: Any, value: Any, axis: Any) -> Any:
    return builder.select(builder.icmp_signed("<", value, ir.Constant(I64, 0)), builder.add(value, axis), value)


def _clamped(builder: Any, value: Any, axis: Any) -> Any:
    zero, last = ir.Constant(I64, 0), builder.sub(axis, ir.Constant(I64, 1))
    value = _wrapped(builder, value, axis)
    value = builder.select(builder.icmp_signed("<", value, zero), zero, value)
    return builder.select(builder.icmp_unsigned("<", value, last), value, last)


def _outside(builder: Any, value: Any, axis: Any) -> Any:
    # What is still negative is larger than any axis as an unsigned number.
    return builder.zext(builder.icmp_unsigned(">=", _wrapped(builder, value, axis), axis), I64)
