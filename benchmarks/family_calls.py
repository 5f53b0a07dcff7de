"""What cases of the family's benchmark are made of: arrays, and how everybody does the same work."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Node(NamedTuple):
    """An ONNX node: its type, constants that follow the arrays as inputs, attributes, and which arrays it takes."""

    kind: str
    constants: Sequence[Any] = ()
    attributes: Mapping[str, Any] = {}
    order: Sequence[int] | None = None
    outputs: int = 1


@dataclass
class Calls:
    """One case at one size.

    Attributes:
        arrays: what everybody is given.
        ours: makes new results of them.
        numpy: likewise; its results are the right ones.
        torch: likewise, of tensors over the same memory; None where PyTorch has nothing like it.
        onnx: the node; None where ONNX Runtime has none.
    """

    arrays: list[Array]
    ours: Callable[..., Any]
    numpy: Callable[..., Any]
    torch: Callable[..., Any] | None = None
    onnx: Node | None = field(default=None)


def floats(*shape: int) -> Array:
    """Random numbers."""
    return np.random.default_rng(1).random(shape, np.float32)


def integers(high: int, *shape: int) -> Array:
    """Random ones from 0 to `high` − 1."""
    return np.random.default_rng(2).integers(0, high, shape)


def rows_of(size: int, columns: int) -> int:
    """Rows of FLOAT32 that take `size` bytes."""
    return max(1, size // (4 * columns))


def torch_module() -> Any:
    """PyTorch, which need not be installed."""
    import torch

    return torch
