"""Move elements that are references, which only NumPy may copy: by element numbers instead of addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.engines.numpy.general import CHUNK, bind_refusals, chunks, offsets_of
from anydml.engines.protocol import Array
from anydml.memory.host import indexed_window
from anydml.moves.move import Access, Fill
from anydml.moves.program import Program

PROGRAM_ELEMENT_SIZE = 8
"""Bytes of an element in such a program's offsets and strides, whatever the itemsize of the arrays."""


def move_references(program: Program, operands: Sequence[Array], filler: Array) -> None:
    """Run a program on arrays of references.

    Args:
        program: a program whose tensors are packed, with elements of 8 bytes, except for indices and constants.
        operands: the arrays, of any strides; scratch included.
        filler: one element, with which places are filled.

    Raises:
        IndexError: an index is out of range.
    """
    for refuse in bind_refusals(program, operands):
        refuse()
    filler = filler.reshape(())
    for move in program.moves:
        to, source = move.destination, None if isinstance(move.source, Fill) else move.reads
        target = _viewed(to, move.sizes, operands)
        elements = source and _viewed(source, move.sizes, operands)
        for box in chunks(move.sizes, CHUNK):
            # With an ellipsis, NumPy returns an array even if there are no dimensions, not an element.
            part: Any = (..., *box)
            values, at, valid = filler, None, None
            if elements is not None:
                values = elements[part]
            elif source:
                at, valid = offsets_of(source, box, operands)
            if target is not None and valid is None:
                target[part] = values if at is None or source is None else _elements_at(operands[source.operand], at)
                continue
            places, write_mask = offsets_of(to, box, operands)
            if write_mask is not None:
                valid = write_mask if valid is None else valid & write_mask
            if valid is not None:
                valid = np.broadcast_to(valid, places.shape)
                places, at = places[valid], at if at is None else at[valid]
                values = values[valid] if elements is not None else values
            if at is not None and source:
                values = _elements_at(operands[source.operand], at)
            # In row-major order, so that the last of several writes to one element stays.
            written, numbers = _by_number(operands[to.operand], places.reshape(-1))
            written[numbers] = values.reshape(-1)


def _viewed(access: Access, sizes: Sequence[int], operands: Sequence[Array]) -> Array | None:
    """Return a view of the elements of a move's end; None if indices choose the elements, or no view has them."""
    array = operands[access.operand]
    if access.lookups or not array.flags.c_contiguous:
        return None
    offset, *strides = [step // PROGRAM_ELEMENT_SIZE * array.itemsize for step in (access.offset, *access.strides)]
    return indexed_window(array, offset, sizes, strides)


def _elements_at(array: Array, offsets: Array) -> Array:
    """Return elements by the offsets of a program's elements of 8 bytes."""
    elements, numbers = _by_number(array, offsets.reshape(-1))
    gathered: Array = elements[numbers].reshape(offsets.shape)
    return gathered


def _by_number(array: Array, offsets: Array) -> tuple[Array, Any]:
    """Return a flat array, and an index that selects elements by their numbers in row-major order."""
    numbers = offsets // PROGRAM_ELEMENT_SIZE
    if array.flags.c_contiguous:
        return array.reshape(-1), numbers
    return array, np.unravel_index(numbers, array.shape)
