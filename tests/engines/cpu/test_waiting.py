"""Which of a system's ways to wait is chosen."""

import ctypes
import platform
import sys
from types import SimpleNamespace

import pytest

from anydml.engines.cpu import block, waiting
from anydml.engines.cpu.waiting import BY_FUTEX, BY_VALUE, BY_VALUE_ADDRESS, IN_PYTHON, Waiting, find_waiting

FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)
ADDRESS = ctypes.cast(FUNCTION, ctypes.c_void_p).value
WINDOWS = ("WaitOnAddress", "WakeByAddressSingle", "WakeByAddressAll")
MACOS = ("os_sync_wait_on_address", "os_sync_wake_by_address_any", "os_sync_wake_by_address_all")


def library(*names):
    return SimpleNamespace(**dict.fromkeys(names, FUNCTION))


@pytest.mark.parametrize(
    ("system", "names", "style"),
    [("win32", WINDOWS, BY_VALUE_ADDRESS), ("darwin", MACOS, BY_VALUE)],
)
def test_each_system_has_its_own(system, names, style):
    asked = []

    def load(name):
        asked.append(name)
        return library(*names)

    assert find_waiting(system, load) == Waiting(style, ADDRESS, ADDRESS, ADDRESS)
    assert asked == ["api-ms-win-core-synch-l1-2-0" if system == "win32" else None]
    # A system that lacks one of them is an older one.
    for k in range(3):
        assert find_waiting(system, lambda name, k=k: library(*names[:k], *names[k + 1 :])) == Waiting()


def test_a_library_that_is_missing_is_no_error():
    def load(name):
        raise OSError(name)

    assert find_waiting("win32", load) == Waiting()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64", "ppc64le", "mips"])
def test_linux_has_numbers_by_machine(monkeypatch, machine):
    monkeypatch.setattr(platform, "machine", lambda: machine)
    found = find_waiting("linux", lambda name: library("syscall", "sched_getcpu", "clock_gettime"))
    if machine == "mips":
        assert found == Waiting()
        return
    assert (found.style, found.syscall, found.core_finder, found.clock) == (BY_FUTEX, ADDRESS, ADDRESS, ADDRESS)
    assert 0 not in (found.futex, found.set_cores, found.get_cores)
    poor = find_waiting("linux", lambda name: library("syscall"))
    assert (poor.core_finder, poor.clock) == (0, 0)


def test_all_others_sleep_in_python(monkeypatch):
    for system in ("freebsd14", "emscripten", "aix"):
        assert find_waiting(system, lambda name: library(*WINDOWS, *MACOS, "syscall")).style == IN_PYTHON
    monkeypatch.setattr(sys, "maxsize", 2**31 - 1)
    assert find_waiting("linux") == Waiting()


@pytest.mark.parametrize("found", [Waiting(), Waiting(BY_VALUE, 1, 2, 3), Waiting(BY_FUTEX, 0, 0, 0, 4, 5, 6, 7, 8)])
def test_workers_are_told(monkeypatch, found):
    monkeypatch.setattr(block, "find_waiting", lambda: found)
    for in_python in (False, True):
        made = block.Block(1, in_python)
        expected = waiting.Waiting() if in_python else found
        words = [made.words[word] for word in (block.STYLE, block.WAIT, block.WAKE_ONE, block.WAKE_ALL, block.FUTEX)]
        assert words == [*expected[:5]]
        assert made.is_in_python == (expected.style == IN_PYTHON)
