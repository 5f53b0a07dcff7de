"""Paths of files on this machine, which addresses such as ``s3://bucket/x.zarr`` are told from."""

from __future__ import annotations

import os
import re
import reprlib

from anydml.errors import ModelError

_SCHEMES = "abfss?|adl|az|dbfs|file|ftps?|gcs|github|gs|hdfs|hf|https?|memory|oci|oss|r2|s3[an]?|sftp|smb|ssh|wasbs?"
"""Schemes of addresses; `pathlib.Path` makes one slash of the two behind a scheme."""

_CHAINED = "simplecache|filecache|blockcache|reference|tar|zip"

_ADDRESS = re.compile(
    rf"\s*([A-Za-z][A-Za-z0-9+.-]+(::[A-Za-z0-9+.-]+)*://|({_SCHEMES}):/|({_SCHEMES}|{_CHAINED})::)", re.IGNORECASE
)
"""The beginning of an address. Drives of Windows are one letter."""


def path_text(name: str, value: object) -> str:
    """Return the path of a local file or folder as a string.

    Raises:
        TypeError: `value` is neither a `str` nor a `pathlib.Path`.
        ModelError: the path is an address, such as ``s3://bucket/x.zarr``.
    """
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str):
        raise TypeError(f"{name} takes the path of a file, as a str or pathlib.Path, not {reprlib.repr(value)}")
    if (reason := address(text)) is not None:
        raise ModelError(f"{name}: {text[:200]!r} {reason}")
    return text


def address(path: str) -> str | None:
    """Return what is wrong with a path that is an address, such as s3://…, and what to do; None for other paths."""
    match = _ADDRESS.match(path)
    if match is None:
        return None
    advice = (
        "copy it to this machine first, or write here and copy the result; a folder of this name needs its whole path"
    )
    if match[0].strip().lower().startswith("file:"):
        advice = f"write /{path[match.end() :].lstrip('/')[:200]}"
    return f"is an address, and only files on this machine are read and written here: {advice}"
