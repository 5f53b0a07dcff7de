"""The CPU engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from anydml.engines.cpu.compiler import between_forks
from anydml.engines.protocol import Array, ArrayEngine, Engine, only_name


def open_engine(device: str) -> Engine:
    """The engine of ``"cpu"``."""
    only_name("cpu", device)
    return _loaded()[0]()


def array_engine(name: str, arrays: Sequence[Array]) -> ArrayEngine:
    """The engine behind functions on arrays in host memory."""
    return _loaded()[1]


@cache
def _loaded() -> tuple[Callable[[], Engine], ArrayEngine]:
    return between_forks(_load)


def _load() -> tuple[Callable[[], Engine], ArrayEngine]:
    from anydml.engines.cpu.arrays import HostArrays
    from anydml.engines.cpu.engine import CpuEngine

    return CpuEngine, HostArrays()


__all__ = ["array_engine", "open_engine"]
