"""Folders: whether they are Zarr's."""

from __future__ import annotations

import json
from pathlib import Path

METADATA = ("zarr.json", ".zarray", ".zgroup")
"""Files of which a Zarr array or group has one."""


def is_zarr(path: Path) -> bool:
    """Whether a folder is a Zarr array or group."""
    return any((path / name).is_file() for name in METADATA)


def is_zarr_array(path: Path) -> bool:
    """Whether a folder is a Zarr array, and no group, which may hold others."""
    return _kind(path) == "array"


def is_zarr_group(path: Path) -> bool:
    """Whether a folder is a Zarr group."""
    return _kind(path) == "group"


def _kind(path: Path) -> str | None:
    if (path / ".zgroup").is_file():
        return "group"
    try:
        said = json.loads((path / "zarr.json").read_bytes())
    except FileNotFoundError:
        return "array" if (path / ".zarray").is_file() else None
    except (OSError, ValueError, RecursionError):
        return None
    return str(said.get("node_type")) if isinstance(said, dict) else None
