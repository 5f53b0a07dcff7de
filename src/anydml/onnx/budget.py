"""What the values of a graph take in memory, counted while it runs, so that too much is refused before it is allocated.

Linux promises memory that it does not have: only who counts, and asks the system first, can refuse with words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.memory import limits
from anydml.text import bytes_text

SMALL = 2**22
"""Bytes that are taken without asking the system once more what it has left: an answer takes it some 0.1 ms."""

ARRAY = 256
"""Bytes of an array beside its elements: NumPy's object, the allocator's share, an entry in a table."""

Array = np.ndarray[Any, Any]


class Budget:
    """The bytes that a run holds, and those that this machine has for it.

    Attributes:
        held: bytes of all arrays that were held and not yet released. An array is counted once, whatever its names.
    """

    def __init__(self) -> None:
        self.held = 0
        self._owners: dict[int, int] = {}
        self._limit: int | None = None
        self._asked_at = 0

    def ask(self, label: str, what: str, size: int, arrays: int = 1) -> None:
        """Refuse what this machine has no memory for, beside all that is held.

        Args:
            label: what errors begin with.
            what: what is to be made, for the error: ``"the result of shape [3]"``.
            size: its bytes, those that making it takes included.
            arrays: how many arrays it is.

        Raises:
            ModelError: it is larger than the memory that is left.
        """
        need = size + arrays * ARRAY
        after = self.held + need
        if after <= self._asked_at + SMALL and (self._limit is None or after <= self._limit):
            return
        available = limits.available_memory()
        self._asked_at = self.held
        if available is None:
            return
        # What is held is no longer available; and others take memory, too.
        limit = available + self.held
        self._limit = limit if self._limit is None else min(limit, self._limit)
        if after > self._limit:
            have = bytes_text(max(0, self._limit - self.held))
            message = f"{label}: {what} needs {bytes_text(need)}, but {have} of memory are available"
            raise ModelError(message, rule="what is alive at one time must fit into memory")

    def hold(self, array: Array) -> None:
        """Count an array, once for each name that it gets."""
        count = self._owners.get(id(array), 0)
        self._owners[id(array)] = count + 1
        if not count:
            self.held += array.nbytes + ARRAY

    def release(self, arrays: Iterable[Array]) -> None:
        """Take a name from arrays; one that has none left is no longer counted. Those never held are passed over."""
        for array in arrays:
            count = self._owners.get(id(array), 0)
            if count == 1:
                del self._owners[id(array)]
                self.held -= array.nbytes + ARRAY
                self._asked_at = min(self._asked_at, self.held)
            elif count:
                self._owners[id(array)] = count - 1
