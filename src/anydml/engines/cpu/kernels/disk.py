"""Compiled kernels on disk: so many bytes of them, the oldest go first, those of older versions among them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

BUDGET = 64 << 20
"""Bytes that compiled kernels may take in one folder."""


def trim(kernel: Any) -> None:
    """If this kernel has just been added to its folder, delete the oldest until all are within the budget.

    A process that misses one compiles it again.
    """
    try:
        if kernel.stats.cache_path is None or not sum(kernel.stats.cache_misses.values()):
            return
        files = []
        for path in Path(kernel.stats.cache_path).glob("*.nb[ci]"):
            status = path.stat()
            files.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= BUDGET:
                return
            path.unlink(missing_ok=True)
            total -= size
    except (AttributeError, OSError):
        # Nothing is kept on disk, or the folder is not ours, or another process tidies up as well.
        return
