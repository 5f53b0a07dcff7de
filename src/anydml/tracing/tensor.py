"""Traced tensors: what a function gets for PyTorch's tensors while it is traced. They have PyTorch's methods."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from anydml.tracing.ndarray import TracedNdarray
from anydml.tracing.refusing import broken
from anydml.tracing.trace import TracedArray


class TracedTensor(TracedNdarray):
    """A traced array whose methods are those of `torch.Tensor`."""

    __slots__ = ()

    @property
    def dtype(self) -> Any:
        """PyTorch's."""
        import torch

        return getattr(torch, self.element.name, None)

    @property
    def device(self) -> Any:
        """Where the function's arguments lie."""
        return self.trace.device

    @property
    def H(self) -> Any:  # noqa: N802  # as PyTorch calls it
        """The dimensions of a matrix exchanged, of real elements."""
        if self.ndim not in (0, 2):
            raise broken(f".H of {self!r}: only matrices have it: .mH is for batches of them")
        return self._torch("adjoint") if self.ndim else self._torch("conj")

    @property
    def mH(self) -> Any:  # noqa: N802  # as PyTorch calls it
        """The last two dimensions exchanged, of real elements."""
        return self._torch("adjoint")

    @property
    def real(self) -> Any:
        """The same, of real elements."""
        return self._torch("real")

    def size(self, dim: int | None = None) -> Any:
        """As PyTorch's."""
        return self.shape if dim is None else self.shape[dim]

    def dim(self) -> int:
        """Dimensions."""
        return self.ndim

    def numel(self) -> int:
        """Elements."""
        return self.count

    def element_size(self) -> int:
        """Bytes of an element."""
        return self.itemsize

    def reshape(self, *shape: Any, **named: Any) -> Any:
        """As PyTorch's."""
        return self._torch("reshape", *shape, **named)

    def transpose(self, *axes: Any, **named: Any) -> Any:
        """As PyTorch's, and by a list of all dimensions as NumPy's."""
        return self._torch("permute" if len(axes) > 2 else "transpose", *axes, **named)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Any:  # type: ignore[override]
        """As PyTorch's."""
        return self._torch("flatten", start_dim, end_dim)

    def _torch(self, name: str, *arguments: Any, **named: Any) -> Any:
        from anydml.tracing.torch_words import called

        return called(self.trace, name, (self, *arguments), named)

    @property
    def T(self) -> Any:  # noqa: N802  # as PyTorch calls it
        """All dimensions reversed."""
        return self._torch("permute", *range(self.ndim)[::-1])

    @property
    def mT(self) -> Any:  # noqa: N802  # as PyTorch calls it
        """The last two dimensions exchanged."""
        return self._torch("transpose", -1, -2)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, arguments: Sequence[Any] = (), named: Any = None) -> Any:
        from anydml.tracing.torch_words import called, name_of, trace_of

        return called(trace_of((arguments, named)), name_of(function), arguments, named or {})

    def __getattr__(self, name: str) -> Any:
        import torch

        from anydml.tracing.torch_words import TORCH

        is_method = name in TORCH and hasattr(torch.Tensor, name)
        return partial(self._torch, name) if is_method else TracedArray.__getattr__(self, name)

    def __repr__(self) -> str:
        return f"a traced {self.element} tensor of shape {self.shape}"
