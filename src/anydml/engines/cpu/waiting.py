"""What this system offers compiled code to wait with: the one place where that is chosen.

Linux                  futex, through C's `syscall`
Windows 8 and later    WaitOnAddress, WakeByAddressSingle, WakeByAddressAll
macOS 14.4 and later   os_sync_wait_on_address, os_sync_wake_by_address_any, os_sync_wake_by_address_all
elsewhere              nothing: workers sleep in Python
"""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

IN_PYTHON, BY_FUTEX, BY_VALUE_ADDRESS, BY_VALUE = range(4)
"""How waiting is called: not at all; as Linux's futex; with the address of the value that is waited on, as on Windows;
or with the value itself, as on macOS."""

_NUMBERS = {
    "x86_64": (202, 203, 204, 186),
    **dict.fromkeys(("aarch64", "riscv64"), (98, 122, 123, 178)),
    "ppc64le": (221, 222, 223, 207),
}
"""Linux's numbers of futex, sched_setaffinity, sched_getaffinity and gettid, by machine."""

_WINDOWS = ("WaitOnAddress", "WakeByAddressSingle", "WakeByAddressAll")
_MACOS = ("os_sync_wait_on_address", "os_sync_wake_by_address_any", "os_sync_wake_by_address_all")


class Waiting(NamedTuple):
    """How to wait.

    Attributes:
        style: one of the four above.
        wait, wake_one, wake_all: addresses of functions of C; 0 where `style` is none of the last two.
        futex, set_cores, get_cores, get_thread: numbers of Linux's calls; 0 elsewhere.
        syscall, core_finder, clock: addresses of C's `syscall`, `sched_getcpu` and `clock_gettime`; 0 elsewhere.
    """

    style: int = IN_PYTHON
    wait: int = 0
    wake_one: int = 0
    wake_all: int = 0
    futex: int = 0
    set_cores: int = 0
    get_cores: int = 0
    get_thread: int = 0
    syscall: int = 0
    core_finder: int = 0
    clock: int = 0


def find_waiting(system: str | None = None, load: Callable[[str | None], Any] | None = None) -> Waiting:
    """What there is here.

    Args:
        system: as `sys.platform` calls it; by default this one.
        load: gives a library by its name, None for the process's own; raises OSError where there is none.
    """
    system = system or sys.platform
    load = load or ctypes.CDLL
    if sys.maxsize <= 1 << 32:
        return Waiting()
    if system == "linux":
        return _futex(load)
    names = {"win32": _WINDOWS, "darwin": _MACOS}.get(system)
    if names is None:
        return Waiting()
    try:
        library = load("api-ms-win-core-synch-l1-2-0" if system == "win32" else None)
        functions = [address_of_function(library, name) for name in names]
    except (OSError, AttributeError):
        # An older one.
        return Waiting()
    return Waiting(BY_VALUE_ADDRESS if system == "win32" else BY_VALUE, *functions)


def _futex(load: Callable[[str | None], Any]) -> Waiting:
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None:
        return Waiting()
    library = load(None)
    names = "sched_getcpu", "clock_gettime"
    known = [address_of_function(library, name) if hasattr(library, name) else 0 for name in names]
    return Waiting(BY_FUTEX, 0, 0, 0, *numbers, address_of_function(library, "syscall"), *known)


def address_of_function(library: Any, name: str) -> int:
    """The address of a library's function.

    Raises:
        AttributeError: it has none of this name.
    """
    return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
