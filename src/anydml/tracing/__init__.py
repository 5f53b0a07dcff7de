"""`fuse`: tracing of Python functions into programs of moves."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anydml.tracing.fused import Fused, fuse
else:

    def __getattr__(name: str) -> Any:
        """Import `fuse` on first use: graphs of ONNX need only traced arrays."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from anydml.tracing import fused

        return getattr(fused, name)


__all__ = ["Fused", "fuse"]
