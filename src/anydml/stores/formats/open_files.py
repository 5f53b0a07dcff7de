"""A cache of open files, for reading headers and small parts."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from io import FileIO
from pathlib import Path
from typing import BinaryIO

MAX_FILES = 64
"""Maximum number of files that are open at once."""


class OpenFiles(ExitStack):
    """Opens files, and keeps some of them open."""

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[Path, BinaryIO] = {}

    def file(self, path: Path) -> BinaryIO:
        """Open a file, or return it if it is open.

        Raises:
            OSError: the file cannot be opened.
        """
        if path not in self._files:
            if len(self._files) >= MAX_FILES:
                self.close()
                self._files.clear()
            self._files[path] = self.enter_context(path.open("rb", buffering=0))
        return self._files[path]


def read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    """Return bytes of a file from an offset on; fewer at its end."""
    if sys.platform != "win32" and isinstance(file, FileIO):
        return os.pread(file.fileno(), size, offset)
    file.seek(offset)
    return file.read(size)
