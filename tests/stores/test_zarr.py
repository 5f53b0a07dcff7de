"""Zarr arrays: opened without being read, and moved by plans within their memory."""

import json
import os
import sys
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest

import anydml as dml
from anydml import stores
from anydml.engines.numpy.engine import NumpyProgram
from anydml.errors import BindingError, ModelError
from anydml.stores.running import chunk_writer

zarr = pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')

SHAPE = (37, 20, 13)
INDICES = np.array([3, 1, 4, 1, 5, -1])
MANY = np.random.default_rng(0).integers(-13, 13, 300)
FUNCTIONS = {
    "transposed": lambda x: np.transpose(x, (2, 0, 1)),
    "sliced": lambda x: x[::-2, 3:18],
    "joined": lambda x: np.concatenate([x[:, :9][:, ::-1], x[:, 12:]], 1),
    "gathered": lambda x: dml.gather(x, INDICES, axis=1),
    "gathered by many": lambda x: dml.gather(x, MANY, axis=0),
    "gathered by many inside": lambda x: x[:, MANY],
    "flat": lambda x: x.reshape(SHAPE[0], -1),
    "flat backwards": lambda x: x[:, ::-1].reshape(-1)[::-1][7:7000],
    "merged and cut": lambda x: x.reshape(-1, 13)[5:700:3].T,
    "other rows": lambda x: x.reshape(-1)[: 26 * 370].reshape(370, 26)[3:],
    "padded": lambda x: np.pad(x, ((1, 2), (0, 0), (3, 0))),
    "stacked": lambda x: np.stack([x, x[::-1]], 1),
    "diagonal": lambda x: x[np.arange(13), :, np.arange(13)],
    "constant": lambda x: np.concatenate([x, np.arange(260, dtype=np.float32).reshape(1, 20, 13)]),
    "one": lambda x: x[5, 6, 7],
    "nothing": lambda x: x[:0],
}


def array_of(shape=SHAPE, dtype=np.float32):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


def made(path, array, chunks, version=3, **options):
    """A Zarr array made by zarr-python."""
    target = zarr.create_array(
        store=str(path), shape=array.shape, chunks=chunks, dtype=array.dtype, zarr_format=version, **options
    )
    target[...] = array
    return stores.open(path)


def read(path):
    return zarr.open_array(str(path), mode="r")[...]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "version, compressors, memory", [(2, "auto", "40kB"), (3, None, "40kB"), (3, "auto", "25kB"), (2, None, "1MB")]
)
def test_plans_do_what_numpy_does(tmp_path, name, version, compressors, memory):
    x = array_of()
    wanted = FUNCTIONS[name](x)
    store = made(tmp_path / "x.zarr", x, (8, 7, 5), version, compressors=compressors)
    # Files take most of the time: one axis of thousands would have hundreds.
    chunks = [min(9 if wanted.ndim > 1 else 90, max(1, n)) for n in wanted.shape]
    y = stores.create(tmp_path / "y.zarr", wanted.shape, np.float32, like=store, chunks=chunks)
    dml.fuse(FUNCTIONS[name]).plan(store, y, memory).run()
    np.testing.assert_array_equal(read(tmp_path / "y.zarr"), wanted)
    assert sorted(os.listdir(tmp_path)) == ["x.zarr", "y.zarr"]


@pytest.mark.parametrize("kind", ["zarr", "npy"])
@pytest.mark.parametrize("axis", [0, 1])
def test_indices_may_be_more_than_runs_of_a_plan(tmp_path, kind, axis):
    x = array_of((700, 6) if axis == 0 else (6, 700))
    if kind == "npy":
        np.save(tmp_path / "x.npy", x)
    store = made(tmp_path / "x.zarr", x, (80, 80)) if kind == "zarr" else stores.open(tmp_path / "x.npy")
    index = np.random.default_rng(axis).integers(-700, 700, 70_000)
    wanted = x.take(index, axis)
    y = stores.create(tmp_path / "y.zarr", wanted.shape, np.float32, chunks=np.minimum(wanted.shape, 9000).tolist())
    dml.fuse(lambda x: dml.gather(x, index, axis)).plan(store, y, "4MB").run()
    np.testing.assert_array_equal(read(tmp_path / "y.zarr"), wanted)


@pytest.mark.parametrize("seed", range(20))
def test_random_views_of_chunks_are_numpys(tmp_path, seed):
    rng = np.random.default_rng(seed)
    shape = [int(n) for n in rng.integers(1, 12, rng.integers(1, 5))]
    x = rng.integers(0, 1 << 30, shape).astype(np.float32)
    store = made(tmp_path / "x.zarr", x, [int(rng.integers(1, n + 1)) for n in shape])
    steps = rng.integers(0, 1 << 30, (int(rng.integers(1, 5)), 4)).tolist()

    def chain(x):
        for way, at, number, other in steps:
            axis = at % x.ndim
            before = (slice(None),) * axis
            if way % 4 == 0:
                x = np.moveaxis(x, axis, number % x.ndim)
            elif way % 4 == 1:
                x = x[(*before, slice(number % x.shape[axis], None, (1, 2, 3, -1, -2)[other % 5]))]
            elif way % 4 == 2:
                x = np.concatenate([x, x[(*before, slice(0, 1 + number % 5))]], axis)
            else:
                x = x.reshape(-1) if number % 2 else x.reshape(x.shape[0], -1)
        return x

    wanted = chain(x)
    chunks = [int(rng.integers(1, n + 1)) for n in wanted.shape]
    y = stores.create(tmp_path / "y.zarr", wanted.shape, np.float32, chunks=chunks)
    dml.fuse(chain).plan(store, y, int(rng.integers(9000, 40_000))).run()
    np.testing.assert_array_equal(read(tmp_path / "y.zarr"), wanted)
    dml.fuse(chain).plan(store, stores.create(tmp_path / "z.npy", wanted.shape, np.float32), 9000).run()
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), wanted)


@pytest.mark.parametrize("kind", ["zarr", "npy"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_plans_are_explained_by_a_program_that_does_the_same(tmp_path, name, kind):
    x = np.asarray(array_of(), order="F" if kind == "npy" else "C")
    wanted = FUNCTIONS[name](x)
    np.save(tmp_path / "x.npy", x)
    store = made(tmp_path / "x.zarr", x, (8, 7, 5)) if kind == "zarr" else stores.open(tmp_path / "x.npy")
    y = stores.create(tmp_path / "y.zarr", wanted.shape, np.float32, chunks=[min(9, max(1, n)) for n in wanted.shape])
    plan = dml.fuse(FUNCTIONS[name]).plan(store, y, "1MB")
    found = np.empty(wanted.shape, np.float32)
    constants = [operand.value for operand in plan.program.operands if operand.role == "constant"]
    NumpyProgram(plan.program).bind([x, found, *constants])()
    np.testing.assert_array_equal(found, wanted)
    explained = dml.explain(plan)
    assert str(plan) in str(explained)
    assert f"float32 {[*SHAPE]}" in str(explained)
    assert "<svg" in explained.html()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["npy", "safetensors"])
def test_plain_files_and_zarr_both_ways(tmp_path, order, kind):
    x = array_of()
    np.save(tmp_path / "x.npy", np.asarray(x, order=order))
    store, turned = stores.open(tmp_path / "x.npy"), dml.fuse(lambda x: x.T)
    turned.plan(store, stores.create(tmp_path / "y.zarr", x.T.shape, x.dtype, chunks=(5, 8, 9)), "30kB").run()
    np.testing.assert_array_equal(read(tmp_path / "y.zarr"), x.T)
    back = stores.open(tmp_path / "y.zarr")
    if kind == "npy":
        turned.plan(back, stores.create(tmp_path / "z.npy", x.shape, x.dtype), "30kB").run()
        found = np.load(tmp_path / "z.npy")
    else:
        targets = stores.create(tmp_path / "z.safetensors", {"a": x.shape, "b": x.shape[::-1]}, x.dtype)
        dml.fuse(lambda x: {"a": x.T, "b": x}).plan(back, targets, "60kB").run()
        found = stores.open(tmp_path / "z.safetensors")["a"].read()
    np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize(
    "options",
    [
        {"version": 2, "order": "F"},
        {"version": 2, "filters": "delta"},
        {"version": 3, "shards": (16, 14, 10)},
        {"version": 3, "compressors": "gzip"},
        {"version": 3, "compressors": "blosc"},
        {"version": 3, "serializer": "big"},
        {"version": 3, "filters": "transpose"},
        {"version": 3, "compressors": "crc32c"},
        {"version": 2, "dtype": ">f4"},
        {"version": 2, "dtype": "c16"},
    ],
    ids=str,
)
def test_whatever_codecs_there_are(tmp_path, options):
    kinds = {
        "gzip": lambda: zarr.codecs.GzipCodec(level=1),
        "blosc": lambda: zarr.codecs.BloscCodec(cname="lz4", shuffle="bitshuffle"),
        "crc32c": zarr.codecs.Crc32cCodec,
        "big": lambda: zarr.codecs.BytesCodec(endian="big"),
        "transpose": lambda: [zarr.codecs.TransposeCodec(order=(2, 0, 1))],
        "delta": lambda: [__import__("numcodecs").Delta(dtype="<f4")],
    }
    options = {key: kinds[value]() if value in kinds else value for key, value in options.items()}
    x = array_of(dtype=options.pop("dtype", "<f4"))
    store = made(tmp_path / "x.zarr", x, (8, 7, 5), **options)
    y = stores.create(tmp_path / "y.zarr", like=store)
    assert y.layout.codec == store.layout.codec
    assert y.layout.is_own == store.layout.is_own
    dml.fuse(lambda x: x[::-1]).plan(store, y, "60kB").run()
    found = zarr.open_array(str(tmp_path / "y.zarr"), mode="r")
    np.testing.assert_array_equal(found[...], x[::-1])
    assert found.dtype == x.dtype
    assert (found.chunks, found.shards) == ((8, 7, 5), options.get("shards"))


@pytest.mark.parametrize("version", [2, 3])
def test_what_is_not_stored_is_the_fill_value(tmp_path, version):
    empty = zarr.create_array(
        store=str(tmp_path / "x.zarr"), shape=(10, 9), chunks=(4, 4), dtype="i2", fill_value=7, zarr_format=version
    )
    empty[:4, :4] = 1
    store = stores.open(tmp_path / "x.zarr")
    for memory in ("5kB", "1MB"):
        y = stores.create(tmp_path / "y.zarr", (9, 10), "i2", like=store, chunks=(3, 3))
        dml.fuse(lambda x: x.T).plan(store, y, memory, overwrite=True).run()
        np.testing.assert_array_equal(read(tmp_path / "y.zarr"), empty[...].T)
    assert zarr.open_array(str(tmp_path / "y.zarr")).fill_value == 7


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3 specification")
@pytest.mark.parametrize("dtype", ["<M8[s]", "<m8[ms]", "<U3", "<f4"])
@pytest.mark.parametrize("target", [{"zarr_format": 2}, {"zarr_format": 3}, {"zarr_format": 2, "permute": [1, 0]}])
def test_without_a_fill_value_readers_find_what_zarr_python_found(tmp_path, dtype, target):
    options = {"shape": (4, 3), "chunks": (2, 3), "dtype": dtype, "fill_value": None, "zarr_format": 2, "order": "F"}
    zarr.create_array(store=str(tmp_path / "x.zarr"), **options)[:2] = np.zeros((2, 3), dtype)
    wanted = read(tmp_path / "x.zarr").transpose(target.get("permute", [0, 1]))
    stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zarr", [1, 2], **target).run()
    # As texts, for times that are none are not equal.
    np.testing.assert_array_equal(read(tmp_path / "y.zarr").astype(str), wanted.astype(str))
    if target["zarr_format"] == 2:
        assert len([*(tmp_path / "y.zarr").glob("[0-9].[0-9]")]) == np.prod(-(-np.array(wanted.shape) // [1, 2]))


def test_metadata_are_carried_over_and_codecs_given(tmp_path):
    x = array_of()
    store = made(tmp_path / "x.zarr", x, (8, 7, 5), attributes={"units": "K"}, dimension_names=["t", "y", "x"])
    for codec, kind in [("none", None), ("zstd:9", "ZstdCodec"), ("gzip", "GzipCodec"), ("blosc:3", "BloscCodec")]:
        y = stores.create(tmp_path / "y.zarr", like=store, codec=codec)
        dml.fuse(lambda x: x[::-1]).plan(store, y, overwrite=True).run()
        found = zarr.open_array(str(tmp_path / "y.zarr"), mode="r")
        assert dict(found.attrs) == {"units": "K"}
        assert found.metadata.dimension_names == ("t", "y", "x")
        assert [type(each).__name__ for each in found.compressors] == ([kind] if kind else [])
        np.testing.assert_array_equal(found[...], x[::-1])


def test_each_chunk_is_decoded_once_whatever_the_memory(tmp_path, monkeypatch):
    x = array_of((64, 64, 8))
    store = made(tmp_path / "x.zarr", x, (4, 64, 8), compressors=zarr.codecs.GzipCodec())
    decoded, decompressobj = [], zlib.decompressobj
    # Each chunk has a decompressor of its own.
    monkeypatch.setattr(zlib, "decompressobj", lambda *form: decoded.append(form) or decompressobj(*form))
    plan = dml.fuse(lambda x: x.T).plan(
        store, stores.create(tmp_path / "y.zarr", x.T.shape, x.dtype, chunks=(8, 4, 64)), "70kB"
    )
    assert len(plan.blocks) > 2
    assert "decoded chunks are kept" in str(plan)
    plan.run()
    assert len(decoded) == 64 // 4
    np.testing.assert_array_equal(read(tmp_path / "y.zarr"), x.T)
    assert sorted(os.listdir(tmp_path)) == ["x.zarr", "y.zarr"]


def test_no_chunk_is_written_twice(tmp_path, monkeypatch):
    x = array_of()
    store, written = made(tmp_path / "x.zarr", x, (8, 7, 5)), []
    write = chunk_writer.ChunkWriter.write
    monkeypatch.setattr(
        chunk_writer.ChunkWriter, "write", lambda self, row, flat: written.extend(row) or write(self, row, flat)
    )
    y = stores.create(tmp_path / "y.zarr", x.T.shape, x.dtype, chunks=(6, 9, 10))
    plan = dml.fuse(lambda x: x.T).plan(store, y, "15kB")
    assert len(plan.blocks) > 2
    plan.run()
    assert len(written) == len({*written}) == plan.totals.writes == 3 * 3 * 4


@pytest.mark.parametrize("compressors", [None, "auto"])
def test_memory_is_kept(tmp_path, compressors):
    x = array_of((400, 500, 10))
    store = made(tmp_path / "x.zarr", x, (40, 50, 10), compressors=compressors)
    plan = dml.fuse(lambda x: x.T).plan(
        store, stores.create(tmp_path / "y.zarr", x.T.shape, x.dtype, chunks=(10, 50, 40)), "1MB"
    )
    plan.run()
    tracemalloc.start()
    try:
        plan.overwrite = True
        plan.run()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # What Python itself needs for tasks and for folders' names comes on top of the buffers.
    assert peak < 1_500_000
    assert x.nbytes == 8_000_000


class Stopped(Exception):
    pass


def test_what_was_stopped_goes_on_and_writes_no_finished_block_again(tmp_path):
    x = array_of()
    store = made(tmp_path / "x.zarr", x, (8, 7, 5))

    def plan():
        y = stores.create(tmp_path / "y.zarr", x.T.shape, x.dtype, like=store, chunks=(6, 9, 10))
        return dml.fuse(lambda x: x.T).plan(stores.open(tmp_path / "x.zarr"), y, "15kB")

    written = []

    def stopping(count):
        written.append(count)
        if len(written) == 2:
            raise Stopped

    with pytest.raises(Stopped):
        plan().run(progress=stopping)
    assert not (tmp_path / "y.zarr").exists()
    again, rest = plan(), []
    again.run(progress=rest.append)
    assert 1 <= again.resumed < len(again.blocks)
    assert len(rest) == len(again.blocks) - again.resumed
    np.testing.assert_array_equal(read(tmp_path / "y.zarr"), x.T)
    assert sorted(os.listdir(tmp_path)) == ["x.zarr", "y.zarr"]


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
def test_inputs_that_change_are_noticed(tmp_path, moment):
    x = array_of()
    store = made(tmp_path / "x.zarr", x, (8, 7, 5))
    plan = dml.fuse(lambda x: x.T).plan(
        store, stores.create(tmp_path / "y.zarr", x.T.shape, x.dtype, chunks=(6, 9, 10)), "15kB"
    )

    def change():
        (tmp_path / "x.zarr" / "c" / "0" / "0" / "0").write_bytes(b"other")

    progress = False
    if moment == "before":
        change()
    else:
        written = []

        def progress(count):
            written.append(count)
            if len(written) == len(plan.blocks):
                change()

    with pytest.raises(BindingError, match="has changed since it was opened"):
        plan.run(progress=progress)
    assert sorted(os.listdir(tmp_path)) == ["x.zarr"]


@pytest.mark.skipif(sys.platform != "linux", reason="processes are forked and killed")
def test_killed_at_random_moments_it_goes_on(tmp_path):
    """The child is killed at one of its next system calls, again and again; what has the name is whole."""
    import subprocess

    child = Path(__file__).with_name("killing_folder_child.py")
    made(tmp_path / "x.zarr", array_of(), (8, 7, 5))
    result = subprocess.run(
        [sys.executable, str(child), str(tmp_path), "zarr"], capture_output=True, text=True, timeout=600, check=False
    )
    assert result.returncode == 0, result.stderr
    counts = [int(line) for line in result.stdout.splitlines()]
    assert len(counts) == 25
    assert sum(count > 0 for count in counts) > 2, "it was killed in the midst of it"
    assert sorted(os.listdir(tmp_path)) == ["x.zarr", "y.zarr"]


@pytest.mark.parametrize("content", ["{}", '{"zarr_format": 3}', '{"zarr_format": 3, "node_type": "table"}'])
def test_metadata_of_no_known_node(tmp_path, content):
    (tmp_path / "x.zarr").mkdir()
    (tmp_path / "x.zarr" / "zarr.json").write_text(content)
    with pytest.raises(ModelError, match=r"node_type must be|zarr-python cannot read"):
        stores.open(tmp_path / "x.zarr")
    with pytest.raises(ModelError, match=r"node_type|zarr-python cannot read"):
        stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.npy")


def test_broken_chunks_and_metadata_are_a_clear_line(tmp_path):
    store = made(tmp_path / "x.zarr", array_of(), (8, 7, 5))
    (tmp_path / "x.zarr" / "c" / "1" / "1" / "1").write_bytes(b"no zstd at all")
    plan = dml.fuse(lambda x: x.T).plan(store, stores.create(tmp_path / "y.zarr", SHAPE[::-1], np.float32))
    with pytest.raises(ModelError, match="1/1/1: cannot be read as a chunk"):
        plan.run()
    assert not (tmp_path / "y.zarr").exists()
    text = json.loads((tmp_path / "x.zarr" / "zarr.json").read_text())
    for change in ({"shape": "a"}, {"data_type": "f99"}, {"codecs": []}, {"zarr_format": 9}, {"shape": [-1, 2, 3]}):
        (tmp_path / "x.zarr" / "zarr.json").write_text(json.dumps({**text, **change}))
        with pytest.raises(ModelError):
            stores.open(tmp_path / "x.zarr")
    (tmp_path / "x.zarr" / "zarr.json").write_text("{")
    with pytest.raises(ModelError, match="zarr-python cannot read"):
        stores.open(tmp_path / "x.zarr")


def test_a_chunk_that_is_too_short(tmp_path):
    store = made(tmp_path / "x.zarr", array_of(), (8, 7, 5), compressors=None)
    (tmp_path / "x.zarr" / "c" / "1" / "1" / "1").write_bytes(b"short")
    plan = dml.fuse(lambda x: x.T).plan(store, stores.create(tmp_path / "y.zarr", SHAPE[::-1], np.float32))
    with pytest.raises(ModelError, match="1/1/1"):
        plan.run()


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("codec", ["zstd", "gzip", "blosc"])
@pytest.mark.parametrize("last", [4, 0xA5])
def test_a_chunk_that_decodes_to_another_size_is_refused(tmp_path, version, codec, last):
    import numcodecs

    x = np.arange(8, dtype=np.uint32)
    x[[3, 7]] = np.array([0, 0, 0, last], np.uint8).view(np.uint32)
    source, path = tmp_path / "source.zarr", tmp_path / "x.zarr"
    made(source, x, (4,), version)
    stores.rechunk(source, path, codec=codec).run()
    stores.rechunk(path, tmp_path / "whole.npy").run()
    assert np.array_equal(np.load(tmp_path / "whole.npy"), x)
    coder = numcodecs.get_codec({"id": codec})
    for count in (1, 3, 5, 4000):
        (path / ("1" if version == 2 else "c/1")).write_bytes(bytes(coder.encode(np.zeros(count, np.uint32))))
        with pytest.raises(ModelError, match="cannot be read as a chunk"):
            stores.rechunk(path, tmp_path / "y.npy").run()


@pytest.mark.parametrize("codec", ["gzip", "zlib", "bz2", "lzma", "zstd"])
def test_of_a_bomb_no_more_is_decoded_than_a_chunk_has(tmp_path, codec):
    import numcodecs

    x = np.arange(4096, dtype=np.uint32)
    # Each thread has a dictionary of lzma's, of 256 KiB with this preset.
    coder = numcodecs.get_codec({"id": codec, **({"preset": 0} if codec == "lzma" else {})})
    target = zarr.create_array(store=tmp_path / "x.zarr", shape=4096, chunks=1024, dtype="u4", zarr_format=2,
                               compressors=coder)  # fmt: skip
    target[...] = x
    stores.rechunk(tmp_path / "x.zarr", tmp_path / "whole.npy").run()
    assert np.array_equal(np.load(tmp_path / "whole.npy"), x)
    whole = (tmp_path / "x.zarr" / "1").read_bytes()
    for broken in (whole[:-1], whole[: len(whole) // 2], coder.encode(np.zeros(1 << 24, np.uint8))):
        (tmp_path / "x.zarr" / "1").write_bytes(broken)
        plan = stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.npy", memory="64kB")
        tracemalloc.start()
        with pytest.raises(ModelError, match="cannot be read as a chunk"):
            plan.run()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < 4 << 20


def test_an_array_with_files_of_others_is_not_replaced(tmp_path):
    for name, version in (("x.zarr", 3), ("v.zarr", 2)):
        made(tmp_path / name, array_of(), (8, 7, 5), version)
    made(tmp_path / "one.zarr", np.float32(3), ())
    for name in ("notes.txt", "c/0/notes.txt", "x/0", ".DS_Store"):
        mine = tmp_path / "x.zarr" / name
        mine.parent.mkdir(parents=True, exist_ok=True)
        mine.write_text("mine")
        with pytest.raises(ModelError, match=f"has '?\"?{name}.* beside its chunks"):
            stores.rechunk(tmp_path / "v.zarr", tmp_path / "x.zarr", overwrite=True).run()
        assert mine.read_text() == "mine"
        mine.unlink()
    for source, target in (("v", "x"), ("x", "v"), ("v", "one"), ("one", "x")):
        plan = stores.rechunk(tmp_path / f"{source}.zarr", tmp_path / f"{target}.zarr", overwrite=True)
        plan.run()
        assert np.array_equal(read(tmp_path / f"{target}.zarr"), read(tmp_path / f"{source}.zarr"))


@pytest.mark.filterwarnings("ignore:.*does not have a Zarr V3")
@pytest.mark.parametrize("dtype", [">i4", ">f8", ">c8", ">M8[s]", ">U2", ">u2"])
def test_orders_of_bytes_are_kept(tmp_path, dtype):
    x = np.arange(24).reshape(4, 6).astype(dtype)
    np.save(tmp_path / "x.npy", x)
    stores.rechunk(tmp_path / "x.npy", tmp_path / "x.zarr", chunks=[3, 4]).run()
    assert np.array_equal(read(tmp_path / "x.zarr"), x)
    stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.zarr", chunks=[2, 2], permute=[1, 0]).run()
    assert np.array_equal(read(tmp_path / "y.zarr"), x.T)
    stores.rechunk(tmp_path / "y.zarr", tmp_path / "y.npy", permute=[1, 0]).run()
    back = np.load(tmp_path / "y.npy")
    assert np.array_equal(back, x)
    assert back.dtype == x.dtype
    made(tmp_path / "old.zarr", x, (3, 4), 2)
    stores.rechunk(tmp_path / "old.zarr", tmp_path / "new.zarr", chunks=[4, 1], flip=[0]).run()
    assert np.array_equal(read(tmp_path / "new.zarr"), x[::-1])


@pytest.mark.parametrize("version", [2, 3])
def test_arrays_without_axes(tmp_path, version):
    made(tmp_path / "x.zarr", np.array(7, np.int16), (), version)
    stores.rechunk(tmp_path / "x.zarr", tmp_path / "x.npy").run()
    assert np.load(tmp_path / "x.npy") == 7
    stores.rechunk(tmp_path / "x.npy", tmp_path / "y.zarr").run()
    assert read(tmp_path / "y.zarr") == 7


@pytest.mark.parametrize("version", [2, 3])
def test_groups_are_never_replaced(tmp_path, version):
    group = zarr.open_group(str(tmp_path / "g.zarr"), mode="w", zarr_format=version)
    group.create_array("a", data=np.arange(3))
    np.save(tmp_path / "x.npy", np.arange(6))
    with pytest.raises(ModelError, match="is not a Zarr array, and is not replaced"):
        stores.rechunk(tmp_path / "x.npy", tmp_path / "g.zarr", overwrite=True).run()
    assert read(tmp_path / "g.zarr" / "a").tolist() == [0, 1, 2]


@pytest.mark.parametrize("version", [2, 3])
def test_metadata_that_change_before_a_plan_is_made_are_noticed(tmp_path, version):
    store = made(tmp_path / "x.zarr", np.arange(6), (2,), version)
    zarr.open_array(str(tmp_path / "x.zarr"), mode="r+").resize((4,))
    target = stores.create(tmp_path / "y.npy", store.shape, store.dtype)
    with pytest.raises(BindingError, match="has changed since it was opened"):
        dml.fuse(lambda x: x[::-1]).plan(store, target)


def test_two_outputs_are_never_one_file(tmp_path):
    store = made(tmp_path / "x.zarr", np.arange(6), (2,))
    both = [stores.create(tmp_path / "y.npy", (3,), store.dtype) for _ in range(2)]
    with pytest.raises(BindingError, match=r"y\.npy is written twice"):
        dml.fuse(lambda x: (x[:3], x[3:])).plan(store, tuple(both))


@pytest.mark.skipif(os.name != "posix", reason="links need rights on Windows")
def test_links_that_lead_back_are_followed_once(tmp_path):
    x = np.arange(6)
    made(tmp_path / "x.zarr", x, (2,))
    for name in "pqr":
        (tmp_path / "x.zarr" / name).symlink_to(".")
    stores.rechunk(tmp_path / "x.zarr", tmp_path / "y.npy").run()
    assert np.array_equal(np.load(tmp_path / "y.npy"), x)


def test_refused(tmp_path):
    x = array_of()
    store = made(tmp_path / "x.zarr", x, (8, 7, 5))
    turned = dml.fuse(lambda x: x.T)
    y = stores.create(tmp_path / "y.zarr", x.T.shape, x.dtype)
    turned.plan(store, y).run()
    with pytest.raises(ModelError, match="exists already"):
        turned.plan(store, stores.create(y.path, x.T.shape, x.dtype, chunks=(1, 2, 3))).run()
    np.testing.assert_array_equal(read(tmp_path / "y.zarr"), x.T)
    for path in (tmp_path / "x.zarr", tmp_path / "x.zarr" / "in.zarr"):
        with pytest.raises(BindingError, match="is an input, too"):
            turned.plan(store, stores.create(path, x.T.shape, x.dtype), overwrite=True)
    with pytest.raises(BindingError, match="must be at least"):
        turned.plan(store, y, "1kB")
    (tmp_path / "z.zarr").mkdir()
    (tmp_path / "z.zarr" / "precious").write_text("text")
    with pytest.raises(ModelError, match="is not a Zarr array, and is not replaced"):
        turned.plan(store, stores.create(tmp_path / "z.zarr", x.T.shape, x.dtype), overwrite=True).run()
    zarr.open_group(str(tmp_path / "g.zarr"), mode="w").create_array("inside", shape=(2,), dtype="i4")
    with pytest.raises(ModelError, match=r"must be a Zarr array, not a group: name one of .inside. in it"):
        stores.open(tmp_path / "g.zarr")
    for convert in (np.asarray, lambda array: array[0]):
        with pytest.raises(BindingError, match="not converted implicitly"):
            convert(store)
    for bad in ({"chunks": (0, 1, 1)}, {"chunks": (1, 1)}, {"codec": "rot13"}, {"codec": "zstd:x"}):
        with pytest.raises(ModelError):
            stores.create(tmp_path / "w.zarr", x.shape, x.dtype, **bad)
    with pytest.raises(ModelError, match="only those have chunks"):
        stores.create(tmp_path / "w.npy", x.shape, x.dtype, chunks=(1, 1, 1))
    with pytest.raises(IndexError):
        indices = np.array([99])
        picked = dml.fuse(lambda x: dml.gather(x, indices, axis=0, out_of_range="error"))
        picked.plan(store, stores.create(tmp_path / "w.zarr", (1, 20, 13), x.dtype))
    assert store.shape == SHAPE
    assert (store.ndim, store.size, store.nbytes, store.chunks) == (3, x.size, x.nbytes, (8, 7, 5))
    np.testing.assert_array_equal(store.read(), x)


def test_the_same_arrays_in_another_order_are_another_plan(tmp_path):
    for name, value in ("a", 1), ("b", 2):
        np.save(tmp_path / "x.npy", np.full(4, value, "i4"))
        stores.rechunk(tmp_path / "x.npy", tmp_path / f"{name}.zarr", chunks=[2]).run()
    inputs = [stores.open(tmp_path / f"{name}.zarr") for name in "ab"]
    join = dml.fuse(lambda x, y: np.concatenate([x, y]))

    def plan(given):
        return join.plan(given, stores.create(tmp_path / "out.zarr", [8], "i4", chunks=[2]))

    plan(inputs).run()
    again = plan(inputs)
    again.run()
    assert again.already_complete
    with pytest.raises(dml.ModelError, match="exists already"):
        plan(inputs[::-1]).run()
    np.testing.assert_array_equal(stores.open(tmp_path / "out.zarr").read(), [1] * 4 + [2] * 4)
