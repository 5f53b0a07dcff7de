"""Dispatch of calls on traced and lazy arrays.

While PyTorch compiles, exports or records, a call becomes one of its registered operators; while `fuse` traces, it
becomes part of the program; on a Dask array, it becomes tasks that run later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.arrays import ONE_PLACE
from anydml.errors import BindingError
from anydml.functions.argument_conversion import check_count, check_out_list
from anydml.hooks import HOOKS
from anydml.text import a


def is_lazy(x: Any) -> bool:
    """Whether an array is a Dask array."""
    return type(x).__module__.startswith("dask.array")


def lazy_functions() -> Any:
    """Return `anydml.dask`, which has the functions on Dask arrays."""
    return HOOKS["dask"]()


def dispatch_package(x: Any) -> Any:
    """Return `anydml.dask` for a Dask array, `anydml.torch` for a tensor while PyTorch compiles or records, or None."""
    # `sys.modules` is not used: PyTorch's compiler would visit every module, while other threads import more.
    if not hasattr(type(x), "__torch_function__"):
        return lazy_functions() if is_lazy(x) else None
    import torch

    if not isinstance(x, torch.Tensor):
        return None
    if not torch.compiler.is_compiling():
        from anydml.arrays.pytorch import has_modes, is_recorded

        return HOOKS["torch"]() if is_recorded() or has_modes() else None
    return HOOKS["torch"]()


def fused_functions(*arrays: Any) -> Any:
    """Return the functions on traced arrays if any of some arrays is traced, else None."""
    for array in arrays:
        if type(array) is not np.ndarray and hasattr(type(array), "anydml_functions"):
            return array.anydml_functions
    return None


def copy_result(name: str, field: str, result: Any, out: Any) -> Any:
    """Copy a result to `out`. The result exists already, so `out` may overlap the inputs.

    Args:
        name: the function's name, for errors.
        field: the name of `out`, for errors.
        result: a tensor.
        out: the tensor to write to.

    Raises:
        BindingError: `out` is not a tensor with the result's device, shape and dtype.
    """
    import torch

    if not isinstance(out, torch.Tensor):
        raise BindingError(f"{name}: {field} is {a(type(out).__name__)}", name, field, "out must be an array in memory")
    if out.device != result.device:
        places = f"{field} is a PyTorch tensor on {out.device}, but x is a PyTorch tensor on {result.device}"
        raise BindingError(f"{name}: {places}: convert or move one of them", name, field, ONE_PLACE)
    if out.shape != result.shape or out.dtype != result.dtype:
        shapes = f"{out.dtype} {tuple(out.shape)}, but the result is {result.dtype} {tuple(result.shape)}"
        raise BindingError(f"{name}: {field} is {shapes}", name, field, "out must have the result's shape and dtype")
    return out.copy_(result)


def copy_results(name: str, results: Sequence[Any], out: Any) -> list[Any]:
    """Copy the parts of a split to the tensors of `out`.

    Raises:
        BindingError: `out` is not a list of one tensor per part, or one does not fit.
    """
    check_out_list(name, out)
    check_count(name, len(out), len(results))
    return [copy_result(name, f"out[{i}]", *pair) for i, pair in enumerate(zip(results, out, strict=True))]
