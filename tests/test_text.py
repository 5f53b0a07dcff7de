from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from anydml.text import printable

HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(st.text(st.characters()) | st.text(st.characters(categories=list(HIDDEN))))
def test_nothing_hidden_is_left_and_everything_else_is(text):
    shown = printable(text)
    assert not any(unicodedata.category(c) in HIDDEN for c in shown)
    assert len(shown.splitlines()) <= 1
    kept = [c for c in text if c == " " or unicodedata.category(c) not in HIDDEN | {"Zs"}]
    assert [c for c in shown if not c.isascii()] == [c for c in kept if not c.isascii()]
    shown.encode("utf-8")


def test_escapes_say_what_was_there():
    assert printable("a\nb\u202ec\x1b[2J\x9b\u2028d\ud800") == r"a\nb\u202ec\x1b[2J\x9b\u2028d\ud800"
    assert printable("größer 大 🙂 'x'") == "größer 大 🙂 'x'"
