"""Marks: which plan has written an output, in an attribute that the file system keeps with it."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from anydml.errors import BindingError
from anydml.stores.identities import identity

NAME = "user.anydml.plan"


def mark(path: Path, digest: str) -> None:
    """Say of a whole file or folder that the plan with a digest has written it, where the system keeps such."""
    if hasattr(os, "setxattr"):
        with suppress(OSError):
            os.setxattr(path, NAME, _text(path, digest))


def is_marked(path: Path, digest: str) -> bool:
    """Whether the plan with a digest has written what is there, and nobody has changed it since."""
    try:
        return hasattr(os, "getxattr") and os.getxattr(path, NAME) == _text(path, digest)
    except (OSError, BindingError):
        return False


def _text(path: Path, digest: str) -> bytes:
    return hashlib.sha256(f"{digest} {identity(path)}".encode()).hexdigest().encode()
