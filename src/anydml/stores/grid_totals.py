"""What a plan over chunked arrays will read and write, counted block by block."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from anydml.stores import boxes
from anydml.stores.chunk_count import ChunkCount
from anydml.stores.planning import Totals
from anydml.stores.store import Store
from anydml.stores.zarr_target import ZarrTarget

if TYPE_CHECKING:
    from anydml.stores.grid import GridPlanned


def totals_of(plan: GridPlanned) -> tuple[Totals, set[int]]:
    """What a plan will do, and the numbers of the inputs whose decoded chunks it keeps.

    Raises:
        BindingError: it would read more chunks than any plan may.
    """
    bytes_read = reads = writes = written = largest = again = 0
    seen: dict[int, ChunkCount] = {}
    kept: set[int] = set()
    for number, box in plan.blocks:
        target, choice, mapping = plan.outputs[number], plan.choices[number], plan.mappings[number]
        held = 0
        for operand, own in mapping.regions(mapping.within(box)):
            store, sizes = plan.inputs[operand], [high - low for low, high in own]
            size = math.prod(sizes) * store.dtype.itemsize
            held += size
            if isinstance(store, Store):
                _, count, span = boxes.requests(*store.as_it_lies(sizes), span=plan.span)
                reads, bytes_read = reads + count, bytes_read + count * span
                continue
            if operand not in seen:
                seen[operand] = ChunkCount(plan.name, store.layout)
            seen[operand].add(own)
            if store.layout.is_plain:
                bytes_read += size
            elif choice.are_kept:
                kept.add(operand)
        largest = max(largest, held)
        sizes = [high - low for low, high in box]
        written += math.prod(sizes) * target.dtype.itemsize
        if isinstance(target, ZarrTarget):
            writes += math.prod(-(-n // c) for n, c in zip(sizes, target.layout.chunk, strict=True))
        else:
            writes += boxes.requests(target.shape, target.dtype.itemsize, sizes, False)[1]
    for operand, chunks in seen.items():
        count = chunks.distinct if operand in kept else chunks.count
        reads += count
        if not chunks.layout.is_plain:
            bytes_read += count * chunks.layout.chunk_bytes
            again += (count - chunks.distinct) * chunks.layout.chunk_bytes
    return Totals(bytes_read, again, written, reads, writes, largest), kept
