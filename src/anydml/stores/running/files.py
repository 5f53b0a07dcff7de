"""Files that are open while a plan runs: several threads read and write them at offsets."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np

from anydml.files.addresses import Address
from anydml.files.location import Location
from anydml.stores.formats.store import PAGE, Array, Numbers, Store, resolved
from anydml.stores.planning.intervals import Cast
from anydml.stores.running.buffers import Buffers
from anydml.stores.running.objects import ObjectFile
from anydml.stores.running.scattered_io import LEFT_OUT, MAX_RUNS_AT_ONCE, can_scatter, request

MAX_WRITE = 512 << 10
"""Maximum size in bytes of a write: Linux allocates page-cache memory in pieces of that size; larger ones cost more."""

CAST_AT_ONCE = 9 << 20
"""Maximum number of bytes that are read at once to be cast: 8 MiB, and the bytes between its parts."""

LONG_WRITE = 256 << 10
"""Bytes of a write from which its write-back begins at once; pages that smaller writes share would be written twice."""

RWF_DONTCACHE = 0x80
"""RWF_DONTCACHE: begin the write-back, and drop the pages when it ends."""

REFUSALS = (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM)
"""Errors of kernels older than 6.14, file systems and sandboxes without uncached writes."""

WRITE = 2
"""SYNC_FILE_RANGE_WRITE: begin the write-back without waiting."""


def begin_write_back(descriptor: int, offset: int, size: int) -> None:
    """Begin the write-back of many bytes, if the system supports it, so that the disk works meanwhile.

    Only `os.fsync` waits for it and reports errors.

    Args:
        descriptor: the descriptor of the file.
        offset: offset of the first byte.
        size: number of bytes.
    """
    if size >= LONG_WRITE and (call := sync_file_range()) is not None:
        call(descriptor, offset, size, WRITE)


@cache
def sync_file_range() -> Callable[[int, int, int, int], int] | None:
    """Return Linux's system call; None on other systems."""
    if sys.platform != "linux":
        return None
    function = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return function


def open_file(path: str | Path, create: bool = False, mode: int = 0o666) -> int:
    """Open a file for writing and return its descriptor.

    Args:
        path: the path of the file.
        create: whether to create or empty the file.
        mode: permissions of a new file, limited by the process's umask.
    """
    flags = os.O_RDWR | getattr(os, "O_BINARY", 0) | (os.O_CREAT | os.O_TRUNC if create else 0)
    return os.open(path, flags, mode)


class PlainFile:
    """A file that several threads read or write at once, each at its own offset.

    Args:
        path: the path of the file.
        is_written: whether it is opened for writing.
        is_kept: whether its content must reach the disk.
        descriptor: the descriptor if the file is already open.
    """

    def __init__(
        self, path: str | Path, is_written: bool = False, is_kept: bool = True, descriptor: int | None = None
    ) -> None:
        self.path = path
        self._is_kept = is_kept
        self._lock = threading.Lock()
        if descriptor is None:
            descriptor = open_file(path) if is_written else os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self.descriptor = descriptor

    def __enter__(self) -> PlainFile:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            os.close(self.descriptor)

    def read(self, view: memoryview, offset: int) -> None:
        """Fill a view with the bytes from an offset on.

        Raises:
            ModelError: the file is too short.
        """
        while view:
            count = self._read(view, offset)
            if not count:
                raise Location(str(self.path)).error("has become shorter since it was opened")
            view, offset = view[count:], offset + count

    def write(self, view: memoryview, offset: int) -> None:
        """Write all bytes of a view at an offset; many whole pages do not stay in the page cache."""
        written, before = 0, -offset % PAGE
        pages = view[before : before + (len(view) - before) // PAGE * PAGE]
        if self._is_kept and len(pages) >= LONG_WRITE:
            self._write_all(view[:before], offset)
            written = before + self._write_pages(pages, offset + before)
        self._write_all(view[written:], offset + written)
        if self._is_kept:
            begin_write_back(self.descriptor, offset + written, len(view) - written)

    def write_several(self, views: Sequence[memoryview], offset: int) -> None:
        """Write views contiguously at an offset, by one request if the system supports it."""
        written = os.pwritev(self.descriptor, views, offset) if len(views) > 1 and hasattr(os, "pwritev") else 0
        for view in views:
            # Some views are written completely.
            self._write_all(view[written:], offset + written)
            written, offset = max(0, written - len(view)), offset + len(view)

    def _write_all(self, view: memoryview, offset: int) -> None:
        while view:
            count = self._write(view[:MAX_WRITE], offset)
            view, offset = view[count:], offset + count

    def _write_pages(self, pages: memoryview, offset: int) -> int:
        """Write pages that leave the page cache once they are on the disk, until refused; return the bytes written."""
        written = 0
        if sys.platform == "linux" and hasattr(os, "pwritev"):
            try:
                while written < len(pages):
                    written += os.pwritev(
                        self.descriptor, [pages[written : written + MAX_WRITE]], offset + written, RWF_DONTCACHE
                    )
            except NotImplementedError:
                # Python was built without pwritev2.
                pass
            except OSError as error:
                # Plain writes of the rest report what is wrong with the file.
                if error.errno not in REFUSALS:
                    raise
        return written

    def read_runs(self, buffer: Array, starts: Numbers, lengths: Numbers, offset: int) -> None:
        """Fill runs of a buffer with the bytes from an offset on; bytes of runs at `LEFT_OUT` are dropped.

        Raises:
            ModelError: the file is too short.
        """
        self._runs(buffer, starts, lengths, offset, True)

    def write_runs(self, buffer: Array, starts: Numbers, lengths: Numbers, offset: int) -> None:
        """Write runs of a buffer contiguously at an offset."""
        self._runs(buffer, starts, lengths, offset, False)
        if self._is_kept:
            begin_write_back(self.descriptor, offset, int(lengths.sum()))

    def _runs(self, buffer: Array, starts: Numbers, lengths: Numbers, offset: int, is_read: bool) -> None:
        view, transfer_run = buffer.data, self.read if is_read else self.write
        while starts.size:
            complete_runs = transferred = partial_bytes = 0
            ends = np.cumsum(lengths[:MAX_RUNS_AT_ONCE])
            count = ends.size if is_read else int(np.searchsorted(ends, MAX_WRITE, "right"))
            if count > 1 and can_scatter():
                transferred = request(self.descriptor, buffer, starts[:count], lengths[:count], offset, is_read)
                complete_runs = int(np.searchsorted(ends, transferred, "right"))
                partial_bytes = transferred - int(ends[complete_runs - 1]) if complete_runs else transferred
            if partial_bytes or not transferred:
                # The system wrote or read a run in part, or supports only one run per request.
                start, length = int(starts[complete_runs]), int(lengths[complete_runs])
                if start != LEFT_OUT:
                    transfer_run(view[start + partial_bytes : start + length], offset + transferred)
                complete_runs, transferred = complete_runs + 1, transferred + length - partial_bytes
            starts, lengths, offset = starts[complete_runs:], lengths[complete_runs:], offset + transferred

    def _read(self, view: memoryview, offset: int) -> int:
        if hasattr(os, "preadv"):
            return int(os.preadv(self.descriptor, [view], offset))
        with self._lock:
            os.lseek(self.descriptor, offset, os.SEEK_SET)
            data = os.read(self.descriptor, len(view))
        view[: len(data)] = data
        return len(data)

    def _write(self, view: memoryview, offset: int) -> int:
        if hasattr(os, "pwrite"):
            return int(os.pwrite(self.descriptor, view, offset))
        with self._lock:
            os.lseek(self.descriptor, offset, os.SEEK_SET)
            return os.write(self.descriptor, view)


class CastFile:
    """Elements of a file that are unpacked or cast when they are read, with the methods of a `PlainFile`.

    Args:
        file: the file.
        cast: the cast.
    """

    def __init__(self, file: PlainFile, cast: Cast) -> None:
        self.path = file.path
        self._file, self._offset, self._packed, self._dtype = file, cast.start, cast.packed, cast.dtype
        self._stored = cast.stored

    def _read(self, view: memoryview, offset: int) -> None:
        """Read bytes without a cast."""
        if self._packed is None:
            self._file.read(view, offset)
        else:
            self._packed.fill(view, offset, self._file.read)

    def read(self, view: memoryview, offset: int) -> None:
        """Fill a view with cast elements, from an offset in cast bytes on."""
        if self._stored == self._dtype:
            self._read(view, self._offset + offset)
            return
        size, result = self._stored.itemsize, np.frombuffer(view, self._dtype)
        # Few requests, but no more memory than the block has, unless the block is small.
        count = min(CAST_AT_ONCE // size, max(MAX_WRITE // size, result.size))
        for first in range(0, result.size, count):
            part = result[first : first + count]
            read = np.empty(part.size, self._stored)
            stored_offset = self._offset + (offset // self._dtype.itemsize + first) * size
            self._read(read.view(np.uint8).data, stored_offset)
            part[...] = resolved(read, self._dtype)

    def read_runs(self, buffer: Array, starts: Numbers, lengths: Numbers, offset: int) -> None:
        """Read runs like `PlainFile`; short ones are read and cast together."""
        max_bytes = CAST_AT_ONCE // self._stored.itemsize * self._dtype.itemsize
        ends, first, base = np.cumsum(lengths), 0, 0
        while first < starts.size:
            last = max(first + 1, int(np.searchsorted(ends, base + max_bytes, "right")))
            size, runs = int(ends[last - 1]) - base, [*zip(starts[first:last], lengths[first:last], strict=True)]
            view = buffer[runs[0][0] :][:size] if len(runs) == 1 else np.empty(size, np.uint8)
            if len(runs) > 1 or runs[0][0] != LEFT_OUT:
                self.read(view.data, offset + base)
            if len(runs) > 1:
                for (start, length), end in zip(runs, ends[first:last] - base, strict=True):
                    if start != LEFT_OUT:
                        buffer[start : start + length] = view[end - length : end]
            first, base = last, int(ends[last - 1])


Task = Callable[[], object]


class RunResources:
    """The open files, threads and buffers of a running plan.

    Args:
        threads: the number of threads.
        buffers: the maximum number of buffers that are lent at once.

    Attributes:
        exit_stack: closes further objects with the files.
        buffers: the buffers of the threads.
    """

    def __init__(self, threads: int, buffers: int) -> None:
        self.exit_stack, self.buffers = ExitStack(), Buffers(buffers)
        self._threads = threads
        self._files: dict[Path, Any] = {}
        self._written: list[PlainFile] = []
        self._pool = self.exit_stack.enter_context(ThreadPoolExecutor(threads, "anydml-stores"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.exit_stack.close()

    def file(self, path: Path, is_written: bool = False) -> Any:
        """Open a file once per path, or an object at an address for reading."""
        if path not in self._files:
            opened = ObjectFile(path) if isinstance(path, Address) else PlainFile(path, is_written)
            self._files[path] = self.exit_stack.enter_context(opened)
            if is_written and isinstance(opened, PlainFile):
                self._written.append(opened)
        return self._files[path]

    def array_file(self, store: Store) -> tuple[Any, Store]:
        """Open the file of an array, which casts and unpacks its elements, and return the array as it lies in this."""
        file = self.file(store.path)
        if store.stored is None:
            return file, store
        cast = Cast.of(store)
        return CastFile(file, cast), replace(store, offset=cast.place(store.offset))

    def sync(self) -> None:
        """Sync all written files to the disk."""
        for file in self._written:
            os.fsync(file.descriptor)

    def together(self, tasks: Iterator[Task], stop: Callable[[], None] = lambda: None) -> None:
        """Run tasks in all threads, one per free thread; after an error or Ctrl-C, no further task begins.

        Args:
            tasks: the tasks.
            stop: called when no further task is to begin, for iterators that wait.

        Raises:
            MemoryError: no thread can be started.
        """
        lock, stopped = threading.Lock(), threading.Event()

        def work() -> None:
            while not stopped.is_set():
                with lock:
                    task = next(tasks, None)
                if task is None:
                    return
                try:
                    task()
                except BaseException:
                    stopped.set()
                    raise

        futures = list[Future[None]]()
        try:
            while len(futures) < self._threads:
                futures.append(self._pool.submit(work))
        except RuntimeError as error:
            # Memory or processes are limited; fewer threads take longer.
            if not futures:
                raise MemoryError(str(error)) from error
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stopped.set()
            stop()
            wait(futures)
        for future in futures:
            future.result()
