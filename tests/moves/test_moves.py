"""Moves: `simplify` as a property, by brute force; extents; and what an index stands for."""

import itertools
import math

import numpy as np
import pytest

from anydml.moves import Access, Lookup, Move, byte_range, resolve, simplify

INDICES = {"int32": 5, "int64": 6, "uint32": 7, "uint64": 8}
"""Operands that hold indices, one a type."""
ENTRIES = 60


def index_operands(rng):
    """Index tensors with values in and out of range."""
    return {
        number: rng.integers(max(np.iinfo(name).min, -4), 9, ENTRIES).astype(name) for name, number in INDICES.items()
    }


def address(access, at, operands):
    """An access by its definition, in plain integers."""
    total = access.offset + sum(c * s for c, s in zip(at, access.strides, strict=True))
    for lookup in access.lookups:
        place = lookup.offset + sum(c * s for c, s in zip(at, lookup.strides, strict=True))
        assert place % np.dtype(lookup.dtype).itemsize == 0
        index = int(operands[lookup.operand][place // np.dtype(lookup.dtype).itemsize])
        index = index + lookup.size if index < 0 else index
        total += min(max(index, 0), lookup.size - 1) * lookup.stride
    return total


def byte_pairs(moves, operands):
    """Every (destination byte, source byte) that moves touch, each as often as it is moved."""
    return sorted(
        ((move.destination.operand, to + i), (move.source.operand, at + i))
        for move in moves
        for c in itertools.product(*map(range, move.sizes))
        for to, at in [(address(move.destination, c, operands), address(move.source, c, operands))]
        for i in range(move.element_size)
    )


def random_access(rng, operand, sizes, lookups):
    """Strides that often merge: products of the sizes, with gaps, zeros and either sign."""
    strides, step = [0] * len(sizes), int(rng.choice([1, 2, 4]))
    for d in rng.permutation(len(sizes)) if rng.random() < 0.5 else reversed(range(len(sizes))):
        strides[d] = step * int(rng.choice([1, 1, 1, -1, 0 if operand else 1]))
        step *= sizes[d] + int(rng.random() < 0.2)
    return Access(operand, int(rng.integers(0, 9)), tuple(strides), tuple(lookups))


def random_lookup(rng, sizes):
    """A lookup whose index strides stay inside its operand, or None."""
    name = str(rng.choice(list(INDICES)))
    item = np.dtype(name).itemsize
    # Merging neighbours needs an index that either moves on with both or stands still.
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step * item * int(rng.choice([0, 1, 1, -1])))
        step *= size
    strides.reverse()
    lowest = sum(min(0, s * (n - 1)) for s, n in zip(strides, sizes, strict=True))
    highest = sum(max(0, s * (n - 1)) for s, n in zip(strides, sizes, strict=True))
    if highest - lowest >= ENTRIES * item:
        return None
    return Lookup(
        INDICES[name], name, -lowest, tuple(strides), int(rng.integers(1, 7)), int(rng.choice([1, 4, 12, -4]))
    )


def random_move(rng):
    sizes = [int(rng.choice([1, 2, 3, 4])) for _ in range(int(rng.integers(0, 5)))]
    lookups = [
        lookup for _ in range(int(rng.choice([0, 0, 1, 1, 2]))) for lookup in [random_lookup(rng, sizes)] if lookup
    ]
    at_end = rng.random() < 0.2
    return Move(
        tuple(sizes),
        random_access(rng, 1, sizes, lookups if at_end else ()),
        random_access(rng, 0, sizes, () if at_end else lookups),
        int(rng.choice([1, 2, 4])),
    )


def random_moves():
    rng = np.random.default_rng(11)
    for _ in range(1500):
        yield index_operands(rng), random_move(rng)


def test_simplify_keeps_every_pair_of_bytes():
    simpler = looked_up = 0
    for operands, move in random_moves():
        result = simplify([move])
        assert byte_pairs(result, operands) == byte_pairs([move], operands), str(move)
        simpler += result != (move,)
        looked_up += move.has_lookups
    assert simpler > 500
    assert looked_up > 500


def test_simplified_moves_have_the_one_form():
    for _, move in random_moves():
        (result,) = simplify([move])
        assert simplify([result]) == (result,)
        assert 1 not in result.sizes
        if not result.destination.lookups:
            assert all(stride >= 0 for stride in result.destination.strides)
            assert list(result.destination.strides) == sorted(result.destination.strides, reverse=True)
        assert result.bytes_written == move.bytes_written


def move(sizes, to, at, element=4, offset=0):
    return Move(sizes, Access(1, 0, to), Access(0, offset, at), element)


@pytest.mark.parametrize(
    "given, expected",
    [
        (move((2, 3), (12, 4), (12, 4)), move((), (), (), 24)),
        (move((2, 3), (12, 4), (24, 4)), move((2,), (12,), (24,), 12)),
        (move((2, 3), (4, 8), (4, 8)), move((), (), (), 24)),
        (move((2, 3), (12, 4), (24, 8)), move((6,), (4,), (8,))),
        (move((5,), (4,), (-4,), offset=16), move((5,), (4,), (-4,), offset=16)),
        (move((1, 5, 1), (99, 8, 7), (1, 12, 0)), move((5,), (8,), (12,))),
        (move((4,), (4,), (0,)), move((4,), (4,), (0,))),
        (move((2, 3), (4, 8), (12, 4)), move((3, 2), (8, 4), (4, 12))),
    ],
)
def test_simplify_by_example(given, expected):
    assert simplify([given]) == (expected,)


def test_a_destination_that_walks_backwards_is_turned_around():
    given = Move((3,), Access(1, 8, (-4,)), Access(0, 0, (4,)), 4)
    assert simplify([given]) == (Move((3,), Access(1, 0, (4,)), Access(0, 8, (-4,)), 4),)
    both = Move((3,), Access(1, 8, (-4,)), Access(0, 8, (-4,)), 4)
    assert simplify([both]) == (Move((), Access(1, 0, ()), Access(0, 0, ()), 12),)


def test_moves_of_nothing_are_dropped():
    assert simplify([move((0,), (4,), (4,)), move((2, 0, 3), (4, 4, 4), (4, 4, 4)), move((2,), (0,), (0,), 0)]) == ()
    assert len(simplify([move((2,), (8,), (8,)), move((0,), (4,), (4,))])) == 1


def test_rows_that_a_lookup_picks_become_elements():
    lookup = Lookup(2, "int64", 0, (8, 0), 10, 24)
    given = Move((5, 6), Access(1, 0, (24, 4)), Access(0, 0, (0, 4), (lookup,)), 4)
    picked = Lookup(2, "int64", 0, (8,), 10, 24)
    assert simplify([given]) == (Move((5,), Access(1, 0, (24,)), Access(0, 0, (0,), (picked,)), 24),)


def test_extents_by_brute_force():
    for operands, given in random_moves():
        for access in (given.destination, given.source):
            spots = [address(access, c, operands) for c in itertools.product(*map(range, given.sizes))]
            first, end = byte_range(access, given.sizes, given.element_size)
            assert first <= min(spots)
            assert max(spots) + given.element_size <= end
            if not access.lookups:
                assert (first, end) == (min(spots), max(spots) + given.element_size)


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
@pytest.mark.parametrize("size", [1, 2, 7, 100, 2**31, 2**40])
def test_resolve_wraps_once_and_clamps(name, size):
    low, high = np.iinfo(name).min, np.iinfo(name).max
    values = [low, low + 1, -size - 1, -size, 1 - size, -2, -1, 0, 1, size - 1, size, size + 1, high - 1, high]
    values = [v for v in values if low <= v <= high]
    indices = np.array(values, name)
    result = resolve(indices, size)
    assert result.dtype == np.int64
    assert result.tolist() == [min(max(v + size if v < 0 else v, 0), size - 1) for v in values]
    assert indices.tolist() == values


def test_moves_explain_themselves():
    lookup = Lookup(2, "int64", 0, (8,), 10, 24)
    given = Move((5,), Access(1, 0, (24,)), Access(0, 48, (0,), (lookup,)), 24)
    assert str(given) == "5 of 24 B: #1[24·c0] = #0[48 + 24·index2[8·c0]]"
    assert str(move((2, 3), (12, 4), (0, 4))) == "2×3 of 4 B: #1[12·c0 + 4·c1] = #0[4·c1]"
    assert str(move((), (), ())) == "1 of 4 B: #1[0] = #0[0]"
    assert math.prod(given.sizes) * given.element_size == given.bytes_written == 120


def test_bytes_to_read_count_indices_and_leave_out_repetition():
    from anydml.moves import Access, Lookup, Move

    plain = Move((4, 6), Access(1, 0, (48, 8)), Access(0, 0, (48, 8)), 8)
    assert (plain.bytes_read, plain.bytes_written) == (4 * 6 * 8, 4 * 6 * 8)
    repeated = Move((4, 6), Access(1, 0, (48, 8)), Access(0, 0, (0, 8)), 8)
    assert (repeated.bytes_read, repeated.bytes_written) == (6 * 8, 4 * 6 * 8)
    looked_up = Access(0, 0, (80, 0), (Lookup(1, "int32", 0, (0, 4), 10, 8),))
    gathered = Move((4, 6), Access(2, 0, (48, 8)), looked_up, 8)
    assert (gathered.bytes_read, gathered.bytes_written) == (4 * 6 * 8 + 6 * 4, 4 * 6 * 8)
