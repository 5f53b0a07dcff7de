"""How much memory this process may take: of all that there is, and of what is left right now."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from anydml.memory import control_groups
from anydml.memory.control_groups import text

NO_LIMIT = 2**62
"""Version 1 of control groups has no word for "no limit": its files then say some number just below 2⁶³."""

_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = ("memory.max", "memory.current", "inactive_file")
"""Files that hold a group's limit and its use, and the line of its memory.stat that says how many of the used bytes
are pages of files that nobody uses (Linux, admin-guide/cgroup-v1/memory.rst and admin-guide/cgroup-v2.rst)."""


def available_memory() -> int | None:
    """Bytes that can be allocated without swapping, or None where the system does not say.

    Linux promises memory that it does not have, so an allocation that succeeds proves nothing: the least of
    MemAvailable, of what this process's control groups have left, the outer ones included, and of what its own limit
    on address space (``ulimit -v``) leaves is the answer. Elsewhere it is the physical memory.
    """
    found = [amount for amount in (_meminfo(), _control_group(), _address_space()) if amount is not None]
    return min(found) if found else _physical()


def whole_memory() -> int | None:
    """Bytes that this process could have if nothing were in use, or None where the system does not say.

    The least of the machine's memory, of the limits of this process's control groups, and of its own limit on address
    space.
    """
    limits = [_limit(f"{group}/{files[0]}") for group, files in _groups()]
    found = [amount for amount in (_physical(), _address_space_limit(), *limits) if amount is not None]
    return min(found, default=None)


def _physical() -> int | None:
    if sys.platform == "win32":
        return None
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def _meminfo() -> int | None:
    try:
        lines = text("/proc/meminfo").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None


def _control_group() -> int | None:
    """The least that any of this process's control groups, of either version, has left; None without a limit."""
    left = [_left(group, *files) for group, files in _groups()]
    return min((amount for amount in left if amount is not None), default=None)


def _groups() -> Iterator[tuple[str, tuple[str, str, str]]]:
    for group, version in control_groups.groups("memory"):
        yield group, _VERSION_1 if version == 1 else _VERSION_2


def _limit(file: str) -> int | None:
    """A control group's limit."""
    try:
        limit = int(text(file))
    except (OSError, ValueError):
        # No such file, or "max": no limit.
        return None
    return None if limit >= NO_LIMIT else limit


def _left(group: str, limit_file: str, used_file: str, unused: str) -> int | None:
    limit = _limit(f"{group}/{limit_file}")
    if limit is None:
        return None
    try:
        used = int(text(f"{group}/{used_file}"))
    except (OSError, ValueError):
        return None
    try:
        stat = dict(line.split() for line in text(f"{group}/memory.stat").splitlines())
        return max(0, limit - used + int(stat.get(unused, 0)))
    except (OSError, ValueError):
        return max(0, limit - used)


def _address_space() -> int | None:
    """What this process's limit on address space leaves."""
    limit = _address_space_limit()
    if limit is None or sys.platform == "win32":
        return None
    try:
        import resource

        pages = int(text("/proc/self/statm").split()[0])
    except (ImportError, OSError, ValueError, IndexError):
        # Another system than Linux.
        return None
    return max(0, limit - pages * resource.getpagesize())


def _address_space_limit() -> int | None:
    if sys.platform == "win32":
        return None
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    except (ImportError, AttributeError, OSError):
        # A Unix without such limits.
        return None
    return None if limit == resource.RLIM_INFINITY else limit
