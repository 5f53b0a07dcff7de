"""Limits of this process: its memory in total and at present, and its processors."""

from __future__ import annotations

import math
import os
import re
import sys
from collections.abc import Iterator

ROOT = ""
"""The folder in which /proc and /sys are."""

NO_LIMIT = 2**62
"""Limits from here on mean no limit: version 1 of control groups then writes a number just below 2⁶³."""

_MEMORY = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "),
    2: ("memory.max", "memory.current", "inactive_file "),
}
"""Files with a group's limit and usage, by version, and the key of memory.stat that counts the used bytes in pages of
files that can be reclaimed (Linux, admin-guide/cgroup-v1/memory.rst and admin-guide/cgroup-v2.rst)."""


def available_memory() -> int | None:
    """Return the bytes that can be allocated without swapping, or None if that is unknown.

    Linux overcommits memory, so an allocation that succeeds proves nothing. The result is the minimum of MemAvailable,
    of the memory left in this process's control groups and the groups around them, and of the memory left under its
    limit on address space (``ulimit -v``); on other systems, the physical memory.
    """
    return min((max(0, limit - used) for limit, used in _limits()), default=None)


def whole_memory() -> int | None:
    """Return the bytes that this process could use if all memory were free, or None if that is unknown.

    This is the minimum of the machine's memory, of the limits of this process's control groups, and of its limit on
    address space.
    """
    return min((limit for limit, _ in _limits()), default=None)


def processors() -> int | None:
    """Return the number of processors whose time this process may use, rounded up, or None without a limit.

    Containers see all of the machine's processors, and are limited in time (``docker run --cpus``, Kubernetes).
    """
    quotas = []
    for group, version in _groups("cpu"):
        if version == 2:
            quota, period = _number(f"{group}/cpu.max"), _number(f"{group}/cpu.max", r"\d+ ")
        else:
            quota, period = (_number(f"{group}/cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota and period:
            quotas.append(math.ceil(quota / period))
    return min(quotas, default=None)


def _limits() -> Iterator[tuple[int, int]]:
    """Yield the limits of this process's memory, and how much of each is in use, in bytes."""
    if sys.platform == "win32":
        return
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        available = _number("/proc/meminfo", "MemAvailable: *")
        yield total, 0 if available is None else total - 1024 * available
    except (AttributeError, ValueError, OSError):
        # This system does not report its memory.
        pass
    for group, version in _groups("memory"):
        limit_file, used_file, reclaimable = _MEMORY[version]
        limit = _number(f"{group}/{limit_file}")
        if limit is not None and limit < NO_LIMIT:
            yield limit, (_number(f"{group}/{used_file}") or 0) - (_number(f"{group}/memory.stat", reclaimable) or 0)
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            yield limit, (_number("/proc/self/statm") or 0) * resource.getpagesize()
    except (ImportError, AttributeError, OSError):
        # This system has no such limits.
        pass


def _groups(controller: str) -> Iterator[tuple[str, int]]:
    """Yield the folders of the control groups that this process is in, inner ones first, and their version, 2 or 1.

    A container often sees its own group as the root, although the kernel reports the path on the machine, so folders
    may be missing.

    Args:
        controller: the controller's name in version 1, such as ``"memory"``.
    """
    root = "/sys/fs/cgroup"
    # Without a line, only the root groups are tried. In version 2, there are no names of controllers.
    paths = {"": "/", controller: "/"}
    for controllers, path in re.findall("^[^:\n]*:([^:\n]*):(.*)$", _text("/proc/self/cgroup"), re.MULTILINE):
        paths |= dict.fromkeys(controllers.split(","), path)
    for top, path, version in (
        (root, paths[""], 2),
        (f"{root}/unified", paths[""], 2),
        (f"{root}/{controller}", paths[controller], 1),
    ):
        names = [name for name in path.split("/") if name not in ("", ".", "..")]
        for depth in range(len(names), -1, -1):
            yield "/".join((top, *names[:depth])), version


def _number(path: str, key: str = "") -> int | None:
    """Return the number at the start of a line of a file, after a key; None if there is none, as in "max"."""
    match = re.search(rf"^{key}(\d+)\b", _text(path), re.MULTILINE)
    return int(match[1]) if match else None


def _text(path: str) -> str:
    """Return a file's text, or an empty one if it cannot be read: importing `pathlib` would take longer than that."""
    try:
        with open(ROOT + path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
