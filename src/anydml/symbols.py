"""Integers that are not known yet: PyTorch's symbols, which stand for sizes while a program is compiled.

A question about a symbol may have no answer, so rules are not asked by ``if``: `holds` answers what it can, and has
PyTorch ask the rest when the program runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from anydml.fields import LIST, integer, integers, items_of


def are_known(values: Iterable[Any]) -> bool:
    """Whether all are Python's own integers."""
    for value in values:  # noqa: SIM110  # all() of a generator takes three times as long
        if type(value) is not int:
            return False
    return True


def is_symbol(value: Any) -> bool:
    """Whether a value is one of PyTorch's symbolic integers."""
    kind = type(value)
    return kind.__name__ == "SymInt" and kind.__module__ == "torch"


def integers_or_symbols(name: str, field: str, values: Any, wanted: str = LIST) -> tuple[Any, ...]:
    """Several integers, of Python's or PyTorch's symbols.

    Raises:
        DescTypeError: `values` is no sequence, or one of them is no integer.
    """
    items = items_of(name, field, values, wanted)
    if are_known(items):
        return items
    if not any(map(is_symbol, items)):
        return integers(name, field, items)
    return tuple(value if is_symbol(value) else integer(name, f"{field}[{i}]", value) for i, value in enumerate(items))


def holds(condition: Any) -> bool:
    """Whether a condition is true. One that depends on data is, and PyTorch asks it again when the program runs.

    Args:
        condition: a bool, or a symbolic one; ``&`` and ``|`` join several, where ``and`` and ``or`` would ask too soon.
    """
    if type(condition) is bool:
        return condition
    from torch.fx.experimental.symbolic_shapes import expect_true

    return bool(expect_true(condition))


def are_equal(sizes: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether two shapes are one."""
    return len(sizes) == len(others) and all(holds(a == b) for a, b in zip(sizes, others, strict=True))


def are_at_least(least: int, sizes: Sequence[Any]) -> bool:
    """Whether no size is less; there is at least one."""
    return min(sizes) >= least if are_known(sizes) else all(holds(size >= least) for size in sizes)
