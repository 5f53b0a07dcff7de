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

TEXT = np.dtype([(TEXT_NAME, "<u8")])
"""The dtype of elements that are numbers of texts."""

CODEC = "vlen-utf8"
"""The codec that makes bytes of texts."""

BYTES_A_TEXT = 160
"""Bytes that a text takes in a dictionary by its number, besides its own."""

BYTES_AN_ELEMENT = 128
"""Bytes that libraries take for an element of a chunk that they decode or encode, besides its string."""

COPIES = 6
"""Number of copies that libraries make of the strings of a chunk."""

AT_ONCE = 1 << 14
"""Elements whose texts are Python objects at the same time."""


class _TextNumbers:
    """The strings that this process has met, by number.

    Attributes:
        fill_value_texts: the strings of fill values, by number; stores need them as long as they live.
        texts_by_run: strings read by runs, by number, grouped by the run that was the latest when they were read. A
            group is dropped once that run and all earlier ones have ended.
        size: bytes of all texts in `texts_by_run`.
        limits: bytes that each run may use for texts, as long as it may need some.
        under_way: the runs that have not ended.
        lock: held while a chunk of strings is decoded or encoded, so that only one chunk takes memory at a time.
    """

    def __init__(self) -> None:
        self.fill_value_texts, self.texts_by_run = {0: ""}, {0: dict[int, str]()}
        self.size, self.limits, self.under_way, self.lock = 0, dict[int, float](), list[int](), threading.RLock()

    def begin(self, max_bytes: float) -> int:
        """Return the number of a new run."""
        run = max(self.texts_by_run) + 1
        self.limits[run], self.texts_by_run[run] = max_bytes, {}
        self.under_way.append(run)
        return run

    def end(self, run: int) -> None:
        """End a run, and remove the strings that no other run uses."""
        self.under_way.remove(run)
        for earlier in [*self.texts_by_run]:
            if earlier and not (self.under_way and self.under_way[0] <= earlier):
                self.limits.pop(earlier)
                self.size -= sum(map(_bytes_of, self.texts_by_run.pop(earlier).values()))
        if not self.under_way:
            self.texts_by_run[0].clear()
            self.size = 0

    def text(self, text_number: int) -> str:
        """Return the text of a number."""
        texts = next((texts for texts in self.texts_by_run.values() if text_number in texts), self.fill_value_texts)
        return texts[text_number]

    def number(self, text: str, is_fill_value: bool) -> int:
        """Return the number of a text, which is known from now on."""
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        text_number = int.from_bytes(digest, "little") if text else 0
        texts = next((texts for texts in self.texts_by_run.values() if text_number in texts), self.fill_value_texts)
        cached = texts.get(text_number)
        if cached is not None and cached != text:
            raise ValueError(f"the strings {text[:40]!r} and {cached[:40]!r} cannot be told apart")
        if is_fill_value:
            self.fill_value_texts[text_number] = text
        elif cached is None:
            size = self.size + _bytes_of(text)
            if self.limits and size > sum(self.limits.values()) / 2:
                count = sum(map(len, self.texts_by_run.values())) + 1
                raise self.too_long(size, f"the {count} different strings that were met")
            self.size = size
            self.texts_by_run[max(self.texts_by_run)][text_number] = text
        elif texts is not self.fill_value_texts:
            self.texts_by_run[max(self.texts_by_run)][text_number] = texts.pop(text_number)
        return text_number

    @property
    def chunk_bytes(self) -> float:
        """Bytes of memory that one chunk of strings may need."""
        return min(map(self.limits.__getitem__, self.under_way), default=math.inf) / 2

    def too_long(self, size: int, noun: str) -> ValueError:
        limit = bytes_text(int(self.chunk_bytes))
        times = math.ceil(10 * size / max(1, self.chunk_bytes)) / 10
        need = f"{noun} need {bytes_text(size)} of memory, of which they may have {limit}"
        return ValueError(f"{need}: give at least {times} times as much")


def _bytes_of(text: str) -> int:
    """Return the memory that a string takes in the table of known strings, in bytes."""
    return sys.getsizeof(text) + BYTES_A_TEXT


_NUMBERS = _TextNumbers()


def is_text(dtype: np.dtype[Any]) -> bool:
    """Whether elements are numbers of texts."""
    return dtype == TEXT


@contextmanager
def texts_within(max_bytes: float) -> Iterator[None]:
    """Give a run memory for strings: half for the table of known strings, half for the strings of one chunk."""
    with _NUMBERS.lock:
        run = _NUMBERS.begin(max_bytes)
    try:
        yield
    finally:
        with _NUMBERS.lock:
            _NUMBERS.end(run)


@contextmanager
def reserve_chunk(count: int) -> Iterator[int | None]:
    """Hold the lock while one chunk of strings is decoded or encoded, after checking that its elements fit in memory.

    Args:
        count: elements of the chunk.

    Yields:
        Bytes that its texts may have, so that codecs make no more; None where there is no limit.

    Raises:
        ValueError: so many elements need more memory than there is for texts.
    """
    with _NUMBERS.lock:
        free = _NUMBERS.chunk_bytes - count * BYTES_AN_ELEMENT
        if free < 0:
            raise _NUMBERS.too_long(count * BYTES_AN_ELEMENT, f"a chunk of {count} texts")
        yield None if math.isinf(free) else int(free / COPIES)


def numbers_of(texts: Array, is_fill_value: bool = False) -> Array:
    """Return the numbers of strings, and remember the strings.

    Numbers are hashes of the strings, so all processes compute the same ones.

    Args:
        texts: strings.
        is_fill_value: whether they stay known after the runs under way.

    Raises:
        ValueError: two texts have the same number, or texts need more memory than `texts_within` allows.
    """
    flat = texts.reshape(-1)
    numbers = np.empty(flat.size, "<u8")
    with _NUMBERS.lock:
        for start in range(0, flat.size, AT_ONCE):
            numbers_by_text: dict[str, int] = {}
            chunk = map(str, flat[start : start + AT_ONCE].tolist())
            numbers[start : start + AT_ONCE] = [
                numbers_by_text[text]
                if text in numbers_by_text
                else numbers_by_text.setdefault(text, _NUMBERS.number(text, is_fill_value))
                for text in chunk
            ]
    return numbers.view(TEXT).reshape(texts.shape)


def texts_of(numbers: Array) -> Array:
    """Return the texts of numbers.

    Raises:
        ValueError: together they need more memory than `texts_within` allows.
    """
    flat = np.ascontiguousarray(numbers).reshape(-1).view("<u8")
    with _NUMBERS.lock:
        texts = np.empty(flat.size, np.dtypes.StringDType())
        remaining = _NUMBERS.chunk_bytes
        for start in range(0, flat.size, AT_ONCE):
            chunk = [*map(_NUMBERS.text, flat[start : start + AT_ONCE].tolist())]
            remaining -= COPIES * sum(map(len, chunk)) + BYTES_AN_ELEMENT * len(chunk)
            if remaining < 0:
                raise _NUMBERS.too_long(
                    int(_NUMBERS.chunk_bytes - remaining), "the strings of a chunk, or some of them,"
                )
            texts[start : start + AT_ONCE] = chunk
    return texts.reshape(numbers.shape)


def stored(elements: Any, dtype: np.dtype[Any]) -> Array:
    """Return elements in the form in which anydml moves them: strings of any length as numbers, others unchanged."""
    return numbers_of(np.asarray(elements, dtype)) if dtype.kind == "T" else np.asarray(elements)
