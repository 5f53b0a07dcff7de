"""Records: frozen dataclasses with slots that share their methods instead of generating them at import.

There are about fifty of them, and `dataclasses` takes half a millisecond for each, nearly all of it to generate
identical methods. Fields, `dataclasses.replace` and `match` work as for any dataclass.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar, dataclass_transform

Taken = TypeVar("Taken")
Kept = TypeVar("Kept")
Item = TypeVar("Item")
Kind = TypeVar("Kind", bound="Record")


class Record:
    """Base class of records: immutable, equal if the classes and all fields are equal."""

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


class Given(Generic[Taken, Kept]):
    """The type of a field that a record converts: what is given, and what is kept. Only type checkers use it."""

    def __get__(self, instance: Any, kind: Any = None) -> Kept:
        raise NotImplementedError

    def __set__(self, instance: Any, value: Taken) -> None:
        raise NotImplementedError


ListOf: TypeAlias = Given[Sequence[Item], tuple[Item, ...]]
"""A field that takes a sequence and keeps a tuple."""

Named: TypeAlias = Given[Item | str, Item]
"""A field that takes a member of an enumeration, or its name."""

_STORED_TYPES = ((r"ListOf\[(.*)\]", r"tuple[\1, ...]"), (r"Named\[(.*)\]", r"\1"), (r"Given\[.*, (\w+)\]", r"\1"))
"""The types of kept values, by the annotations of fields."""


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def record(kind: type[Kind]) -> type[Kind]:
    """Class decorator: make a record, with slots for its fields, and an ``__init__`` if the class defines none.

    Args:
        kind: the class, with annotations as for a dataclass.
    """
    for name, text in inspect.get_annotations(kind).items():
        if text.endswith("]"):
            for pattern, replacement in _STORED_TYPES:
                text = re.sub(f"^{pattern}$", replacement, text)  # noqa: PLW2901
            kind.__annotations__[name] = text
    # A frozen dataclass's generated `__init__` bypasses `__setattr__`.
    makes = kind.__init__ is object.__init__
    return dataclasses.dataclass(init=makes, frozen=makes, eq=False, repr=False, slots=True)(kind)


def _values(instance: Any) -> tuple[Any, ...]:
    kind: Any = type(instance)
    return _getter(kind)(instance)


@functools.cache
def _getter(kind: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads all fields of a record class."""
    names = [field.name for field in dataclasses.fields(kind)]
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple(getattr(instance, name) for name in names)
