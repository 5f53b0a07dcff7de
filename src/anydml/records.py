"""Records: frozen dataclasses with slots that share their methods instead of generating them at import.

There are about fifty of them, and `dataclasses` takes half a millisecond for each, nearly all of it to generate
identical methods; it is imported when a record's fields are first asked for. Fields, `dataclasses.replace` and `match`
work as for any dataclass.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar, dataclass_transform

Accepted = TypeVar("Accepted")
StoredField = TypeVar("StoredField")
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
        import dataclasses

        fields = [f"{f.name}={getattr(self, f.name)!r}" for f in dataclasses.fields(self) if f.repr]  # type: ignore[arg-type]
        return f"{type(self).__qualname__}({', '.join(fields)})"

    def __setattr__(self, name: str, value: object) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __getstate__(self) -> tuple[Any, ...]:
        return _values(self)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        for name, value in zip(_names(type(self)), state, strict=True):
            object.__setattr__(self, name, value)


class ConvertedField(Generic[Accepted, StoredField]):
    """The type of a field that a record converts: what is given, and what is kept. Only type checkers use it."""

    def __get__(self, instance: Any, class_: Any = None) -> StoredField:
        raise NotImplementedError

    def __set__(self, instance: Any, value: Accepted) -> None:
        raise NotImplementedError


ListOf: TypeAlias = ConvertedField[Sequence[Item], tuple[Item, ...]]
"""A field that takes a sequence and keeps a tuple."""

Named: TypeAlias = ConvertedField[Item | str, Item]
"""A field that takes a member of an enumeration, or its name."""


class _Fields:
    """Descriptor that makes the fields of each record class when `dataclasses` reads them."""

    def __get__(self, instance: Any, owner: Any) -> dict[str, Any]:
        fields: dict[str, Any] = _dataclass(owner).__dataclass_fields__
        return fields


class _Signature:
    """Descriptor that computes the signature of each record class when `inspect.signature` reads it."""

    def __get__(self, instance: Any, owner: Any) -> Any:
        import inspect

        return inspect.signature(_dataclass(owner))


@functools.cache
def _dataclass(class_: Any) -> Any:
    """Return a dataclass with the fields of a record class."""
    import dataclasses

    fields = {name: field for base in reversed(class_.__mro__) for name, *field in vars(base).get("_FIELDS", ())}
    namespace = {"__post_init__": class_.__post_init__} if hasattr(class_, "__post_init__") else {}
    listed = [(name, *field) for name, field in fields.items()]
    make = dataclasses.make_dataclass
    prototype: Any = make(class_.__name__, listed, namespace=namespace, frozen=True, eq=False, repr=False)
    prototype.__init__.__qualname__ = f"{class_.__qualname__}.__init__"
    return prototype


def _init_of(class_: Any) -> Callable[..., None]:
    """Return an ``__init__`` for a record class, which is replaced by the dataclass's when the first record is made."""

    def init(self: Any, *values: Any, **named: Any) -> None:
        class_.__init__ = compiled = _dataclass(class_).__init__
        compiled(self, *values, **named)

    return init


@dataclass_transform(frozen_default=True)
def record(class_: type[Kind]) -> type[Kind]:
    """Class decorator: make a record, with slots for its fields, and an ``__init__`` if the class defines none.

    Args:
        class_: the class, with annotations as for a dataclass.
    """
    namespace = {name: value for name, value in vars(class_).items() if name not in ("__dict__", "__weakref__")}
    inherited: tuple[str, ...] = _names(class_)
    fields: list[tuple[Any, ...]] = []
    for name, text in class_.__annotations__.items():
        if not text.startswith("ClassVar["):
            class_.__annotations__[name] = field_type = _field_type(text)
            fields.append((name, field_type, namespace.pop(name)) if name in namespace else (name, field_type))
    new_names = tuple(name for name, *_ in fields if name not in inherited)
    namespace |= {"__slots__": new_names, "__match_args__": inherited + new_names, "_FIELDS": fields}
    namespace["__dataclass_fields__"] = _Fields()
    if class_.__init__ is object.__init__:
        namespace["__signature__"] = _Signature()
    meta: Any = type(class_)
    slotted: type[Kind] = meta(class_.__name__, class_.__bases__, namespace)
    slotted.__qualname__ = class_.__qualname__
    if class_.__init__ is object.__init__:
        slotted.__init__ = _init_of(slotted)  # type: ignore[method-assign]
    return slotted


def _field_type(text: str) -> str:
    """Return the type of what a field keeps, by its annotation."""
    outer, _, inner = text.removesuffix("]").partition("[")
    if outer == "ListOf":
        return f"tuple[{inner}, ...]"
    return inner if outer == "Named" else inner.rpartition(", ")[2] if outer == "ConvertedField" else text


def _names(class_: Any) -> tuple[str, ...]:
    """Return the names of a record class's fields, in order."""
    names: tuple[str, ...] = getattr(class_, "__match_args__", ())
    return names


def _values(instance: Any) -> tuple[Any, ...]:
    class_: Any = type(instance)
    return _getter(class_)(instance)


@functools.cache
def _getter(class_: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads all fields of a record class."""
    names = _names(class_)
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple(getattr(instance, name) for name in names)
