"""Format elements as DxDispatch prints them: with six significant digits, like C++ streams.

Unlike C++ streams, which write INT8 and UINT8 as characters, numbers are printed for them, as the guide documents.
"""

from __future__ import annotations

import numpy as np

from anydml.dxdispatch.json_numbers import Array
from anydml.text import escape_controls

CONVERTED_ELEMENTS = 1 << 14
"""Elements converted to Python objects at a time, since these take about twenty times the memory."""

MAX_TEXT = 24
MAX_VERBOSE_TEXT = 60
"""Largest number of characters per element."""


def format_elements(elements: Array) -> str:
    """Format a 1-D array as ``"1, 2.5, nan"``."""
    return ", ".join(
        ", ".join(_texts(elements[i : i + CONVERTED_ELEMENTS])) for i in range(0, len(elements), CONVERTED_ELEMENTS)
    )


def format_verbose(elements: Array) -> str:
    """Format a 1-D array, one element per line, as ``"[ 9] 2 (0x40000000)"``; bits are padded with spaces."""
    width = len(str(max(len(elements), 1)))
    digits = 2 * elements.itemsize
    return "".join(_lines(elements, i, width, digits) for i in range(0, len(elements), CONVERTED_ELEMENTS))


def _lines(elements: Array, start: int, width: int, digits: int) -> str:
    chunk = elements[start : start + CONVERTED_ELEMENTS]
    bits = chunk.view(f"u{chunk.itemsize}").tolist()
    lines = zip(_texts(chunk), bits, strict=True)
    return "".join(f"[{i:{width}}] {text} (0x{value:{digits}X})\n" for i, (text, value) in enumerate(lines, start))


def _texts(elements: Array) -> list[str]:
    if elements.dtype.kind != "f":
        return [escape_controls(str(value)) for value in elements.tolist()]
    texts = [f"{value:g}" for value in elements.tolist()]
    for i in np.flatnonzero(np.isnan(elements) & np.signbit(elements)).tolist():
        # Unlike C, Python does not print the sign of a nan.
        texts[i] = "-nan"
    return texts
