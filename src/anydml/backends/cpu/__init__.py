"""The CPU engine."""

from __future__ import annotations

from anydml.backends.cpu.engine import CpuBackend

__all__ = ["CpuBackend"]
