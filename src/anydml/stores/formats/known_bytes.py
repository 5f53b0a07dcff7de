"""Bytes of a new file that are known before its elements are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from anydml.stores.formats.store import Array, Numbers


@dataclass(frozen=True, slots=True, eq=False)
class KnownBytes(Sequence[tuple[int, bytes]]):
    """Headers and padding of a file, by offset. Most offsets share a few patterns of bytes, each stored once.

    Attributes:
        places: offsets in the file, such as those of arrays.
        kinds: the number of the kind of each place.
        distances: from a place of a kind to its bytes, a row for each kind.
        lengths: the numbers of these bytes.
        contents: these bytes, by kind.
    """

    places: Numbers
    kinds: Numbers
    distances: Numbers
    lengths: Numbers
    contents: Sequence[tuple[bytes, ...]]

    @classmethod
    def of(cls, parts: Sequence[tuple[int, bytes]] = ()) -> KnownBytes:
        """Return parts, by their offsets."""
        offsets = np.array([offset for offset, _ in parts], np.int64)
        lengths = np.array([len(content) for _, content in parts], np.int64).reshape(-1, 1)
        contents = tuple((content,) for _, content in parts)
        return cls(offsets, np.arange(len(parts)), np.zeros_like(lengths), lengths, contents)

    @property
    def offsets(self) -> Numbers:
        """Offset of each in the file."""
        return self._offsets(slice(None))

    @property
    def sizes(self) -> Numbers:
        """Bytes of each."""
        return self._sizes(slice(None))

    def ranges(self, low: int, high: int) -> tuple[Numbers, Numbers]:
        """Return the starts and ends of known bytes that overlap an interval; contiguous ones are merged."""
        places = self._near(low, high)
        starts, ends = self._offsets(places), self._sizes(places)
        ends += starts
        overlap = (starts < high) & (ends > low)
        starts, ends = starts[overlap], ends[overlap]
        are_apart = starts[1:] != ends[:-1]
        return starts[np.append(True, are_apart)[: starts.size]], ends[np.append(are_apart, True)[: ends.size]]

    def contiguous(self) -> Iterator[tuple[int, bytes]]:
        """Yield the same bytes, with contiguous parts merged."""
        offsets, contents = self.offsets, [content for kind in self.kinds.tolist() for content in self.contents[kind]]
        is_contiguous = np.append(False, offsets[1:] == (offsets + self.sizes)[:-1])[: len(self)]
        firsts = np.flatnonzero(~is_contiguous)
        lasts = np.append(firsts[1:], len(self))
        for offset, first, last in zip(offsets[firsts].tolist(), firsts.tolist(), lasts.tolist(), strict=False):
            yield offset, b"".join(contents[first:last])

    def put(self, places: Numbers, starts: Numbers, sizes: Numbers, buffer: Array) -> None:
        """Copy the parts in intervals of the file.

        Args:
            places: offset of each interval in the file.
            starts: offset of its bytes in the buffer.
            sizes: bytes of each.
            buffer: the buffer; its other bytes stay unchanged.
        """
        for offset_in_file, start, size in zip(*(column.tolist() for column in (places, starts, sizes)), strict=True):
            near = self._near(offset_in_file, offset_in_file + size)
            offsets = self._offsets(near)
            overlap = (offsets < offset_in_file + size) & (offsets + self._sizes(near) > offset_in_file)
            for number in (near.start * self.distances.shape[1] + np.flatnonzero(overlap)).tolist():
                offset, content = self[number]
                low, high = max(offset, offset_in_file), min(offset + len(content), offset_in_file + size)
                if low < high:
                    buffer[start + low - offset_in_file : start + high - offset_in_file].data[:] = content[
                        low - offset : high - offset
                    ]

    def state(self) -> bytes:
        """Return bytes that identify these parts."""
        columns = self.places, self.kinds, self.distances, self.lengths
        return b"".join([*(column.tobytes() for column in columns), *chain.from_iterable(self.contents)])

    def _near(self, low: int, high: int) -> slice:
        """Return the places of all bytes that overlap an interval; those of a place lie between its neighbours."""
        first = max(0, int(self.places.searchsorted(low, "right")) - 1)
        return slice(first, int(self.places.searchsorted(high)) + 1)

    def _offsets(self, places: slice) -> Numbers:
        offsets: Numbers = self.distances[self.kinds[places]]
        offsets += self.places[places, None]
        return offsets.ravel()

    def _sizes(self, places: slice) -> Numbers:
        return self.lengths[self.kinds[places]].ravel()

    def __len__(self) -> int:
        return int(self.places.size * self.distances.shape[1])

    def __getitem__(self, number: Any) -> Any:
        place, part = divmod(number, self.distances.shape[1])
        kind = self.kinds[place]
        return int(self.places[place] + self.distances[kind, part]), self.contents[kind][part]
