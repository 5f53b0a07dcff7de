"""The engines, each imported on first use.

An engine is a package with a function ``open_engine(device)``, which returns an `Engine` or raises ValueError, and, if
it supports functions on arrays, ``array_engine(name, arrays)``, which returns an `ArrayEngine`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module

from anydml.engines.protocol import Array, ArrayEngine, CompiledProgram, Engine
from anydml.memory.device_array import DeviceArray
from anydml.text import did_you_mean

ENGINES: Mapping[str, str] = {
    "cpu": "anydml.engines.cpu",
    "numpy": "anydml.engines.numpy",
    "reference": "anydml.engines.reference",
    "cuda": "anydml.engines.cuda",
}
"""Packages by device name, without the part after a colon, as in ``"cuda:1"``, which the engine parses."""


def open_engine(device: str) -> Engine:
    """Return the engine of a device: ``"cpu"``, ``"numpy"``, ``"reference"``, ``"cuda"`` or ``"cuda:1"``.

    Raises:
        ValueError: no engine has this name, or its driver or library is missing.
    """
    package = ENGINES.get(device.partition(":")[0])
    if package is None:
        known = "'cpu', 'numpy' and 'reference' run on the processor, 'cuda' and 'cuda:1' on a GPU"
        hint = "" if "gpu" in device.lower() else did_you_mean(device, ENGINES)
        raise ValueError(f"unknown device {device!r}: {known}{hint}")
    engine: Engine = import_module(package).open_engine(device)
    return engine


def array_engine(name: str, arrays: Sequence[Array]) -> ArrayEngine:
    """Return the engine for functions on arrays, in host memory or on a GPU.

    Args:
        name: the function's name in errors.
        arrays: the arrays, as engines take them.

    Raises:
        BindingError: the arrays are in different memories.
        ValueError: the engine's driver or library is missing.
    """
    if DeviceArray in map(type, arrays):
        from anydml.engines import cuda

        return cuda.array_engine(name, arrays)
    from anydml.engines import cpu

    return cpu.array_engine(name, arrays)


def gpu() -> tuple[str, str]:
    """Return the GPU of functions on arrays, and a reason why it would be slow, or an empty string.

    Raises:
        ValueError: a GPU, its driver or a library is missing.
    """
    name_and_cause: tuple[str, str] = import_module(ENGINES["cuda"]).machine()
    return name_and_cause


__all__ = ["ENGINES", "CompiledProgram", "Engine", "array_engine", "gpu", "open_engine"]
