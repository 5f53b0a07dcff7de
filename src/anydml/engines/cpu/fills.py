"""Which moves are fills, runs of one element again and again, and the table of the kernel that does those."""

from __future__ import annotations

import math

from anydml.engines.cpu.kernel_call import KernelCall, Word, chunk_bytes, kernel_call, units_per_claim
from anydml.moves import Move

LEAST_RUN, LEAST_OWN_RUN = 16, 128
"""Bytes of a run that is worth one, and of one that has an element of its own."""

STREAMED_RUN = 8192
"""Bytes of a run that may leave past the caches: of shorter ones, too many lines are shared with others."""

LINE = 64


def is_fill(move: Move) -> bool:
    """Whether a move without lookups writes runs of one element."""
    size, sources = move.element_size, move.reads.strides
    if not move.sizes or LINE % size or sources[-1]:
        return False
    least = LEAST_OWN_RUN if any(sources) else LEAST_RUN
    return move.destination.strides[-1] == size and move.sizes[-1] * size >= least


def fill(move: Move, streamed: bool) -> KernelCall:
    """The step for such a move; long runs are cut into several."""
    from anydml.engines.cpu.kernels.fill import fill_kernel

    to, source, size = move.destination, move.reads, move.element_size
    *sizes, inner = move.sizes
    strides, sources = [*to.strides[:-1]], [*source.strides[:-1]]
    run = last = inner * size
    cut = (chunk_bytes(move.bytes_written) + 4095) & ~4095
    if run > cut or not sizes:
        count = -(-run // cut)
        sizes, strides, sources = [*sizes, count], [*strides, cut], [*sources, 0]
        run, last = min(run, cut), run - (count - 1) * cut
    units = math.prod(sizes)
    words: list[Word] = [
        units,
        units_per_claim(units, move.bytes_written),
        int(streamed and run >= STREAMED_RUN),
        1,
        len(sizes),
    ]
    words += [(to.operand, to.offset), (source.operand, source.offset), size, run, last, int(any(sources))]
    words += [*sizes, *strides, *sources]
    return kernel_call("fill", fill_kernel, f"{size} B again and again, in runs of {run} B", (move,), words)
