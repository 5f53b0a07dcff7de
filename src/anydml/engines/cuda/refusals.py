"""Checks of indices that are refused if out of range, before a program writes anything."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from anydml.engines.common import index_error
from anydml.engines.cuda.schedule import FINDINGS, WIDE_ENTRY, LastWriteTable, Launch, clearing_launch
from anydml.moves import Access, Lookup, Move, Program
from anydml.moves.move import all_lookups


class Check(NamedTuple):
    """A lookup that refuses indices out of range, over the dimensions of its move's box that it depends on.

    Attributes:
        lookup: the lookup, with strides of these dimensions.
        sizes: sizes of these dimensions.
    """

    lookup: Lookup
    sizes: tuple[int, ...]


def checks(moves: Sequence[Move]) -> list[Check]:
    """Return the checks of moves."""
    return [_check(lookup, move.sizes) for move in moves for lookup in move.all_lookups() if lookup.outside == "error"]


def searches(checks: Sequence[Check]) -> list[Launch]:
    """Return launches that write, per check, the number of the first coordinate whose index is out of range, or −1.

    Coordinates are numbered from the last one, so that the maximum is the first coordinate.
    """
    if not checks:
        return []
    result = [clearing_launch(FINDINGS, WIDE_ENTRY * len(checks))]
    for check_number, (lookup, sizes) in enumerate(checks):
        no_strides = (0,) * len(sizes)
        looked_up = _reverse(lookup, sizes)._replace(stride=0)
        move = Move(sizes, Access(FINDINGS, 0, no_strides), Access(FINDINGS, 0, no_strides, (looked_up,)), WIDE_ENTRY)
        steps = (0,) * len([*all_lookups((lookup,))])
        result.append(
            Launch(
                (move,),
                LastWriteTable(FINDINGS, check_number, no_strides, steps, len(checks), WIDE_ENTRY, only_records=True),
            )
        )
    return result


def raise_first(
    program: Program,
    checks: Sequence[Check],
    element_numbers: np.ndarray[tuple[int], np.dtype[np.int64]],
    read: Callable[[Launch], bytes],
) -> None:
    """Report the first index out of range.

    Args:
        program: the program.
        checks: the checks of the program.
        element_numbers: the numbers that the launches of `searches` wrote.
        read: runs a launch and returns the first bytes that it wrote to `FINDINGS`.

    Raises:
        IndexError: an index is out of range.
    """
    for (lookup, sizes), element_number in zip(checks, element_numbers.tolist(), strict=False):
        if element_number >= 0:
            at = np.unravel_index(math.prod(sizes) - 1 - element_number, sizes) if sizes else ()
            dtype = np.dtype(lookup.dtype)
            at_lookup = _restrict(lookup, [int(c) for c in at])
            source = Access(lookup.operand, at_lookup.offset, (), at_lookup.lookups)
            raw = read(Launch((Move((), Access(FINDINGS, 0, ()), source, dtype.itemsize),)))
            raise index_error(program, lookup, int(np.frombuffer(raw[: dtype.itemsize], dtype)[0]))


def _check(lookup: Lookup, sizes: tuple[int, ...]) -> Check:
    dimensions = [
        d for d, size in enumerate(sizes) if size > 1 and any(inner.strides[d] for inner in all_lookups((lookup,)))
    ]

    def narrow(lookup: Lookup) -> Lookup:
        strides = tuple(lookup.strides[d] for d in dimensions)
        return lookup._replace(strides=strides, lookups=tuple(map(narrow, lookup.lookups)))

    return Check(narrow(lookup), tuple(sizes[d] for d in dimensions))


def _reverse(lookup: Lookup, sizes: tuple[int, ...]) -> Lookup:
    """Reverse all dimensions of a lookup."""
    offset = lookup.offset + sum((size - 1) * stride for size, stride in zip(sizes, lookup.strides, strict=True))
    inner = tuple(_reverse(inner, sizes) for inner in lookup.lookups)
    return lookup._replace(offset=offset, strides=tuple(-stride for stride in lookup.strides), lookups=inner)


def _restrict(lookup: Lookup, at: Sequence[int]) -> Lookup:
    """Restrict a lookup to one coordinate."""
    offset = lookup.offset + sum(c * stride for c, stride in zip(at, lookup.strides, strict=True))
    return lookup._replace(offset=offset, strides=(), lookups=tuple(_restrict(inner, at) for inner in lookup.lookups))
