"""Options that several commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

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
