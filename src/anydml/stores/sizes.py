"""Sizes in bytes, as people write them."""

from __future__ import annotations

import re

from anydml.errors import BindingError

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{letter}B": 1000**k for k, letter in enumerate("KMGT", 1)}
_UNITS |= {f"{letter}IB": 1024**k for k, letter in enumerate("KMGT", 1)}


def parse_size(size: int | str) -> int:
    """Bytes, from a number of them or a text: ``"256MB"`` is 256·10⁶, ``"256MiB"`` 256·2²⁰.

    Raises:
        BindingError: it is neither.
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([KMGT]?I?B|)\s*", str(size).upper())
    if match is None or match[2] not in _UNITS:
        raise BindingError(f"{str(size)[:60]!r} is no size: write bytes, or such as 256MB or 1GiB")
    return int(float(match[1]) * _UNITS[match[2]])
