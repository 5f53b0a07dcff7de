"""The attributes of objects and modules that a function can read."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from anydml.tracing.names_in_code import ANY
from anydml.tracing.remembered import Remembered

MAX_ITEMS = 256
"""Maximum number of items of a container, or attributes of an object, that are compared."""


class Attributes:
    """The objects and modules with attributes, and the names that were looked for in them.

    Args:
        remembered: gets the attributes' values, for comparison in later calls.
        waiting: gets the attributes, with their names in messages, to be visited.
    """

    def __init__(self, remembered: Remembered, waiting: list[tuple[Any, str]]) -> None:
        self._remembered = remembered
        self._waiting = waiting
        self._all: list[_Owner] = []

    def add(
        self, value: Any, mapping: Mapping[str, Any], classes: Sequence[type], label: str, is_noted: bool = True
    ) -> None:
        """Add an object.

        Args:
            value: the object.
            mapping: its attributes by name.
            classes: the classes whose attributes it has, too.
            label: its name in messages.
            is_noted: whether changes of its attributes are noticed.
        """
        self._all.append(_Owner(value, mapping, classes, label, is_noted, set()))

    def scan(self, names: set[str]) -> bool:
        """Note and add attributes with names that were not looked for before; return whether there were such names."""
        behind = [owner for owner in self._all if len(owner.names) < len(names)]
        for owner in behind:
            fresh = names - owner.names
            owner.names.update(fresh)
            self._scan(owner, fresh)
        return bool(behind)

    def note_absent(self, asked: set[str], names: set[str]) -> None:
        """Note which attributes objects lack, and the objects' classes.

        Args:
            asked: names that code asks for, as by `hasattr`.
            names: all names in code; a class with a method ``__getattr__`` may have any of them.
        """
        noted = [owner for owner in self._all if owner.is_noted]
        for owner in noted:
            is_answering = any("__getattr__" in vars(kind) for kind in owner.classes)
            wanted = names if is_answering else asked
            if not isinstance(owner.value, type):
                self._remembered.note_names(owner.mapping, sorted(wanted - owner.mapping.keys()), owner.label)
            for kind in owner.classes if asked else ():
                self._note_of_class(kind, sorted(asked - vars(kind).keys()), owner.label)
        objects = [owner for owner in noted if owner.classes and not isinstance(owner.value, type)]
        if objects:
            labels = [owner.label for owner in objects]
            self._remembered.note(partial(map, type, [owner.value for owner in objects]), "the class of ", labels)

    def _scan(self, owner: _Owner, names: set[str]) -> None:
        """Note and add the attributes of an object or module that have one of the names."""
        mapping, label = owner.mapping, owner.label
        is_any = ANY in names and len(mapping) <= MAX_ITEMS and not isinstance(owner.value, types.ModuleType)
        reached = [*mapping] if is_any else [*(mapping.keys() & names)]
        if is_any and owner.is_noted:
            self._remembered.note(partial(iter, ()), label, container=mapping)
        self._waiting += [(mapping[name], f"{label}.{name}") for name in reached]
        is_class = isinstance(owner.value, type)
        for kind in owner.classes:
            attributes, of_class = vars(kind), []
            for name in attributes.keys() if is_any else attributes.keys() & names:
                value = attributes[name]
                if type(value) is types.MemberDescriptorType:
                    if not is_class:
                        self._remembered.note(partial(_of_slot, value, owner.value), f"{label}.{name}")
                        self._waiting += [(content, f"{label}.{name}") for content in _of_slot(value, owner.value)]
                    continue
                self._waiting.append((value, f"{label}.{name}"))
                of_class.append(name)
            self._note_of_class(kind, of_class, label)
            # An object may later get its own attribute in place of its class's.
            reached += [name for name in of_class if name not in mapping and not is_class]
        if owner.is_noted:
            self._remembered.note_names(mapping, reached, label)

    def _note_of_class(self, kind: type, names: Sequence[str], label: str) -> None:
        if names:
            self._remembered.note(partial(map, vars(kind).get, names), f"{label}.", names)


class _Owner(NamedTuple):
    """An object with attributes: see `Attributes.add`.

    Attributes:
        names: the names that were looked for.
    """

    value: Any
    mapping: Mapping[str, Any]
    classes: Sequence[type]
    label: str
    is_noted: bool
    names: set[str]


def _of_slot(slot: Any, value: Any) -> tuple[Any, ...]:
    return (slot.__get__(value),) if hasattr(value, slot.__name__) else ()
