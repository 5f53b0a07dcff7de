"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from anydml.text import parse_size

F = TypeVar("F", bound=Callable[..., Any])


def feature_level(function: F) -> F:
    """Add the option --feature-level."""
    text = "Feature level to check against, such as 2_1; the newest one by default."
    names = ("--feature-level", "--dml-feature-level")
    option = click.option(
        *names, "feature_level", metavar="LEVEL", default="latest", shell_complete=_matching_levels, help=text
    )
    return option(function)


def _matching_levels(context: click.Context, parameter: click.Parameter, beginning: str) -> list[CompletionItem]:
    """Return the feature levels that a shell offers for what was typed, such as 2."""
    from anydml.feature_level import FeatureLevel

    names = (level.name.removeprefix("LEVEL_") for level in FeatureLevel)
    return [CompletionItem(name) for name in names if name.startswith(beginning)]


def allow_outside(function: F) -> F:
    """Add the option --allow-outside."""
    text = "Allow a sourcePath or targetPath outside the model's folder."
    return click.option("--allow-outside", is_flag=True, help=text)(function)


def dry_run_option(function: F) -> F:
    """Add the option --dry-run of commands that write one file."""
    return click.option("--dry-run", is_flag=True, help="Print the plan without writing anything.")(function)


MIN_SECONDS = 0.1
"""The shortest limit."""

MAX_SECONDS = 1e6
"""The longest limit, for which threads can wait on all systems."""


class Whole(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """An integer of at least a number, and at most another one if there is one."""

    name = "integer"

    def __init__(self, least: int, greatest: int | None = None) -> None:
        self._least, self._greatest = least, greatest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return an integer; refuse other texts."""
        number: int = click.INT.convert(value, param, ctx)
        if number < self._least or (self._greatest is not None and number > self._greatest):
            limit = f"at least {self._least}" if self._greatest is None else f"{self._least} to {self._greatest}"
            self.fail(f"must be {limit}, not {number}", param, ctx)
        return number


class Size(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """A number of bytes, such as 256MB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the text of a size; refuse other texts."""
        try:
            parse_size(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return value


class Seconds(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.4 on
    """A limit of time, in seconds."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return a number of seconds; refuse other texts."""
        seconds: float = click.FLOAT.convert(value, param, ctx)
        if not MIN_SECONDS <= seconds <= MAX_SECONDS:  # NaN is neither less nor more
            self.fail(f"must be {MIN_SECONDS} to {MAX_SECONDS:g}, not {seconds:g}", param, ctx)
        return seconds


def exclude(*names: str, reason: str = "") -> None:
    """Refuse options of the current command that exclude each other, instead of ignoring one of them.

    Args:
        names: parameter names of the options.
        reason: the text that is added to the error.

    Raises:
        UsageError: several of them were given.
    """
    context = click.get_current_context()
    options = [
        max(parameter.opts, key=len) for name in names for parameter in context.command.params
        if parameter.name == name and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]  # fmt: skip
    if len(options) > 1:
        raise click.UsageError(f"{options[0]} and {options[1]} exclude each other{reason and ': '}{reason}", context)
