"""The CPU engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from anydml.engines.protocol import Array, ArrayEngine, Engine, only_name


def open_engine(device: str) -> Engine:
    """The engine of ``"cpu"``."""
    from anydml.engines.cpu.engine import CpuEngine

    only_name("cpu", device)
    return CpuEngine()


def array_engine(name: str, arrays: Sequence[Array]) -> ArrayEngine:
    """The engine behind functions on arrays in host memory."""
    return _arrays()


@cache
def _arrays() -> ArrayEngine:
    from anydml.engines.cpu.arrays import HostArrays

    return HostArrays()


__all__ = ["array_engine", "open_engine"]
