"""The adapter of PyTorch tensors. Imported when there is one, so the import of torch costs nothing.

Tensors are read by their address: after a conversion by PyTorch, a tensor's storage could never be resized again. For
the same reason, results are allocated by PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling

from anydml.arrays.adapter import Array, ArrayAdapter, Sizes
from anydml.core import tensors
from anydml.memory.device_array import device_array, memory_of, numpy_dtype
from anydml.memory.host import array_at, owner_of

MOVABLE_DEVICES = ("cpu", "cuda")
"""Devices whose memory the engines read and write."""

_HINT = "inside torch.func and torch.compile use the functions of anydml.torch"


class TorchAdapter(ArrayAdapter):
    """A strided tensor in host memory or on a GPU."""

    __slots__ = ()
    LIBRARY = "a PyTorch tensor"

    @property
    def device(self) -> Any:
        """The tensor's device."""
        return self.array.device

    def view(self, name: str, field: str, is_target: bool = False) -> Array:
        """Return a view of the tensor's memory. A lazy conjugate or negative is resolved, which copies.

        Raises:
            BindingError: the tensor has no memory (sparse, quantized, meta, fake, traced, freed), requires gradients or
                has a tangent, or calls are recorded.
        """
        tensor = self.array
        if is_recorded() or (has_modes() and _get_mode(_PROXIES) is not None):
            recorder = "torch.jit.trace" if is_recorded() else "make_fx"
            self.refuse(name, field, f"while {recorder} records", "it records calls of torch.ops.anydml only")
        self.check_kind(name, field)
        tensor_class = type(tensor)
        if tensor.requires_grad and torch.is_grad_enabled():
            hint = f"use the functions of anydml.torch, which record gradients, or pass {field}.detach()"
            self.refuse(name, field, "that requires grad", hint)
        if is_dual(tensor):
            primal = f"torch.autograd.forward_ad.unpack_dual({field}).primal"
            hint = f"use the functions of anydml.torch, which carry tangents, or pass {primal}"
            self.refuse(name, field, "that has a tangent", hint)
        if tensor_class is not torch.Tensor and tensor_class.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            # The tensor is fake, traced, distributed, masked, or a wrapper of other tensors.
            hint = f"pass {field}.to_local(), or {field}.full_tensor()" if hasattr(tensor, "full_tensor") else _HINT
            if hasattr(tensor, "get_mask"):
                hint = f"pass {field}.get_data(), and {field}.get_mask() in a separate call"
            self.refuse(name, field, f"without memory ({tensor_class.__name__})", hint)
        if tensor.requires_grad:
            tensor = tensor.detach()
        if tensor.is_conj() or tensor.is_neg():
            if is_target:
                hint = "out must be a tensor with its own memory"
                self.refuse(name, field, "that is a lazy conjugate or negative", hint)
            tensor = tensor.resolve_conj().resolve_neg()
        try:
            storage_bytes, address = tensor.untyped_storage().nbytes(), tensor.data_ptr()
        except (RuntimeError, NotImplementedError) as error:
            return self.refuse(name, field, f"without memory ({str(error).splitlines()[0]})", _HINT)
        if tensor.numel() and not (storage_bytes and address):
            reason = "without memory (at address 0)" if storage_bytes else "whose storage was freed"
            self.refuse(name, field, reason, f"untyped_storage().resize_(…) gives it memory, or {_HINT}")
        return device_array(tensor) if tensor.is_cuda else array_at(*memory_of(tensor))

    def target(self, name: str, field: str) -> Array:
        """Return a view of the tensor's memory for writing.

        Raises:
            BindingError: as `view`, or the tensor is a lazy conjugate or negative.
        """
        return self.view(name, field, is_target=True)

    def mark_written(self) -> None:
        """Increment the tensor's version, as PyTorch's own writes do, so that autograd notices."""
        torch.autograd.graph.increment_version(self.array)

    def empty(self, name: str, shape: Sizes, dtype: np.dtype[Any]) -> Array:
        """Allocate a tensor in host memory, and return its memory.

        Raises:
            BindingError: new tensors have no memory under the current mode or transform.
        """
        array = self.array
        torch_dtype = array.dtype if dtype == numpy_dtype(array.dtype) else getattr(torch, dtype.name)
        make = array.new_empty if type(array) is torch.Tensor else torch.empty
        tensor = make(shape, dtype=torch_dtype, device="cpu")
        try:
            # PyTorch would warn about the address of a fake tensor.
            address = tensor.data_ptr() if type(tensor) is torch.Tensor else None
        except RuntimeError:
            address = None
        if address is None:
            self.refuse(name, "x", "under a mode or transform whose new tensors have no memory", _HINT)
        return array_at(address, tensor, shape, dtype)

    def to_library(self, result: Any) -> Any:
        """Return the tensor whose memory `empty` returned."""
        return owner_of(result) if isinstance(result, np.ndarray) else result

    def supports(self, dtype: np.dtype[Any]) -> bool:
        """Whether PyTorch has the dtype, and the tensor is in host memory."""
        return self.array.is_cpu and isinstance(getattr(torch, dtype.name, None), torch.dtype)

    def from_lengths(self, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """Return a tensor in host memory."""
        return _from_lengths(lengths)

    def check_kind(self, name: str, field: str, devices: tuple[str, ...] = MOVABLE_DEVICES) -> None:
        """Check that the tensor is strided, and that its device is of one of some types.

        Raises:
            BindingError: the tensor is nested, sparse, quantized, or on another device.
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


def is_dual(tensor: Any) -> bool:
    """Whether a tensor has a tangent in the current level of forward-mode differentiation.

    The kernels of operators see none: autograd, which calls them, moves the tangents by calls of their own.
    """
    if forward_ad._current_level < 0 or not torch._C._is_fwd_grad_enabled() or _is_excluded(_AUTOGRAD):
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None


def has_modes() -> bool:
    """Whether dispatch modes intercept PyTorch's operators now: recorders, counters, fake tensors."""
    return bool(_count_modes()) and not _is_excluded(_PYTHON)


def is_recorded() -> bool:
    """Whether `torch.jit.trace` records calls now; it does not record those that it makes itself."""
    # The compiler cannot trace the calls that follow.
    return not torch.compiler.is_compiling() and bool(_is_included(_TRACER)) and not _is_excluded(_TRACER)


def _from_lengths(lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
    return torch.from_numpy(lengths).clone()


def _dtypes_by_code() -> dict[int, Callable[[], np.dtype[Any]]]:
    """Return functions that return NumPy's dtypes by DLPack's codes, for dtypes without a scale."""
    codes = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
    dtypes = {
        codes[dtype.kind] << 8 | 8 * dtype.itemsize: partial(np.dtype, dtype)
        for dtype in map(np.dtype, "?BHIQbhiqefdFD")
    }
    # Imports ml_dtypes, which takes milliseconds.
    return dtypes | {4 << 8 | 16: partial(numpy_dtype, torch.bfloat16)}


_TRACER, _PYTHON, _AUTOGRAD = map(torch._C._parse_dispatch_key, ("Tracer", "Python", "AutogradOther"))
_count_modes, _get_mode = torch._C._len_torch_dispatch_stack, torch._C._get_dispatch_mode
_PROXIES = torch._C._TorchDispatchModeKey.PROXY
_is_included, _is_excluded = (
    torch._C._dispatch_tls_is_dispatch_key_included,
    torch._C._dispatch_tls_is_dispatch_key_excluded,
)


@cache
def register() -> dict[type, Callable[[], bool]]:
    """Let compiled code read tensors; return their types, and functions that tell whether calls are traced."""
    kinds = torch.Tensor, torch.nn.Parameter
    if tensors is not None:
        checks = torch._C._is_tracing, _count_modes
        flags = (vars(forward_ad), "_current_level", -1), (vars(torch.compiler), "_is_compiling_flag", False)
        on_write = torch.autograd.graph.increment_version
        tensors.register(kinds, checks, flags, on_write, _dtypes_by_code(), _from_lengths)
    # torch.compile cannot trace compiled code, which makes all other checks itself, in less time.
    return dict.fromkeys(kinds, is_dynamo_compiling)
