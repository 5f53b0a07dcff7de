"""What the kernels share: the words of their tables, how threads claim work, and how a kernel is compiled once."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from llvmlite import ir
from numba import config, njit, types, uint64
from numba.extending import intrinsic

from anydml.engines.cpu.compiler import quietly
from anydml.engines.cpu.kernels.ir import I64, OPTIONS, fetch_add, helper, load, load_as
from anydml.engines.cpu.kernels.one_process import one_process
from anydml.engines.cpu.kernels.variants import Filling, VariantCompiler, filled

SIGNATURE = "uint64(uint64, uint64, uint64)"

UNITS, UNITS_PER_CLAIM, STREAMED, PARTS, RANK = range(5)
"""Words that begin every table: units of work, units a claim, whether to use non-temporal stores, parts, dimensions."""

HEADER = 5


def code_of(*names: str) -> str:
    """A checksum of files: part of names, because Numba's cache does not notice changes outside a kernel's own file."""
    return format(zlib.crc32(b"".join((Path(__file__).parent / name).read_bytes() for name in names)), "x")


SHARED_CODE = code_of(
    "ir.py", "indices.py", "registers.py", "tiles.py", "shared_lines.py", "blocks.py", "driver.py", "variants.py"
)
"""Part of every kernel's name."""

Kernel = Callable[[int, int, int], int]

_entries: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


@intrinsic
def word(typing: Any, table: Any, index: Any) -> Any:
    """A word of a table."""

    # No helper: one would be compiled for every number that is a constant.
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        offset = builder.mul(arguments[1], ir.Constant(I64, 8))
        return load_as(builder, builder.add(arguments[0], offset), I64)

    return types.uint64(types.uint64, types.uint64), generate


FROM_END = 1
"""What is added to the address of a counter by whoever claims from the last chunk on."""

HALF = 32
"""A counter's low bits say how many chunks were claimed from the first on; the others, how many from the last on."""


@helper
def claim(table, counter, mine):
    """The first unit of the next chunk: of those that the counter says are left, or the `mine`-th where there is none.

    Callers claim from the first chunk on, workers from the last: so in call after call each core finds what it moved
    before in its own caches.
    """
    step = word(table, UNITS_PER_CLAIM)
    if counter == uint64(0):
        return mine * step
    units = word(table, UNITS)
    chunks = (units + step - uint64(1)) // step
    if counter & uint64(FROM_END):
        taken = fetch_add(counter - uint64(FROM_END), uint64(1 << HALF))
        chunk = chunks - uint64(1) - (taken >> uint64(HALF))
    else:
        taken = fetch_add(counter, uint64(1))
        chunk = taken & uint64((1 << HALF) - 1)
    return chunk * step if claimed(taken) < chunks else units


@helper
def claimed(counter):
    """How many chunks a counter's value says are claimed."""
    return (counter & uint64((1 << HALF) - 1)) + (counter >> uint64(HALF))


@helper
def walk(sizes, rank, index, strides, step):
    """The byte offset of a box's point, given its number in row-major order.

    Args:
        sizes: address of the box's sizes.
        rank: how many there are.
        index: the point's number.
        strides: address of the first stride, in bytes.
        step: bytes from one stride to the next.
    """
    offset = uint64(0)
    d = rank
    while d > uint64(0):
        d -= uint64(1)
        at = index
        if d > uint64(0):
            length = load(sizes + uint64(8) * d)
            at = index % length
            index = index // length
        offset += at * load(strides + d * step)
    return offset


def compiled(
    function: Any,
    *constants: object,
    blanks: Mapping[str, Filling] | None = None,
    signature: str = SIGNATURE,
    nogil: bool = True,
    has_entry: bool = False,
) -> Kernel:
    """Compile a kernel now, or take it from the disk cache.

    Args:
        function: the kernel's Python function.
        constants: what it is specialised by; they become part of its name. Numba keeps one index file a name, and two
            processes that write to one index can end up with each other's code.
        blanks: what the kernel's blanks stand for (see `variants`). A kernel that has some closes over nothing.
        signature: Numba's types. What has a kernel's can be called by its `entry`.
        nogil: whether other threads of Python go on meanwhile.
        has_entry: whether it is called by its `entry` whatever its signature.

    Raises:
        NoCompilerError: nothing can be compiled here.
    """
    name = "_".join([function.__name__, *map(str, constants), SHARED_CODE])
    function.__name__ = function.__qualname__ = re.sub(r"\W", "_", name)
    return quietly(partial(_compiled, function, blanks, signature, nogil, has_entry or signature is SIGNATURE))


def _compiled(
    function: Any, blanks: Mapping[str, Filling] | None, signature: str, nogil: bool, has_entry: bool
) -> Kernel:
    if getattr(config, "DISABLE_JIT", 0):
        raise RuntimeError("NUMBA_DISABLE_JIT is set")
    options = {**OPTIONS, "no_cfunc_wrapper": not has_entry, "nogil": nogil}
    passes: list[dict[str, Any]] = [{}]
    if blanks is not None:
        # Where a Numba of another version has other insides, its own passes do.
        passes = [{"pipeline_class": VariantCompiler}, {}]
    with filled(blanks or {}):
        for way in passes:
            with suppress(Exception):
                kernel: Kernel = _kept(njit(cache=True, **way, **options)(function), signature)
                return kernel
        # The cache's folder is full, damaged or not writeable: compile for this process only.
        for way in passes[:-1]:
            with suppress(Exception):
                return njit(signature, **way, **options)(function)
        return njit(signature, **options)(function)


def _kept(kernel: Any, signature: str) -> Any:
    """Compile what is kept on the disk, or take it from there."""
    _load_alone(getattr(kernel, "_cache", None))
    with one_process(kernel):
        kernel.compile(signature)
    kernel.disable_compile()
    return kernel


def _load_alone(cache: Any) -> None:
    """Let what lies on the disk be read without all that only a compiler needs: to import that takes longer."""

    def load_overload(signature: Any, context: Any) -> Any:
        with cache._guard_against_spurious_io_errors():
            return cache._load_overload(signature, context)

    # Where a Numba of another version has other insides, its own way does.
    if all(hasattr(cache, name) for name in ("_guard_against_spurious_io_errors", "_load_overload")):
        cache.load_overload = load_overload


def entry(kernel: Any) -> int:
    """The address of a kernel's machine code, a function of C; it is there as long as the kernel is."""
    if (known := _entries.get(kernel)) is not None:
        return known
    (overload,) = kernel.overloads.values()
    address: int = overload.library.get_pointer_to_function(overload.fndesc.llvm_cfunc_wrapper_name)
    # To ask takes the compiler's lock, and half the time of a small call.
    _entries[kernel] = address
    return address


def quick_entry(kernel: Any) -> Callable[..., int]:
    """What Python calls with integers alone: the same code without the look at its arguments' types."""
    (overload,) = kernel.overloads.values()
    found: Callable[..., int] = overload.entry_point
    return found
