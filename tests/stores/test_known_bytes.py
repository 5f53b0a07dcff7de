"""Known bytes of new files: equal to a file that is written byte by byte."""

import itertools

import numpy as np
import pytest

from anydml.stores.formats.known_bytes import KnownBytes


def drawn(rng):
    """Known bytes around elements, and the same bytes by their offsets."""
    kinds = int(rng.integers(1, 4))
    heads, sizes, tails = rng.integers(0, 6, (3, kinds))
    contents = tuple((rng.bytes(head), rng.bytes(tail)) for head, tail in zip(heads, tails, strict=True))
    kind = rng.integers(0, kinds, rng.integers(0, 9))
    places, at, expected = [], 0, []
    for number in kind.tolist():
        # A tensor may follow directly, or after a gap.
        at += int(rng.integers(0, 3))
        places.append(at + heads[number])
        expected += [(at, contents[number][0]), (int(places[-1] + sizes[number]), contents[number][1])]
        at = int(places[-1] + sizes[number] + tails[number])
    distances = np.stack([-heads, sizes], 1)
    known = KnownBytes(np.array(places, np.int64), kind, distances, np.stack([heads, tails], 1), contents)
    return known, expected, at


@pytest.mark.parametrize("seed", range(30))
def test_known_bytes_are_those_of_a_file_written_byte_by_byte(seed):
    rng = np.random.default_rng(seed)
    for known, expected, size in (drawn(rng), *((KnownBytes.of(parts), parts, n) for _, parts, n in [drawn(rng)])):
        file = dict(itertools.chain(*(enumerate(content, at) for at, content in expected)))
        assert [*known] == expected
        assert dict(itertools.chain(*(enumerate(content, at) for at, content in known.contiguous()))) == file
        bounds = np.sort(rng.integers(0, size + 3, (20, 2)))
        for low, high in bounds.tolist():
            buffer = np.full(high - low + 4, 7, np.uint8)
            known.put(*(np.array([number]) for number in (low, 2, high - low)), buffer)
            assert buffer.tolist() == [7, 7, *(file.get(at, 7) for at in range(low, high)), 7, 7]
            starts, ends = known.ranges(low, high)
            assert (starts[1:] > ends[:-1]).all()
            covered = {
                at for start, end in zip(starts.tolist(), ends.tolist(), strict=True) for at in range(start, end)
            }
            assert {at for at in file if low <= at < high} <= covered <= file.keys()
