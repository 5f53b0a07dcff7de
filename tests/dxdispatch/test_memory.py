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


@pytest.fixture
def system(monkeypatch, tmp_path):
    """A machine whose files say this; what is None is missing."""
    monkeypatch.setattr(memory, "Path", lambda path: tmp_path / path.lstrip("/"))

    def say(meminfo=None, limit=None, used="100", stat="anon 60\ninactive_file 40\n"):
        files = {"proc/meminfo": meminfo}
        if limit is not None:
            files |= {f"sys/fs/cgroup/memory.{k}": v for k, v in (("max", limit), ("current", used), ("stat", stat))}
        for name, text in files.items():
            if text is not None:
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).write_text(text)
        return memory.available_memory()

    return say


MEMINFO = "MemTotal:  9000 kB\nMemFree:  1 kB\nMemAvailable:   5000 kB\n"


def test_what_linux_says(system):
    assert system(MEMINFO) == 5000 * 1024


@pytest.mark.parametrize(
    ("limit", "used", "stat", "left"),
    [
        ("1000\n", "300\n", "anon 60\ninactive_file 40\n", 740),
        ("1000\n", "300\n", "anon 60\n", 700),
        ("1000\n", "3000\n", "inactive_file 40\n", 0),
        ("max\n", "300\n", "inactive_file 40\n", 5000 * 1024),
        ("1000\n", None, None, 5000 * 1024),
        (str(2**60), "300\n", "inactive_file 40\n", 5000 * 1024),
    ],
)
def test_a_control_group_takes_its_share(system, limit, used, stat, left):
    """Pages of files that nobody uses are given back, and so they count as left."""
    assert system(MEMINFO, limit, used, stat) == left


@pytest.mark.parametrize("meminfo", [None, "", "MemTotal: 9000 kB\n", "MemAvailable: many kB\n"])
def test_other_machines_have_their_physical_memory(system, monkeypatch, meminfo):
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 7, "SC_PAGE_SIZE": 4096}.__getitem__, raising=False)
    assert system(meminfo) == 7 * 4096


@pytest.mark.parametrize("error", [AttributeError, ValueError, OSError])
def test_machines_that_say_nothing(system, monkeypatch, error):
    def unknown(name):
        raise error(name)

    monkeypatch.setattr(os, "sysconf", unknown, raising=False)
    assert system() is None


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (2**35, "32.0 GiB"), (2**64, "16384.0 PiB")],
)
def test_texts(size, text):
    assert memory.text(size) == text
