"""Sets of data types for support tables, and tables whose tensors share their rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anydml.feature_level import FeatureLevel, Support, SupportRow, SupportTable
from anydml.tensor import DataType as T

ALL_TYPES = (
    T.FLOAT64, T.FLOAT32, T.FLOAT16, T.INT64, T.INT32, T.INT16, T.INT8, T.UINT64, T.UINT32, T.UINT16, T.UINT8,
)  # fmt: skip
TYPES_8_TO_32 = (T.FLOAT32, T.FLOAT16, T.INT32, T.INT16, T.INT8, T.UINT32, T.UINT16, T.UINT8)
TYPES_16_AND_32 = (T.FLOAT32, T.FLOAT16, T.INT32, T.INT16, T.UINT32, T.UINT16)
NO_FLOAT64 = ALL_TYPES[1:]
FLOATS_16_AND_32 = (T.FLOAT32, T.FLOAT16)
ONLY_UINT32 = (T.UINT32,)
INDEX_TYPES = (T.INT64, T.INT32, T.UINT64, T.UINT32)
INDEXED = (
    ("4_1", 1, 8, ALL_TYPES, INDEX_TYPES),
    ("3_0", 1, 8, TYPES_8_TO_32, INDEX_TYPES),
    ("2_1", 4, 4, TYPES_8_TO_32, ONLY_UINT32),
)
"""Rows that all operators with indices have."""
COPYING = (
    ("4_1", 1, 8, ALL_TYPES),
    ("3_0", 1, 8, TYPES_8_TO_32),
    ("2_1", 4, 5, TYPES_8_TO_32),
)
"""Rows that slices and the identity have."""

Levels = tuple[tuple[Any, ...], ...]
"""Rows of a support table: see `OperatorDesc.LEVELS`."""


def support_table(levels: Levels, tensors: Sequence[str], selecting: str) -> SupportTable:
    """Return a support table whose tensors have the same dimension counts and, except for one, the same data types."""
    return tuple(
        SupportRow(
            FeatureLevel.parse(level),
            {name: Support(low, high, selected[0] if selected and name == selecting else types) for name in tensors},
        )
        for level, low, high, types, *selected in levels
    )
