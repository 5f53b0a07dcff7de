"""How a plan of chunked arrays divides its memory among texts, threads, requests and blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from anydml.errors import BindingError
from anydml.files.addresses import Address
from anydml.files.located import MAX_REQUESTS
from anydml.files.object_paths import RESPONSE_CHUNK
from anydml.stores.formats.store import Store
from anydml.stores.formats.target import Target
from anydml.stores.formats.zarr_array import ZarrStore
from anydml.stores.formats.zarr_strings import holds_strings
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.planning import block_shapes
from anydml.stores.planning.block_shapes import cost_at
from anydml.stores.planning.blocking import THREADS
from anydml.text import bytes_text

MIN_REQUEST = 256 << 10
"""Bytes of a request to an address for which other requests wait, rather than that it is made shorter."""

GATHERED = 64 << 20
"""Maximum bytes of spilled chunks that wait to be written together; they take at most a quarter of the boxes."""

CONNECTIONS = 48 << 20
"""Bytes for connections to addresses, and for chunks that are read back; at most a quarter of the memory."""

MOVED_TOGETHER = 1 << 20
"""Bytes of small chunks for addresses that are moved together, if every request has memory for as many."""

RECEIVED = 1 << 20
"""Bytes that a connection holds at most of an answer that is received."""

ENOUGH = 64 << 20
"""Bytes of memory beyond which an eighth is left to codecs and the allocator."""

CODECS = 16 << 20
"""Maximum bytes that are left to codecs and the allocator."""


class TooLittleMemoryError(BindingError):
    """The memory does not hold what has to be held at once."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Bytes of memory, by purpose.

    Attributes:
        texts: bytes for strings of any length.
        span: maximum size of a request that reads more than a box.
        need: bytes that a thread needs for a chunk.
        buffers: the number of buffers of `need` bytes.
        threads: the number of threads, some of which may only wait for answers meanwhile, without a buffer.
        held: blocks that are held at once.
        boxes: bytes of the boxes that a block reads, and of spilled chunks that wait to be written.
    """

    texts: int
    span: int
    need: int
    buffers: int
    threads: int
    held: int
    boxes: int

    @classmethod
    def of(
        cls,
        name: str,
        inputs: Sequence[Store | ZarrStore],
        outputs: Sequence[Target | ZarrTarget],
        free: int,
        constant_bytes: int,
        held: int,
        part: int,
    ) -> Self:
        """Return the shares of memory, with as many buffers as threads can use, each for one chunk.

        Args:
            name: the name of the program, for errors.
            inputs: stores.
            outputs: targets.
            free: bytes of all buffers.
            constant_bytes: bytes of the program's constants, for errors.
            held: blocks that are held at once.
            part: the number of parts of the memory; buffers take at most one part.

        Raises:
            TooLittleMemoryError: the memory is too small.
        """
        arrays, given_bytes = [*inputs, *outputs], free
        is_near = are_near(arrays)
        connections = 0 if is_near else min(free // 4, CONNECTIONS)
        free -= connections
        if any(not array.layout.is_plain for array in arrays):
            free -= min(max(0, free - ENOUGH) // 8, CODECS)
        texts = free // 4 * 3 if any(holds_strings(array.dtype) for array in arrays) else 0
        free -= texts
        chunked = [array.layout for array in outputs if not array.layout.is_one]
        written = max((layout.chunk_bytes * (1 if layout.is_plain else 2) for layout in chunked), default=0)
        if is_near:
            span = request = max(1, min(block_shapes.MAX_SPAN, free // 16))
        else:
            span, request = _request_bytes(inputs, written, free)
        decoded = [2 * store.layout.chunk_bytes for store in inputs if not store.layout.is_plain]
        need = max(written, request, *decoded)
        # Plain elements of objects are received directly in the destination, if they are contiguous there.
        is_received = not is_near and held > 1 and all(_is_plain(store) for store in inputs)
        max_requests = THREADS if is_near else min(2, held) * MAX_REQUESTS
        if not is_near:
            need = max(need, min(MOVED_TOGETHER, free // part // max_requests))
        buffers = max(1, min(max_requests, free // part // need))
        threads = min(max_requests, buffers + connections // RECEIVED) if is_received else buffers
        boxes = (free - buffers * need) // held
        if boxes < need // 2:
            raise TooLittleMemoryError(
                f"{name}: {bytes_text(given_bytes + constant_bytes)} of memory is not enough for chunks that need "
                f"{bytes_text(need)} each"
            )
        return cls(texts, span, need, buffers, threads, held, boxes)

    @property
    def held_bytes(self) -> int:
        """Bytes of the boxes of all blocks that are held at once."""
        return self.held * self.boxes

    def holding(self, blocks: int) -> Self:
        """Return the shares for more blocks in the same memory, if blocks are smaller than their shares."""
        held = max(self.held, blocks)
        return replace(self, held=held, boxes=self.held_bytes // held)

    def room(self, are_kept: bool) -> int:
        """Return bytes that the boxes of a block may have, whose chunks are spilled or not."""
        return self.boxes - min(self.boxes // 4, GATHERED) if are_kept else self.boxes

    def waiting_bytes(self, block_bytes: int) -> int:
        """Return bytes of spilled chunks that wait to be written together, where the boxes of a block have so many."""
        return min(GATHERED, self.boxes - block_bytes)


def _is_plain(store: Store | ZarrStore) -> bool:
    return store.layout.is_plain and store.layout.shard is None and (isinstance(store, ZarrStore) or not store.stored)


def are_near(arrays: Sequence[Store | ZarrStore | Target | ZarrTarget]) -> bool:
    """Whether requests for all arrays cost no more than those of files of this machine."""
    return all(cost_at(array.path) is block_shapes.LOCAL_COST for array in arrays)


def _request_bytes(inputs: Sequence[Store | ZarrStore], written: int, free: int) -> tuple[int, int]:
    """Return the bytes of a request to an address, and the bytes of buffers that a thread needs for it.

    Args:
        inputs: stores, some of them at addresses.
        written: bytes that a chunk of an output needs while it is written.
        free: bytes of all buffers.
    """
    # Chunks that are decoded whole need memory for their encoded bytes, too.
    layouts = [array.layout for array in inputs if isinstance(array.path, Address)]
    are_readable_in_parts = all(layout.is_plain and layout.shard is None for layout in layouts)
    share = free // (3 * MAX_REQUESTS) - RESPONSE_CHUNK if are_readable_in_parts else free // (6 * MAX_REQUESTS)
    share = max(share, min(free // 16, MIN_REQUEST))
    # If written chunks leave memory for few requests at once, requests are whole chunks.
    chunk_bytes = max((layout.chunk_bytes for layout in layouts if layout.is_plain and layout.shard is None), default=0)
    wide = chunk_bytes if are_readable_in_parts and chunk_bytes + RESPONSE_CHUNK <= written * 5 // 4 else 0
    # A request needs no more bytes than the object has; requests to shards join several chunks.
    sizes = (layout.chunk_bytes if layout.shard is None else block_shapes.MAX_SPAN for layout in layouts)
    span = max(1, wide, min(block_shapes.MAX_SPAN, share, max(sizes, default=block_shapes.MAX_SPAN)))
    return span, span + RESPONSE_CHUNK if are_readable_in_parts else 2 * span
