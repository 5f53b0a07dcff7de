"""Results that compiled code makes are NumPy's own, or lie over blocks of the warm cache that nobody else uses."""

import gc
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

from anydml.engines.cpu import making
from anydml.engines.cpu.compiler import import_kernels
from anydml.memory.numpy_calls import find_calls
from anydml.memory.warm import LEAST, BlockCache

SHAPES = [(), (0,), (7,), (3, 0, 5), (2, 3, 5, 7), (1,) * 32]
LARGE = [(LEAST // 8 - 1,), (LEAST // 8,), (300, 301), (2, 512, 513)]


@pytest.fixture
def cache():
    if find_calls() is None:
        pytest.skip("NumPy's functions of C are not where they are looked for")
    import_kernels()
    cache = BlockCache(limit=64 << 20)
    cache.hasten = making.quick_maker
    yield cache
    cache.empty()


def place(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("dtype", ["?", "<u1", "<i2", "<f4", "<f8", "<c16", "<M8[ns]", ">f4", "S5", "U3", "V6", "O"])
@pytest.mark.parametrize("shape", SHAPES + LARGE, ids=str)
def test_arrays_are_as_numpys(cache, shape, dtype):
    dtype = np.dtype(dtype)
    make, expected = cache.maker(shape, dtype), np.empty(shape, dtype)
    for _ in range(3):
        made = make()
        assert type(made) is np.ndarray
        assert (made.shape, made.strides, made.dtype) == (expected.shape, expected.strides, expected.dtype)
        for flag in ("C_CONTIGUOUS", "F_CONTIGUOUS", "WRITEABLE", "ALIGNED"):
            assert made.flags[flag] == expected.flags[flag]
        made[...] = np.ones((), np.uint8).astype(dtype)
        assert made.tobytes() == np.full(shape, np.ones((), np.uint8).astype(dtype)).tobytes()
        is_large = expected.nbytes >= LEAST and dtype.kind != "O"
        assert made.flags.owndata != is_large
        del made
        assert bool(cache.bytes) == is_large


@pytest.mark.parametrize("shape", [(16,), (256, 300)])
def test_nothing_is_kept_but_blocks(cache, shape):
    dtype = np.dtype([np.float32, np.float64][len(shape) - 1])
    make = cache.maker(shape, dtype)
    del_first = [make() for _ in range(3)]
    del del_first
    before = sys.getrefcount(dtype), cache.bytes
    for _ in range(1000):
        make()
    assert (sys.getrefcount(dtype), cache.bytes) == before
    cache.empty()
    assert cache.bytes == 0
    assert make().shape == shape


def test_makers_of_one_shelf_share_its_words_whoever_comes_between(cache, monkeypatch):
    made, dtype = [], np.dtype(np.float64)
    real = making.address_of

    def between(array):
        if not made:
            made.append(None)
            made.append(cache.maker((256, 300), dtype))
        return real(array)

    monkeypatch.setattr(making, "address_of", between)
    made.append(cache.maker((300, 256), dtype))
    _, first, second = made
    assert first.__self__[1] is second.__self__[1]
    assert [*map(np.shape, (first(), second(), first(), second()))] == [(256, 300), (300, 256)] * 2


def test_no_block_is_given_to_two(cache):
    makers = [cache.maker((rows, 1024), np.dtype(np.int64)) for rows in (32, 33, 40, 64, 80)]
    failures = []

    def work(number):
        choose, alive = random.Random(number), []
        for turn in range(400):
            array = choose.choice(makers)()
            array.fill(number * 10_000 + turn)
            alive.append((array[choose.randrange(16) :: choose.randrange(1, 4)], number * 10_000 + turn))
            del array
            while alive and choose.random() < len(alive) / 8:
                view, value = alive.pop(choose.randrange(len(alive)))
                if not (view == value).all():
                    failures.append((number, turn))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_result_that_dies_leaves_an_exception_alone(cache):
    make = cache.maker((256, 300), np.dtype(np.float64))
    make()
    block = cache.bytes

    def fail(array, number):
        return 1 / number

    with pytest.raises(ZeroDivisionError):
        fail(make(), 0)
    with pytest.raises(KeyError, match="here"):
        [make(), {}["here"]]
    gc.collect()
    # What pytest keeps of the first exception may have kept a result until the second one.
    assert cache.bytes in (block, 2 * block)


def test_what_the_cache_raises_when_a_result_dies_is_reported(cache, monkeypatch):
    def fail():
        raise ValueError("no room")

    reports = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reports.append(report.exc_value))
    monkeypatch.setattr(cache, "tend", fail)
    make = cache.maker((256, 300), np.dtype(np.float64))
    first, second = make(), make()
    del first
    # The first block was made in Python; the one that waits is taken in compiled code, and there is no room.
    third = make()
    place_of_third = place(third)
    del third
    assert [str(each) for each in reports[-1:]] == ["no room"]
    assert place(make()) == place_of_third
    del second


KEEPERS = {
    "builtins": "import builtins; builtins.kept = kept",
    "sys": "sys.kept = kept",
    "NumPy": "np.kept = kept",
    "the cache": "CACHE.own = kept",
    "a cycle": "cycle = [kept]; cycle.append(cycle)",
    "a class": "Kept = type('Kept', (), {'kept': kept}); Kept.own = Kept",
    "a finalizer": "Last = type('Last', (), {'__del__': lambda self: make().fill(1)}); sys.last = Last()",
    "a function at the end": "import atexit; atexit.register(lambda: make().fill(1))",
    "a thread": "import threading; threading.Thread(target=lambda: any(map(work, iter(int, 1))), daemon=True).start()",
    "a child": "import os; pid = os.fork(); kept.append(make()); pid and os.waitpid(pid, 0)",
}


@pytest.mark.parametrize("keeper", KEEPERS)
def test_results_may_outlive_everything(keeper):
    if keeper == "a child" and sys.platform == "win32":
        pytest.skip("this system has no fork")
    code = f"""
import sys
import numpy as np
from anydml.engines.cpu import making
from anydml.engines.cpu.compiler import import_kernels
from anydml.memory.warm import CACHE
import_kernels()
making.prepare()
make = CACHE.maker((256, 300), np.dtype(np.float64))
kept = [make() for _ in range(3)]
kept = [make() for _ in range(3)]
work = lambda _: make().fill(1)
{KEEPERS[keeper]}
print("done")
"""
    # Python 3.12 and later remark on every fork beside threads, whatever these do.
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore:This process:DeprecationWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[0] == "done", done.stderr
    assert (done.returncode, done.stderr) == (0, "")
