"""The functions on what is traced, or lazy.

While PyTorch compiles, exports or records them they are calls of its registered operators; while `fuse`
traces them they are part of its program; on Dask's arrays they are tasks that run later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.arrays import ONE_PLACE
from anydml.errors import BindingError
from anydml.text import a, counted

_REGISTERED: dict[str, Callable[[], Any]] = {}
"""What `registered_by` was given."""


def registered_by(**loads: Callable[[], Any]) -> None:
    """Have calls on tensors that PyTorch compiles, and on Dask's arrays, made by the functions of what these give.

    Those stand above this package, which does not import them.
    """
    _REGISTERED.update(loads)


def is_lazy(x: Any) -> bool:
    """Whether an array is Dask's."""
    return type(x).__module__.startswith("dask.array")


def lazy_functions() -> Any:
    """`anydml.dask`: the functions on Dask's arrays."""
    return _REGISTERED["dask"]()


def registered_for(x: Any) -> Any:
    """What has the functions for x: `anydml.dask` for its arrays; `anydml.torch`, if PyTorch compiles or records it.

    Args:
        x: a function's first array.

    Returns:
        None for all that is no traced array.
    """
    if (functions := fused_functions(x)) is not None:
        return functions
    # Not by sys.modules: a compiler that sees it looks at every module, while other threads import more.
    if not hasattr(type(x), "__torch_function__"):
        return lazy_functions() if is_lazy(x) else None
    import torch

    if not isinstance(x, torch.Tensor):
        return None
    if not torch.compiler.is_compiling():
        from anydml.arrays.pytorch import has_modes, is_recorded

        return _REGISTERED["torch"]() if is_recorded() or has_modes() else None
    return _REGISTERED["torch"]()


def fused_functions(*arrays: Any) -> Any:
    """The functions on what `fuse` traces, if one of these arrays is; else None."""
    for array in arrays:
        if type(array) is not np.ndarray and hasattr(type(array), "anydml_functions"):
            return array.anydml_functions
    return None


def copied(name: str, field: str, result: Any, out: Any) -> Any:
    """A result, or `out`, which the result is copied to: it is made before, so that it may overlap what was read.

    Args:
        name: what errors call the function.
        field: what they call `out`.
        result: a tensor.
        out: the tensor to write to, or None.

    Raises:
        BindingError: `out` is no tensor of the result's device, shape and dtype.
    """
    if out is None:
        return result
    if (functions := fused_functions(result)) is not None:
        functions.check_out(name, out)
    if is_lazy(result):
        lazy_functions().check_out(name, out)
    import torch

    if not isinstance(out, torch.Tensor):
        raise BindingError(f"{name}: {field} is {a(type(out).__name__)}", name, field, "out must be an array")
    if out.device != result.device:
        places = f"{field} is a PyTorch tensor on {out.device}, but x is a PyTorch tensor on {result.device}"
        raise BindingError(f"{name}: {places}: convert or move one of them", name, field, ONE_PLACE)
    if out.shape != result.shape or out.dtype != result.dtype:
        shapes = f"{out.dtype} {tuple(out.shape)}, but the result is {result.dtype} {tuple(result.shape)}"
        raise BindingError(f"{name}: {field} is {shapes}", name, field, "out must have the result's shape and dtype")
    return out.copy_(result)


def all_copied(name: str, results: Sequence[Any], out: Any) -> list[Any]:
    """The parts of a split, or `out`'s tensors, which they are copied to.

    Raises:
        BindingError: there are more or fewer than parts, or one does not fit.
    """
    if out is None:
        return list(results)
    if (functions := fused_functions(*results)) is not None:
        functions.check_out(name, out)
    if results and is_lazy(results[0]):
        lazy_functions().check_out(name, out)
    if len(out) != len(results):
        message = f"{name}: out has {counted(len(out), 'array')} for {counted(len(results), 'part')}"
        raise BindingError(message, name, "out", "one array a part")
    return [copied(name, f"out[{i}]", *pair) for i, pair in enumerate(zip(results, out, strict=True))]
