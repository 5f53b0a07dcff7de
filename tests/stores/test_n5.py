"""Arrays of N5, written here by the bytes of its specification, and by TensorStore."""

import bz2
import gzip
import itertools
import json
import lzma
import struct
import zlib

import numpy as np
import pytest

from anydml import stores
from anydml.errors import BindingError, ModelError

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

COMPRESSIONS = {
    "raw": ({"type": "raw"}, bytes),
    "gzip": ({"type": "gzip", "level": -1}, gzip.compress),
    "zlib": ({"type": "gzip", "level": 3, "useZlib": True}, zlib.compress),
    "bzip2": ({"type": "bzip2", "blockSize": 9}, bz2.compress),
    "xz": ({"type": "xz", "preset": 6}, lzma.compress),
}


def written(path, x, block, compression="raw", are_cut=True, without=(), **more):
    """Write an array; the last blocks of an axis are cut, as by Java, or whole."""
    said, compress = COMPRESSIONS[compression]
    path.mkdir(parents=True)
    attributes = {"dimensions": [*x.shape], "blockSize": [*block], "dataType": x.dtype.name, "compression": said}
    (path / "attributes.json").write_text(json.dumps({**attributes, **more}))
    for number in itertools.product(*(range(-(-size // b)) for size, b in zip(x.shape, block, strict=True))):
        if number in without:
            continue
        piece = x[tuple(slice(k * b, k * b + b) for k, b in zip(number, block, strict=True))]
        if not are_cut:
            whole = np.zeros(block, x.dtype)
            whole[tuple(map(slice, piece.shape))] = piece
            piece = whole
        file = path.joinpath(*map(str, number))
        file.parent.mkdir(parents=True, exist_ok=True)
        header = struct.pack(f">HH{x.ndim}I", 0, x.ndim, *piece.shape)
        file.write_bytes(header + compress(piece.astype(x.dtype.newbyteorder(">")).tobytes("F")))


def elements(*shape, dtype="<u2"):
    return np.arange(1, 1 + np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.filterwarnings("ignore:Numcodecs codecs")
@pytest.mark.parametrize("are_cut", [True, False])
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("shape", [(7,), (7, 5), (6, 5, 4), (1, 3, 2, 9), (8, 4)])
def test_blocks_are_read(tmp_path, shape, compression, are_cut):
    x = elements(*shape, dtype="<i4")
    written(tmp_path / "n5", x, [4, 2, 3, 2][: len(shape)], compression, are_cut)
    np.testing.assert_array_equal(stores.open(tmp_path / "n5").read(), x)
    order = [*range(len(shape))][::-1]
    plan = stores.rechunk(tmp_path / "n5", tmp_path / "y", permute=order)
    plan.run()
    assert plan.verify() is None
    found = zarr.open_array(str(tmp_path / "y"), mode="r")
    np.testing.assert_array_equal(found[...], x.T)
    if not are_cut:
        assert found.chunks == tuple([4, 2, 3, 2][: len(shape)][::-1])


@pytest.mark.parametrize("dtype", ["u1", "i1", "<u2", "<i2", "<u4", "<i4", "<u8", "<i8", "<f4", "<f8"])
def test_all_dtypes_are_read(tmp_path, dtype):
    x = elements(5, 6, dtype=dtype)
    written(tmp_path / "n5", x, [3, 3])
    stores.rechunk(tmp_path / "n5", tmp_path / "x.npy").run()
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), x)


def test_a_block_that_is_not_there_is_zeros(tmp_path):
    x = elements(7, 5)
    written(tmp_path / "n5", x, [4, 2], without=[(0, 1), (1, 2)])
    x[:4, 2:4] = x[4:, 4:] = 0
    np.testing.assert_array_equal(stores.open(tmp_path / "n5").read(), x)


def test_a_container_is_a_group(tmp_path):
    maps, rows = elements(6, 5, 4), elements(9)
    (tmp_path / "n5").mkdir()
    (tmp_path / "n5/attributes.json").write_text('{"n5": "4.0.0", "title": "cells"}')
    written(tmp_path / "n5/deep/maps", maps, [4, 2, 3], "gzip", axes=["x", "y", "z"], units=["nm", "nm", "nm"])
    written(tmp_path / "n5/rows", rows, [4])
    plan = stores.rechunk(tmp_path / "n5", tmp_path / "y", [6, 5, 1])
    assert any("the first lies closest" in remark for remark in plan.remarks)
    plan.run()
    assert plan.verify() is None
    group = zarr.open_group(str(tmp_path / "y"), mode="r")
    assert (group.attrs.asdict(), group["deep/maps"].attrs.asdict()) == ({"title": "cells"}, {"units": ["nm"] * 3})
    assert (group["deep/maps"].metadata.dimension_names, group["deep/maps"].chunks) == (("x", "y", "z"), (6, 5, 1))
    np.testing.assert_array_equal(group["deep/maps"][...], maps)
    np.testing.assert_array_equal(group["rows"][...], rows)
    assert group["rows"].metadata.chunk_grid.to_dict()["name"] == "regular"
    assert stores.verify(tmp_path / "n5", tmp_path / "y") is None
    np.testing.assert_array_equal(stores.open(tmp_path / "n5/deep/maps").read(), maps)


def test_what_changes_is_read_anew_or_refused(tmp_path):
    x = elements(6, 4)
    (tmp_path / "n5").mkdir()
    (tmp_path / "n5/attributes.json").write_text('{"n5": "4.0.0"}')
    written(tmp_path / "n5/a", x, [3, 2], without=[(1, 1)])
    assert stores.open(tmp_path / "n5/a").read()[5, 3] == 0
    assert stores.verify(tmp_path / "n5", tmp_path / "n5") is None
    plan = stores.rechunk(tmp_path / "n5/a", tmp_path / "y", [6, 4])
    block = struct.pack(">HHII", 0, 2, 3, 2) + x[3:, 2:].astype(">u2").tobytes("F")
    (tmp_path / "n5/a/1/1").write_bytes(block)
    with pytest.raises(BindingError, match="has changed since it was opened"):
        plan.run()
    np.testing.assert_array_equal(stores.open(tmp_path / "n5/a").read(), x)
    stores.rechunk(tmp_path / "n5", tmp_path / "z", [6, 4]).run()
    np.testing.assert_array_equal(zarr.open_group(str(tmp_path / "z"), mode="r")["a"][...], x)


def header(*sizes, mode=0, axes=None):
    return struct.pack(f">HH{len(sizes)}I", mode, len(sizes) if axes is None else axes, *sizes)


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (lambda path, _: (path / "1/0").write_bytes(header(3, 2) + bytes(12)), "a block of sizes \\[3, 2\\]"),
        (lambda path, _: (path / "0/0").write_bytes(header(2, 4) + bytes(16)), "a block of sizes \\[2, 4\\]"),
        (lambda path, _: (path / "0/0").write_bytes(header(4, 2, mode=1) + bytes(20)), "a block of mode 1"),
        (lambda path, _: (path / "0/0").write_bytes(header(4, 2, axes=3) + bytes(20)), "mode 0 and 3 axes"),
        (lambda path, _: (path / "0/0").write_bytes(b"\0"), "a block of 1 bytes"),
        (lambda path, _: (path / "0/0").write_bytes(header(4, 2) + bytes(15)), "cannot be read"),
        (lambda path, _: (path / "0/0").write_bytes(header(4, 2) + bytes(17)), "cannot be read"),
        (lambda _, said: said.update(compression={"type": "lz4", "blockSize": 65536}), "compression .*lz4"),
        (lambda _, said: said.update(compression={"type": "blosc"}), "lacks 'cname'"),
        (lambda _, said: said.update(compression="gzip"), "compression"),
        (lambda _, said: said.update(dataType="string"), 'dataType "string"'),
        (lambda _, said: said.update(dimensions=[6, 4, 2]), "lists of as many sizes"),
        (lambda _, said: said.update(blockSize=[4, 0]), "lists of as many sizes"),
        (lambda _, said: said.update(blockSize=[True, 2]), "lists of as many sizes"),
    ],
)
def test_what_is_not_read_is_refused(tmp_path, break_it, why):
    written(tmp_path / "n5", elements(6, 4), [4, 2])
    attributes = json.loads((tmp_path / "n5/attributes.json").read_text())
    break_it(tmp_path / "n5", attributes)
    (tmp_path / "n5/attributes.json").write_text(json.dumps(attributes))
    with pytest.raises(ModelError, match=why):
        stores.open(tmp_path / "n5").read()
    (tmp_path / "n5/attributes.json").rename(tmp_path / "n5/other")
    (tmp_path / "n5/attributes.json").mkdir()
    with pytest.raises(ModelError):
        stores.open(tmp_path / "n5")


def test_an_array_that_is_not_read_is_left_out_of_a_group(tmp_path):
    (tmp_path / "n5").mkdir()
    (tmp_path / "n5/attributes.json").write_text('{"n5": "4.0.0"}')
    written(tmp_path / "n5/a", elements(6, 4), [4, 2])
    written(tmp_path / "n5/b", elements(6, 4), [4, 2], dtype=None)
    (tmp_path / "n5/b/0/0").write_bytes(b"")
    plan = stores.rechunk(tmp_path / "n5", tmp_path / "y", [6, 4])
    assert any("leaves out" in remark and "a block of 0 bytes" in remark for remark in plan.remarks)
    plan.run()
    np.testing.assert_array_equal(zarr.open_group(str(tmp_path / "y"), mode="r")["a"][...], elements(6, 4))
    with pytest.raises(ModelError, match="a block of 0 bytes"):
        stores.open(tmp_path / "n5/b")


def test_nothing_is_written_into_it(tmp_path):
    written(tmp_path / "n5", elements(6, 4), [4, 2])
    np.save(tmp_path / "x.npy", elements(6, 4))
    for target in ("n5", "n5/new"):
        with pytest.raises((ModelError, BindingError)):
            stores.rechunk(tmp_path / "x.npy", tmp_path / target, [6, 4], overwrite=True).run()
    np.testing.assert_array_equal(stores.open(tmp_path / "n5").read(), elements(6, 4))


@pytest.mark.parametrize("compression", ["raw", "gzip", "bzip2", "xz", "zstd", "blosc"])
@pytest.mark.filterwarnings("ignore:Numcodecs codecs")
def test_as_tensorstore_writes_it(tmp_path, compression):
    tensorstore = pytest.importorskip("tensorstore", reason="TensorStore is not installed")
    x = elements(6, 5, 4, dtype="<f4")
    said = {"type": compression, **({"cname": "lz4", "clevel": 5, "shuffle": 2} if compression == "blosc" else {})}
    metadata = {"dimensions": [6, 5, 4], "blockSize": [4, 3, 2], "dataType": "float32", "compression": said}
    place = {"driver": "file", "path": str(tmp_path / "n5")}
    made = tensorstore.open({"driver": "n5", "kvstore": place, "metadata": metadata}, create=True).result()
    made.write(x).result()
    np.testing.assert_array_equal(stores.open(tmp_path / "n5").read(), x)
