"""Objects with attributes, and modules, that a function can reach: what code reads of them by its names."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from anydml.tracing.reading import ANY
from anydml.tracing.remembered import Remembered

MAX_ITEMS = 256
"""Maximum number of items of a container, or attributes of an object, that are compared."""


class Holders:
    """What has attributes.

    Args:
        remembered: where the attributes are noted.
        waiting: where the attributes are added, with their names, to be visited.
    """

    def __init__(self, remembered: Remembered, waiting: list[tuple[Any, str]]) -> None:
        self._remembered = remembered
        self._waiting = waiting
        self._all: list[_Holder] = []

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
        self._all.append(_Holder(value, mapping, classes, label, is_noted, set()))

    def scan(self, names: set[str]) -> bool:
        """Note and add attributes with names that were not looked for before; return whether there were such names."""
        behind = [holder for holder in self._all if len(holder.names) < len(names)]
        for holder in behind:
            fresh = names - holder.names
            holder.names.update(fresh)
            self._scan(holder, fresh)
        return bool(behind)

    def note_absent(self, asked: set[str], names: set[str]) -> None:
        """Note which attributes objects do not have, and of which class they are.

        Args:
            asked: names that code asks for, as by `hasattr`.
            names: all names in code, which a class with a method ``__getattr__`` answers.
        """
        noted = [holder for holder in self._all if holder.is_noted]
        for holder in noted:
            is_answering = any("__getattr__" in vars(kind) for kind in holder.classes)
            wanted = names if is_answering else asked
            if not isinstance(holder.value, type):
                self._remembered.note_names(holder.mapping, sorted(wanted - holder.mapping.keys()), holder.label)
            for kind in holder.classes if asked else ():
                self._note_of_class(kind, sorted(asked - vars(kind).keys()), holder.label)
        objects = [holder for holder in noted if holder.classes and not isinstance(holder.value, type)]
        if objects:
            labels = [holder.label for holder in objects]
            self._remembered.note(partial(map, type, [holder.value for holder in objects]), "the class of ", labels)

    def _scan(self, holder: _Holder, names: set[str]) -> None:
        """Note and add the attributes of an object, or the variables of a module, with such names."""
        mapping, label = holder.mapping, holder.label
        is_any = ANY in names and len(mapping) <= MAX_ITEMS and not isinstance(holder.value, types.ModuleType)
        reached = [*mapping] if is_any else [*(mapping.keys() & names)]
        if is_any and holder.is_noted:
            self._remembered.note(partial(iter, ()), label, container=mapping)
        self._waiting += [(mapping[name], f"{label}.{name}") for name in reached]
        is_class = isinstance(holder.value, type)
        for kind in holder.classes:
            attributes, of_class = vars(kind), []
            for name in attributes.keys() if is_any else attributes.keys() & names:
                value = attributes[name]
                if type(value) is types.MemberDescriptorType:
                    if not is_class:
                        self._remembered.note(partial(_of_slot, value, holder.value), f"{label}.{name}")
                        self._waiting += [(content, f"{label}.{name}") for content in _of_slot(value, holder.value)]
                    continue
                self._waiting.append((value, f"{label}.{name}"))
                of_class.append(name)
            self._note_of_class(kind, of_class, label)
            # An object may get an attribute of its own in place of its class's.
            reached += [name for name in of_class if name not in mapping and not is_class]
        if holder.is_noted:
            self._remembered.note_names(mapping, reached, label)

    def _note_of_class(self, kind: type, names: Sequence[str], label: str) -> None:
        if names:
            self._remembered.note(partial(map, vars(kind).get, names), f"{label}.", names)


class _Holder(NamedTuple):
    """Something with attributes: see `Holders.add`.

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
