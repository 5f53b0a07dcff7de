"""Variable-length strings in Zarr arrays: plans move an id of each, which this process maps back to the string."""

from __future__ import annotations

import hashlib
import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from anydml.stores.formats.block_types import TEXT_NAME
from anydml.stores.formats.store import Array
from anydml.text import bytes_text

STRING_NUMBER = np.dtype([(TEXT_NAME, "<u8")])
"""The dtype of elements that are numbers of strings."""

CODEC = "vlen-utf8"
"""The codec that makes bytes of strings."""

BYTES_PER_STRING = 160
"""Bytes that a string takes in a dictionary by its number, besides its own."""

BYTES_AN_ELEMENT = 128
"""Bytes that libraries take for an element of a chunk that they decode or encode, besides its string."""

COPIES = 6
"""Number of copies that libraries make of the strings of a chunk."""

AT_ONCE = 1 << 14
"""Elements whose strings are Python objects at the same time."""


class _StringNumbers:
    """The strings that this process has met, by number.

    Attributes:
        fill_value_strings: the strings of fill values, by number, which are never dropped.
        strings_by_run: strings read by runs, by number, grouped by the run that was the latest at that time. A
            group is dropped once that run and all earlier ones have ended.
        size: bytes of all strings in `strings_by_run`.
        limits: bytes that each run may use for strings, as long as it may need some.
        under_way: the runs that have not ended.
        lock: held while a chunk of strings is decoded or encoded, so that only one chunk takes memory at a time.
    """

    def __init__(self) -> None:
        self.fill_value_strings, self.strings_by_run = {0: ""}, {0: dict[int, str]()}
        self.size, self.limits, self.under_way, self.lock = 0, dict[int, float](), list[int](), threading.RLock()

    def begin(self, max_bytes: float) -> int:
        """Return the number of a new run."""
        run = max(self.strings_by_run) + 1
        self.limits[run], self.strings_by_run[run] = max_bytes, {}
        self.under_way.append(run)
        return run

    def end(self, run: int) -> None:
        """End a run, and remove the strings that no other run uses."""
        self.under_way.remove(run)
        for earlier in [*self.strings_by_run]:
            if earlier and not (self.under_way and self.under_way[0] <= earlier):
                self.limits.pop(earlier)
                self.size -= sum(map(_bytes_of, self.strings_by_run.pop(earlier).values()))
        if not self.under_way:
            self.strings_by_run[0].clear()
            self.size = 0

    def string(self, string_number: int) -> str:
        """Return the string of a number."""
        return self._group_with(string_number)[string_number]

    def _group_with(self, string_number: int) -> dict[int, str]:
        """Return the group that has a number; the strings of fill values if no run has it."""
        groups = (group for group in self.strings_by_run.values() if string_number in group)
        return next(groups, self.fill_value_strings)

    def number(self, string: str, is_fill_value: bool) -> int:
        """Return the number of a string, which is known from now on."""
        digest = hashlib.blake2b(string.encode(), digest_size=8).digest()
        string_number = int.from_bytes(digest, "little") if string else 0
        group = self._group_with(string_number)
        cached = group.get(string_number)
        if cached is not None and cached != string:
            raise ValueError(f"the strings {string[:40]!r} and {cached[:40]!r} cannot be told apart")
        if is_fill_value:
            self.fill_value_strings[string_number] = string
        elif cached is None:
            size = self.size + _bytes_of(string)
            if self.limits and size > sum(self.limits.values()) / 2:
                count = sum(map(len, self.strings_by_run.values())) + 1
                raise self.too_long(size, f"the {count} different strings that were met")
            self.size = size
            self.strings_by_run[max(self.strings_by_run)][string_number] = string
        elif group is not self.fill_value_strings:
            self.strings_by_run[max(self.strings_by_run)][string_number] = group.pop(string_number)
        return string_number

    @property
    def chunk_bytes(self) -> float:
        """Bytes of memory that one chunk of strings may need."""
        return min(map(self.limits.__getitem__, self.under_way), default=math.inf) / 2

    def too_long(self, size: int, noun: str) -> ValueError:
        limit = bytes_text(int(self.chunk_bytes))
        times = math.ceil(10 * size / max(1, self.chunk_bytes)) / 10
        need = f"{noun} need {bytes_text(size)} of memory, of which they may have {limit}"
        return ValueError(f"{need}: give at least {times} times as much")


def _bytes_of(string: str) -> int:
    """Return the memory that a string takes in the table of known strings, in bytes."""
    return sys.getsizeof(string) + BYTES_PER_STRING


_KNOWN_STRINGS = _StringNumbers()


def holds_strings(dtype: np.dtype[Any]) -> bool:
    """Whether elements are numbers of strings."""
    return dtype == STRING_NUMBER


@contextmanager
def strings_within(max_bytes: float) -> Iterator[None]:
    """Give a run memory for strings: half for the table of known strings, half for the strings of one chunk."""
    with _KNOWN_STRINGS.lock:
        run = _KNOWN_STRINGS.begin(max_bytes)
    try:
        yield
    finally:
        with _KNOWN_STRINGS.lock:
            _KNOWN_STRINGS.end(run)


@contextmanager
def reserve_chunk(count: int) -> Iterator[int | None]:
    """Hold the lock while one chunk of strings is decoded or encoded, after checking that its elements fit in memory.

    Args:
        count: elements of the chunk.

    Yields:
        Bytes that its strings may have, so that codecs make no more; None where there is no limit.

    Raises:
        ValueError: so many elements need more memory than there is for strings.
    """
    with _KNOWN_STRINGS.lock:
        free = _KNOWN_STRINGS.chunk_bytes - count * BYTES_AN_ELEMENT
        if free < 0:
            raise _KNOWN_STRINGS.too_long(count * BYTES_AN_ELEMENT, f"a chunk of {count} strings")
        yield None if math.isinf(free) else int(free / COPIES)


def numbers_of(strings: Array, is_fill_value: bool = False) -> Array:
    """Return the numbers of strings, and remember the strings.

    Numbers are hashes of the strings, so all processes compute the same ones.

    Args:
        strings: strings.
        is_fill_value: whether they stay known after the runs under way.

    Raises:
        ValueError: two strings have the same number, or strings need more memory than `strings_within` allows.
    """
    flat = strings.reshape(-1)
    numbers = np.empty(flat.size, "<u8")
    with _KNOWN_STRINGS.lock:
        for start in range(0, flat.size, AT_ONCE):
            numbers_by_string: dict[str, int] = {}
            chunk = map(str, flat[start : start + AT_ONCE].tolist())
            numbers[start : start + AT_ONCE] = [
                numbers_by_string[string]
                if string in numbers_by_string
                else numbers_by_string.setdefault(string, _KNOWN_STRINGS.number(string, is_fill_value))
                for string in chunk
            ]
    return numbers.view(STRING_NUMBER).reshape(strings.shape)


def strings_of(numbers: Array) -> Array:
    """Return the strings of numbers.

    Raises:
        ValueError: together they need more memory than `strings_within` allows.
    """
    flat = np.ascontiguousarray(numbers).reshape(-1).view("<u8")
    with _KNOWN_STRINGS.lock:
        strings = np.empty(flat.size, np.dtypes.StringDType())
        remaining = _KNOWN_STRINGS.chunk_bytes
        for start in range(0, flat.size, AT_ONCE):
            chunk = [*map(_KNOWN_STRINGS.string, flat[start : start + AT_ONCE].tolist())]
            remaining -= COPIES * sum(map(len, chunk)) + BYTES_AN_ELEMENT * len(chunk)
            if remaining < 0:
                raise _KNOWN_STRINGS.too_long(
                    int(_KNOWN_STRINGS.chunk_bytes - remaining), "the strings of a chunk, or some of them,"
                )
            strings[start : start + AT_ONCE] = chunk
    return strings.reshape(numbers.shape)


def stored(elements: Any, dtype: np.dtype[Any]) -> Array:
    """Return elements in the form in which anydml moves them: strings of any length as numbers, others unchanged."""
    return numbers_of(np.asarray(elements, dtype)) if dtype.kind == "T" else np.asarray(elements)
