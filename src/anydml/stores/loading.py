"""`plan_load`: which bytes of which files become a rank's tensors, as data for other programs."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anydml.errors import BindingError, ModelError
from anydml.files.json_path import names
from anydml.moves import Access, Move, Program
from anydml.stores.axes import Axis
from anydml.stores.checkpoint_files import input_of, share
from anydml.stores.identities import check_unchanged, identities_of
from anydml.stores.memory_file import LoadedBlocks, Loading, bytes_of
from anydml.stores.resharding import change_of
from anydml.stores.scattered import Bytes
from anydml.stores.sources import read_sources
from anydml.stores.store import Store
from anydml.stores.targets import NewFile, Target
from anydml.tensor import Layout
from anydml.text import counted
from anydml.tracing.ndarray import TracedNdarray
from anydml.tracing.trace import Trace

MOST_RUNS = 1 << 24
"""Of a plan: each takes some 30 bytes."""

Offsets = np.ndarray[Any, np.dtype[np.int64]]


class Run(NamedTuple):
    """Bytes of a file that follow each other in a tensor, too.

    Attributes:
        path: the file.
        offset: of the first byte in the file.
        tensor: its name.
        start: of the first byte in the tensor, which lies in C order.
        length: bytes.
    """

    path: Path
    offset: int
    tensor: str
    start: int
    length: int


@dataclass(frozen=True, eq=False)
class LoadPlan:
    """Where the bytes of tensors lie. Nothing has been read.

    Attributes:
        tensors: shapes and dtypes by name.

    Examples:
        >>> from anydml import stores
        >>> np.save("w.npy", np.ones((4, 2), "f4"))
        >>> files = stores.create("whole.safetensors", shape={"w": [4, 2]}, dtype="float32")
        >>> dml.fuse(lambda w: {"w": w}).plan(stores.open("w.npy"), files).run()
        >>> plan = stores.plan_load("whole.safetensors")
        >>> plan.tensors
        {'w': ((4, 2), dtype('float32'))}
    """

    tensors: dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
    _program: Program
    _inputs: Sequence[Store]
    _identities: dict[Path, tuple[Any, ...]]

    def descriptors(self) -> Iterator[Run]:
        """The runs of every tensor, in the order of tensors."""
        tensors = [*self.tensors]
        for move, store, number in self._moves():
            offsets = (_offsets(move.reads, move.sizes) + store.offset).tolist()
            for offset, start in zip(offsets, _offsets(move.destination, move.sizes).tolist(), strict=True):
                yield Run(store.path, offset, tensors[number], start, move.element_size)

    def ranges(self) -> dict[Path, list[tuple[int, int]]]:
        """By file the first byte, and the one after the last, of all intervals that are read, sorted and merged."""
        starts: dict[Path, list[Offsets]] = {}
        ends: dict[Path, list[Offsets]] = {}
        for move, store, _ in self._moves():
            first = _offsets(move.reads, move.sizes) + store.offset
            starts.setdefault(store.path, []).append(first)
            ends.setdefault(store.path, []).append(first + move.element_size)
        return {path: _merged(np.concatenate(own), np.concatenate(ends[path])) for path, own in starts.items()}

    def load(self, out: Mapping[str, Any] | None = None, memory: int | str = "256MB") -> dict[str, Any]:
        """Read the tensors.

        Args:
            out: arrays by name, of NumPy or of another library in host memory, in C order; NumPy's are made of those
                that it does not have.
            memory: bytes for all buffers beside the tensors, or a text such as ``"256MB"``.

        Returns:
            All tensors, in the order of the plan.

        Raises:
            ModelError: a file cannot be read, or has become shorter.
            BindingError: an array has another shape or dtype, is read-only or not in C order, `out` has a name that the
                plan does not have, or a file has changed since the plan was made.

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
            raise BindingError(f"plan_load: out has {names(unknown)}, which the plan does not have", "plan_load", "out")
        made, contents, targets = dict[str, Any](), dict[Path, Bytes](), list[Target]()
        for name, (shape, dtype) in self.tensors.items():
            made[name] = out[name] if out and name in out else np.empty(shape, dtype)
            path = Path(f"{len(targets)}")
            contents[path] = bytes_of("plan_load", f"out[{name!r}]", made[name], shape, dtype)
            targets.append(Target(NewFile(path, b"", contents[path].size), name, shape, dtype, 0))
        plan = Loading(self._program, self._inputs, targets, memory)
        check_unchanged(plan.name, self._identities)
        with LoadedBlocks(plan, contents) as blocks:
            blocks.write(range(len(plan.blocks)), lambda *_: None)
        check_unchanged(plan.name, self._identities)
        return made

    def explain(self, pattern: str = "*") -> str:
        """Which part of which array of a file becomes which part of a tensor, a line for each, in the order of tensors.

        Parts are the smallest boxes that hold the elements, as Python slices.

        Args:
            pattern: of the tensors' names, as `fnmatch` has it.

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
            name: [f"{name}: {dtype} {[*shape]}"]
            for name, (shape, dtype) in self.tensors.items()
            if fnmatchcase(name, pattern)
        }
        tensors = [*self.tensors]
        for move, store, number in self._moves():
            name = tensors[number]
            if name not in lines:
                continue
            shape, dtype = self.tensors[name]
            packed = Layout.packed(shape, dtype.itemsize)
            to = _box(move.destination, move, shape, packed.strides)
            source = _box(move.reads, move, store.shape, store.strides)
            lines[name].append(f"  {to} = {store.path.name}: {store.name}{source}")
        return "\n".join(line for own in lines.values() for line in own)

    def to_json(self) -> str:
        """Tensors, ranges, and descriptors as lists of file, offset, tensor, start and length, by numbers."""
        ranges = self.ranges()
        files, numbers = {path: k for k, path in enumerate(ranges)}, {name: k for k, name in enumerate(self.tensors)}
        content = {
            "files": [{"path": str(path), "ranges": [*map(list, own)]} for path, own in ranges.items()],
            "tensors": [
                {"name": name, "shape": [*shape], "dtype": dtype.name} for name, (shape, dtype) in self.tensors.items()
            ],
            "descriptors": [
                [files[run.path], run.offset, numbers[run.tensor], run.start, run.length] for run in self.descriptors()
            ],
        }
        return json.dumps(content, ensure_ascii=False)

    def _moves(self) -> Iterator[tuple[Move, Store, int]]:
        """Moves, which input each reads, and the number of the tensor that it writes."""
        for move in self._program.moves:
            yield move, self._inputs[move.reads.operand], move.destination.operand - len(self._inputs)


def plan_load(
    model: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    rank: int = 0,
    ranks: int = 1,
    layout: str | os.PathLike[str] | None = None,
    follow: bool = True,
) -> LoadPlan:
    """Plan which bytes a tensor-parallel rank loads of a checkpoint.

    Args:
        model: a checkpoint, as `anydml.stores.reshard` reads it; or several, one for each rank that wrote it.
        rank: which one loads, from 0.
        ranks: how many share the tensors.
        layout: rules and axes, as those of `anydml.stores.reshard`.
        follow: as `anydml.stores.open`.

    Returns:
        The plan.

    Raises:
        ModelError: the checkpoint or the layout is broken, an axis is not known or cannot be shared, or there are more
            runs than `MOST_RUNS`.

    Examples:
        >>> from anydml import stores
        >>> np.save("w.npy", np.ones((4, 2), "f4"))
        >>> files = stores.create("whole.safetensors", shape={"lm_head.weight": [4, 2]}, dtype="float32")
        >>> dml.fuse(lambda w: {"lm_head.weight": w}).plan(stores.open("w.npy"), files).run()
        >>> plan = stores.plan_load("whole.safetensors", rank=1, ranks=2)
        >>> [(run.tensor, run.start, run.length) for run in plan.descriptors()]
        [('lm_head.weight', 0, 16)]
    """
    if not 0 <= rank < ranks:
        raise ModelError(f"plan_load: rank is {rank}, where 0 to {ranks - 1} are expected")
    paths = [model] if isinstance(model, (str, os.PathLike)) else [*model]
    trace = Trace("plan_load", TracedNdarray)
    composer = trace.composer
    change, axes = change_of(trace, layout)
    found, _ = read_sources(paths, axes, follow)
    inputs: list[Store] = []
    made = change({name: input_of(composer, tensor, inputs) for name, tensor in found.items()})
    tensors: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
    for name, whole in made.items():
        axis = axes.of(name, len(whole.shape), str(paths[0])) if ranks > 1 else Axis(None)
        each = share(composer, name, whole, axis, rank, ranks)
        composer.output(name, each.value)
        tensors[name] = each.shape, each.dtype
    program = composer.program()
    sources = [move.source for move in program.moves]
    if any(not isinstance(source, Access) or source.lookups for source in sources) or program.scratch_bytes:
        raise ModelError("plan_load: the layout picks rows in an order that is no few slices, or makes elements itself")
    runs = sum(math.prod(move.sizes) for move in program.moves)
    if runs > MOST_RUNS:
        raise ModelError(f"plan_load: the tensors are {counted(runs, 'run')} of bytes; {MOST_RUNS} are the most")
    return LoadPlan(tensors, program, inputs, identities_of(store.path for store in inputs))


def _box(access: Access, move: Move, shape: Sequence[int], strides: Sequence[int]) -> str:
    """The smallest box of an array without gaps that holds what one end of a move touches, as slices."""
    first = _offsets(access, move.sizes)
    last = first + move.element_size - 1
    slices, is_wrapped = [""] * len(shape), False
    for axis in sorted(range(len(shape)), key=lambda k: -strides[k]):
        low, high = first // strides[axis], last // strides[axis]
        slices[axis] = f"0:{shape[axis]}" if is_wrapped else f"{low.min()}:{high.max() + 1}"
        # A run that goes on in the next row has been at the end of one and at the beginning of another.
        is_wrapped |= bool((low != high).any())
        first, last = first % strides[axis], last % strides[axis]
    return f"[{', '.join(slices)}]"


def _offsets(access: Access, sizes: Sequence[int]) -> Offsets:
    """The first byte of each element of a move, in the order of its coordinates."""
    found = np.full((1,) * len(sizes), access.offset, np.int64)
    for k, (size, stride) in enumerate(zip(sizes, access.strides, strict=True)):
        shape = [1] * len(sizes)
        shape[k] = size
        found = found + (np.arange(size, dtype=np.int64) * stride).reshape(shape)
    return found.reshape(-1)


def _merged(starts: Offsets, ends: Offsets) -> list[tuple[int, int]]:
    """Intervals, sorted, with those together that touch or overlap."""
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    is_first = np.concatenate([[True], starts[1:] > ends[:-1]])
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:] - 1, len(starts) - 1)
    return [*zip(starts[firsts].tolist(), ends[lasts].tolist(), strict=True)]
