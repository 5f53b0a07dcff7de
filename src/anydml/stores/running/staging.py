"""Staging: outputs under hidden names beside the final ones, which they get when all of them are complete."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from itertools import chain
from pathlib import Path

from anydml.files.addresses import Address
from anydml.files.folder import check_link
from anydml.files.located import file_size, map_concurrently
from anydml.files.location import Location, names
from anydml.files.modes import allowed_by, folder_permissions, narrow
from anydml.stores.formats.columns import content_bytes
from anydml.stores.formats.packing import check_replaced, is_packed, pack
from anydml.stores.formats.target import Content, NewFile
from anydml.stores.formats.zarr_metadata import is_zarr_array
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.planning.identities import is_marked, mark, mark_named
from anydml.stores.running.files import open_file
from anydml.stores.running.journal import Journal, lock, sync_folder
from anydml.stores.running.on_disk import allocate, names_inside, sync_disk, sync_file, sync_inside, write_checksums

PART = ".anydml-part"
JOURNAL = ".anydml-journal"
OLD = ".anydml-old"
PACKED = ".anydml-packed"

ARRAY_FOLDER_ENTRIES = re.compile(r"zarr\.json|\.z(array|attrs|metadata)|c|(c[./])?\d+([./]\d+)*")
"""Names of the files of a Zarr array, relative to its folder."""


def hidden_path(path: Path, suffix: str) -> Path:
    """Return a hidden path beside a final one, or inside it if it is an empty folder: it may be a mount point."""
    real = Path(os.path.realpath(path))
    return (real if _was_empty(real) else real.parent) / f".{real.name}{suffix}"


def _packed_path(final: Path) -> Path:
    """Return the path of a packed output until it gets its name; it is complete once its parts are removed."""
    return hidden_path(final, f"{PACKED}{final.suffix.lower()}")


def _was_empty(real: Path) -> bool:
    """Whether a folder was empty before a plan began to write into it."""
    try:
        names = os.listdir(real)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return not names or f".{real.name}{JOURNAL}" in names


class Staging:
    """The outputs of a plan while they are written.

    Args:
        files: plain files.
        arrays: Zarr arrays, each of which is a folder.
        other_files: small files beside the outputs: contents, or the files to copy.
        folder: the folder of all of these, which is renamed at once; None if each output is renamed separately.
        overwrite: whether existing outputs may be replaced.
        sources: files and folders that are read; the outputs get no more permissions than these.

    Attributes:
        top: the files and folders that are renamed.
        journal: the path of the plan's journal.
    """

    def __init__(
        self,
        files: Sequence[NewFile],
        arrays: Sequence[ZarrTarget],
        other_files: Mapping[Path, Content],
        folder: Path | None,
        overwrite: bool,
        sources: Iterable[Path] = (),
    ) -> None:
        self.files, self.overwrite, self._sources = files, overwrite, sources
        described = {array.path / name: text for array in arrays for name, text in array.metadata.items()}
        self.other_files = {**other_files, **described}
        self._is_of_arrays = bool(arrays)
        self._folders = [array.path for array in arrays] if folder is None else [folder]
        plain_files = [] if folder is not None else [*(file.path for file in files), *other_files]
        self.top = [*self._folders, *plain_files]
        self.journal = hidden_path(self.top[0], JOURNAL)

    def _folder_of(self, path: Path) -> Path | None:
        """Return the plan's folder that is or contains a path."""
        return next((folder for folder in self._folders if folder == path or folder in path.parents), None)

    def part(self, path: Path) -> Path:
        """Return the path of a file or folder until it gets its name."""
        folder = self._folder_of(path)
        return hidden_path(path, PART) if folder is None else hidden_path(folder, PART) / path.relative_to(folder)

    def check_free(self) -> None:
        """Refuse names that are taken.

        Raises:
            ModelError: an output exists and may not be replaced.
        """
        for final in self.top:
            location = Location(str(final))
            check_link(final, location)
            if self._is_of_arrays and is_packed(final) and _was_empty(Path(os.path.realpath(final))):
                raise location.error("is an empty folder, but a file or repository would be written there: remove it")
            if not final.exists() or (final in self._folders and _was_empty(Path(os.path.realpath(final)))):
                continue
            if final not in self._folders and final.is_dir():
                raise location.error("is a folder, but a file would be written there: name a file in it")
            if not self.overwrite:
                raise location.error(
                    "exists already: name another output, or replace it by --overwrite (overwrite=True)"
                )
            if final not in self._folders:
                if not final.is_file():
                    raise location.error("is neither a file nor a folder, and is not replaced: name another")
            elif self._is_of_arrays and is_packed(final):
                check_replaced(final, ARRAY_FOLDER_ENTRIES, location)
            elif self._is_of_arrays:
                _check_array(final, location)
            else:
                _check_checkpoint(final, {path.name for path in self.other_files}, location)

    @cached_property
    def _allowed(self) -> int:
        """Permissions of the outputs."""
        return allowed_by(self._sources, self.journal.parent)

    @property
    def scratch(self) -> Path:
        """A folder for the plan's temporary files."""
        return self.journal.parent

    def prepare(self, check: Callable[[], object]) -> None:
        """Create the folder of the outputs, and check the inputs."""
        self.journal.parent.mkdir(parents=True, exist_ok=True)
        check()

    def do(self, steps: Iterable[Callable[[], object]]) -> None:
        """Run functions, one after the other."""
        for step in steps:
            step()

    def is_begun(self) -> bool:
        """Whether there is a journal."""
        return os.path.exists(self.journal)

    def open_journal(self, digest: str) -> Journal:
        """Return the journal of the plan.

        Raises:
            ModelError: another process writes the same output.
        """
        return Journal(self.journal, digest, self.sync)

    def has_all_parts(self) -> bool:
        """Whether all files exist as an earlier run created them."""
        try:
            return all(self.part(file.path).stat().st_size == file.size for file in self.files) and all(
                self.part(path).stat().st_size == file_size(content)
                if isinstance(content, Path)
                else self.part(path).read_bytes() == content_bytes(content)
                for path, content in self.other_files.items()
            )
        except OSError:
            return False

    def has_all(self) -> bool:
        """Whether every output is complete: already under its final name, or ready to be renamed."""
        return all(
            hidden_path(final, PART).exists()
            or _packed_path(final).exists()
            or (len(os.listdir(final)) > 1 if _was_empty(Path(os.path.realpath(final))) else os.path.exists(final))
            for final in self.top
        )

    def wait_for_workers(self) -> None:
        """Wait until no worker of a cluster writes to the outputs; see `share`."""
        with lock(hidden_path(self.top[0], PART), is_shared=False):
            pass

    def share(self) -> AbstractContextManager[None]:
        """Return a context during which the outputs are neither created again nor renamed."""
        return lock(hidden_path(self.top[0], PART), is_shared=True)

    def begin(self) -> None:
        """Create all files with their full size and everything except their elements."""
        allowed = self._allowed
        for folder in self._folders:
            shutil.rmtree(hidden_path(folder, PART), ignore_errors=True)
            hidden_path(folder, PART).parent.mkdir(parents=True, exist_ok=True)
            # Until `sync`, the files have the usual permissions, but nobody else may open the folder.
            hidden_path(folder, PART).mkdir(folder_permissions(allowed))
        for file in self.files:
            # A process that still writes to the file of an earlier run must not write to this one.
            self.part(file.path).unlink(missing_ok=True)
            descriptor = open_file(self.part(file.path), True, allowed & 0o666)
            try:
                allocate(descriptor, file.size)
                for offset, first in chain([(0, file.start)], file.known_bytes.contiguous()):
                    os.lseek(descriptor, offset, os.SEEK_SET)
                    os.write(descriptor, first)
            finally:
                os.close(descriptor)
        copies = list[tuple[Address, Path]]()
        for path, content in self.other_files.items():
            part = self.part(path)
            part.parent.mkdir(parents=True, exist_ok=True)
            part.unlink(missing_ok=True)
            os.close(open_file(part, True, allowed & 0o666))
            if isinstance(content, Address):
                copies.append((content, part))
            elif isinstance(content, Path):
                shutil.copyfile(content, part)
            else:
                part.write_bytes(content_bytes(content))
        map_concurrently(lambda pair: pair[0].copy_to(pair[1]), copies)

    def sync(self) -> None:
        """Write the checksums of elements, and sync all files to the disk."""
        for file in self.files:
            if file.checksums is not None:
                write_checksums(self.part(file.path), file.checksums)
        for folder in self._folders:
            narrow(hidden_path(folder, PART), self._allowed)
            sync_inside(hidden_path(folder, PART))
        for path in (*(file.path for file in self.files), *self.other_files):
            if self._folder_of(path) is None:
                sync_file(self.part(path))

    def sync_parts(self) -> None:
        """Sync the written parts to the disk, while other processes still write."""
        for folder in self._folders:
            part = hidden_path(folder, PART)
            if not sync_disk(part):
                sync_inside(part)

    def was_written_by(self, digest: str) -> bool:
        """Whether the plan with a digest has written all outputs that exist."""
        return all(is_marked(final, digest) for final in self.top)

    def finish(self, digest: str) -> None:
        """Give all outputs their final names, marked by the plan's digest, unless they have them already."""
        for final in self.top:
            part, real = hidden_path(final, PART), Path(os.path.realpath(final))
            if self._is_of_arrays and final in self._folders and is_packed(final):
                self._pack(final, part, real, digest)
                continue
            if not part.exists():
                continue
            if final in self._folders and _was_empty(real):
                # The index files, by which readers find all others, come last.
                last = {path.name for path in self.other_files}
                for entry in sorted(part.iterdir(), key=lambda entry: entry.name in last):
                    entry.replace(real / entry.name)
                part.rmdir()
                sync_folder(real)
                continue
            if real.exists():
                part.chmod(real.stat().st_mode & (part.stat().st_mode if final in self._folders else self._allowed))
            if real.exists() and final in self._folders:
                shutil.rmtree(hidden_path(final, OLD), ignore_errors=True)
                real.rename(hidden_path(final, OLD))
            mark(part, digest)
            part.replace(real)
            mark_named(real, digest)
        for folder in {Path(os.path.realpath(final)).parent for final in self.top}:
            sync_folder(folder)
        for folder in self._folders:
            shutil.rmtree(hidden_path(folder, OLD), ignore_errors=True)

    def _pack(self, final: Path, part: Path, real: Path, digest: str) -> None:
        """Write a folder as one file or repository, which gets the final name."""
        packed, old = _packed_path(final), hidden_path(final, OLD)
        if part.exists():
            pack(part, packed, self._allowed)
            if real.exists():
                packed.chmod(real.stat().st_mode & packed.stat().st_mode)
            mark(packed, digest)
            # The folder is renamed before it is removed: a partly removed folder must not be packed again.
            shutil.rmtree(old, ignore_errors=True)
            part.replace(old)
        if packed.exists():
            packed.replace(real)
            mark_named(real, digest)

    def discard(self) -> bool:
        """Remove the unfinished outputs. Returns True: nothing is left, and existing outputs are untouched."""
        for final in self.top:
            part = hidden_path(final, PART)
            with suppress(OSError):
                if part.is_dir():
                    shutil.rmtree(part)
                else:
                    part.unlink()
        return True


def _check_checkpoint(folder: Path, own_names: set[str], location: Location) -> None:
    """Refuse to replace a folder that has files other than files of tensors and files that the plan writes."""
    if folder.is_symlink():
        raise location.error("is a symbolic link, and is not replaced: name what it leads to, or remove it first")
    if not folder.is_dir():
        raise location.error("is not a folder of tensors, and is not replaced: name another, or remove it first")
    suffixes = (".safetensors", ".safetensors.index.json", ".distcp")
    foreign = [
        entry.name
        for entry in folder.iterdir()
        if entry.name not in own_names and not (entry.is_file() and entry.name.endswith(suffixes))
    ]
    if foreign:
        raise location.error(
            f"has {names(sorted(foreign))} beside files of tensors, so the folder is not replaced: "
            "move them, or name another folder"
        )


def _check_array(folder: Path, location: Location) -> None:
    """Refuse to replace a folder that is not a Zarr array, or contains other files."""
    if folder.is_symlink() or not folder.is_dir() or not is_zarr_array(folder):
        raise location.error("is not a Zarr array, and is not replaced: name another, or remove it first")
    foreign = next((name for name in names_inside(folder) if not ARRAY_FOLDER_ENTRIES.fullmatch(name)), None)
    if foreign is not None:
        raise location.error(
            f"has {names([foreign])} beside its chunks, so the array is not replaced: move that, or name another folder"
        )
