"""Text of a file as a terminal may show it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

SIMILAR = 0.55
"""How alike (0 to 1, difflib's ratio) names are of which one is offered for the other."""

MOST_KNOWN = 1000
"""Names that are compared."""

ALIKE = 5
"""Names that may be as near as each other."""

LONGEST = 100
"""Characters of a name that may be a misspelt one."""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that was probably meant, whatever its case, or None."""
    import difflib

    first = [key for key in itertools.islice(known, MOST_KNOWN) if len(key) <= LONGEST]
    lower = {key.lower(): key for key in reversed(first)}
    similar = difflib.get_close_matches(name.lower(), lower, ALIKE, SIMILAR) if len(name) <= LONGEST else []
    # Of several that are as near: the one that is known first.
    similar.sort(key=[key.lower() for key in first].index)
    return lower[max(similar, key=lambda each: _likeness(each, name.lower()))] if similar else None


def _likeness(known: str, name: str) -> float:
    import difflib

    return difflib.SequenceMatcher(None, known, name).ratio()


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``"; did you mean FLOAT32?"``, or nothing where no known name is near."""
    meant = nearest(name, known)
    return f"; did you mean {printable(meant)}?" if meant is not None else ""


def with_rule(message: str, rule: str | None) -> str:
    """A message, and the rule that was broken if it does not say it yet: ``"depth is -1: it must be 0 or more"``."""
    return message if rule is None or rule in message else f"{message}: {rule}"


IRREGULAR = {"axis": "axes", "index": "indices", "entry": "entries"}
"""Plurals that are more than an s."""


def a(noun: str) -> str:
    """A noun with its article: ``"a list"``, ``"an int64"``."""
    return f"{'an' if noun[:1] in 'aeioAEIO' else 'a'} {noun}"


def counted(count: int, noun: str) -> str:
    """A number of things: ``"1 axis"``, ``"2 axes"``, ``"0 entries"``."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {IRREGULAR.get(noun) or noun + ('es' if noun.endswith('ch') else 's')}"


EXACT_BYTES = 10_000
"""Fewer bytes than these are not rounded: two amounts that differ by one are often told side by side."""


def bytes_text(count: int) -> str:
    """Bytes for people: ``"1.50 GB"``; a few are told exactly."""
    if count < EXACT_BYTES:
        return f"{count} B"
    letter, unit = next(
        each for each in zip("PTGMk", (10**15, 10**12, 10**9, 10**6, 10**3), strict=True) if count >= each[1]
    )
    return f"{count / unit:.2f} {letter}B"


def printable(text: str) -> str:
    r"""Text in which nothing commands a terminal, ends a line, or turns the order of what stands around it.

    Every character that Unicode calls no visible one (controls, bidirectional and other format characters, line and
    paragraph separators, surrogates, unassigned ones, spaces but the usual) becomes its escape: a newline ``\n``,
    U+202E ``\u202e``. Text without any is returned as it is, not copied.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
