"""Zarr arrays whose chunks have several sizes: written here by the specification, chunk by chunk with zarr-python."""

import itertools
import json

import numpy as np
import pytest

from anydml import stores
from anydml.cli import main
from anydml.errors import ModelError
from anydml.stores.formats.zarr_rectilinear import edges_of

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

SIZES = [[[[10, 2], 5], [10, 10, 5]], [[5, [2, 1], 10], [5, 2, 10]], [5, [5, 5]]]
"""Sizes of chunks along three axes of 24, 17 and 10 elements, as metadata have them, and one by one."""

KINDS = {
    "zstd": {},
    "plain": {"compressors": None},
    "gzip": {"compressors": [zarr.codecs.GzipCodec()]},
    "transposed": {"filters": [zarr.codecs.TransposeCodec(order=(2, 0, 1))]},
    "big-endian": {"serializer": zarr.codecs.BytesCodec(endian="big")},
}
SHARDS = {"in shards": None}


def array():
    return np.arange(24 * 17 * 10, dtype="f4").reshape(24, 17, 10)


def written(path, x, kind, left_out=()):
    """Write an array by regular ones of one chunk each."""
    sizes = [own for _, own in SIZES]
    starts = [[0, *itertools.accumulate(own)] for own in sizes]
    for number in itertools.product(*map(range, map(len, sizes))):
        shape = tuple(own[k] for k, own in zip(number, sizes, strict=True))
        chunk = np.full(shape, 7, x.dtype)
        part = x[tuple(slice(own[k], own[k + 1]) for k, own in zip(number, starts, strict=True))]
        chunk[tuple(map(slice, part.shape))] = part
        more = {"shards": shape, "chunks": (5, 1, 5)} if kind in SHARDS else {"chunks": shape, **KINDS[kind]}
        one = path.parent / "one"
        zarr.create_array(str(one), shape=shape, dtype=x.dtype, fill_value=7, overwrite=True, **more)[...] = chunk
        target = path.joinpath("c", *map(str, number))
        target.parent.mkdir(parents=True, exist_ok=True)
        if number not in left_out:
            target.write_bytes((one / "c/0/0/0").read_bytes())
    said = json.loads((one / "zarr.json").read_text())
    said |= {
        "shape": [*x.shape],
        "chunk_grid": {
            "name": "rectilinear",
            "configuration": {"kind": "inline", "chunk_shapes": [s for s, _ in SIZES]},
        },
        "dimension_names": ["t", "y", "x"],
    }
    (path / "zarr.json").write_text(json.dumps(said))


@pytest.mark.parametrize("kind", [*KINDS, *SHARDS])
def test_chunks_of_several_sizes_are_read(tmp_path, kind):
    x = array()
    written(tmp_path / "x", x, kind)
    np.testing.assert_array_equal(stores.open(tmp_path / "x").read(), x)
    for memory in "30kB", "64MB":
        asked = {"permute": [1, 0, 2], "slices": "t=3:,y=::-1", "shards": (), "memory": memory, "overwrite": True}
        plan = stores.rechunk(tmp_path / "x", tmp_path / "y", [7, 5, 10], **asked)
        plan.run()
        assert plan.verify() is None
        found = zarr.open_array(str(tmp_path / "y"), mode="r")
        np.testing.assert_array_equal(found[...], x[3:, ::-1].transpose(1, 0, 2))
    stores.rechunk(tmp_path / "x", tmp_path / "z.npy").run()
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), x)
    assert stores.verify(tmp_path / "z.npy", tmp_path / "x") is None
    x[23, 16, 9] = -1
    np.save(tmp_path / "c.npy", x)
    for one, other in itertools.permutations(("x", "c.npy")):
        assert "differs at [23, 16, 9]" in stores.verify(tmp_path / one, tmp_path / other, memory="30kB")


def test_chunks_without_files_have_fill_values(tmp_path):
    x = array()
    written(tmp_path / "x", x, "zstd", [(0, 0, 0), (2, 2, 1)])
    x[:10, :5, :5] = x[20:, 7:, 5:] = 7
    np.testing.assert_array_equal(stores.open(tmp_path / "x").read(), x)
    stores.rechunk(tmp_path / "x", tmp_path / "y", [24, 17, 10]).run()
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "y"), mode="r")[...], x)


def found(path):
    """Read an array chunk by chunk, each as a regular array of zarr-python's with one chunk."""
    said = json.loads((path / "zarr.json").read_text())
    assert said["chunk_grid"]["name"] == "rectilinear"
    every = said["chunk_grid"]["configuration"]["chunk_shapes"]
    sizes = [[size for each in own for size in ([each[0]] * each[1] if isinstance(each, list) else [each])]
             for own in every]  # fmt: skip
    starts = [[0, *itertools.accumulate(own)] for own in sizes]
    whole = np.full([own[-1] for own in starts], said["fill_value"], "f4")
    for number in itertools.product(*map(range, map(len, sizes))):
        shape = [own[k] for k, own in zip(number, sizes, strict=True)]
        name = path.joinpath("c", *map(str, number))
        if name.exists():
            one = path.parent / "alone"
            (one / "c/0/0").mkdir(parents=True, exist_ok=True)
            grid = {"name": "regular", "configuration": {"chunk_shape": shape}}
            (one / "zarr.json").write_text(json.dumps(said | {"shape": shape, "chunk_grid": grid}))
            (one / "c/0/0/0").write_bytes(name.read_bytes())
            place = tuple(slice(own[k], own[k + 1]) for k, own in zip(number, starts, strict=True))
            whole[place] = zarr.open_array(str(one), mode="r")[...]
    return whole[tuple(map(slice, said["shape"]))]


@pytest.mark.parametrize("codec", ["none", "zstd:1", "gzip", "blosc:lz4,5,shuffle"])
@pytest.mark.parametrize("memory", ["30kB", "64MB"])
def test_they_are_written(tmp_path, codec, memory):
    x = array()
    np.save(tmp_path / "x.npy", x)
    plan = stores.rechunk(tmp_path / "x.npy", tmp_path / "y", [[10, 10, 5], 17, [4, 4, 4]], codec=codec, memory=memory)
    plan.run()
    assert plan.verify() is None
    np.testing.assert_array_equal(found(tmp_path / "y"), x)
    # They go with their axes; what a slice leaves of an axis has none.
    stores.rechunk(tmp_path / "y", tmp_path / "z", permute=[2, 0, 1], memory=memory).run()
    np.testing.assert_array_equal(found(tmp_path / "z"), x.transpose(2, 0, 1))
    assert stores.open(tmp_path / "z").layout.edges == ((0, 4, 8, 12), (0, 10, 20, 25), (0, 17))
    with pytest.raises(ModelError, match=r"but other axes: give sizes by --chunks"):
        stores.rechunk(tmp_path / "y", tmp_path / "w", slices="3:")


@pytest.mark.parametrize("kind", [*KINDS, *SHARDS])
def test_they_are_kept(tmp_path, kind):
    x = array()
    written(tmp_path / "x", x, kind)
    stores.rechunk(tmp_path / "x", tmp_path / "y").run()
    np.testing.assert_array_equal(found(tmp_path / "y"), x)
    assert stores.open(tmp_path / "y").layout.edges == stores.open(tmp_path / "x").layout.edges


def test_by_the_command(tmp_path):
    np.save(tmp_path / "x.npy", array())
    with pytest.raises(SystemExit) as ended:
        main(["rechunk", str(tmp_path / "x.npy"), str(tmp_path / "y"), "--chunks", "20+4,-1,5", "--verify"])
    assert not ended.value.code
    np.testing.assert_array_equal(found(tmp_path / "y"), array())


@pytest.mark.parametrize(
    "chunks, more, said",
    [
        ([[10, 10], 17, 10], {}, "chunks of 20 elements do not cover an axis of 24"),
        ([[10, 0, 14], 17, 10], {}, "sizes of at least 1"),
        ([[20, 4], 17, 10], {"shards": [24, 17, 10]}, "which shards, version 2"),
        ([[20, 4], 17, 10], {"zarr_format": 2}, "which shards, version 2"),
    ],
)
def test_what_is_not_written(tmp_path, chunks, more, said):
    np.save(tmp_path / "x.npy", array())
    with pytest.raises(ModelError, match=said):
        stores.rechunk(tmp_path / "x.npy", tmp_path / "y", chunks, **more)


@pytest.mark.parametrize(
    "sizes, said",
    [
        ([[10, 10], 17, 10], "chunks of 20 elements do not cover an axis of 24"),
        ([[10, 0, 14], 17, 10], "sizes of at least 1"),
        ([[[10, 1, 2]], 17, 10], "sizes of at least 1"),
        ([[[1, 1 << 30]], 17, 10], "at most 1048576 per axis"),
        ([17, 10], "chunk_shapes of each axis"),
        (["24", 17, 10], "do not cover"),
    ],
)
def test_broken_sizes_are_refused(tmp_path, sizes, said):
    zarr.create_array(str(tmp_path / "x"), data=array())
    metadata = json.loads((tmp_path / "x/zarr.json").read_text())
    metadata["chunk_grid"] = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": sizes}}
    (tmp_path / "x/zarr.json").write_text(json.dumps(metadata))
    with pytest.raises(ModelError, match=said):
        stores.open(tmp_path / "x")


def test_edges_are_listed_by_axis():
    grid = {"name": "rectilinear", "configuration": {"kind": "inline", "chunk_shapes": [each for each, _ in SIZES]}}
    found = edges_of({"zarr.json": json.dumps({"shape": [24, 17, 10], "chunk_grid": grid}).encode()})
    assert found == ((0, 10, 20, 25), (0, 5, 7, 17), (0, 5, 10))
