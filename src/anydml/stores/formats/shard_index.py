"""Indices of shards: the place of each chunk in its shard's file (Zarr 3, sharding_indexed)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

EMPTY = (1 << 64) - 1
"""Offset and length for a chunk of only fill values, which is not in the file."""

Entries = np.ndarray[Any, np.dtype[np.uint64]]
"""Offset and length of each chunk, by its number in the shard."""


class ShardIndex(NamedTuple):
    """The form of an index.

    Attributes:
        chunks: the number of chunks of a shard.
        is_last: whether it is at the end of the file rather than at the start.
        has_sum: whether a checksum follows it.
    """

    chunks: int
    is_last: bool
    has_sum: bool

    @property
    def size(self) -> int:
        """Bytes of an index."""
        return 16 * self.chunks + 4 * self.has_sum

    def read(self, data: bytes) -> Entries:
        """Return the entries of an index.

        Raises:
            ValueError: the index is too short, or its checksum is wrong.
        """
        if len(data) != self.size:
            raise ValueError(f"its index must be {self.size} bytes, not {len(data)}")
        entries = np.frombuffer(data, "<u8", 2 * self.chunks).reshape(-1, 2)
        if self.has_sum and _sum(data[: 16 * self.chunks]) != data[16 * self.chunks :]:
            raise ValueError("the checksum of its index is wrong")
        return entries.astype(np.uint64)

    def write(self, entries: Entries) -> bytes:
        """Return the bytes of an index."""
        data = entries.astype("<u8").tobytes()
        return data + _sum(data) if self.has_sum else data


def _sum(data: bytes) -> bytes:
    import google_crc32c

    return int(google_crc32c.value(data)).to_bytes(4, "little")


def index_of(configuration: Mapping[str, Any], shard: Sequence[int]) -> ShardIndex | None:
    """Return the form of a sharding codec's indices; None if anydml cannot read such indices itself."""
    codecs = list[Any](configuration.get("index_codecs") or ())
    names = [codec["name"] for codec in codecs]
    if names not in (["bytes"], ["bytes", "crc32c"]):
        return None
    if (codecs[0].get("configuration") or {}).get("endian", "little") != "little":
        return None
    inner = configuration["chunk_shape"]
    count = math.prod(outer_size // part for outer_size, part in zip(shard, inner, strict=True))
    return ShardIndex(count, configuration.get("index_location", "end") == "end", len(names) == 2)
