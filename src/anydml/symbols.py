"""Symbolic integers: PyTorch's SymInt and SymBool, which stand for sizes while a program is compiled.

A condition on a symbol may be undecided at compile time, so rules do not use ``if``: `holds` decides what it can and
defers the rest to a check that PyTorch performs when the program runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from anydml.fields import LIST, integer, integers, items_of


def are_known(values: Iterable[Any]) -> bool:
    """Whether all values are Python's `int`, not symbols."""
    for value in values:  # noqa: SIM110  # all() of a generator takes three times as long
        if type(value) is not int:
            return False
    return True


def is_symbol(value: Any) -> bool:
    """Whether a value is one of PyTorch's symbolic integers."""
    class_ = type(value)
    return class_.__name__ == "SymInt" and class_.__module__ == "torch"


def is_open(value: Any) -> bool:
    """Whether a value is an open size of a fused function (see `anydml.tracing`)."""
    return hasattr(type(value), "place")


def is_one(size: Any) -> bool:
    """Whether a size is known to be 1."""
    return type(size) is int and size == 1


def integer_or_open(name: str, field: str, value: Any) -> Any:
    """Convert an integer; an open size stays open.

    Raises:
        DescTypeError: `value` is not an integer.
    """
    return value if is_open(value) else integer(name, field, value)


def integers_or_symbols(name: str, field: str, values: Any, requirement: str = LIST) -> tuple[Any, ...]:
    """Convert a sequence to a tuple of integers: `int`, symbolic, or open sizes.

    Raises:
        DescTypeError: `values` is not a sequence, or an element is not an integer.
    """
    items = items_of(name, field, values, requirement)
    if are_known(items):
        return items
    if not any(is_symbol(value) or is_open(value) for value in items):
        return integers(name, field, items, requirement)
    return tuple(
        value if is_symbol(value) else integer_or_open(name, f"{field}[{i}]", value) for i, value in enumerate(items)
    )


def one_or_more(name: str, field: str, values: Any) -> tuple[Any, ...]:
    """Convert an integer, or a sequence, to a tuple (see `integers_or_symbols`)."""
    return (
        (integer_or_open(name, field, values),) if isinstance(values, int) else integers_or_symbols(name, field, values)
    )


def holds(condition: Any) -> bool:
    """Whether a condition is true. An undecided one counts as true, and PyTorch checks it when the program runs.

    Args:
        condition: a bool or SymBool; combined by ``&`` and ``|``, since ``and`` and ``or`` would decide too early.
    """
    if type(condition) is bool:
        return condition
    from torch.fx.experimental.symbolic_shapes import expect_true

    return bool(expect_true(condition))


def are_equal(sizes: Sequence[Any], other_sizes: Sequence[Any]) -> bool:
    """Whether two shapes are equal."""
    return len(sizes) == len(other_sizes) and all(holds(a == b) for a, b in zip(sizes, other_sizes, strict=True))


def are_at_least(min_size: int, sizes: Sequence[Any]) -> bool:
    """Whether all sizes (at least one) are `min_size` or more."""
    return min(sizes) >= min_size if are_known(sizes) else all(holds(size >= min_size) for size in sizes)
