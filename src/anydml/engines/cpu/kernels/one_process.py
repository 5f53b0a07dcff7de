"""Several processes that want the same kernel: one compiles it, the others wait and take it from the disk.

Ranks of a training, workers of a cluster and test runners start together, and a compiler takes a whole core of each.
Whoever holds a file's lock compiles; a process that ends gives it back, however it ends.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

PATIENCE = 20.0
"""Seconds that a process waits at most: then it compiles for itself, which is never wrong."""

LOOK = 0.02
"""Seconds from one look at the lock to the next."""


@contextlib.contextmanager
def one_process(folder: Path | None, name: str | None) -> Iterator[None]:
    """Within this, other processes that keep kernels in a folder do not compile this one. They may have compiled it.

    Args:
        folder: where it will be kept. Where nothing can be locked, nobody waits.
        name: the kernel's; None if it is not kept.
    """
    with contextlib.ExitStack() as held:
        if folder is not None and name is not None:
            path = folder / f"{name}.lock"
            with contextlib.suppress(OSError):
                _wait(held.enter_context(path.open("ab")))
                held.callback(_forget, path)
        yield


def _wait(file: BinaryIO) -> None:
    end = time.monotonic() + PATIENCE
    while not _is_locked(file.fileno()) and time.monotonic() < end:
        time.sleep(LOOK)


def _is_locked(number: int) -> bool:
    """Lock an open file until it is closed; False where another process has the lock."""
    try:
        if sys.platform == "win32":
            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    return True


def _forget(path: Path) -> None:
    # On Windows a file that others wait for cannot go; the last one takes it away.
    with contextlib.suppress(OSError):
        path.unlink()
