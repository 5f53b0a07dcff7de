"""Staging of folders: a Zarr array is written beside its name, and gets it when all of its chunks are whole."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import islice
from pathlib import Path

from anydml.files.json_path import JsonPath, names
from anydml.stores.journal import sync_folder
from anydml.stores.staging import JOURNAL, PART, Content, Staging, beside, open_file
from anydml.stores.targets import NewFile
from anydml.stores.zarr_folders import is_zarr_array
from anydml.stores.zarr_target import ZarrTarget

MANY_FILES = 1000
"""From here on all of the file system is brought to the disk, which is quicker than one file after the other."""


_OWN = re.compile(r"zarr\.json|\.z(array|attrs|metadata)|c|(c[./])?\d+([./]\d+)*")
"""What files of an array are called, from its folder on."""


class ZarrStaging(Staging):
    """The folder of Zarr arrays: of one, or of a group.

    Args:
        path: the folder.
        targets: the arrays.
        others: what else is in it, such as what describes groups.
        overwrite: whether an array that is there may go.
    """

    def __init__(
        self, path: Path, targets: Sequence[ZarrTarget], others: Mapping[Path, Content], overwrite: bool
    ) -> None:
        described = {each.path / name: text for each in targets for name, text in each.metadata.items()}
        super().__init__([], {**others, **described}, path, overwrite)
        self.path = path
        self.part_folder = beside(path, PART)

    def check_free(self) -> None:
        """Refuse a name that is taken by anything but a Zarr array that may be replaced.

        Raises:
            ModelError: it is.
        """
        place = JsonPath(str(self.path))
        if not os.path.lexists(self.path):
            return
        if not self.overwrite:
            raise place.error("exists already: name another, or let it be replaced by --overwrite (overwrite=True)")
        if self.path.is_symlink() or not self.path.is_dir() or not is_zarr_array(self.path):
            raise place.error("is no Zarr array, and is not replaced")
        other = next((name for name in _inside(self.path) if not _OWN.fullmatch(name)), None)
        if other is not None:
            raise place.error(f"has {names([other])} beside its chunks; it is not replaced: move that")

    def is_there(self) -> bool:
        """Whether the folder is as an earlier run began it."""
        try:
            return all(
                self.part(path).stat().st_size == text.stat().st_size
                if isinstance(text, Path)
                else self.part(path).read_bytes() == text
                for path, text in self.others.items()
            )
        except OSError:
            return False

    def sync(self) -> None:
        """Bring all files to the disk."""
        are_many = next(islice(_inside(self.part_folder), MANY_FILES, None), None) is not None
        if not are_many or not _sync_disk(self.part_folder):
            for name in _inside(self.part_folder):
                descriptor = open_file(self.part_folder / name)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            for folder, _, _ in os.walk(self.part_folder):
                sync_folder(Path(folder))


class Stagings:
    """All that a plan writes, as one.

    Args:
        files: plain files.
        arrays: Zarr arrays.
        overwrite: whether what has the final names may go.
        folder: in which all arrays are to appear together, if they are.
        others: what else is in that folder.
    """

    def __init__(
        self,
        files: Sequence[NewFile],
        arrays: Sequence[ZarrTarget],
        overwrite: bool,
        folder: Path | None = None,
        others: Mapping[Path, Content] | None = None,
    ) -> None:
        groups = [(target.path, [target]) for target in arrays] if folder is None else [(folder, [*arrays])]
        self.every: list[Staging] = [ZarrStaging(path, own, others or {}, overwrite) for path, own in groups]
        self._of = {target.path: each for each, (_, own) in zip(self.every, groups, strict=True) for target in own}
        if files:
            self.every.append(Staging(files, {}, None, overwrite))
        self.top = [path for each in self.every for path in each.top]
        self.journal = beside(self.top[0], JOURNAL)

    def part(self, path: Path) -> Path:
        """As `Staging.part`, of a file, or of an array's folder."""
        return self._of[path].part(path) if path in self._of else beside(path, PART)

    def check_free(self) -> None:
        """As `Staging.check_free`, of all that has no part that waits for its name."""
        for each in self.every:
            each.check_free()

    def is_there(self) -> bool:
        """As `Staging.is_there`."""
        return all(each.is_there() for each in self.every)

    def has_all(self) -> bool:
        """As `Staging.has_all`."""
        return all(each.has_all() for each in self.every)

    def settle(self) -> None:
        """As `Staging.settle`."""
        self.every[0].settle()

    def share(self) -> AbstractContextManager[None]:
        """As `Staging.share`."""
        return self.every[0].share()

    def begin(self) -> None:
        """As `Staging.begin`."""
        for each in self.every:
            each.begin()

    def sync(self) -> None:
        """As `Staging.sync`."""
        for each in self.every:
            each.sync()

    def is_of(self, digest: str) -> bool:
        """As `Staging.is_of`."""
        return all(each.is_of(digest) for each in self.every)

    def finish(self, digest: str) -> None:
        """As `Staging.finish`."""
        for each in self.every:
            each.finish(digest)

    def drop(self) -> None:
        """As `Staging.drop`."""
        for each in self.every:
            each.drop()


def _inside(folder: Path) -> Iterator[str]:
    """Every file in a folder, and in those inside it, by the way to it."""
    waiting = [""]
    while waiting:
        inside = waiting.pop()
        with os.scandir(folder / inside) as entries:
            for each in entries:
                name = f"{inside}{each.name}"
                if each.is_dir(follow_symlinks=False):
                    waiting.append(f"{name}/")
                else:
                    yield name


def _sync_disk(folder: Path) -> bool:
    """Bring all that was written to a folder's file system to the disk at once; False where the system has no way."""
    if sys.platform != "linux":
        return False
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(AttributeError, OSError):
            return bool(ctypes.CDLL(None, use_errno=True).syncfs(descriptor) == 0)
        return False
    finally:
        os.close(descriptor)
