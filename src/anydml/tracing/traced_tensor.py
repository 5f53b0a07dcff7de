"""Traced tensors, which stand for PyTorch tensors while a function is traced, with PyTorch's methods."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from anydml.tracing.class_queries import asks_for_class
from anydml.tracing.constants import trace_of
from anydml.tracing.structure import leaves
from anydml.tracing.trace import TracedArray
from anydml.tracing.traced_ndarray import TracedNdarray


class TracedTensor(TracedNdarray):
    """A traced array whose methods are those of `torch.Tensor`."""

    __slots__ = ()
    MIN_RANK = 1
    INDEXES_LIKE_TORCH = True

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """PyTorch's class, so that checks by `isinstance` and `match` pass, in helpers and libraries, too."""
        return self.library_class() if asks_for_class(sys._getframe(1)) else TracedTensor

    @property
    def dtype(self) -> Any:
        """The PyTorch dtype."""
        import torch

        return getattr(torch, self.element.name, None)

    @property
    def device(self) -> Any:
        """The device of the function's arguments."""
        return self.trace.device

    def __copy__(self) -> Any:
        return self.detach()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.clone()

    def size(self, dim: int | None = None) -> Any:
        """Like PyTorch's method."""
        return self.shape if dim is None else self.shape[dim]

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Sequence[Any] = (), named: Any = None) -> Any:
        from anydml.tracing.torch_table import call_torch, name_of

        return call_torch(trace_of(leaves((arguments, named))), name_of(function), arguments, named or {})

    def __getattr__(self, name: str) -> Any:
        import torch

        from anydml.tracing.library_functions import attribute
        from anydml.tracing.torch_table import TORCH

        is_method = name in TORCH and hasattr(torch.Tensor, name)
        return attribute(TORCH, name, f"torch's {name}", self) if is_method else TracedArray.__getattr__(self, name)

    @staticmethod
    def library_class() -> type:
        """PyTorch's class of tensors."""
        import torch

        return torch.Tensor  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"a traced {self.element} tensor of shape {self.shape}"
