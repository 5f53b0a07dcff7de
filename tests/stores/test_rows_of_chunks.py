"""Rows of chunks, which are moved together: each chunk lies packed in the packed elements of its row."""

import math

import numpy as np
import pytest

from anydml import stores
from anydml.stores.formats.chunk_grid import ChunkGrid

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')


def drawn(rng):
    """A grid, perhaps of shards, and a box of whole chunks, or up to the end of the array."""
    rank = int(rng.integers(1, 5))
    chunk = tuple(map(int, rng.integers(1, 4, rank)))
    counts = rng.integers(1, 5, rank)
    shape = tuple(int(c * n - rng.integers(0, c)) for c, n in zip(chunk, counts, strict=True))
    shard = (
        None if rng.random() < 0.5 else tuple(int(c * k) for c, k in zip(chunk, rng.integers(1, 4, rank), strict=True))
    )
    grid = ChunkGrid(shape, chunk, np.dtype("i4"), 3, "/", True, None, True, bytes(4), chunk, shard=shard)
    firsts = [int(rng.integers(0, n)) for n in counts]
    lasts = [int(rng.integers(first, n)) + 1 for first, n in zip(firsts, counts, strict=True)]
    ends = zip(firsts, lasts, chunk, shape, strict=True)
    return grid, tuple((first * c, min(last * c, size)) for first, last, c, size in ends)


@pytest.mark.parametrize("seed", range(60))
def test_rows(seed):
    rng = np.random.default_rng(seed)
    grid, box = drawn(rng)
    most = int(rng.integers(1, 6))
    rows = [*grid.rows(box, most)]
    assert sorted(chunk for row in rows for chunk in row) == sorted(grid.intersecting(box))
    for row in rows:
        assert len(row) <= most
        assert len({grid.chunk_location(chunk)[0] for chunk in row if grid.shard}) <= 1
        first, counts = np.array(row[0]), np.array(row[-1]) - row[0] + 1
        assert math.prod(counts) == len(row)
        elements = np.random.default_rng(0).random(counts * grid.chunk)
        for chunk, packed in zip(row, elements.reshape(len(row), -1), strict=True):
            low = (np.array(chunk) - first) * grid.chunk
            inside = tuple(slice(a, a + c) for a, c in zip(low, grid.chunk, strict=True))
            assert (elements[inside].ravel() == packed).all()


def test_rows_are_as_long_as_may_be():
    grid = ChunkGrid((8, 8), (1, 2), np.dtype("i4"), 3, "/", True, None, True, bytes(4), (1, 2))
    assert [*map(len, grid.rows(((0, 8), (0, 4)), 8))] == [8, 8]
    assert [*map(len, grid.rows(((0, 2), (0, 8)), 8))] == [4, 4]
    assert [*map(len, grid.rows(((0, 8), (0, 8)), 5))] == [5, 3] * 4


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("shards", [None, (8, 8, 6)])
@pytest.mark.parametrize("chunks", [(2, 4, 3), (1, 1, 3), (1, 8, 2), (40, 1, 1)])
def test_arrays(tmp_path, chunks, shards, codec):
    """Also at the ends of the array, whose chunks have elements outside it, and with chunks of fill values."""
    x = np.random.default_rng(1).integers(0, 9, (37, 21, 11)).astype("i4")
    x[8:16, :8] = 0
    np.save(tmp_path / "x.npy", x)
    if shards and any(a % b for a, b in zip(shards, chunks, strict=True)):
        shards = tuple(map(math.prod, zip(chunks, (2, 3, 2), strict=True)))
    stores.rechunk(tmp_path / "x.npy", tmp_path / "y", chunks, shards=shards, codec=codec, memory="300kB").run()
    found = zarr.open_array(str(tmp_path / "y"), mode="r")
    assert found.chunks == chunks
    assert (found[...] == x).all()
    back = {"permute": (1, 0, 2), "flip": [2], "memory": "300kB"}
    stores.rechunk(tmp_path / "y", tmp_path / "z", (5, 9, 2), shards=(), codec=codec, **back).run()
    assert (zarr.open_array(str(tmp_path / "z"), mode="r")[...] == x.transpose(1, 0, 2)[:, :, ::-1]).all()
