"""What this machine is: the figures that decide how stores are made."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

from anydml.engines.cpu.pool import POOL

DEFAULT_CACHE, DEFAULT_CORE_CACHE = 32 << 20, 1 << 20
"""Bytes of last-level cache, and of a core's own second one, where the system does not say."""

PAST_SHARE = 4
"""Outputs larger than this part of the last-level cache are stored non-temporally: they share it with the inputs."""

XEON_SHARE = 2
"""On Xeons, larger than this part of the caches that the working cores have to themselves: their last cache is far from
every core and shared with all others of the machine, so that what these do not hold is stored faster past them."""

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def last_level_cache() -> int:
    """Bytes of the largest cache of the first processor."""
    return max(_caches().values(), default=DEFAULT_CACHE)


def core_cache() -> int:
    """Bytes of the second cache of the first processor, which is its own."""
    return _caches().get(2, DEFAULT_CORE_CACHE)


@cache
def _caches() -> dict[int, int]:
    """Bytes of the first processor's caches by level, as far as the system says; of two of a level, the larger."""
    sizes: dict[int, int] = {}
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            text, level = (path / "size").read_text().strip(), int((path / "level").read_text())
            size = int(text[:-1]) * _UNITS[text[-1]] if text[-1] in _UNITS else int(text)
        except (OSError, ValueError, IndexError):
            continue
        sizes[level] = max(size, sizes.get(level, 0))
    return sizes


@cache
def processor() -> str:
    """The processor's name, as far as the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def is_xeon() -> bool:
    """Whether the processor is one of Intel's for servers."""
    return "Xeon" in processor()


def most_cached() -> int:
    """Bytes of outputs that are stored through the caches; larger ones are stored past them."""
    share = last_level_cache() // PAST_SHARE
    return min(share, POOL.threads * core_cache() // XEON_SHARE) if is_xeon() else share


def again_share() -> int:
    """How many times as much is stored through the caches where it is read or written again: it comes from far else."""
    return max(1, last_level_cache() // PAST_SHARE // max(1, most_cached()))
