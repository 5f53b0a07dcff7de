"""Spans of addresses that lie apart, kept in their order: so each new one is compared with its neighbours alone."""

from __future__ import annotations

from anydml.engines.cpu.kernels.ir import copy, load, store
from anydml.engines.cpu.kernels.language import helper, uint64

SPAN = 16
"""Bytes of a span: the lowest address, and the one past the highest."""


@helper
def takes_place(spans, count, low, high):
    """Put a span among others, unless it overlaps one of them: 1 if it was put there, else 0.

    Args:
        spans: address of the others, in order, with room for one more.
        count: how many there are.
        low: the new one's lowest address.
        high: the one past its highest.
    """
    place, end = uint64(0), count
    # Arrays that are made one after the other mostly follow each other.
    if count == uint64(0) or load(spans + uint64(SPAN) * count - uint64(8)) <= low:
        place = count
    while place < end:
        middle = (place + end) >> uint64(1)
        if load(spans + uint64(SPAN) * middle + uint64(8)) <= low:
            place = middle + uint64(1)
        else:
            end = middle
    if place < count and load(spans + uint64(SPAN) * place) < high:
        return uint64(0)
    while count > place:
        at = spans + uint64(SPAN) * count
        copy(at, at - uint64(SPAN), uint64(SPAN))
        count -= uint64(1)
    at = spans + uint64(SPAN) * place
    store(at, low)
    store(at + uint64(8), high)
    return uint64(1)
