"""The two ways of a function on arrays, which the bodies of stubs call: each function is given its own.

``native(...)`` is compiled, and gives None for what it leaves; ``general(...)`` does all of that. Both take all
arguments by their places, ``out`` last.
"""

from __future__ import annotations

from typing import Any


def _no_ones(*arguments: Any) -> Any:
    raise NotImplementedError("stubs are called by the functions that are made of them: anydml has those")


native = general = _no_ones
