"""Which libraries' tensors compiled code reads itself: those whose structure holds for every tensor it is tried on."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from anydml.arrays.quick import QUICK
from anydml.engines.cpu.kernels import tensors
from anydml.memory import dlpack_struct as dlpack
from anydml.memory.host import address_of
from anydml.memory.tensor_struct import Probe, Structure


class Reading(NamedTuple):
    """How tensors of a type are read.

    Attributes:
        reader: the address of what describes one.
        words: of what it takes first.
        structure: kept alive.
    """

    reader: int
    words: int
    structure: Structure


_TRIED: set[type] = set()


def is_tried(kind: type) -> bool:
    """Whether `reading` answers at once."""
    return kind in _TRIED


def reading(kind: type) -> Reading | None:
    """How tensors of a type are read; None where nobody knows how.

    Raises:
        NoCompilerError: there is no compiler.
    """
    found = _reading(kind)
    _TRIED.add(kind)
    return found


@cache
def _reading(kind: type) -> Reading | None:
    if kind not in QUICK:
        return None
    # What takes the compiler's locks is done here: the caller may have them.
    kernel = tensors.reader()
    address, call, found = kernel.entry, kernel.run, list[Reading]()

    def look() -> None:
        structure = QUICK[kind].structure()
        if structure is None:
            return
        words = address_of(structure.table)
        if all(_is_seen(call, words, probe) for probe in structure.probes):
            found.append(Reading(address, words, structure))

    # Modes and transforms are a thread's, and change what its new tensors are: a new one has none.
    thread = threading.Thread(target=look)
    try:
        thread.start()
    except RuntimeError:
        # The system gives no more threads, or the interpreter is about to end.
        return None
    thread.join()
    return found[0] if found else None


def _is_seen(call: Callable[..., int], words: int, probe: Probe) -> bool:
    """Whether a tensor is described as its library describes it."""
    description = (ctypes.c_uint64 * (dlpack.SIZE // 8))()
    at = ctypes.addressof(description)
    refused = call(words, id(probe.tensor), at)
    if probe.seen is None or refused:
        return probe.seen is None and bool(refused)
    address, kind, shape, strides = probe.seen
    found = [description[at // 8] for at in (dlpack.DATA, dlpack.DEVICE, dlpack.DIMENSIONS, dlpack.OFFSET)]
    if found != [address, dlpack.HOST, kind, 0]:
        return False
    places = description[dlpack.SHAPE // 8], description[dlpack.STRIDES // 8]
    return all(
        tuple((ctypes.c_int64 * len(shape)).from_address(place)) == values
        for place, values in zip(places, (shape, strides), strict=True)
    )
