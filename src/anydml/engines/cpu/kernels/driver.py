"""What the kernels share: the words of their tables, how threads claim work, and how a kernel is compiled once."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from llvmlite import ir

from anydml.engines.cpu.compiler import quietly
from anydml.engines.cpu.kernels import kept
from anydml.engines.cpu.kernels.blanks import Filling
from anydml.engines.cpu.kernels.ir import I64, fetch_add, load_as
from anydml.engines.cpu.kernels.ir import load as load_word
from anydml.engines.cpu.kernels.kept import MachineCode
from anydml.engines.cpu.kernels.language import helper, intrinsic, types, uint64
from anydml.engines.cpu.kernels.loading import Kernel, load
from anydml.engines.cpu.kernels.one_process import one_process

UNITS, UNITS_PER_CLAIM, STREAMED, PARTS, RANK = range(5)
"""Words that begin every table: units of work, units a claim, whether to use non-temporal stores, parts, dimensions."""

HEADER = 5


def code_of(*names: str) -> str:
    """A checksum of files: of what a kernel depends on, which is asked for its own file alone else."""
    return format(zlib.crc32(b"".join((Path(__file__).parent / name).read_bytes() for name in names)), "x")


SHARED_CODE = code_of(
    *("ir.py", "indices.py", "registers.py", "tiles.py", "shared_lines.py", "blocks.py", "driver.py"),
    *("language.py", "blanks.py", "passes.py", "compilation.py"),
)
"""What every kernel depends on."""


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
            length = load_word(sizes + uint64(8) * d)
            at = index % length
            index = index // length
        offset += at * load_word(strides + d * step)
    return offset


def compiled(
    function: Any, *constants: object, blanks: Mapping[str, Filling] | None = None, nogil: bool = True
) -> Kernel:
    """Take a kernel from the disk, or compile it now.

    Args:
        function: the kernel's Python function, of 64-bit words to one.
        constants: what it is specialised by.
        blanks: what the kernel's blanks stand for (see `blanks`). A kernel that has some closes over nothing.
        nogil: whether other threads of Python go on meanwhile.

    Raises:
        NoCompilerError: nothing can be compiled here.
    """
    return quietly(partial(_compiled, function, constants, blanks or {}, nogil))


def _compiled(function: Any, constants: tuple[object, ...], blanks: Mapping[str, Filling], nogil: bool) -> Kernel:
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("0", ""):
        raise RuntimeError("NUMBA_DISABLE_JIT is set")
    name = kept.name_of(function.__name__, function.__code__.co_filename, *constants, SHARED_CODE, nogil)
    code = kept.read(name) if name else None
    if code is None:
        try:
            with one_process(kept.writable(), name):
                # Another process may have compiled it meanwhile.
                code = (kept.read(name) if name else None) or _made(function, name, blanks, nogil)
            return load(code)
        except MemoryError:
            raise
        except Exception:
            # Where a Numba of another version has other insides, what it documents does.
            from anydml.engines.cpu.kernels.compilation import plain

            return plain(function, blanks, nogil)
    return load(code)


def _made(function: Any, name: str | None, blanks: Mapping[str, Filling], nogil: bool) -> MachineCode:
    from anydml.engines.cpu.kernels.compilation import machine_code

    code = machine_code(function, name or function.__name__, blanks, nogil)
    if name:
        kept.write(code)
    return code
