"""Random sizes with 0 and 1, axes from either end, types, and distinct elements, from which cases are made."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from anydml.referee.nodes import Array, OptionalValue, Sizes, TensorList, Value, count
from anydml.referee.schema_texts import Kind, dtypes, kinds

T = TypeVar("T")

MAX_DRAWN_ELEMENTS = 48
"""Largest number of elements of an array that is drawn."""

COMMON = ("bool", "float", "float16", "int32", "int64", "string", "uint8")
"""Types that half of all cases have."""

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
BEYOND_SIZES = (INT64_MIN, INT64_MIN + 1, -(2**31), 2**31 - 1, 2**31, INT64_MAX - 1, INT64_MAX)
"""Numbers beyond every size."""

WORDS = ("", "a", "né", "x" * 40, "0")


class Draw(random.Random):
    """Random numbers, and the arrays of a case of one operator in one opset."""

    def __init__(self, seed: str, operator: str = "", opset: int = 0) -> None:
        super().__init__(seed)
        self.operator, self.opset = operator, opset

    def is_likely(self, share: float) -> bool:
        """Return True in this share of all cases."""
        return self.random() < share

    def sizes(self, rank: int | None = None, min_size: int = 0, max_rank: int = 5) -> Sizes:
        """Return sizes of few elements in all: many 1s, now and then a 0."""
        rank = self.choice([0, 1, 1, 2, 2, 3, 3, 4, max_rank]) if rank is None else rank
        sizes: list[int] = []
        for _ in range(rank):
            remaining = MAX_DRAWN_ELEMENTS // max(1, count(tuple(sizes)))
            sizes.append(self.choice([1, 2, 3, min(4, remaining), min(7, remaining)]) if remaining > 1 else 1)
        self.shuffle(sizes)
        if min_size == 0 and rank and self.is_likely(0.08):
            sizes[self.randrange(rank)] = 0
        return tuple(sizes)

    def axis(self, rank: int) -> int:
        """Return an axis from −rank to rank − 1; the first and the last are likely."""
        return self.choice([-rank, rank - 1, self.randrange(-rank, rank)])

    def signed(self, axis: int, rank: int) -> int:
        """Return an axis, now and then counted from the end."""
        return axis - rank if self.is_likely(0.4) else axis

    def subset(self, items: Sequence[T], min_count: int = 0) -> list[T]:
        """Return some items in any order."""
        return self.sample(list(items), self.randint(min_count, len(items)))

    def dtype(self, parameter: str, without: Sequence[str] = ()) -> np.dtype[Any]:
        """Return one of the types that the text lists for an input."""
        allowed = [dtype for dtype in dtypes(self.operator, self.opset, parameter) if dtype[0] not in without]
        common = [dtype for dtype in allowed if dtype[0] in COMMON]
        return self.choice(common if common and self.is_likely(0.5) else allowed)[1]

    def kind(self, parameter: str) -> Kind:
        """Return one of the types that the text lists for an input: of tensors, sequences or optional values alike."""
        allowed = kinds(self.operator, self.opset, parameter)
        forms = sorted({(dtype.is_sequence, dtype.is_optional) for dtype in allowed})
        form = self.choice(forms)
        chosen = [dtype for dtype in allowed if (dtype.is_sequence, dtype.is_optional) == form]
        common = [dtype for dtype in chosen if dtype.element in COMMON]
        return self.choice(common if common and self.is_likely(0.5) else chosen)

    def value(self, kind: Kind) -> Value:
        """Return a value of a type: now and then a sequence without tensors, or an empty optional value."""
        if kind.is_optional:
            element = None if self.is_likely(0.25) else self.value(kind._replace(is_optional=False))
            assert not isinstance(element, OptionalValue)
            return OptionalValue(kind.dtype, kind.is_sequence, element)
        if kind.is_sequence:
            return self.tensors(kind.dtype, self.choice([0, 1, 1, 2, 3]))
        return self.data(kind.dtype, self.sizes())

    def tensors(self, dtype: np.dtype[Any], count: int) -> TensorList:
        """Return a sequence of so many tensors, each of sizes of its own."""
        return TensorList(dtype, tuple(self.data(dtype, self.sizes(max_rank=3)) for _ in range(count)))

    def index_dtype(self, parameter: str) -> np.dtype[Any]:
        """Return INT32 or INT64, as the document allows."""
        return self.choice(dtypes(self.operator, self.opset, parameter))[1]

    def data(self, dtype: np.dtype[Any], shape: Sizes, is_special: bool = True) -> Array:
        """Return elements, some of them special, that differ if the type has enough values."""
        total = count(shape)
        if dtype.hasobject:
            words = [self.choice(WORDS) if self.is_likely(0.1) else f"w{k}" for k in range(total)]
            return np.array(words, object).reshape(shape)
        if dtype.kind == "b":
            return np.array([self.is_likely(0.5) for _ in range(total)], bool).reshape(shape)
        if dtype.itemsize == 1 and dtype.kind not in "iu":
            # Small types of ml_dtypes: whole numbers that they have, as far as they go.
            numbers = np.array([self.randrange(1, 8) if self.is_likely(0.8) else 0 for _ in range(total)])
            return numbers.astype(np.float32).astype(dtype).reshape(shape)
        first = self.randrange(1, 30)
        data = np.arange(first, first + total).astype(dtype)
        special = _specials(dtype) if is_special or dtype.kind in "iu" else []
        for k in range(total):
            if special and self.is_likely(0.06):
                data[k] = self.choice(special)
        return data.reshape(shape)

    def integers(self, values: Sequence[int], dtype: Any = np.int64) -> Array:
        """Return a vector of integers."""
        return np.array(values, dtype).reshape(len(values))


def _specials(dtype: np.dtype[Any]) -> list[Any]:
    if dtype.kind in "iu" and not dtype.hasobject and dtype.name in np.sctypeDict:
        bounds = np.iinfo(dtype)
        return [bounds.min, bounds.max, 0]
    if dtype.kind == "c":
        # Expand's text has a product, which is not the same for infinite ones.
        return [-1.5 + 2.5j, 0.0]
    if dtype.kind == "f":
        return [float("nan"), float("inf"), -0.0, 0.0, -1.5]
    return []
