"""The base class of a fused function: the compiled core's `Calls`, or its replacement."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from anydml.core import fusing


class PythonCalls:
    """Replacement of `core.fusing.Calls` without the compiled core."""

    hits = 0
    """Number of calls that a cached trace has served."""

    slowly: Callable[..., Any]
    """Does a call in Python; defined by the subclass."""

    def __call__(self, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        """Call the function."""
        return self.slowly(arguments, keywords, out)

    def form(self, arguments: tuple[Any, ...], keywords: dict[str, Any], naming: int) -> bytes | None:
        """Return what the arguments have in common with those of similar calls, which only compiled code does."""

    def form_without_trace(self, arguments: tuple[Any, ...], keywords: dict[str, Any], naming: int) -> bytes | None:
        """Return the same if no trace is expected to help."""

    def take(self, arguments: tuple[Any, ...], keywords: dict[str, Any], out: Any) -> Any:
        """Do a call by compiled code; return None if there is none for it."""

    def keep(self, arguments: tuple[Any, ...], keywords: dict[str, Any], call: Any) -> None:
        """Register compiled code for calls like this one."""


if TYPE_CHECKING or fusing is None:  # noqa: SIM108  types are checked against Python's class
    Calls = PythonCalls
else:
    Calls = fusing.Calls
