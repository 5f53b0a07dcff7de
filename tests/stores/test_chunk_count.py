"""Chunks that boxes have elements of, against sets of them."""

import itertools

import numpy as np
import pytest

from anydml.errors import BindingError
from anydml.stores.formats.zarr_array import ChunkGrid
from anydml.stores.planning import covered as chunk_count
from anydml.stores.planning.block_list import MOST_CHUNKS
from anydml.stores.planning.covered import ChunkCount


def layout(shape, chunk):
    return ChunkGrid(
        tuple(shape), tuple(chunk), np.dtype("f4"), 2, ".", False, {"id": "gzip"}, True, bytes(4), tuple(chunk)
    )


@pytest.mark.parametrize("enough", [0, 3, chunk_count.ENOUGH])
@pytest.mark.parametrize("seed", range(20))
def test_chunks_of_boxes_are_counted_once_and_as_often_as_read(seed, enough, monkeypatch):
    monkeypatch.setattr(chunk_count, "ENOUGH", enough)
    rng = np.random.default_rng(seed)
    shape = [int(n) for n in rng.integers(1, 12, rng.integers(0, 4))]
    chunk = [int(rng.integers(1, n + 1)) for n in shape]
    count, expected = ChunkCount("x", layout(shape, chunk)), []
    for _ in range(12):
        ends = [sorted(int(n) for n in rng.choice(n + 1, 2, replace=False)) for n in shape]
        count.add(tuple(map(tuple, ends)))
        expected += itertools.product(
            *(range(low // c, -(-high // c)) for (low, high), c in zip(ends, chunk, strict=True))
        )
    assert (count.count, count.distinct) == (len(expected), len({*expected}))


def test_too_many_chunks_are_refused_where_they_become_too_many():
    """What is counted by then takes little: a claim in a file of a few bytes is refused at once."""
    count = ChunkCount("x", layout((2**40, 6), (2, 3)))
    step, boxes = 1 << 21, 0
    with pytest.raises(BindingError, match="chunks of what is read"):
        for boxes in range(100):
            count.add(((boxes * step, (boxes + 1) * step), (0, 6)))
    assert boxes == MOST_CHUNKS // step
