"""What a plan over chunked arrays will read and write, counted block by block."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from anydml.stores import boxes
from anydml.stores.chunk_count import ChunkCount
from anydml.stores.grid_blocks import Choice, GridBlock
from anydml.stores.planning import Totals
from anydml.stores.regions import Mapping
from anydml.stores.store import Store
from anydml.stores.targets import Target
from anydml.stores.zarr_format import ZarrStore
from anydml.stores.zarr_target import ZarrTarget


def totals_of(
    name: str,
    inputs: Sequence[Store | ZarrStore],
    outputs: Sequence[Target | ZarrTarget],
    mappings: Sequence[Mapping],
    choices: Sequence[Choice],
    blocks: Iterable[GridBlock],
    span: int,
    shares: Sequence[tuple[int, int]],
) -> tuple[Totals, set[int]]:
    """What a plan will do, and the numbers of the inputs whose decoded chunks it keeps.

    Args:
        name: what errors call the plan.
        inputs: by number.
        outputs: by number; mappings and choices are theirs.
        mappings: what each output is of the inputs.
        choices: how each was cut.
        blocks: all of them, or some.
        span: as `boxes.requests` has it.
        shares: for each output how many blocks it has, and how many of them, from all over it, stand for all.

    Raises:
        BindingError: it would read more chunks than any plan may.
    """
    bytes_read = reads = writes = largest = again = 0
    seen: dict[int, ChunkCount] = {}
    kept: set[int] = set()
    for number, box in blocks:
        target, choice, mapping = outputs[number], choices[number], mappings[number]
        whole, looked = shares[number]
        held = 0
        for operand, own in mapping.regions(mapping.within(box)):
            store, sizes = inputs[operand], [high - low for low, high in own]
            size = math.prod(sizes) * store.dtype.itemsize
            held += size
            if isinstance(store, Store):
                _, count, length = boxes.requests(*store.as_it_lies(sizes), span=span)
                reads, bytes_read = reads + count * whole // looked, bytes_read + count * length * whole // looked
                continue
            if operand not in seen:
                seen[operand] = ChunkCount(name, store.layout)
            seen[operand].add(own, whole, looked)
            if store.layout.is_plain:
                bytes_read += size * whole // looked
            elif choice.are_kept:
                kept.add(operand)
        largest = max(largest, held)
        sizes = [high - low for low, high in box]
        if isinstance(target, ZarrTarget):
            count = math.prod(-(-n // c) for n, c in zip(sizes, target.layout.chunk, strict=True))
        else:
            count = boxes.requests(target.shape, target.dtype.itemsize, sizes, False)[1]
        writes += count * whole // looked
    for operand, chunks in seen.items():
        count = chunks.distinct if operand in kept else chunks.count
        reads += count
        if not chunks.layout.is_plain:
            bytes_read += count * chunks.layout.chunk_bytes
            again += (count - chunks.distinct) * chunks.layout.chunk_bytes
    written = sum(math.prod(target.shape) * target.dtype.itemsize for target in outputs)
    return Totals(bytes_read, again, written, reads, writes, largest), kept
