"""The NumPy engine: it compiles nothing.

Reading order: `engine`, `views` (one assignment or one `take` per move), `general` (lookups of any kind).
"""

from __future__ import annotations

from anydml.engines.protocol import Engine, only_name


def open_engine(device: str) -> Engine:
    """Return the engine of ``"numpy"``."""
    from anydml.engines.numpy.engine import NumpyEngine

    only_name("numpy", device)
    return NumpyEngine()


__all__ = ["open_engine"]
