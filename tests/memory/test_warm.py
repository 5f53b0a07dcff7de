"""New results take memory that was used before, and never memory that anybody still uses."""

import gc
import os
import random
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

import anydml as dml
from anydml.memory import warm
from anydml.memory.blocks import Block
from anydml.memory.warm import CACHE, LEAST, BlockCache

MIB = 1 << 20


@pytest.fixture(autouse=True)
def empty():
    before = CACHE.limit
    dml.empty_cache()
    yield
    dml.set_cache_limit(before)
    dml.empty_cache()


def address(array):
    return array.__array_interface__["data"][0]


def first(results):
    return results[0] if isinstance(results, list) else results


def source(rows=512):
    return np.arange(rows * 1024, dtype=np.float32).reshape(rows, 1024)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: dml.split(x, 2, 1),
        lambda x: dml.join([x, x], 1),
        lambda x: dml.copy(x.T),
        lambda x: dml.gather(x, np.arange(len(x))),
        lambda x: dml.slice1(x, (0, 0), x.shape, (1, -1)),
        dml.fuse(lambda x: np.concatenate([x[1:], x[:1]])),
        dml.fuse(lambda x: [x.T, x[:2]]),
    ],
)
def test_a_result_takes_the_memory_of_one_that_died(call):
    x = source()
    for _ in range(40):
        place = address(result := first(call(x)))
        del result
        assert CACHE.bytes >= LEAST
        result = first(call(x))
        assert address(result) == place
        assert result.flags.c_contiguous
        assert result.flags.writeable
        del result


def test_what_is_stored_in_between_takes_the_memory_of_results():
    # A gather across the parts of a join is stored before.
    fused = dml.fuse(lambda x, i: np.concatenate([x, x[:, ::-1]])[i][:2])
    x, indices = source(), np.arange(1024)[::-1].copy()
    assert fused.lower(x, indices).scratch_bytes >= LEAST
    for _ in range(3):
        np.testing.assert_array_equal(fused(x, indices), np.concatenate([x, x[:, ::-1]])[indices][:2])
        assert CACHE.bytes >= LEAST


def test_small_results_and_those_with_references_do_not():
    dml.split(source(8), 2, 1)
    many = np.full(100_000, "text", object)
    assert dml.copy(many).tolist() == many.tolist()
    assert CACHE.bytes == 0


KEEPERS = {
    "itself": lambda y: y,
    "a view": lambda y: y[3:7, ::-2],
    "a view of a view": lambda y: y.reshape(-1)[5:].view(np.int32)[::3],
    "another class": lambda y: y.view(np.recarray),
    "a memoryview": lambda y: memoryview(y)[2:4],
    "a capsule": lambda y: y.__dlpack__(),
    "through DLPack": np.from_dlpack,
    "an iterator": iter,
    "a broadcast view": lambda y: np.broadcast_to(y, (2, *y.shape)),
    "a buffer": lambda y: np.frombuffer(y.data.cast("B"), np.uint8),
}


def torch_keepers():
    torch = pytest.importorskip("torch")
    return {
        "a tensor": torch.from_numpy,
        "a tensor's view": lambda y: torch.from_numpy(y)[1:2],
        "a tensor's storage": lambda y: torch.from_numpy(y).untyped_storage(),
        "a tensor through DLPack": torch.from_dlpack,
        "a capsule's": lambda y: torch.utils.dlpack.to_dlpack(torch.from_numpy(y)),
        "a gradient": lambda y: torch.from_numpy(y).requires_grad_().sum(),
    }


TENSORS = ("a tensor", "a tensor's view", "a tensor's storage", "a tensor through DLPack", "a capsule's", "a gradient")


@pytest.mark.parametrize("name", [*KEEPERS, *TENSORS])
def test_memory_in_use_is_not_given_out(name):
    keep = KEEPERS.get(name) or torch_keepers()[name]
    x = source()
    kept = keep(first := dml.copy(x))
    place = address(first)
    del first
    gc.collect()
    assert CACHE.bytes == 0, "the block is in use"
    others = [dml.copy(x + k) for k in range(3)]
    assert place not in map(address, others)
    del kept, others
    gc.collect()
    assert CACHE.bytes >= 4 * x.nbytes
    assert place in [address(each) for each in [dml.copy(x) for _ in range(4)]]


def test_cycles_and_their_finalizers():
    saved = []

    class Node:
        def __init__(self, array):
            self.array = array
            self.me = self

        def __del__(self):
            saved.append(self.array)

    node = Node(dml.copy(source()))
    place = address(node.array)
    gone = weakref.ref(node)
    del node
    gc.collect()
    assert gone() is None
    assert CACHE.bytes == 0
    assert address(dml.copy(source())) != place
    assert np.array_equal(saved[0], source())


def test_threads_never_share_a_block():
    wrong, stop = [], time.monotonic() + 2

    def work(seed):
        rng = random.Random(seed)
        held = []
        while time.monotonic() < stop:
            rows = rng.choice((80, 81, 160, 161))
            y = dml.copy(np.full((rows, 1024), seed, np.float32))
            y += len(held)
            held.append((y[rng.randrange(rows) :], seed + len(held)))
            if len(held) > 5 or rng.random() < 0.3:
                view, value = held.pop(rng.randrange(len(held)))
                if not (view == value).all():
                    wrong.append(seed)
            held = [(view, value) for view, value in held if (view == value).all() or wrong.append(seed)]
            if rng.random() < 0.02:
                dml.empty_cache()
            if rng.random() < 0.02:
                dml.set_cache_limit(rng.choice((1 << 30, MIB)))

    threads = [threading.Thread(target=work, args=(100 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_limit_holds():
    cache = BlockCache(limit=4 * MIB)
    arrays = [cache.array((size,), np.dtype(np.uint8), size) for size in (MIB, 2 * MIB, MIB, 5 * MIB, 2 * MIB, MIB)]
    while arrays:
        arrays.pop(0)
        assert cache.bytes <= 4 * MIB
    assert cache.bytes >= 3 * MIB, "the rest went, not all"
    # What waited longest went first.
    assert cache._shelves[MIB].waiting
    cache.resize(MIB)
    assert cache.bytes <= MIB
    cache.resize(0)
    assert cache.bytes == 0
    assert cache.array((MIB,), np.dtype(np.uint8), MIB).flags.owndata, "it is turned off"


def test_the_default_is_a_part_of_the_memory():
    assert 0 < BlockCache().limit <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 16


@pytest.mark.parametrize(("given", "error"), [(-1, ValueError), (1.5, TypeError), ("1", TypeError), (None, TypeError)])
def test_limits_are_integers(given, error):
    with pytest.raises(error):
        dml.set_cache_limit(given)
    dml.set_cache_limit(np.int64(5 * MIB))
    assert CACHE.limit == 5 * MIB


def test_what_waits_long_goes(monkeypatch):
    monkeypatch.setattr(warm, "LOOK", 0.05)
    cache = BlockCache(limit=64 * MIB, idle=0.2)
    for _ in range(2):
        cache.array((MIB,), np.dtype(np.uint8), MIB)
        assert cache.bytes == MIB
        end = time.monotonic() + 20
        while cache.bytes and time.monotonic() < end:
            time.sleep(0.02)
        assert cache.bytes == 0


@pytest.mark.parametrize("size", [LEAST, LEAST + 1, 300_001, MIB - 1, MIB, 5 * MIB + 7, 64 * MIB + 1])
def test_blocks_are_little_larger_than_results(size):
    whole = warm._rounded(size)
    assert size <= whole <= size * 1.126 + 65536
    assert warm._rounded(whole) == whole


def test_without_pages_results_are_numpys(monkeypatch):
    def refuse(size, shelf):
        raise OSError("no memory")

    monkeypatch.setattr(Block, "of", refuse)
    assert dml.copy(source()).flags.owndata


PEAK = """
import resource, sys
import numpy as np
import anydml as dml
MIB = 1 << 20
limit = 32 * MIB
dml.set_cache_limit(limit)
x = np.ones((64 * MIB // 4096, 1024), np.float32)
def now():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()
y = dml.copy(x[:, ::-1])
del y
dml.empty_cache()
before, peak = now(), 0
for _ in range(12):
    y = dml.copy(x[:, ::-1])
    peak = max(peak, now() - before)
small = [dml.copy(x[k * 256 : (k + 1) * 256]) for k in range(64)]
del y, small
waiting = now() - before
dml.empty_cache()
print(peak / MIB, waiting / MIB, (now() - before) / MIB)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="it asks Linux what it has")
def test_peak_memory_of_a_loop():
    run = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True, timeout=300)
    peak, waiting, left = map(float, run.stdout.split())
    assert peak <= 2 * 64 + 32 + 8, "two results, and the limit"
    assert waiting <= 32 + 8
    assert left <= 8


FORK = """
import os, sys
import numpy as np
import anydml as dml
x = np.full((512, 1024), 7, np.float32)
held = dml.copy(x)
dml.copy(x)
child = os.fork()
mine = [dml.copy(x + (1 if child else 2)) for _ in range(3)]
good = all((each == (8 if child else 9)).all() for each in mine) and (held == 7).all()
held += 1
del mine
good = good and (dml.copy(x) == 7).all() and (held == 8).all()
if not child:
    os._exit(0 if good else 1)
_, status = os.waitpid(child, 0)
print(good and status == 0)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_has_blocks_of_its_own():
    # Python 3.12 and later remark on every fork beside threads, whatever these do.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", FORK]
    run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert run.stdout.strip() == "True"
    assert not run.stderr


def test_the_end_of_the_interpreter_is_silent():
    text = "import numpy as np, anydml as dml\nx = np.ones((512, 1024))\nz = [dml.copy(x)]; z.append(z); dml.copy(x)"
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=300)
    assert not run.stdout + run.stderr
