"""The functions against NumPy, for every dtype, in every layout, new and into `out`."""

import gc
import itertools
import weakref

import numpy as np
import pytest
from odd_arrays import DTYPES, STRINGS_AND_OBJECTS, content, odd, random_array, same

import anydml as dml
from anydml.functions import function_lowering

SHAPES = [(6,), (3, 6), (2, 6, 3), (6, 1, 2, 2), (0, 6), (6, 0, 2), (1, 6, 1)]


every_dtype = pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)


def arrays_of(dtype):
    """An array of each shape as it is, and in an odd layout, with its axis of size 6."""
    rng = np.random.default_rng(20)
    for shape in SHAPES:
        array = random_array(rng, dtype, shape)
        for x in (array, odd(rng, array)):
            before = content(x)
            yield rng, x, shape.index(6)
            assert content(x) == before, "an input was changed"


def both_ways(rng, run, expected):
    """The function makes new contiguous arrays; and writes into `out`, of any layout, and returns that."""
    results = run(None)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected, strict=True):
        same(result, wanted)
        assert result.flags.c_contiguous
        assert result.flags.writeable
    outs = []
    for wanted in expected:
        out = odd(rng, np.empty_like(wanted, subok=False))
        out.flags.writeable = True
        outs.append(out)
    for result, out, wanted in zip(run(outs), outs, expected, strict=True):
        assert result is out
        same(out, wanted)


@every_dtype
def test_split(dtype):
    for (rng, x, axis), sizes in itertools.product(arrays_of(dtype), ([1, 2, 3], [6], [0, 6, 0], [2, 2, 2])):
        expected = np.split(x, np.cumsum(sizes)[:-1], axis)
        for where in (axis, axis - x.ndim):
            both_ways(rng, lambda out, x=x, w=where, s=sizes: dml.split(x, s, w, out=out), expected)
            split = np.array(sizes, np.int64)
            both_ways(rng, lambda out, x=x, w=where, s=split: dml.split_training(x, s, w, out=out), expected)


@every_dtype
def test_equal_parts(dtype):
    for (rng, x, axis), sections in itertools.product(arrays_of(dtype), (1, 2, 3, 6)):
        expected = np.split(x, sections, axis)
        both_ways(rng, lambda out, x=x, a=axis, n=sections: dml.split(x, n, a, out=out), expected)
        for split in (None, [], np.array([], np.int64)):
            parts = dml.split_training(x, split, axis, sections)
            assert [*map(content, parts)] == [*map(content, expected)]


@every_dtype
def test_join(dtype):
    for rng, x, axis in arrays_of(dtype):
        parts = [odd(rng, part) for part in np.split(x, [1, 1, 4], axis)]
        # NumPy's concatenate packs records and swaps bytes.
        expected = x.copy()
        for where in (axis, axis - x.ndim):

            def join(out, parts=parts, where=where):
                return [dml.join(parts, where, out=out and out[0])]

            def concat(out, parts=parts, where=where):
                joined, lengths = dml.concat_training(parts, where, out=out and out[0])
                same(lengths, np.array([1, 0, 3, 2]))
                return [joined]

            both_ways(rng, join, [expected])
            both_ways(rng, concat, [expected])


@every_dtype
def test_slice(dtype):
    for rng, x, _ in arrays_of(dtype):
        for _ in range(6):
            starts = [int(rng.integers(0, n)) if n else 0 for n in x.shape]
            steps = [int(rng.integers(1, 4)) for _ in x.shape]
            sizes = [int(rng.integers(0, 1 + -(-(n - o) // s))) for n, o, s in zip(x.shape, starts, steps, strict=True)]
            spans = zip(starts, sizes, steps, strict=True)
            expected = x[tuple(np.s_[o : o + n * s : s] for o, n, s in spans)]
            arguments = (x, starts, sizes, steps)
            both_ways(rng, lambda out, a=arguments: [dml.slice(*a, out=out and out[0])], [expected])
        same(dml.slice(x, [0] * x.ndim, x.shape), np.array(x))


@every_dtype
def test_slice1(dtype):
    for rng, x, _ in arrays_of(dtype):
        for _ in range(6):
            expected, offsets, sizes, steps = x, [], [], []
            for d, n in enumerate(x.shape):
                offset = int(rng.integers(0, n + 1))
                size = int(rng.integers(0, n - offset + 1))
                step = int(rng.choice([1, 2, 3, -1, -2, -3]))
                expected = np.moveaxis(np.moveaxis(expected, d, 0)[offset : offset + size][::step], 0, d)
                offsets.append(offset)
                sizes.append(size)
                steps.append(step)
            window = (x, offsets, sizes, steps)
            both_ways(rng, lambda out, w=window: [dml.slice1(*w, out=out and out[0])], [expected])
            fewer = [int(rng.integers(0, n + 1)) for n in expected.shape]
            expected = expected[tuple(np.s_[:n] for n in fewer)]
            both_ways(rng, lambda out, w=window, f=fewer: [dml.slice1(*w, f, out=out and out[0])], [expected])


@every_dtype
def test_gather(dtype):
    shapes = (), (1,), (5,), (2, 3), (0,), (4, 0), (1, 1, 2)
    for (rng, x, axis), shape in itertools.product(arrays_of(dtype), shapes):
        indices = np.array(rng.integers(-6, 6, shape))
        expected = np.take(x, indices.ravel(), axis).reshape(x.shape[:axis] + shape + x.shape[axis + 1 :])
        every = indices, odd(rng, indices), indices.astype(np.int8), indices.astype(">i4")
        for given, mode in zip(every, ("clamp", "error") * 2, strict=True):

            def gather(out, x=x, given=given, axis=axis, mode=mode):
                return [dml.gather(x, given, axis, out_of_range=mode, out=out and out[0])]

            both_ways(rng, gather, [expected])


@pytest.mark.parametrize("kinds", [("U1", "U4"), ("S5", "S2"), (">U3", "U3"), ("U2", ">U5")])
def test_strings_of_different_lengths_join(kinds):
    parts = [np.array(["a", "b"], kinds[0]), np.array([["cd"], ["e"]], kinds[1])[:, 0]]
    same(dml.join(parts), np.concatenate(parts))
    joined, lengths = dml.concat_training(parts)
    same(joined, np.concatenate(parts))
    assert lengths.tolist() == [2, 2]


def test_objects_stay_themselves():
    things = [object() for _ in range(6)]
    x = np.array(things)
    parts = dml.split_training(x, [4, 2])
    assert all(a is b for a, b in zip(np.concatenate(parts), things, strict=True))
    assert all(a is b for a, b in zip(dml.concat_training(parts)[0], things, strict=True))
    assert all(a is b for a, b in zip(dml.slice1(x, [0], [6], [-1]), things[::-1], strict=True))
    assert dml.gather(x, 3)[()] is things[3]


@pytest.mark.parametrize("name", ["object", "StringDType", "record with object"])
def test_references_without_indices_move_from_view_to_view(monkeypatch, name):
    """By numbers, NumPy takes up to fifty times as long."""
    monkeypatch.setattr(function_lowering, "move_references", None)
    rng = np.random.default_rng(5)
    x = random_array(rng, DTYPES[name], (4, 6))
    y = odd(rng, x)
    same(dml.copy(y.T), x.T)
    same(dml.join([y, x], 1), np.concatenate([x, x], 1))
    same(dml.slice1(y, [0, 0], [4, 6], [-1, 2]), x[::-1, ::2])
    same(dml.tile(y, [2, 1]), np.tile(x, (2, 1)))
    out = odd(rng, np.empty_like(x))
    out.flags.writeable = True
    same(dml.flip(y, out=out), np.flip(x))


@pytest.mark.parametrize(
    "filled",
    [
        dml.fill,
        lambda x, value: dml.fill(x, value, out=np.empty_like(x)),
        lambda x, value: dml.pad(x, [0, 0, 0, 1], value=value),
        dml.diagonal_matrix,
    ],
)
def test_objects_that_fill_are_not_kept(filled):
    class Thing:
        pass

    x, thing = np.full((2, 3), None), Thing()
    reference = weakref.ref(thing)
    assert thing in filled(x, thing)
    del thing
    gc.collect()
    assert reference() is None


def test_long_strings_are_copied():
    x = np.array(["short", "long enough for the heap " * 9], STRINGS_AND_OBJECTS["StringDType"])
    (y,) = dml.split(x, 1)
    x[...] = "gone"
    assert y.tolist() == ["short", "long enough for the heap " * 9]


def test_results_share_no_memory_with_inputs():
    x = np.arange(6.0)
    results = [
        *dml.split(x, 1), dml.join([x]), dml.slice(x, [0], [6]), dml.slice1(x, [0], [6], [1]),
        dml.gather(x, np.arange(6)), *dml.split_training(x, [6]), dml.concat_training([x])[0],
    ]  # fmt: skip
    for result in results:
        same(result, np.arange(6.0))
        assert not np.shares_memory(result, x)


def test_scalars():
    x = np.array(3.5)
    same(dml.slice(x, [], []), x)
    same(dml.slice1(x, [], [], []), x)
    out = np.array(0.0)
    assert dml.slice(x, [], [], [], out=out) is out
    assert out == 3.5


def test_lists_are_arrays():
    assert [part.tolist() for part in dml.split([[1, 2, 3]], [1, 2], 1)] == [[[1]], [[2, 3]]]
    assert dml.join([[1], [2, 3]]).tolist() == [1, 2, 3]
    assert dml.gather(["a", "b"], [1, 0, -1]).tolist() == ["b", "a", "b"]
    assert [part.tolist() for part in dml.split_training([True, False], (1, 1))] == [[True], [False]]


def test_more_dimensions_than_a_desc_may_have():
    x = np.arange(2**12).reshape((2,) * 12)
    same(dml.join(dml.split(x, 2, 7), 7), x)
    same(dml.gather(x, [[1, 0]], 11), np.take(x, [[1, 0]], 11))
    y = np.arange(3.0).reshape((1,) * 63 + (3,))
    same(dml.slice1(y, [0] * 64, y.shape, [-1] * 64), y[..., ::-1].copy())


@pytest.mark.parametrize("kind", ["f4", "c16", "S3", "O"])
@pytest.mark.parametrize("out_of_range", ["clamp", "error"])
@pytest.mark.parametrize("ranks", [(33, 32), (32, 33), (64, 1), (1, 64), (64, 0)])
def test_gather_of_as_many_dimensions_as_numpy_has(ranks, out_of_range, kind):
    x = np.ones((1,) * ranks[0], kind)
    indices = np.zeros((1,) * ranks[1], np.int64)
    for axis in (0, -1):
        result = dml.gather(x, indices, axis, out_of_range=out_of_range)
        same(result, np.ones((1,) * (sum(ranks) - 1), kind))


@pytest.mark.parametrize("kind", ["f4", "c16", "S3", "O"])
@pytest.mark.parametrize("out_of_range", ["clamp", "error"])
@pytest.mark.parametrize("ranks", [(33, 33), (2, 64), (64, 2), (64, 64), (40, 40)])
def test_gather_of_more_dimensions_is_refused(ranks, out_of_range, kind):
    """NumPy's `take` crashes."""
    x = np.ones((1,) * ranks[0], kind)
    message = f"gather: the result has {sum(ranks) - 1} dimensions, but arrays have at most 64"
    out = np.ones((1,) * 64, kind)
    for size in (1, 0):
        indices = np.zeros((size,) + (1,) * (ranks[1] - 1), np.int64)
        for given in (None, out):
            with pytest.raises(dml.DescError, match=message):
                dml.gather(x, indices, out_of_range=out_of_range, out=given)
    assert np.array_equal(out, np.ones((1,) * 64, kind))


@pytest.mark.parametrize("name", ["split", "join", "slice", "slice1", "gather"])
def test_sixty_four_dimensions(name):
    x = np.arange(6).reshape((1,) * 40 + (2, 3) + (1,) * 22)
    shape, zeros, ones = x.shape, (0,) * 64, (1,) * 64
    work = {
        "split": lambda: dml.join(dml.split(x, [1, 2], 41), 41),
        "join": lambda: dml.join([x, x], 63)[..., :1],
        "slice": lambda: dml.slice(x, zeros, shape),
        "slice1": lambda: dml.slice1(dml.slice1(x, zeros, shape, (-1,) * 64), zeros, shape, (-1,) * 64),
        "gather": lambda: dml.gather(x, [0, 1, 2], 41),
    }
    assert np.array_equal(work[name](), x)
    assert np.array_equal(dml.slice1(x, zeros, ones, ones), x[(slice(1),) * 64])


@pytest.mark.parametrize("dtype", [np.int64, ">f4", object])
def test_what_has_no_dimensions_stays_an_array(dtype):
    x = np.array(5, dtype)
    for found in (dml.slice(x, [], []), dml.slice1(x, [], [], []), dml.flip(x), dml.copy(x)):
        assert type(found) is np.ndarray
        assert (found.shape, found.dtype, found.item()) == ((), x.dtype, x.item())


def test_a_long_string_without_dimensions_has_no_axis():
    x = np.zeros((), "S70000")
    for pick in (dml.gather, dml.gather_elements):
        with pytest.raises(dml.DescError, match=r"dimension|axis"):
            pick(x, np.zeros(2, np.int64), 0)
