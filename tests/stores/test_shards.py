"""Chunks and shards of arrays whose shards stand anywhere among the codecs, and what is read back before a name."""

import copy
import importlib.util
import json
import shutil
from itertools import permutations, product

import numpy as np
import pytest

import anydml as dml
from anydml import stores
from anydml.cli import main
from anydml.errors import ModelError

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs", "ignore:Combining")

BYTES, CRC = {"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}
GZIP, ZSTD = ({"name": name, "configuration": said} for name, said in (
    ("gzip", {"level": 2}), ("zstd", {"level": 3, "checksum": False})))  # fmt: skip
ORDER = {"name": "transpose", "configuration": {"order": [2, 0, 1]}}


def shards(chunk, codecs):
    return {"name": "sharding_indexed", "configuration": {
        "chunk_shape": chunk, "codecs": codecs, "index_codecs": [BYTES, CRC], "index_location": "end"}}  # fmt: skip


CODECS = {
    "one level": [shards([2, 4, 8], [BYTES, ZSTD])],
    "two levels": [shards([2, 4, 8], [shards([1, 2, 4], [BYTES])])],
    "three levels": [shards([4, 4, 8], [shards([2, 4, 4], [ORDER, shards([2, 2, 1], [BYTES, GZIP])])])],
    "behind a transpose": [ORDER, shards([4, 2, 4], [BYTES, ZSTD])],
    "before a compressor": [shards([2, 4, 8], [ORDER, BYTES, ZSTD, CRC]), GZIP],
    "between both": [ORDER, shards([4, 2, 4], [BYTES]), GZIP],
}

ASKED = [
    *(dict(zip(("chunks", "shards"), each, strict=True))
      for each in product(([3, 3, 3], [2, 2, 2], None), ([], [4, 4, 4], [8, 8, 8], None))),
    {"chunks": [3, 3, 3], "shards": [6, 6, 6]}, {"permute": [1, 2, 0]}, {"codec": "gzip:1"}, {"slices": "0:7,:,::2"},
]  # fmt: skip


def written(path, codecs):
    path.mkdir()
    said = {
        "zarr_format": 3, "node_type": "array", "shape": [8, 8, 8], "data_type": "int32", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 8, 8]}}, "attributes": {},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "codecs": codecs,
    }  # fmt: skip
    (path / "zarr.json").write_text(json.dumps(said))
    x = np.arange(1, 513, dtype=np.int32).reshape(8, 8, 8)
    zarr.open_array(str(path), mode="r+")[...] = x
    return x


def turned(path, order, maker, shard=(4, 6, 8), chunk=(2, 3, 4), shape=(7, 6, 13)):
    """An array whose shards have their axes in another order, also where zarr-python refuses them."""
    x = np.arange(1, np.prod(shape) + 1, dtype=np.int32).reshape(shape)
    codecs = [{"name": "transpose", "configuration": {"order": [*order]}},
              shards([chunk[k] for k in order], [BYTES, ZSTD])]  # fmt: skip
    said = {
        "zarr_format": 3, "node_type": "array", "shape": [*shape], "data_type": "int32", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [*shard]}}, "attributes": {},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "codecs": codecs,
        "dimension_names": ["a", "b", "c"],
    }  # fmt: skip
    path.mkdir()
    (path / "zarr.json").write_text(json.dumps(said))
    if maker == "tensorstore":
        by_tensorstore(path).write(x).result()
        return x
    # By the specification: what a file holds is the box with its axes in that order.
    for number in np.ndindex(*(-(-a // b) for a, b in zip(shape, shard, strict=True))):
        box = np.zeros(shard, np.int32)
        inside = x[tuple(slice(k * b, (k + 1) * b) for k, b in zip(number, shard, strict=True))]
        box[tuple(slice(0, size) for size in inside.shape)] = inside
        own = box.transpose(order)
        alone = {"chunks": tuple(chunk[k] for k in order), "shards": own.shape, "compressors": zarr.codecs.ZstdCodec()}
        zarr.create_array(str(path / "alone"), data=own, fill_value=0, overwrite=True, **alone)
        file = path / "c" / "/".join(map(str, number))
        file.parent.mkdir(parents=True, exist_ok=True)
        (path / "alone/c/0/0/0").rename(file)
    shutil.rmtree(path / "alone")
    return x


def by_tensorstore(path):
    library = pytest.importorskip("tensorstore")
    return library.open({"driver": "zarr3", "kvstore": f"file://{path}"}).result()


@pytest.mark.parametrize("maker", ["specification", "tensorstore"])
@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_a_transpose_in_any_order_before_shards(tmp_path, order, maker):
    x = turned(tmp_path / "x.zarr", order, maker)
    if maker == "specification" and importlib.util.find_spec("tensorstore"):
        np.testing.assert_array_equal(by_tensorstore(tmp_path / "x.zarr").read().result(), x)
    np.testing.assert_array_equal(stores.open(tmp_path / "x.zarr").read(), x)
    every = {"codec": "gzip:1"}, {"chunks": [3, 3, 3]}, {"permute": [1, 2, 0]}, {"slices": "0:5,:,::2", "shards": []}
    for number, asked in enumerate(every if maker == "specification" else every[:1]):
        new = tmp_path / f"{number}.zarr"
        stores.rechunk(tmp_path / "x.zarr", new, **asked).run()
        wanted = x.transpose(asked["permute"]) if "permute" in asked else x[:5, :, ::2] if "slices" in asked else x
        np.testing.assert_array_equal(zarr.open_array(str(new), mode="r")[...], wanted)
    assert stores.verify(tmp_path / "x.zarr", tmp_path / "0.zarr") is None


def grid(path):
    return json.loads((path / "zarr.json").read_text())["chunk_grid"]["configuration"]["chunk_shape"]


@pytest.mark.parametrize("name", CODECS)
def test_zarr_python_reads_what_was_asked_for_or_it_is_refused(tmp_path, name):
    x = written(tmp_path / "x.zarr", copy.deepcopy(CODECS[name]))
    refused = []
    for number, asked in enumerate(ASKED):
        out = tmp_path / f"{number}.zarr"
        try:
            stores.rechunk(tmp_path / "x.zarr", out, **asked).run()
        except ModelError as error:
            refused.append((asked, str(error)))
            assert not out.exists()
            continue
        wanted = x.transpose(asked["permute"]) if "permute" in asked else x[:7, :, ::2] if "slices" in asked else x
        np.testing.assert_array_equal(zarr.open_array(str(out), mode="r")[...], wanted)
        text = (out / "zarr.json").read_text()
        if asked.get("shards") == []:
            assert "sharding_indexed" not in text
            assert asked["chunks"] in (None, grid(out))
        if asked.get("shards"):
            assert grid(out) == asked["shards"]
    misfits = [asked for asked, _ in refused if asked.get("chunks") == [3, 3, 3] and asked.get("shards")]
    assert misfits == [{"chunks": [3, 3, 3], "shards": each} for each in ([4, 4, 4], [8, 8, 8])]
    alone = [text for asked, text in refused if asked.get("shards") is None]
    assert len(alone) == (2 if "levels" in name else 0)
    assert all("it has shards in shards, [4, 8, 8] of [" in text and "--shards" in text for text in alone)


def test_fewer_levels_are_said(tmp_path, capsys):
    written(tmp_path / "x.zarr", CODECS["two levels"])
    with pytest.raises(SystemExit) as ended:
        main(["rechunk", str(tmp_path / "x.zarr"), str(tmp_path / "y.zarr"), "--chunks", "2,2,2", "--shards", "4,4,4"])
    assert not ended.value.code
    assert "makes shards of chunks; the input has 2 levels of shards" in capsys.readouterr().out


def test_a_source_whose_shards_are_not_whole_chunks(tmp_path):
    """zarr-python reads fill values of it."""
    written(tmp_path / "x.zarr", CODECS["two levels"])
    text = (tmp_path / "x.zarr" / "zarr.json").read_text().replace("[1, 2, 4]", "[1, 3, 4]")
    (tmp_path / "x.zarr" / "zarr.json").write_text(text)
    with pytest.raises(
        ModelError, match=r"shards of \[2, 4, 8\] are not whole chunks of \[1, 3, 4\]|not divisible by the shard"
    ):
        stores.open(tmp_path / "x.zarr")


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("chunk", [(0, 0), (2, 1), (0, 1), (2, 0)], ids=["first", "last", "at a side", "at another"])
def test_chunks_that_metadata_give_otherwise(tmp_path, monkeypatch, version, chunk):
    """A chunk of wrong bytes is found when it is read back, and the array does not get its name."""
    from anydml.stores.running import chunk_writer

    x = np.arange(1, 36).reshape(7, 5)
    zarr.create_array(str(tmp_path / "x.zarr"), shape=x.shape, dtype=x.dtype, chunks=(3, 3), zarr_format=version,
                      compressors=None)[...] = x  # fmt: skip
    whole = chunk_writer.as_bytes

    def other(flat):
        data = bytearray(whole(flat))
        if np.frombuffer(data, x.dtype)[0] == x[chunk[0] * 3, chunk[1] * 3]:
            data[0] ^= 255
        return memoryview(data)

    monkeypatch.setattr(chunk_writer, "as_bytes", other)
    plan = stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zarr")
    with pytest.raises(ModelError, match=r"has other elements at .* did not get its name"):
        plan.run()
    assert not (tmp_path / "y.zarr").exists()


def test_codecs_that_round_are_read_back(tmp_path):
    """They are compared with what they do to a chunk alone."""
    from numcodecs import FixedScaleOffset

    x = np.linspace(0, 1, 35).reshape(7, 5)
    codec = FixedScaleOffset(offset=0, scale=10, dtype="<f8", astype="u1")
    for name, given in {"x.zarr": x, "y.zarr": None}.items():
        if given is not None:
            zarr.create_array(str(tmp_path / name), shape=x.shape, dtype="f8", chunks=(3, 3), zarr_format=2,
                              filters=[codec])[...] = given  # fmt: skip
    stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zarr", chunks=[2, 4]).run()
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "y.zarr"), mode="r")[...], x.round(1))


@pytest.mark.parametrize("value", [-0.0, np.nan])
def test_fill_values_of_other_bytes_are_kept(tmp_path, value):
    """A chunk of zeros that are negative is not one of the fill value 0, although they are equal."""
    x = np.array([value, 1, value, value], np.float32)
    np.save(tmp_path / "x.npy", x)
    stores.rechunk(tmp_path / "x.npy", tmp_path / "y.zarr", chunks=[1], shards=[2]).run()
    assert zarr.open_array(str(tmp_path / "y.zarr"), mode="r")[...].tobytes() == x.tobytes()


@pytest.mark.parametrize(("options", "sizes"), [
    ({"chunks": (2, 5), "shards": (4, -1)}, ((2, 5), (4, 10), 3)),
    ({"chunks": (-1, 5), "shards": (-1, 5)}, ((6, 5), (6, 5), 3)),
    ({"chunks": (-1, 2), "zarr_format": 2}, ((6, 2), None, 2)),
])  # fmt: skip
def test_arrays_are_created_in_shards_and_versions(tmp_path, options, sizes):
    x = np.arange(60.0).reshape(6, 10)
    np.save(tmp_path / "x.npy", x)
    target = stores.create(tmp_path / "y.zarr", x.shape, x.dtype, **options)
    dml.fuse(lambda x: x[::-1]).plan(stores.open(tmp_path / "x.npy"), target).run()
    array = zarr.open_array(str(tmp_path / "y.zarr"), mode="r")
    assert (array.chunks, array.shards, array.metadata.zarr_format) == sizes
    np.testing.assert_array_equal(array[...], x[::-1])


@pytest.mark.parametrize("option", ["chunks", "shards", "zarr_format"])
def test_only_zarr_arrays_are_created_with_its_options(tmp_path, option):
    with pytest.raises(ModelError, match=f"only those have {option}"):
        stores.create(tmp_path / "w.npy", (2, 3), "f4", **{option: 2 if option == "zarr_format" else (1, 1)})
