"""The CPU engine: the compiled core, or NumPy if the core is missing.

Reading order: `engine`, `threads`, `nonzero`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from anydml.engines.protocol import Array, ArrayEngine, Engine, only_name

if TYPE_CHECKING:
    from anydml.engines.cpu.engine import CpuEngine


@cache
def _host() -> CpuEngine:
    from anydml.engines.cpu.engine import CpuEngine

    return CpuEngine()


def open_engine(device: str) -> Engine:
    """Return the engine for ``"cpu"``."""
    only_name("cpu", device)
    return _host()


def array_engine(name: str, arrays: Sequence[Array]) -> ArrayEngine:
    """Return the engine for functions on arrays in host memory."""
    return _host()


__all__ = ["array_engine", "open_engine"]
