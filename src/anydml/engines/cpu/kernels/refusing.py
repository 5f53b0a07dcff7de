"""Indices that lie outside their axis where a lookup refuses them: asked before anything is written.

A lookup has these words: its operand, the offset there, its dtype's number, the axis's size, the number of dimensions,
sizes, strides.
"""

from __future__ import annotations

from anydml.engines.cpu.kernels.driver import walk, word
from anydml.engines.cpu.kernels.indices import is_outside
from anydml.engines.cpu.kernels.ir import load
from anydml.engines.cpu.kernels.language import helper, uint64

DTYPES = {"int32": 0, "uint32": 1, "int64": 2, "uint64": 3}
"""Numbers of indices' dtypes."""

CHECK_HEADER = 5


@helper
def is_refused(spot, axis, kind):
    """Whether the index at an address, whose dtype has a number, lies outside the axis."""
    if kind == uint64(0):
        return is_outside(spot, axis, -32) != uint64(0)
    if kind == uint64(1):
        return is_outside(spot, axis, 32) != uint64(0)
    if kind == uint64(2):
        return is_outside(spot, axis, -64) != uint64(0)
    return is_outside(spot, axis, 64) != uint64(0)


@helper
def are_all_inside(check, checks, addresses, step):
    """Whether no index lies outside an axis that refuses it.

    Args:
        check: where the first lookup's words are.
        checks: how many lookups there are.
        addresses: where the address of the first operand's first element stands.
        step: bytes from there to the next one's.
    """
    for _ in range(checks):
        first = load(addresses + step * word(check, 0)) + word(check, 1)
        kind, axis, rank = word(check, 2), word(check, 3), word(check, 4)
        sizes = check + uint64(8 * CHECK_HEADER)
        strides = sizes + uint64(8) * rank
        count = uint64(1)
        for d in range(rank):
            count *= load(sizes + uint64(8) * uint64(d))
        for index in range(count):
            if is_refused(first + walk(sizes, rank, uint64(index), strides, uint64(8)), axis, kind):
                return False
        check = strides + uint64(8) * rank
    return True
