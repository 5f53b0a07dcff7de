"""Kernels on the disk: read without a compiler, compiled again where they are not what was written."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from anydml.engines.cpu.kernels import driver, kept
from anydml.engines.cpu.kernels.ir import load


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where kernels are kept, and nowhere else."""
    monkeypatch.setattr(kept, "folders", lambda: iter([tmp_path]))
    return tmp_path


@pytest.fixture
def made(monkeypatch):
    """The names of kernels that are compiled."""
    names, make = [], driver._made

    def counted(function, name, *others):
        names.append(name)
        return make(function, name, *others)

    monkeypatch.setattr(driver, "_made", counted)
    return names


def sum_of(*constants, nogil=True):
    """A kernel that adds a word in memory to two more."""

    def sum_of_words(address, second, third):
        return load(address) + second + third

    return driver.compiled(sum_of_words, *constants, nogil=nogil)


def call(kernel):
    word = np.array([40], np.uint64)
    return kernel(word.ctypes.data, 1, 1)


def test_it_is_compiled_once(folder, made, monkeypatch):
    assert call(sum_of("a")) == 42
    # Nobody waits for what is there.
    monkeypatch.setattr(driver, "one_process", None)
    assert call(sum_of("a")) == 42
    assert len(made) == 1
    assert [path.stem for path in folder.iterdir()] == made


def test_what_it_depends_on_is_in_its_name(folder, made, monkeypatch):
    sum_of("a")
    sum_of("b")
    sum_of("a", nogil=False)
    monkeypatch.setenv("NUMBA_CPU_NAME", "generic")
    kept._machine.cache_clear()
    sum_of("a")
    monkeypatch.delenv("NUMBA_CPU_NAME")
    kept._machine.cache_clear()
    monkeypatch.setattr(kept, "_checksum", lambda file: "another file")
    sum_of("a")
    assert len(set(made)) == 5


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "a folder", "another version"])
def test_what_is_damaged_is_compiled_again(folder, made, damage):
    sum_of("a")
    (path,) = folder.iterdir()
    content = path.read_bytes()
    half = len(content) // 2
    path.unlink()
    if damage == "a folder":
        path.mkdir()
    else:
        damaged = {
            "cut": content[:half],
            "changed": content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :],
            "empty": b"",
            "another version": content[:14] + b"\xff" + content[15:],
        }
        path.write_bytes(damaged[damage])
    assert call(sum_of("a")) == 42
    assert len(made) == 2
    if damage != "a folder":
        assert call(sum_of("a")) == 42
        assert len(made) == 2


def test_it_is_read_from_where_nobody_may_write(tmp_path, made, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    monkeypatch.setattr(kept, "folders", lambda: iter([second]))
    sum_of("a")
    monkeypatch.setattr(kept, "folders", lambda: iter([first, second]))
    assert call(sum_of("a")) == 42
    assert kept.held() == [(second, 1)]
    assert len(made) == 1
    sum_of("b")
    assert kept.held() == [(first, 1), (second, 1)]


def test_others_may_read_it(folder):
    before = os.umask(0o022)
    try:
        sum_of("a")
    finally:
        os.umask(before)
    (path,) = folder.iterdir()
    if sys.platform != "win32":
        assert path.stat().st_mode & 0o777 == 0o644


def test_the_oldest_go(folder, monkeypatch):
    monkeypatch.setattr(kept, "BUDGET", 500)
    for number in range(10):
        path = folder / f"kernel{number}.kernel"
        path.write_bytes(b"x" * 100)
        os.utime(path, (1000 + number, 1000 + number))
    (folder / "notes.txt").write_bytes(b"x" * 10_000)
    kept.trim(folder)
    assert sorted(path.stem for path in folder.iterdir()) == [*(f"kernel{k}" for k in range(5, 10)), "notes"]
    kept.trim(folder / "missing")


def test_what_lies_in_no_file_is_not_kept(folder, made):
    names = {}
    exec("def twice(a, b, c):\n    return a + a", names)
    for _ in range(2):
        assert driver.compiled(names["twice"])(21, 0, 0) == 42
    assert made == [None, None]
    assert not [*folder.iterdir()]


@pytest.mark.parametrize("nogil", [False, True])
def test_python_calls_it_with_words(folder, nogil):
    kernel = sum_of(nogil=nogil)
    word = np.array([2**64 - 1], np.uint64)
    at = word.ctypes.data
    assert kernel(np.uint64(at), np.int8(1), True) == 1
    assert kernel(at, 2**64 - 1, 0) == 2**64 - 2
    assert kernel(at, -1, 0) == 2**64 - 2
    with pytest.raises(TypeError, match="str"):
        kernel(at, "1", 0)
    for wrong in ((), (at,), (at, 1, 2, 3)):
        with pytest.raises(SystemError):
            kernel(*wrong)


def test_a_folder_that_is_named_is_the_only_one(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert [*kept.folders()] == [tmp_path / "anydml"]
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    beside, users = kept.folders()
    assert beside == Path(kept.__file__).parent / "__pycache__"
    assert users.name == "anydml"
    monkeypatch.setattr(Path, "home", no_home)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    assert [*kept.folders()] == [beside]


def no_home():
    raise RuntimeError("could not determine home directory")
