"""Journals: lists of the finished blocks of a plan, so that an interrupted run can resume.

A journal is lines of text. The first identifies the plan. Then follows the number of each block that was written;
``synced n`` when the first n of these have been synced to the disk, and ``whole`` when all have, before files get their
names. After a process was killed, all lines count; after a crash of the machine, only synced blocks do.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from anydml.files.location import Location

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

SYNC_BYTES = 2 << 30
"""Bytes between two syncs, so that a crash of the machine does not lose everything."""


class Journal:
    """The journal of one plan, locked against other processes.

    Args:
        path: the path of the journal.
        digest: the digest of the plan.
        sync: syncs all outputs to the disk.

    Attributes:
        finished: blocks that an earlier run wrote.
        is_whole: whether that run had synced all blocks, and was giving files their names.

    Raises:
        ModelError: another process has locked it, or it cannot be written.
    """

    def __init__(self, path: Path, digest: str, sync: Callable[[], None]) -> None:
        self.path = path
        self._sync = sync
        self._lock = threading.Lock()
        self._count = self._bytes = self._end = 0
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o600)
        try:
            if sys.platform != "win32" and fcntl is not None:
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    raise Location(str(path)).error("another process is writing the same output") from None
                if not _is_same(self._file, path):
                    raise Location(str(path)).error("another process has just written the same output")
            self.finished, self.is_whole = self._read(digest)
            self._count = len(self.finished)
            if not self._count and not self.is_whole:
                self.restart(digest)
        except BaseException:
            os.close(self._file)
            raise

    def _read(self, digest: str) -> tuple[set[int], bool]:
        os.lseek(self._file, 0, os.SEEK_SET)
        with os.fdopen(os.dup(self._file), "rb") as file:
            # An incomplete last line does not count, and is overwritten by the next one.
            content = file.read()
        self._end = content.rfind(b"\n") + 1
        lines = content.split(b"\n")[:-1]
        try:
            first = json.loads(lines[0])
            if first["plan"] != digest:
                return set(), False
            finished_blocks = [int(line) for line in lines[1:] if line.isdigit()]
            synced = [int(line[7:]) for line in lines[1:] if line.startswith(b"synced ")]
        except (IndexError, KeyError, TypeError, ValueError):
            return set(), False
        if b"whole" in lines:
            return set(finished_blocks), True
        if first["boot"] is None or first["boot"] != boot_id():
            finished_blocks = finished_blocks[: max(synced, default=0)]
        return set(finished_blocks), False

    is_taken = True
    """Whether it keeps other processes from the outputs."""

    def take(self) -> None:
        """Do nothing: the journal was locked when it was opened."""

    @property
    def count(self) -> int:
        """Blocks that were written, by this run or an earlier one."""
        return self._count

    @property
    def is_empty(self) -> bool:
        """Whether no block was written, by this run or an earlier one."""
        return not self._count

    def restart(self, digest: str) -> None:
        """Forget all finished blocks, because their files are gone."""
        os.ftruncate(self._file, 0)
        self.finished, self.is_whole, self._count, self._end = set(), False, 0, 0
        self._write(json.dumps({"plan": digest, "boot": boot_id()}))

    def _write(self, line: str) -> None:
        content, written = line.encode() + b"\n", 0
        os.lseek(self._file, self._end, os.SEEK_SET)
        while written < len(content):
            written += os.write(self._file, content[written:])
        self._end += written

    def add(self, block: int, size: int) -> None:
        """Record that a block of `size` bytes was written."""
        with self._lock:
            self._write(str(block))
            self._count += 1
            self._bytes += size
            if self._bytes >= SYNC_BYTES:
                self._bytes = 0
                self._sync()
                self._write(f"synced {self._count}")
                os.fsync(self._file)

    def mark_synced(self) -> None:
        """Record that all outputs are synced to the disk."""
        self._write("whole")
        os.fsync(self._file)

    def close(self, is_over: bool) -> None:
        """Unlock the journal; remove it if the plan is done."""
        if fcntl is None:
            # Windows only removes closed files.
            os.close(self._file)
        if is_over:
            self.path.unlink(missing_ok=True)
        if fcntl is not None:
            os.close(self._file)


def is_under_way(path: Path, digest: str) -> bool:
    """Whether a journal belongs to an unfinished plan."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
        return bool(json.loads(lines[0])["plan"] == digest) and b"whole" not in lines
    except (OSError, IndexError, KeyError, TypeError, ValueError):
        return False


@contextmanager
def lock(path: Path, is_shared: bool) -> Iterator[None]:
    """Lock a file or folder, if it exists and the file system supports locks."""
    descriptor = None
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY) if fcntl is not None else None
    try:
        if sys.platform != "win32" and descriptor is not None:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _is_same(descriptor: int, path: Path) -> bool:
    """Whether an open file still has its name: another process may have removed it."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def boot_id() -> str | None:
    """Return an identifier of the last boot of the machine; None if unknown."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def sync_folder(path: Path) -> None:
    """Sync the names in a folder to the disk, if the system supports it."""
    if os.name != "posix":
        return
    folder: Any = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
