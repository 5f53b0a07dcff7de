"""Formatting of messages: plurals, sizes in bytes, suggestions for misspelt names, and escaping for terminals."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable

from anydml.errors import BindingError

MIN_SIMILARITY = 0.55
"""Minimum similarity (difflib's ratio, 0 to 1) of a name that is suggested for another."""

MAX_KNOWN = 1000
"""Known names that are compared at most."""

CLOSE_MATCHES = 5
"""Close matches among which the closest is chosen."""

MOVES_ONLY = "anydml moves elements and does not compute"
"""The rule that an operation which computes breaks."""

_NAMES = "add sub mul truediv floordiv mod pow matmul lshift rshift and or xor eq ne lt le gt ge neg pos invert"
_TEXTS = "+ - * / // % ** @ << >> & | ^ == != < <= > >= - + ~"
_SYMBOLS = dict(zip(_NAMES.split(), _TEXTS.split(), strict=True))

MAX_NAME = 100
"""Characters of the longest name for which a suggestion is sought."""

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{letter}B": 1000**k for k, letter in enumerate("KMGT", 1)}
_UNITS |= {f"{letter}IB": 1024**k for k, letter in enumerate("KMGT", 1)}


def closest_name(name: str, candidates: Iterable[str]) -> str | None:
    """Return the known name most similar to `name`, ignoring case, or None."""
    import difflib

    first = [key for key in itertools.islice(candidates, MAX_KNOWN) if len(key) <= MAX_NAME]
    lower = {key.lower(): key for key in reversed(first)}
    similar = (
        difflib.get_close_matches(name.lower(), lower, CLOSE_MATCHES, MIN_SIMILARITY) if len(name) <= MAX_NAME else []
    )
    # Among equally close matches, the first in `candidates` wins.
    similar.sort(key=[key.lower() for key in first].index)
    return lower[max(similar, key=lambda word: _similarity(word, name.lower()))] if similar else None


def _similarity(candidate: str, name: str) -> float:
    import difflib

    return difflib.SequenceMatcher(None, candidate, name).ratio()


def operator_text(method: str) -> str:
    """Return how Python writes the operator of a method: ``"+"`` for ``"__radd__"``, ``"abs()"`` for ``"__abs__"``."""
    name = method.strip("_")
    for prefix in ("", "r", "i"):
        symbol = _SYMBOLS.get(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if symbol is not None:
            return f"{symbol}=" if prefix == "i" else symbol
    return f"{'divmod' if name == 'rdivmod' else name}()"


def did_you_mean(name: str, candidates: Iterable[str]) -> str:
    """Return ``"; did you mean FLOAT32?"``, or an empty string if no known name is similar."""
    meant = closest_name(name, candidates)
    return f"; did you mean {escape_controls(meant)}?" if meant is not None else ""


def with_rule(message: str, rule: str | None) -> str:
    """Append the broken rule to a message that does not contain it: ``"depth is -1: it must be 0 or more"``."""
    return message if rule is None or rule in message else f"{message}: {rule}"


IRREGULAR = {"axis": "axes", "index": "indices", "entry": "entries"}
"""Irregular plurals."""


def a(noun: str) -> str:
    """Return a noun with its indefinite article: ``"a list"``, ``"an int64"``."""
    return f"{'an' if noun[:1] in 'aeioAEIO' else 'a'} {noun}"


def count_noun(count: int, noun: str) -> str:
    """Return a count and its noun: ``"1 axis"``, ``"2 axes"``, ``"0 entries"``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {IRREGULAR.get(noun) or noun + ('es' if noun.endswith('ch') else 's')}"


def missing_bytes(count: int) -> str:
    """Return what errors say of a file that was cut off: ``"2 bytes are missing"``, and the remedy."""
    return f"{count_noun(count, 'byte')} {'is' if count == 1 else 'are'} missing; copy or download it again"


EXACT_BYTES = 10_000
"""Counts below this are not rounded: messages often compare two sizes that differ by one byte."""


def bytes_text(count: int) -> str:
    """Return a human-readable size, such as ``"1.50 GB"``; counts below `EXACT_BYTES` are exact."""
    if count < EXACT_BYTES:
        return f"{count} B"
    letter, unit = next(
        unit_size
        for unit_size in zip("PTGMk", (10**15, 10**12, 10**9, 10**6, 10**3), strict=True)
        if count >= unit_size[1]
    )
    return f"{count / unit:.2f} {letter}B"


def rounded_up(count: int) -> str:
    """Return a size like `bytes_text`, but rounded up."""
    step = 10 ** max(0, len(str(count)) - 3)
    return bytes_text(-(-count // step) * step)


def escape_controls(text: str) -> str:
    r"""Escape characters that could control a terminal, end a line, or reorder the surrounding text.

    Every character that `str.isprintable` rejects (controls, bidirectional and other format characters, line and
    paragraph separators, surrogates, unassigned code points, spaces other than U+0020) becomes its escape: a newline
    ``\n``, U+202E ``\u202e``. Printable text is returned unchanged.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def parse_size(size: int | str, name: str = "") -> int:
    """Return bytes, from their number or a string: ``"256MB"`` is 256·10⁶, ``"256MiB"`` 256·2²⁰.

    Args:
        size: the number or string.
        name: the function and the argument, such as ``"reshard: memory"``, for errors.

    Raises:
        BindingError: the size is neither.
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([KMGT]?I?B|)\s*", str(size).upper())
    if match is None or match[2] not in _UNITS:
        text = f"{str(size)[:60]!r} is not a size: write a number of bytes, or for example 256MB or 1GiB"
        raise BindingError(f"{name}: {text}" if name else text)
    return int(float(match[1]) * _UNITS[match[2]])
