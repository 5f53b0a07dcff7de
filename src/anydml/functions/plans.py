"""What calls that compiled code does not do share: plans, by layouts and arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from anydml.engines.program_cache import ProgramCache
from anydml.functions.operations import Inferred

PLANS = ProgramCache()
"""Plans for layouts seen before."""


class Plan:
    """What calls with the same layouts and arguments share.

    Attributes:
        inferred: parameters and shapes.
        dtype: of the results.
        compiled: what moves the bytes; None where NumPy does, or nothing has to be done.
        is_empty: whether there is nothing to do.
    """

    __slots__ = ("compiled", "dtype", "inferred", "is_empty")

    def __init__(self, inferred: Inferred, dtype: np.dtype[Any], compiled: Any, is_empty: bool) -> None:
        self.inferred = inferred
        self.dtype = dtype
        self.compiled = compiled
        self.is_empty = is_empty

    @property
    def weight(self) -> int:
        """Bytes that are kept, about."""
        kept: int = 1024 + 64 * len(self.inferred.shapes) + (self.compiled.weight if self.compiled else 0)
        return kept
