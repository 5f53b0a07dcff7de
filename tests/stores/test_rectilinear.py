"""Zarr arrays whose chunks have several sizes: written here by the specification, chunk by chunk with zarr-python."""

import itertools
import json

import numpy as np
import pytest

from anydml import stores
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


def test_they_are_not_written(tmp_path):
    written(tmp_path / "x", array(), "zstd")
    with pytest.raises(ModelError, match=r"would have chunks of several sizes, .* give one size by --chunks"):
        stores.rechunk(tmp_path / "x", tmp_path / "y", codec="gzip")


@pytest.mark.parametrize(
    "sizes, said",
    [
        ([[10, 10], 17, 10], "chunks of 20 elements do not cover an axis of 24"),
        ([[10, 0, 14], 17, 10], "sizes from 1"),
        ([[[10, 1, 2]], 17, 10], "sizes from 1"),
        ([[[1, 1 << 30]], 17, 10], "at most 1048576 an axis"),
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
