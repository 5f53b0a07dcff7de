"""Memory accounting for the values of a graph, to refuse large allocations before they are made.

Linux overcommits memory, so that an allocation that is too large does not fail but kills the process later.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from anydml.errors import ModelError
from anydml.memory import limits
from anydml.text import bytes_text

UNQUERIED_GROWTH = 2**22
"""Growth in bytes up to which the available memory is not queried again, since a query takes about 0.1 ms."""

ARRAY_OVERHEAD = 256
"""Overhead of an array in bytes: NumPy's object, the allocator's bookkeeping, an entry in a table."""

Array = np.ndarray[Any, Any]


class Budget:
    """The memory that a run uses, and a limit from the available memory of the machine.

    Attributes:
        held_bytes: size in bytes of all arrays that are held. An array held several times is counted once.
    """

    def __init__(self) -> None:
        self.held_bytes = 0
        self._owners: dict[int, int] = {}
        self._limit: int | None = None
        self._asked_at = 0

    def ask(self, label: str, work: str, size: int, arrays: int = 1) -> None:
        """Check that an allocation fits into the available memory, in addition to all held arrays.

        Args:
            label: prefix of the error message.
            work: description of the allocation for the error, such as ``"the result of shape [3]"``.
            size: the array's size in bytes, including temporary memory.
            arrays: the number of arrays that it consists of.

        Raises:
            ModelError: the size is larger than the available memory.
        """
        need = size + arrays * ARRAY_OVERHEAD
        after = self.held_bytes + need
        if after <= self._asked_at + UNQUERIED_GROWTH and (self._limit is None or after <= self._limit):
            return
        available = limits.available_memory()
        self._asked_at = self.held_bytes
        if available is None:
            return
        # Memory of held arrays is no longer available. Other processes allocate, too, so the limit may only fall.
        limit = available + self.held_bytes
        self._limit = limit if self._limit is None else min(limit, self._limit)
        if after > self._limit:
            have = bytes_text(max(0, self._limit - self.held_bytes))
            message = f"{label}: {work} needs {bytes_text(need)}, but {have} of memory are available"
            raise ModelError(message, rule="all tensors in use at one time must fit into memory")

    def hold(self, array: Array) -> None:
        """Hold an array; each call must be matched by a release."""
        count = self._owners.get(id(array), 0)
        self._owners[id(array)] = count + 1
        if not count:
            self.held_bytes += array.nbytes + ARRAY_OVERHEAD

    def release(self, arrays: Iterable[Array]) -> None:
        """Release arrays once each. Arrays that are not held are ignored."""
        for array in arrays:
            count = self._owners.get(id(array), 0)
            if count == 1:
                del self._owners[id(array)]
                self.held_bytes -= array.nbytes + ARRAY_OVERHEAD
                self._asked_at = min(self._asked_at, self.held_bytes)
            elif count:
                self._owners[id(array)] = count - 1
