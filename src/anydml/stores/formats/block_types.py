"""Types that NumPy does not have: blocks of elements along the last axis are moved unchanged.

The elements of an array of such a type are blocks, and its last axis has the blocks of a row of elements. If rows
are not whole blocks, but the tensor is, the whole tensor is one element, without axes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from anydml.files.location import Location

BLOCKS: Mapping[str, tuple[int, int]] = {
    "F4": (2, 1), "F6_E2M3": (4, 3), "F6_E3M2": (4, 3),
    "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24), "Q8_0": (32, 34), "Q8_1": (32, 40),
    "Q2_K": (256, 84), "Q3_K": (256, 110), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210),
    "Q8_K": (256, 292), "IQ2_XXS": (256, 66), "IQ2_XS": (256, 74), "IQ3_XXS": (256, 98), "IQ1_S": (256, 50),
    "IQ4_NL": (32, 18), "IQ3_S": (256, 110), "IQ2_S": (256, 82), "IQ4_XS": (256, 136), "IQ1_M": (256, 56),
    "TQ1_0": (256, 54), "TQ2_0": (256, 66), "MXFP4": (32, 17), "NVFP4": (64, 36), "Q1_0": (128, 18),
    "complex32": (1, 4),
}  # fmt: skip
"""The number of elements and bytes of a block, by the names of types in safetensors, GGUF and PyTorch."""

_HAVE = {
    "F4": "a .safetensors file has it, or a checkpoint by dcp",
    "F6_E2M3": "a .safetensors file has it", "F6_E3M2": "a .safetensors file has it",
    "complex32": "a checkpoint by dcp has it", "complex128": "a .npz file has it, or a checkpoint by dcp",
    "complex64": "a .safetensors or .npz file has it", "bool": "a .safetensors or .npz file has it",
}  # fmt: skip
"""The formats with types that GGUF does not have."""

DTYPES_OF_BLOCKS: Mapping[str, np.dtype[Any]] = {
    name: np.dtype([(name, f"V{size}")]) for name, (_, size) in BLOCKS.items()
}
"""Dtypes whose only field has the name of the type."""


TEXT_NAME = "string of any length"
"""The only field of the dtype whose elements are numbers of texts."""


def elements_of(dtype: np.dtype[Any]) -> int:
    """Return the number of elements in one item of a dtype: 1 unless the items are blocks."""
    if not dtype.names or not is_of_blocks(dtype):
        return 1
    return BLOCKS[dtype.names[0]][0] if (inner_shape := _whole_of(dtype)) is None else math.prod(inner_shape)


def _whole_of(dtype: np.dtype[Any]) -> tuple[int, ...] | None:
    """Return the shape of a tensor that is a single item of a dtype; None if items are blocks of rows."""
    title = dtype.fields[dtype.names[0]][2:] if dtype.fields and dtype.names else ()
    return tuple(map(int, title[0].split())) if title else None


def is_of_blocks(dtype: np.dtype[Any]) -> bool:
    """Whether the items of a dtype are blocks."""
    return dtype.names is not None and len(dtype.names) == 1 and dtype.names[0] in BLOCKS


def name_of(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype, or of the type of its blocks."""
    is_named = is_of_blocks(dtype) or dtype.names == (TEXT_NAME,)
    return dtype.names[0] if dtype.names and is_named else str(dtype)


def not_of_format(dtype: np.dtype[Any], name: str, format_types: Iterable[str]) -> str:
    """Return the message that a format does not support a dtype, and which formats do.

    Args:
        dtype: the unsupported dtype.
        name: the name of the format.
        format_types: names of dtypes that it has.
    """
    dtype_name = name_of(dtype)
    if is_of_blocks(dtype) and (inner_shape := _whole_of(dtype)) is not None:
        rows = f"is {dtype_name} of shape {[*inner_shape]}, whose rows are not whole blocks"
        return f"{rows}: only a .safetensors file has it"
    origin = _HAVE.get(
        dtype_name, "a .gguf file has it" if dtype_name in BLOCKS else f"it has {', '.join(format_types)}"
    )
    return f"is {dtype_name}, which {name} does not support: {origin}; drop leaves it out"


def shape_in_blocks(name: str, shape: tuple[int, ...], location: Location) -> tuple[int, ...]:
    """Convert a shape in elements to a shape in blocks.

    Raises:
        ModelError: rows are not whole blocks.
    """
    count = BLOCKS[name][0]
    if count == 1:
        return shape
    if not shape or shape[-1] % count:
        raise location.error(
            f"has shape {[*shape]} of {name}, whose rows are not whole blocks of {count} elements: they are not moved"
        )
    return (*shape[:-1], shape[-1] // count)


def blocks_of(name: str, shape: tuple[int, ...], location: Location) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return the shape and dtype of a tensor in blocks; if its rows are not whole blocks, the tensor is one item.

    Raises:
        ModelError: the tensor is not whole blocks, either.
    """
    count, size = BLOCKS[name]
    total = math.prod(shape)
    if not shape or not shape[-1] % count or not total or total % count:
        return shape_in_blocks(name, shape, location), DTYPES_OF_BLOCKS[name]
    # The title of the field keeps tensors of different shapes apart.
    return (), np.dtype([((" ".join(map(str, shape)), name), f"V{total // count * size}")])


def shape_in_elements(shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, ...]:
    """Convert a shape in items of a dtype to a shape in elements."""
    if is_of_blocks(dtype) and (inner_shape := _whole_of(dtype)) is not None:
        return (*shape, *inner_shape)
    count = elements_of(dtype)
    return (*shape[:-1], shape[-1] * count) if count > 1 else shape
