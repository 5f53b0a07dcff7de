"""The engines, each imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from anydml.backends.base import Array, ArrayEngine, Backend, CompiledProgram
from anydml.backends.device_array import DeviceArray


def open_backend(device: str) -> Backend:
    """The engine behind a device's name: ``"cpu"``, ``"numpy"``, ``"reference"``, ``"cuda"`` or ``"cuda:1"``.

    Raises:
        ValueError: no engine has this name, or what it takes is missing.
    """
    if device == "cpu":
        from anydml.backends import cpu

        return cpu.CpuBackend()
    if device == "numpy":
        from anydml.backends import numpy_engine

        return numpy_engine.NumpyBackend()
    if device == "reference":
        from anydml.backends import reference

        return reference.ReferenceBackend()
    if device.partition(":")[0] == "cuda":
        from anydml.backends.cuda import available

        available.require_gpu(device)
        from anydml.backends.cuda import engine

        return engine.CudaBackend(device)
    raise ValueError(f"unknown device {device!r}: one of 'cpu', 'numpy', 'reference', 'cuda'")


def array_engine(name: str, arrays: Sequence[Array]) -> ArrayEngine:
    """The engine behind functions on arrays, which lie in host memory or on a GPU.

    Args:
        name: what errors call the function.
        arrays: as the engines see them.

    Raises:
        BindingError: they lie in several places.
        ValueError: what it takes is missing.
    """
    if DeviceArray in map(type, arrays):
        from anydml.backends.cuda import arrays as device_arrays

        return device_arrays.DeviceArrays.of(name, arrays)
    return _host()


@cache
def _host() -> ArrayEngine:
    from anydml.backends.cpu import arrays as host_arrays

    return host_arrays.HostArrays()


__all__ = ["Backend", "CompiledProgram", "array_engine", "open_backend"]
