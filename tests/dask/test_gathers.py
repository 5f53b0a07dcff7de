"""Gathers of Dask arrays by constant indices, few and many: what NumPy gives, in chunks like those of the input."""

import contextlib
import functools
import itertools
import math

import numpy as np
import pytest
from how_many import how_many

import anydml as dml
from anydml.dask import chunk_choice, graphs
from anydml.errors import BindingError

da = pytest.importorskip("dask.array", reason='Dask is not installed: pip install "anydml[dask]"')
dask = pytest.importorskip("dask")
Callback = pytest.importorskip("dask.callbacks").Callback

DRAWN = how_many(60)

SHAPES = ((600, 40), (70, 9, 31), (24, 300, 5), (900,), (13, 1, 40, 3))


def asked(shape, x):
    """How many chunks there are in a result that has chunks of the size of the input's largest."""
    return math.prod(max(1, -(-n // max(sizes))) for n, sizes in zip(shape, x.chunks, strict=True))


@pytest.mark.parametrize(
    "shape, chunks, axis",
    [((600, 40), (100, 10), 0), ((600, 40), (100, 10), 1), ((600, 400, 5), (100, 100, 5), 0), ((600,), 100, 0)],
    ids=str,
)
@pytest.mark.parametrize("count", [0, 1, 50, 257, 777, 2000])
def test_many_indices_make_few_chunks(shape, chunks, axis, count):
    array = np.arange(math.prod(shape)).reshape(shape)
    x, index = da.from_array(array, chunks=chunks), np.random.default_rng(count).integers(0, shape[axis], count)
    many = 8 * asked((*shape[:axis], count, *shape[axis + 1 :]), x)
    for result, wanted in (
        (dml.gather(x, index, axis), array.take(index, axis)),
        (dml.fuse(lambda x: x.take(index, axis)[::-1])(x), array.take(index, axis)[::-1]),
        (dml.gather(x, np.sort(index), axis), array.take(np.sort(index), axis)),
        (dml.fuse(lambda x: x.take(index, axis, mode="clip").T)(x), array.take(index, axis).T),
    ):
        assert result.npartitions <= many
        np.testing.assert_array_equal(result.compute(scheduler="sync"), wanted)


@pytest.mark.parametrize("before", [lambda x: np.roll(x, 15), lambda x: np.concatenate([x, x])], ids=["roll", "join"])
def test_gathers_of_several_pieces_make_few_chunks(before):
    array = np.arange(300)
    x, index = da.from_array(array, chunks=((76, 22, 90, 112),)), np.repeat(np.arange(33) * 83 % 300, 3)
    function = lambda x: np.take(before(x), index)  # noqa: E731
    result = dml.fuse(function)(x)
    assert result.npartitions <= 8
    np.testing.assert_array_equal(result.compute(scheduler="sync"), function(array))


@pytest.mark.parametrize("axis, shape", [(0, (777, 40)), (1, (600, 90))], ids=str)
@pytest.mark.parametrize("change", [lambda x: x, lambda x: x[::-1, 1:]], ids=["whole", "cut"])
def test_many_indices_of_each_element_make_few_chunks(axis, shape, change):
    array = np.arange(24000).reshape(600, 40)
    x = change(da.from_array(array, chunks=(100, 10)))
    array, sizes = change(array), [*x.shape]
    sizes[axis] = shape[axis]
    index = np.random.default_rng(axis).integers(-x.shape[axis], x.shape[axis], sizes)
    result = dml.gather_elements(x, index, axis)
    assert result.npartitions <= 8 * asked(index.shape, x)
    np.testing.assert_array_equal(result.compute(scheduler="sync"), np.take_along_axis(array, index, axis))


def test_indices_may_be_more_than_runs_of_a_plan():
    array = np.arange(24000).reshape(600, 40)
    x, index = da.from_array(array, chunks=(100, 10)), np.random.default_rng(0).integers(0, 600, 70_000)
    result = dml.gather(x, index)
    assert result.npartitions <= 8 * asked((70_000, 40), x)
    for rows in (slice(0, 200), slice(69_950, None)):
        np.testing.assert_array_equal(result[rows].compute(scheduler="sync"), array[index[rows]])


@pytest.mark.parametrize("shape", [(370, 10), (100, 37), (90, 90), (20, 30, 4), (5000, 2)], ids=str)
def test_axes_of_indices_make_few_chunks(shape):
    array = np.arange(24000).reshape(600, 40)
    x, index = da.from_array(array, chunks=(100, 40)), np.random.default_rng(1).integers(0, 600, shape)
    result, chunk = dml.gather(x, index), 100 * 40
    few = math.prod(-(-n // 100) for n in shape)
    largest = math.prod(max(sizes) for sizes in result.chunks)
    assert result.npartitions <= 8 * few or largest >= 8 * chunk
    assert largest <= 9 * chunk
    assert result.npartitions <= 8 * -(-result.size // chunk)
    np.testing.assert_array_equal(result.compute(scheduler="sync"), array[index])


@pytest.mark.parametrize(
    "function",
    [
        np.diagonal,
        lambda x: np.diagonal(x[:, ::-1]),
        lambda x: np.diagonal(x[::-1]),
        lambda x: np.diagonal(np.rot90(x)),
        lambda x: np.diagonal(x[::-1, 3:], -2),
    ],
    ids=["main", "columns reversed", "rows reversed", "turned", "beside"],
)
def test_diagonals_read_the_chunks_that_they_cross(function):
    array = np.arange(4000).reshape(50, 80)
    result = dml.fuse(function)(da.from_array(array, chunks=10))
    tasks = [task for key, task in dict(result.__dask_graph__()).items() if key[0] == result.name]
    assert all(len([key for key in task.dependencies if isinstance(key, tuple)]) <= 2 for task in tasks)
    assert len(tasks) <= 11
    np.testing.assert_array_equal(result.compute(scheduler="sync"), function(array))


@pytest.mark.parametrize("function", [lambda x: np.tile(x, (9, 1)), lambda x: np.broadcast_to(x[:1], (800, 40))])
@pytest.mark.usefixtures("small_chunks")
def test_what_is_repeated_is_cut(function):
    array = np.arange(24000).reshape(600, 40)
    result = dml.fuse(function)(da.from_array(array, chunks=(100, 40)))
    assert max(result.chunks[0]) <= 800
    np.testing.assert_array_equal(result.compute(scheduler="sync"), function(array))


def computed(array):
    """The elements, and the most bytes that a task of this function reads and returns."""
    graph, peak = dict(array.__dask_graph__()), 0
    # What is no task is there before.
    sizes = {key: getattr(getattr(node, "value", None), "nbytes", 0) for key, node in graph.items()}

    def measured(key, result, *_):
        nonlocal peak
        sizes[key] = getattr(result, "nbytes", 0)
        if str(key).startswith(("anydml", "('anydml")):
            peak = max(peak, sizes[key] + sum(sizes[one] for one in graph[key].dependencies))

    with Callback(posttask=measured):
        return array.compute(scheduler="sync", optimize_graph=False), peak


def largest(array):
    """Bytes of the largest chunk."""
    return array.dtype.itemsize * math.prod(max(sizes) for sizes in array.chunks)


@pytest.fixture
def small_chunks(monkeypatch):
    for module in (chunk_choice, graphs):
        monkeypatch.setattr(module, "SMALL_CHUNK", 1024)


MIXED = np.random.default_rng(0).integers(0, 600, 900)
FAR_APART = {
    "rows": lambda x: np.take(x, MIXED, 0),
    "columns": lambda x: np.take(x, MIXED[:40] % 40, 1),
    "clamped": lambda x: np.take(x, MIXED * 2 - 300, 0, mode="clip"),
    "elements": lambda x: np.take_along_axis(x, MIXED.reshape(-1, 9).repeat(5, 1)[:, :40], 0),
    "points": lambda x: x[MIXED, MIXED % 40],
    "flat": lambda x: x.reshape(-1)[MIXED * 39],
    "rows in one": lambda x: x.reshape(-1),
    "columns in one": lambda x: x.T.reshape(-1)[::-1],
    "steps": lambda x: x[::61],
    "other rows": lambda x: x.reshape(240, 100).T[::7],
    "rolled": lambda x: np.roll(x, (77, 7), (0, 1)),
    "windows": lambda x: x[(MIXED[:50, None] + np.arange(9)) % 600],
}


@pytest.mark.parametrize("function", FAR_APART.values(), ids=FAR_APART)
@pytest.mark.parametrize("chunks", [(100, 10), (7, 40), (600, 3), ((13, 0, 87, 500), (1, 39))], ids=str)
@pytest.mark.parametrize("dtype", ["<i2", [("a", "u1"), ("b", "<f8")]], ids=str)
@pytest.mark.usefixtures("small_chunks")
def test_no_task_needs_more_than_some_chunks(function, chunks, dtype):
    array = (np.arange(24000) % 251).astype("u1").repeat(np.dtype(dtype).itemsize).view(dtype).reshape(600, 40)
    x = da.from_array(array, chunks=chunks)
    result = dml.fuse(function)(x)
    elements, peak = computed(result)
    np.testing.assert_array_equal(elements, function(array))
    assert peak <= max(4 * max(largest(x), largest(result)), 1024)


def test_mixed_rows_need_no_more_tasks_than_dasks():
    x = da.zeros((20_000, 20_000), chunks=1000, dtype=np.float32)
    index = np.random.default_rng(0).permutation(20_000)
    ours, dasks = dml.gather(x, index), np.take(x, index, 0)
    assert ours.chunks == dasks.chunks
    assert len(dict(ours.dask)) <= len(dict(dasks.dask))


@pytest.mark.parametrize("rows, reads", [(slice(0, 100), 10), (slice(250, 260), 10), (slice(None), 100)])
def test_parts_of_a_result_read_what_they_need(rows, reads):
    # Chunks of 4 MB, of which every task reads all ten of its rows or columns.
    x = da.zeros((10_000, 10_000), chunks=1000, dtype=np.float32)
    mixed = np.arange(10_000).reshape(10, 1000).T.reshape(-1)
    graph = dask.optimize(dml.gather(x, mixed)[rows, :1000])[0].dask if reads == 10 else dml.gather(x, mixed).dask
    read = {
        one for task in dict(graph).values() for one in task.dependencies if isinstance(one, tuple) and one[0] == x.name
    }
    assert len(read) == reads


def test_steps_over_chunks_read_none_between():
    x = da.from_array(np.arange(100_000), chunks=10)
    result = dml.fuse(lambda x: x[5::1000])(x)
    tasks = [*dict(result.dask.layers[result.name]).values()]
    assert (
        len([one for task in tasks for one in task.dependencies if isinstance(one, tuple) and one[0] == x.name]) == 100
    )
    np.testing.assert_array_equal(result.compute(scheduler="sync"), np.arange(5, 100_000, 1000))


def link(rng, shape):
    """A function that keeps the number of axes, and cuts, joins or picks along one of them."""
    axis = int(rng.integers(len(shape)))
    at, size = (slice(None),) * axis, shape[axis]
    index, other = drawn_indices(rng, size, int(rng.choice([1, 20, 300]))), drawn_indices(rng, size, 20)
    shift, step = int(rng.integers(-50, 50)), int(rng.choice([-3, -2, -1, 2, 3]))
    return rng.choice(
        [
            lambda x: np.take(x, index, axis),
            lambda x: np.concatenate([np.take(x, other, axis), np.take(x, index, axis)], axis),
            lambda x: np.roll(x, shift, axis),
            lambda x: np.concatenate([x, np.flip(x, len(shape) - 1)], axis) if x.size < 100_000 else x,
            lambda x: x[(*at, slice(None, None, step))],
            lambda x: np.pad(x, [(2 * (k == axis), 0) for k in range(len(shape))]),
        ]
    )


@pytest.mark.parametrize("seed", range(DRAWN))
@pytest.mark.usefixtures("small_chunks")
def test_chains_make_few_chunks_and_small_tasks(seed):
    rng = np.random.default_rng(seed)
    array = rng.integers(0, 255, [(600,), (300, 40), (24, 60, 5)][rng.integers(3)]).astype(rng.choice(["<i2", "u1"]))
    x, wanted, links = cut(rng, array), array, []
    for _ in range(rng.integers(1, 6)):
        links.append(link(rng, wanted.shape))
        wanted = links[-1](wanted)
    one_by_one = [x]
    for function in links:
        one_by_one.append(dml.fuse(function)(one_by_one[-1]))
    chains = [one_by_one]
    with contextlib.suppress(BindingError):
        chains.append([x, dml.fuse(lambda x: functools.reduce(lambda x, function: function(x), links, x))(x)])
    for chain in chains:
        elements, peak = computed(chain[-1])
        np.testing.assert_array_equal(elements, wanted)
        assert chain[-1].npartitions <= 8 * max(asked(wanted.shape, x), -(-wanted.nbytes // 1024))
        assert peak <= max(4 * max(map(largest, chain)), 1024)


def drawn_indices(rng, size, shape):
    """Indices as people have them, for an axis of some size: mixed, sorted, in runs, from the end, repeated."""
    shape = np.atleast_1d(shape)
    count = int(np.prod(shape))
    kind = rng.integers(5)
    if kind == 0:
        indices = rng.integers(-size, size, count)
    elif kind == 1:
        indices = np.sort(rng.integers(0, size, count))
    elif kind == 2:
        indices = (np.arange(count) // rng.integers(1, 9) + rng.integers(0, size)) % size
    elif kind == 3:
        indices = np.full(count, rng.integers(0, size))
    else:
        indices = rng.integers(0, size, count) * (rng.random(count) < 0.9)
    return indices.reshape(shape).astype(rng.choice([np.int32, np.int64]))


def gathered(rng, shape):
    """A function that gathers, and the same function for NumPy."""
    axis = int(rng.integers(len(shape)))
    size = shape[axis]
    kind = rng.choice(
        ["plain", "clamped", "pairs", "points", "elements", "flat", "chain", "two", "mask", "parts", "turned"]
    )
    counts = [0, 1, 5, 40, 256, 257, 300, *([] if kind in ("elements", "flat", "two") else [777, 2000])]
    index = drawn_indices(rng, size, int(rng.choice(counts)))
    at = (slice(None),) * axis
    if kind == "clamped":
        wide = index.astype(np.int64) * 3
        clamped = np.clip(np.where(wide < 0, wide + size, wide), 0, size - 1)
        return kind, lambda x: dml.gather(x, wide, axis, out_of_range="clamp"), lambda x: x.take(clamped, axis)
    if kind == "pairs":
        index = index[: len(index) // 4 * 4].reshape(-1, 4)
        return kind, lambda x: dml.gather(x, index, axis), lambda x: x.take(index, axis)
    if kind == "points" and len(shape) > 1:
        other = drawn_indices(rng, shape[0], len(index))
        by = drawn_indices(rng, shape[1], len(index))
        both = lambda x: x[other, by]  # noqa: E731
        return kind, dml.fuse(both), both
    if kind == "elements":
        many = drawn_indices(rng, size, (*shape[:axis], 2, *shape[axis + 1 :]))
        along = lambda x: np.take_along_axis(x, many, axis)  # noqa: E731
        return kind, dml.fuse(along), along
    if kind == "flat":
        index = drawn_indices(rng, math.prod(shape), len(index))
        flat = lambda x: x.reshape(-1)[index]  # noqa: E731
        return kind, dml.fuse(flat), flat
    if kind == "chain":
        step = int(rng.choice([-3, -1, 2]))
        chain = lambda x: np.moveaxis(x[::-1][(*at, index)], axis, 0)[::step].reshape(-1)  # noqa: E731
        return kind, dml.fuse(chain), chain
    if kind == "two" and len(shape) > 1:
        other = drawn_indices(rng, shape[axis - 1], 20)
        twice = lambda x: x.take(index, axis).take(other, axis - 1)  # noqa: E731
        return kind, dml.fuse(twice), twice
    if kind == "turned" and len(shape) > 1:
        cut_at = max(d for d in range(1, 9) if shape[0] % d == 0)
        split = (cut_at, shape[0] // cut_at, *shape[1:])
        ends = drawn_indices(rng, cut_at, len(index)), drawn_indices(rng, split[-1], len(index))
        turned = lambda x: np.rot90(x.reshape(split)[(ends[0], ..., ends[1])])  # noqa: E731
        return kind, dml.fuse(turned), turned
    if kind == "mask":
        mask = rng.random(size) < rng.random()
        masked = lambda x: np.compress(mask, x, axis)  # noqa: E731
        return kind, dml.fuse(lambda x: x[(*at, mask)]), masked
    if kind == "parts":
        parts = lambda x: np.concatenate([x, x.take(index, axis), x[:3] if axis else x], axis if axis else 0)  # noqa: E731
        if axis:
            parts = lambda x: np.concatenate([x, x.take(index, axis)], axis)  # noqa: E731
        return kind, dml.fuse(parts), parts
    return "plain", lambda x: dml.gather(x, index, axis), lambda x: x.take(index, axis)


def cut(rng, array):
    """The same as a Dask array, in even or uneven chunks."""
    if rng.random() < 0.5:
        return da.from_array(
            array, chunks=tuple(int(rng.integers(1, n + 1)) if n < 9 else -(-n // 4) for n in array.shape)
        )
    chunks = []
    for n in array.shape:
        ends = sorted({0, n, *rng.integers(1, n + 1, int(rng.integers(0, 3))).tolist()})
        chunks.append(tuple(b - a for a, b in itertools.pairwise(ends)))
    return da.from_array(array, chunks=tuple(chunks))


@pytest.mark.parametrize("seed", range(DRAWN))
def test_random_gathers_are_numpys(seed):
    rng = np.random.default_rng(seed)
    shape = SHAPES[rng.integers(len(SHAPES))]
    array = rng.integers(0, 1 << 15, shape).astype(rng.choice(["<i2", "<f8", "u1"]))
    x = cut(rng, array)
    kind, function, plain = gathered(rng, shape)
    result, wanted = function(x), plain(array)
    assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype), kind
    np.testing.assert_array_equal(result.compute(scheduler="sync"), wanted, err_msg=kind)
    if kind in ("plain", "clamped", "elements"):
        assert result.npartitions <= 8 * asked(wanted.shape, x), (kind, result.chunks, x.chunks)
