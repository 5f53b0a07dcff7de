"""The files that a model names: found, kept inside the model's folder, and written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from anydml.dxdispatch.place import Place, show

IMAGES = (".png", ".jpg", ".jpeg")


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder that a model's paths are relative to, and may not leave unless `allow_outside`."""

    root: Path
    allow_outside: bool = False

    def source(self, written: str, place: Place) -> Path:
        """The file to read for a `sourcePath`: relative to the folder, else (as DxDispatch does) to the current one.

        Raises:
            ModelError: there is no such file, it is not a regular file, or it lies outside.
        """
        path = self._inside(written, place)
        if not os.path.exists(path) and self.allow_outside:
            path = Path.cwd() / _portable(written)
        if not os.path.isfile(path):
            what = "is not a file" if os.path.exists(path) else "does not exist"
            raise place.error(f"{show(written)} {what}, looked for at {path}")
        return path

    def target(self, written: str, place: Place) -> Path:
        """The file to write for a `targetPath`, relative to the folder.

        Raises:
            ModelError: it is a folder, or it lies outside.
        """
        path = self._inside(written, place)
        if os.path.isdir(path):
            raise place.error(f"{show(written)} is a folder; name a file in it")
        return path

    def _inside(self, written: str, place: Place) -> Path:
        # Resolved first, so that neither ".." nor a symbolic link leads out.
        try:
            root = self.root.resolve()
            path = (root / _portable(written)).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise place.error(f"{show(written)} is not a path: {error}") from None
        if not self.allow_outside and not path.is_relative_to(root):
            raise place.error(f"{show(written)} leaves the model's folder {root}; allow it with --allow-outside")
        return path


def _portable(written: str) -> str:
    """A path as written on Windows, too."""
    return written if os.sep == "\\" else written.replace("\\", "/")


def extension(written: str) -> str:
    """The extension that says what a file is: ``".npy"``, in lower case."""
    return Path(_portable(written)).suffix.lower()


def write_whole(target: Path, write: Callable[[BinaryIO], object], place: Place) -> None:
    """Write a file beside `target` and rename it, so that nobody ever finds half a file under the name.

    Raises:
        ModelError: it cannot be written; what stood under the name before still does.
    """
    beside = target.parent / f".{secrets.token_hex(8)}.part"
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with beside.open("xb") as file:
                write(file)
            beside.replace(target)
        finally:
            beside.unlink(missing_ok=True)
    except OSError as error:
        raise place.error(f"{target} cannot be written: {error.strerror or error}") from None
