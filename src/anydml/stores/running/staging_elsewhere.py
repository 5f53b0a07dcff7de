"""Zarr arrays at addresses while they are written: chunks have their final names, and metadata are written last.

Object stores cannot rename, but show each object only when it is complete, and readers find no array without its
metadata.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from anydml.files.addresses import Address
from anydml.files.located import file_size, map_concurrently
from anydml.files.location import Location, names
from anydml.stores.formats.columns import content_bytes
from anydml.stores.formats.target import Content
from anydml.stores.formats.zarr_metadata import GROUP_FILES, METADATA, is_zarr, is_zarr_array
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.running.journal_elsewhere import JournalElsewhere, Version, read_journal
from anydml.stores.running.staging import ARRAY_FOLDER_ENTRIES, JOURNAL

DESCRIBING = (*GROUP_FILES, ".zarray")
"""Names of the objects by which readers find an array or group."""


class StagingElsewhere:
    """Like `Staging`, for arrays at addresses.

    Args:
        arrays: Zarr arrays.
        other_files: small objects beside the outputs: contents, or the files to copy.
        folder: the folder of all of these; None if each array is separate.
        overwrite: whether existing outputs may be replaced: they are removed before anything is written.

    Attributes:
        top: addresses of the outputs.
        journal: the address of the plan's journal.
        scratch: a local folder for the plan's temporary files.
    """

    def __init__(
        self, arrays: Sequence[ZarrTarget], other_files: Mapping[Path, Content], folder: Path | None, overwrite: bool
    ) -> None:
        self.overwrite = overwrite
        described = {array.path / name: text for array in arrays for name, text in array.metadata.items()}
        addresses = [*map(_address, [array.path for array in arrays] if folder is None else [folder])]
        self.top: list[Address] = addresses
        contents = {_address(path): content for path, content in {**other_files, **described}.items()}
        # The innermost arrays first; consolidated metadata come after the arrays that they describe.
        last = sorted(
            (path for path in contents if path.name in DESCRIBING),
            key=lambda path: (-len(path.parts), path.name in METADATA, str(path)),
        )
        self._last = {path: contents[path] for path in last}
        self._others = {path: content for path, content in contents.items() if path not in self._last}
        self.journal = addresses[0].parent / f".{addresses[0].name}{JOURNAL}"
        self.scratch = Path(tempfile.gettempdir())
        self._arrays, self._is_own = [*map(_address, (array.path for array in arrays))], False
        self._filled, self._prepared = self.top, list[Any]()

    def prepare(self, check: Callable[[], object]) -> None:
        """Check the inputs, and ask at once for the journal and for objects at the outputs."""
        asks: list[Callable[[], Any]] = [
            check,
            lambda: self._left,
            *(partial(_has_objects, final) for final in self.top),
        ]
        _, _, *self._prepared = map_concurrently(lambda ask: ask(), asks)

    def do(self, steps: Iterable[Callable[[], object]]) -> None:
        """Take steps that wait for requests, at once."""
        map_concurrently(lambda step: step(), steps)

    def is_begun(self) -> bool:
        """Whether a journal existed before this plan."""
        return self._left[1] is not None

    @cached_property
    def _left(self) -> Version:
        return read_journal(self.journal)

    def open_journal(self, digest: str) -> JournalElsewhere:
        """Return the journal of the plan.

        Raises:
            ModelError: another process writes the same output.
        """
        return JournalElsewhere(self.journal, digest, self._left)

    def part(self, path: Path) -> Path:
        """Return the address of an array until it gets its metadata."""
        return path

    def check_free(self) -> None:
        """Refuse names that are taken.

        Raises:
            ModelError: an output exists and may not be replaced.
        """
        are_filled, self._prepared = self._prepared or map(_has_objects, self.top), []
        self._filled = [final for final, is_filled in zip(self.top, are_filled, strict=True) if is_filled]
        for final in self._filled:
            location = Location(str(final))
            # A run that was interrupted leaves chunks without metadata.
            are_left = self.is_begun() and not is_zarr(final)
            if not are_left:
                if not self.overwrite:
                    raise location.error(
                        "exists already: name another output, or replace it by --overwrite (overwrite=True)"
                    )
                if not is_zarr_array(final):
                    raise location.error("is not a Zarr array, and is not replaced: name another, or remove it first")
            foreign = next((path for path in final.files() if not self._is_replaced(path)), None)
            if foreign is not None:
                name = str(foreign.relative_to(final))
                raise location.error(f"has {names([name])} beside its chunks; it is not replaced: move that")

    def _is_replaced(self, path: Address) -> bool:
        """Whether this plan writes an object, or the object may be a chunk of an array that is replaced."""
        return (
            path in self._others
            or path in self._last
            or any(
                array in path.parents and ARRAY_FOLDER_ENTRIES.fullmatch(str(path.relative_to(array)))
                for array in self._arrays
            )
        )

    def has_all_parts(self) -> bool:
        """Whether all copied objects exist."""
        self._is_own = True
        try:
            return all(map_concurrently(lambda pair: _size(pair[1]) == file_size(pair[0]), self._pairs()))
        except OSError:
            return False

    def has_all(self) -> bool:
        """True: a complete journal means that all chunks exist."""
        return True

    def wait_for_workers(self) -> None:
        """Do nothing: only one process writes at addresses."""

    def share(self) -> AbstractContextManager[None]:
        """Do nothing, for the same reason."""
        return nullcontext()

    def begin(self) -> None:
        """Remove the outputs that `check_free` has found, metadata first, and write the copied objects."""
        self._is_own = True
        for final in self._filled:
            _remove(final)
        map_concurrently(lambda pair: _copy(pair[1], pair[0]), self._pairs())

    def sync(self) -> None:
        """Do nothing: written objects are durable."""

    def sync_parts(self) -> None:
        """Do nothing, for the same reason."""

    def was_written_by(self, _digest: str) -> bool:
        """False: objects have no mark of the plan that wrote them."""
        return False

    def finish(self, _digest: str) -> None:
        """Write the metadata, by which readers find the arrays."""
        for path, content in self._last.items():
            _copy(content, path)

    def discard(self) -> bool:
        """Remove the outputs that this run began. Returns whether nothing is left of an interrupted plan."""
        for final in self.top if self._is_own else ():
            _remove(final)
        return self._is_own or not self.is_begun()

    def _pairs(self) -> list[tuple[Address, Content]]:
        return [*self._others.items()]


def _address(path: Path) -> Address:
    if not isinstance(path, Address):
        raise AssertionError(f"{path} is not an address")
    return path


def _has_objects(folder: Address) -> bool:
    return next(folder.inside(), None) is not None


def _size(content: Content) -> int:
    return file_size(content) if isinstance(content, Path) else len(content_bytes(content))


def _copy(content: Content, path: Address) -> None:
    """Write an object from its content, or as a copy of a file or object."""
    if isinstance(content, Path):
        path.copy_from(content)
    else:
        path.write_bytes(content_bytes(content))


def _remove(folder: Address) -> None:
    """Remove all objects in a folder, first those by which readers find the folder."""
    folder.remove(folder / name for name in DESCRIBING if (folder / name).is_file())
    folder.remove(folder.files())
