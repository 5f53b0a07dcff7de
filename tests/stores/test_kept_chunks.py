"""Decoded chunks that are kept in a file, which lie there as blocks need them: long reads of exactly their bytes."""

import numpy as np
import pytest

import anydml
from anydml import stores
from anydml.stores.planning import grid_blocking, shares
from anydml.stores.running import chunk_reader, grid_blocks, spilled_chunks

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

X = np.arange(40 * 48 * 56, dtype="f4").reshape(40, 48, 56)


@pytest.fixture
def kept(monkeypatch):
    """Bytes of each request that reads kept chunks."""
    found = []

    class Counted(spilled_chunks.PlainFile):
        def read(self, view, at):
            found.append(len(view))
            super().read(view, at)

    class Kept(spilled_chunks.SpilledChunks):
        def __init__(self, folder, *given):
            super().__init__(folder, *given)
            self.file = Counted(folder, True, False, self._held.fileno())

    monkeypatch.setattr(grid_blocks, "SpilledChunks", Kept)
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
    most = max(plan.blocking.shares.span, min(most, 2 * plan.inputs[0].layout.chunk_bytes))
    assert 0 < sum(sizes) <= X.nbytes
    assert max(sizes) <= most
    # Two requests that follow each other are more than one may be; what waits in memory is left out of them.
    assert len(sizes) <= 2 * X.nbytes / most + 2 * len(plan.blocks)


@pytest.mark.parametrize("seed", range(4))
def test_blocks_in_any_order_find_what_they_need(tmp_path, kept, seed):
    zarr.create_array(str(tmp_path / "x"), data=X, chunks=(7, 48, 56))
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

    class Kept(spilled_chunks.SpilledChunks):
        def close(self):
            sizes.append(self._held.seek(0, 2))
            super().close()

    monkeypatch.setattr(grid_blocks, "SpilledChunks", Kept)
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


def traced(monkeypatch):
    """Bytes of each request that writes kept chunks, and the largest file."""
    written, ends = [], [0]

    class Counted(spilled_chunks.PlainFile):
        def write_several(self, views, at):
            written.append(sum(map(len, views)))
            ends[0] = max(ends[0], at + written[-1])
            super().write_several(views, at)

    monkeypatch.setattr(spilled_chunks, "PlainFile", Counted)
    return written, ends


def test_kept_chunks_are_written_by_long_requests(tmp_path, monkeypatch):
    written, ends = traced(monkeypatch)
    x = np.random.default_rng(0).integers(0, 99, (128, 256, 256), np.int32)
    zarr.create_array(str(tmp_path / "x"), data=x, chunks=(2, 256, 256))
    plan = stores.rechunk(tmp_path / "x", tmp_path / "y", (128, 32, 32), memory="32MB", codec="none")
    assert plan.blocking.kept
    plan.run()
    assert plan.verify() is None
    assert sum(written) > x.nbytes // 4
    assert sum(written) / len(written) >= 4 << 20
    assert ends[0] <= x.nbytes


@pytest.mark.parametrize("memory", [0, 3000, 20_000])
def test_what_waits_stays_within_its_memory(tmp_path, monkeypatch, memory):
    most = [0]
    add = spilled_chunks.SpilledChunks._add

    def watched(self, *arguments):
        add(self, *arguments)
        most[0] = max(most[0], sum(piece.nbytes for pieces in [*self._pieces.values()] for _, piece in pieces))

    monkeypatch.setattr(spilled_chunks.SpilledChunks, "_add", watched)
    monkeypatch.setattr(grid_blocking.GridBlocking, "waiting_bytes", memory)
    monkeypatch.setattr(shares, "THREADS", 1)
    zarr.create_array(str(tmp_path / "x"), data=X, chunks=(7, 48, 56))
    plan = stores.rechunk(tmp_path / "x", tmp_path / "y", (40, 5, 9), memory="450kB", codec="none")
    assert plan.blocking.kept
    plan.run()
    assert most[0] <= memory
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "y"), mode="r")[...], X)


def test_the_file_has_only_what_later_blocks_need(tmp_path, monkeypatch):
    _, ends = traced(monkeypatch)
    monkeypatch.setattr(shares, "GATHERED", 1 << 16)
    x = np.arange(16 * 64 * 64 * 8, dtype="i4").reshape(16, 64, 64, 8)
    zarr.create_array(str(tmp_path / "x"), data=x, chunks=(1, 4, 64, 8))
    plan = stores.rechunk(tmp_path / "x", tmp_path / "y", (1, 64, 8, 8), memory="80kB", codec="none")
    assert plan.blocking.kept
    plan.run()
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "y"), mode="r")[...], x)
    # Chunks are shared only by blocks of one of sixteen parts.
    assert 0 < ends[0] <= x.nbytes // 16


@pytest.mark.parametrize("seed", range(20))
def test_places_never_overlap_and_are_used_again(seed):
    random = np.random.default_rng(seed)
    sizes = random.integers(1, 50, 200)
    places, alive, most = spilled_chunks.Places(sizes), {}, 0
    for number in range(200):
        start = places.start(number)
        assert places.start(number) == start
        assert all(start >= low + sizes[k] or start + sizes[number] <= low for k, low in alive.items())
        alive[number] = start
        most = max(most, sum(sizes[k] for k in alive))
        for k in [k for k in alive if random.random() < 0.3]:
            places.release(k)
            del alive[k]
    # What is free between others is at most a few times what is alive.
    assert places._end <= 3 * most
    for k in alive:
        places.release(k)
    assert places._free in ([], [(0, places._end)])


@pytest.mark.parametrize("seed", range(20))
def test_pieces_that_wait_are_taken_by_the_longest_runs(seed, monkeypatch):
    monkeypatch.setattr(spilled_chunks, "MAX_RUNS_AT_ONCE", 4)
    random, waiting, pieces = np.random.default_rng(seed), {}, spilled_chunks.Pieces()
    ends = np.cumsum(random.integers(1, 9, 60))
    for number in random.permutation(59):
        at, piece = int(ends[number]), random.integers(0, 255, ends[number + 1] - ends[number], np.uint8)
        waiting[at] = piece
        pieces.add(at, piece)
        if random.random() < 0.2:
            start, taken = pieces.take_longest()
            length = sum(map(len, taken))
            for piece in taken:
                assert waiting.pop(start) is piece
                start += piece.size
            assert len(taken) == 4 or all(length >= len(piece) for piece in waiting.values())
        assert [*pieces] == sorted(waiting.items())
        assert pieces.size == sum(len(piece) + spilled_chunks.BYTES_PER_PIECE for piece in waiting.values())
