"""Arrays that zarr-python reads: of what their files decode to, no more is made than chunks have, about."""

import json
import pickle
import tracemalloc

import numpy as np
import pytest

from anydml import stores
from anydml.errors import ModelError

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

LARGE, SMALL = 1 << 25, 1024


def codecs_of(kind):
    """What `zarr.create_array` is given so that zarr-python has to read the array."""
    import numcodecs
    from zarr.codecs import GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec
    from zarr.codecs import numcodecs as third

    zstd, v2 = [ZstdCodec(level=1)], {"zarr_format": 2}
    return {
        "filter before": lambda: {**v2, "filters": [numcodecs.Delta("u1")], "compressors": numcodecs.GZip()},
        "filter that compresses": lambda: {**v2, "filters": [numcodecs.Zlib()], "compressors": None},
        "both compress": lambda: {**v2, "filters": [numcodecs.LZMA(preset=0)], "compressors": numcodecs.BZ2()},
        "order F": lambda: {**v2, "order": "F", "compressors": numcodecs.Zstd()},
        "lz4": lambda: {**v2, "order": "F", "compressors": numcodecs.LZ4()},
        "transposed": lambda: {"filters": [TransposeCodec(order=(1, 0))], "compressors": zstd},
        "twice": lambda: {"compressors": [*zstd, GzipCodec(level=1)]},
        "of numcodecs": lambda: {"compressors": [third.BZ2(level=1)]},
        "shards": lambda: {"shards": (LARGE, 1), "compressors": zstd},
        "shards in shards": lambda: {"serializer": ShardingCodec(chunk_shape=(LARGE, 1), codecs=[ShardingCodec(
            chunk_shape=(LARGE, 1), codecs=[zarr.codecs.BytesCodec(), *zstd])]), "compressors": None},
        "compressed shards": lambda: {"serializer": ShardingCodec(chunk_shape=(LARGE, 1)), "compressors": zstd},
    }[kind]()  # fmt: skip


KINDS = ("filter before", "filter that compresses", "both compress", "order F", "lz4", "transposed", "twice",
         "of numcodecs", "shards", "shards in shards", "compressed shards")  # fmt: skip


@pytest.mark.filterwarnings("ignore:Numcodecs codecs", "ignore:Combining")
@pytest.mark.parametrize("kind", KINDS)
def test_of_a_bomb_little_is_decoded(tmp_path, kind):
    path = tmp_path / "x.zarr"
    zeros = np.zeros((LARGE, 1), np.uint8)
    array = zarr.create_array(store=path, shape=zeros.shape, chunks=zeros.shape, dtype="u1", fill_value=1,
                              **codecs_of(kind))  # fmt: skip
    array[...] = zeros
    # The same file is said to be a small chunk.
    name = "zarr.json" if (path / "zarr.json").exists() else ".zarray"
    (path / name).write_text((path / name).read_text().replace(str(LARGE), str(SMALL)))
    store = stores.open(path)
    assert (store.shape, store.layout.is_own) == ((SMALL, 1), kind == "shards")
    for do in (store.read, stores.rechunk(path, tmp_path / "y.npy", memory="1MB").run):
        tracemalloc.start()
        with pytest.raises(ModelError, match="cannot be read"):
            do()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 4 << 20
    assert not (tmp_path / "y.npy").exists()


@pytest.mark.filterwarnings("ignore:Numcodecs codecs", "ignore:Combining")
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_bomb_is_read(tmp_path, monkeypatch, kind):
    monkeypatch.setitem(globals(), "LARGE", SMALL)
    x = np.random.default_rng(2).integers(0, 9, (SMALL, 1)).astype(np.uint8)
    array = zarr.create_array(store=tmp_path / "x.zarr", shape=x.shape, chunks=x.shape, dtype="u1", **codecs_of(kind))
    array[...] = x
    store = stores.open(tmp_path / "x.zarr")
    assert store.layout.is_own == (kind == "shards")
    np.testing.assert_array_equal(store.read(), x)
    stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.npy", flip=[0]).run()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), x[::-1])


@pytest.mark.parametrize("field", ["compressor", "filters"])
def test_pickles_are_never_read(tmp_path, field):
    """Whoever reads a pickle runs what it says."""

    class Evil:
        def __reduce__(self):
            return (open, (str(tmp_path / "evil"), "w"))

    path = tmp_path / "x.zarr"
    zarr.create_array(store=path, shape=(4,), chunks=(4,), dtype="f4", zarr_format=2, compressors=None)
    said = json.loads((path / ".zarray").read_text())
    said[field] = {"id": "pickle"} if field == "compressor" else [{"id": "pickle"}]
    (path / ".zarray").write_text(json.dumps(said))
    (path / "0").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(ModelError, match="pickle"):
        stores.open(path)
    assert not (tmp_path / "evil").exists()
