"""Arrays that are not in memory: their elements are computed or read when NumPy asks, and that may take all memory."""

from __future__ import annotations

from typing import Any

from anydml.errors import BindingError

_LAZY = {
    "dask": ("a Dask array", "{field}.compute()"),
    "h5py": ("an h5py dataset", "{field}[...]"),
    "tensorstore": ("a TensorStore", "{field}.read().result()"),
    "zarr": ("a Zarr array", "{field}[...]"),
}
"""What errors call the arrays of a library, and what its users call to have one in memory."""


def refuse_lazy(name: str, field: str, array: Any) -> None:
    """Refuse an array that would be computed or read as a whole without anybody having asked for that.

    Args:
        name: the function's name, for errors.
        field: the argument's.
        array: what the caller gave.

    Raises:
        BindingError: it is Dask's, Zarr's, h5py's or TensorStore's, or xarray's over one of them.
    """
    library, held = _library(array), array
    if library == "xarray":
        # It holds an array of another library, or one of its own that reads a file.
        held = getattr(getattr(array, "variable", None), "_data", None)
    if library not in _LAZY and _library(held) not in (*_LAZY, "xarray"):
        return
    kind, call = _LAZY.get(library, ("an xarray over a lazy array", "{field}.compute()"))
    message = f"{name}: {field} is {kind}, which is not in memory: pass {call.format(field=field)}"
    raise BindingError(message, name, field, "arrays must be in memory, and nothing is computed or read unasked")


def _library(array: Any) -> str:
    return type(array).__module__.partition(".")[0]
