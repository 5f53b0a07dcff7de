"""How often chunks of an array are read, and how many there are of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anydml.stores.block_list import MORE_MEMORY, check_count
from anydml.stores.regions import Box
from anydml.stores.zarr_format import Chunks

ENOUGH = 1 << 20
"""Numbers of chunks that are in memory beside those that differ."""


class ChunkCount:
    """Counts the chunks that boxes of one array have elements of.

    Args:
        name: what errors call the program.
        layout: of the array.

    Attributes:
        count: chunks of all boxes; what several have, as often.
    """

    def __init__(self, name: str, layout: Chunks) -> None:
        self.layout, self.count = layout, 0
        self._name = name
        self._grid = [-(-size // c) for size, c in zip(layout.shape, layout.chunk, strict=True)]
        self._numbers: list[np.ndarray[Any, Any]] = []
        self._waiting = 0

    def add(self, box: Box) -> None:
        """Count those of a box.

        Raises:
            BindingError: there are too many of them.
        """
        ranges = [(low // c, -(-high // c)) for (low, high), c in zip(box, self.layout.chunk, strict=True)]
        here = math.prod(high - low for low, high in ranges)
        self.count += here
        check_count(self._name, self.count, "chunks of what is read", MORE_MEMORY)
        if self.layout.is_plain:
            return
        axes = np.ix_(*(np.arange(*each, dtype=np.int64) for each in ranges))
        self._numbers.append(np.ravel_multi_index(axes, self._grid).reshape(-1) if axes else np.zeros(1, np.int64))
        self._waiting += here
        if self._waiting > ENOUGH:
            self._numbers, self._waiting = [self._unique()], 0

    def _unique(self) -> np.ndarray[Any, Any]:
        return np.unique(np.concatenate(self._numbers)) if self._numbers else np.zeros(0, np.int64)

    @property
    def distinct(self) -> int:
        """Chunks, each once; plain ones are not told apart."""
        return self.count if self.layout.is_plain else self._unique().size
