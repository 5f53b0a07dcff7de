"""Text that others wrote, such as names in a model file, made safe to show on one line."""

from __future__ import annotations

import unicodedata

_HIDDEN = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
"""Unicode categories: controls, formats (bidi controls among them), surrogates, line and paragraph separators."""


def printable(text: str) -> str:
    r"""Text on one line that neither commands a terminal nor changes the order in which its characters are shown.

    Control and format characters, lone surrogates, and line and paragraph separators become Python's escapes, such as
    ``\n``, ``\x1b`` and ``\u202e``; all others stay as they are.
    """
    if text.isprintable():
        return text
    return "".join(
        character.encode("unicode_escape").decode("ascii") if unicodedata.category(character) in _HIDDEN else character
        for character in text
    )
