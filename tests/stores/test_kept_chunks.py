"""Decoded chunks that are kept in a file, which lie there as blocks need them: long reads of exactly their bytes."""

import numpy as np
import pytest

import anydml
from anydml import stores
from anydml.stores.planning import grid_blocking
from anydml.stores.running import chunk_reader, grid_blocks, kept_chunks

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

X = np.arange(40 * 48 * 56, dtype="f4").reshape(40, 48, 56)


@pytest.fixture
def kept(monkeypatch):
    """Bytes of each request that reads kept chunks."""
    found = []

    class Counted(kept_chunks.PlainFile):
        def read(self, view, at):
            found.append(len(view))
            super().read(view, at)

    class Kept(kept_chunks.KeptChunks):
        def __init__(self, folder, *given):
            super().__init__(folder, *given)
            self.file = Counted(folder, True, False, self._held.fileno())

    monkeypatch.setattr(grid_blocks, "KeptChunks", Kept)
    return found


@pytest.mark.parametrize(
    "options", [{}, {"filters": [zarr.codecs.TransposeCodec(order=(1, 0, 2))]}, {"shards": (8, 48, 56)}]
)
@pytest.mark.parametrize("most", [4 << 20, 20_000])
@pytest.mark.parametrize(
    "chunks, new",
    [
        ((8, 48, 56), (40, 48, 4)), ((8, 48, 56), (40, 4, 56)), ((40, 6, 56), (4, 48, 56)), ((7, 48, 56), (40, 48, 5)),
        ((8, 48, 56), (40, 12, 7)), ((8, 5, 56), (40, 48, 3)),
    ],
)  # fmt: skip
def test_blocks_read_kept_chunks_by_long_requests(tmp_path, kept, monkeypatch, chunks, new, options, most):
    monkeypatch.setattr(chunk_reader, "KEPT_READ", most)
    if "shards" in options and chunks != (8, 48, 56):
        options = {}
    zarr.create_array(str(tmp_path / "x"), data=X, chunks=chunks, **options)
    plan = stores.rechunk(tmp_path / "x", tmp_path / "y", new, memory="450kB", shards=(), codec="none")
    assert plan.blocking.kept
    plan.run()
    sizes = [*kept]
    assert plan.verify() is None
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "y"), mode="r")[...], X)
    # The first block that needs a chunk takes its part when it is decoded.
    most = max(plan.blocking.span, min(most, 2 * plan.inputs[0].layout.chunk_bytes))
    assert 0 < sum(sizes) <= X.nbytes
    assert max(sizes) <= most
    # Two requests that follow each other are more than one may be.
    assert len(sizes) <= 2 * sum(sizes) / most + len(plan.blocks)


@pytest.mark.parametrize("seed", range(4))
def test_blocks_in_any_order_find_what_they_need(tmp_path, kept, seed):
    zarr.create_array(str(tmp_path / "x"), data=X, chunks=(7, 20, 56))
    plan = stores.rechunk(tmp_path / "x", tmp_path / "y", (40, 5, 9), memory="450kB", codec="none")
    assert plan.blocking.kept
    order = np.random.default_rng(seed).permutation(len(plan.blocks)).tolist()
    write = grid_blocks.GridBlocks.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid_blocks.GridBlocks, "write", lambda self, _, finished: write(self, order, finished))
        plan.run()
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "y"), mode="r")[...], X)


@pytest.mark.parametrize("times", [2, 40])
def test_kept_chunks_take_no_more_disk_than_some_inputs(tmp_path, monkeypatch, times):
    x, sizes = np.arange(1 << 18, dtype="i4").reshape(64, 4096), list[int]()

    class Kept(kept_chunks.KeptChunks):
        def close(self):
            sizes.append(self._held.seek(0, 2))
            super().close()

    monkeypatch.setattr(grid_blocks, "KeptChunks", Kept)
    zarr.create_array(str(tmp_path / "x"), data=x, chunks=(4, 4096))
    out = stores.create(tmp_path / "y.zarr", (times * 4096, 64), x.dtype, chunks=(256, 64))
    function = anydml.fuse(lambda x: np.concatenate([x.T] * times))
    function.plan(stores.open(tmp_path / "x"), out, "300kB").run()
    y = zarr.open_array(str(tmp_path / "y.zarr"), mode="r")
    np.testing.assert_array_equal(y[...], np.concatenate([x.T] * times))
    assert bool(sizes) == (times == 2)
    assert all(size <= 4 * x.nbytes for size in sizes)


def test_where_too_many_boxes_would_be_kept_chunks_are_decoded_again(tmp_path, monkeypatch):
    zarr.create_array(str(tmp_path / "x"), data=X, chunks=(8, 48, 56))
    plan = stores.rechunk(tmp_path / "x", tmp_path / "y", (40, 48, 4), memory="450kB", codec="none")
    boxes = len(plan.blocking.kept_boxes)
    assert plan.blocking.kept
    assert boxes >= len(plan.blocks)
    monkeypatch.setattr(grid_blocking, "MAX_BLOCKS", boxes - 1)
    plan = stores.rechunk(tmp_path / "x", tmp_path / "y", (40, 48, 4), memory="450kB", codec="none")
    assert not plan.blocking.kept
    plan.run()
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "y"), mode="r")[...], X)
