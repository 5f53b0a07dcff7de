"""The memory that this process may use: in total, and at present."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from anydml.memory import control_groups
from anydml.memory.control_groups import text

NO_LIMIT = 2**62
"""Limits from here on mean no limit: version 1 of control groups then writes a number just below 2⁶³."""

_VERSION_1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_VERSION_2 = ("memory.max", "memory.current", "inactive_file")
"""Files with a group's limit and usage, and the key of memory.stat that counts the used bytes in pages of files that
can be reclaimed (Linux, admin-guide/cgroup-v1/memory.rst and admin-guide/cgroup-v2.rst)."""


def available_memory() -> int | None:
    """Return the bytes that can be allocated without swapping, or None if that is unknown.

    Linux overcommits memory, so an allocation that succeeds proves nothing. The result is the minimum of MemAvailable,
    of the memory left in this process's control groups and the groups around them, and of the memory left under its
    limit on address space (``ulimit -v``); on other systems, the physical memory.
    """
    found = [amount for amount in (_meminfo(), _control_group(), _address_space()) if amount is not None]
    return min(found) if found else _physical()


def whole_memory() -> int | None:
    """Return the bytes that this process could use if all memory were free, or None if that is unknown.

    This is the minimum of the machine's memory, of the limits of this process's control groups, and of its limit on
    address space.
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
    """Return the least memory left in any of this process's control groups, or None without a limit."""
    left = [_left(group, *files) for group, files in _groups()]
    return min((amount for amount in left if amount is not None), default=None)


def _groups() -> Iterator[tuple[str, tuple[str, str, str]]]:
    for group, version in control_groups.groups("memory"):
        yield group, _VERSION_1 if version == 1 else _VERSION_2


def _limit(file: str) -> int | None:
    """Return a control group's limit, or None."""
    try:
        limit = int(text(file))
    except (OSError, ValueError):
        # No such file, or "max": no limit.
        return None
    return None if limit >= NO_LIMIT else limit


def _left(group: str, limit_file: str, used_file: str, reclaimable: str) -> int | None:
    limit = _limit(f"{group}/{limit_file}")
    if limit is None:
        return None
    try:
        used = int(text(f"{group}/{used_file}"))
    except (OSError, ValueError):
        return None
    try:
        stat = dict(line.split() for line in text(f"{group}/memory.stat").splitlines())
        return max(0, limit - used + int(stat.get(reclaimable, 0)))
    except (OSError, ValueError):
        return max(0, limit - used)


def _address_space() -> int | None:
    """Return the bytes left under this process's limit on address space, or None without a limit."""
    limit = _address_space_limit()
    if limit is None or sys.platform == "win32":
        return None
    try:
        import resource

        pages = int(text("/proc/self/statm").split()[0])
    except (ImportError, OSError, ValueError, IndexError):
        # Not Linux.
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
