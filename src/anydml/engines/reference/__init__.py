"""The reference engine: documents' formulas, and moves by definition, element by element, in plain Python."""

from __future__ import annotations

from anydml.engines.protocol import Engine, only_name


def open_engine(device: str) -> Engine:
    """Return the engine of ``"reference"``."""
    from anydml.engines.reference.engine import ReferenceEngine

    only_name("reference", device)
    return ReferenceEngine()


__all__ = ["open_engine"]
