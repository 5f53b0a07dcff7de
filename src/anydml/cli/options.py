"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

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


MAX_SECONDS = 1e6
"""The longest limit, for which threads can wait on all systems."""


class Whole(click.IntRange):
    """An integer of at least a number, and at most another one if there is one."""

    # click would name the type "integer range" in errors.
    name = "integer"


class Seconds(click.FloatRange):
    """A limit of time."""

    name = "number"

    def __init__(self) -> None:
        super().__init__(0.1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return a number of seconds; refuse other texts."""
        seconds: float = super().convert(value, param, ctx)
        if not seconds <= MAX_SECONDS:  # NaN is neither less nor more
            self.fail(f"must be at most {MAX_SECONDS:g}", param, ctx)
        return seconds


def exclude(*names: str, reason: str = "") -> None:
    """Refuse options of the current command that exclude each other, instead of ignoring one of them.

    Args:
        names: parameter names of the options.
        reason: what is added to the error.

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
