"""Read the text of a model file if it is not too large, and again to find the line of an error."""

from __future__ import annotations

import os
from pathlib import Path

from anydml.dxdispatch import jsonc
from anydml.errors import ModelError, nothing_at
from anydml.files.json_lines import JsonLines
from anydml.files.location import Location
from anydml.memory import limits
from anydml.text import bytes_text

MAX_BYTES = 256 << 20
"""Largest model file; larger arrays belong in .npy files."""

BYTES_PER_BYTE = 64
"""Memory per byte of a model file while it is read; the worst case is ``[{},{}]``, with an object per three bytes."""

UNCHECKED_BYTES = 1 << 20
"""Model files below this size are read without checking the available memory."""


def lines_of(file: Path) -> JsonLines:
    """Return the lines of a model file's values, read lazily for the first error and only if the file is unchanged."""

    def version() -> tuple[int, int, int]:
        status = file.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns

    def read() -> str | None:
        location = Location(str(file))
        try:
            return jsonc.without_comments(read_text(file, location), location) if version() == before else None
        except (OSError, ModelError, MemoryError):
            return None

    try:
        before = version()
    except (OSError, ValueError):
        before = (0, 0, 0)
    return JsonLines(read)


def read_text(file: Path, location: Location) -> str:
    """Read a model file's text.

    Raises:
        ModelError: the path is not a file, or the file cannot be read, is too large, or is not UTF-8.
    """
    try:
        if file.is_dir():
            raise location.error("is a folder, not a model file")
        if not file.is_file():
            raise location.error("is not a file" if file.exists() else nothing_at(file))
        if file.suffix.lower() in (".npy", ".safetensors"):
            raise location.error(f"holds arrays, and {jsonc.A_MODEL}; anydml stores lists the arrays of such a file")
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            _check_size(size, location)
            # The size that was checked, in case the file grows in the meantime.
            return opened.read(size).decode("utf-8-sig")
    except OSError as error:
        raise location.error(f"cannot be read: {error.strerror}") from None
    except ModelError:
        raise
    except UnicodeDecodeError as error:
        raise location.error(f"is not UTF-8 text, and {jsonc.A_MODEL}: {error.reason} at byte {error.start}") from None


def _check_size(size: int, location: Location) -> None:
    if size > MAX_BYTES:
        reason = f"has {bytes_text(size)}, but a model file has at most {bytes_text(MAX_BYTES)}"
        raise location.error(f"{reason}; put its values into .npy files (sourcePath)")
    if size < UNCHECKED_BYTES:
        return
    parsing_bytes, available = size * BYTES_PER_BYTE, limits.available_memory()
    if available is not None and parsing_bytes > available:
        available_text = f"{bytes_text(available)} of memory are available"
        raise location.error(
            f"reading it may take {bytes_text(parsing_bytes)}, but {available_text}; put its values into .npy files"
        )
