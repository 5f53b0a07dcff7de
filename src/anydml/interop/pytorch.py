"""PyTorch's tensors. Read only once there is one, so that importing torch here imports nothing new."""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any

import numpy as np
import torch

from anydml.backends.device_array import device_array
from anydml.interop.guest import Array, Guest

_WORDS: dict[int, tuple[Any, np.dtype[Any]]] = {
    1: (torch.uint8, np.dtype("u1")),
    2: (torch.int16, np.dtype("i2")),
    4: (torch.int32, np.dtype("i4")),
}
"""What stands for elements that NumPy lacks, by their bytes."""


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
            BindingError: it has no memory (sparse, quantized, meta, fake, traced), or records gradients.
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

    def give(self, result: Array) -> Any:
        """A tensor over the same memory."""
        if not result.size:
            # NumPy's strides of nothing are 0, PyTorch's are not.
            return torch.empty(result.shape, dtype=self.array.dtype, device="cpu")
        word = _word(self.array.dtype)
        if word is None:
            return torch.from_numpy(result)
        return torch.from_numpy(result.view(word[1])).view(self.array.dtype)

    def give_lengths(self, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """A tensor in host memory."""
        return torch.from_numpy(lengths)

    def upload(self, indices: Array) -> Any:
        """A tensor on this one's device."""
        return torch.from_numpy(indices).to(self.array.device)

    def _view(self, name: str, field: str, is_target: bool) -> Array:
        # What NumPy lacks is asked for by other names, and PyTorch's own refusals do not see that.
        if _word(self.array.dtype) is None:
            with contextlib.suppress(TypeError, RuntimeError):
                return _memory(self.array)
        tensor = self._plain(name, field, is_target)
        if tensor.device.type == "cuda":
            return device_array(tensor)
        try:
            return _memory(tensor)
        except (TypeError, RuntimeError, NotImplementedError) as error:
            reason = f"without memory ({str(error).splitlines()[0]})"
            return self.refuse(name, field, reason, "inside torch.func and torch.compile use torch.ops.anydml")

    def _plain(self, name: str, field: str, is_target: bool) -> Any:
        """The tensor without its record of gradients and without lazy signs."""
        tensor = self.array
        if tensor.is_nested:
            self.refuse(name, field, "that is nested", "pass its parts, or to_padded_tensor()")
        if tensor.layout is not torch.strided:
            self.refuse(name, field, f"of layout {tensor.layout}", f"pass {field}.to_dense()")
        if tensor.is_quantized:
            self.refuse(name, field, "that is quantized", f"pass {field}.int_repr() or {field}.dequantize()")
        if tensor.device.type not in ("cpu", "cuda"):
            self.refuse(name, field, f"on {tensor.device}", "arrays are moved on cpu and cuda")
        if tensor.requires_grad and torch.is_grad_enabled():
            hint = f"import anydml.torch for torch.ops.anydml, which record gradients, or pass {field}.detach()"
            self.refuse(name, field, "that requires grad", hint)
        if is_target and (tensor.is_conj() or tensor.is_neg()):
            self.refuse(name, field, "that is a lazy conjugate or negative", "out is a tensor of its own memory")
        return tensor.detach().resolve_conj().resolve_neg()


def _memory(tensor: Any) -> Array:
    """A tensor's memory, if it is plain memory of the host's; PyTorch refuses all other."""
    word = _word(tensor.dtype)
    memory: Array = tensor.numpy() if word is None else tensor.view(word[0]).numpy().view(_numpy_dtype(tensor.dtype))
    return memory


@cache
def _word(dtype: Any) -> tuple[Any, np.dtype[Any]] | None:
    """What stands for elements of a dtype that NumPy lacks; None where it has it."""
    try:
        is_known = np.dtype(str(dtype).removeprefix("torch.")).isbuiltin == 1
    except TypeError:
        is_known = False
    return None if is_known else _WORDS[dtype.itemsize]


@cache
def _numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """ml_dtypes' dtype of the same name and size, or plain bytes."""
    import ml_dtypes

    name = str(dtype).removeprefix("torch.")
    known = getattr(ml_dtypes, name, None)
    found = np.dtype((np.void, dtype.itemsize)) if known is None else np.dtype(known)
    return found if found.itemsize == dtype.itemsize else np.dtype((np.void, dtype.itemsize))
