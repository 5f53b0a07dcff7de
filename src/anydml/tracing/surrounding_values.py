"""Values read from a function's surroundings, compared in later calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import eq, is_
from typing import Any, NamedTuple

from anydml.tracing.categories import category_of


class SurroundingValues:
    """Values read from a function's surroundings, compared in later calls."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._noted: set[tuple[int, str]] = set()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is noted that could change."""
        return not self._entries

    def change(self) -> str | None:
        """Return the name of a value that has changed; None if none has."""
        for entry in self._entries:
            if changed := entry.changed():
                return changed
        return None

    def forget(self, changed: str) -> None:
        """Forget the values of a name that have changed."""
        remaining = [entry for entry in self._entries if entry.changed() != changed]
        for entry in self._entries:
            new_names = [k for k, name in enumerate(entry.names) if entry.label + name != changed]
            if new_names and len(new_names) < len(entry.names):
                names = [entry.names[k] for k in new_names]
                read, expected = partial(map, entry.read.args[0], names), [entry.expected[k] for k in new_names]
                remaining.append(entry._replace(read=read, expected=expected, names=names))
        self._entries = remaining

    def note(self, read: partial[Any], label: str, names: Sequence[str] = (), container: Any = None) -> None:
        """Note the current values.

        Args:
            read: returns the value; of several, maps names to them.
            label: the value's name, or the prefix of names.
            names: the names of several values.
            container: an object whose length must stay the same.
        """
        expected = (*read(),)
        self._entries.append(
            _Entry(read, expected, container, 0 if container is None else len(container), label, names, is_)
        )

    def note_names(self, mapping: Mapping[str, Any], names: Iterable[str], label: str) -> None:
        """Note the items of a mapping under some names, or that there are none; items already noted are left out.

        Args:
            mapping: variables or attributes.
            names: their names.
            label: whose attributes they are; an empty text for variables.
        """
        new_names = [name for name in names if (id(mapping), name) not in self._noted]
        self._noted.update([(id(mapping), name) for name in new_names])
        if new_names:
            self.note(partial(map, mapping.get, new_names), f"{label}." if label else "", new_names)

    def note_content(self, read: Callable[[], Any], label: str) -> None:
        """Note the content of an array, a buffer or the like, which is compared by ``==``.

        Args:
            read: returns the content.
            label: the name of the container.
        """
        content = partial(_content, read)
        self._entries.append(_Entry(content, (*content(),), None, 0, label, (), eq))


class _Entry(NamedTuple):
    """Values to compare: see `Remembered.note`."""

    read: partial[Any]
    expected: Sequence[Any]
    container: Any
    length: int
    label: str
    names: Sequence[str]
    is_equal: Callable[[Any, Any], bool]

    def changed(self) -> str:
        """Return the name of the first value that differs; an empty text if none does."""
        read, expected, container, length, label, names, is_equal = self
        try:
            if container is None or len(container) == length:
                if expected and all(map(is_equal, read(), expected)):
                    return ""
                differs = [not _is_same(*pair) for pair in zip(read(), expected, strict=True)]
                if True not in differs:
                    return ""
                return label + names[differs.index(True)] if names else label
        except (ValueError, RuntimeError):  # a variable without a value, or another thread's change
            pass
        return label


def _content(read: Callable[[], Any]) -> tuple[Any]:
    return (read(),)


def _is_same(first: Any, second: Any) -> bool:
    """Whether two objects are identical, or equal values of one type."""
    if first is second:
        return True
    class_ = type(first)
    if class_ is not type(second):
        return False
    if class_ is tuple:
        return len(first) == len(second) and all(map(_is_same, first, second))
    # repr distinguishes 0.0 from −0.0, and NaN equals itself.
    return category_of(class_) == "plain" and repr(first) == repr(second)
