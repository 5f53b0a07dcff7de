"""Large work is cut so that every thread gets some, and so that a caller soon looks for Ctrl-C."""

import pytest
from anydml.engines.cpu.kernels.driver import UNITS, UNITS_PER_CLAIM
from anydml.engines.cpu.pool import ROUND

from anydml.engines.cpu import engine
from anydml.moves import Access, Lookup, Move, simplify

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def rows_by_index(size, count):
    looked = Lookup(2, "int64", 0, (8,), 1000, size)
    return [Move((count,), Access(0, 0, (size,)), Access(1, 0, (0,), (looked,)), size)]


WORK = {
    "one run": [Move((), Access(0, 0, ()), Access(1, 0, ()), 4 * GIB)],
    "four runs": [Move((4,), Access(0, 0, (GIB,)), Access(1, 0, (2 * GIB,)), GIB)],
    "many rows": [Move((10 * MIB,), Access(0, 0, (400,)), Access(1, 0, (900,)), 400)],
    **{f"rows of {size} by index": rows_by_index(size, 4 * GIB // size) for size in (100, 100 * KIB, MIB, 16 * MIB)},
    "elements by index": rows_by_index(4, GIB),
    "lines by index": [
        Move((5000, MIB), Access(0, 0, (4 * MIB, 4)),
             Access(1, 0, (4 * MIB, 0), (Lookup(2, "int64", 0, (0, 8), MIB, 4),)), 4)
    ],
    "transposed": [Move((65536, 65536), Access(0, 0, (65536, 1)), Access(1, 0, (1, 65536)), 1)],
    "reversed": [Move((GIB,), Access(0, 0, (4,)), Access(1, 0, (-4,)), 4)],
    "64 columns": [Move((GIB // 16,), Access(k, 0, (4,)), Access(64, 4 * k, (256,)), 4) for k in range(64)],
}  # fmt: skip


@pytest.mark.parametrize("name", WORK)
def test_claims_and_rounds_are_small_shares_of_the_whole(name):
    moves = simplify(WORK[name])
    total = sum(move.bytes_written for move in moves)
    assert total >= 2 * GIB
    for step in engine.program(name, WORK[name]).steps:
        units, claimed = int(step.template[UNITS]), int(step.template[UNITS_PER_CLAIM])
        assert units // claimed >= 64, "so few claims cannot be shared evenly"
        assert ROUND * claimed * (total // units) <= 260 * MIB, "so long nobody looks for Ctrl-C"
