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
    if (path / ".zgroup").is_file():
        return False
    try:
        said = json.loads((path / "zarr.json").read_bytes())
    except FileNotFoundError:
        return (path / ".zarray").is_file()
    except (OSError, ValueError):
        return False
    return isinstance(said, dict) and said.get("node_type") == "array"
