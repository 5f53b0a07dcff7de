"""DML_FEATURE_LEVEL, and the format of an operator's support table.

A feature level is a set of features that a DirectML device supports; each is a superset of the one before. An
operator's document lists, per level, the dimension counts and data types of each of its tensors: one `SupportRow` per
level.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anydml.tensor import DataType


class FeatureLevel(enum.IntEnum):
    """DML_FEATURE_LEVEL (directml.h), with DirectML's own values, so that levels compare as numbers.

    Examples:
        >>> dml.FeatureLevel.parse("2_1") < dml.FeatureLevel.LATEST
        True
    """

    LEVEL_1_0 = 0x1000
    LEVEL_2_0 = 0x2000
    LEVEL_2_1 = 0x2100
    LEVEL_3_0 = 0x3000
    LEVEL_3_1 = 0x3100
    LEVEL_4_0 = 0x4000
    LEVEL_4_1 = 0x4100
    LEVEL_5_0 = 0x5000
    LEVEL_5_1 = 0x5100
    LEVEL_5_2 = 0x5200
    LEVEL_6_0 = 0x6000
    LEVEL_6_1 = 0x6100
    LEVEL_6_2 = 0x6200
    LEVEL_6_3 = 0x6300
    LEVEL_6_4 = 0x6400
    LATEST = 0x6400

    @classmethod
    def parse(cls, text: str | FeatureLevel) -> FeatureLevel:
        """Parse a level from ``"3_0"``, ``"3.0"``, ``"LEVEL_3_0"``, ``"DML_FEATURE_LEVEL_3_0"`` or ``"latest"``.

        Raises:
            ValueError: the string names no level; the message lists those that exist.
        """
        if isinstance(text, FeatureLevel):
            return text
        name = str(text).strip().upper().replace(".", "_").removeprefix("DML_FEATURE_").removeprefix("LEVEL_")
        # Hundreds are parsed at import.
        if member := cls.__members__.get(name if name == "LATEST" else f"LEVEL_{name}"):
            return member
        level_names = [level.short for level in cls]
        digits = "".join(filter(str.isdecimal, name))
        meant = [f"; did you mean {short}?" for short in level_names if short.replace("_", "") == digits]
        raise ValueError(f"unknown feature level {text!r}: it must be one of {', '.join(level_names)}{''.join(meant)}")

    @property
    def short(self) -> str:
        """The level's short name: ``"3_0"``."""
        return self.name.removeprefix("LEVEL_")

    def __str__(self) -> str:
        return f"DML_FEATURE_{self.name}"


class Support(NamedTuple):
    """Dimension counts and data types of one tensor of an operator that a level supports."""

    min_dimensions: int
    max_dimensions: int
    data_types: tuple[DataType, ...]


class SupportRow(NamedTuple):
    """One row of an operator's table: the support from `level` on, by tensor field (``"InputTensor"``)."""

    level: FeatureLevel
    tensors: Mapping[str, Support]


SupportTable = tuple[SupportRow, ...]
"""Rows from the newest level to the oldest, in the documents' order; empty if no level restricts the operator."""


def row_at(table: Sequence[SupportRow], level: FeatureLevel) -> SupportRow | None:
    """Return the newest row at or below `level`, or None if the operator does not exist at that level."""
    return next((row for row in table if row.level <= level), None)


def lowest_level(table: Sequence[SupportRow], tensor: str, dimensions: int, data_type: DataType) -> FeatureLevel | None:
    """Return the lowest level that supports a tensor of this dimension count and data type, or None."""
    for row in reversed(table):
        support = row.tensors[tensor]
        in_range = support.min_dimensions <= dimensions <= support.max_dimensions
        if in_range and data_type in support.data_types:
            return row.level
    return None
