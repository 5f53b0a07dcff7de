"""Shards whose chunks are read and written one by one: any place of the index, missing chunks, broken files, memory."""

import json
import struct

import numpy as np
import pytest

from anydml import stores
from anydml.errors import BindingError, ModelError

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
ZSTD = {"name": "zstd", "configuration": {"level": 1, "checksum": False}}
SUM = {"name": "crc32c"}
EMPTY = (1 << 64) - 1


def made(path, shape, shard, chunk, codecs=(LITTLE, ZSTD), index=(LITTLE, SUM), location="end", fill=0, dtype="int32"):
    """An array of zarr-python's with these shards."""
    said = {"chunk_shape": chunk, "codecs": [*codecs], "index_codecs": [*index], "index_location": location}
    path.mkdir()
    metadata = {
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": dtype, "fill_value": fill,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": shard}}, "attributes": {},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "codecs": [{"name": "sharding_indexed", "configuration": said}],
    }  # fmt: skip
    (path / "zarr.json").write_text(json.dumps(metadata))
    return zarr.open_array(str(path), mode="r+")


@pytest.mark.parametrize("location, index", [("start", (LITTLE, SUM)), ("end", (LITTLE,)), ("end", (LITTLE, SUM))])
@pytest.mark.parametrize("codecs", [(LITTLE,), (LITTLE, ZSTD)], ids=["plain", "zstd"])
def test_there_and_back(tmp_path, codecs, index, location):
    x = np.random.default_rng(3).integers(-9, 9, (23, 19, 5)).astype("i4")
    array = made(tmp_path / "x", [*x.shape], [8, 8, 6], [4, 2, 3], codecs, index, location, 7)
    # Whole shards, and chunks of others, have fill values only.
    x[:9, :10] = x[16:20, 8:10] = 7
    array[...] = x
    store = stores.open(tmp_path / "x")
    assert store.layout.is_own
    assert (store.read() == x).all()
    stores.rechunk(tmp_path / "x", tmp_path / "y.npy", memory="30kB").run()
    assert (np.load(tmp_path / "y.npy") == x).all()
    stores.rechunk(tmp_path / "x", tmp_path / "z", chunks=[2, 4, 1], memory="30kB").run()
    found = zarr.open_array(str(tmp_path / "z"), mode="r")
    assert (found.chunks, found.shards) == ((2, 4, 1), (8, 8, 6))
    assert (found[...] == x).all()
    assert stores.verify(tmp_path / "x", tmp_path / "z", memory="1MB") is None
    stores.rechunk(tmp_path / "y.npy", tmp_path / "w", chunks=[4, 4, 4], shards=[8, 12, 8]).run()
    assert (zarr.open_array(str(tmp_path / "w"), mode="r")[...] == x).all()


def test_chunks_of_fill_values_are_left_out(tmp_path):
    x = np.zeros((16, 8), "f4")
    x[1, 1] = -0.0
    x[2, 6] = 1
    np.save(tmp_path / "x.npy", x)
    stores.rechunk(tmp_path / "x.npy", tmp_path / "y", chunks=[4, 4], shards=[8, 8], codec="none").run()
    assert [path.name for path in (tmp_path / "y" / "c").rglob("*") if path.is_file()] == ["0"]
    data = (tmp_path / "y" / "c" / "0" / "0").read_bytes()
    entries = struct.unpack("<8Q", data[-68:-4])
    assert sorted(entries[:4:2]) == [0, 64]
    assert entries[4:] == (EMPTY,) * 4
    found = zarr.open_array(str(tmp_path / "y"), mode="r")[...]
    assert found.tobytes() == x.tobytes()


def test_equal_numbers_of_other_bytes_are_kept(tmp_path):
    for dtype, value in ("c16", complex(-0.0, -0.0)), ("f8", -0.0), ("f2", -0.0):
        x = np.full((4, 4), value, dtype)
        np.save(tmp_path / f"{dtype}.npy", x)
        stores.rechunk(tmp_path / f"{dtype}.npy", tmp_path / dtype, chunks=[2, 2], shards=[4, 4]).run()
        assert stores.open(tmp_path / dtype).layout.is_own
        assert zarr.open_array(str(tmp_path / dtype), mode="r")[...].tobytes() == x.tobytes()
    x = np.full((4, 4), complex(np.nan, 1))
    np.save(tmp_path / "x.npy", x)
    stores.rechunk(tmp_path / "x.npy", tmp_path / "x", chunks=[2, 2], shards=[4, 4]).run()
    assert zarr.open_array(str(tmp_path / "x"), mode="r")[...].tobytes() == x.tobytes()


def test_shards_of_more_than_half_the_memory(tmp_path):
    """A shard is moved as a whole, and its chunks are encoded as they come."""
    x = np.arange(1 << 19, dtype="i4").reshape(512, 1024)
    np.save(tmp_path / "x.npy", x)
    shards, memory = [256, 1024], "1600kB"
    stores.rechunk(tmp_path / "x.npy", tmp_path / "y", chunks=[16, 64], shards=shards, memory=memory).run()
    assert (zarr.open_array(str(tmp_path / "y"), mode="r")[...] == x).all()
    plan = stores.rechunk(tmp_path / "y", tmp_path / "z", chunks=[8, 128], shards=shards, memory=memory)
    assert plan.totals.bytes_read_again == 0
    plan.run()
    assert (zarr.open_array(str(tmp_path / "z"), mode="r")[...] == x).all()
    assert stores.verify(tmp_path / "y", tmp_path / "z", memory="300kB") is None
    with pytest.raises(BindingError, match="memory"):
        stores.rechunk(tmp_path / "x.npy", tmp_path / "w", chunks=[16, 64], shards=[512, 1024], memory=memory)


@pytest.mark.parametrize("codecs", [(LITTLE,), (LITTLE, ZSTD)], ids=["plain", "zstd"])
def test_broken_shards(tmp_path, codecs):
    x = np.arange(1, 65, dtype="i4").reshape(8, 8)
    array = made(tmp_path / "x", [8, 8], [8, 8], [4, 4], codecs)
    array[...] = x
    file = tmp_path / "x" / "c" / "0" / "0"
    whole = file.read_bytes()
    entries = np.frombuffer(whole[-68:-4], "<u8").reshape(4, 2)

    def with_index(changed):
        import google_crc32c

        data = changed.astype("<u8").tobytes()
        return whole[:-68] + data + google_crc32c.value(data).to_bytes(4, "little")

    beyond, long, short, huge = (entries.copy() for _ in range(4))
    beyond[2, 0], long[1, 1], short[1, 1], huge[3, 0] = len(whole), 1 << 40, 3, EMPTY
    for broken in (
        whole[:-68] + bytes(1) + whole[-67:],
        whole[:40],
        b"",
        *map(with_index, (beyond, long, short, huge)),
    ):
        if broken == whole:
            continue
        file.write_bytes(broken)
        with pytest.raises(ModelError) as raised:
            stores.rechunk(tmp_path / "x", tmp_path / "y.npy").run()
        assert str(file) in str(raised.value)
        assert "of a shard" in str(raised.value) or "shorter" in str(raised.value)
        assert not (tmp_path / "y.npy").exists()


def test_more_chunks_than_a_plan_may_have_files(tmp_path, monkeypatch):
    monkeypatch.setattr("anydml.stores.planning.block_list.MAX_CHUNKS", 8)
    monkeypatch.setattr("anydml.stores.planning.interval_unions.MAX_CHUNKS", 8)
    x = np.arange(64 * 8, dtype="i4").reshape(64, 8)
    array = made(tmp_path / "x", [64, 8], [16, 8], [2, 2])
    array[...] = x
    stores.rechunk(tmp_path / "x", tmp_path / "y", chunks=[4, 4]).run()
    assert (zarr.open_array(str(tmp_path / "y"), mode="r")[...] == x).all()
