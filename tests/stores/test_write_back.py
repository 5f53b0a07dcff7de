"""What a plan writes goes to the disk while it runs: uncached, or by write-back that begins at once."""

import errno
import os
import re
import sys

import numpy as np
import pytest
from stores.test_opening import written

import anydml as dml
from anydml import stores
from anydml.stores.formats.zarr_array import ZarrStore
from anydml.stores.running import files as write_back
from anydml.stores.running.buffers import Buffers
from anydml.stores.running.chunk_reader import ChunkReader
from anydml.stores.running.files import PlainFile
from anydml.stores.running.spilled_chunks import SpilledChunks

ROWS = np.random.default_rng(5).integers(0, 1 << 30, (1024, 1024)).astype(np.int32)
"""4 MiB."""


def refuse_uncached(monkeypatch):
    """Let the system refuse uncached writes, as Linux did before 6.14."""
    pwritev = getattr(os, "pwritev", None)

    def write(file, views, at, flags=0):
        if flags:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")
        return pwritev(file, views, at)

    monkeypatch.setattr(os, "pwritev", write, raising=False)


@pytest.fixture
def begun(monkeypatch):
    """The ranges whose write-back was begun, by the files' numbers, where no write is uncached."""
    found = {}
    refuse_uncached(monkeypatch)

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
        file.write(memoryview(bytes(write_back.LONG_WRITE - 1)), 5)
        assert begun == {}
        file.write(memoryview(bytes(write_back.LONG_WRITE)), 5)
    assert begun == {(tmp_path / "x").stat().st_ino: [(5, 5 + write_back.LONG_WRITE)]}
    begun.clear()
    np.save(tmp_path / "x.npy", ROWS)
    stores.rechunk(tmp_path / "x.npy", tmp_path / "x.zarr", [512, 1024], codec="zstd").run()
    store = stores.open(tmp_path / "x.zarr")
    assert isinstance(store, ZarrStore)
    begun.clear()
    boxes = np.array([[[3, 4], [0, 1024]], [[4, 512], [0, 1024]]])
    kept, out = SpilledChunks(tmp_path, store.layout, boxes, np.arange(2), 1 << 20), np.empty((508, 1024), np.uint32)
    reader = ChunkReader(store, 1 << 20, kept, Buffers(2))
    for block, (low, high) in enumerate(((3, 4), (4, 512))):
        for task in reader.reads(((low, high), (0, 1024)), out[: high - low], block):
            task()
        np.testing.assert_array_equal(out[: high - low].view(np.int32), ROWS[low:high])
    assert kept.is_spilled(1, (0, 0))
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


@pytest.fixture(params=[True, False], ids=["uncached", "refused"])
def sizes(request, monkeypatch, tmp_path):
    """The sizes of uncached writes, which the system may refuse, and of other writes."""
    if request.param:
        if sys.platform != "linux":
            pytest.skip("Linux alone has uncached writes")
        with (tmp_path / "tried").open("wb") as file:
            try:
                os.pwritev(file.fileno(), [bytes(1)], 0, write_back.RWF_DONTCACHE)
            except OSError:
                pytest.skip("this system has no uncached writes")
    else:
        refuse_uncached(monkeypatch)
    found, pwrite, pwritev = {False: [], True: []}, os.pwrite, os.pwritev

    def write(file, data, at):
        found[False].append(len(data))
        return pwrite(file, data, at)

    def write_several(file, views, at, flags=0):
        count = pwritev(file, views, at, flags)
        found[bool(flags)].append(count)
        return count

    monkeypatch.setattr(os, "pwrite", write)
    monkeypatch.setattr(os, "pwritev", write_several)
    found["is_refused"] = not request.param
    return found


@pytest.mark.skipif(not hasattr(os, "pwritev"), reason="the system has no pwritev")
@pytest.mark.parametrize("columns", [1024, 1000, 999, 1])
def test_whole_pages_are_written_uncached_and_the_rest_is_not(columns, tmp_path, sizes):
    array = np.resize(ROWS, (9 << 20) // columns * columns).reshape(-1, columns)
    np.save(tmp_path / "x.npy", array)
    stores.rechunk(tmp_path / "x.npy", tmp_path / "y.npy", memory="20MB").run()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), array)
    assert sum(sizes[False]) + sum(sizes[True]) == array.nbytes
    assert bool(sizes[True]) is not sizes["is_refused"]
    if sizes[True]:
        assert max(sizes[False]) < 4096
        assert sum(sizes[False]) <= 2 * 4096 * len(sizes[True])
        assert max(sizes[True]) == write_back.MAX_WRITE


@pytest.mark.skipif(not hasattr(os, "pwrite"), reason="the system has no pwrite")
def test_no_write_is_so_long_that_its_memory_is_dear(tmp_path, monkeypatch):
    refuse_uncached(monkeypatch)
    sizes, pwrite = [], os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: sizes.append(len(data)) or pwrite(file, data, at))
    np.save(tmp_path / "x.npy", ROWS)
    stores.rechunk(tmp_path / "x.npy", tmp_path / "y.npy").run()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), ROWS)
    assert max(sizes) == write_back.MAX_WRITE
    assert sum(sizes) == ROWS.nbytes


REFUSALS = [NotImplementedError("flags"), *(OSError(number, os.strerror(number)) for number in
            (errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EPERM))]  # fmt: skip


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has uncached writes")
@pytest.mark.parametrize("error", REFUSALS, ids=repr)
@pytest.mark.parametrize("pieces", [0, 3])
def test_what_is_refused_uncached_is_written_plainly(error, pieces, tmp_path, monkeypatch):
    done = []

    def write(file, views, at, flags=0):
        assert flags == write_back.RWF_DONTCACHE
        if len(done) == pieces:
            raise error
        done.append(os.pwrite(file, b"".join(views), at))
        return done[-1]

    monkeypatch.setattr(os, "pwritev", write, raising=False)
    data = ROWS.tobytes()
    path = tmp_path / "x"
    path.touch()
    with PlainFile(path, is_written=True) as file:
        file.write(memoryview(data), 5)
    assert len(done) == pieces
    assert path.read_bytes() == bytes(5) + data


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has uncached writes")
def test_without_pwritev_all_is_written_plainly(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "pwritev", raising=False)
    (tmp_path / "x").touch()
    with PlainFile(tmp_path / "x", is_written=True) as file:
        file.write(memoryview(ROWS.tobytes()), 0)
    assert (tmp_path / "x").read_bytes() == ROWS.tobytes()


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has uncached writes")
@pytest.mark.parametrize("number", [errno.EPERM, errno.EINVAL, errno.ENOSPC, errno.EIO])
def test_what_no_write_does_is_reported(number, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pwritev", fail, raising=False)
    np.save(tmp_path / "x.npy", ROWS)
    monkeypatch.setattr(os, "pwrite", fail)
    with pytest.raises(dml.ModelError, match=re.escape(os.strerror(number))):
        stores.rechunk(tmp_path / "x.npy", tmp_path / "y.npy").run()
    assert not (tmp_path / "y.npy").exists()
