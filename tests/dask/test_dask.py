"""anydml's functions and fused functions on Dask arrays: lazily, and as NumPy makes them."""

import time

import numpy as np
import pytest

import anydml as dml
from anydml.errors import BindingError, FuseError

da = pytest.importorskip("dask.array", reason='Dask is not installed: pip install "anydml[dask]"')
dask = pytest.importorskip("dask")

ARRAY = np.arange(24 * 20 * 9, dtype=np.float32).reshape(24, 20, 9)
INDICES = np.array([3, 1, 4, 1, -5])
FUNCTIONS = {
    "split": lambda x: dml.split(x, [4, 11, 5], axis=1),
    "join": lambda x: dml.join([x, x[:7], x], axis=0),
    "slice": lambda x: dml.slice(x, [1, 2, 3], [10, 6, 2], [2, 3, 2]),
    "slice1": lambda x: dml.slice1(x, [0, 0, 0], [24, 20, 9], [-1, 2, -3]),
    "gather": lambda x: dml.gather(x, INDICES, axis=0),
    "copy": dml.copy,
    "fused": dml.fuse(lambda x: [x.transpose(2, 0, 1), np.concatenate([x[::-1, 3:], x[:, :2]], 1)]),
    "reshaped": dml.fuse(lambda x: x.reshape(12, 2, 180).transpose(1, 0, 2)),
    "flat": dml.fuse(lambda x: x.reshape(-1)),
    "part of flat": dml.fuse(lambda x: x.reshape(-1)[100:4000:7]),
    "other rows": dml.fuse(lambda x: x.reshape(36, 120)[3:, ::-1]),
    "rolled": lambda x: dml.roll(x, -7),
    "padded": dml.fuse(lambda x: np.pad(x, ((2, 0), (1, 1), (0, 3)))),
    "stacked": dml.fuse(lambda x: {"a": np.stack([x, x[::-1]], 2), "b": 5}),
    "constant": dml.fuse(lambda x: np.concatenate([x, np.arange(180, dtype=np.float32).reshape(1, 20, 9)])),
    "one": dml.fuse(lambda x: x[3, 4, 5]),
    "nothing": dml.fuse(lambda x: x[5:5]),
    "repeated": dml.fuse(lambda x: np.repeat(x, 3, 1)),
    "diagonal": dml.fuse(lambda x: x[np.arange(9), :, np.arange(9)]),
    "random": dml.fuse(lambda x: x[:, np.random.default_rng(0).integers(0, 20, 40)]),
}


def leaves(tree):
    if isinstance(tree, dict):
        tree = [*tree.values()]
    return [leaf for each in tree for leaf in leaves(each)] if isinstance(tree, (list, tuple)) else [tree]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("chunks", [(5, 7, 4), (24, 20, 9), ((3, 0, 21), (1, 19), 9)], ids=str)
def test_results_are_numpys_and_lazy(name, chunks):
    asked = []

    def loaded(block):
        if block.size:
            asked.append(1)
        return block

    x = da.from_array(ARRAY, chunks=chunks).map_blocks(loaded, dtype=ARRAY.dtype, meta=np.empty((0, 0, 0), np.float32))
    results, wanted = leaves(FUNCTIONS[name](x)), leaves(FUNCTIONS[name](ARRAY))
    assert not asked, "nothing is computed before it is asked for"
    assert len(results) == len(wanted)
    for result, expected in zip(results, wanted, strict=True):
        if isinstance(expected, int):
            assert result == expected
            continue
        assert isinstance(result, da.Array)
        assert (result.shape, result.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_array_equal(result.compute(scheduler="threads"), expected)


def test_a_task_needs_no_more_than_its_chunks():
    x = da.from_array(ARRAY, chunks=(6, 5, 9))
    result = dml.slice(x, [12, 0, 0], [12, 20, 9], [1, 1, 1])
    assert result.chunks == ((6, 6), (5, 5, 5, 5), (9,))
    graph = dict(result.__dask_graph__())
    for number in np.ndindex(2, 4, 1):
        task = graph[(result.name, *number)]
        assert {each for each in task.dependencies if isinstance(each, tuple)} == {(x.name, number[0] + 2, *number[1:])}


def test_no_task_needs_more_than_the_budget():
    x = da.from_array(np.zeros((64, 64, 64), np.float32), chunks=(64, 64, 1))
    with dask.config.set({"anydml.memory": "600kB"}):
        result = dml.fuse(lambda x: x.transpose(2, 0, 1))(x)
        joined = dml.fuse(lambda x: np.pad(x, ((0, 0), (0, 0), (1, 1))).reshape(64, -1))(x)
    for lazy_array in (result, joined):
        assert lazy_array.npartitions > 1
        graph = dict(lazy_array.__dask_graph__())
        for key in [key for key in graph if isinstance(key, tuple) and key[0] == lazy_array.name]:
            sizes = [lazy_array.chunks[axis][k] for axis, k in enumerate(key[1:])]
            chunks = sum(isinstance(one, tuple) for one in graph[key].dependencies)
            assert 4 * np.prod(sizes) + chunks * 64 * 64 * 4 <= 600_000, "a result's chunk and what it is made of"
        assert (lazy_array.compute() == 0).all()
    with dask.config.set({"anydml.memory": "10kB"}), pytest.raises(BindingError, match="rechunk the inputs"):
        dml.copy(x)


def test_chunks_that_no_task_can_read_are_refused_at_once():
    """However small the chunks of the result, a task reads one of these: halving them would take minutes."""
    x = da.zeros((1 << 20, 1 << 20), chunks=(1 << 10, 1 << 20), dtype=np.uint8)
    begin = time.perf_counter()
    with pytest.raises(BindingError, match=r"a task needs a whole chunk of 1\.07 GB.*rechunk the inputs"):
        dml.copy(x.T)
    assert time.perf_counter() - begin < 10


def test_graphs_of_10000_chunks_take_less_than_a_second():
    x = da.zeros((1000, 1000), chunks=(10, 10), dtype=np.float32)
    turned = dml.fuse(lambda x: x.T[::-1])
    for function in (dml.copy, turned):
        start = time.process_time()
        result = function(x)
        spent = time.process_time() - start
        assert result.npartitions == 10_000
        assert spent < 1


def test_several_inputs_and_structures():
    x, y = da.from_array(ARRAY, chunks=(5, 7, 4)), da.from_array(ARRAY[::-1], chunks=9)
    joined, lengths = dml.concat_training([x, y, x])
    np.testing.assert_array_equal(joined.compute(), np.concatenate([ARRAY, ARRAY[::-1], ARRAY]))
    assert [*lengths] == [24] * 3
    both = dml.fuse(lambda pair, axis: np.concatenate([pair["a"], pair["b"]], axis))({"a": x, "b": y}, axis=2)
    np.testing.assert_array_equal(both.compute(), np.concatenate([ARRAY, ARRAY[::-1]], 2))
    mixed = dml.fuse(lambda x, z: np.concatenate([x, z]))(x, ARRAY[:2])
    np.testing.assert_array_equal(mixed.compute(), np.concatenate([ARRAY, ARRAY[:2]]))


@pytest.mark.parametrize("function", [dml.copy, dml.fuse(lambda x: x[::-1])])
def test_chunks_that_are_not_numpys_are_refused(function):
    masked = da.ma.masked_greater(da.arange(10, chunks=3), 5)
    with pytest.raises(BindingError, match=r"has chunks with masks: pass dask\.array\.ma\.getdata"):
        function(masked)
    assert function(da.ma.getdata(masked)).shape == (10,)


def numbers(**named):
    """12 INT64 numbers in chunks of 4, as what makes them says, and as it makes them."""
    return da.arange(12, chunks=4).map_blocks(dtype=np.int64, meta=np.empty(0, np.int64), **named)


WRONG_CHUNKS = {
    "shorter elements": (lambda b: b.astype(np.int8), "int8 (4,)"),
    "longer elements": (lambda b: b.astype(np.complex128), "complex128 (4,)"),
    "elements of one size": (lambda b: b.astype(np.float64), "float64 (4,)"),
    "another byte order": (lambda b: b.astype(b.dtype.newbyteorder()), f"{np.dtype(np.int64).newbyteorder()} (4,)"),
    "objects": (lambda b: b.astype(object), "object (4,)"),
    "too short": (lambda b: b[:3], "int64 (3,)"),
    "too long": (lambda b: np.repeat(b, 2), "int64 (8,)"),
    "another shape": (lambda b: b.reshape(2, 2), "int64 (2, 2)"),
    "a scalar": (lambda b: b[0], "int64 ()"),
    "a mask": (lambda b: np.ma.masked_array(b, b > 2), "a numpy.ma.MaskedArray"),
    "a list": (lambda b: b.tolist(), "a builtins.list"),
}
USES = {
    "fused": dml.fuse(lambda x: x[::-1]),
    "one element": dml.fuse(lambda x: x[5]),
    "over chunks": dml.fuse(lambda x: x[3:9].reshape(2, 3).T),
    "second": dml.fuse(lambda x: np.concatenate([np.arange(3), x])),
    "join": lambda x: dml.join([da.arange(12, chunks=5), x]),
    "split": lambda x: dml.split(x, 2)[1],
    "split_training": lambda x: dml.split_training(x, [3, 9])[0],
    "copy": dml.copy,
    "gather": lambda x: dml.gather(x, [7, 1]),
    "pad": lambda x: dml.pad(x, [1, 1]),
    "tile": lambda x: dml.tile(x, [2]),
}


@pytest.mark.parametrize("make, found", WRONG_CHUNKS.values(), ids=WRONG_CHUNKS)
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_chunks_that_are_not_what_dask_was_told_are_refused(use, make, found):
    made = use(numbers(func=make))
    with pytest.raises(BindingError) as caught:
        made.compute(scheduler="sync")
    text = str(caught.value)
    assert f" is {found}, but its Dask array declares int64 (4,)" in text
    assert ": chunk (" in text


@pytest.mark.parametrize("dtype", ["V0", [("a", "V0")]], ids=str)
def test_elements_of_no_bytes_are_refused(dtype):
    with pytest.raises(BindingError, match="x has elements of no bytes"):
        dml.gather(da.from_array(np.zeros((4, 6), dtype), chunks=2), [1])


def test_chunks_that_are_scalars_of_no_dimensions():
    x = da.arange(12, chunks=4)
    assert dml.copy(x.sum()).compute() == 66
    assert dml.fuse(lambda x: x.reshape(1))(x.max()).compute().tolist() == [11]


def test_coordinates_are_looked_up_chunk_by_chunk():
    x, at = da.from_array(ARRAY, chunks=(5, 7, 4)), np.array([[11, 3], [0, 19], [-1, 7]])
    gathered = dml.fuse(lambda x: dml.gather_nd(x, at))(x)
    assert isinstance(gathered, da.Array)
    np.testing.assert_array_equal(gathered.compute(), ARRAY[at[:, 0], at[:, 1]])


def test_refused():
    x = da.from_array(ARRAY, chunks=(5, 7, 4))
    with pytest.raises(BindingError, match="out with Dask arrays"):
        dml.copy(x, out=np.empty_like(ARRAY))
    with pytest.raises(BindingError, match="out with Dask arrays"):
        dml.split(x, 2, out=[np.empty((12, 20, 9), np.float32)] * 2)
    with pytest.raises(BindingError, match="out with Dask arrays"):
        dml.fuse(lambda x: x[1])(x, out=np.empty_like(ARRAY[1]))
    with pytest.raises(BindingError, match=r"not in memory|are a Dask array"):
        dml.gather(x, da.from_array(INDICES, chunks=2), axis=0)
    unknown = x[x[:, 0, 0] > 5]
    for call, place in (
        (lambda: dml.copy(unknown), "x"),
        (lambda: dml.split(unknown, 2), "x"),
        (lambda: dml.join([x, unknown]), r"arrays\[1\]"),
        (lambda: dml.fuse(lambda first, second: second.T)(x, unknown), "second"),
    ):
        with pytest.raises(BindingError, match=rf": {place} has a shape .* {place}.compute_chunk_sizes"):
            call()
    scattered = dml.fuse(lambda x: dml.scatter_nd(x, np.array([[0]]), x[:1]))
    for call in (lambda: dml.where(x > 1, x, x), lambda: scattered(x)):
        with pytest.raises(BindingError, match=r"whole input at once \(.*\): convert the Dask arrays by \.compute\(\)"):
            call()
    with pytest.raises(FuseError):
        dml.fuse(lambda x: x + 1)(x)
    with pytest.raises(dml.DescError):
        dml.split(x, [1, 2], axis=1)


@pytest.mark.parametrize("scheduler", ["sync", "processes"])
def test_schedulers(scheduler):
    x = da.from_array(ARRAY, chunks=(12, 20, 9))
    with dask.config.set({"multiprocessing.context": "spawn", "num_workers": 1}):
        transposed = dml.fuse(lambda x: x.T)(x).compute(scheduler=scheduler)
        wrong = dml.copy(numbers(func=_narrowed))
        with pytest.raises(BindingError, match="Dask array declares int64"):
            wrong.compute(scheduler=scheduler)
    np.testing.assert_array_equal(transposed, ARRAY.T)


def _narrowed(block):
    return block.astype(np.int8)


def test_chunks_that_kernels_move():
    array = np.arange(3 << 20, dtype=np.float32).reshape(1024, 3072)
    x = da.from_array(array, chunks=(1024, 1536))
    np.testing.assert_array_equal(dml.fuse(lambda x: x.T)(x).compute(), array.T)


def test_numpys_arrays_before_dask_arrays_are_constants_as_those_after_them():
    row = np.full((1, 20, 9), 7, np.float32)
    x = da.from_array(ARRAY, chunks=(5, 7, 4))
    for arrays in ([row, x], [x, row], [row, x, row]):
        result = dml.join(arrays)
        assert isinstance(result, da.Array)
        np.testing.assert_array_equal(result.compute(), np.concatenate([np.asarray(each) for each in arrays]))
    np.testing.assert_array_equal(dml.stack([ARRAY, x], 1).compute(), np.stack([ARRAY, ARRAY], 1))
    for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4"):
        indices = da.from_array(INDICES.astype(dtype))
        with pytest.raises(BindingError, match="gather: indices are a Dask array"):
            dml.gather(ARRAY, indices)
        with pytest.raises(BindingError, match="indices are a Dask array"):
            dml.fuse(lambda x, indices: x[indices])(x, indices)


def test_xarray_by_apply_ufunc():
    xr = pytest.importorskip("xarray", reason="xarray is not installed: pip install xarray")
    maps = xr.DataArray(da.from_array(ARRAY, chunks=(5, 7, 4)), dims=("time", "lat", "lon"))
    dims = {"input_core_dims": [["time", "lat", "lon"]], "output_core_dims": [["lat", "lon", "time"]]}
    series = xr.apply_ufunc(dml.fuse(lambda x: x.transpose(1, 2, 0)), maps, dask="allowed", **dims)
    assert isinstance(series.data, da.Array)
    assert series.dims == ("lat", "lon", "time")
    np.testing.assert_array_equal(series.values, ARRAY.transpose(1, 2, 0))
