"""Estimated costs of blocks of chunked arrays, and the units that blocks are cut by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import Store
from anydml.stores.formats.target import Target
from anydml.stores.formats.zarr_array import ZarrStore
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.planning import block_shapes
from anydml.stores.planning.block_shapes import block_count, cost_at, size_of, sizes_of
from anydml.stores.planning.regions import InputBox
from anydml.tensor import Layout

SECONDS_PER_BLOCK = 300e-6
"""Estimated seconds per block; only the ratios of this and the next two to `block_shapes.Cost` matter."""

SECONDS_PER_CHUNK = 150e-6
"""Estimated seconds per decoded chunk."""

SECONDS_PER_DECODED_BYTE = 1e-9
"""Estimated seconds per decoded byte."""

MAX_KEPT = 4
"""Maximum disk space of an input's spilled chunks, as a multiple of the input's size, per output."""


@dataclass(frozen=True)
class BlockShape:
    """The shape of the blocks that an output is cut into.

    Attributes:
        block: sizes of a block.
        are_kept: whether chunks that several blocks need are decoded once, into an unnamed file.
        seconds: estimated seconds per byte.
    """

    block: tuple[int, ...]
    are_kept: bool
    seconds: float


def block_seconds(
    target: Target | ZarrTarget,
    box: Box,
    inputs: Sequence[Store | ZarrStore],
    regions: Sequence[InputBox],
    span: int,
    are_kept: bool,
) -> float | None:
    """Return the estimated seconds per byte of a block; None if no chunks can be spilled.

    Args:
        target: the output.
        box: the box of the block in the output.
        inputs: all inputs.
        regions: the boxes of inputs that the block needs.
        span: as in `block_shapes.seconds`.
        are_kept: whether chunks that several blocks need are spilled.
    """
    block_seconds, input_seconds_per_byte, has_chunked_input = SECONDS_PER_BLOCK, 0.0, False
    blocks = target.nbytes / max(1, size_of(box) * target.dtype.itemsize)
    if target.layout.is_one:
        block_seconds += block_shapes.seconds(target.layout.packed, box, False)
    for operand, region in regions:
        layout, cost = inputs[operand].layout, cost_at(inputs[operand].path)
        is_near = cost is block_shapes.LOCAL_COST
        spans = (layout.span(axis, *interval) for axis, interval in enumerate(region))
        count = math.prod(last - first for first, last in spans)
        if layout.is_plain:
            part = tuple((0, min(high - low, c)) for (low, high), c in zip(region, layout.chunk, strict=True))
            chunk = Layout.packed(layout.chunk, layout.dtype.itemsize)
            block_seconds += count * block_shapes.seconds(chunk, part, span=span, cost=cost)
            continue
        decoded = SECONDS_PER_CHUNK / layout.chunk_bytes + SECONDS_PER_DECODED_BYTE
        decoded += 0 if is_near else cost.request / layout.chunk_bytes + cost.byte
        if are_kept:
            has_chunked_input = True
            # One write per chunk in the box, and few reads.
            size = size_of(region) * layout.dtype.itemsize
            if size * blocks > MAX_KEPT * inputs[operand].nbytes:
                return None
            block_seconds += count * block_shapes.LOCAL_COST.request + 2 * size * block_shapes.LOCAL_COST.byte
            input_seconds_per_byte += inputs[operand].nbytes * decoded / max(1, target.nbytes)
        else:
            block_seconds += count * layout.chunk_bytes * decoded
    if are_kept and not has_chunked_input:
        return None
    return block_seconds / max(1, size_of(box) * target.dtype.itemsize) + input_seconds_per_byte


def unit_of(target: Target | ZarrTarget) -> tuple[int, ...]:
    """Return the sizes that blocks of a target are multiples of; whole axes if sizes of chunks vary."""
    if target.layout.is_one:
        return (1,) * len(target.shape)
    if (edges := target.layout.edges) is None:
        return target.layout.file
    axes = zip(target.layout.file, edges, target.shape, strict=True)
    return tuple(
        chunk if [*axis_edges[:-1]] == [*range(0, axis_edges[-2] + 1, chunk)] else max(1, size)
        for chunk, axis_edges, size in axes
    )


def write_count(target: Target | ZarrTarget, box: Box) -> int:
    """Return the number of requests that write a box: chunks, or runs of a plain file."""
    if target.layout.is_one:
        return block_shapes.requests(target.layout.packed, box, False)[1]
    return block_count(sizes_of(box), target.layout.chunk)
