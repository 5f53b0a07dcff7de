"""Decisions of every plan before it runs: its memory, inputs, outputs and blocks."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from anydml.errors import BindingError
from anydml.files.addresses import Address
from anydml.files.located import real_path
from anydml.moves import Program
from anydml.stores.formats.columns import content_bytes
from anydml.stores.formats.inside_files import PathInFile
from anydml.stores.formats.store import Store
from anydml.stores.formats.target import Content, NewFile, Target
from anydml.stores.formats.targets import Targets
from anydml.stores.formats.zarr_array import ZarrStore
from anydml.stores.formats.zarr_target import ZarrTarget
from anydml.stores.planning.blocking import Totals
from anydml.stores.planning.file_blocking import FileBlocking
from anydml.stores.planning.grid_blocking import GridBlocking
from anydml.stores.planning.identities import identities_of_stores
from anydml.stores.planning.repeated_moves import CompactProgram
from anydml.text import bytes_text, count_noun, parse_size

MIN_MEMORY = 4 << 10
"""Bytes of memory that suffice for a plan."""


class BasePlan:
    """A plan without the methods that run it; arguments and attributes are those of `anydml.stores.Plan`.

    `is_apart` is False where outputs may be inputs, or do not lie in files; `max_divided` is that of `FileBlocking`.
    """

    def __init__(
        self,
        program: Program | CompactProgram,
        inputs: Sequence[Store | ZarrStore],
        outputs: Sequence[Target | ZarrTarget],
        memory: int | str = "256MB",
        overwrite: bool = False,
        folder: Path | None = None,
        other_files: Mapping[Path, Content] | None = None,
        is_apart: bool = True,
        changed: Iterable[Path] = (),
        max_divided: int | None = None,
    ) -> None:
        self.name = program.name
        self.inputs: Sequence[Any] = tuple(inputs)
        self.outputs: Sequence[Any] = outputs if isinstance(outputs, Targets) else _as_columns(outputs)
        self.memory = parse_size(memory, f"{self.name}: memory")
        self.overwrite, self.folder, self.other_files = overwrite, folder, dict(other_files or {})
        self.resumed, self.already_complete = 0, False
        self.remarks: list[str] = []
        self.program_between_arrays = program if isinstance(program, Program) else None
        constants = program.constant_bytes
        if self.memory - constants < MIN_MEMORY:
            part = f", of which {bytes_text(constants)} are constants" if constants else ""
            raise BindingError(
                f"{self.name}: memory is {bytes_text(self.memory)}, but must be at least "
                f"{bytes_text(constants + MIN_MEMORY)}{part}"
            )
        # By id, because hashing a path is slow.
        paths = {id(store.path): store.path for store in self.inputs}.values()
        self.identities = identities_of_stores(self.name, self.inputs, [*self.other_files.values(), *changed])
        if isinstance(self.outputs, Targets):
            self.files, self.arrays = tuple(self.outputs.files), tuple[ZarrTarget, ...]()
        else:
            files = {id(target.file): target.file for target in self.outputs if isinstance(target, Target)}
            self.files = tuple(files.values())
            self.arrays = tuple(target for target in self.outputs if isinstance(target, ZarrTarget))
        if is_apart:
            self._check_apart()
            written = [*(file.path for file in self.files), *(array.path for array in self.arrays)]
            if len({isinstance(path, Address) for path in written}) > 1:
                raise BindingError(
                    f"{self.name}: some outputs are at addresses, and others are files: write all to one place"
                )
        self.blocking: FileBlocking | GridBlocking
        is_chunked = bool(self.arrays) or any(isinstance(store, ZarrStore) for store in self.inputs)
        free = self.memory - constants
        is_elsewhere = any(isinstance(path, Address) for path in paths)
        if isinstance(program, Program) and (is_chunked or is_elsewhere):
            self.blocking = GridBlocking(program, self.inputs, self.outputs, free)
        else:
            assert isinstance(self.outputs, Targets)
            self.blocking = FileBlocking(program, self.inputs, self.outputs, free, max_divided)

    def by_file(self) -> Iterator[tuple[NewFile | None, Sequence[Any]]]:
        """Yield the outputs of each file, in order; all Zarr arrays, which are folders, are yielded together."""
        if isinstance(self.outputs, Targets):
            yield from (
                (file, self.outputs.of_file(file_number)) for file_number, file in enumerate(self.outputs.files)
            )
        else:
            for file, group in itertools.groupby(self.outputs, lambda target: getattr(target, "file", None)):
                yield file, [*group]

    @property
    def sources(self) -> list[Path]:
        """Everything that the plan reads: addresses, and paths of this machine with the folders that contain them."""
        return [identity.file if isinstance(identity, PathInFile) else identity for identity in self.identities]

    @property
    def program(self) -> Program:
        """The moves between whole arrays."""
        return self.blocking.program

    @property
    def blocks(self) -> Sequence[Any]:
        """The blocks in the order in which they are begun."""
        return self.blocking.blocks

    @property
    def totals(self) -> Totals:
        """Bytes and requests of all blocks."""
        return self.blocking.totals

    @property
    def threads(self) -> int:
        """Threads that read, move and write at once."""
        return self.blocking.threads

    def _check_apart(self) -> None:
        """Refuse outputs that are inputs, that are written twice, or that are inside each other.

        Raises:
            BindingError: there is such an output.
        """
        read = {*map(real_path, self.identities)}
        inodes = {_inode(path) for path in self.sources if not isinstance(path, Address)}
        chunked = [real_path(array.path) for array in self.inputs if isinstance(array, ZarrStore)]
        arrays = [real_path(array.path) for array in self.arrays]
        files = [real_path(file.path) for file in self.files]
        other_paths = [real_path(path) for path in self.other_files]
        inputs = itertools.chain(
            (path for path in (*files, *arrays, *other_paths) if os.path.exists(path) and _inode(path) in inodes),
            (path for path in (*files, *arrays) if any(_is_within(path, chunked_path) for chunked_path in chunked)),
            (path for path in arrays if any(_is_within(folder, path) for folder in read)),
        )
        if (path := next(inputs, None)) is not None:
            raise BindingError(f"{self.name}: {path} is an input, too: name another output", self.name)
        counts = Counter([*files, *arrays, *other_paths])
        nested_paths = (
            path for path in arrays for folder in (*files, *arrays) if folder != path and _is_within(folder, path)
        )
        repeated_path = next((path for path, count in counts.items() if count > 1), None) or next(nested_paths, None)
        if repeated_path is not None:
            raise BindingError(
                f"{self.name}: {repeated_path} is written twice: describe the arrays of a file by one create", self.name
            )

    def digest(self) -> str:
        """Return a digest of this plan, equal for the same command over the same files."""
        state = hashlib.sha256(repr((self.name, [*self.identities.items()])).encode())
        for part in self.blocking.state():
            state.update(part)
        for file in self.files:
            state.update(repr((real_path(file.path), file.size)).encode())
            state.update(file.start)
            state.update(file.known_bytes.state())
        for array in self.arrays:
            state.update(repr((real_path(array.path), sorted(array.metadata.items()))).encode())
        for path, content in self.other_files.items():
            state.update(repr(real_path(path)).encode())
            state.update(repr(content).encode() if isinstance(content, Path) else content_bytes(content))
        return state.hexdigest()

    def __str__(self) -> str:
        totals, summary = self.totals, self.blocking.summary()
        about = "about " if self.blocking.is_estimate else ""
        text_read_again = bytes_text(totals.bytes_read_again)
        lines = [
            f"{self.name}: {summary.arrays}",
            f"  reads {about}{bytes_text(totals.bytes_read)} in {count_noun(totals.reads, 'request')}, "
            f"{text_read_again} {summary.read_again}",
            f"  writes {about}{bytes_text(totals.bytes_written)} in {count_noun(totals.writes, 'request')}",
            f"  buffers {bytes_text(summary.buffer_bytes)} of {bytes_text(self.memory)}: {summary.buffers}",
        ]
        return "\n".join([*lines, *(f"  {remark}" for remark in self.remarks)])


def _as_columns(outputs: Sequence[Target | ZarrTarget]) -> Sequence[Target | ZarrTarget]:
    """Return targets in columns, if all are in plain files."""
    plain = [output for output in outputs if isinstance(output, Target)]
    return Targets.of(plain) if len(plain) == len(outputs) else tuple(outputs)


def _is_within(path: str, folder: str) -> bool:
    sign = "/" if "://" in folder else os.sep
    return path == folder or path.startswith(folder.rstrip(sign) + sign)


def _inode(path: str | Path) -> tuple[int, int]:
    status = os.stat(path)
    return status.st_dev, status.st_ino
