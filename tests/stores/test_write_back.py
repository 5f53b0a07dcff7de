"""What a plan writes goes to the disk while it runs: past the page cache, or by write-back that begins at once."""

import errno
import os
import sys

import numpy as np
import pytest
from stores.test_opening import written

from anydml import stores
from anydml.stores.formats.zarr_array import ZarrStore
from anydml.stores.running import files as write_back
from anydml.stores.running.buffers import Buffers
from anydml.stores.running.chunk_reader import ChunkReader
from anydml.stores.running.files import PlainFile
from anydml.stores.running.kept_chunks import KeptChunks

ROWS = np.random.default_rng(5).integers(0, 1 << 30, (1024, 1024)).astype(np.int32)
"""4 MiB."""


@pytest.fixture
def begun(monkeypatch):
    """The ranges whose write-back was begun, by the files' numbers, where nothing is written past the page cache."""
    found = {}
    monkeypatch.delattr(os, "O_DIRECT", raising=False)

    def call(descriptor, at, size, flags):
        found.setdefault(os.fstat(descriptor).st_ino, []).append((at, at + size))
        assert flags == 2  # SYNC_FILE_RANGE_WRITE of linux/fs.h, which does not wait
        return 0

    monkeypatch.setattr(write_back, "sync_file_range", lambda: call)
    return found


def spans(ranges):
    """Ranges in order, those that touch as one."""
    found = []
    for start, stop in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1][1] = max(stop, found[-1][1])
        else:
            found.append([start, stop])
    return found


def test_all_of_a_checkpoint_is_on_its_way_before_the_sync(tmp_path, begun):
    for k, part in enumerate(np.split(ROWS, 2, 1)):
        written(tmp_path / f"{k}.safetensors", {"a.q_proj.weight": np.ascontiguousarray(part)})
    layout = tmp_path / "layout.toml"
    layout.write_text('[[axes]]\nmatch = "*"\naxis = 1\n')
    stores.reshard([tmp_path / f"{k}.safetensors" for k in range(2)], tmp_path / "out.safetensors", layout).run()
    out = tmp_path / "out.safetensors"
    np.testing.assert_array_equal(stores.open(out)["a.q_proj.weight"].read(), ROWS)
    size = out.stat().st_size
    assert size % 4096 == 0
    assert {key: spans(each) for key, each in begun.items()} == {out.stat().st_ino: [[size - ROWS.nbytes, size]]}


def test_chunks_too(tmp_path, begun):
    pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    np.save(tmp_path / "x.npy", ROWS)
    stores.rechunk(tmp_path / "x.npy", tmp_path / "x.zarr", [256, 1024], codec="none").run()
    chunks = [path for path in (tmp_path / "x.zarr").rglob("*") if path.is_file() and path.stat().st_size == 1 << 20]
    assert len(chunks) == 4
    assert begun == {path.stat().st_ino: [(0, 1 << 20)] for path in chunks}


def test_short_writes_and_what_is_kept_for_a_while_are_left_to_the_system(tmp_path, begun):
    pytest.importorskip("zarr", reason='zarr-python is not installed: pip install "anydml[stores]"')
    (tmp_path / "x").touch()
    with PlainFile(tmp_path / "x", True) as file:
        file.write(memoryview(bytes(write_back.DIRECT_WRITE - 1)), 5)
        assert begun == {}
        file.write(memoryview(bytes(write_back.DIRECT_WRITE)), 5)
    assert begun == {(tmp_path / "x").stat().st_ino: [(5, 5 + write_back.DIRECT_WRITE)]}
    begun.clear()
    np.save(tmp_path / "x.npy", ROWS)
    stores.rechunk(tmp_path / "x.npy", tmp_path / "x.zarr", [512, 1024], codec="zstd").run()
    store = stores.open(tmp_path / "x.zarr")
    assert isinstance(store, ZarrStore)
    begun.clear()
    boxes = np.array([[[3, 4], [0, 1024]], [[4, 512], [0, 1024]]])
    kept, out = KeptChunks(tmp_path, store.layout, boxes, np.arange(2), 1 << 20), np.empty((508, 1024), np.uint32)
    reader = ChunkReader(store, 1 << 20, kept, Buffers(2))
    for block, (low, high) in enumerate(((3, 4), (4, 512))):
        for task in reader.reads(((low, high), (0, 1024)), out[: high - low], block):
            task()
        np.testing.assert_array_equal(out[: high - low].view(np.int32), ROWS[low:high])
    assert kept.has(1, (0, 0))
    kept.close()
    assert begun == {}


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone begins write-back when it is asked to")
def test_linux_begins_it(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(bytes(1 << 20))
    call = write_back.sync_file_range()
    with path.open("rb+") as file:
        assert call(file.fileno(), 0, 1 << 20, write_back.WRITE) == 0
        assert call(file.fileno(), -1, 1 << 20, write_back.WRITE) == -1
    read, write = os.pipe()
    # What no file is has no write-back, and no error either.
    write_back.begin_write_back(write, 0, 1 << 20)
    os.close(read)
    os.close(write)


@pytest.fixture(params=[False, True], ids=["direct", "refused"])
def direct(request, monkeypatch, tmp_path):
    """The sizes of writes past the page cache, which the file system may refuse, and of other writes."""
    if not hasattr(os, "O_DIRECT"):
        pytest.skip("the system does not write past the page cache")
    fcntl = pytest.importorskip("fcntl")
    try:
        os.close(os.open(tmp_path / "tried", os.O_CREAT | os.O_WRONLY | os.O_DIRECT))
    except OSError:
        if not request.param:
            pytest.skip("this file system does not write past the page cache")
    found, pwrite = {False: [], True: []}, os.pwrite

    def write(file, data, at):
        is_direct = bool(fcntl.fcntl(file, fcntl.F_GETFL) & os.O_DIRECT)
        if is_direct and request.param:
            raise OSError(errno.EINVAL, "Invalid argument")
        found[is_direct].append(len(data))
        return pwrite(file, data, at)

    monkeypatch.setattr(os, "pwrite", write)
    found["is_refused"] = request.param
    return found


@pytest.mark.parametrize("columns", [1024, 1000, 999, 1])
def test_pages_go_past_the_page_cache_and_the_rest_through_it(columns, tmp_path, direct):
    array = np.resize(ROWS, (9 << 20) // columns * columns).reshape(-1, columns)
    np.save(tmp_path / "x.npy", array)
    stores.rechunk(tmp_path / "x.npy", tmp_path / "y.npy", memory="20MB").run()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), array)
    assert sum(direct[False]) + sum(direct[True]) == array.nbytes
    assert bool(direct[True]) is not direct["is_refused"]
    if direct[True]:
        assert max(direct[False]) < 4096
        assert sum(direct[False]) <= 2 * 4096 * len(direct[True])


@pytest.mark.skipif(not hasattr(os, "pwrite"), reason="the system has no pwrite")
def test_no_write_is_so_long_that_its_memory_is_dear(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "O_DIRECT", raising=False)
    sizes, pwrite = [], os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: sizes.append(len(data)) or pwrite(file, data, at))
    np.save(tmp_path / "x.npy", ROWS)
    stores.rechunk(tmp_path / "x.npy", tmp_path / "y.npy").run()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), ROWS)
    assert max(sizes) == write_back.MAX_WRITE
    assert sum(sizes) == ROWS.nbytes
