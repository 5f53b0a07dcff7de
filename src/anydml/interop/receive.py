"""The way in: whose array an argument is, and whether the arguments of one call can work together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from anydml.backends.device_array import DeviceArray
from anydml.errors import BindingError, DescError
from anydml.fields import check_dimensions, wrong
from anydml.interop.guest import ONE_PLACE, Array, Guest
from anydml.interop.lazy import refuse_lazy

_PLAIN = (np.ndarray, np.generic, list, tuple, int, float, complex, str, bytes)
"""What NumPy reads itself."""

_own: dict[type, type[Guest] | None] = dict.fromkeys(_PLAIN)
"""The answers of `_guest_class` for types of libraries, which stay as long as the process."""

_classes: WeakKeyDictionary[type, type[Guest] | None] = WeakKeyDictionary()
"""The answers for all other types, which may be let go."""


def guest_of(array: Any) -> Guest | None:
    """The `Guest` for an array of another library; None for NumPy's, and for all that NumPy has to read itself.

    A `Guest` is its own.
    """
    kind = type(array)
    if kind in _own:
        guest = _own[kind]
    elif isinstance(array, _PLAIN):
        return None
    elif isinstance(array, Guest):
        return array
    elif kind in _classes:
        guest = _classes[kind]
    else:
        guest = _guest_class(array)
        answers = _own if kind.__module__.partition(".")[0] in ("torch", "jaxlib", "cupy") else _classes
        answers[kind] = guest
    return None if guest is None else guest(array)


def _guest_class(array: Any) -> type[Guest] | None:
    import array_api_compat

    if array_api_compat.is_torch_array(array):
        from anydml.interop import pytorch

        return pytorch.TorchGuest
    if array_api_compat.is_jax_array(array):
        from anydml.interop import jax

        return jax.JaxGuest
    if array_api_compat.is_cupy_array(array):
        from anydml.interop import cupy

        return cupy.CupyGuest
    if hasattr(array, "__dlpack_device__") or hasattr(array, "__cuda_array_interface__"):
        from anydml.interop import dlpack

        return dlpack.DlpackGuest
    return None


def received(name: str, array: Any, field: str = "x") -> tuple[Array, Guest | None]:
    """An argument as the engines see it, and whose it is: None for NumPy's own, and for lists and scalars.

    Raises:
        BindingError: it has no memory that could be read.
        DescError: it has more dimensions than NumPy's arrays.
    """
    guest = guest_of(array)
    return (as_numpy(name, field, array) if guest is None else _view(name, field, guest)), guest


def _view(name: str, field: str, guest: Guest) -> Array:
    check_dimensions(name, field, getattr(guest.array, "ndim", 0))
    return guest.view(name, field)


def as_numpy(name: str, field: str, array: Any) -> Array:
    """An array of NumPy's, from whatever NumPy reads.

    Raises:
        BindingError: it has a mask, or is not in memory.
        DescTypeError: NumPy does not read it, such as lists of unequal lengths.
    """
    if isinstance(array, DeviceArray):
        return array
    if not isinstance(array, _PLAIN):
        refuse_lazy(name, field, array)
    _refuse_mask(name, field, array)
    try:
        return np.asarray(array)
    except (TypeError, ValueError):
        raise wrong(name, field, array, "an array, or nested lists of equal lengths") from None


def _refuse_mask(name: str, field: str, array: Any) -> None:
    if isinstance(array, np.ma.MaskedArray) and array.mask is not np.ma.nomask:
        message = f"{name}: {field} is a masked array: pass {field}.data, and {field}.mask in a call of its own"
        raise BindingError(message, name, field, "a mask is not moved")


def received_all(name: str, arrays: Sequence[Any]) -> tuple[tuple[Array, ...], Guest | None]:
    """Arrays that are to be joined, as the engines see them, and whose they are.

    Raises:
        BindingError: they are of two libraries or on two devices.
        DescError: they are of two dtypes.
    """
    if not arrays:
        return (), None
    guests = [guest_of(array) for array in arrays]
    check_alike(name, guests)
    views = tuple(
        as_numpy(name, f"arrays[{i}]", array) if guest is None else _view(name, f"arrays[{i}]", guest)
        for i, (array, guest) in enumerate(zip(arrays, guests, strict=True))
    )
    return views, guests[0]


def check_alike(name: str, guests: Sequence[Guest | None]) -> None:
    """Arrays that are to be joined are of one library, device and dtype.

    Raises:
        BindingError: they are of two libraries or on two devices.
        DescError: they are of two dtypes.
    """
    first = guests[0]
    wanted = _dtype(first)
    for i, guest in enumerate(guests[1:], 1):
        check_place(name, f"arrays[{i}]", guest, first, "arrays[0]")
        # Asked of the arrays themselves: NumPy may have one name for the dtypes of both, or none.
        if (dtype := _dtype(guest)) != wanted:
            message = f"{name}: arrays[{i}] is {dtype}, but arrays[0] is {wanted}"
            raise DescError(message, name, f"arrays[{i}]", "all arrays have one dtype")


def received_indices(name: str, indices: Any, x: Guest | None) -> Array:
    """Indices as the engines see them: of x's library and device, or plain ones of the host.

    Raises:
        BindingError: they are of another library or on another device.
    """
    guest = guest_of(indices)
    if guest is None:
        return as_numpy(name, "indices", indices)
    check_place(name, "indices", guest, x, "x")
    return _view(name, "indices", guest)


def host_values(name: str, field: str, values: Any) -> Array:
    """Numbers that are read before anything is moved: a list, or an array of any library in host memory.

    Raises:
        BindingError: they lie on a GPU.
    """
    view, guest = received(name, values, field)
    check_host(name, field, guest or view, not isinstance(view, DeviceArray))
    return view


def check_host(name: str, field: str, values: Any, are_on_host: bool) -> None:
    """Numbers that are read before anything is moved lie in host memory.

    Raises:
        BindingError: they do not.
    """
    if not are_on_host:
        message = f"{name}: {field} is {values}, but its values are needed on the host: pass a copy there"
        raise BindingError(message, name, field, f"{field} lies in host memory")


def target_array(name: str, field: str, array: Any, guest: Guest | None) -> Array:
    """An `out` as the engines see it.

    Args:
        name: the function's name, for errors.
        field: the argument's.
        array: what the caller gave.
        guest: whose the inputs are.

    Raises:
        BindingError: it is of another library or device than the inputs, or cannot be written.
    """
    out = guest_of(array)
    if out is None and not isinstance(array, np.ndarray):
        raise BindingError(f"{name}: {field} is a {type(array).__name__}", name, field, "out is an array")
    check_place(name, field, out, guest, "x")
    _refuse_mask(name, field, array)
    if out is None or guest is None:
        seen: Array = array
        return seen
    if _dtype(out) != _dtype(guest):
        message = f"{name}: {field} is {_dtype(out)}, but the result is {_dtype(guest)}"
        raise BindingError(message, name, field, "out has the result's shape and dtype")
    check_dimensions(name, field, getattr(out.array, "ndim", 0))
    return out.target(name, field)


def check_place(name: str, field: str, guest: Guest | None, other: Guest | None, other_field: str) -> None:
    """Both are NumPy's, or of one library and device.

    Raises:
        BindingError: naming both.
    """
    if guest is other or (type(guest) is type(other) and guest and other and guest.device == other.device):
        return
    places = [one or "a NumPy array or list" for one in (guest, other)]
    message = f"{name}: {field} is {places[0]}, but {other_field} is {places[1]}: convert or move one of them"
    raise BindingError(message, name, field, ONE_PLACE)


def _dtype(guest: Guest | None) -> Any:
    return getattr(guest and guest.array, "dtype", None)
