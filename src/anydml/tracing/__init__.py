"""`fuse`: tracing of Python functions into programs of moves."""

from anydml.tracing.fused import Fused, fuse

__all__ = ["Fused", "fuse"]
