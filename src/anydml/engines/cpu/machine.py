"""What this machine is: the figures that decide how stores are made."""

from __future__ import annotations

import platform
from functools import cache
from pathlib import Path

DEFAULT_CACHE = 32 << 20
"""Bytes of last-level cache where the system does not say."""

PAST_SHARE = 4
"""Outputs larger than this part of the last-level cache are stored non-temporally: they share it with the inputs."""

XEON_BYTES = 1 << 20
"""The same on Xeons, in bytes: their last cache is far from every core and shared with all others of the machine, so
that what a core's own cache does not hold is stored faster past them, whether it is read again or not."""

_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@cache
def last_level_cache() -> int:
    """Bytes of the largest cache of the first processor."""
    sizes = []
    for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size"):
        try:
            text = path.read_text().strip()
            sizes.append(int(text[:-1]) * _UNITS[text[-1]] if text[-1] in _UNITS else int(text))
        except (OSError, ValueError, IndexError):
            continue
    return max(sizes, default=DEFAULT_CACHE)


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
    return min(share, XEON_BYTES) if is_xeon() else share
