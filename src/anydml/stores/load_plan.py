"""The plan of `plan_load`: a list of the bytes of files that become tensors, which can also be loaded."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import BindingError, ModelError
from anydml.files.location import names, show
from anydml.moves import Move
from anydml.stores.formats.block_types import is_of_blocks, name_of, shape_in_elements
from anydml.stores.formats.chunk_grid import Box
from anydml.stores.formats.store import Array, Numbers, Store
from anydml.stores.formats.target import NewFile, Target
from anydml.stores.planning.base_plan import BasePlan
from anydml.stores.planning.identities import check_unchanged
from anydml.stores.planning.interval_unions import merge_intervals
from anydml.stores.planning.regions import box_of
from anydml.stores.planning.repeated_moves import CompactProgram
from anydml.stores.planning.transfers import contiguous, coordinate_offsets
from anydml.stores.running.memory_file import LoadedBlocks, bytes_of
from anydml.tensor import Layout
from anydml.text import count_noun

MAX_DIVIDED = 4 << 20
"""Maximum bytes of an array that is loaded from a window with others, rather than read where it lies."""

MAX_LISTED = 1 << 24
"""Maximum number of runs that are listed; each takes about 30 bytes."""

ShapeAndDtype = tuple[tuple[int, ...], np.dtype[Any]]
"""The shape and the dtype of a tensor."""


class ByteRun(NamedTuple):
    """Bytes that are contiguous both in a file and in a tensor.

    Attributes:
        path: the file.
        offset: the offset of the first byte in the file.
        tensor: the name of the tensor.
        start: offset of the first byte in the tensor, in C order.
        length: number of bytes.
    """

    path: Path
    offset: int
    tensor: str
    start: int
    length: int


@dataclass(frozen=True, eq=False)
class LoadPlan:
    """The bytes of files that make up tensors; no tensor has been read.

    Attributes:
        tensors: shapes and dtypes by name.
        remarks: notes for users on what was assumed or left out.

    Examples:
        >>> from anydml import stores
        >>> np.save("w.npy", np.ones((4, 2), "f4"))
        >>> files = stores.create("whole.safetensors", shape={"w": [4, 2]}, dtype="float32")
        >>> dml.fuse(lambda w: {"w": w}).plan(stores.open("w.npy"), files).run()
        >>> plan = stores.plan_load("whole.safetensors")
        >>> plan.tensors
        {'w': ((4, 2), dtype('float32'))}
    """

    tensors: dict[str, ShapeAndDtype]
    _program: CompactProgram
    _inputs: Sequence[Store]
    _identities: dict[Path, tuple[Any, ...]]
    remarks: list[str]

    def descriptors(self) -> Iterator[ByteRun]:
        """Yield the runs of all tensors, in the order of tensors.

        Raises:
            ModelError: a move has more than `MAX_LISTED` runs, which `to_json` has as boxes; or elements are changed
                when they are read, such as those that PyTorch has conjugated lazily.
        """
        self._check_unchanged_elements()
        for name, move, store in self._moves():
            _check_few(math.prod(move.sizes), f"parts of {name}", "to_json has them as boxes")
            offsets = coordinate_offsets(move.reads.offset + store.offset, move.sizes, move.reads.strides).tolist()
            starts = coordinate_offsets(move.destination.offset, move.sizes, move.destination.strides).tolist()
            for offset, start in zip(offsets, starts, strict=True):
                yield ByteRun(store.path, offset, name, start, move.element_size)

    def ranges(self, gap: int = 0) -> dict[Path, Numbers]:
        """Return the intervals that are read of each file, sorted and merged: rows of a first byte and an end.

        Args:
            gap: largest number of unneeded bytes between two runs that are merged.

        Raises:
            ModelError: there are more than `MAX_LISTED`; a larger gap merges more. Or as `descriptors`.
        """
        self._check_unchanged_elements()
        runs = [(sets, move, *contiguous(move.reads, move, gap)) for moves, sets in self._program.repeated_moves
                for move in moves]  # fmt: skip
        count = sum(len(sets) * math.prod(move.sizes[k] for k in outer) for sets, move, _, _, outer in runs)
        _check_few(count, "the ranges", f"give a gap larger than {gap}")
        starts: dict[Path, list[Numbers]] = {}
        ends: dict[Path, list[Numbers]] = {}
        numbers = dict[int, int]()
        file_numbers = np.array([numbers.setdefault(id(store.path), len(numbers)) for store in self._inputs])
        offset = np.array([store.offset for store in self._inputs], np.int64)
        for sets, move, low, length, outer in runs:
            along = coordinate_offsets(low, [move.sizes[k] for k in outer], [abs(move.reads.strides[k]) for k in outer])
            stores = sets[:, move.reads.operand]
            for file_number in np.flatnonzero(np.bincount(file_numbers[stores])):
                of_file = stores[file_numbers[stores] == file_number]
                first = (offset[of_file][:, None] + along).reshape(-1)
                starts.setdefault(self._inputs[of_file[0]].path, []).append(first)
                ends.setdefault(self._inputs[of_file[0]].path, []).append(first + length)
        ranges = dict[Path, Numbers]()
        for path, first_offsets in starts.items():
            ranges[path] = np.stack(
                merge_intervals(np.concatenate(first_offsets), np.concatenate(ends[path]), gap)[:2], 1
            )
        return ranges

    def load(self, out: Mapping[str, Any] | None = None, memory: int | str = "256MB") -> dict[str, Any]:
        """Read the tensors.

        Args:
            out: arrays by name, of NumPy or of another library in host memory, in C order; other tensors become new
                NumPy arrays.
            memory: bytes of all buffers beside the tensors, or a string such as ``"256MB"``.

        Returns:
            All tensors, in the order of the plan.

        Raises:
            ModelError: a file cannot be read, or has become shorter.
            BindingError: an array has another shape or dtype, is read-only or not in C order, `out` has an unknown
                name, or a file has changed since the plan was made.

        Examples:
            >>> from anydml import stores
            >>> np.save("w.npy", np.ones((4, 2), "f4"))
            >>> files = stores.create("whole.safetensors", shape={"w": [4, 2]}, dtype="float32")
            >>> dml.fuse(lambda w: {"w": w}).plan(stores.open("w.npy"), files).run()
            >>> given = np.zeros((4, 2), "f4")
            >>> stores.plan_load("whole.safetensors").load({"w": given})["w"] is given
            True
            >>> float(given.sum())
            8.0
        """
        if unknown := [name for name in out or {} if name not in self.tensors]:
            message = (
                f"plan_load: out has {names(unknown)}, but the plan has no such tensor: use the names in plan.tensors"
            )
            raise BindingError(message, "plan_load", "out")
        arrays, contents, targets = dict[str, Any](), dict[Path, Array](), list[Target]()
        for name, (shape, dtype) in self.tensors.items():
            arrays[name] = out[name] if out and name in out else np.empty(shape, dtype)
            path = Path(f"{len(targets)}")
            contents[path] = bytes_of("plan_load", f"out[{name!r}]", arrays[name], shape, dtype)
            targets.append(Target(NewFile(path, b"", contents[path].size), name, shape, dtype, 0))
        plan = BasePlan(self._program, self._inputs, targets, memory, is_apart=False, max_divided=MAX_DIVIDED)
        check_unchanged(plan.name, self._identities)
        with LoadedBlocks(plan, contents) as blocks:
            blocks.write(range(len(plan.blocks)), lambda *_: None)
        check_unchanged(plan.name, self._identities)
        return arrays

    def explain(self, pattern: str = "*") -> str:
        """Return a string with one line per part of a tensor, which names the part of a file that is read for it.

        Parts are the smallest boxes that contain the elements, as Python slices.

        Args:
            pattern: the pattern of names of tensors, as in `fnmatch`.

        Examples:
            >>> from anydml import stores
            >>> np.save("w.npy", np.ones((4, 2), "f4"))
            >>> files = stores.create("whole.safetensors", shape={"lm_head.weight": [4, 2]}, dtype="float32")
            >>> dml.fuse(lambda w: {"lm_head.weight": w}).plan(stores.open("w.npy"), files).run()
            >>> print(stores.plan_load("whole.safetensors", rank=1, ranks=2).explain())
            lm_head.weight: float32 [2, 2]
              [0:2, 0:2] = whole.safetensors: lm_head.weight[2:4, 0:2]
        """
        lines: dict[str, list[str]] = {
            name: [f"{name}: {name_of(dtype)} {[*shape_in_elements(shape, dtype)]}"]
            for name, (shape, dtype) in self.tensors.items()
            if fnmatchcase(name, pattern)
        }
        for name, move, store in self._moves():
            if name in lines:
                shape, dtype = self.tensors[name]
                to = _slices(box_of(move.destination, move, Layout.packed(shape, dtype.itemsize)))
                source = box_of(move.reads, move, store.layout.packed)
                if store.order is not None:
                    source = tuple(source[store.order.index(axis)] for axis in range(store.ndim))
                lines[name].append(f"  {to} = {store.path.name}: {store.name}{_slices(source)}")
        return "\n".join([*(line for of_file in lines.values() for line in of_file), *self.remarks])

    def to_json(self, gap: int = 0) -> str:
        """Return, as JSON, the files with their ranges, the tensors, the boxes of runs, and the remarks.

        A box is a list: the indices of a file and of a tensor, the first byte in each, the bytes of a run, the number
        of runs along each dimension, and the strides of these in the file and in the tensor, in bytes.

        Args:
            gap: as in `ranges`.
        """
        ranges = self.ranges(gap)
        files, numbers = {path: k for k, path in enumerate(ranges)}, {name: k for k, name in enumerate(self.tensors)}
        content = {
            "files": [{"path": str(path), "ranges": of_file.tolist()} for path, of_file in ranges.items()],
            "tensors": [
                {"name": name, "shape": [*shape_in_elements(shape, dtype)],
                 "dtype": name_of(dtype) if is_of_blocks(dtype) else dtype.name}
                for name, (shape, dtype) in self.tensors.items()
            ],
            "boxes": [
                [files[store.path], numbers[name], store.offset + move.reads.offset, move.destination.offset,
                 move.element_size, move.sizes, move.reads.strides, move.destination.strides]
                for name, move, store in self._moves()
            ],
            "remarks": self.remarks,
        }  # fmt: skip
        return json.dumps(content, ensure_ascii=False)

    def _check_unchanged_elements(self) -> None:
        """Refuse elements that differ from the bytes in their file.

        Raises:
            ModelError: some are changed when they are read.
        """
        if (changed := next((store for store in self._inputs if store.stored is not None), None)) is not None:
            why = "is cast, decoded or swapped when it is read, so byte ranges cannot describe it: use load"
            raise ModelError(f"plan_load: {show(changed.name)} of {changed.path} {why}")

    def _moves(self) -> Iterator[tuple[str, Move, Store]]:
        """Yield the name of a tensor, a move to it, and the store that the move reads, for all moves, by tensors."""
        names = [*self.tensors]
        order = sorted(
            (row[-1], k, row)
            for k, repeated in enumerate(self._program.repeated_moves)
            for row in repeated.sets.tolist()
        )
        for output, kind, box_row in order:
            for move in self._program.repeated_moves[kind].moves:
                yield names[output - len(self._inputs)], move, self._inputs[box_row[move.reads.operand]]


def _slices(box: Box) -> str:
    return f"[{', '.join(f'{low}:{high}' for low, high in box)}]"


def _check_few(count: int, noun: str, instead: str) -> None:
    """Refuse to list more than `MAX_LISTED` runs.

    Raises:
        ModelError: there are more.
    """
    if count > MAX_LISTED:
        raise ModelError(
            f"plan_load: {noun} are {count_noun(count, 'run')} of bytes, but the maximum is {MAX_LISTED}: {instead}"
        )
