"""Conversion of arguments to the arrays that engines see, and checks of their libraries, devices and dtypes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from numbers import Number
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from anydml.arrays.adapter import NO_DEVICE, ONE_PLACE, Array, ArrayAdapter
from anydml.arrays.lazy import refuse_lazy
from anydml.errors import BindingError, DescError
from anydml.fields import check_dimensions, type_error
from anydml.memory.device_array import DeviceArray
from anydml.text import a

_NUMPY_TYPES = (np.ndarray, np.generic, list, tuple, int, float, complex, str, bytes)
"""Types that NumPy reads itself."""

_ARRAY_RULE = "an array, or nested lists of equal lengths"

_classes: WeakKeyDictionary[type, type[ArrayAdapter] | None] = WeakKeyDictionary()
"""Adapters by type; types may be collected."""


def adapter_of(array: Any) -> ArrayAdapter | None:
    """Return the `ArrayAdapter` of an array of another library, or None for everything that NumPy has to read.

    An `ArrayAdapter` is returned unchanged.
    """
    class_ = type(array)
    if isinstance(array, _NUMPY_TYPES):
        return None
    if isinstance(array, ArrayAdapter):
        return array
    if class_ not in _classes:
        _classes[class_] = _adapter_class(array)
    adapter = _classes[class_]
    return None if adapter is None else adapter(array)


def _adapter_class(array: Any) -> type[ArrayAdapter] | None:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        from anydml.arrays import pytorch

        return pytorch.TorchAdapter
    if "jax" in sys.modules:
        import array_api_compat

        if array_api_compat.is_jax_array(array):
            from anydml.arrays import jax

            return jax.JaxAdapter
    if hasattr(array, "__dlpack_device__") or hasattr(array, "__cuda_array_interface__"):
        from anydml.arrays import dlpack

        return dlpack.DlpackAdapter
    return None


def read_argument(name: str, array: Any, field: str = "x") -> tuple[Array, ArrayAdapter | None]:
    """Return an argument as the engines see it, and its adapter: None for NumPy arrays, lists and scalars.

    Raises:
        BindingError: the argument has no memory that can be read.
        DescError: the argument has more dimensions than NumPy supports.
    """
    adapter = adapter_of(array)
    if adapter is None:
        return as_numpy(name, field, array), None
    check_dimensions(name, field, getattr(adapter.array, "ndim", 0))
    return adapter.view(name, field), adapter


def as_numpy(name: str, field: str, array: Any) -> Array:
    """Convert an argument to a NumPy array.

    Raises:
        BindingError: the argument has a mask, or is not in memory.
        DescTypeError: the argument is a string or another object that is not an array, or NumPy cannot convert it, such
            as lists of unequal lengths.
    """
    if type(array) is np.ndarray or isinstance(array, DeviceArray):
        return array
    if not isinstance(array, _NUMPY_TYPES):
        refuse_lazy(name, field, array)
    refuse_subclass(name, field, array)
    try:
        converted = np.asarray(array)
    except (TypeError, ValueError):
        raise type_error(name, field, array, _ARRAY_RULE) from None
    # NumPy converts unknown objects to arrays without dimensions.
    if not converted.ndim and converted.dtype.kind in "OUS" and not isinstance(array, (np.ndarray, np.generic, Number)):
        raise type_error(name, field, array, _ARRAY_RULE)
    return converted


class ElementsAlone(np.ndarray[Any, Any]):
    """A class of NumPy arrays without further data, such as masks or units, although the class overrides functions."""

    __slots__ = ()


def refuse_subclass(name: str, field: str, array: Any) -> None:
    """Refuse arrays that hold more than their elements, such as masks or units.

    Raises:
        BindingError: the array's class defines functions of its own, or it has a mask.
    """
    class_ = type(array)
    if class_ in (np.ndarray, DeviceArray) or not isinstance(array, np.ndarray) or isinstance(array, ElementsAlone):
        return
    if _has_method(class_, "__array_function__") or _has_method(class_, "__array_ufunc__"):
        message = f"{name}: {field} is {a(class_.__name__)}, whose class defines what functions make of it"
        rule = "classes that define this are not moved"
        raise BindingError(f"{message}: pass numpy.asarray({field}) for its elements alone", name, field, rule)
    # Accessing `np.ma` imports it, which takes longer than any call.
    if isinstance(array, np.ma.MaskedArray) and array.mask is not np.ma.nomask:
        data, mask = (f"{field}.data", f"{field}.mask") if " " not in field else ("its data", "its mask")
        message = f"{name}: {field} is a masked array: pass {data}, and {mask} in a separate call"
        raise BindingError(message, name, field, "a mask is not moved")


def _has_method(class_: type[Array], method: str) -> bool:
    return getattr(class_, method) is not getattr(np.ndarray, method)


def read_arrays(name: str, arrays: Sequence[Any]) -> tuple[tuple[Array, ...], ArrayAdapter | None]:
    """Return the arrays of a join as the engines see them, and the adapter of the first array.

    Raises:
        BindingError: the arrays are of two libraries or on two devices.
        DescError: the arrays have two dtypes.
    """
    if not arrays:
        return (), None
    adapters = [adapter_of(array) for array in arrays]
    check_alike(name, adapters)
    return tuple([read_argument(name, array, f"arrays[{i}]")[0] for i, array in enumerate(arrays)]), adapters[0]


def check_alike(name: str, adapters: Sequence[ArrayAdapter | None]) -> None:
    """Check that the arrays of a join have one library, one device and one dtype.

    Raises:
        BindingError: the arrays are of two libraries or on two devices.
        DescError: the arrays have two dtypes.
    """
    first = adapters[0]
    first_dtype = _dtype(first)
    for i, adapter in enumerate(adapters[1:], 1):
        check_place(name, f"arrays[{i}]", adapter, first, "arrays[0]")
        # The library's own dtypes: NumPy may have one dtype for both, or none.
        if (dtype := _dtype(adapter)) != first_dtype:
            names = [str(dtype_name).removeprefix("torch.") for dtype_name in (dtype, first_dtype)]
            message = f"{name}: arrays[{i}] is {names[0]}, but arrays[0] is {names[1]}: convert one of them"
            raise DescError(message, name, f"arrays[{i}]", "all arrays must have the same dtype")


def check_host(name: str, field: str, values: Any, are_on_host: bool) -> None:
    """Check that numbers that are needed before anything is moved are in host memory.

    Raises:
        BindingError: an array is not in host memory.
    """
    if not are_on_host:
        message = f"{name}: {field} is {values}, but its values are needed on the host: pass a copy in host memory"
        raise BindingError(message, name, field, f"{field} must be in host memory")


def target_array(name: str, field: str, array: Any, adapter: ArrayAdapter | None, is_alike: bool = True) -> Array:
    """Return an `out` as the engines see it.

    Args:
        name: the function's name, for errors.
        field: the argument's name, for errors.
        array: the caller's argument.
        adapter: the adapter of the inputs; None for NumPy arrays.
        is_alike: whether the dtype must be that of the adapter's array.

    Raises:
        BindingError: the array is of another library or on another device than the inputs, or cannot be written.
    """
    out = adapter_of(array)
    if out is None and not isinstance(array, np.ndarray):
        class_ = type(array)
        full_name = class_.__name__ if class_.__module__ == "builtins" else f"{class_.__module__}.{class_.__name__}"
        raise BindingError(f"{name}: {field} is {a(full_name)}", name, field, "out must be an array in memory")
    check_place(name, field, out, adapter, "x")
    refuse_subclass(name, field, array)
    if out is None or adapter is None:
        target: Array = array
        return target
    if is_alike and _dtype(out) != _dtype(adapter):
        message = f"{name}: {field} is {_dtype(out)}, but the result is {_dtype(adapter)}"
        raise BindingError(message, name, field, "out must have the result's shape and dtype")
    check_dimensions(name, field, getattr(out.array, "ndim", 0))
    return out.target(name, field)


def check_place(
    name: str, field: str, adapter: ArrayAdapter | None, first_adapter: ArrayAdapter | None, first_field: str
) -> None:
    """Check that two arrays have one library and one device.

    Raises:
        BindingError: the libraries or the devices differ, or an array is on no device.
    """
    if adapter is first_adapter:
        return
    sides = (adapter, field), (first_adapter, first_field)
    own, first = (side and (side.LIBRARY, side.device) for side, _ in sides)
    if own == first:
        return
    for side, side_field in sides:
        if side and side.device is NO_DEVICE:
            side.view(name, side_field)
    places = [side or "a NumPy array or list" for side, _ in sides]
    message = f"{name}: {field} is {places[0]}, but {first_field} is {places[1]}: convert or move one of them"
    raise BindingError(message, name, field, ONE_PLACE)


def _dtype(adapter: ArrayAdapter | None) -> Any:
    return getattr(adapter and adapter.array, "dtype", None)
