"""Files that are read and written at places, by several threads at once."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from anydml.files.json_path import JsonPath
from anydml.stores.scattered import MOST_RUNS, Bytes, Starts, can_scatter, request
from anydml.stores.staging import open_file
from anydml.stores.write_back import AT_ONCE, begin_write_back


class PlainFile:
    """A file that several threads read or write at once, each at a place of its own.

    Args:
        path: of the file.
        is_written: whether it is written to.
        is_kept: whether what is written is to be on the disk in the end.
    """

    def __init__(self, path: Path, is_written: bool = False, is_kept: bool = True) -> None:
        self.path = path
        self._is_kept = is_kept
        self._turn = threading.Lock()
        binary = getattr(os, "O_BINARY", 0)
        self.descriptor = open_file(path) if is_written else os.open(path, os.O_RDONLY | binary)

    def __enter__(self) -> PlainFile:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.close(self.descriptor)

    def read(self, view: memoryview, at: int) -> None:
        """Fill a view with the bytes from a place on.

        Raises:
            ModelError: the file ends before.
        """
        while view:
            count = self._read(view, at)
            if not count:
                raise JsonPath(str(self.path)).error("has become shorter since it was opened")
            view, at = view[count:], at + count

    def write(self, view: memoryview, at: int) -> None:
        """Write all bytes of a view from a place on."""
        start = at
        while view:
            count = self._write(view[:AT_ONCE], at)
            view, at = view[count:], at + count
        if self._is_kept:
            begin_write_back(self.descriptor, start, at - start)

    def read_runs(self, buffer: Bytes, starts: Starts, length: int, at: int) -> None:
        """Fill runs of a buffer, `length` bytes from each start, with the bytes from a place on.

        Raises:
            ModelError: the file ends before.
        """
        self._runs(buffer, starts, length, at, True)

    def write_runs(self, buffer: Bytes, starts: Starts, length: int, at: int) -> None:
        """Write runs of a buffer, one after the other, from a place on."""
        self._runs(buffer, starts, length, at, False)
        if self._is_kept:
            begin_write_back(self.descriptor, at, starts.size * length)

    def _runs(self, buffer: Bytes, starts: Starts, length: int, at: int, is_read: bool) -> None:
        view, one = buffer.data, self.read if is_read else self.write
        most = MOST_RUNS if is_read else max(1, min(MOST_RUNS, AT_ONCE // length))
        while starts.size:
            done = 0
            if min(most, starts.size) > 1 and can_scatter():
                done = request(self.descriptor, buffer, starts[:most], length, at, is_read)
            whole, rest = divmod(done, length)
            if rest or not done:
                # The system stopped within a run, or takes one at a time.
                start = int(starts[whole])
                one(view[start + rest : start + length], at + done)
                whole, done = whole + 1, done + length - rest
            starts, at = starts[whole:], at + done

    def _read(self, view: memoryview, at: int) -> int:
        if hasattr(os, "preadv"):
            return int(os.preadv(self.descriptor, [view], at))
        with self._turn:
            os.lseek(self.descriptor, at, os.SEEK_SET)
            data = os.read(self.descriptor, len(view))
        view[: len(data)] = data
        return len(data)

    def _write(self, view: memoryview, at: int) -> int:
        if hasattr(os, "pwrite"):
            return int(os.pwrite(self.descriptor, view, at))
        with self._turn:
            os.lseek(self.descriptor, at, os.SEEK_SET)
            return os.write(self.descriptor, view)
