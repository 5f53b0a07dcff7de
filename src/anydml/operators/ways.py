"""Placeholders for the two implementations of a function on arrays that the bodies of stubs call.

``native(...)`` is compiled and returns None for calls that it does not support; ``general(...)`` supports all. Both
take all arguments by position, ``out`` last. Each function gets its own.
"""

from __future__ import annotations

from typing import Any


def _unbound(*arguments: Any) -> Any:
    raise NotImplementedError("stubs cannot be called: use the functions of anydml")


native = general = _unbound
