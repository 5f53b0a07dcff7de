"""The base class of a fused function: the compiled core's `TracedCallable`, or its replacement."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from anydml.core import fusing


class PythonTracedCallable:
    """Replacement of `core.fusing.TracedCallable` without the compiled core."""

    hits = 0
    """Number of calls that a cached trace has served."""

    naming = -1
    """As of `pattern`, for the patterns of calls that fit no trace; −1 before the first trace."""

    call_in_python: Callable[..., Any]
    """Does a call in Python; defined by subclasses."""

    def __call__(self, *arguments: Any, out: Any = None, **keywords: Any) -> Any:
        """Call the function."""
        return self.call_in_python(arguments, keywords, out, None)

    _code: Any = None

    def watch_code(self, function: Any) -> None:
        """Expect that a function keeps its present code."""
        self._watched = function
        self._code = getattr(function, "__code__", None)

    def has_new_code(self) -> bool:
        """Whether the function's code was replaced."""
        return self._code is not None and self._watched.__code__ is not self._code

    def pattern(self, arguments: tuple[Any, ...], keywords: dict[str, Any], naming: int) -> bytes | None:
        """Return None: only compiled code has patterns, which are what the arguments of similar calls share."""

    def call_compiled(self, arguments: tuple[Any, ...], keywords: dict[str, Any], out: Any) -> Any:
        """Run a call in compiled code; return None if no compiled code fits the call."""

    def add_compiled(self, arguments: tuple[Any, ...], keywords: dict[str, Any], trace: Any) -> None:
        """Register compiled code for calls like this one."""


if TYPE_CHECKING or fusing is None:  # noqa: SIM108  types are checked against Python's class
    TracedCallable = PythonTracedCallable
else:
    TracedCallable = fusing.TracedCallable
