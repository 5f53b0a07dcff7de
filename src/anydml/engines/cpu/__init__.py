"""The CPU engine: the compiled core, or NumPy if the core is missing.

Reading order: `engine`, `threads`, `nonzero`.
"""

from __future__ import annotations

from collections.abc import Sequence

from anydml.engines.cpu.engine import CpuEngine
from anydml.engines.protocol import Array, ArrayEngine, Engine, only_name

_HOST = CpuEngine()


def open_engine(device: str) -> Engine:
    """Return the engine for ``"cpu"``."""
    only_name("cpu", device)
    return _HOST


def array_engine(name: str, arrays: Sequence[Array]) -> ArrayEngine:
    """Return the engine for functions on arrays in host memory."""
    return _HOST


__all__ = ["array_engine", "open_engine"]
