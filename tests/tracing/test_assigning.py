"""Assignments of traced functions into arrays of their own: NumPy's results, or an error; arguments stay the same."""

import functools
import re
import warnings

import dask.array as da
import einops
import numpy as np
import pytest
from how_many import how_many

import anydml as dml
from anydml import stores
from anydml.tracing import assignable_arrays

torch = pytest.importorskip("torch")

X = np.arange(24.0).reshape(4, 6)


def key_of(rng, shape):
    """A basic key for a shape."""
    items = []
    for size in shape[: rng.integers(len(shape) + 1)]:
        kind = rng.integers(6)
        if kind == 0 and size:
            items.append(int(rng.integers(-size, size)))
        elif kind == 1:
            items.append(slice(None))
        elif kind == 2:
            items.append(slice(None, None, int(rng.choice([-2, -1, 2, 3]))))
        else:
            items.append(slice(*sorted(map(int, rng.integers(0, size + 1, 2)))))
    if rng.random() < 0.1:
        items.insert(int(rng.integers(len(items) + 1)), None)
    if rng.random() < 0.2:
        items.append(...)
    return tuple(items) if len(items) != 1 or rng.random() < 0.5 else items[0]


def random_function(rng):
    """A function that assigns, takes views and copies, and returns all that it has."""
    steps = rng.integers(1 << 30, size=int(rng.integers(3, 12)))

    def function(x, y):
        arrays = [x, y]
        for seed in steps:
            draw = np.random.Generator(np.random.PCG64(int(seed)))
            one = arrays[draw.integers(len(arrays))]
            kind = draw.integers(12)
            if kind == 0:
                arrays.append(np.zeros((*one.shape[:1], 3), x.dtype))
            elif kind == 1:
                arrays.append(np.full(one.shape, 7.0))
            elif kind == 2:
                arrays.append(one.copy())
            elif kind == 3:
                arrays.append(np.concatenate([one, one]) if one.ndim else np.stack([one, one]))
            elif kind == 4:
                arrays.append(one[key_of(draw, one.shape)])
            elif kind == 5 and one.ndim:
                arrays.append([one.T, one.reshape(-1), np.flip(one), np.squeeze(one)][draw.integers(4)])
            elif kind == 6:
                arrays.append(np.array([one, one]))
            elif kind == 7 and len(arrays) > 3:
                del arrays[draw.integers(2, len(arrays))]
            else:
                target = arrays[draw.integers(2, len(arrays))] if len(arrays) > 2 else one.copy()
                key = key_of(draw, target.shape)
                shape = target[key].shape
                if draw.random() < 0.3:
                    target[key] = float(draw.integers(100))
                else:
                    source = arrays[draw.integers(len(arrays))]
                    count = int(np.prod(shape))
                    flat = np.resize(source, count) if source.size else np.zeros(count)
                    target[key] = flat.reshape(shape)
                if len(arrays) == 2:
                    arrays.append(target)
        return arrays[2:]

    return function


@pytest.mark.parametrize("chunk", range(8))
def test_random_functions(chunk):
    done = refused = 0
    for number in range(how_many(400) // 8):
        rng = np.random.default_rng([chunk, number])
        function = random_function(rng)
        fused = dml.fuse(function)
        for _ in range(3):
            x, y = (rng.random(tuple(rng.integers(1, 5, 2))) for _ in range(2))
            before = x.copy(), y.copy()
            try:
                expected = [each.copy() for each in function(x, y)]
            except (ValueError, IndexError, TypeError):
                continue
            writes = not all(np.array_equal(one, other) for one, other in zip(before, (x, y), strict=True))
            x, y = before[0].copy(), before[1].copy()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)
                    found = fused(x, y)
            except dml.FuseError:
                refused += 1
            else:
                assert not writes, "an argument is written"
                for one, other in zip(found, expected, strict=True):
                    assert one.dtype == other.dtype
                    np.testing.assert_array_equal(one, other)
                done += 1
            assert np.array_equal(x, before[0])
            assert np.array_equal(y, before[1])
    assert done > refused


def padded_rows(rows):
    out = np.zeros((len(rows), max(map(len, rows))), rows[0].dtype)
    for k, row in enumerate(rows):
        out[k, : len(row)] = row
    return out


def padded_in_front(rows):
    longest = max(map(len, rows))
    out, mask = np.full((len(rows), longest), -1.0), np.zeros((len(rows), longest), bool)
    for k, row in enumerate(rows):
        out[k, longest - len(row) :] = row
        mask[k, longest - len(row) :] = True
    return out, mask


def rows_by_views(rows):
    out = np.zeros((len(rows), max(map(len, rows))))
    for k, row in enumerate(rows):
        place = out[k]
        place[: len(row)] = row
    return out


def centred(images):
    height, width = (max(image.shape[k] for image in images) for k in (0, 1))
    out = np.full((len(images), height, width, 3), 114, np.uint8)
    for k, image in enumerate(images):
        y, x = (height - image.shape[0]) // 2, (width - image.shape[1]) // 2
        out[k, y : y + image.shape[0], x : x + image.shape[1]] = image
    return out


def channels_first(images):
    return [np.ascontiguousarray(np.asarray(image).transpose(2, 0, 1)[:, ::-1]) for image in images]


def batch(images):
    return np.array([image[:4, :4] for image in images])


def with_holes(images):
    results = []
    for k, image in enumerate(images):
        copy = np.array(image)
        copy[k : k + 3, 2 * k : 2 * k + 3] = 0
        results.append(copy)
    return results


def mosaic(images):
    y, x = images[0].shape[:2]
    out = np.empty((12, 12, 3), np.uint8)
    out[:y, :x] = images[0]
    out[:y, x:] = 1
    out[y:] = np.asarray(7, np.uint8)
    return out


def stacked_into(images):
    out = np.empty((len(images), 4, 4, 3), np.uint8)
    np.stack([image[:4, :4] for image in images], out=out)
    return out


def every_other(rows):
    out = np.empty((2 * len(rows[0]),))
    out[::2] = rows[0]
    np.copyto(out[1::2], rows[0][::-1])
    return out


IDIOMS = [padded_rows, padded_in_front, rows_by_views, every_other]
OF_IMAGES = [centred, channels_first, batch, with_holes, mosaic, stacked_into]


@pytest.mark.parametrize("function", [*IDIOMS, *OF_IMAGES], ids=lambda each: each.__name__)
def test_loaders_as_people_write_them(function):
    rng, fused = np.random.default_rng(1), dml.fuse(function)
    for _ in range(40):
        if function in IDIOMS:
            arrays = [rng.random(n) for n in rng.integers(0, 9, 5)]
        else:
            arrays = [rng.integers(0, 255, (*rng.integers(4, 12, 2), 3), dtype=np.uint8) for _ in range(5)]
        found, expected = fused(arrays), function(arrays)
        assert type(found) is type(expected)
        if isinstance(found, np.ndarray):
            found, expected = [found], [expected]
        for one, other in zip(found, expected, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, other)
    assert fused.counts.traces <= 2
    assert fused.counts.unfused == 0


def swapped(x):
    out = x.copy()
    out[0], out[1] = out[1], out[0]
    return out


def a_part_shows_what_is_assigned(x):
    out = x.copy()
    part, inner = out[1:3], out[1:3][:, ::-1]
    part[0], out[2, 3] = 9.0, 5.0
    inner[1] = x[0]
    return out, part, inner


def an_alias(x):
    out = x.copy()
    same, other = np.asarray(out), np.array(out)
    same[0], other[0] = 3.0, 4.0
    return out, other, out.astype(np.float64, copy=False), out.astype(np.float64)


def by_arrays(x):
    out = x.copy()
    out[[0, 1]] = out[[1, 0]]
    out[np.array([False, False, True, False])] = 0.0
    out[3] = [x[0, 0], 2, 3, 4, 5, 6]
    out[..., 0] = np.arange(4)
    return out


def helped(x):
    def fill(part, value):
        part.fill(value)

    out = np.ones(x.shape)
    fill(out[0], 3.0)
    out[None, 2] = x[1]
    return out


def tables(x):
    flags, places = np.zeros(4, bool), np.zeros(3, int)
    flags[[0, 2]], places[1] = True, 2
    return x[flags], x[places], np.concatenate([x, np.ones((2, 6)) * 3])


FUNCTIONS = [swapped, a_part_shows_what_is_assigned, an_alias, by_arrays, helped, tables]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda each: each.__name__)
def test_memory_is_shared_as_in_numpy(function):
    found, expected = dml.fuse(function)(X.copy()), function(X.copy())
    for one, other in zip(*((found, expected) if isinstance(found, tuple) else ([found], [expected])), strict=True):
        np.testing.assert_array_equal(one, other)


MAKING = {
    np: {
        "append": lambda x: np.append(x, x, 0),
        "block": lambda x: np.block([[x]]),
        "choose": lambda x: np.choose(np.zeros((4, 6), int), [x]),
        "column_stack": lambda x: np.column_stack([x]),
        "compress": lambda x: np.compress([True] * 4, x, 0),
        "concatenate": lambda x: np.concatenate([x]),
        "copy": lambda x: x.copy(),
        "delete": lambda x: np.delete(x, [], 0),
        "diagflat": np.diagflat,
        "dstack": lambda x: np.dstack([x]),
        "empty_like": np.empty_like,
        "extract": lambda x: np.extract(np.ones((4, 6), bool), x),
        "fft.fftshift": lambda x: np.fft.fftshift(x, ()),
        "fft.ifftshift": lambda x: np.fft.ifftshift(x, ()),
        "flatten": lambda x: x.flatten(),
        "full_like": lambda x: np.full_like(x, 2),
        "hstack": lambda x: np.hstack([x]),
        "insert": lambda x: np.insert(x, [], 0, 0),
        "ones_like": np.ones_like,
        "pad": lambda x: np.pad(x, 0),
        "repeat": lambda x: x.repeat(1, 0),
        "resize": lambda x: np.resize(x, (4, 6)),
        "roll": lambda x: np.roll(x, 0),
        "select": lambda x: np.select([np.ones((4, 6), bool)], [x]),
        "stack": lambda x: np.stack([x]),
        "take": lambda x: x.take([*range(4)], 0),
        "take_along_axis": lambda x: np.take_along_axis(x, np.zeros((4, 1), int), 1),
        "tile": lambda x: np.tile(x, 1),
        "tril": lambda x: np.tril(x, 9),
        "triu": lambda x: np.triu(x, -9),
        "vstack": lambda x: np.vstack([x]),
        "where": lambda x: np.where(np.ones((4, 6), bool), x, x),
        "zeros_like": np.zeros_like,
    },
    torch: {
        "cat": lambda x: torch.cat([x]),
        "clone": lambda x: x.clone(),
        "empty_like": torch.empty_like,
        "full_like": lambda x: torch.full_like(x, 2),
        "hstack": lambda x: torch.hstack([x]),
        "index_select": lambda x: x.index_select(0, torch.arange(4)),
        "new_empty": lambda x: x.new_empty(2),
        "new_full": lambda x: x.new_full((2,), 3),
        "new_ones": lambda x: x.new_ones(2),
        "new_zeros": lambda x: x.new_zeros(2),
        "ones_like": torch.ones_like,
        "repeat": lambda x: x.repeat(1, 1),
        "repeat_interleave": lambda x: x.repeat_interleave(1, 0),
        "roll": lambda x: x.roll(0, 0),
        "stack": lambda x: torch.stack([x]),
        "take": lambda x: x.take(torch.arange(24)),
        "tile": lambda x: x.tile(1, 1),
        "tril": lambda x: x.tril(9),
        "triu": lambda x: x.triu(-9),
        "vstack": lambda x: torch.vstack([x]),
        "where": lambda x: torch.where(torch.ones(4, 6, dtype=torch.bool), x, x),
        "zeros_like": torch.zeros_like,
    },
}


def test_words_that_copy_share_no_memory_in_their_library():
    for library, copying in zip((np, torch), assignable_arrays.COPYING_WORDS, strict=True):
        assert MAKING[library].keys() == copying
        x = X if library is np else torch.tensor(X)
        for name, make in MAKING[library].items():
            assert not np.shares_memory(np.asarray(x), np.asarray(make(x))), name


VIEWS = {
    np: [
        *(make for name, make in MAKING[np].items() if "empty" not in name),
        *(lambda x: x[0, 1], lambda x: x[0, 1, ...], lambda x: [*x[0]][2], lambda x: x[1], lambda x: x[None, 1:, ::-1]),
        *(lambda x: x.T, np.ravel, np.squeeze, np.diagonal, np.flip, lambda x: x.reshape(4, 6), lambda x: x[[0, 1]]),
        *(lambda x: x.astype(float), lambda x: x.astype(float, copy=False), np.array, np.asarray, np.asfortranarray),
        *(lambda x: x.astype(float, "K", "unsafe", True, False), lambda x: x.astype(float, "K", "unsafe", True, True)),
        *(np.ascontiguousarray, np.require, np.real, lambda x: np.array(x, copy=None), lambda x: np.split(x, 2)[0]),
        *(dml.copy, lambda x: dml.roll(x, 0), lambda x: np.broadcast_to(x, (4, 6)), lambda x: np.unstack(x)[0]),
    ],
    torch: [
        *(make for name, make in MAKING[torch].items() if "empty" not in name),
        *(lambda x: x[0, 1], lambda x: [*x[0]][2], lambda x: x[1], lambda x: x[None, 1:], lambda x: x[torch.arange(2)]),
        *(torch.flatten, torch.ravel, lambda x: x.select(0, 0), lambda x: x.narrow(0, 0, 1), lambda x: x.T),
        *(lambda x: x.flatten(), lambda x: x.reshape(4, 6), lambda x: x.view(24), lambda x: x.expand(2, 4, 6)),
        *(lambda x: x.contiguous(), lambda x: x.double(), lambda x: x.to(torch.float64), torch.squeeze, dml.copy),
        *(lambda x: x.unbind()[0], lambda x: x.split(2)[0], lambda x: x.chunk(2)[1], lambda x: x.movedim(0, 1)),
    ],
}


@pytest.mark.parametrize("library", [np, torch], ids=["numpy", "torch"])
def test_what_is_seen_of_an_array_that_is_assigned_into_is_the_librarys_or_an_error(library):
    given = X if library is np else torch.tensor(X)
    right = 0
    for number, view in enumerate(VIEWS[library]):

        def behind(x, view=view):
            out = x.copy() if library is np else x.clone()
            seen = view(out)
            out[0], out[1, 1] = 77, 78
            return seen, out

        def through(x, view=view):
            out = x.copy() if library is np else x.clone()
            seen = view(out)
            seen[...] = 79
            return seen, out

        for function in (behind, through):
            try:
                found = dml.fuse(function)(given)
            except dml.FuseError:
                continue
            for one, other in zip(found, function(given), strict=True):
                np.testing.assert_array_equal(np.asarray(one), np.asarray(other), str((number, function)))
            right += 1
    assert right > len(VIEWS[library])


def after(view):
    def function(x):
        out = x.copy()
        seen = view(out)
        out[0] = 1.0
        return seen

    return function


def into(take):
    def function(x):
        take(x)[0] = 1.0
        return x[::-1]

    return function


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (after(lambda out: out.T), "after T of it, which may share its memory: assign before T"),
        (after(lambda out: out[1:].reshape(-1)[2:]), "after reshape of it|after indexing of it"),
        (after(lambda out: einops.rearrange(out, "a b -> b a")), "after einops of it"),
        (after(lambda out: np.split(out, 2)), "after split of it"),
        (into(lambda x: x), "cannot assign into a traced float64 array"),
        (into(np.asarray), "assign into a copy of it"),
        (into(lambda x: x[1:]), "assign into a copy of it"),
        (into(np.ascontiguousarray), "assign into a copy of it"),
        (into(lambda x: x.copy().T), "assign into a copy of it"),
        (into(lambda x: x.copy().__setitem__(0, x.view(np.int64)[0])), "convert them to one dtype first"),
        (into(lambda x: x.copy().__setitem__(0, x[0, :3])), "does not broadcast"),
        (into(lambda x: x.copy().__setitem__(7, 0)), "index 7 is out of range for axis 0 of size 4"),
    ],
)
def test_what_cannot_be_assigned_is_said(function, message):
    x = X.copy()
    with pytest.raises((dml.FuseError, IndexError), match=message):
        dml.fuse(function)(x)
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("value", [1.5, 7, 300, -1, True, 1j, [1.5, 2.0, 3.0], np.arange(3), np.float32(2)])
@pytest.mark.parametrize("dtype", ["u1", "i4", "f4", "?", ">i2"])
def test_copyto_converts_what_numpys_does(value, dtype):
    def function(x):
        out = np.zeros(3, dtype)
        np.copyto(out, value)
        return out

    try:
        expected = function(np.arange(3))
    except (TypeError, OverflowError) as error:
        with pytest.raises(dml.FuseError, match=re.escape(str(error))):
            dml.fuse(function)(np.arange(3))
    else:
        found = dml.fuse(function)(np.arange(3))
        assert (found.dtype.str, found.tobytes()) == (expected.dtype.str, expected.tobytes())


def test_arguments_are_kept_in_calls_without_a_trace():
    def function(x, flags):
        out = [np.zeros((4, 6)), x][int(flags[0])]
        views = [x[::-1] if flag else x for flag in flags]
        out[0] = 5.0
        return views

    fused, rng, refused = dml.fuse(function), np.random.default_rng(0), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for number in range(20):
            flags = [number > 8 and bool(rng.integers(2)), *(rng.random(11) < 0.5).tolist()]
            x = X.copy()
            try:
                found = fused(x, flags)
            except dml.FuseError:
                refused += 1
            else:
                np.testing.assert_array_equal(found, [X[::-1] if flag else X for flag in flags])
            np.testing.assert_array_equal(x, X)
    assert 0 < refused < 12


def test_tensors_as_people_write_them():
    def padded(rows):
        out = torch.zeros(len(rows), max(len(row) for row in rows), dtype=rows[0].dtype)
        for k, row in enumerate(rows):
            out[k, : len(row)] = row
        return out

    def changed(rows):
        out = rows[0].new_full((9,), 2.0)
        out[: len(rows[0])] = rows[0]
        out[8].zero_()
        copy = rows[1].clone()
        copy[:2] = torch.ones(()) if len(copy) > 1 else 3.0
        whole = torch.full((2, 3), 5.0)
        whole[1].copy_(whole[0])
        return out, copy, whole

    for function in (padded, changed):
        fused, rng = dml.fuse(function), np.random.default_rng(2)
        for _ in range(12):
            rows = [torch.tensor(rng.random(n, np.float32)) for n in rng.integers(0, 8, 4)]
            found, expected = fused(rows), function(rows)
            if isinstance(found, torch.Tensor):
                found, expected = [found], [expected]
            for one, other in zip(found, expected, strict=True):
                assert torch.equal(one, other)


def test_dask_and_stores_take_them(tmp_path):
    fused = dml.fuse(lambda x: padded_rows([x[0], x[1, :4]]))
    expected = padded_rows([X[0], X[1, :4]])
    np.testing.assert_array_equal(fused(da.from_array(X, chunks=2)).compute(), expected)
    np.save(tmp_path / "x.npy", X)
    fused.plan(stores.open(tmp_path / "x.npy"), stores.create(tmp_path / "y.npy", expected.shape, "float64")).run()
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def framed(x, width):
    frame = np.zeros((len(x) + 2 * width, *x.shape[1:]), x.dtype)
    frame[width : width + len(x)] = x
    return frame


class Frame:
    def __init__(self, width):
        self.width = width

    def __call__(self, x):
        return framed(x, self.width)

    def made(self, x):
        return framed(x, self.width)


IN_A_PARTIAL = functools.partial(framed, width=2)


@pytest.mark.parametrize(
    "function",
    [Frame(2), Frame(2).made, functools.partial(framed, width=2), lambda x: IN_A_PARTIAL(x[:])],
    ids=["an object", "a method", "a partial", "a partial by its name"],
)
def test_functions_of_any_kind_fill_arrays(function):
    fused = dml.fuse(function)
    for size in (3, 5, 0):
        x = np.arange(2.0 * size).reshape(size, 2)
        np.testing.assert_array_equal(fused(x), framed(x, 2), strict=True)
