"""One case: an operator, where its operands lie, and who shall run it how. Its repr is Python that makes it again."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

Sizes = tuple[int, ...]

DATA_TYPES = {
    "u1": "UINT8", "i1": "INT8", "u2": "UINT16", "i2": "INT16", "f2": "FLOAT16", "u4": "UINT32", "i4": "INT32",
    "f4": "FLOAT32", "u8": "UINT64", "i8": "INT64", "f8": "FLOAT64",
}  # fmt: skip
"""NumPy's names of the types that tensors have."""


FLAT = ("uint8", "typed", "exact", "bytearray", "memoryview")
"""Flat buffers: arrays of bytes, of the tensor's type, of the tensor's type and size, and buffers of Python's."""


@dataclass(frozen=True)
class Memory:
    """A tensor in a block of bytes.

    Attributes:
        sizes: the tensor's.
        dtype: NumPy's name of its type.
        strides: one byte stride per dimension, of either sign.
        offset: where the first element lies in the block.
        size: bytes of the block.
        flat: how it is bound as a flat buffer, which the desc's strides read (one of FLAT), or "" for an array.
        desc: the strides that the desc of an array has, in elements; None for none. The array's own are what counts.
    """

    sizes: Sizes
    dtype: str
    strides: Sizes
    offset: int
    size: int
    flat: str = ""
    desc: Sizes | None = None


@dataclass(frozen=True)
class How:
    """Who runs a case: an engine, by which kernels (of an instruction set, or of the best), with how many threads."""

    engine: str = "cpu"
    kernels: str = ""
    streamed: bool = False
    threads: int = 1


@dataclass(frozen=True)
class Case:
    """An operator on operands.

    Attributes:
        operator: name of the function; the desc is the one of that name.
        interface: ``"device"`` binds a desc, ``"model"`` runs a model file with resources, ``"function"`` calls the
            function with `out`, ``"new"`` without.
        inputs: where they lie; of `gather`, the indices are the second.
        outputs: likewise.
        arguments: the operator's own, as the function has them.
        seed: of the operands' contents.
    """

    operator: str
    interface: str
    inputs: tuple[Memory, ...]
    outputs: tuple[Memory, ...]
    arguments: dict[str, Any] = field(default_factory=dict)
    how: How = How()
    seed: int = 0

    @property
    def bytes(self) -> int:
        """Bytes that the outputs hold."""
        import numpy as np

        return sum(math.prod(output.sizes) * np.dtype(output.dtype).itemsize for output in self.outputs)
