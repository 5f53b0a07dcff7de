"""The chunks that tasks of Dask arrays read: those from which elements move, and no others."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import anydml as dml

da = pytest.importorskip("dask.array", reason='Dask is not installed: pip install "anydml[dask]"')

FUNCTIONS = {
    "diagonal": np.diagonal,
    "reversed diagonal": lambda x: np.diagonal(x[:, ::-1], 1),
    "diagonals of blocks": lambda x: np.diagonal(x.reshape(4, 15, 45)[:, :, :15], axis1=1, axis2=2),
    "windows": lambda x: sliding_window_view(x, 7, 1),
    "windows apart": lambda x: sliding_window_view(x, 3, 1)[:, ::14],
    "boxes apart": lambda x: sliding_window_view(x, (2, 20), (0, 1))[::20, ::24],
    "diagonal of windows": lambda x: np.diagonal(sliding_window_view(x, 9, 1)),
    "steps": lambda x: x[3::17, 40::-13],
    "steps of a diagonal": lambda x: np.diagonal(x)[::11],
    "flat columns": lambda x: x.T.reshape(-1),
    "flat rows": lambda x: x.reshape(-1)[30:80],
    "indices of windows": lambda x: sliding_window_view(x, 2, 1)[:, ::9].take([3, 59, 4, 31], 0),
    "many indices of a diagonal": lambda x: np.diagonal(x).take(np.arange(300) * 31 % 44),
}


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("chunks", [(10, 10), (7, 45), (60, 4), (25, 20), ((1, 0, 40, 19), (9, 0, 36))], ids=str)
def test_all_chunks_that_are_read_are_needed(function, chunks):
    # Each element is its chunk's number, so that a result shows the chunks that it is made of.
    places = da.empty((60, 45), chunks=chunks).chunks
    array = np.empty((60, 45), np.int64)
    for k, (first, row) in enumerate(zip(np.cumsum((0, *places[0])), places[0], strict=False)):
        for m, (start, column) in enumerate(zip(np.cumsum((0, *places[1])), places[1], strict=False)):
            array[first : first + row, start : start + column] = k * len(places[1]) + m
    x = da.from_array(array, chunks=chunks)
    result = dml.fuse(function)(x)
    np.testing.assert_array_equal(result.compute(scheduler="sync"), function(array))
    graph = dict(result.__dask_graph__())

    def read(key):
        if key[0] == x.name:
            return {key[1] * len(places[1]) + key[2]}
        return set().union(*(read(each) for each in graph[key].dependencies if type(each) is tuple))

    starts = [np.cumsum((0, *sizes)) for sizes in result.chunks]
    for number in np.ndindex(*result.numblocks):
        ends = [slice(at[k], at[k + 1]) for at, k in zip(starts, number, strict=True)]
        assert read((result.name, *number)) == {*np.unique(function(array)[tuple(ends)]).tolist()}
