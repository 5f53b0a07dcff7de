"""What is open while a plan runs: its files, each once, and the threads that work on its blocks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from anydml.stores.plain_file import PlainFile

Task = Callable[[], object]


class Opened:
    """Files and threads, until they are closed.

    Args:
        threads: how many.

    Attributes:
        more: what else is to be closed with them.
    """

    def __init__(self, threads: int) -> None:
        self.more = ExitStack()
        self._threads = threads
        self._files: dict[Path, PlainFile] = {}
        self._written: list[PlainFile] = []
        self._pool = self.more.enter_context(ThreadPoolExecutor(threads, "anydml-stores"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.more.close()

    def file(self, path: Path, is_written: bool = False) -> PlainFile:
        """A file; the same one where it is open already."""
        if path not in self._files:
            self._files[path] = self.more.enter_context(PlainFile(path, is_written))
            if is_written:
                self._written.append(self._files[path])
        return self._files[path]

    def sync(self) -> None:
        """Bring what was written to the disk."""
        for file in self._written:
            os.fsync(file.descriptor)

    def together(self, tasks: Iterator[Task]) -> None:
        """Do tasks in all threads; few of those that wait are in memory. After an error no other one is begun."""
        turn, stopped = threading.Lock(), threading.Event()

        def work() -> None:
            while not stopped.is_set():
                with turn:
                    task = next(tasks, None)
                if task is None:
                    return
                try:
                    task()
                except BaseException:
                    stopped.set()
                    raise

        futures = [self._pool.submit(work) for _ in range(self._threads)]
        try:
            wait(futures, return_when=FIRST_EXCEPTION)
        finally:
            stopped.set()
            wait(futures)
        for future in futures:
            future.result()
