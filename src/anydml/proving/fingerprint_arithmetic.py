"""Arithmetic of fingerprints: 64 bits per element, made of its operator and of the fingerprints of its inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

Marks = np.ndarray[Any, np.dtype[np.uint64]]

_MASK = 2**64 - 1
_ODD = np.uint64(0x9E3779B97F4A7C15)


class NoFingerprintError(Exception):
    """A model has no fingerprints, because it has too many elements or unknown shapes."""


def seed_of(text: str) -> int:
    """Return a 64-bit hash of a string."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def spread(marks: Marks) -> Marks:
    """Make each bit depend on all bits (splitmix64)."""
    marks = marks ^ (marks >> np.uint64(30))
    marks *= np.uint64(0xBF58476D1CE4E5B9)
    marks ^= marks >> np.uint64(27)
    marks *= np.uint64(0x94D049BB133111EB)
    marks ^= marks >> np.uint64(31)
    return marks


def mix(seed: int, *marks: Marks) -> Marks:
    """Combine fingerprints in order, after broadcasting."""
    mixture: Marks = np.array(seed & _MASK, np.uint64)
    for mark in marks:
        mixture = spread(mixture * _ODD + mark)
    return mixture


def of_negative(marks: Marks) -> Marks:
    """Return the fingerprints of negatives."""
    return ~marks + np.uint64(1)


def of_product(seed: int, first: Marks, second: Marks) -> Marks:
    """Return the fingerprints of products, which do not depend on the order of the factors."""
    is_negative = (first > of_negative(first)) ^ (second > of_negative(second))
    sizes = np.broadcast_arrays(np.minimum(first, of_negative(first)), np.minimum(second, of_negative(second)))
    numbers = mix(seed, np.minimum(*sizes), np.maximum(*sizes)) >> np.uint64(1)
    return np.where(is_negative, of_negative(numbers), numbers)


def of_place(seed: int, sizes: Sequence[int]) -> Marks:
    """Make fingerprints depend on the places of their elements."""
    count = int(np.prod(sizes, dtype=np.int64))
    return spread(spread(np.arange(count, dtype=np.uint64) * _ODD + np.uint64(seed & _MASK))).reshape(sizes)


def of_array(array: Any) -> Marks:
    """Return the fingerprints of constants: hashes of their bytes and dtype."""
    if array.dtype.hasobject:
        raise NoFingerprintError("strings")
    flat = np.ascontiguousarray(array).reshape(-1)
    is_float = flat.dtype.kind == "f"
    wide = np.zeros((flat.size, -(-flat.itemsize // 8) * 8), np.uint8)
    wide[:, : flat.itemsize] = (np.abs(flat) if is_float else flat).view(np.uint8).reshape(flat.size, flat.itemsize)
    numbers = mix(seed_of(f"constant {array.dtype}"), *wide.view(np.uint64).T) >> np.uint64(1)
    if is_float:
        numbers = np.where(np.signbit(flat), of_negative(numbers), numbers)
    return numbers.reshape(array.shape)
