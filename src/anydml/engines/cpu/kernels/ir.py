"""The few things that Numba cannot say: raw loads and stores, non-temporal ones, prefetches, atomics.

Addresses are unsigned 64-bit integers: signed ones pay for wrap-around, and LLVM no longer vectorises the loop.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.binding import get_host_cpu_name

from anydml.engines.cpu.kernels.language import RequireLiteralValue, cgutils, helper, intrinsic, types, uint64

I1, I8, I32, I64 = ir.IntType(1), ir.IntType(8), ir.IntType(32), ir.IntType(64)
BYTES = I8.as_pointer()
LINE = 64


def _pointer(builder: Any, address: Any, kind: Any) -> Any:
    return builder.inttoptr(address, kind.as_pointer())


def load_as(builder: Any, address: Any, kind: Any) -> Any:
    """Load a value of an LLVM type from any address."""
    value = builder.load(_pointer(builder, address, kind))
    value.align = 1
    return value


def store_as(builder: Any, value: Any, address: Any) -> Any:
    """Store a value at any address."""
    instruction = builder.store(value, _pointer(builder, address, value.type))
    instruction.align = 1
    return instruction


def stream_as(builder: Any, vector: Any, address: Any) -> None:
    """Store a vector, of a line or less, by a non-temporal store at a multiple of its size."""
    instruction = store_as(builder, vector, address)
    instruction.align = vector.type.count * vector.type.element.width // 8
    instruction.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(I32, 1)]))


def literal_value(kind: Any) -> Any:
    """The value of an argument that must be a constant."""
    if not isinstance(kind, types.Literal):
        raise RequireLiteralValue(f"{kind} is no constant")
    return kind.literal_value


@intrinsic
def load(typing: Any, address: Any) -> Any:
    """The 64-bit word at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return load_as(builder, arguments[0], I64)

    return types.uint64(types.uint64), generate


@intrinsic
def store(typing: Any, address: Any, value: Any) -> Any:
    """Write a 64-bit word."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        store_as(builder, arguments[1], arguments[0])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


@intrinsic
def copy(typing: Any, destination: Any, source: Any, size: Any) -> Any:
    """Copy bytes that do not overlap; a size known to the compiler becomes a few moves."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function = builder.module.declare_intrinsic("llvm.memcpy", [BYTES, BYTES, I64])
        ends = [builder.inttoptr(address, BYTES) for address in arguments[:2]]
        builder.call(function, [*ends, arguments[2], ir.Constant(I1, 0)])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64), generate


@intrinsic
def copy_few(typing: Any, destination: Any, source: Any, size: Any, lines: Any) -> Any:
    """Copy a run of as many lines (a constant), the last of which may overlap the one before; all are loaded first."""
    count = literal_value(lines)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        destination, source, size, _ = arguments
        kind = ir.VectorType(I32, LINE // 4)
        places = [ir.Constant(I64, k * LINE) for k in range(count - 1)]
        places.append(builder.sub(size, ir.Constant(I64, LINE)))
        loaded = [load_as(builder, builder.add(source, place), kind) for place in places]
        for line, place in zip(loaded, places, strict=True):
            store_as(builder, line, builder.add(destination, place))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64, types.uint64, lines), generate


@intrinsic
def stream_line(typing: Any, destination: Any, source: Any) -> Any:
    """Copy 64 bytes to an aligned address with non-temporal stores."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        stream_as(builder, load_as(builder, arguments[1], ir.VectorType(I32, LINE // 4)), arguments[0])
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


@intrinsic
def stream_four(typing: Any, destination: Any, source: Any) -> Any:
    """Copy four lines to an aligned address with non-temporal stores; all are asked for before the first is needed."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.VectorType(I32, LINE // 4)
        places = [ir.Constant(I64, k * LINE) for k in range(4)]
        lines = [load_as(builder, builder.add(arguments[1], place), kind) for place in places]
        for line, place in zip(lines, places, strict=True):
            stream_as(builder, line, builder.add(arguments[0], place))
        return context.get_dummy_value()

    return types.void(types.uint64, types.uint64), generate


@intrinsic
def fence(typing: Any) -> Any:
    """Everything that was streamed is visible before what follows."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


def _prefetch(locality: int) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [BYTES, I32, I32, I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        flags = [ir.Constant(I32, flag) for flag in (0, locality, 1)]
        builder.call(function, [builder.inttoptr(arguments[0], BYTES), *flags])
        return context.get_dummy_value()

    return generate


@intrinsic
def prefetch(typing: Any, address: Any) -> Any:
    """Ask for the line of an address; any address is allowed."""
    return types.void(types.uint64), _prefetch(3)


ONCE = 0 if get_host_cpu_name().startswith("znver") else 2
"""Which caches take lines that are read once: on AMD the first alone; elsewhere the second, too. On Intel's Xeons a
non-temporal prefetch waits in the same few buffers as non-temporal stores, and rows take twice as long."""


@intrinsic
def prefetch_once(typing: Any, address: Any) -> Any:
    """Ask for the line of an address that is read once, soon, and should take little place in larger caches."""
    return types.void(types.uint64), _prefetch(ONCE)


@intrinsic
def fetch_add(typing: Any, address: Any, value: Any) -> Any:
    """Add to the 64-bit word at an address, atomically; gives the old value."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", _pointer(builder, arguments[0], I64), arguments[1], "monotonic")

    return types.uint64(types.uint64, types.uint64), generate


@intrinsic
def scratch(typing: Any, size: Any) -> Any:
    """The address of `size` bytes (a constant) on the stack, aligned to a line, not initialised."""
    kind = ir.ArrayType(I8, literal_value(size))

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        with builder.goto_entry_block():
            memory = builder.alloca(kind)
        memory.align = LINE
        return builder.ptrtoint(memory, I64)

    return types.uint64(size), generate


@helper
def copy_rest(destination, source, size):
    """Copy fewer than 64 bytes, without a call."""
    at = uint64(0)
    for power in (32, 16, 8, 4, 2, 1):
        if size & uint64(power):
            copy(destination + at, source + at, uint64(power))
            at += uint64(power)


@helper
def copy_lines(destination, source, size):
    """Copy a short run, without a call."""
    at = uint64(0)
    while at + uint64(LINE) <= size:
        copy(destination + at, source + at, uint64(LINE))
        at += uint64(LINE)
    copy_rest(destination + at, source + at, size - at)


@helper
def copy_run(destination, source, size):
    """Copy a run; one of up to four lines without a call, which takes longer than its bytes."""
    if size < uint64(LINE) or size > uint64(4 * LINE):
        copy(destination, source, size)
    elif size <= uint64(2 * LINE):
        copy_few(destination, source, size, 2)
    elif size <= uint64(3 * LINE):
        copy_few(destination, source, size, 3)
    else:
        copy_few(destination, source, size, 4)


@helper
def stream(destination, source, size, streamed):
    """Copy a run, with non-temporal stores where `streamed` is 1: for runs that will not be read again soon."""
    if streamed == uint64(0) or size < uint64(2 * LINE):
        copy_run(destination, source, size)
        return
    i = short_of_line(destination)
    copy_rest(destination, source, i)
    whole = size - ((destination + size) & uint64(LINE - 1))
    stream_lines(destination, source, i, whole)
    copy_rest(destination + whole, source + whole, size - whole)


@helper
def stream_lines(destination, source, first, end):
    """Copy whole lines of the destination, the bytes from `first` to `end`, with non-temporal stores."""
    i = first
    while i + uint64(4 * LINE) <= end:
        stream_four(destination + i, source + i)
        i += uint64(4 * LINE)
    while i < end:
        stream_line(destination + i, source + i)
        i += uint64(LINE)


@helper
def short_of_line(address):
    """Bytes from an address to the next line."""
    return (uint64(LINE) - (address & uint64(LINE - 1))) & uint64(LINE - 1)
