"""Records: frozen dataclasses with slots whose methods are written once, not made for every class when it is imported.

There are some fifty of them, and what `dataclasses` makes of one takes half a millisecond, nearly all of it for methods
that do the same in each. Fields, `dataclasses.replace` and `match` are those of any dataclass.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

Kind = TypeVar("Kind", bound="Record")


class Record:
    """Base of records: equal where the classes and all fields are, and never changed."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _values(self) == _values(other)

    def __hash__(self) -> int:
        return hash(_values(self))

    def __repr__(self) -> str:
        shown = [f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr]  # type: ignore[arg-type]
        return f"{type(self).__qualname__}({', '.join(shown)})"

    def __setattr__(self, name: str, value: object) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __getstate__(self) -> tuple[Any, ...]:
        return _values(self)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        for field, value in zip(dataclasses.fields(self), state, strict=True):  # type: ignore[arg-type]
            object.__setattr__(self, field.name, value)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(kind: type[Kind]) -> type[Kind]:
    """A record of a class: with slots for its fields, and with an ``__init__`` where it has none.

    Args:
        kind: with annotations as a dataclass has them.
    """
    # The `__init__` that a dataclass makes sets fields of frozen ones only by a way that is not refused.
    makes = kind.__init__ is object.__init__
    return dataclasses.dataclass(init=makes, frozen=makes, eq=False, repr=False, slots=True)(kind)


def _values(made: Any) -> tuple[Any, ...]:
    kind: Any = type(made)
    return _getter(kind)(made)


@functools.cache
def _getter(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """What reads all fields of a kind of record."""
    names = [field.name for field in dataclasses.fields(kind)]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda made: tuple(getattr(made, name) for name in names)
