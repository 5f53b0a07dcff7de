from __future__ import annotations

import os

import pytest

from anydml.memory import limits, results


def test_some_of_this_machines_memory_is_available():
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    available = limits.available_memory()
    assert available is not None
    assert 0 < available <= total


@pytest.fixture
def system(monkeypatch, tmp_path):
    """A machine whose files say this; what is None is missing."""
    monkeypatch.setattr(limits, "ROOT", str(tmp_path))

    def say(meminfo=None, limit=None, used="100", stat="anon 60\ninactive_file 40\n"):
        files = {"proc/meminfo": meminfo}
        if limit is not None:
            files |= {f"sys/fs/cgroup/memory.{k}": v for k, v in (("max", limit), ("current", used), ("stat", stat))}
        for name, text in files.items():
            if text is not None:
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                (tmp_path / name).write_text(text)
        return limits.available_memory()

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
        ("1000\n", None, None, 1000),
        (str(2**60), "300\n", "inactive_file 40\n", 5000 * 1024),
    ],
)
def test_a_control_group_takes_its_share(system, limit, used, stat, left):
    """Pages of files that nobody uses are given back, and so they count as left."""
    assert system(MEMINFO, limit, used, stat) == left


V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
V2 = ("memory.max", "memory.current", "inactive_file")
HUGE = str(2**63 - 4096)
"""What version 1 says where there is no limit."""


@pytest.fixture
def groups(system, tmp_path):
    """As `system`, with groups of either version: ``folder=(limit, used, unused pages of files)``."""

    def say(own, names, folders, meminfo=MEMINFO):
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(own)
        for folder, (limit, used, unused) in folders.items():
            group = tmp_path / "sys/fs/cgroup" / folder
            group.mkdir(parents=True, exist_ok=True)
            (group / names[0]).write_text(f"{limit}\n")
            (group / names[1]).write_text(f"{used}\n")
            (group / "memory.stat").write_text(f"cache 7\n{names[2]} {unused}\n")
        return system(meminfo)

    return say


@pytest.mark.parametrize(
    ("folders", "left"),
    [
        ({"a/b": (1000, 300, 40)}, 740),
        ({"a/b": ("max", 300, 40), "a": (900, 300, 0)}, 600),
        ({"a/b": (1000, 300, 0), "a": (900, 800, 50), "": ("max", 5, 5)}, 150),
        ({"a/b": (500, 300, 0), "a": (900, 300, 0)}, 200),
        ({"a/b": ("max", 300, 40), "a": ("max", 300, 0)}, 5000 * 1024),
        # A container: the kernel names the group as the machine does, but only the root is to be seen.
        ({"": (1000, 300, 0)}, 700),
        # Of others.
        ({"a/c": (10, 3, 0), "b": (10, 3, 0)}, 5000 * 1024),
    ],
)
@pytest.mark.parametrize("top", ["", "unified"])
def test_nested_groups_of_version_2(groups, folders, left, top):
    placed = {f"{top}/{name}".strip("/"): numbers for name, numbers in folders.items()}
    assert groups("1:name=systemd:/\n0::/a/b\n", V2, placed) == left


@pytest.mark.parametrize(
    ("folders", "left"),
    [
        ({"memory/a/b": (1000, 300, 40)}, 740),
        ({"memory/a/b": (HUGE, 300, 40), "memory/a": (900, 300, 0), "memory": (HUGE, 9, 0)}, 600),
        ({"memory/a/b": (1000, 3000, 0)}, 0),
        ({"memory/a/b": (HUGE, 300, 40), "memory/a": (HUGE, 300, 0), "memory": (HUGE, 9, 0)}, 5000 * 1024),
        ({"memory": (1000, 300, 0)}, 700),
    ],
)
def test_groups_of_version_1(groups, folders, left):
    assert groups("5:cpu,cpuacct:/x\n4:hugetlb,memory:/a/b\n0::/\n", V1, folders) == left


@pytest.mark.parametrize(
    ("own", "names", "folders", "whole"),
    [
        ("0::/a/b\n", V2, {"a/b": (1000, 999, 0)}, 1000),
        ("0::/a/b\n", V2, {"a/b": ("max", 300, 0), "a": (900, 300, 0)}, 900),
        ("0::/a/b\n", V2, {"a/b": ("max", 300, 0), "a": ("max", 300, 0)}, 7 * 4096),
        ("4:memory:/a/b\n", V1, {"memory/a/b": (HUGE, 300, 0), "memory/a": (900, 300, 0)}, 900),
        ("4:memory:/a\n", V1, {"memory/a": (HUGE, 300, 0)}, 7 * 4096),
    ],
)
def test_the_whole_is_what_the_machine_and_all_groups_allow(groups, monkeypatch, own, names, folders, whole):
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 7, "SC_PAGE_SIZE": 4096}.__getitem__, raising=False)
    groups(own, names, folders)
    assert limits.whole_memory() == whole
    assert results.default_limit() == whole // results.CACHE_FRACTION


def test_the_whole_is_what_the_address_space_allows(system, monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (5000, 5000))
    assert limits.whole_memory() == 5000


def test_no_limit_is_no_amount_of_memory(groups, monkeypatch):
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 7, "SC_PAGE_SIZE": 4096}.__getitem__, raising=False)
    assert groups("4:memory:/a\n", V1, {"memory/a": (HUGE, 300, 40)}, meminfo=None) == 7 * 4096


@pytest.mark.parametrize("own", ["", "nonsense", "0::", "0::/../../x", "4:memory:/none"])
def test_groups_that_are_not_there(groups, own):
    assert groups(own, V2, {"": (1000, 300, 0)}) == 700


@pytest.mark.parametrize("limit", [None, 100 << 20])
def test_a_limit_on_address_space(system, monkeypatch, tmp_path, limit):
    resource = pytest.importorskip("resource")
    soft = resource.RLIM_INFINITY if limit is None else limit
    monkeypatch.setattr(resource, "getrlimit", lambda which: (soft, soft))
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/statm").write_text("10000 1 2 3 0 4 0\n")
    left = None if limit is None else limit - 10_000 * resource.getpagesize()
    assert system("MemAvailable: 500000 kB\n") == (left if limit else 500_000 * 1024)
    (tmp_path / "proc/self/statm").write_text("100000 1 2 3 0 4 0\n")
    assert system("MemAvailable: 500000 kB\n") == (0 if limit else 500_000 * 1024)


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
    assert limits.whole_memory() is None
    assert results.default_limit() == results.ASSUMED_MEMORY // results.CACHE_FRACTION
