"""Indices of an axis: read, wrapped and clamped without a branch that could be mispredicted."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from anydml.engines.cpu.kernels.ir import I32, I64, literal_value, load_as, store_as
from anydml.engines.cpu.kernels.language import intrinsic, types

LARGEST = (1 << 63) - 1
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
def is_outside(typing: Any, address: Any, axis: Any, bits: Any) -> Any:
    """1 where the index at an address lies outside the axis (see `lies_outside`, `index_at`)."""
    width: int = literal_value(bits)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _outside(builder, _index_at(builder, arguments[0], width), arguments[1])

    return types.uint64(types.uint64, types.uint64, bits), generate


@intrinsic
def found_addresses(
    typing: Any,
    address: Any,
    places: Any,
    axis: Any,
    stride: Any,
    start: Any,
    step: Any,
    nowhere: Any,
    skips: Any,
    bits: Any,
    lanes: Any,
) -> Any:
    """Store the addresses that packed indices find, all of them at once.

    Args:
        typing: Numba's.
        address: of the first index.
        places: where their addresses go, side by side.
        axis: coordinates of what they look up (see `clamped`).
        stride: bytes from one to the next; `axis` · `stride` has 32 bits.
        start: the address of the first one's coordinate 0.
        step: bytes from there to the next one's.
        nowhere: what those that lie outside find if `skips` is 1.
        skips: 0 or 1.
        bits: a constant: 8, 32 or 64, negative if signed.
        lanes: a constant: how many indices.
    """
    width, count = literal_value(bits), literal_value(lanes)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, to, *numbers = arguments[:8]
        size, by, begin, gap, other, skipped = (_all_lanes(builder, number, count) for number in numbers)
        value = load_as(builder, first, ir.VectorType(ir.IntType(abs(width)), count))
        value = _as_signed(builder, value, width, count)
        found = builder.add(begin, builder.mul(gap, ir.Constant(gap.type, [*range(count)])))
        value = _wrapped(builder, value, size)
        is_outside = builder.icmp_unsigned(">=", value, size)
        # As cheap as a look at which ones lie outside, which is needed anyway: half of what two limits cost.
        zero = _number(value.type, 0)
        end = builder.select(builder.icmp_signed("<", value, zero), zero, builder.sub(size, _number(size.type, 1)))
        inside = builder.select(is_outside, end, value)
        found = builder.add(found, builder.mul(_half(builder, inside), _half(builder, by)))
        is_skipped = builder.and_(is_outside, builder.icmp_unsigned("!=", skipped, zero))
        store_as(builder, builder.select(is_skipped, other, found), to)
        return context.get_dummy_value()

    return types.void(*[types.uint64] * 8, bits, lanes), generate


def _half(builder: Any, value: Any) -> Any:
    """Numbers of 32 bits in lanes of 64: their products take one instruction."""
    narrow = ir.VectorType(I32, value.type.count)
    return builder.sext(builder.trunc(value, narrow), value.type)


def _all_lanes(builder: Any, value: Any, count: int) -> Any:
    """A vector of one number."""
    kind = ir.VectorType(I64, count)
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, ir.Constant(kind, ir.Undefined), ir.Constant(ir.VectorType(I32, count), None))


def clamped_at(builder: Any, address: Any, axis: Any, bits: int) -> Any:
    """The code of what the index at an address stands for (see `clamped`, `index_at`)."""
    return _clamped(builder, _index_at(builder, address, bits), axis)


def _index_at(builder: Any, address: Any, width: int) -> Any:
    return _as_signed(builder, load_as(builder, address, ir.IntType(abs(width))), width)


def _as_signed(builder: Any, value: Any, width: int, count: int = 0) -> Any:
    """Indices of a type as signed 64-bit numbers; a vector of them where there is a count."""
    if width == 64:
        largest = _number(value.type, LARGEST)
        return builder.select(builder.icmp_unsigned("<", value, largest), value, largest)
    if width == -64:
        return value
    return (builder.sext if width < 0 else builder.zext)(value, ir.VectorType(I64, count) if count else I64)


def _number(kind: Any, number: int) -> Any:
    """A constant, in every lane of a vector."""
    return ir.Constant(kind, [number] * kind.count if isinstance(kind, ir.VectorType) else number)


def _wrapped(builder: Any, value: Any, axis: Any) -> Any:
    zero = _number(value.type, 0)
    return builder.select(builder.icmp_signed("<", value, zero), builder.add(value, axis), value)


def _clamped(builder: Any, value: Any, axis: Any) -> Any:
    zero, last = _number(axis.type, 0), builder.sub(axis, _number(axis.type, 1))
    value = _wrapped(builder, value, axis)
    value = builder.select(builder.icmp_signed("<", value, zero), zero, value)
    return builder.select(builder.icmp_unsigned("<", value, last), value, last)


def _outside(builder: Any, value: Any, axis: Any) -> Any:
    # What is still negative is larger than any axis as an unsigned number.
    return builder.zext(builder.icmp_unsigned(">=", _wrapped(builder, value, axis), axis), I64)
