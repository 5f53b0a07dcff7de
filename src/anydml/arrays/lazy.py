"""Arrays that are not in memory: converting them computes or reads all elements, which may exhaust memory."""

from __future__ import annotations

from typing import Any

from anydml.errors import BindingError
from anydml.memory.device_array import package_of

_LAZY = {
    "dask": ("a Dask array", "{field}.compute()"),
    "h5py": ("an h5py dataset", "{field}[...]"),
    "tensorstore": ("a TensorStore", "{field}.read().result()"),
    "zarr": ("a Zarr array", "{field}[...]"),
}
"""For each library, a noun for its arrays, for errors, and the call that loads one into memory."""


def refuse_lazy(name: str, field: str, array: Any) -> None:
    """Refuse an array that a conversion would implicitly compute or read as a whole.

    Args:
        name: the function's name, for errors.
        field: the argument's name, for errors.
        array: the caller's argument.

    Raises:
        BindingError: the array is one of Dask, Zarr, h5py or TensorStore, or one of xarray over such an array.
    """
    library, inner = package_of(array), array
    if library == "xarray":
        # xarray wraps an array of another library, or a lazy array of its own.
        inner = getattr(getattr(array, "variable", None), "_data", None)
    if library not in _LAZY and package_of(inner) not in (*_LAZY, "xarray"):
        return
    noun, call = _LAZY.get(library, ("an xarray over a lazy array", "{field}.compute()"))
    message = f"{name}: {field} is {noun}, which is not in memory: pass {call.format(field=field)}"
    raise BindingError(message, name, field, "arrays must be in memory: nothing is computed or read implicitly")
