"""The files that a model names: found, kept inside the model's folder, and written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from anydml.errors import nothing_at
from anydml.files.location import Location, show
from anydml.files.modes import ACCESS_LIST, allowed_by
from anydml.paths import address

IMAGES = (".png", ".jpg", ".jpeg")


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder that a model's paths are relative to, and may not leave unless `allow_outside`."""

    root: Path
    allow_outside: bool = False

    def source(self, written: str, location: Location) -> Path:
        """Return the file of a `sourcePath`: relative to the folder, or else to the current one, as in DxDispatch.

        Raises:
            ModelError: there is no such file, it is not a regular file, or it lies outside.
        """
        path = self._inside(written, location)
        if not os.path.exists(path) and self.allow_outside:
            path = Path.cwd() / _portable_path(written)
        if not os.path.isfile(path):
            reason = " is not a file" if os.path.exists(path) else f": {nothing_at(path)}"
            raise location.error(f"{show(written)}{reason}; it was looked for at {path}")
        return path

    def target(self, written: str, location: Location) -> Path:
        """Return the file to write for a `targetPath`, relative to the folder.

        Raises:
            ModelError: the path is not that of a file, or lies outside the folder.
        """
        path = self._inside(written, location)
        if os.path.isdir(path):
            raise location.error(f"{show(written)} is a folder; name a file in it")
        if os.path.exists(path) and not os.path.isfile(path):
            raise location.error(f"{show(written)} is not a file; name another")
        return path

    def _inside(self, written: str, location: Location) -> Path:
        if (reason := address(written)) is not None:
            raise location.error(f"{show(written)} {reason}")
        # Resolved first, so that neither ".." nor a symbolic link leads out.
        try:
            root = self.root.resolve()
            path = (root / _portable_path(written)).resolve()
        except (OSError, ValueError, RuntimeError) as error:
            raise location.error(f"{show(written)} is not a path: {error}") from None
        if not self.allow_outside and not path.is_relative_to(root):
            raise location.error(f"{show(written)} leaves the model's folder {root}; allow it with --allow-outside")
        return path


def _portable_path(written: str) -> str:
    """Return a path as written on Windows, too."""
    return written if os.sep == "\\" else written.replace("\\", "/")


def extension(written: str) -> str:
    """Return the extension of a file's name in lower case, such as ``".npy"``."""
    return Path(_portable_path(written)).suffix.lower()


def check_replaceable(target: Path, sources: Iterable[Path], overwrite: bool, location: Location) -> None:
    """Check that writing a file overwrites no input, and no existing file unless it may be replaced.

    Args:
        target: the file that will be written.
        sources: the files that are read.
        overwrite: whether an existing file may be replaced.
        location: names the target in errors.

    Raises:
        ModelError: `target` is one of `sources`, exists and may not be replaced, or is a link to nothing.
    """
    check_link(target, location)
    if not target.is_file():
        return
    if any(source.exists() and target.samefile(source) for source in sources):
        raise location.error("is the file that is read: write to another one")
    if not overwrite:
        raise location.error("exists already: name another output, or replace it by --overwrite (overwrite=True)")


def check_link(target: Path, location: Location) -> None:
    """Refuse to write to a link that leads to nothing: the link may be meant for a disk that is not mounted now.

    Raises:
        ModelError: `target` is such a link.
    """
    if os.path.islink(target) and not os.path.exists(target):
        raise location.error(
            f"is a link to {os.readlink(target)}, which does not exist: remove it, or name another output"
        )


def write_whole(
    target: Path, write: Callable[[BinaryIO], object], location: Location, sources: Iterable[Path] = ()
) -> None:
    """Write a file beside `target` and rename it, so that the name never stands for an incomplete file.

    A link is followed. The new file gets the permissions, owner, group and access list of the old one, where the
    system lets it; a permission that cannot be copied exactly is left out. Another hard link to it keeps
    the old contents. A target such as /dev/null, which is not a regular file, is opened and written. Nobody gets a
    right that one of `sources`, from which the file is made, does not give.

    Raises:
        ModelError: the file cannot be written, or must not be; an earlier file of this name stays as it was.
    """
    try:
        target = Path(os.path.realpath(target))
        if target.exists() and not target.is_file():
            with target.open("wb") as file:
                write(file)
            return
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        target.parent.mkdir(parents=True, exist_ok=True)
        part_path = target.parent / f".{os.urandom(8).hex()}.part"
        try:
            with _open_like(target, part_path, allowed_by(sources, target.parent)) as file:
                write(file)
            part_path.replace(target)
        finally:
            part_path.unlink(missing_ok=True)
    except OSError as error:
        raise location.error(f"{target} cannot be written: {error.strerror or error}") from None
    except ValueError as error:
        raise location.error(f"{str(target)!r} is not a path: {error}") from None


def _open_like(target: Path, part_path: Path, allowed: int) -> BinaryIO:
    """Create a file with no wider permissions than `target` has and the process may give."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        old = target.stat()
    except FileNotFoundError:
        return os.fdopen(os.open(part_path, flags, allowed & 0o666), "wb")
    # Until the file has its owner, nobody else may read it.
    file = os.fdopen(os.open(part_path, flags, 0o600), "wb")
    try:
        mode = stat.S_IMODE(old.st_mode) & 0o777
        new = part_path.stat()
        is_others = (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid)
        if (
            sys.platform != "win32"
            and is_others
            and not (_try(os.chown, part_path, old.st_uid, old.st_gid) or _try(os.chown, part_path, -1, old.st_gid))
        ):
            # The file belongs to another group, which gets no more than everybody.
            mode = mode & 0o707 | (mode & 0o007) << 3
        if not _copy_attributes(target, part_path):
            # In a file with an access list, the group's bits are the list's mask.
            mode &= 0o707
        part_path.chmod(mode & allowed)
    except BaseException:
        file.close()
        raise
    return file


def _copy_attributes(target: Path, part_path: Path) -> bool:
    """Copy the access list and the user's extended attributes; return False if an access list could not be copied."""
    if sys.platform != "linux":
        return True
    is_complete = True
    try:
        names = os.listxattr(target)
    except OSError:
        return True
    for name in names:
        if name == ACCESS_LIST or name.startswith("user."):
            copied = _try(lambda name=name: os.setxattr(part_path, name, os.getxattr(target, name)))
            is_complete = is_complete and (copied or name != ACCESS_LIST)
    return is_complete


def _try(change: Callable[..., object], *arguments: object) -> bool:
    try:
        change(*arguments)
    except OSError:
        return False
    return True
