"""Rechunks random arrays in processes that are killed, interrupted or out of disk at random moments, then to the end.

``python -m tests.stores.killing_arrays_child FOLDER SEED COUNT``. What has the final name in between is whole; in the
end zarr-python reads what NumPy says. Prints how the processes ended.
"""

import errno
import importlib.util
import json
import os
import random
import shutil
import signal
import sys
import threading
import traceback
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import zarr

from anydml import stores
from anydml.errors import AnydmlError

INTERRUPTED, REFUSED, CRASHED = 3, 4, 5
ENDS = {-9: "killed", 0: "ended", INTERRUPTED: "interrupted", REFUSED: "refused"}

CALLS = ("write", "fsync", "open", "replace", "rename", "unlink", "mkdir", "pwrite", "pwritev", "preadv")

SOURCES, TARGETS = ("folder", "npy", "zip", "references", "hdf5"), ("folder", "folder", "zip", "npy")
if importlib.util.find_spec("icechunk"):
    TARGETS = (*TARGETS, "icechunk")

DTYPES = ("u1", "i2", "f4", ">f8", "c16", "M8[s]", "S3", "text")


class Failing:
    """System calls of which one fails: the process dies before or after it, is interrupted, or the disk is full."""

    left, way = 1 << 60, "before"
    turn = threading.Lock()

    def __init__(self, name):
        self.name, self.call = name, getattr(os, name)

    def __call__(self, *arguments, **named):
        with Failing.turn:
            Failing.left -= 1
            is_last = Failing.left == 0
        if is_last and Failing.way == "full" and self.name in ("write", "pwrite", "pwritev", "open", "mkdir"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if is_last and Failing.way == "interrupt":
            os.kill(os.getpid(), signal.SIGINT)
        if is_last and Failing.way == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = self.call(*arguments, **named)
        if is_last and Failing.way == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def elements(rng, shape):
    kind = rng.choice(DTYPES)
    numbers = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 90, shape)
    if kind == "text":
        return np.array(["ä" * k for k in range(90)], np.dtypes.StringDType())[numbers]
    return numbers.astype("S2").astype(kind) if kind == "S3" else numbers.astype(kind)


def source_of(rng, folder, x):
    """A source in the folder, with the elements."""
    kind = rng.choice(SOURCES if x.dtype.kind != "T" else ("folder", "zip"))
    chunks = tuple(rng.randint(1, size) for size in x.shape)
    if kind == "npy":
        np.save(folder / "x.npy", x)
        return folder / "x.npy"
    if kind == "hdf5" and x.dtype.kind in "uif":
        try:
            import h5py
        except ImportError:
            kind = "folder"
        else:
            with h5py.File(folder / "x.h5", "w") as file:
                file.create_dataset("t", data=x, chunks=chunks, compression=rng.choice((None, "gzip")))
            return folder / "x.h5/t"
    version = rng.choice((2, 3))
    options = {"chunks": chunks, "zarr_format": version, "dtype": str if x.dtype.kind == "T" else x.dtype}
    if version == 3 and rng.random() < 0.4:
        options["shards"] = tuple(chunk * rng.randint(1, 3) for chunk in chunks)
    if rng.random() < 0.3:
        options["compressors"] = None
    array = zarr.create_array(str(folder / "x"), shape=x.shape, **options)
    array[...] = x
    if kind == "zip":
        with zipfile.ZipFile(folder / "x.zip", "w") as file:
            for path in sorted((folder / "x").rglob("*")):
                if path.is_file():
                    file.write(path, path.relative_to(folder / "x").as_posix())
        return folder / "x.zip"
    if kind == "references" and version == 2:
        paths = [path for path in (folder / "x").rglob("*") if path.is_file()]
        said = {path.relative_to(folder / "x").as_posix(): [str(path)] for path in paths}
        said |= {name: (folder / "x" / name).read_text() for name in said if name.startswith(".z")}
        (folder / "x.json").write_text(json.dumps({"version": 1, "refs": said}))
        return folder / "x.json"
    return folder / "x"


def read(path):
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".zip":
        store = zarr.storage.ZipStore(str(path), mode="r")
        try:
            array = zarr.open_array(store, mode="r")
            return np.asarray(array[...], array.dtype)
        finally:
            store.close()
    place = str(path)
    if path.suffix == ".icechunk":
        import icechunk

        place = icechunk.Repository.open(icechunk.local_filesystem_storage(place)).readonly_session("main").store
    array = zarr.open_array(place, mode="r")
    return np.asarray(array[...], array.dtype)


def rechunked(folder, seed):
    """Rechunk a random array, and return how the processes ended that failed on the way."""
    rng = random.Random(seed)
    shape = tuple(rng.randint(1, 14) for _ in range(rng.randint(1, 4)))
    x = elements(rng, shape)
    source = source_of(rng, folder, x)
    order = rng.sample(range(len(shape)), len(shape))
    steps = [rng.choice((None, None, -1, 2)) for _ in shape]
    wanted = x[tuple(slice(None, None, step) for step in steps)].transpose(order)
    target = rng.choice(TARGETS if x.dtype.kind != "T" else ("folder", "zip"))
    options = {"permute": order, "slices": ",".join(f"::{step or 1}" for step in steps)}
    if target != "npy":
        options["chunks"] = [rng.randint(1, size) for size in wanted.shape]
        options["codec"] = rng.choice((None, "none", "gzip:1", "blosc:lz4"))
        options["zarr_format"] = 3 if target in ("zip", "icechunk") else rng.choice((None, 3))
        options["shards"] = []
        if rng.random() < 0.4 and options["zarr_format"] == 3:
            options["shards"] = [chunk * rng.randint(1, 3) for chunk in options["chunks"]]
    name = {"folder": "y", "npy": "y.npy", "zip": "y.zip", "icechunk": "y.icechunk"}[target]
    memory = "200MB" if x.dtype.kind == "T" else rng.choice(("40kB", "100kB", "1MB"))

    def plan(**more):
        return stores.rechunk(source, folder / name, memory=memory, **options, **more)

    def is_right():
        elements_there = read(folder / name)
        return elements_there.shape == wanted.shape and np.array_equal(elements_there, wanted)

    try:
        plan()
    except AnydmlError:
        # Of chunks that need more.
        memory = "4MB"
    ends = []
    for number in range(3):
        child = os.fork()
        if not child:
            try:
                # A process that a shell started in the background ignores it.
                signal.signal(signal.SIGINT, signal.default_int_handler)
                again = plan()
                rng.seed(f"{seed} {number}")
                Failing.left = rng.randint(1, rng.choice((20, 60, 150)))
                Failing.way = rng.choice(("before", "after", "interrupt", "full"))
                for call in CALLS:
                    setattr(os, call, Failing(call))
                again.run()
            except KeyboardInterrupt:
                os._exit(INTERRUPTED)
            except AnydmlError:
                os._exit(REFUSED)
            except BaseException:
                traceback.print_exc()
                os._exit(CRASHED)
            os._exit(0)
        end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert end != CRASHED, f"seed {seed}: an error of another kind"
        ends.append(ENDS[end])
        if (folder / name).exists():
            assert is_right(), f"seed {seed}: what has the final name is not whole"
            if rng.random() < 0.5:
                shutil.rmtree(folder / name) if (folder / name).is_dir() else (folder / name).unlink()
    plan().run()
    assert is_right(), f"seed {seed}: other elements"
    hidden = [entry for entry in os.listdir(folder) if entry.startswith(".")]
    assert not hidden, f"seed {seed}: {hidden} is left"
    return ends


def main(folder, first, count):
    ends = Counter()
    for seed in range(first, first + count):
        (folder / str(seed)).mkdir()
        ends.update(rechunked(folder / str(seed), seed))
        shutil.rmtree(folder / str(seed))
    print(json.dumps(ends))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
