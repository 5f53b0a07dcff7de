"""Zarr arrays in the other version of the format, with other codecs by name, and what is refused of version 3."""

import contextlib
import json
import warnings
from itertools import permutations

import numpy as np
import pytest

from anydml import stores
from anydml.errors import ModelError

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
numcodecs = pytest.importorskip("numcodecs")

pytestmark = [
    pytest.mark.filterwarnings("ignore:Numcodecs codecs"),
    pytest.mark.filterwarnings("ignore:The data type"),
]

BIG = zarr.codecs.BytesCodec(endian="big")
KINDS = {
    "plain": {},
    "gzip": {"compressors": [zarr.codecs.GzipCodec(level=3)]},
    "of no compressor": {"compressors": None},
    "blosc": {"compressors": [zarr.codecs.BloscCodec(cname="lz4", typesize=4, shuffle="bitshuffle")]},
    "in shards": {"shards": (12, 10)},
    "big-endian": {"serializer": BIG},
    "big-endian in shards": {"serializer": BIG, "shards": (12, 10)},
    "reversed axes": {"filters": [zarr.codecs.TransposeCodec(order=(1, 0))]},
}


def array(dtype="f4"):
    return np.arange(24 * 17).reshape(24, 17).astype(dtype)


def written(path, x, version=3, chunks=(6, 5), **options):
    names = {"dimension_names": ["time", "x"]} if version == 3 else {}
    attributes = {"units": "K"} | ({"_ARRAY_DIMENSIONS": ["time", "x"]} if version == 2 else {})
    made = zarr.create_array(
        store=str(path), shape=x.shape, dtype=x.dtype, chunks=chunks, zarr_format=version, fill_value=7,
        attributes=attributes, **names, **options,
    )  # fmt: skip
    made[...] = x
    return made


def read(path):
    return zarr.open_array(str(path), mode="r")


@pytest.mark.parametrize("kind", KINDS)
def test_an_array_of_version_3_is_written_as_2_and_back(tmp_path, kind):
    x = array()
    written(tmp_path / "three", x, **KINDS[kind])
    stores.rechunk(tmp_path / "three", tmp_path / "two", zarr_format=2).run()
    stores.rechunk(tmp_path / "two", tmp_path / "again", zarr_format=3).run()
    two, again = read(tmp_path / "two"), read(tmp_path / "again")
    assert (two.metadata.zarr_format, again.metadata.zarr_format) == (2, 3)
    assert two.attrs.asdict() == {"units": "K", "_ARRAY_DIMENSIONS": ["time", "x"]}
    assert (again.attrs.asdict(), again.metadata.dimension_names) == ({"units": "K"}, ("time", "x"))
    for found in (two, again):
        np.testing.assert_array_equal(found[...], x)
        assert (found.chunks, found.fill_value) == ((6, 5), 7)


@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<i2", "u1", "<c8", "<M8[s]", "<U3", "?"])
@pytest.mark.parametrize("order", "CF")
def test_an_array_of_version_2_is_written_as_3(tmp_path, dtype, order):
    x = array("i8").astype(dtype)
    made = zarr.create_array(store=str(tmp_path / "x"), shape=x.shape, dtype=x.dtype, chunks=(6, 5), zarr_format=2,
                             order=order, filters=None, compressors=numcodecs.LZ4())  # fmt: skip
    made[...] = x
    stores.rechunk(tmp_path / "x", tmp_path / "y", [-1, 4], zarr_format=3).run()
    found = read(tmp_path / "y")
    assert found.metadata.zarr_format == 3
    np.testing.assert_array_equal(found[...], x)


def test_filters_of_version_2_are_kept_in_3_and_back(tmp_path):
    x = array("i4")
    made = zarr.create_array(store=str(tmp_path / "x"), shape=x.shape, dtype=x.dtype, chunks=(6, 5), zarr_format=2,
                             filters=[numcodecs.Delta(dtype="<i4")])  # fmt: skip
    made[...] = x
    plan = stores.rechunk(tmp_path / "x", tmp_path / "y", zarr_format=3)
    assert any("numcodecs.delta" in each for each in plan.remarks)
    plan.run()
    stores.rechunk(tmp_path / "y", tmp_path / "z", zarr_format=2).run()
    np.testing.assert_array_equal(read(tmp_path / "y")[...], x)
    np.testing.assert_array_equal(read(tmp_path / "z")[...], x)
    assert [each.codec_id for each in read(tmp_path / "z").metadata.filters] == ["delta"]


@pytest.mark.parametrize("chunks", [(6, 8), (4, 4), (5, 3)])
def test_filters_behind_a_transpose_get_elements_in_their_order(tmp_path, chunks):
    x = np.random.default_rng(3).integers(-9, 9, (6, 8)).astype("i2")
    made = zarr.create_array(store=str(tmp_path / "x"), shape=x.shape, dtype=x.dtype, chunks=(3, 4), zarr_format=2,
                             order="F", filters=[numcodecs.Delta(dtype="<i2")])  # fmt: skip
    made[...] = x
    stores.rechunk(tmp_path / "x", tmp_path / "y", chunks, zarr_format=3).run()
    assert [each["name"] for each in read(tmp_path / "y").metadata.to_dict()["codecs"]][:2] == [
        "transpose", "numcodecs.delta",
    ]  # fmt: skip
    np.testing.assert_array_equal(read(tmp_path / "y")[...], x)
    # In shards, zarr-python before 3.4 copies them to its own order first, and does not read what it wrote.
    refused = pytest.raises(ModelError, match=r"has other elements at .* did not get its name")
    version = tuple(map(int, zarr.__version__.split(".")[:2]))
    with refused if version < (3, 4) else contextlib.nullcontext():
        stores.rechunk(tmp_path / "y", tmp_path / "z", (6, 8), shards=(6, 8)).run()
        np.testing.assert_array_equal(read(tmp_path / "z")[...], x)


def test_records_of_another_byte_order_are_written_in_version_3(tmp_path):
    x = np.zeros((4, 3), [("a", ">i2"), ("b", "S3"), ("c", "<f8")])
    x["a"], x["b"], x["c"] = np.arange(12).reshape(4, 3), b"xy", -0.0
    made = zarr.create_array(store=str(tmp_path / "x"), shape=x.shape, dtype=x.dtype, chunks=(2, 2), zarr_format=2)
    made[...] = x
    stores.rechunk(tmp_path / "x", tmp_path / "y", (3, 2), zarr_format=3).run()
    found = read(tmp_path / "y")[...]
    np.testing.assert_array_equal(found["a"], x["a"])
    assert found.astype(x.dtype).tobytes() == x.tobytes()


def test_what_version_2_does_not_have_is_refused(tmp_path):
    x = np.arange(24).reshape(2, 3, 4)
    transposed = zarr.codecs.TransposeCodec(order=(2, 0, 1))
    zarr.create_array(str(tmp_path / "t"), data=x, chunks=(2, 3, 4), filters=[transposed])
    zarr.create_array(str(tmp_path / "c"), data=x, chunks=(2, 3, 4), compressors=[zarr.codecs.Crc32cCodec()])
    for codec in (None, "zstd"):
        with pytest.raises(ModelError, match="no transpose but that of all axes"):
            stores.rechunk(tmp_path / "t", tmp_path / "y", zarr_format=2, codec=codec)
    with pytest.raises(ModelError, match="no codec crc32c: name a compressor by --codec"):
        stores.rechunk(tmp_path / "c", tmp_path / "y", zarr_format=2)
    with pytest.raises(ModelError, match="version 4 of the format, which must be 2 or 3"):
        stores.rechunk(tmp_path / "c", tmp_path / "y", zarr_format=4)
    with pytest.raises(ModelError, match="has no chunks"):
        stores.rechunk(tmp_path / "c", tmp_path / "y.npy", zarr_format=2)
    stores.rechunk(tmp_path / "c", tmp_path / "y", zarr_format=2, codec="zstd").run()
    np.testing.assert_array_equal(read(tmp_path / "y")[...], x)
    np.save(tmp_path / "x.npy", x)
    stores.rechunk(tmp_path / "x.npy", tmp_path / "z", zarr_format=2).run()
    assert read(tmp_path / "z").metadata.zarr_format == 2


def group_of(path, version, consolidated):
    def add(group, name, x, axes):
        names = {"dimension_names": axes} if version == 3 else {"attributes": {"_ARRAY_DIMENSIONS": axes}}
        group.create_array(name, data=x, chunks=(5,) * x.ndim, **names)

    group = zarr.open_group(str(path), mode="w", zarr_format=version, attributes={"title": "maps"})
    add(group, "temp", array(), ["time", "x"])
    add(group, "time", np.arange(24), ["time"])
    add(group.create_group("deep", attributes={"a": 1}), "y", array()[:9], ["z", "x"])
    if consolidated:
        zarr.consolidate_metadata(str(path), zarr_format=version)


@pytest.mark.filterwarnings("ignore:Consolidated metadata")
@pytest.mark.parametrize("options", [{}, {"chunks": [-1, 4]}, {"chunks": {"temp": [3, 3]}, "codec": "gzip"}])
@pytest.mark.parametrize("consolidated", [False, True])
@pytest.mark.parametrize("version", [2, 3])
def test_a_group_is_written_in_the_other_version(tmp_path, version, consolidated, options):
    group_of(tmp_path / "x", version, consolidated)
    stores.rechunk(tmp_path / "x", tmp_path / "y", zarr_format=5 - version, **options).run()
    ways = [zarr.open_group(str(tmp_path / "y"), mode="r", use_consolidated=False)]
    if consolidated:
        ways.append(zarr.open_consolidated(str(tmp_path / "y")))
    else:
        assert ways[0].metadata.consolidated_metadata is None
    for found in ways:
        assert sorted(name for name, _ in found.members(None)) == ["deep", "deep/y", "temp", "time"]
        assert {each.metadata.zarr_format for _, each in found.members(None)} == {5 - version}
        assert (found.attrs.asdict(), found["deep"].attrs.asdict()) == ({"title": "maps"}, {"a": 1})
        np.testing.assert_array_equal(found["temp"][...], array())
        np.testing.assert_array_equal(found["time"][...], np.arange(24))
        np.testing.assert_array_equal(found["deep/y"][...], array()[:9])
        assert found["time"].chunks == (5,)
        chunks = options.get("chunks")
        assert found["temp"].chunks == {type(None): (5, 5), list: (24, 4), dict: (3, 3)}[type(chunks)]


CODECS = {
    "none": [], "zstd:-5": ["zstd"], "gzip:1": ["gzip"], "blosc:3": ["blosc"], "blosc:lz4,5,bitshuffle": ["blosc"],
    "blosc:noshuffle": ["blosc"], "lz4": ["numcodecs.lz4"], "bz2:9": ["numcodecs.bz2"], "lzma:1": ["numcodecs.lzma"],
}  # fmt: skip


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", ["plain", "in shards", "two"])
def test_codecs_are_named_with_their_options(tmp_path, codec, kind):
    x = array()
    written(tmp_path / "x", x, 2) if kind == "two" else written(tmp_path / "x", x, **KINDS[kind])
    stores.rechunk(tmp_path / "x", tmp_path / "y", codec=codec).run()
    found = read(tmp_path / "y")
    np.testing.assert_array_equal(found[...], x)
    if kind == "two":
        config = found.compressors[0].get_config() if found.compressors else {}
        assert [config["id"]] == [CODECS[codec][0].removeprefix("numcodecs.")] if config else CODECS[codec] == []
        assert config.get("cname", "lz4") == "lz4" or "lz4" not in codec
        assert config.get("shuffle", 2) == 2 or "bitshuffle" not in codec
    else:
        said = [each.to_dict() for each in found.compressors]
        assert [each["name"] for each in said] == CODECS[codec]
        assert codec[:5] != "blosc" or said[0]["configuration"]["typesize"] == 4
        assert "lz4," not in codec or said[0]["configuration"]["cname"] == "lz4"


@pytest.mark.parametrize("kind", ["plain", "in shards", "two"])
def test_pcodec_takes_the_place_of_bytes_and_gives_it_back(tmp_path, kind):
    pytest.importorskip("pcodec")
    x = array()
    written(tmp_path / "x", x, 2) if kind == "two" else written(tmp_path / "x", x, **KINDS[kind])
    stores.rechunk(tmp_path / "x", tmp_path / "y", codec="pcodec:4").run()
    stores.rechunk(tmp_path / "y", tmp_path / "z", codec="zstd").run()
    for name in "yz":
        np.testing.assert_array_equal(read(tmp_path / name)[...], x)
    if kind != "two":
        assert "pcodec" in (tmp_path / "y/zarr.json").read_text()
        assert "zstd" not in (tmp_path / "y/zarr.json").read_text()
        assert "pcodec" not in (tmp_path / "z/zarr.json").read_text()


@pytest.mark.parametrize(
    "codec, said",
    [
        ("foo", "must be none, zstd, gzip, blosc, lz4, zlib, bz2, lzma or pcodec, not 'foo'"),
        ("zstd:23", "must have level from -131072 to 22, such as zstd:3, not"),
        ("zstd:", "must have level from"),
        ("none:3", "but none has no options"),
        ("blosc:5,lz4", "must have one of noshuffle, shuffle, bitshuffle"),
        ("zstd:1,2", "must have no more than 1 option"),
        ("lz4:0", "must have acceleration from 1 to 65537"),
        ("gzip:9" + "9" * 40, "must have level from 0 to 9"),
    ],
)
def test_other_codecs_are_refused(tmp_path, codec, said):
    written(tmp_path / "x", array())
    with pytest.raises(ModelError, match=said):
        stores.rechunk(tmp_path / "x", tmp_path / "y", codec=codec)


@pytest.mark.parametrize("shards, wanted", [([-1, 10], (24, 10)), ([12, -1], (12, 20)), ([-1, -1], (24, 20))])
@pytest.mark.parametrize("source", ["three", "two", "npy"])
def test_shards_of_whole_axes_are_rounded_up_to_chunks(tmp_path, shards, wanted, source):
    x = array()
    if source == "npy":
        np.save(tmp_path / "x.npy", x)
        plan = stores.rechunk(tmp_path / "x.npy", tmp_path / "y", [6, 5], shards=shards)
    else:
        written(tmp_path / "x", x, 2 if source == "two" else 3)
        plan = stores.rechunk(tmp_path / "x", tmp_path / "y", shards=shards, zarr_format=3)
    plan.run()
    found = read(tmp_path / "y")
    assert (found.shards, found.chunks) == (wanted, (6, 5))
    np.testing.assert_array_equal(found[...], x)


def test_big_endian_shards_become_chunks_and_back(tmp_path):
    x = array()
    written(tmp_path / "x", x, serializer=BIG, shards=(12, 10))
    stores.rechunk(tmp_path / "x", tmp_path / "y", shards=[]).run()
    stores.rechunk(tmp_path / "y", tmp_path / "z", shards=[12, 10]).run()
    assert (read(tmp_path / "y").shards, read(tmp_path / "z").shards) == (None, (12, 10))
    for name in "yz":
        np.testing.assert_array_equal(read(tmp_path / name)[...], x)
        assert '"big"' in (tmp_path / name / "zarr.json").read_text()


@pytest.mark.filterwarnings("ignore:Combining a")
@pytest.mark.parametrize("order", [*permutations(range(3))])
def test_a_transpose_before_shards_goes_into_them(tmp_path, order):
    x = np.arange(12**3, dtype="i2").reshape(12, 12, 12)
    inner = (6, 4, 3)
    sharding = zarr.codecs.ShardingCodec(chunk_shape=[inner[k] for k in order], codecs=[zarr.codecs.BytesCodec()])
    made = zarr.create_array(
        store=str(tmp_path / "x"), shape=x.shape, dtype=x.dtype, chunks=(12, 12, 12), serializer=sharding,
        filters=[zarr.codecs.TransposeCodec(order=order)], compressors=None,
    )  # fmt: skip
    made[...] = x
    for name, options in {"a": {"chunks": [3, 2, 6]}, "b": {"chunks": [4, 3, 2], "shards": [12, 6, 4]}}.items():
        stores.rechunk(tmp_path / "x", tmp_path / name, **options).run()
        found = read(tmp_path / name)
        np.testing.assert_array_equal(found[...], x)
        assert found.chunks == tuple(options["chunks"])


@pytest.mark.parametrize(
    "change, said",
    [
        ({"chunk_grid": {"name": "hexagonal", "configuration": {"chunk_shapes": [[24], [10, 7]]}}}, "hexagonal"),
        ({"storage_transformers": [{"name": "foo"}]}, 'storage transformer "foo"'),
        ({"codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "mine"}]}, r"codec [\"']mine"),
        (
            {
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [24, 10]}},
                "codecs": [
                    {
                        "name": "sharding_indexed",
                        "configuration": {
                            "chunk_shape": [24, 10],
                            "codecs": [
                                {"name": "transpose", "configuration": {"order": [1, 0]}},
                                {
                                    "name": "sharding_indexed",
                                    "configuration": {
                                        "chunk_shape": [10, 12],
                                        "codecs": [{"name": "bytes"}],
                                        "index_codecs": [{"name": "bytes"}],
                                    },
                                },
                            ],
                            "index_codecs": [{"name": "bytes"}],
                        },
                    },
                ],
            },
            "a transpose between shards and shards in those",
        ),
    ],
)
def test_what_is_not_read_of_version_3_is_named(tmp_path, change, said):
    written(tmp_path / "x", array())
    path = tmp_path / "x/zarr.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(ModelError, match=said):
        stores.open(tmp_path / "x")


def test_bytes_of_any_length_are_refused_alone_and_copied_in_a_group(tmp_path):
    group = zarr.open_group(str(tmp_path / "x"), mode="w")
    pieces = group.create_array("pieces", shape=2, dtype=zarr.dtype.VariableLengthBytes())
    pieces[...] = np.array([b"a", b"long"], object)
    group.create_array("temp", data=array(), chunks=(6, 5))
    with pytest.raises(ModelError, match="in a group it is copied as it is"):
        stores.rechunk(tmp_path / "x/pieces", tmp_path / "y")
    stores.rechunk(tmp_path / "x", tmp_path / "y", [4, 4]).run()
    found = zarr.open_group(str(tmp_path / "y"), mode="r")
    assert [*found["pieces"][...]] == [b"a", b"long"]
    np.testing.assert_array_equal(found["temp"][...], array())


def test_warnings_of_zarr_python_escape_from_no_thread(tmp_path):
    x = np.arange(4096, dtype="i4").reshape(64, 64)
    with warnings.catch_warnings(action="ignore"):
        filters = [zarr.codecs.numcodecs.Delta(dtype="<i4")]
        codecs = [zarr.codecs.numcodecs.LZMA(preset=1)]
        written(tmp_path / "x", x, chunks=(4, 4), filters=filters, compressors=codecs)
    with warnings.catch_warnings(action="error"):
        before = [*warnings.filters]
        for number in range(4):
            stores.rechunk(tmp_path / "x", tmp_path / f"out{number}", (8, 8)).run()
        assert warnings.filters == before
    with warnings.catch_warnings(action="ignore"):
        np.testing.assert_array_equal(read(tmp_path / "out3")[...], x)
