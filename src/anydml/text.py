"""Text of a file as a terminal may show it."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""Text in which nothing commands a terminal, ends a line, or turns the order of what stands around it.

    Every character that Unicode calls no visible one (controls, bidirectional and other format characters, line and
    paragraph separators, surrogates, unassigned ones, spaces but the usual) becomes its escape: a newline ``\n``,
    U+202E ``\u202e``. Text without any is returned as it is, not copied.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
