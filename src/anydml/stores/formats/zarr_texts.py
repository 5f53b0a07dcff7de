"""Texts of any length in Zarr arrays: plans move a number for each, by which this process knows it."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from anydml.stores.formats.store import Array

TEXT = np.dtype([("text of any length", "<u8")])
"""The dtype of elements that are numbers of texts."""

CODEC = "vlen-utf8"
"""The codec that makes bytes of texts."""

_KNOWN: dict[int, str] = {0: ""}


def is_text(dtype: np.dtype[Any]) -> bool:
    """Whether elements are numbers of texts."""
    return dtype == TEXT


def numbers_of(texts: Array) -> Array:
    """The numbers of texts, each of which this process knows from now on.

    They come of the texts themselves, so that other processes have the same.

    Raises:
        ValueError: two texts have the same number.
    """
    known: dict[str, int] = {}
    flat = [known.get(text) or known.setdefault(text, _number(text)) for text in map(str, texts.reshape(-1).tolist())]
    return np.array(flat, np.uint64).astype("<u8").view(TEXT).reshape(texts.shape)


def texts_of(numbers: Array) -> Array:
    """The texts of numbers."""
    flat = np.ascontiguousarray(numbers).reshape(-1).view("<u8").tolist()
    return np.array([_KNOWN[number] for number in flat], np.dtypes.StringDType()).reshape(numbers.shape)


def stored(elements: Any, dtype: np.dtype[Any]) -> Array:
    """Elements as zarr-python reads them from an array of a dtype, texts of any length as their numbers."""
    return numbers_of(np.asarray(elements, dtype)) if dtype.kind == "T" else np.asarray(elements)


def _number(text: str) -> int:
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") if text else 0
    if _KNOWN.setdefault(number, text) != text:
        raise ValueError(f"the texts {text[:40]!r} and {_KNOWN[number][:40]!r} cannot be told apart")
    return number
