"""Arrays in memory as the outputs of plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from anydml.arrays.receive import adapter_of
from anydml.errors import BindingError
from anydml.memory.device_array import DeviceArray
from anydml.stores.formats.store import Array, Numbers
from anydml.stores.planning.intervals import Interval
from anydml.stores.planning.planned import Planned
from anydml.stores.running.file_blocks import FileBlocks


class MemoryFile:
    """Bytes in memory that are written as those of a `PlainFile`.

    Args:
        content: writable.
    """

    def __init__(self, content: Array) -> None:
        self._content = content

    def write(self, view: memoryview, at: int) -> None:
        """Copy all bytes of a view to an offset."""
        self._content[at : at + len(view)] = view

    def write_runs(self, buffer: Array, starts: Numbers, length: int, at: int) -> None:
        """Copy runs of a buffer, `length` bytes from each start, one after the other, to an offset."""
        for start in starts.tolist():
            self._content[at : at + length] = buffer[start : start + length]
            at += length


class LoadedBlocks(FileBlocks):
    """Writes blocks of a plan to arrays.

    Args:
        plan: whose outputs are files of their own.
        contents: the bytes of the array of each output, by the path of its file.
    """

    def __init__(self, plan: Planned, contents: Mapping[Path, Array]) -> None:
        self._contents = contents
        super().__init__(plan, lambda path: path)

    def _file(self, interval: Interval, part: Callable[[Path], Path]) -> Any:
        if interval.output is not None:
            return MemoryFile(self._contents[interval.path])
        return super()._file(interval, part)


def bytes_of(name: str, field: str, array: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """The bytes of an array that will be written.

    Args:
        name: of the program, for errors.
        field: of the array, for errors.
        array: of NumPy, or of another library in host memory.
        shape: required.
        dtype: required.

    Raises:
        BindingError: it is no such array, has another shape or dtype, is read-only or not in C order.
    """
    adapter = adapter_of(array)
    if adapter is None and not isinstance(array, np.ndarray):
        raise BindingError(f"{name}: {field} is {array!r:.60}, where an array is expected", name, field)
    view: Any = array if adapter is None else adapter.target(name, field)
    if isinstance(view, DeviceArray):
        raise BindingError(
            f"{name}: {field} is not in host memory: load into an array that is, and copy it", name, field
        )
    if view.shape != shape or view.dtype != dtype:
        found = f"{view.dtype} {[*view.shape]}"
        raise BindingError(f"{name}: {field} is {found}, where {dtype} {[*shape]} is expected", name, field)
    if not (view.flags.c_contiguous and view.flags.writeable):
        raise BindingError(f"{name}: {field} must be writable and in C order", name, field)
    return view.reshape(-1).view(np.uint8)  # type: ignore[no-any-return]
