"""Moves of elements that are references, which only NumPy may copy: by the numbers of elements instead of addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.engines.numpy.general import CHUNK, bind_refusals, chunks, offsets_of
from anydml.engines.protocol import Array
from anydml.moves.move import Fill
from anydml.moves.program import Program

NUMBER = 8
"""Bytes per element of such a program, whatever NumPy's elements have."""


def move_references(program: Program, operands: Sequence[Array], filler: Array) -> None:
    """Run a program on arrays of references.

    Args:
        program: its tensors are packed, of elements of 8 bytes, except indices and constants.
        operands: the arrays, of any strides; scratch included.
        filler: one element, with which places are filled.

    Raises:
        IndexError: an index is out of range.
    """
    for refuse in bind_refusals(program, operands):
        refuse()
    for move in program.moves:
        to, source = move.destination, move.source
        for box in chunks(move.sizes, CHUNK):
            places, valid = offsets_of(to, box, operands)
            values: Any = filler
            if not isinstance(source, Fill):
                at, read_mask = offsets_of(source, box, operands)
                if read_mask is not None:
                    valid = read_mask if valid is None else valid & read_mask
                if valid is not None:
                    at = at[np.broadcast_to(valid, at.shape)]
                elements, numbers = _number_elements(operands[source.operand], at)
                values = elements[numbers]
            if valid is not None:
                places = places[np.broadcast_to(valid, places.shape)]
            elements, numbers = _number_elements(operands[to.operand], places)
            elements[numbers] = values


def _number_elements(array: Array, offsets: Array) -> tuple[Array, Any]:
    """Return an array and an index of its elements by their numbers in row-major order."""
    numbers = offsets.reshape(-1) // NUMBER
    if array.flags.c_contiguous:
        return array.reshape(-1), numbers
    return array, np.unravel_index(numbers, array.shape)
