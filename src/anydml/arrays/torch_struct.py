"""Where PyTorch keeps what a tensor is: looked for in tensors whose answers are known, and its functions of C."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from anydml.memory import tensor_struct as at
from anydml.memory.dlpack_struct import dtype_word
from anydml.memory.host import HUGE, ask_for_huge_pages
from anydml.memory.numpy_struct import HEADER, IS_KNOWN

_FUNCTIONS = {
    at.ADDRESS: "aoti_torch_get_data_ptr",
    at.IS_RECORDING: "aoti_torch_grad_mode_is_enabled",
    at.RECORDS: "_ZNK3c1010TensorImpl13requires_gradEv",
    at.CHANGED: "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE",
    at.MODES: "_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv",
    at.MORE_MODES: "_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv",
    at.IS_UNDER: "_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE",
}
"""Names in PyTorch's libraries: those that are not C's are as most C++ compilers write them."""

_FAR = 24
"""Words of an object that are looked at, at most."""


def structure(dtypes: dict[Any, np.dtype[Any]]) -> at.Structure | None:
    """How this PyTorch's tensors lie; None where that cannot be found out.

    Args:
        dtypes: NumPy's, of those that have no lazy sign.
    """
    make = getattr(getattr(getattr(torch._C, "_dynamo", None), "guards", None), "_empty_strided_cpu", None)
    if make is None or not IS_KNOWN:
        return None
    try:
        library = ctypes.CDLL(torch._C.__file__)
        words = {word: _address(getattr(library, name)) for word, name in _FUNCTIONS.items()}
        keys = torch._C.DispatchKey
        words[at.TRANSFORM] = keys.FuncTorchDynamicLayerFrontMode.value
        words |= {at.TRACER: torch._C._parse_dispatch_key("Tracer").value, at.FUNCTIONAL: keys.Functionalize.value}
        numbers = {dtype: word for dtype, each in dtypes.items() if (word := dtype_word(each)) is not None}
        words |= _located(numbers)
        probes = _probes(numbers)
    except (AttributeError, OSError, RuntimeError, TypeError, ValueError):
        # Another version has other names, or lies otherwise.
        return None
    table = np.zeros(at.WORDS, np.uint64)
    for word, value in words.items():
        table[word] = value
    return at.Structure(table, probes, partial(_maker, make))


def _located(numbers: dict[Any, int]) -> dict[int, int]:
    """The words that are found by looking.

    Raises:
        ValueError: something is nowhere.
    """
    shapes = [(3, 5, 7), (11, 2), (13,), (4, 6, 2, 9, 3)]
    whole = [torch.empty(math.prod(shape) + k, device="cpu") for k, shape in enumerate(shapes, 1)]
    views = [each[k:].view(shape) for k, (each, shape) in enumerate(zip(whole, shapes, strict=True), 1)]
    with torch.inference_mode():
        inferring = torch.empty(1, device="cpu")
    objects = [each._cdata for each in views]
    keys = [torch._C._dispatch_keys(each).raw_repr() for each in (views[0], inferring)]
    handle = _place([*map(id, views)], objects)
    storages = [each.untyped_storage() for each in views]
    rank, sizes = _place(objects, [len(shape) for shape in shapes]), _place(objects, [shape[0] for shape in shapes])
    like = {dtype: [torch.empty(1, dtype=dtype, device="cpu") for _ in range(2)] for dtype in numbers}
    place, kinds = _numbered(like)
    found = {
        at.HANDLE: handle,
        at.CLASS: _word(objects[0]),
        at.PLAIN: keys[0],
        at.INFERRING: keys[1],
        at.KEYS: _place([*objects, inferring._cdata], [*[keys[0]] * len(objects), keys[1]]),
        at.RANK: rank,
        at.SIZES: sizes,
        at.START: _place(objects, [each.storage_offset() for each in views]),
        at.NUMBER: place,
        at.STORAGE: _place(objects, [each._cdata for each in storages]),
        at.HELD: _place([each._cdata for each in storages], [each.nbytes() for each in storages]),
    }
    return found | {at.FIRST_DTYPE + kinds[dtype]: word for dtype, word in numbers.items()}


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _place(objects: Sequence[int], values: Sequence[int]) -> int:
    """The first offset, after their headers, at which objects have these values."""
    for offset in range(HEADER - 8, 8 * _FAR, 8):
        if all(_word(each + offset) == value for each, value in zip(objects, values, strict=True)):
            return offset
    raise ValueError("there is no such word")


def _numbered(like: dict[Any, list[Any]]) -> tuple[int, dict[Any, int]]:
    """The offset of the dtypes' numbers, and these."""
    for offset in range(HEADER - 8, 8 * _FAR, 2):
        found = {
            dtype: {ctypes.c_uint16.from_address(each._cdata + offset).value for each in tensors}
            for dtype, tensors in like.items()
        }
        numbers = {dtype: values.pop() for dtype, values in found.items() if len(values) == 1}
        if len(numbers) == len(like) == len({*numbers.values()}) and max(numbers.values()) < at.DTYPES:
            return offset, numbers
    raise ValueError("there are no such numbers")


def _probes(numbers: dict[Any, int]) -> list[at.Probe]:
    """Tensors that are as most are, and such as must be refused."""
    x = torch.empty(2, 3, 4, device="cpu")
    plain = [torch.empty((2,) * rank, device="cpu") for rank in range(9)]
    plain += [torch.empty(3, 2, dtype=dtype, device="cpu") for dtype in numbers]
    plain += [
        x,
        x.permute(2, 0, 1),
        x[1:, ::2],
        x[1:].expand(5, 3, 4),
        x.detach(),
        x.flatten()[5:],
        torch.empty(0, 2, device="cpu")[:, :1],
    ]
    with torch.inference_mode():
        plain.append(torch.empty(2, device="cpu"))
    recording = torch.empty(3, device="cpu", requires_grad=True)
    short = torch.empty(8, device="cpu")[1:]
    short.untyped_storage().resize_(28)
    refused = [recording, recording * 2, recording[1:], short, torch._neg_view(x), torch.empty(3, device="meta")]
    refused += [
        torch.empty(2, 2, layout=torch.sparse_coo, device="cpu"),
        torch.empty(2, dtype=torch.complex64, device="cpu"),
    ]
    seen = [at.Probe(each, _seen(each, numbers) if each.numel() else None) for each in plain]
    return [*seen, *[at.Probe(each, None) for each in refused]]


def _seen(tensor: Any, numbers: dict[Any, int]) -> tuple[int, int, tuple[int, ...], tuple[int, ...]]:
    return tensor.data_ptr(), numbers[tensor.dtype] | tensor.ndim, tuple(tensor.shape), tensor.stride()


def _maker(make: Callable[..., Any], shape: tuple[int, ...], like: Any) -> Callable[[], Any]:
    strides = [math.prod(map(partial(max, 1), shape[axis + 1 :])) for axis in range(len(shape))]
    made = partial(make, shape, tuple(strides), like.dtype)
    size = like.itemsize * math.prod(shape)
    return made if size < HUGE else partial(huge, made, size)


def huge(make: Callable[[], Any], size: int) -> Any:
    """A new tensor of so many bytes, in huge pages where there are such."""
    tensor = make()
    ask_for_huge_pages(tensor.data_ptr(), size)
    return tensor
