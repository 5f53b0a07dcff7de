from __future__ import annotations

import os

import pytest

from anydml.dxdispatch import memory


def test_some_of_this_machines_memory_is_available():
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = memory.available_memory()
    assert found is not None
    assert 0 < found <= total


def test_the_smaller_limit_counts(monkeypatch):
    monkeypatch.setattr(memory, "_meminfo", lambda: 5000)
    monkeypatch.setattr(memory, "_control_group", lambda: 3000)
    assert memory.available_memory() == 3000
    monkeypatch.setattr(memory, "_control_group", lambda: None)
    assert memory.available_memory() == 5000


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (2**35, "32.0 GiB"), (2**64, "16384.0 PiB")],
)
def test_texts(size, text):
    assert memory.text(size) == text
