"""Compiling ahead: every kernel that common work needs, so that nobody waits for a compiler later on this machine."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial

from anydml.engines.cpu.permute import SIZES
from anydml.engines.cpu.plan import plan
from anydml.engines.cpu.pool import POOL
from anydml.engines.cpu.sharing_point import shared_bytes
from anydml.moves import Move, simplify
from anydml.operators.parts import part_moves
from anydml.operators.slice import slice_moves
from anydml.tensor import Layout

ROWS = 4096
WORDS = (1, 2, 4, 8, 16)
ODD = (3, 6, 12)
INDEX_BITS = (32, -32, 64, -64)


def kernels() -> Iterator[tuple[str, Callable[[], object]]]:
    """Names of kernels, and what compiles each (or takes it from the disk)."""
    from anydml.engines.cpu import whole_calls
    from anydml.engines.cpu.kernels.elements import elements_kernel
    from anydml.engines.cpu.kernels.fill import fill_kernel
    from anydml.engines.cpu.kernels.launch import launch, prepare
    from anydml.engines.cpu.kernels.lookup import elements_kernel as lookup_elements_kernel
    from anydml.engines.cpu.kernels.lookup import lines_kernel
    from anydml.engines.cpu.kernels.lookup import rows_kernel as lookup_rows_kernel
    from anydml.engines.cpu.kernels.nonzero import nonzero_kernel
    from anydml.engines.cpu.kernels.row_blocks import row_blocks_kernel
    from anydml.engines.cpu.kernels.rows import rows_kernel
    from anydml.engines.cpu.kernels.select import select_kernel
    from anydml.engines.cpu.kernels.several import several_kernel
    from anydml.engines.cpu.kernels.table import table_kernel
    from anydml.engines.cpu.kernels.tensors import reader
    from anydml.engines.cpu.kernels.turn import turn_kernel

    yield "sharing", POOL.prepare
    yield "where sharing begins", shared_bytes
    for what in (launch, prepare, whole_calls.prepare, reader):
        yield "calls", what
    yield "several", several_kernel
    yield "rows", rows_kernel
    yield "row_blocks", row_blocks_kernel
    yield "fill", fill_kernel
    yield "nonzero", nonzero_kernel
    for size in (0, *WORDS):
        yield f"select {size}", partial(select_kernel, size)
    for size in (0, *WORDS, *ODD):
        yield f"elements {size}", partial(elements_kernel, size)
    for size in SIZES:
        yield f"turn {size}", partial(turn_kernel, size)
    for size in (0, *SIZES):
        yield f"table {size}", partial(table_kernel, size)
    for bits in INDEX_BITS:
        yield f"lookup rows {bits}", partial(lookup_rows_kernel, bits)
        for size in WORDS:
            yield f"lookup elements {size} {bits}", partial(lookup_elements_kernel, size, bits)
            yield f"lookup lines {size} {bits}", partial(lines_kernel, size, bits)
    for name, moves in (*_interleaved(), *_pixels()):
        for step in plan(simplify(moves), 0) or ():
            yield f"{step.kernel} {name}", step.load


def _interleaved() -> Iterator[tuple[str, tuple[Move, ...]]]:
    """Planes of 2, 3 and 4 channels, apart and together; reversals, mirrored pictures, every second, third, fourth."""
    for word in WORDS:
        for channels in (2, 3, 4):
            whole = Layout.packed((ROWS, channels), word)
            planes = [Layout.packed((ROWS, 1), word)] * channels
            for into, name in ((False, "split"), (True, "join")):
                numbers = range(channels) if into else range(1, channels + 1)
                parts = tuple(zip(numbers, planes, strict=True))
                moves = part_moves((channels if into else 0, whole), parts, 1, into_whole=into)
                yield f"{name} {channels}×{word} B", moves
            mirrored = slice_moves(whole, whole, (ROWS - 1, 0), (-1, 1))
            yield f"mirror {channels}×{word} B", mirrored
        line = Layout.packed((ROWS * 4,), word)
        for step in (-1, 2, 3, 4):
            taken = Layout.packed((ROWS,), word)
            yield f"every {step} of {word} B", slice_moves(line, taken, (ROWS - 1 if step < 0 else 0,), (step,))


def _pixels() -> Iterator[tuple[str, tuple[Move, ...]]]:
    """Pixels of 2, 3 and 4 channels turned, bytes of words swapped, alpha left out and left alone."""
    for word, channels in (*itertools.product((1, 2, 4), (2, 3, 4)), (8, 2), (1, 8)):
        whole = Layout.packed((ROWS, channels), word)
        yield f"turn {channels}×{word} B", slice_moves(whole, whole, (0, channels - 1), (1, -1))
    rgba, rgb, first_three = Layout.packed((ROWS, 4), 1), Layout.packed((ROWS, 3), 1), Layout((ROWS, 3), (4, 1), 1)
    yield "4×1 B to 3, turned", slice_moves(rgba, rgb, (0, 2), (1, -1))
    yield "3×1 B into 4", slice_moves(rgb, first_three, (0, 0), (1, 1))
    yield "3×1 B into 4, turned", slice_moves(rgb, first_three, (0, 2), (1, -1))
