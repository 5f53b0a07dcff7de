"""Arrays that are not in memory are refused with what to call, and never computed."""

import numpy as np
import pytest

import anydml as dml


def lazy(module, **attributes):
    """An array of a library's, as far as its name says; to read it is an error."""

    def read(self, *arguments, **options):
        raise AssertionError("it was computed")

    kind = type("Array", (), {"__array__": read, "__module__": module, "shape": (4,), "dtype": np.dtype("f4")})
    array = kind()
    for name, value in attributes.items():
        setattr(array, name, value)
    return array


def xarray(data):
    return lazy("xarray.core.dataarray", variable=lazy("xarray.core.variable", _data=data))


ARRAYS = {
    "zarr": (lazy("zarr.core.array"), "a Zarr array, which is not in memory: pass x[...]"),
    "h5py": (lazy("h5py._hl.dataset"), "an h5py dataset, which is not in memory: pass x[...]"),
    "tensorstore": (lazy("tensorstore"), "a TensorStore, which is not in memory: pass x.read().result()"),
    "xarray over dask": (
        xarray(lazy("dask.array.core")),
        "an xarray over a lazy array, which is not in memory: pass x.compute()",
    ),
}


@pytest.mark.parametrize("given, told", ARRAYS.values(), ids=ARRAYS)
def test_arrays_that_are_not_in_memory(given, told):
    for name, call in (
        ("split", lambda: dml.split(given, 2)),
        ("slice", lambda: dml.slice(given, [0], [2])),
        ("slice1", lambda: dml.slice1(given, [0], [2], [1])),
        ("gather", lambda: dml.gather(given, [0])),
        ("split_training", lambda: dml.split_training(given, [2, 2])),
        ("copy", lambda: dml.copy(given)),
    ):
        with pytest.raises(dml.BindingError) as caught:
            call()
        assert str(caught.value) == f"{name}: x is {told}"
    with pytest.raises(dml.BindingError, match=r"arrays\[1\] is an? .*, which is not in memory"):
        dml.join([np.zeros(4, np.float32), given])
    with pytest.raises(dml.BindingError, match=r"indices is an? .*, which is not in memory"):
        dml.gather(np.zeros(4), given)


def test_an_xarray_in_memory_is_read():
    held = np.arange(4.0)
    array = xarray(held)
    type(array).__array__ = lambda self, *arguments, **options: held
    assert dml.slice(array, [1], [2]).tolist() == [1, 2]
