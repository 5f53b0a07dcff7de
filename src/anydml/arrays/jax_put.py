"""JAX's arrays over memory of NumPy's: by what `jax.device_put` comes to, in a tenth of its time, and else by that."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import jax
import numpy as np

from anydml.arrays.adapter import Array, Sizes

MOST_SHAPES = 1024
"""Shapes and dtypes whose descriptions are kept."""


def given(results: Sequence[Array], like: Any) -> list[Any]:
    """Arrays over the memory of NumPy's, on another one's device, committed to it if that one is."""
    (device,), is_committed = like.devices(), like.committed
    if is_committed or device is _default_device():
        return [_given(result, device, is_committed) for result in results]
    return [put(result, None) for result in results]


def _given(result: Array, device: Any, is_committed: bool) -> Any:
    described = _described(result.shape, result.dtype, device)
    if described is not None:
        try:
            return _quickly(result, described, is_committed)
        except Exception:
            # `device_put` refuses it in its own words.
            return put(result, device if is_committed else None)
    return put(result, device if is_committed else None)


def put(array: Array, device: Any) -> Any:
    """An array over the memory of NumPy's, committed to a device, or on the default one for None."""
    if array.dtype.itemsize < 8 or jax.config.jax_enable_x64:
        return jax.device_put(array, device)
    # A caller without 64-bit types may still have arrays of them, and gets nothing narrower back.
    with jax.enable_x64(True):
        return jax.device_put(array, device)


class _Described(NamedTuple):
    """Arrays of one shape and dtype on one device: what they are made by, and whether JAX has to be told of 64 bits."""

    aval: Any
    sharding: Any
    devices: list[Any]
    is_wide: bool


def _quickly(array: Array, described: _Described, is_committed: bool) -> Any:
    aval, sharding, devices, is_wide = described
    if not is_wide or jax.config.jax_enable_x64:
        return _put_batch(aval, sharding, [array], devices, is_committed)
    with jax.enable_x64(True):
        return _put_batch(aval, sharding, [array], devices, is_committed)


@lru_cache(MOST_SHAPES)
def _described(shape: Sizes, dtype: np.dtype[Any], device: Any) -> _Described | None:
    """None where such arrays do not come out as `device_put` makes them."""
    return _of_shape(shape, dtype, device) if _is_known(dtype, device) else None


def _of_shape(shape: Sizes, dtype: np.dtype[Any], device: Any) -> _Described:
    return _Described(jax.core.ShapedArray(shape, dtype), _sharding(device), [device], dtype.itemsize >= 8)


@cache
def _sharding(device: Any) -> Any:
    return jax.sharding.SingleDeviceSharding(device)


def _found() -> Any:
    """What JAX's own Python calls at last; None where it has another name."""
    try:
        return importlib.import_module("jaxlib._jax").batched_device_put
    except (ImportError, AttributeError):
        return None


_put_batch = _found()


def _default_device() -> Any:
    chosen = jax.config.jax_default_device
    return _first_device() if chosen is None else chosen


@cache
def _first_device() -> Any:
    return jax.local_devices()[0]


@cache
def _is_known(dtype: np.dtype[Any], device: Any) -> bool:
    """Whether arrays of a dtype come out on a CPU as `device_put` makes them."""
    if device.platform != "cpu" or _put_batch is None:
        return False
    probe = np.arange(6).astype(dtype).reshape(2, 3)
    ways = (True, False) if device is _default_device() else (True,)
    try:
        described = _of_shape(probe.shape, dtype, device)
        pairs = [(_quickly(probe, described, way), put(probe, device if way else None)) for way in ways]
    except Exception:
        return False
    return all(_said(made) == _said(meant) for made, meant in pairs)


def _said(array: Any) -> tuple[Any, ...]:
    known = type(array), array.aval, array.dtype, array.weak_type, array.sharding, array.committed, array.devices()
    return *known, np.asarray(array).tobytes()
