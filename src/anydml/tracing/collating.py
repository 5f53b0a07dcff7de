"""PyTorch's `default_collate` of traced arrays: it finds its functions by the class of the first item of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import torch
from torch.utils.data._utils.collate import default_collate_fn_map

from anydml.tracing.refusing import fuse_error
from anydml.tracing.traced_ndarray import TracedNdarray
from anydml.tracing.traced_tensor import TracedTensor


def _stack(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Stack tensors."""
    return torch.stack([*batch])


def _refuse(batch: Sequence[Any], *, collate_fn_map: Any = None) -> NoReturn:
    """Refuse NumPy's arrays, of which default_collate makes tensors."""
    raise fuse_error("default_collate of NumPy arrays: pass tensors, such as torch.from_numpy of each array")


default_collate_fn_map.update({TracedTensor: _stack, TracedNdarray: _refuse})
