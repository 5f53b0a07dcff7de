"""Fused functions whose `out` is an argument's memory: what changes is written, or the call is refused."""

import mmap
import re
import sys

import numpy as np
import pytest
from odd_arrays import random_array, same

import anydml as dml
from anydml import BindingError
from anydml.tracing.traced_program import TracedProgram

LAYOUTS = {
    "packed": lambda x: x,
    "transposed": lambda x: x.T,
    "backwards": lambda x: x[::-1],
    "steps": lambda x: np.repeat(x, 2, 0)[::2],
}

put = dml.fuse(lambda cache, rows, at: dml.scatter_nd(cache, at, rows))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["f4", "u1", "D"])
@pytest.mark.parametrize("shape", [(6,), (5, 4), (300, 7, 10)], ids=str)
def test_scatters(shape, dtype, layout):
    rng = np.random.default_rng([len(shape), shape[0]])
    for _ in range(3):
        x = LAYOUTS[layout](random_array(rng, np.dtype(dtype), shape))
        at = rng.permutation(len(x))[:4, None]
        rows = random_array(rng, np.dtype(dtype), (4, *x.shape[1:]))
        expected = x.copy()
        expected[at[:, 0]] = rows
        assert put(x, rows, at, out=x) is x
        same(np.ascontiguousarray(x), expected)
        with pytest.raises(IndexError, match="out of range"):
            put(x, rows, at + len(x), out=x)
        same(np.ascontiguousarray(x), expected)


def dirty(address):
    """Bytes of the mapping at an address that this process has written."""
    is_it = False
    with open("/proc/self/smaps", encoding="ascii") as file:
        for line in file:
            if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
                is_it = int(found[1], 16) <= address < int(found[2], 16)
            elif is_it and line.startswith("Private_Dirty:"):
                return int(line.split()[1]) << 10
    raise AssertionError("no such mapping")


@pytest.mark.skipif(sys.platform != "linux", reason="Linux says which pages were written")
@pytest.mark.parametrize(
    "function",
    [
        lambda x, rows, at: dml.scatter_nd(x, at, rows),
        lambda x, rows, at: dml.scatter_nd(dml.scatter_nd(x, at, rows), at, rows[::-1]),
        lambda x, rows, at: np.concatenate([x[:3], rows, x[5:]]),
    ],
    ids=["scattered", "scattered twice", "between"],
)
def test_the_rest_is_not_written(function):
    # Pages that were only read are all one page of zeros.
    memory = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Linux would count it together with memory beside it of the same kind.
    memory.madvise(mmap.MADV_DONTFORK)
    x = np.frombuffer(memory, np.float32).reshape(4096, 4096)
    rows, at = np.ones((2, 4096), np.float32), np.array([[3], [900]])
    apart = dml.fuse(function)(x, rows, at)
    assert dirty(x.ctypes.data) <= 1 << 20
    dml.fuse(function)(x, rows, at, out=x)
    # Pages are of up to 2 MiB.
    assert 0 < dirty(x.ctypes.data) <= 8 << 20
    np.testing.assert_array_equal(x, apart)


def test_pieces_in_any_order():
    rng, refused = np.random.default_rng(8), 0
    for _ in range(300):
        x, y = np.arange(24.0).reshape(8, 3), 100 + np.arange(24.0).reshape(8, 3)
        starts = np.sort(rng.permutation(7)[: rng.integers(1, 5)] + 1).tolist()
        places = [*zip([0, *starts], [*starts, 8], strict=True)]
        # Rows of y, of x where they are, or of x where they are not.
        kinds = rng.choice(3, len(places), p=[0.4, 0.4, 0.2])
        takes = [
            (int(rng.integers(0, 9 - stop + start)) if kind == 2 else start)
            for kind, (start, stop) in zip(kinds, places, strict=True)
        ]
        width = int(rng.choice([1, 3]))

        def function(x, y, places=places, kinds=kinds, takes=takes, width=width):
            rows = [
                (y if kind == 0 else x)[take : take + stop - start]
                for kind, take, (start, stop) in zip(kinds, takes, places, strict=True)
            ]
            return np.concatenate([np.concatenate(rows)[:, :width], x[:, width:]], 1)

        expected, before, fused, message = function(x, y), x.copy(), dml.fuse(function), ""
        try:
            fused(x, y, out=x)
        except dml.BindingError as error:
            message, expected = str(error), before
            refused += 1
        assert not message or (2 in kinds and "out overlaps x in memory: it is the same array" in message)
        np.testing.assert_array_equal(x, expected)
    assert 20 < refused < 200


def test_several_results():
    keys, values = np.zeros((5, 2), np.float32), np.ones((5, 2), np.float32)
    rows, at = np.full((1, 2), 7, np.float32), np.array([[3]])
    both = dml.fuse(lambda caches, rows, at: [dml.scatter_nd(each, at, rows) for each in caches])
    both([keys, values], rows, at, out=[keys, values])
    for each, rest in ((keys, 0), (values, 1)):
        assert each.tolist() == [[rest] * 2] * 3 + [[7, 7], [rest] * 2]
    # Each would be read after it was written.
    with pytest.raises(dml.BindingError, match=r"out\[0\] overlaps y in memory: .*pass another array as out"):
        dml.fuse(lambda x, y: (x, y))(keys, values, out=(values, keys))
    assert dml.fuse(lambda x, y: (x, y))(keys, values, out=(keys, values))[0] is keys
    assert keys[0, 0] == 0
    assert values[0, 0] == 1


def test_one_array_as_two_arguments():
    x = np.arange(6)
    dml.fuse(lambda x, y: np.concatenate([x[:2], y[2:]]))(x, x, out=x)
    assert x.tolist() == [*range(6)]
    with pytest.raises(dml.BindingError, match="out overlaps y in memory: it is the same array"):
        dml.fuse(lambda x, y: np.concatenate([x[:2], y[:-2]]))(x, x, out=x)
    with pytest.raises(dml.BindingError, match="out overlaps y in memory"):
        dml.fuse(lambda x, y: np.concatenate([x[:2], y]))(x, x[2:], out=x)


def test_indices_that_would_be_written():
    x = np.arange(6)
    with pytest.raises(dml.BindingError, match="out overlaps x in memory: it is the same array"):
        dml.fuse(lambda x, rows: dml.scatter(x, x[:2], rows))(x, np.array([5, 5]), out=x)
    assert x.tolist() == [*range(6)]


def test_tensors():
    torch = pytest.importorskip("torch")
    x = torch.arange(12.0).reshape(3, 4)
    expected, version = x.clone(), x._version
    expected[[0, -1]] = torch.ones(2, 4)
    assert put(x, torch.ones(2, 4), torch.tensor([[0], [-1]]), out=x) is x
    assert torch.equal(x, expected)
    assert x._version > version
    with pytest.raises(dml.BindingError, match="out overlaps x in memory: it is the same array"):
        dml.fuse(lambda x: x.flip(0))(x, out=x)
    assert torch.equal(x, expected)


def test_nothing_is_left_to_move():
    x = np.arange(6.0)
    same_place = dml.fuse(lambda x: x.reshape(2, 3).reshape(-1))
    assert same_place(x, out=x) is x
    assert same_place(x, out=np.zeros(6)).tolist() == x.tolist() == [*range(6)]


@pytest.mark.parametrize("strided", [False, True])
def test_a_cache_grows_in_place_in_compiled_code(monkeypatch, strided):
    """Each call writes at another place; nothing is planned for it, and nothing else moves."""
    fused = dml.fuse(lambda cache, new, at: np.concatenate([cache[:, :at], new, cache[:, at + 1 :]], axis=1))
    cache = np.zeros((3, 50, 10), np.float32)[:, 10:, ::2] if strided else np.zeros((3, 40, 5), np.float32)
    expected = cache.copy()
    fused(cache, np.ones((3, 1, 5), np.float32), 1, out=cache)
    expected[:, 1:2] = 1
    monkeypatch.setattr(TracedProgram, "specialize", None)
    for at in range(2, 39):
        new = np.full((3, 1, 5), at, np.float32)
        assert fused(cache, new, at, out=cache) is cache
        expected[:, at : at + 1] = new
    assert np.array_equal(cache, expected)


def test_rows_are_scattered_in_place_in_compiled_code(monkeypatch):
    fused = dml.fuse(dml.scatter_nd)
    x = np.arange(400.0).reshape(40, 10)
    expected = x.copy()
    fused(x, np.array([[1]]), expected[1:2], out=x)
    monkeypatch.setattr(TracedProgram, "specialize", None)
    for count in (1, 3, 7):
        at, rows = np.arange(count)[:, None] * 5, np.full((count, 10), -count, float)
        assert fused(x, at, rows, out=x) is x
        expected[at[:, 0]] = rows
    assert np.array_equal(x, expected)


def test_what_would_be_read_after_it_is_written_stays_refused():
    """Whichever of the numbers of a call decides it."""
    fused = dml.fuse(lambda x, n: np.concatenate([x[n:], x[:n]]))
    x = np.arange(9.0)
    for n in (1, 2, 5):
        with pytest.raises(BindingError, match="would be overwritten before"):
            fused(x, n, out=x)
    assert x.tolist() == [*range(9)]
    shifted = dml.fuse(lambda x, y, n: np.concatenate([x[:n], y, x[n : len(x) - len(y)]]))
    with pytest.raises(BindingError, match="would be overwritten before"):
        shifted(x, np.ones(2), 3, out=x)
    picked = dml.fuse(lambda x, i: x[i])
    with pytest.raises(BindingError, match="would be overwritten before"):
        picked(x, np.arange(9)[::-1].copy(), out=x)
    assert x.tolist() == [*range(9)]
