"""The base class of a fused function: the compiled core's `Calls`, or its replacement."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from anydml.core import fusing


class PythonCalls:
    """Replacement of `core.fusing.Calls` without the compiled core."""

    hits = 0
    """Number of calls that a cached trace has served."""

    call_in_python: Callable[..., Any]
    """Does a call in Python; defined by subclasses."""

    def __call__(self, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        """Call the function."""
        return self.call_in_python(arguments, keywords, out)

    def form(self, arguments: tuple[Any, ...], keywords: dict[str, Any], naming: int) -> bytes | None:
        """Return the form of the arguments, which similar calls share; None, because only compiled code has forms."""

    def form_without_trace(self, arguments: tuple[Any, ...], keywords: dict[str, Any], naming: int) -> bytes | None:
        """Return the form if a trace is not expected to pay off; None, as in `form`."""

    def call_compiled(self, arguments: tuple[Any, ...], keywords: dict[str, Any], out: Any) -> Any:
        """Do a call in compiled code; return None if no compiled code fits it."""

    def add_compiled(self, arguments: tuple[Any, ...], keywords: dict[str, Any], call: Any) -> None:
        """Register compiled code for calls like this one."""


if TYPE_CHECKING or fusing is None:  # noqa: SIM108  types are checked against Python's class
    Calls = PythonCalls
else:
    Calls = fusing.Calls
