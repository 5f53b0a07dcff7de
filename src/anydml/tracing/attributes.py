"""The attributes of objects and modules that a function can read."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from anydml.tracing.names_in_code import ANY_NAME
from anydml.tracing.surrounding_values import SurroundingValues

MAX_ITEMS = 256
"""Maximum number of items of a container, or attributes of an object, that are compared."""


class Attributes:
    """The objects and modules with attributes, and the attribute names that were looked for.

    Args:
        surrounding_values: gets the attributes' values, for comparison in later calls.
        waiting: gets the attributes, with their names in messages, to be visited.
    """

    def __init__(self, surrounding_values: SurroundingValues, waiting: list[tuple[Any, str]]) -> None:
        self._remembered = surrounding_values
        self._waiting = waiting
        self._owners: list[_Owner] = []

    def add(
        self, value: Any, mapping: Mapping[str, Any], classes: Sequence[type], label: str, is_noted: bool = True
    ) -> None:
        """Add an object.

        Args:
            value: the object.
            mapping: the attributes of the object by name.
            classes: the classes whose attributes it has, too.
            label: the name of the object in messages.
            is_noted: whether changes of its attributes are noticed.
        """
        self._owners.append(_Owner(value, mapping, classes, label, is_noted, set()))

    def scan(self, names: set[str]) -> bool:
        """Note and add attributes with names that were not looked for before; return whether there were such names."""
        outdated = [owner for owner in self._owners if len(owner.names) < len(names)]
        for owner in outdated:
            new_names = names - owner.names
            owner.names.update(new_names)
            self._scan(owner, new_names)
        return bool(outdated)

    def note_absent(self, queried: set[str], names: set[str]) -> None:
        """Note which attributes objects lack, and the objects' classes.

        Args:
            queried: names that code asks for, as by `hasattr`.
            names: all names in code; a class with a method ``__getattr__`` may have any of them.
        """
        noted = [owner for owner in self._owners if owner.is_noted]
        for owner in noted:
            has_getattr = any("__getattr__" in vars(class_) for class_ in owner.classes)
            names_to_note = names if has_getattr else queried
            if not isinstance(owner.value, type):
                self._remembered.note_names(owner.mapping, sorted(names_to_note - owner.mapping.keys()), owner.label)
            for class_ in owner.classes if queried else ():
                self._note_class_attributes(class_, sorted(queried - vars(class_).keys()), owner.label)
        objects = [owner for owner in noted if owner.classes and not isinstance(owner.value, type)]
        if objects:
            labels = [owner.label for owner in objects]
            self._remembered.note(partial(map, type, [owner.value for owner in objects]), "the class of ", labels)

    def _scan(self, owner: _Owner, names: set[str]) -> None:
        """Note and add those attributes of an object or module whose names are among `names`."""
        mapping, label = owner.mapping, owner.label
        reads_any_name = (
            ANY_NAME in names and len(mapping) <= MAX_ITEMS and not isinstance(owner.value, types.ModuleType)
        )
        names_found = [*mapping] if reads_any_name else [*(mapping.keys() & names)]
        if reads_any_name and owner.is_noted:
            self._remembered.note(partial(iter, ()), label, container=mapping)
        self._waiting += [(mapping[name], f"{label}.{name}") for name in names_found]
        is_class = isinstance(owner.value, type)
        for class_ in owner.classes:
            attributes, class_names = vars(class_), []
            for name in attributes.keys() if reads_any_name else attributes.keys() & names:
                value = attributes[name]
                if type(value) is types.MemberDescriptorType:
                    if not is_class:
                        self._remembered.note(partial(_slot_content, value, owner.value), f"{label}.{name}")
                        self._waiting += [(content, f"{label}.{name}") for content in _slot_content(value, owner.value)]
                    continue
                self._waiting.append((value, f"{label}.{name}"))
                class_names.append(name)
            self._note_class_attributes(class_, class_names, label)
            # An object may later get an attribute that hides its class's.
            names_found += [name for name in class_names if name not in mapping and not is_class]
        if owner.is_noted:
            self._remembered.note_names(mapping, names_found, label)

    def _note_class_attributes(self, class_: type, names: Sequence[str], label: str) -> None:
        if names:
            self._remembered.note(partial(map, vars(class_).get, names), f"{label}.", names)


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


def _slot_content(slot: Any, value: Any) -> tuple[Any, ...]:
    return (slot.__get__(value),) if hasattr(value, slot.__name__) else ()
