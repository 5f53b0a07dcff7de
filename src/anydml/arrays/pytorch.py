"""PyTorch's tensors. Read only once there is one, so that importing torch here imports nothing new.

Tensors are read by their address: a NumPy array of PyTorch's making would bar a tensor's storage from being resized
ever again. Results are tensors of PyTorch's making for the same reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad
from torch.compiler import is_compiling, is_dynamo_compiling

from anydml.arrays.adapter import Array, ArrayAdapter, Sizes
from anydml.arrays.quick import RECORDS, TRACED
from anydml.core import tensors
from anydml.memory.device_array import device_array
from anydml.memory.host import array_at, owner_of
from anydml.memory.results import ask_for_huge_pages

MOVED = ("cpu", "cuda")
"""Devices whose memory the engines read and write."""

_HINT = "inside torch.func and torch.compile use torch.ops.anydml"


class TorchAdapter(ArrayAdapter):
    """A strided tensor in host memory or on a GPU."""

    __slots__ = ()
    LIBRARY = "a PyTorch tensor"

    @property
    def device(self) -> Any:
        """PyTorch's own."""
        return self.array.device

    def view(self, name: str, field: str, is_target: bool = False) -> Array:
        """The tensor's memory. A lazy conjugate or negative is made real, which copies.

        Raises:
            BindingError: it has no memory (sparse, quantized, meta, fake, traced, freed), it records gradients or has
                a tangent, or calls are recorded.
        """
        tensor = self.array
        if is_recorded() or (has_modes() and _get_mode(_PROXIES) is not None):
            recorder = "torch.jit.trace" if is_recorded() else "make_fx"
            self.refuse(name, field, f"while {recorder} records", "what it records are calls of torch.ops.anydml")
        tensor = self._plain(name, field, is_target)
        dtype = _numpy_dtype(tensor.dtype)
        try:
            held, address = tensor.untyped_storage().nbytes(), tensor.data_ptr()
        except (RuntimeError, NotImplementedError) as error:
            return self.refuse(name, field, f"without memory ({str(error).splitlines()[0]})", _HINT)
        if tensor.numel() and not (held and address):
            reason = "without memory (at address 0)" if held else "whose storage was freed"
            self.refuse(name, field, reason, f"untyped_storage().resize_(…) gives it memory, or {_HINT}")
        if tensor.is_cuda:
            return device_array(tensor)
        strides = None
        if not tensor.is_contiguous():
            strides = tuple([stride * dtype.itemsize for stride in tensor.stride()])
        return array_at(address, tensor, tuple(tensor.shape), dtype, strides)

    def target(self, name: str, field: str) -> Array:
        """The tensor's memory, to be written.

        Raises:
            BindingError: as `view`, or the tensor is a lazy conjugate or negative.
        """
        return self.view(name, field, is_target=True)

    def written(self) -> None:
        """Tell autograd, as PyTorch's own writes do."""
        _written((self.array,))

    def empty(self, name: str, shape: Sizes, dtype: np.dtype[Any]) -> Array:
        """The memory of a new tensor in host memory.

        Raises:
            BindingError: new tensors have none now: they are fake, or a transform's.
        """
        array = self.array
        kind = array.dtype if dtype == _numpy_dtype(array.dtype) else getattr(torch, dtype.name)
        if type(array) is torch.Tensor and shape and kind is array.dtype:
            tensor = array.new_empty(*shape)
        else:
            tensor = torch.empty(shape, dtype=kind, device="cpu")
        try:
            # Asked of a fake tensor, PyTorch would warn.
            address = tensor.data_ptr() if type(tensor) is torch.Tensor else None
        except RuntimeError:
            address = None
        if address is None:
            self.refuse(name, "x", "under a mode or transform whose new tensors have no memory", _HINT)
        result = array_at(address, tensor, shape, dtype)
        ask_for_huge_pages(address, result.nbytes)
        return result

    def give(self, result: Array) -> Any:
        """The tensor whose memory `empty` gave."""
        return owner_of(result)

    def holds(self, dtype: np.dtype[Any]) -> bool:
        """In host memory, those that PyTorch has."""
        return self.array.is_cpu and isinstance(getattr(torch, dtype.name, None), torch.dtype)

    def give_lengths(self, lengths: np.ndarray[Any, np.dtype[np.int64]]) -> Any:
        """A tensor in host memory."""
        return torch.from_numpy(lengths).clone()

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

    def _plain(self, name: str, field: str, is_target: bool) -> Any:
        """The tensor without lazy signs."""
        self.check_kind(name, field)
        tensor, kind = self.array, type(self.array)
        if tensor.requires_grad and torch.is_grad_enabled():
            hint = f"import anydml.torch for torch.ops.anydml, which record gradients, or pass {field}.detach()"
            self.refuse(name, field, "that requires grad", hint)
        if is_dual(tensor):
            primal = f"torch.autograd.forward_ad.unpack_dual({field}).primal"
            hint = f"import anydml.torch for torch.ops.anydml, which carry tangents, or pass {primal}"
            self.refuse(name, field, "that has a tangent", hint)
        if kind is not torch.Tensor and kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
            # Fake, traced, distributed, or a wrapper of others.
            self.refuse(name, field, f"without memory ({kind.__name__})", _HINT)
        if tensor.requires_grad:
            tensor = tensor.detach()
        if not (tensor.is_conj() or tensor.is_neg()):
            return tensor
        if is_target:
            self.refuse(name, field, "that is a lazy conjugate or negative", "out is a tensor of its own memory")
        return tensor.resolve_conj().resolve_neg()


def is_dual(tensor: Any) -> bool:
    """Whether forward mode gave a tensor a tangent that is carried now."""
    if forward_ad._current_level < 0 or not torch._C._is_fwd_grad_enabled():
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None


def is_traced() -> bool:
    """Whether calls are recorded now, or tensors may have tangents: compiled code sees neither."""
    return bool(is_compiling() or forward_ad._current_level >= 0 or _count_modes())


def has_modes() -> bool:
    """Whether there are dispatch modes, which see calls of PyTorch's operators: recorders, counters, fake tensors."""
    return bool(_count_modes()) and not _is_excluded(_PYTHON)


def is_recorded() -> bool:
    """Whether `torch.jit.trace` records the calls of now: those that it makes itself it does not."""
    # The compiler does not see through what follows.
    return not torch.compiler.is_compiling() and bool(_is_included(_TRACER)) and not _is_excluded(_TRACER)


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


def _written(tensors: Iterable[Any]) -> None:
    torch.autograd.graph.increment_version([tensor for tensor in tensors if not tensor.is_inference()])


def _packed() -> dict[int, np.dtype[Any]]:
    """NumPy's dtypes by DLPack's numbers of those without lazy conjugates and without a scale."""
    codes = {"i": 0, "u": 1, "f": 2, "b": 6}
    found = {codes[dtype.kind] << 8 | 8 * dtype.itemsize: dtype for dtype in map(np.dtype, "?BHIQbhiqefd")}
    return found | {4 << 8 | 16: _numpy_dtype(torch.bfloat16)}


_TRACER, _PYTHON = map(torch._C._parse_dispatch_key, ("Tracer", "Python"))
_count_modes, _get_mode = torch._C._len_torch_dispatch_stack, torch._C._get_dispatch_mode
_PROXIES = torch._C._TorchDispatchModeKey.PROXY
_is_included, _is_excluded = (
    torch._C._dispatch_tls_is_dispatch_key_included,
    torch._C._dispatch_tls_is_dispatch_key_excluded,
)
_QUESTIONS = torch._C._is_tracing, _count_modes
_STATES = (vars(forward_ad), "_current_level", -1), (vars(torch.compiler), "_is_compiling_flag", False)
_PLAIN = torch.Tensor, torch.nn.Parameter

# torch.compile sees through nothing that is compiled; what else there is, that asks itself, in less time.
TRACED.update(dict.fromkeys(_PLAIN, is_dynamo_compiling))
RECORDS.append(is_traced)
if tensors is not None:
    tensors.know(_PLAIN, _QUESTIONS, _STATES, _written, _packed())
