"""The lists of slow and of quick tests: what they name is there, every folder has quick tests, and none is slow."""

import importlib.util
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pace import QUICK, QUICK_SECONDS, SLOW, TESTS, in_order, is_left_out, keep_quick


class Item(SimpleNamespace):
    """As much of a collected test as is asked for."""

    def __init__(self, name):
        super().__init__(path=TESTS / name, markers=[])

    def add_marker(self, marker):
        self.markers.append(marker.name)

    def get_closest_marker(self, name):
        return name if name in self.markers else None


@pytest.mark.parametrize("names", [SLOW, QUICK], ids=["slow", "quick"])
def test_what_is_listed_is_there_once(names):
    assert [name for name in names if not (TESTS / name).is_file()] == []
    assert len(set(names)) == len(names)


def test_nothing_slow_is_quick():
    assert not set(SLOW) & set(QUICK)


def test_every_folder_has_quick_tests():
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")}
    # The fuzzer has many cases; results that wait for the next call wait for many calls; Dask takes long to import.
    assert {Path(name).parent for name in QUICK} >= folders - {Path("fuzz"), Path("memory"), Path("dask")}


def test_slow_tests_come_first_and_all_others_stay_in_order():
    items = [Item(name) for name in (QUICK[0], "test_other.py", SLOW[-1], QUICK[1], SLOW[0])]
    assert in_order(items) == [items[4], items[2], items[0], items[1], items[3]]
    assert [item.markers for item in items] == [["quick"], [], [], ["quick"], []]


@pytest.mark.parametrize("processes", [1, 2, 3, 7])
def test_every_process_has_slow_tests_first_and_no_test_is_lost(processes):
    names = [f"test_{k}.py" for k in range(40)] + [*SLOW] * 2
    items = list(map(Item, names))
    order = in_order(items, processes)
    assert sorted(map(id, order)) == sorted(map(id, items))
    is_slow = [item.path.relative_to(TESTS).as_posix() in SLOW for item in order]
    begins = [k for k, slow in enumerate(is_slow) if slow and not (k and is_slow[k - 1])]
    assert len(begins) == min(processes, len(SLOW))
    for number, begin in enumerate(begins):
        assert abs(begin - number * len(items) // processes) <= 1


def test_a_quick_test_that_is_slow_fails():
    quick, other = items = [Item(QUICK[0]), Item("test_other.py")]
    in_order(items)
    keep_quick(quick, QUICK_SECONDS)
    keep_quick(other, 10 * QUICK_SECONDS)
    with pytest.raises(pytest.fail.Exception, match=rf"^99\.0 s are not quick: take {QUICK[0]} off QUICK"):
        keep_quick(quick, 99.0)


def test_quick_tests_are_all_that_is_read_for_them():
    files = sorted(path for path in TESTS.rglob("*") if path.suffix == ".py")
    read = [path.relative_to(TESTS).as_posix() for path in files if not is_left_out(path, "quick")]
    assert sorted(name for name in read if "test_" in name.rpartition("/")[2]) == sorted(QUICK)
    assert {"conftest.py", "pace.py"} <= set(read)
    # Whoever asks for more, or for the others, gets them.
    for expression in ("", "not quick", "quick or slow"):
        assert not any(is_left_out(path, expression) for path in files)
    # Other projects' tests are none of ours.
    assert not is_left_out(TESTS.parent / "test_other.py", "quick")


@pytest.fixture
def keep_bytecode(monkeypatch, tmp_path):
    """What `conftest.py` does with pytest's cache; what it changes is put back."""
    spec = importlib.util.spec_from_file_location("conftest_again", TESTS / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", str(tmp_path))
    return module.keep_bytecode


def test_what_python_compiles_is_kept_where_it_may_not_lie_beside_the_sources(keep_bytecode, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    keep_bytecode(SimpleNamespace(mkdir=tmp_path.joinpath))
    assert sys.pycache_prefix == os.environ["PYTHONPYCACHEPREFIX"] == str(tmp_path / "bytecode")
    assert "PYTHONDONTWRITEBYTECODE" not in os.environ
    assert not sys.dont_write_bytecode


@pytest.mark.parametrize("is_kept, has_cache", [(True, True), (False, False)])
def test_what_python_compiles_stays_where_it_is(keep_bytecode, monkeypatch, tmp_path, is_kept, has_cache):
    monkeypatch.setattr(sys, "dont_write_bytecode", not is_kept)
    keep_bytecode(SimpleNamespace(mkdir=tmp_path.joinpath) if has_cache else None)
    assert sys.pycache_prefix == os.environ["PYTHONPYCACHEPREFIX"] == str(tmp_path)
    assert sys.dont_write_bytecode == (not is_kept)
