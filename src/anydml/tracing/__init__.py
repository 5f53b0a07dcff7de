"""Chains of moves as one: functions whose every call is one program."""

from anydml.tracing.fused import Fused, fuse

__all__ = ["Fused", "fuse"]
