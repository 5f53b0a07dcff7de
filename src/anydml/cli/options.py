"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.core import ParameterSource

F = TypeVar("F", bound=Callable[..., Any])


def feature_level(function: F) -> F:
    """Add the option --feature-level."""
    text = "Feature level to check against, such as 2_1; the newest one by default."
    names = ("--feature-level", "--dml-feature-level")
    return click.option(*names, "feature_level", metavar="LEVEL", default="latest", help=text)(function)


def allow_outside(function: F) -> F:
    """Add the option --allow-outside."""
    text = "Let sourcePath and targetPath leave the model's folder."
    return click.option("--allow-outside", is_flag=True, help=text)(function)


def exclude(*names: str, why: str = "") -> None:
    """Refuse options of the current command that exclude each other, instead of ignoring one of them.

    Args:
        names: parameter names of the options.
        why: what is added to the error.

    Raises:
        UsageError: several of them were given.
    """
    context = click.get_current_context()
    options = [
        max(parameter.opts, key=len) for name in names for parameter in context.command.params
        if parameter.name == name and context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    ]  # fmt: skip
    if len(options) > 1:
        raise click.UsageError(f"{options[0]} and {options[1]} exclude each other{why and ': '}{why}", context)
