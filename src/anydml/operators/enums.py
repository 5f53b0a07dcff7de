"""DirectML's enumerations and small structs that are fields of operator descs (DirectML.h)."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from anydml.text import did_you_mean


class NamedEnum(enum.IntEnum):
    """An enumeration of DirectML.h, with its own values; ``PaddingMode.EDGE`` is its DML_PADDING_MODE_EDGE."""

    @classmethod
    def prefix(cls) -> str:
        """Return the prefix of the members' names in DirectML.h."""
        return f"DML{re.sub('[A-Z]', lambda match: '_' + match[0], cls.__name__).upper()}_"

    @classmethod
    def parse(cls, text: str | int) -> NamedEnum:
        """Parse a member from its value, its name, or its full name: ``"EDGE"``, ``"DML_PADDING_MODE_EDGE"``.

        Raises:
            ValueError: there is no such member; the message lists those that exist.
        """
        try:
            return cls[text.removeprefix(cls.prefix())] if isinstance(text, str) else cls(text)
        except (KeyError, ValueError):
            advice = did_you_mean(str(text), cls.__members__)
            raise ValueError(f"there is no {cls.prefix()}{text}: one of {', '.join(cls.__members__)}{advice}") from None

    def __str__(self) -> str:
        return self.name


class PaddingMode(NamedEnum):
    """DML_PADDING_MODE: source of the elements around the input of PADDING.

    Examples:
        >>> dml.PaddingMode.parse("DML_PADDING_MODE_EDGE")
        <PaddingMode.EDGE: 1>
    """

    CONSTANT = 0
    EDGE = 1
    REFLECTION = 2
    SYMMETRIC = 3
    WRAP = 4


class DepthSpaceOrder(NamedEnum):
    """DML_DEPTH_SPACE_ORDER: order of block rows, block columns and channels within the depth side's channels.

    Examples:
        >>> dml.DepthSpaceOrder.parse("COLUMN_ROW_DEPTH")
        <DepthSpaceOrder.COLUMN_ROW_DEPTH: 1>
    """

    DEPTH_COLUMN_ROW = 0
    COLUMN_ROW_DEPTH = 1


class InterpolationMode(NamedEnum):
    """DML_INTERPOLATION_MODE. Only NEAREST_NEIGHBOR is supported, since all others compute.

    Examples:
        >>> dml.InterpolationMode.parse("NEAREST_NEIGHBOR")
        <InterpolationMode.NEAREST_NEIGHBOR: 0>
    """

    NEAREST_NEIGHBOR = 0
    LINEAR = 1


class AxisDirection(NamedEnum):
    """DML_AXIS_DIRECTION: direction in which a coordinate between two elements is rounded.

    Examples:
        >>> dml.AxisDirection.parse("DML_AXIS_DIRECTION_DECREASING")
        <AxisDirection.DECREASING: 1>
    """

    INCREASING = 0
    DECREASING = 1


class ScaleBias(NamedTuple):
    """DML_SCALE_BIAS: ``x · scale + bias``.

    Examples:
        >>> dml.ScaleBias(scale=2.0, bias=0.5)
        ScaleBias(scale=2.0, bias=0.5)
    """

    scale: float
    bias: float


class Size2D(NamedTuple):
    """DML_SIZE_2D: a width and a height, such as the factors of UPSAMPLE_2D.

    Examples:
        >>> dml.Size2D(width=640, height=480)
        Size2D(width=640, height=480)
    """

    width: int
    height: int
