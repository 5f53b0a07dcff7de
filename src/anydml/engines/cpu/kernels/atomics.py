"""What threads need to agree without a lock of Python's: atomic words, calls by address, a pause.

Every atomic operation is sequentially consistent: there are a few a dispatch, and none a byte.
"""

from __future__ import annotations

import platform
from typing import Any

from llvmlite import ir

from anydml.engines.cpu.kernels.ir import I32, I64, load_as
from anydml.engines.cpu.kernels.language import cgutils, intrinsic, types

_ORDER = "seq_cst"

_PAUSES: dict[str, tuple[str, tuple[int, ...]]] = {
    **dict.fromkeys(("x86_64", "amd64"), ("llvm.x86.sse2.pause", ())),
    **dict.fromkeys(("aarch64", "arm64"), ("llvm.aarch64.isb", (15,))),
}
"""What tells a core that it waits for another one, by machine: LLVM's name and its arguments."""


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


@intrinsic
def atomic_load(typing: Any, address: Any) -> Any:
    """The 64-bit word at an aligned address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_pointer(builder, arguments[0], I64), _ORDER, 8)

    return types.uint64(types.uint64), generate


@intrinsic
def atomic_store(typing: Any, address: Any, value: Any) -> Any:
    """Write the 64-bit word at an aligned address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], _pointer(builder, arguments[0], I64), _ORDER, 8)
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


def _change(operation: str) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw(operation, _pointer(builder, arguments[0], I64), arguments[1], _ORDER)

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def atomic_add(typing: Any, address: Any, value: Any) -> Any:
    """Add to a word; gives the old value."""
    return _change("add")


@intrinsic
def atomic_or(typing: Any, address: Any, value: Any) -> Any:
    """Set bits of a word; gives the old value."""
    return _change("or")


@intrinsic
def atomic_and(typing: Any, address: Any, value: Any) -> Any:
    """Keep only these bits of a word; gives the old value."""
    return _change("and")


@intrinsic
def atomic_swap(typing: Any, address: Any, value: Any) -> Any:
    """Write a word; gives the old value."""
    return _change("xchg")


@intrinsic
def replace(typing: Any, address: Any, old: Any, new: Any) -> Any:
    """Write a word if it is what it was; gives whether it did."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(builder, arguments[0], I64)
        return builder.extract_value(builder.cmpxchg(pointer, arguments[1], arguments[2], _ORDER, _ORDER), 1)

    return types.boolean(types.uint64, types.uint64, types.uint64), generate


@intrinsic
def pause(typing: Any) -> Any:
    """Let a moment pass."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if found := _PAUSES.get(platform.machine().lower()):
            name, numbers = found
            kind = ir.FunctionType(ir.VoidType(), [I32] * len(numbers))
            function = cgutils.get_or_insert_function(builder.module, kind, name)
            builder.call(function, [ir.Constant(I32, number) for number in numbers])
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def call_kernel(typing: Any, kernel: Any, table: Any, counter: Any, chunks: Any) -> Any:
    """Call a kernel by its address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = ir.FunctionType(I64, [I64] * 3)
        return builder.call(_pointer(builder, arguments[0], function), arguments[1:])

    return types.uint64(types.uint64, types.uint64, types.uint64, types.uint64), generate


@intrinsic
def call_plain(typing: Any, function: Any) -> Any:
    """What a function of C without arguments returns, by its address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        result = builder.call(_pointer(builder, arguments[0], ir.FunctionType(I32, [])), [])
        return builder.sext(result, I64)

    return types.int64(types.uint64), generate


@intrinsic
def call_of_two(typing: Any, function: Any, first: Any, second: Any) -> Any:
    """The C int that a function of two addresses returns, by its address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(I32, [I64] * 2)
        return builder.sext(builder.call(_pointer(builder, arguments[0], kind), arguments[1:]), I64)

    return types.int64(types.uint64, types.uint64, types.uint64), generate


@intrinsic
def call_of_four(typing: Any, function: Any, first: Any, second: Any, third: Any, fourth: Any) -> Any:
    """What a function of C with four arguments returns, by its address; it need not take all of them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.call(_pointer(builder, arguments[0], ir.FunctionType(I64, [I64] * 4)), arguments[1:])

    return types.uint64(*[types.uint64] * 5), generate


@intrinsic
def call_word(typing: Any, table: Any, number: Any, first: Any, second: Any, third: Any) -> Any:
    """What a function of C with three arguments returns, whose address is a word of a table."""

    # No helper: one would be compiled for every number that is a constant.
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.add(arguments[0], builder.mul(arguments[1], ir.Constant(I64, 8)))
        function = ir.FunctionType(I64, [I64] * 3)
        return builder.call(_pointer(builder, load_as(builder, place, I64), function), arguments[2:])

    return types.uint64(*[types.uint64] * 5), generate


@intrinsic
def system_call(typing: Any, syscall: Any, number: Any, first: Any, second: Any, third: Any) -> Any:
    """A call of Linux's with three arguments, and zeros after them, by the address of C's `syscall`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(I64, [I64], var_arg=True)
        return builder.call(_pointer(builder, arguments[0], kind), [*arguments[1:], *[ir.Constant(I64, 0)] * 3])

    return types.int64(*[types.uint64] * 5), generate
