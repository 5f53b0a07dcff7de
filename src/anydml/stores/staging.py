"""Staging: files under names of their own, beside the final ones, which they get when all of them are whole."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from anydml.files.json_path import JsonPath, names
from anydml.stores.journal import locked, sync_folder
from anydml.stores.marks import is_marked, mark
from anydml.stores.targets import NewFile

PART = ".anydml-part"
JOURNAL = ".anydml-journal"


Content = bytes | Path
"""What a small file is to have: these bytes, or those of another file."""


def beside(path: Path, suffix: str) -> Path:
    """A hidden name beside a final one."""
    real = Path(os.path.realpath(path))
    return real.parent / f".{real.name}{suffix}"


class Staging:
    """The files of a plan while they are written.

    Args:
        files: in which elements are written.
        others: small files, by their contents or by the files that they are copies of.
        folder: which all of them are in, if they are to appear together.
        overwrite: whether what has the final names may go.
    """

    def __init__(
        self, files: Sequence[NewFile], others: Mapping[Path, Content], folder: Path | None, overwrite: bool
    ) -> None:
        self.files = files
        self.others = others
        self.folder = folder
        self.overwrite = overwrite
        finals = [*(file.path for file in files), *others]
        self.top = [folder] if folder is not None else finals
        self.journal = beside(self.top[0], JOURNAL)

    def part(self, path: Path) -> Path:
        """Where a file lies until it has its name."""
        return beside(path, PART) if self.folder is None else beside(self.folder, PART) / path.relative_to(self.folder)

    def check_free(self) -> None:
        """Refuse names that are taken.

        Raises:
            ModelError: something has a final name and may not be replaced.
        """
        for final in self.top:
            place = JsonPath(str(final))
            if not os.path.lexists(final):
                continue
            if not self.overwrite:
                raise place.error("exists already: name another, or let it be replaced by --overwrite (overwrite=True)")
            if self.folder is None:
                if not final.is_file():
                    raise place.error("is no file, and is not replaced")
                continue
            if not final.is_dir() or final.is_symlink():
                raise place.error("is no folder, and is not replaced")
            own = {path.name for path in self.others}
            other = [each.name for each in final.iterdir() if not (_is_ours(each) or each.name in own)]
            if other:
                raise place.error(
                    f"has {names(sorted(other))} beside safetensors files; it is not replaced: move those"
                )

    def is_there(self) -> bool:
        """Whether all files are as an earlier run began them."""
        try:
            return all(self.part(file.path).stat().st_size == file.size for file in self.files)
        except OSError:
            return False

    def has_all(self) -> bool:
        """Whether every name is given already, or about to be."""
        return all(os.path.exists(final) or beside(final, PART).exists() for final in self.top)

    def settle(self) -> None:
        """Wait until no worker of a cluster writes to what was begun; see `share`."""
        with locked(self._held(), is_shared=False):
            pass

    def share(self) -> AbstractContextManager[None]:
        """While it is entered, what was begun is neither begun anew nor given its names."""
        return locked(self._held(), is_shared=True)

    def _held(self) -> Path:
        return beside(self.top[0], PART)

    def begin(self) -> None:
        """Make all files, as large as they will be, with what is known of them."""
        if self.folder is not None:
            shutil.rmtree(beside(self.folder, PART), ignore_errors=True)
            beside(self.folder, PART).mkdir(parents=True)
        for file in self.files:
            # Whoever still writes to what an earlier run began does not write to this.
            self.part(file.path).unlink(missing_ok=True)
            descriptor = open_file(self.part(file.path), create=True)
            try:
                if hasattr(os, "posix_fallocate") and file.size:
                    try:
                        # A full disk is noticed now, not after hours.
                        os.posix_fallocate(descriptor, 0, file.size)
                    except OSError as error:
                        if error.errno not in (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL):
                            raise
                os.ftruncate(descriptor, file.size)
                os.lseek(descriptor, 0, os.SEEK_SET)
                os.write(descriptor, file.start)
            finally:
                os.close(descriptor)
        for path, content in self.others.items():
            self.part(path).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                shutil.copyfile(content, self.part(path))
            else:
                self.part(path).write_bytes(content)

    def sync(self) -> None:
        """Bring all files to the disk."""
        for path in (*(file.path for file in self.files), *self.others):
            descriptor = open_file(self.part(path))
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        if self.folder is not None:
            sync_folder(beside(self.folder, PART))

    def is_of(self, digest: str) -> bool:
        """Whether the plan with a digest has written all that has the final names."""
        return all(is_marked(final, digest) for final in self.top)

    def finish(self, digest: str) -> None:
        """Give all files their names, as those of the plan with a digest; those that have them already keep them."""
        for final in self.top:
            part, real = beside(final, PART), Path(os.path.realpath(final))
            if not part.exists():
                continue
            mark(part, digest)
            if self.folder is not None and real.exists():
                old = beside(final, ".anydml-old")
                shutil.rmtree(old, ignore_errors=True)
                real.rename(old)
            elif real.exists():
                shutil.copymode(real, part)
            part.replace(real)
        for folder in {Path(os.path.realpath(final)).parent for final in self.top}:
            sync_folder(folder)
        if self.folder is not None:
            shutil.rmtree(beside(self.folder, ".anydml-old"), ignore_errors=True)

    def drop(self) -> None:
        """Remove what was begun."""
        for final in self.top:
            part = beside(final, PART)
            with suppress(OSError):
                if part.is_dir():
                    shutil.rmtree(part)
                else:
                    part.unlink()


def _is_ours(path: Path) -> bool:
    return path.is_file() and path.name.endswith((".safetensors", ".safetensors.index.json"))


def open_file(path: Path, create: bool = False) -> int:
    """A file's descriptor, to write to.

    Args:
        path: of the file.
        create: whether it begins empty, and need not be there.
    """
    flags = os.O_RDWR | getattr(os, "O_BINARY", 0) | (os.O_CREAT | os.O_TRUNC if create else 0)
    return os.open(path, flags, 0o666)
