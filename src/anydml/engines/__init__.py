"""The engines, each imported only when it is asked for.

An engine is a package with two functions: ``open_engine(device)``, which gives an `Engine` or raises ValueError, and,
if functions on arrays are to reach it, ``array_engine(name, arrays)``, which gives an `ArrayEngine`.
"""

from __future__ import annotations

import sys
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
"""Packages by the names of devices; what follows a colon, as in ``"cuda:1"``, is the engine's own."""

HOST, ON_DEVICE = ENGINES["cpu"], ENGINES["cuda"]
"""The engines behind functions on arrays in host memory, and on a GPU."""


def open_engine(device: str) -> Engine:
    """The engine behind a device's name: ``"cpu"``, ``"numpy"``, ``"reference"``, ``"cuda"`` or ``"cuda:1"``.

    Raises:
        ValueError: no engine has this name, or what it takes is missing.
    """
    package = ENGINES.get(device.partition(":")[0])
    if package is None:
        hint = "; a GPU is 'cuda'" if "gpu" in device.lower() else did_you_mean(device, ENGINES)
        raise ValueError(f"unknown device {device!r}: one of {', '.join(map(repr, ENGINES))}{hint}")
    engine: Engine = import_module(package).open_engine(device)
    return engine


def array_engine(name: str, arrays: Sequence[Array]) -> ArrayEngine:
    """The engine behind functions on arrays, which lie in host memory or on a GPU.

    Args:
        name: what errors call the function.
        arrays: as the engines see them.

    Raises:
        BindingError: they lie in several places.
        ValueError: what it takes is missing.
    """
    package = ON_DEVICE if DeviceArray in map(type, arrays) else HOST
    module = sys.modules.get(package) or import_module(package)
    engine: ArrayEngine = module.array_engine(name, arrays)
    return engine


def gpu() -> tuple[str, str]:
    """What the engine behind arrays on a GPU runs on, and what makes it slow there, if anything does.

    Raises:
        ValueError: what it takes is missing.
    """
    found: tuple[str, str] = import_module(ON_DEVICE).machine()
    return found


__all__ = ["ENGINES", "CompiledProgram", "Engine", "array_engine", "gpu", "open_engine"]
