"""Elements as DxDispatch prints them: C++ streams with six significant digits.

One thing differs: to a C++ stream INT8 and UINT8 are characters; here they are numbers, which is what the guide
promises and what a terminal can show.
"""

from __future__ import annotations

import numpy as np

from anydml.dxdispatch.values import Array
from anydml.text import printable

CHUNK = 1 << 14
"""Elements that become Python's numbers and texts at a time: those take some twenty times the memory."""

MOST_TEXT = 24
MOST_VERBOSE_TEXT = 60
"""Characters of an element's text, at most."""


def format_elements(elements: Array) -> str:
    """A 1-D array as ``"1, 2.5, nan"``."""
    return ", ".join(", ".join(_texts(elements[i : i + CHUNK])) for i in range(0, len(elements), CHUNK))


def format_verbose(elements: Array) -> str:
    """A 1-D array, one element a line: ``"[ 9] 2 (0x40000000)"``; hexadecimal digits are not filled up with zeros."""
    width = len(str(max(len(elements), 1)))
    digits = 2 * elements.itemsize
    return "".join(_lines(elements, i, width, digits) for i in range(0, len(elements), CHUNK))


def _lines(elements: Array, start: int, width: int, digits: int) -> str:
    chunk = elements[start : start + CHUNK]
    bits = chunk.view(f"u{chunk.itemsize}").tolist()
    lines = zip(_texts(chunk), bits, strict=True)
    return "".join(f"[{i:{width}}] {text} (0x{value:{digits}X})\n" for i, (text, value) in enumerate(lines, start))


def _texts(elements: Array) -> list[str]:
    if elements.dtype.kind != "f":
        return [printable(str(value)) for value in elements.tolist()]
    texts = [f"{value:g}" for value in elements.tolist()]
    for i in np.flatnonzero(np.isnan(elements) & np.signbit(elements)).tolist():
        # Python forgets the sign of a nan; C does not.
        texts[i] = "-nan"
    return texts
