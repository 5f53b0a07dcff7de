"""Sets of data types for support tables, and tables whose tensors share their rows."""

from __future__ import annotations

from collections.abc import Sequence

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


def table(tensors: Sequence[str], *rows: tuple[FeatureLevel, int, int, tuple[T, ...]]) -> SupportTable:
    """Return a support table in which all tensors have the same dimension counts and data types."""
    return tuple(
        SupportRow(level, dict.fromkeys(tensors, Support(low, high, types))) for level, low, high, types in rows
    )


def indexed_table(
    tensors: Sequence[str], indices: str, *rows: tuple[FeatureLevel, int, int, tuple[T, ...], tuple[T, ...]]
) -> SupportTable:
    """Return a support table like `table`'s, except for the data types of a tensor of indices."""
    return tuple(
        SupportRow(
            level, {**dict.fromkeys(tensors, Support(low, high, types)), indices: Support(low, high, index_types)}
        )
        for level, low, high, types, index_types in rows
    )
