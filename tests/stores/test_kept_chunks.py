"""Decoded chunks that are kept in a file: what a block needs of one is one request of exactly its bytes."""

import numpy as np
import pytest

from anydml import stores
from anydml.stores.running import chunked_arrays

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

X = np.arange(40 * 48 * 56, dtype="f4").reshape(40, 48, 56)


@pytest.fixture
def kept(monkeypatch):
    """Bytes of each request to files of kept chunks."""
    found = []

    class Counted(chunked_arrays.PlainFile):
        def read(self, view, at):
            found.append(len(view))
            super().read(view, at)

    class Kept(chunked_arrays._Kept):
        def __init__(self, folder):
            super().__init__(folder)
            self.file = Counted(folder, True, False, self._held.fileno())

    monkeypatch.setattr(chunked_arrays, "_Kept", Kept)
    return found


@pytest.mark.parametrize(
    "options", [{}, {"filters": [zarr.codecs.TransposeCodec(order=(1, 0, 2))]}, {"shards": (8, 48, 56)}]
)
@pytest.mark.parametrize(
    "chunks, new",
    [((8, 48, 56), (40, 48, 4)), ((8, 48, 56), (40, 4, 56)), ((40, 6, 56), (4, 48, 56)), ((7, 48, 56), (40, 48, 5))],
)
def test_a_block_takes_its_part_of_a_chunk_at_once(tmp_path, kept, chunks, new, options):
    if "shards" in options and chunks != (8, 48, 56):
        options = {}
    zarr.create_array(str(tmp_path / "x"), data=X, chunks=chunks, **options)
    plan = stores.rechunk(tmp_path / "x", tmp_path / "y", new, memory="450kB", shards=(), codec="none")
    assert plan.blocking.kept
    plan.run()
    sizes = [*kept]
    assert plan.verify() is None
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "y"), mode="r")[...], X)
    pieces = sum(len([*plan.inputs[0].layout.near(box)]) for k in range(len(plan.blocks))
                 for _, box in plan.blocking.regions(0, plan.blocks[k].area))  # fmt: skip
    # The first block that needs a chunk takes its part when it is decoded. No request is longer than the buffer.
    most = plan.blocking.span
    assert 0 < sum(sizes) <= X.nbytes
    assert len(sizes) <= pieces + X.nbytes // most
