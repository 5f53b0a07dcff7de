"""Arrays in memory as the outputs of plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anydml.arrays.receive import adapter_of
from anydml.errors import BindingError
from anydml.memory.device_array import DeviceArray
from anydml.memory.host import address_of
from anydml.stores.formats.store import Array, Numbers
from anydml.stores.planning.base_plan import BasePlan
from anydml.stores.planning.blocks import BlockIO
from anydml.stores.planning.intervals import Interval
from anydml.stores.planning.transfers import round_to_cache_lines
from anydml.stores.running.file_blocks import FileBlocks

ALIGNED = 16
"""Bytes to which buffers of elements are aligned at least."""


class MemoryFile:
    """Bytes in memory, with the writing methods of a `PlainFile`.

    Args:
        contents: writable, by paths.
        path: the path of the file in it.
    """

    def __init__(self, contents: Mapping[Path, Array], path: Path) -> None:
        self._contents, self._path = contents, path

    def write(self, view: memoryview, offset: int) -> None:
        """Copy all bytes of a view to an offset, unless the view is that memory."""
        content = self.part(offset, len(view))
        if address_of(content) != address_of(np.frombuffer(view, np.uint8)):
            content[:] = view

    def part(self, offset: int, size: int) -> Array:
        """Return the memory of bytes from an offset on."""
        return self._contents[self._path][offset : offset + size]

    def write_runs(self, buffer: Array, starts: Numbers, lengths: Numbers, offset: int) -> None:
        """Copy runs of a buffer, one after the other, to an offset."""
        content = self._contents[self._path]
        for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
            content[offset : offset + length] = buffer[start : start + length]
            offset += length


class LoadedBlocks(FileBlocks):
    """Writes blocks of a plan to arrays.

    Args:
        plan: a plan whose outputs are files in memory.
        contents: the bytes of each file by path, while blocks of the file are written.
    """

    def __init__(self, plan: BasePlan, contents: Mapping[Path, Array]) -> None:
        self._contents = contents
        super().__init__(plan, lambda path: path)

    def _file(self, interval: Interval, part: Callable[[Path], Path]) -> Any:
        if interval.output is not None:
            return MemoryFile(self._contents, interval.path)
        return super()._file(interval, part)

    def _written(self, operands: Sequence[int], io: BlockIO, slot: Array) -> Array:
        """Return the memory itself, to save a copy, if the block is contiguous there; otherwise a buffer."""
        transfer = io.writes[0]
        is_one = (
            len(io.writes) == transfer.file_offsets.size == transfer.buffer_offsets.size == 1 and not transfer.is_direct
        )
        is_one = is_one and not transfer.buffer_offsets[0]
        if is_one and io.sizes[1] == round_to_cache_lines(transfer.bytes):
            file, base = self._files[operands[transfer.operand]]
            data: Array = file.part(int(transfer.file_offsets[0]) + base, transfer.bytes)
            if address_of(data) % ALIGNED == 0:
                return data
        return super()._written(operands, io, slot)


def bytes_of(name: str, field: str, array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return the bytes of an array that will be written.

    Args:
        name: the name of the program, for errors.
        field: the field of the array, for errors.
        array: an array of NumPy, or of another library in host memory.
        shape: required.
        dtype: required.

    Raises:
        BindingError: the value is not such an array, has another shape or dtype, is read-only or not in C order.
    """
    adapter = adapter_of(array)
    if adapter is None and not isinstance(array, np.ndarray):
        raise BindingError(f"{name}: {field} must be an array, not {array!r:.60}", name, field)
    view: Any = array if adapter is None else adapter.target(name, field)
    if isinstance(view, DeviceArray):
        raise BindingError(
            f"{name}: {field} is not in host memory: load into an array that is, and copy it", name, field
        )
    if view.shape != shape or view.dtype != dtype:
        text = f"{view.dtype} {[*view.shape]}"
        raise BindingError(f"{name}: {field} must be {dtype} {[*shape]}, not {text}", name, field)
    if not (view.flags.c_contiguous and view.flags.writeable):
        raise BindingError(f"{name}: {field} must be writable and in C order", name, field)
    return view.reshape(-1).view(np.uint8)  # type: ignore[no-any-return]
