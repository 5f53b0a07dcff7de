"""Targets of a plan as columns; a `Target` object is created on access."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, overload

import numpy as np

from anydml.stores.formats.columns import ShapeAndDtype, TensorNames, bytes_of
from anydml.stores.formats.store import Numbers
from anydml.stores.formats.target import NewFile, Target


@dataclass(frozen=True, slots=True, eq=False)
class Targets(Sequence[Target]):
    """Arrays in files that a plan will write.

    Attributes:
        files: all files.
        file_numbers: the number of each target's file.
        names: all names of arrays.
        name_numbers: the number of each target's name.
        kinds: all pairs of a shape and a dtype.
        kind_numbers: the number of each target's pair of a shape and a dtype.
        offsets: bytes from the start of the file to each target's first element.
    """

    files: Sequence[NewFile]
    file_numbers: Numbers
    names: TensorNames
    name_numbers: Numbers
    kinds: Sequence[ShapeAndDtype]
    kind_numbers: Numbers
    offsets: Numbers

    @classmethod
    def of(cls, targets: Sequence[Target]) -> Self:
        """Return the columns of single targets."""
        files = {id(target.file): target.file for target in targets}
        numbers = {key: file_number for file_number, key in enumerate(files)}
        kinds: dict[ShapeAndDtype, int] = {}
        kind = [kinds.setdefault((target.shape, target.dtype), len(kinds)) for target in targets]
        return cls(
            [*files.values()],
            np.array([numbers[id(target.file)] for target in targets], np.int32),
            TensorNames([target.name for target in targets]),
            np.arange(len(targets), dtype=np.int32),
            [*kinds],
            np.array(kind, np.int32),
            np.array([target.offset for target in targets], np.int64),
        )

    @property
    def sizes(self) -> Numbers:
        """The bytes of each target."""
        target_sizes: Numbers = bytes_of(self.kinds)[self.kind_numbers]
        return target_sizes

    @property
    def element_sizes(self) -> Numbers:
        """Bytes of an element of each target."""
        element_sizes: Numbers = np.array([dtype.itemsize for _, dtype in self.kinds], np.int64)[self.kind_numbers]
        return element_sizes

    def of_file(self, file_number: int) -> Self:
        """Return the targets of a file."""
        numbers = np.flatnonzero(self.file_numbers == file_number)
        columns = {
            column: getattr(self, column)[numbers]
            for column in ("file_numbers", "name_numbers", "kind_numbers", "offsets")
        }
        return replace(self, **columns)

    def with_paths(self, change: Callable[[Path], Path]) -> Self:
        """Return the same targets in files under other paths."""
        return replace(self, files=[replace(file, path=change(file.path)) for file in self.files])

    def __len__(self) -> int:
        return self.file_numbers.size

    @overload
    def __getitem__(self, index: int) -> Target: ...
    @overload
    def __getitem__(self, index: slice) -> list[Target]: ...
    def __getitem__(self, index: Any) -> Any:
        position = range(len(self))[index]
        return (
            [self._made(number_of_target) for number_of_target in position]
            if isinstance(position, range)
            else self._made(position)
        )

    def __iter__(self) -> Iterator[Target]:
        return map(self._made, range(len(self)))

    def _made(self, target_number: int) -> Target:
        shape, dtype = self.kinds[self.kind_numbers[target_number]]
        name = self.names.texts[self.name_numbers[target_number]]
        return Target(
            self.files[self.file_numbers[target_number]], name, shape, dtype, int(self.offsets[target_number])
        )
