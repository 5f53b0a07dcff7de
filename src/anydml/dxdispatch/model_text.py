"""The text of a model file: read if it is not too large, and once more where an error asks for a line."""

from __future__ import annotations

import os
from pathlib import Path

from anydml.dxdispatch import jsonc
from anydml.errors import ModelError
from anydml.files.json_lines import JsonLines
from anydml.files.json_path import JsonPath
from anydml.memory import limits
from anydml.text import bytes_text

MOST_BYTES = 256 << 20
"""Of a model file; larger arrays belong into .npy files."""

BYTES_PER_BYTE = 64
"""Memory that a byte of a model file may take while it is read: ``[{},{}]`` makes an object of three."""

SMALL = 1 << 20
"""Bytes of a model file that are read however little memory there is."""


def lines_of(file: Path) -> JsonLines:
    """Where the values of a model file stand; it is read once more for the first error only, if it is as it was."""

    def seen() -> tuple[int, int, int]:
        status = file.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns

    def read() -> str | None:
        place = JsonPath(str(file))
        try:
            return jsonc.plain(read_text(file, place), place) if seen() == before else None
        except (OSError, ModelError, MemoryError):
            return None

    try:
        before = seen()
    except (OSError, ValueError):
        before = (0, 0, 0)
    return JsonLines(read)


def read_text(file: Path, place: JsonPath) -> str:
    """A model file's text.

    Raises:
        ModelError: it is no file, cannot be read, is too large, or is not UTF-8.
    """
    try:
        if not file.is_file():
            raise place.error("is not a file" if file.exists() else "there is no such file")
        if file.suffix.lower() in (".npy", ".safetensors"):
            raise place.error(f"holds arrays, and {jsonc.A_MODEL}; anydml stores lists the arrays of such a file")
        with file.open("rb") as opened:
            size = os.fstat(opened.fileno()).st_size
            _check_size(size, place)
            # Never more than was seen, whatever is written to the file meanwhile.
            return opened.read(size).decode("utf-8-sig")
    except OSError as error:
        raise place.error(f"cannot be read: {error.strerror}") from None
    except ModelError:
        raise
    except UnicodeDecodeError as error:
        raise place.error(f"is not UTF-8 text, and {jsonc.A_MODEL}: {error.reason} at byte {error.start}") from None


def _check_size(size: int, place: JsonPath) -> None:
    if size > MOST_BYTES:
        reason = f"has {bytes_text(size)}, but a model file has at most {bytes_text(MOST_BYTES)}"
        raise place.error(f"{reason}; put its values into .npy files (sourcePath)")
    if size < SMALL:
        return
    needed, available = size * BYTES_PER_BYTE, limits.available_memory()
    if available is not None and needed > available:
        have = f"{bytes_text(available)} of memory are available"
        raise place.error(f"reading it may take {bytes_text(needed)}, but {have}; put its values into .npy files")
