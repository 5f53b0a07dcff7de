"""Traced tensors, which stand for PyTorch tensors while a function is traced, with PyTorch's methods."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from anydml.tracing.constants import trace_of
from anydml.tracing.ndarray import TracedNdarray
from anydml.tracing.structure import leaves
from anydml.tracing.trace import TracedArray


class TracedTensor(TracedNdarray):
    """A traced array whose methods are those of `torch.Tensor`."""

    __slots__ = ()
    LEAST_RANK = 1

    @property
    def dtype(self) -> Any:
        """The PyTorch dtype."""
        import torch

        return getattr(torch, self.element.name, None)

    @property
    def device(self) -> Any:
        """The device of the function's arguments."""
        return self.trace.device

    @property
    def H(self) -> Any:  # noqa: N802  # as PyTorch calls it
        """The conjugate transpose of a real matrix."""
        return self._torch("H")

    @property
    def mH(self) -> Any:  # noqa: N802  # as PyTorch calls it
        """The conjugate transpose of real matrices."""
        return self._torch("adjoint")

    @property
    def real(self) -> Any:
        """The tensor itself, whose elements must be real."""
        return self._torch("real")

    def size(self, dim: int | None = None) -> Any:
        """Like PyTorch's method."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """The number of dimensions."""
        return self.ndim

    def numel(self) -> int:
        """The number of elements."""
        return self.count

    def element_size(self) -> int:
        """Bytes per element."""
        return self.itemsize

    def reshape(self, *shape: Any, **named: Any) -> Any:
        """Like PyTorch's method."""
        return self._torch("reshape", *shape, **named)

    def transpose(self, *axes: Any, **named: Any) -> Any:
        """Like PyTorch's method; a list of all dimensions is accepted as by NumPy's."""
        return self._torch("permute" if len(axes) > 2 else "transpose", *axes, **named)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Any:  # type: ignore[override]
        """Like PyTorch's method."""
        return self._torch("flatten", start_dim, end_dim)

    def _torch(self, name: str, *arguments: Any, **named: Any) -> Any:
        from anydml.tracing.torch_words import called

        return called(self.trace, name, (self, *arguments), named)

    @property
    def T(self) -> Any:  # noqa: N802  # as PyTorch calls it
        """The tensor with its dimensions reversed."""
        return self._torch("permute", *range(self.ndim)[::-1])

    @property
    def mT(self) -> Any:  # noqa: N802  # as PyTorch calls it
        """The tensor with its last two dimensions swapped."""
        return self._torch("transpose", -1, -2)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Sequence[Any] = (), named: Any = None) -> Any:
        from anydml.tracing.torch_words import called, name_of

        return called(trace_of(leaves((arguments, named))), name_of(function), arguments, named or {})

    def __getattr__(self, name: str) -> Any:
        import torch

        from anydml.tracing.torch_words import TORCH

        is_method = name in TORCH and hasattr(torch.Tensor, name)
        return partial(self._torch, name) if is_method else TracedArray.__getattr__(self, name)

    def __repr__(self) -> str:
        return f"a traced {self.element} tensor of shape {self.shape}"
