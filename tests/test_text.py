from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydml.text import bytes_text, count_noun, escape_controls


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("plain name/0:1", "plain name/0:1"),
        ("é 🙂 名前 עברית", "é 🙂 名前 עברית"),
        ("a\nb\r\tc", r"a\nb\r\tc"),
        ("\x1b[2J\x9b2J\x7f\0", r"\x1b[2J\x9b2J\x7f\x00"),
        ("a\u202eb\u2066c\u2069\u200f", r"a\u202eb\u2066c\u2069\u200f"),
        ("a\u2028b\u2029c\x85d", r"a\u2028b\u2029c\x85d"),
        ("\ud800\ufeff", r"\ud800\ufeff"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_is_shown(text, shown):
    assert escape_controls(text) == shown


def test_nothing_hidden_is_left_of_any_character():
    shown = escape_controls("".join(map(chr, range(sys.maxunicode + 1))))
    assert len(shown.splitlines()) == 1
    hidden = {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert not hidden
    assert shown.encode("utf-8")


HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.text(st.characters()) | st.text(st.characters(categories=list(HIDDEN))))
def test_nothing_hidden_is_left_and_everything_else_is(text):
    shown = escape_controls(text)
    assert not any(unicodedata.category(c) in HIDDEN for c in shown)
    assert len(shown.splitlines()) <= 1
    kept = [c for c in text if c == " " or unicodedata.category(c) not in HIDDEN | {"Zs"}]
    assert [c for c in shown if not c.isascii()] == [c for c in kept if not c.isascii()]
    shown.encode("utf-8")


def test_escapes_say_what_was_there():
    assert escape_controls("a\nb\u202ec\x1b[2J\x9b\u2028d\ud800") == r"a\nb\u202ec\x1b[2J\x9b\u2028d\ud800"
    assert escape_controls("größer 大 🙂 'x'") == "größer 大 🙂 'x'"


@pytest.mark.parametrize(
    "text",
    ["1 axis", "2 axes", "0 entries", "1 entry", "3 launches", "0 arrays", "1 index", "5 indices", "-1 bytes"],
)
def test_one_thing_is_no_plural(text):
    nouns = {"axes": "axis", "entries": "entry", "launches": "launch", "indices": "index"}
    count, word = text.split()
    assert count_noun(int(count), nouns.get(word, word.removesuffix("s") if word != "axis" else word)) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (9999, "9999 B"), (10_000, "10.00 kB"), (2**30, "1.07 GB"), (10**16, "10.00 PB")],
)
def test_bytes_are_decimal(size, text):
    assert bytes_text(size) == text
