"""PyTorch's tensors. Read only once there is one, so that importing torch here imports nothing new.

Tensors are read by their address: a NumPy array of PyTorch's making would bar a tensor's storage from being resized
ever again. Results are tensors of PyTorch's making for the same reason.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import torch

from anydml.backends.device_array import device_array
from anydml.backends.memory import array_at, ask_for_huge_pages, owner_of
from anydml.interop.guest import Array, Guest, Sizes

MOVED = ("cpu", "cuda")
"""Devices whose memory the engines read and write."""

_HINT = "inside torch.func and torch.compile use torch.ops.anydml"


class TorchGuest(Guest):
    """A strided tensor in host memory or on a GPU."""

    __slots__ = ()
    LIBRARY = "a PyTorch tensor"

    @property
    def device(self) -> Any:
        """PyTorch's own."""
        return self.array.device

    def view(self, name: str, field: str) -> Array:
        """The tensor's memory. A lazy conjugate or negative is made real, which copies.

        Raises:
            BindingError: it has no memory (sparse, quantized, meta, fake, traced, freed), or records gradients.
        """
        return self._view(name, field, is_target=False)

    def target(self, name: str, field: str) -> Array:
        """The tensor's memory, to be written.

        Raises:
            BindingError: as `view`, or the tensor is a lazy conjugate or negative.
        """
        return self._view(name, field, is_target=True)

    def written(self) -> None:
        """Tell autograd, as PyTorch's own writes do."""
        if not self.array.is_inference():
            torch.autograd.graph.increment_version(self.array)

    def empty(self, name: str, shape: Sizes, dtype: np.dtype[Any]) -> Array:
        """The memory of a new tensor in host memory."""
        array = self.array
        if type(array) is torch.Tensor and shape:
            tensor = array.new_empty(*shape)
        else:
            tensor = torch.empty(shape, dtype=array.dtype, device="cpu")
        address = tensor.data_ptr()
        result = array_at(address, tensor, shape, dtype)
        ask_for_huge_pages(address, result.nbytes)
        return result

    def give(self, result: Array) -> Any:
        """The tensor whose memory `empty` gave."""
        return owner_of(result)

    def give_lengths(self, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """A tensor in host memory."""
        return torch.tensor(lengths.tolist(), dtype=torch.int64, device="cpu")

    def upload(self, indices: Array) -> Any:
        """A tensor on this one's device."""
        return torch.from_numpy(indices).to(self.array.device)

    def check_kind(self, name: str, field: str, devices: tuple[str, ...] = MOVED) -> None:
        """Refuse tensors whose elements do not lie in strides, or not on a device of these types.

        Raises:
            BindingError: it is nested, sparse, quantized, or elsewhere.
        """
        tensor = self.array
        if tensor.is_nested:
            self.refuse(name, field, "that is nested", "pass its parts, or to_padded_tensor()")
        if tensor.layout is not torch.strided:
            self.refuse(name, field, f"of layout {tensor.layout}", f"pass {field}.to_dense()")
        if tensor.is_quantized:
            self.refuse(name, field, "that is quantized", f"pass {field}.int_repr() or {field}.dequantize()")
        if not ((tensor.is_cpu and "cpu" in devices) or tensor.device.type in devices):
            self.refuse(name, field, f"on {tensor.device}", "arrays are moved on cpu and cuda")

    def _view(self, name: str, field: str, is_target: bool) -> Array:
        self.check_kind(name, field)
        tensor = self.array
        if tensor.requires_grad and torch.is_grad_enabled():
            hint = f"import anydml.torch for torch.ops.anydml, which record gradients, or pass {field}.detach()"
            self.refuse(name, field, "that requires grad", hint)
        if tensor.is_neg() or tensor.is_conj():
            if is_target:
                self.refuse(name, field, "that is a lazy conjugate or negative", "out is a tensor of its own memory")
            tensor = tensor.detach().resolve_conj().resolve_neg()
        kind = type(tensor)
        if kind is not torch.Tensor and kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            # Fake, traced, distributed, or a wrapper of others.
            self.refuse(name, field, f"without memory ({kind.__name__})", _HINT)
        try:
            held, address = tensor.untyped_storage().nbytes(), tensor.data_ptr()
        except (RuntimeError, NotImplementedError) as error:
            return self.refuse(name, field, f"without memory ({str(error).splitlines()[0]})", _HINT)
        shape, strides = tuple(tensor.shape), None if tensor.is_contiguous() else tensor.stride()
        if 0 not in shape:
            self._check_storage(name, field, held, tensor.storage_offset() + _reach(shape, strides))
            if not address:
                self.refuse(name, field, "without memory (its address is 0)", _HINT)
        if tensor.is_cuda:
            return device_array(tensor)
        dtype = _numpy_dtype(tensor.dtype)
        steps = None if strides is None else tuple([stride * dtype.itemsize for stride in strides])
        return array_at(address, tensor, shape, dtype, steps)

    def _check_storage(self, name: str, field: str, held: int, count: int) -> None:
        """A storage of `held` bytes has `count` elements: it may have been freed, or shrunk, under its tensor."""
        needed = count * self.array.dtype.itemsize
        if needed > held:
            reason = f"whose storage holds {held} of {needed} bytes"
            self.refuse(name, field, reason, f"give it memory again, by {field}.untyped_storage().resize_({needed})")


def _reach(shape: Sizes, strides: Any) -> int:
    """How many elements a tensor spans, the first and last included; it has some."""
    if strides is None:
        return math.prod(shape)
    steps: list[int] = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return 1 + sum(steps)


@cache
def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype of the same name, or ml_dtypes' of the same name and size, or plain bytes."""
    name = str(dtype).removeprefix("torch.")
    try:
        known: np.dtype[Any] = np.dtype(name)
        if known.isbuiltin == 1:
            return known
    except TypeError:
        pass
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name, np.void))
    return found if found.itemsize == dtype.itemsize else np.dtype((np.void, dtype.itemsize))
