"""`rechunk` keeps of a Zarr array's metadata all that nothing else is asked for, and says what it cannot keep."""

import copy
import json
import random

import numpy as np
import pytest

from anydml import stores
from anydml.cli import main
from anydml.errors import ModelError

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

pytestmark = pytest.mark.filterwarnings("ignore:Numcodecs codecs", "ignore:Combining")

BYTES = {"name": "bytes", "configuration": {"endian": "little"}}
CRC = {"name": "crc32c"}
ZSTD = {"name": "zstd", "configuration": {"level": 7, "checksum": True}}
GZIP = {"name": "gzip", "configuration": {"level": 2}}
BLOSC = {
    "name": "blosc",
    "configuration": {"cname": "lz4hc", "clevel": 3, "shuffle": "bitshuffle", "typesize": 4, "blocksize": 64},
}
DELTA = {"name": "numcodecs.delta", "configuration": {"dtype": "<f4"}}


def shards(chunk, codecs):
    said = {"chunk_shape": chunk, "codecs": codecs, "index_codecs": [BYTES, CRC], "index_location": "start"}
    return {"name": "sharding_indexed", "configuration": said}


def order(*numbers):
    return {"name": "transpose", "configuration": {"order": [*numbers]}}


CODECS_V3 = {
    "none": [BYTES],
    "levels": [BYTES, ZSTD],
    "several": [BYTES, BLOSC, GZIP, CRC],
    "big": [{"name": "bytes", "configuration": {"endian": "big"}}, GZIP],
    "filter": [DELTA, BYTES, ZSTD],
    "order": [order(2, 0, 1), BYTES, ZSTD],
    "shards": [shards([2, 3, 1], [BYTES, ZSTD])],
    "shards in order": [shards([2, 3, 1], [order(1, 2, 0), BYTES, BLOSC])],
    "shards in shards": [shards([4, 3, 2], [shards([2, 3, 1], [BYTES, ZSTD])])],
    "order of shards": [order(2, 0, 1), shards([2, 2, 2], [BYTES, ZSTD]), GZIP],
}

CODECS_V2 = {
    "none": {"compressor": None, "filters": None},
    "levels": {"compressor": {"id": "zstd", "level": 9, "checksum": True}, "filters": None},
    "blosc": {
        "compressor": {"id": "blosc", "cname": "zlib", "clevel": 2, "shuffle": 2, "blocksize": 32},
        "filters": None,
    },
    "filters": {
        "compressor": {"id": "lzma", "format": 1, "check": -1, "preset": 0, "filters": None},
        "filters": [
            {"id": "delta", "dtype": "<f4", "astype": "<f4"},
            {"id": "fixedscaleoffset", "scale": 1, "offset": 0, "dtype": "<f4", "astype": "<f4"},
        ],
    },
    "order": {"compressor": {"id": "bz2", "level": 3}, "filters": None, "order": "F"},
    "separator": {"compressor": None, "filters": None, "dimension_separator": "/"},
}

ATTRIBUTES = {"units": "K", "missing": float("nan"), "exact": 1 << 70, "nested": {"a": [1.0, None, "é"]}}


def written(path, rank, version, codecs, names=True):
    """An array whose metadata are these, and its elements."""
    sizes, chunk = [7, 5, 4][:rank], [4, 6, 2][:rank]
    path.mkdir()
    if version == 3:
        said = {
            "zarr_format": 3, "node_type": "array", "shape": sizes, "data_type": "float32",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "chunk_key_encoding": {"name": "v2", "configuration": {"separator": "."}},
            # What fills a chunk up goes through filters, which let NaN into its neighbours.
            "fill_value": -2.5 if DELTA in codecs else "0x7fc00001",
            "codecs": codecs, "attributes": ATTRIBUTES, "storage_transformers": [],
            "others": {"must_understand": False, "text": "kept"},
        }  # fmt: skip
        if names:
            said["dimension_names"] = ["t", None, "x"][:rank]
        (path / "zarr.json").write_text(json.dumps(said))
    else:
        said = {
            "zarr_format": 2, "shape": sizes, "chunks": chunk, "dtype": "<f4", "fill_value": -3.0, "order": "C",
            **codecs,
        }  # fmt: skip
        (path / ".zarray").write_text(json.dumps(said))
        if names:
            own = {**ATTRIBUTES, "_ARRAY_DIMENSIONS": ["t", "y", "x"][:rank]}
            (path / ".zattrs").write_text(json.dumps(own))
    elements = np.random.default_rng(rank).integers(0, 99, sizes).astype(np.float32)
    zarr.open_array(str(path), mode="r+")[...] = elements
    return elements


def said(path):
    """All documents of an array."""
    return {name: json.loads((path / name).read_text()) for name in ("zarr.json", ".zarray", ".zattrs")
            if (path / name).exists()}  # fmt: skip


def same(found, wanted):
    """As texts, for NaN is not equal to itself."""
    assert json.dumps(found, sort_keys=True) == json.dumps(wanted, sort_keys=True)


def read(path):
    return zarr.open_array(str(path), mode="r")[...]


CASES = [*((3, name) for name in CODECS_V3), *((2, name) for name in CODECS_V2)]


def codecs_of(version, name):
    return copy.deepcopy((CODECS_V3 if version == 3 else CODECS_V2)[name])


@pytest.mark.parametrize(("version", "name"), CASES)
def test_a_copy_has_the_same_metadata(tmp_path, version, name):
    x = written(tmp_path / "x.zarr", 3, version, codecs_of(version, name))
    stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zarr").run()
    same(said(tmp_path / "y.zarr"), said(tmp_path / "x.zarr"))
    np.testing.assert_array_equal(read(tmp_path / "y.zarr"), x)


@pytest.mark.parametrize("names", [True, False])
@pytest.mark.parametrize(("version", "name"), [(3, "none"), (3, "levels"), (2, "none"), (2, "filters"), (2, "order")])
def test_arrays_without_axes_keep_all(tmp_path, version, name, names):
    x = written(tmp_path / "x.zarr", 0, version, codecs_of(version, name), names)
    stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zarr").run()
    same(said(tmp_path / "y.zarr"), said(tmp_path / "x.zarr"))
    assert read(tmp_path / "y.zarr") == x


TAKEN = {
    "permuted": ({"permute": [2, 0, 1]}, [2, 0, 1], lambda x: x.transpose(2, 0, 1)),
    "sliced": ({"slices": "1:6,:,::-1"}, [0, 1, 2], lambda x: x[1:6, :, ::-1]),
    "an axis less": ({"slices": ":,2"}, [0, 2], lambda x: x[:, 2]),
    "an axis less, permuted": ({"slices": "3,:,1:", "permute": [1, 0]}, [2, 1], lambda x: x[3, :, 1:].T),
    "one": ({"slices": "3,2,1"}, [], lambda x: x[3, 2, 1]),
}
# Codecs that say something of axes meet all of them, others two.
TAKEN_OF = [
    (version, name, taken)
    for number, (version, name) in enumerate(CASES)
    for k, taken in enumerate(TAKEN)
    if "order" in name or "shards" in name or (k - number) % 5 < 2
]


@pytest.mark.parametrize(("version", "name", "taken"), TAKEN_OF)
def test_what_axes_have_goes_with_them(tmp_path, version, name, taken):
    options, axes, take = TAKEN[taken]
    x = written(tmp_path / "x.zarr", 3, version, codecs_of(version, name))
    stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zarr", **options).run()
    found, wanted = said(tmp_path / "y.zarr"), said(tmp_path / "x.zarr")
    np.testing.assert_array_equal(read(tmp_path / "y.zarr"), take(x))
    if version == 3:
        own, was = found["zarr.json"], wanted["zarr.json"]
        was["dimension_names"] = [was["dimension_names"][k] for k in axes]
        grid = was["chunk_grid"]["configuration"]
        grid["chunk_shape"] = [grid["chunk_shape"][k] for k in axes]
    else:
        own, was = found[".zarray"], wanted[".zarray"]
        names = wanted[".zattrs"]["_ARRAY_DIMENSIONS"]
        wanted[".zattrs"]["_ARRAY_DIMENSIONS"] = [names[k] for k in axes]
        was["chunks"] = [was["chunks"][k] for k in axes]
    was["shape"] = [*take(x).shape]
    # Codecs keep all but what they say of axes.
    if "order" not in name and "shards" not in name:
        same(found, wanted)
    kinds = [json.dumps(each.get("codecs", each.get("filters")), sort_keys=True) for each in (own, was)]
    without = [json.dumps(_without_axes(json.loads(text), axes), sort_keys=True) for text in kinds]
    assert without[0] == without[1]
    own.pop("codecs", None), was.pop("codecs", None)
    same(found, wanted)


def _without_axes(codecs, axes):
    """Codecs without what they say of axes; where there are none, there are no shards."""
    if isinstance(codecs, dict):
        return {key: _without_axes(each, axes) for key, each in codecs.items() if key not in ("order", "chunk_shape")}
    if not isinstance(codecs, list):
        return codecs
    found = []
    for each in codecs:
        flat = not axes and each.get("name") == "sharding_indexed"
        found += _without_axes(each["configuration"]["codecs"], axes) if flat else [_without_axes(each, axes)]
    return found


@pytest.mark.parametrize(("version", "name"), CASES)
def test_another_codec_changes_the_compressors_alone(tmp_path, version, name):
    x = written(tmp_path / "x.zarr", 3, version, codecs_of(version, name))
    stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zarr", codec="gzip:4").run()
    found, wanted = said(tmp_path / "y.zarr"), said(tmp_path / "x.zarr")
    if version == 3:
        codecs = wanted["zarr.json"]["codecs"]
        while any(each["name"] == "sharding_indexed" for each in codecs):
            first = [each["name"] for each in codecs].index("sharding_indexed")
            # Compressors of whole shards are compressors, too.
            del codecs[first + 1 :]
            codecs = codecs[first]["configuration"]["codecs"]
        first = [each["name"] for each in codecs].index("bytes")
        sums = [each for each in codecs[first + 1 :] if each == CRC]
        codecs[first + 1 :] = [{"name": "gzip", "configuration": {"level": 4}}, *sums]
    else:
        wanted[".zarray"]["compressor"] = {"id": "gzip", "level": 4}
    same(found, wanted)
    np.testing.assert_array_equal(read(tmp_path / "y.zarr"), x)


def test_chunks_of_shards(tmp_path, capsys):
    """Shards stay as they were, but are whole chunks, which is said; and they come and go where that is asked for."""
    x = written(tmp_path / "x.zarr", 3, 3, codecs_of(3, "shards"))
    was = said(tmp_path / "x.zarr")["zarr.json"]
    for options, chunk, shard, line in [
        (["--chunks", "4,2,2"], [4, 2, 2], [4, 6, 2], False),
        (["--chunks", "3,5,1"], [3, 5, 1], [6, 10, 2], True),
        (["--chunks", "3,5,1", "--shards", "9,5,4"], [3, 5, 1], [9, 5, 4], False),
        (["--shards", "2,3,4"], [2, 3, 1], [2, 3, 4], False),
        (["--shards", "none"], [2, 3, 1], None, False),
        (["--shards", "none", "--chunks", "7,5,4"], [7, 5, 4], None, False),
    ]:
        with pytest.raises(SystemExit) as ended:
            main(["rechunk", str(tmp_path / "x.zarr"), str(tmp_path / "y.zarr"), *options, "--overwrite"])
        assert not ended.value.code
        assert ("makes shards of [6, 10, 2], whole chunks, of those of [4, 6, 2]" in capsys.readouterr().out) == line
        own, wanted = said(tmp_path / "y.zarr")["zarr.json"], copy.deepcopy(was)
        wanted["chunk_grid"]["configuration"]["chunk_shape"] = shard or chunk
        wanted["codecs"][0]["configuration"]["chunk_shape"] = chunk
        if shard is None:
            wanted["codecs"] = wanted["codecs"][0]["configuration"]["codecs"]
        same(own, wanted)
        np.testing.assert_array_equal(read(tmp_path / "y.zarr"), x)
    # What y is now has no shards.
    stores.rechunk(tmp_path / "y.zarr", tmp_path / "z.zarr", chunks=[2, 2, 2], shards=[4, 4, 4]).run()
    found = zarr.open_array(str(tmp_path / "z.zarr"), mode="r")
    assert (found.chunks, found.shards) == ((2, 2, 2), (4, 4, 4))
    np.testing.assert_array_equal(found[...], x)
    for options in ({"chunks": [3, 3, 3], "shards": [4, 4, 4]}, {"shards": [4, 4]}, {"shards": [0, 1, 1]}):
        with pytest.raises(ModelError, match=r"q\.zarr"):
            stores.rechunk(tmp_path / "x.zarr", tmp_path / "q.zarr", **options)
    written(tmp_path / "old.zarr", 3, 2, codecs_of(2, "none"))
    with pytest.raises(ModelError, match="version 2 of Zarr has no shards"):
        stores.rechunk(tmp_path / "old.zarr", tmp_path / "q.zarr", shards=[4, 6, 2])


def test_what_a_npy_file_has_no_place_for_is_said(tmp_path):
    written(tmp_path / "x.zarr", 3, 3, codecs_of(3, "none"))
    text = str(stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.npy"))
    assert 'attribute "units"' in text
    assert "names of axes" in text
    written(tmp_path / "plain.zarr", 2, 2, codecs_of(2, "none"), names=False)
    assert "leaves out" not in str(stores.rechunk(tmp_path / "plain.zarr", tmp_path / "y.npy"))


@pytest.mark.parametrize("attributes", ["false", "0", "null", "{}"])
def test_attributes_that_are_none(tmp_path, attributes):
    written(tmp_path / "x.zarr", 2, 2, codecs_of(2, "none"), names=False)
    (tmp_path / "x.zarr/.zattrs").write_text(attributes)
    try:
        zarr.open_array(tmp_path / "x.zarr")
    except Exception:  # since zarr-python 3.4 what is not an object is refused, by an error of its own
        with pytest.raises(ModelError, match="zarr-python cannot read"):
            stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.npy")
        return
    assert "leaves out" not in str(stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.npy"))


@pytest.mark.parametrize(("version", "name"), [*CASES])
def test_like_another_dtype_and_another_rank(tmp_path, version, name):
    written(tmp_path / "x.zarr", 3, version, codecs_of(version, name))
    x = stores.open(tmp_path / "x.zarr")
    for shape in ((5, 9), (7, 5, 4, 3), ()):
        target = stores.create(tmp_path / "y.zarr", shape, like=x)
        assert (target.shape, target.dtype, target.layout.version) == (shape, x.dtype, version)
        text = b"".join(target.metadata.values())
        assert b"units" in text
        assert b"_ARRAY_DIMENSIONS" not in text
        assert b"dimension_names" not in text
    if "filter" not in name:
        # zarr-python gives what it decodes in the machine's order.
        for dtype in ("<f8", ">f8") if version == 2 or codecs_of(3, name)[0]["name"] == "bytes" else ("<f8",):
            target = stores.create(tmp_path / "y.zarr", dtype=dtype, like=x)
            assert (target.dtype, target.layout.chunk) == (np.dtype(dtype), x.layout.chunk)
            fills = np.frombuffer(target.layout.fill, dtype), np.frombuffer(x.layout.fill, x.dtype)
            np.testing.assert_array_equal(*fills)


def test_metadata_at_random(tmp_path):
    """Any of the codecs in any of the ways, against the elements that NumPy has."""
    rng = random.Random(3)
    for number in range(30):
        version, name = rng.choice(CASES)
        x = written(tmp_path / f"x{number}.zarr", 3, version, codecs_of(version, name))
        axes = rng.sample(range(3), 3)
        flip = rng.sample(range(3), rng.randrange(3))
        options = {}
        if name not in ("shards in shards", "order of shards") and rng.random() < 0.7:
            options["chunks"] = [rng.randint(1, 8) for _ in axes]
        stores.rechunk(
            tmp_path / f"x{number}.zarr", tmp_path / f"y{number}.zarr", permute=axes, flip=flip, **options
        ).run()
        np.testing.assert_array_equal(read(tmp_path / f"y{number}.zarr"), np.flip(x, flip).transpose(axes))
