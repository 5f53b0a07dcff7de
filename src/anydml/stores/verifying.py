"""`verify`: whether two checkpoints contain the same tensors, compared block by block."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from anydml.errors import ModelError
from anydml.files.json_path import show
from anydml.moves.compose import Composer
from anydml.progress import shown
from anydml.stores.checkpoints import sources
from anydml.stores.checkpoints.composed import (
    ComposedTensor,
    ComposedTensors,
    StoredTensors,
    described,
    program_of,
)
from anydml.stores.checkpoints.output_files import Change
from anydml.stores.converting import conversion
from anydml.stores.formats.store import Array
from anydml.stores.formats.target import NewFile, Target
from anydml.stores.planning.blocks import BlockIO
from anydml.stores.planning.identities import check_unchanged
from anydml.stores.planning.planned import Planned
from anydml.stores.planning.transfers import Transfer
from anydml.stores.resharding import change_of
from anydml.stores.running.file_blocks import FileBlocks
from anydml.text import parse_size
from anydml.tracing.ndarray import TracedNdarray
from anydml.tracing.trace import Trace


def verify(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    layout: str | os.PathLike[str] | None = None,
    to: str | None = None,
    memory: int | str = "256MB",
    follow: bool = True,
    progress: bool | Callable[[int], None] = False,
) -> str | None:
    """Compare two checkpoints, bit for bit, however their tensors are divided into files and ranks.

    Args:
        first: a checkpoint, as in `anydml.stores.reshard`.
        second: another one.
        layout: rules for the first, as in `anydml.stores.reshard`; the second must contain their results.
        to: as in `anydml.stores.convert`, instead of a layout.
        memory: bytes of all buffers together, or a text such as ``"256MB"``.
        follow: as in `anydml.stores.open`.
        progress: as in `anydml.stores.Plan.run`.

    Returns:
        None if all names, dtypes, shapes and bytes are equal, otherwise the first difference.

    Raises:
        ModelError: a checkpoint or the layout is broken.
        BindingError: the memory is too small.

    Examples:
        >>> from anydml import stores
        >>> np.save("w.npy", np.ones((4, 2), "f4"))
        >>> for name, value in ("a", 1), ("b", 2):
        ...     np.save("w.npy", np.array([[1, 1], [1, value]], "f4"))
        ...     files = stores.create(f"{name}.safetensors", shape={"w": [2, 2]}, dtype="float32")
        ...     dml.fuse(lambda w: {"w": w}).plan(stores.open("w.npy"), files).run()
        >>> stores.verify("a.safetensors", "b.safetensors")
        '"w" differs at [1, 1]: 1.0 and 2.0'
    """
    return compared(first, second, layout, to, memory, follow, progress)[0]


def compared(
    first: str | os.PathLike[str],
    second: str | os.PathLike[str],
    layout: str | os.PathLike[str] | None = None,
    to: str | None = None,
    memory: int | str = "256MB",
    follow: bool = True,
    progress: bool | Callable[[int], None] = False,
) -> tuple[str | None, list[str]]:
    """What `verify` returns, and remarks on what was not compared."""
    if layout is not None and to is not None:
        raise ModelError("verify: layout and to are both given: one of them says what the second checkpoint holds")
    change: Change | None
    if to is not None:
        composer, change, _, axes = conversion(first, to)
    else:
        trace = Trace("verify", TracedNdarray)
        composer, (change, axes) = trace.composer, change_of(trace, layout)
    made, _, remarks = sources.read_sources([first], axes, follow)
    wanted = described(made)
    wanted = wanted if change is None else change(wanted)
    found, _, more = sources.read_sources([second], axes, follow)
    said = [f"{path}: {remark}" for path, own in ((first, remarks), (second, more)) for remark in own]
    if difference := _described_alike(wanted, found):
        return difference, said
    pieces, targets, starts = _targets(composer, wanted, found)
    program, inputs = program_of(composer, pieces)
    # Half of the memory is for the bytes that blocks are compared with.
    plan = Planned(program, inputs, targets, parse_size(memory) // 2, is_apart=False)
    check_unchanged(plan.name, plan.identities)
    with ComparedBlocks(plan, starts) as blocks, shown(plan.totals.bytes_written, 0, progress) as advance:
        blocks.write(blocks.until_one_differs(), lambda _, size: advance(size))
    check_unchanged(plan.name, plan.identities)
    return min(blocks.differences.items())[1] if blocks.differences else None, said


def _described_alike(wanted: ComposedTensors, found: StoredTensors) -> str | None:
    """The first difference of names, dtypes and shapes."""
    if (only := next((name for name in wanted if name not in found), None)) is not None:
        return f"{show(only)} is in the first alone"
    if (only := next((name for name in found if name not in wanted), None)) is not None:
        return f"{show(only)} is in the second alone"
    for name, each in wanted.items():
        other = found[name]
        if (each.dtype, each.shape) != (other.dtype, other.shape):
            return f"{show(name)} differs: {each.dtype} {[*each.shape]} and {other.dtype} {[*other.shape]}"
    return None


def _targets(
    composer: Composer, wanted: ComposedTensors, found: StoredTensors
) -> tuple[list[ComposedTensor], list[Target], list[tuple[int, ...]]]:
    """The pieces of the second checkpoint, their targets, and their first coordinates in tensors."""
    files: dict[Path, NewFile] = {}
    made, targets, starts = list[ComposedTensor](), list[Target](), list[tuple[int, ...]]()
    for name, each in wanted.items():
        for piece in found[name].pieces:
            store = piece.store
            if store.order is not None or not piece.is_whole:
                how = "in parts of several kinds" if store.order is None else "not in row-major order"
                raise ModelError(f"verify: {show(name)} of {store.path} is {how}: name this checkpoint first")
            made.append(each.changed(composer.slice(each.value, piece.start, store.shape, [1] * store.ndim)))
            file = files.setdefault(store.path, NewFile(store.path, b"", store.path.stat().st_size))
            targets.append(Target(file, name, store.shape, store.dtype, store.offset))
            starts.append(piece.start)
    return made, targets, starts


class ComparedBlocks(FileBlocks):
    """Compares blocks of a plan with the outputs.

    Args:
        plan: whose outputs exist.
        starts: first coordinates of each output in its tensor.

    Attributes:
        differences: texts by block.
    """

    is_writing = False

    def __init__(self, plan: Planned, starts: Sequence[tuple[int, ...]]) -> None:
        super().__init__(plan, lambda path: path)
        self._starts = starts
        self.differences: dict[int, str] = {}

    def until_one_differs(self) -> Iterator[int]:
        """Numbers of blocks, until a difference is found."""
        for number in range(len(self.plan.blocks)):
            if self.differences:
                return
            yield number

    def _write(self, number: int, io: BlockIO, read: Array, written: Array) -> None:
        operands = self._blocking.groups[self._blocking.blocks[number].group].operands
        there = np.empty(max(read.size, written.size), np.uint8)
        for transfer in io.writes:
            here = read if transfer.is_direct else written
            self._transfer(operands, transfer, there, True)
            if number not in self.differences and (found := self._difference(operands, transfer, here, there)):
                self.differences[number] = found

    def _difference(self, operands: Sequence[int], transfer: Transfer, here: Array, there: Array) -> str | None:
        """Text on the first difference of a transfer."""
        runs = transfer.runs
        for k, (start, length) in enumerate(zip(transfer.buffer.tolist(), transfer.lengths.tolist(), strict=True)):
            one, other = here[start : start + length], there[start : start + length]
            if not np.array_equal(one, other):
                at = int((one != other).argmax())
                lies, outputs = self._blocking.intervals[operands[transfer.operand]], self.plan.outputs
                byte = lies.offset + int(transfer.file[k // runs]) + k % runs * length + at
                number = next(n for n in lies.outputs if byte < outputs[n].offset + outputs[n].nbytes)
                target = outputs[number]
                byte -= target.offset
                size = target.dtype.itemsize
                inside = np.unravel_index(byte // size, target.shape)
                index = [int(i) + first for i, first in zip(inside, self._starts[number], strict=True)]
                begin = at - byte % size
                elements = [each[begin : begin + size] for each in (one, other)]
                values = [str(each.view(target.dtype)[0]) for each in elements]
                if values[0] == values[1]:
                    values = [each.tobytes().hex() for each in elements]
                return f"{show(target.name)} differs at {index}: {' and '.join(values)}"
        return None
