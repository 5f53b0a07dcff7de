"""Python made for one structure of arguments or results: as straight lines it takes a fifth of what a walk does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anydml.arrays.quick import QUICK, kind_of

DEEPEST = 16
"""Structures in each other, at most: Python's compiler has its limits."""

Arrays = list[Any]


class _Source:
    """Lines of a function, and the objects that they name; whether they ask if calls are recorded."""

    def __init__(self, first: str) -> None:
        self.lines = [first]
        self.names: dict[str, Any] = {"ndarray": np.ndarray}
        self.asks = False
        self._count = 0

    def known(self, value: Any) -> str:
        """A name for an object."""
        name = self.fresh()
        self.names[name] = value
        return name

    def fresh(self) -> str:
        """A new name."""
        self._count += 1
        return f"v{self._count}"

    def add(self, line: str) -> None:
        """One more line."""
        self.lines.append(f"    {line}")

    def refuse(self, condition: str) -> None:
        """Give None where something is so."""
        self.add(f"if {condition}:")
        self.add("    return None")

    def parts(self, of: str, count: int) -> list[str]:
        """Names for the items of something that has so many."""
        names = [self.fresh() for _ in range(count)]
        if names:
            self.add(f"{', '.join(names)}, = {of}")
        return names

    def function(self) -> Any:
        """What was written."""
        exec("\n".join(self.lines), self.names)  # made of structures alone: all else has a name
        return self.names["made"]


def is_deep(tree: Any, left: int = DEEPEST) -> bool:
    """Whether a structure is too deep for Python's compiler."""
    if not isinstance(tree, (list, tuple, dict)):
        return False
    return not left or any(is_deep(each, left - 1) for each in (tree.values() if isinstance(tree, dict) else tree))


def builder(tree: Any, leaf: type) -> Callable[[Arrays], Any]:
    """What makes a structure of a list of arrays, which have numbers, 0, 1, 2 …, in it."""
    source = _Source("def made(arrays):")
    source.add(f"return {_built(source, tree, leaf)}")
    made: Callable[[Arrays], Any] = source.function()
    return made


def _built(source: _Source, tree: Any, leaf: type) -> str:
    if isinstance(tree, leaf):
        return f"arrays[{tree.number}]"  # type: ignore[attr-defined]  # such leaves have
    if isinstance(tree, (list, tuple)):
        items = "".join(f"{_built(source, each, leaf)}, " for each in tree)
        if isinstance(tree, list):
            return f"[{items}]"
        return f"{source.known(type(tree))}({items})" if hasattr(tree, "_fields") else f"({items})"
    if isinstance(tree, dict):
        return f"{{{', '.join(f'{source.known(key)}: {_built(source, each, leaf)}' for key, each in tree.items())}}}"
    return source.known(tree)


def taker(tree: Any, leaf: type) -> Callable[[Any], Arrays | None]:
    """What gives the arrays of a structure like `tree`, whose lists and tuples are alike; None of another one."""
    source = _Source("def made(out):")
    source.add(f"return [{', '.join(_taken(source, tree, leaf, 'out'))}]")
    made: Callable[[Any], Arrays | None] = source.function()
    return made


def _taken(source: _Source, tree: Any, leaf: type, name: str) -> Iterator[str]:
    if isinstance(tree, leaf):
        yield name
    elif isinstance(tree, (list, tuple)):
        source.refuse(f"not isinstance({name}, (list, tuple)) or len({name}) != {len(tree)}")
        for part, each in zip(source.parts(name, len(tree)), tree, strict=True):
            yield from _taken(source, each, leaf, part)
    elif isinstance(tree, dict):
        source.refuse(f"not isinstance({name}, dict) or len({name}) != {len(tree)}")
        for key, each in tree.items():
            known, part = source.known(key), source.fresh()
            source.refuse(f"{known} not in {name}")
            source.add(f"{part} = {name}[{known}]")
            yield from _taken(source, each, leaf, part)


def opener(arguments: Sequence[Any], keywords: dict[str, Any]) -> Callable[[Any, Any], Arrays | None]:
    """What gives the arrays of arguments that are like these but for them; None of others.

    Args:
        arguments: arrays of one library, NumPy's or one of `QUICK`, numbers, words, None, and structures of them.
        keywords: likewise.
    """
    source = _Source("def made(arguments, keywords):")
    found = [*_opened(source, arguments, "arguments")]
    source.refuse(f"tuple(keywords) != {source.known(tuple(keywords))}")
    for part, each in zip(source.parts("keywords.values()", len(keywords)), keywords.values(), strict=True):
        found += _opened(source, each, part)
    source.add(f"return [{', '.join(found)}]")
    made: Callable[[Any, Any], Arrays | None] = source.function()
    return made


def _opened(source: _Source, item: Any, name: str) -> Iterator[str]:
    kind = kind_of(item)
    if kind is np.ndarray:
        source.refuse(f"type({name}) is not ndarray")
        yield name
    elif kind is not None:
        quick = QUICK[kind]
        kinds = " and ".join(f"type({name}) is not {source.known(each)}" for each in (kind, quick.alike) if each)
        source.refuse(kinds)
        if not source.asks:
            source.refuse(f"{source.known(quick.is_traced)}()")
            source.asks = True
        yield name
    elif isinstance(item, (list, tuple)):
        source.refuse(f"type({name}) is not {type(item).__name__} or len({name}) != {len(item)}")
        for part, each in zip(source.parts(name, len(item)), item, strict=True):
            yield from _opened(source, each, part)
    elif isinstance(item, dict):
        source.refuse(f"type({name}) is not dict or tuple({name}) != {source.known(tuple(item))}")
        for part, each in zip(source.parts(f"{name}.values()", len(item)), item.values(), strict=True):
            yield from _opened(source, each, part)
    elif type(item) is float:
        # Also tells 0 from −0, and knows nan again.
        source.refuse(f"type({name}) is not float or repr({name}) != {source.known(repr(item))}")
    else:
        source.refuse(f"type({name}) is not {source.known(type(item))} or {name} != {source.known(item)}")
