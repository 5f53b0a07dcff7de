"""Common parts of all commands of `anydml`: OUT as an option, and documents of errors."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import click

OUTPUT = ("-o", "--output")

BOTH_NAMES = re.compile(r"(--[\w-]+(?: [A-Z]+)?) \(\w+=\w*\)")
"""Matches ``--option (argument=…)``, of which the command line shows only the option."""

ARGUMENT = re.compile(r"(?<=: )[a-z_]+(?= (?:is|has|must|names|takes) )")
"""Matches the argument name at the start of a message, so that it can be replaced by its option."""


class Command(click.Command):
    """A command whose argument OUT, if it has one, may also be written as -o OUT, and whose help ends with examples."""

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.examples = examples
        output = next(
            (
                parameter
                for parameter in self.params
                if isinstance(parameter, click.Argument) and parameter.name == "output"
            ),
            None,
        )
        self._name_of_output = output and (output.metavar or "OUT")
        if output is not None:
            text = f"{self._name_of_output}, if it is not the last argument."
            self.params.append(
                click.Option((*OUTPUT, "output_option"), expose_value=False, metavar=self._name_of_output, help=text)
            )

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples, a line each."""
        if self.examples:
            with formatter.section("Examples"):
                formatter.write("".join(f"  {ctx.command_path} {example}".rstrip() + "\n" for example in self.examples))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments; the value of -o becomes the last argument.

        Raises:
            UsageError: an option that has one value is given twice, of which click would ignore the first.
        """
        words = self._with_output_last(ctx, args) if self._name_of_output else args
        if not ctx.resilient_parsing:
            _, _, parameters = self.make_parser(ctx).parse_args([*words])
            for option, count in Counter(parameters).items():
                if count > 1 and _has_one_value(option):
                    commas = ", of items between commas" if ",…" in (option.metavar or "") else ""
                    name = max(option.opts, key=len)
                    raise click.UsageError(f"{name} is given {count} times, but takes one value{commas}", ctx)
        return super().parse_args(ctx, words)

    def _with_output_last(self, ctx: click.Context, args: Sequence[str]) -> list[str]:
        other_arguments, outputs = list[str](), list[str]()
        with_values = {
            name
            for parameter in self.params
            if isinstance(parameter, click.Option) and not (parameter.is_flag or parameter.count)
            for name in parameter.opts
        }
        words = iter(args)
        for word in words:
            if word == "--":
                other_arguments += [word, *words]
            elif word in with_values and word not in OUTPUT:
                # A value may begin with -o.
                other_arguments += [word, *islice(words, 1)]
            elif word in OUTPUT:
                if (value := next(words, None)) is None:
                    raise click.UsageError(f"Option '{word}' requires an argument", ctx)
                outputs.append(value)
            elif word.startswith("--output="):
                outputs.append(word.removeprefix("--output="))
            elif word.startswith("-o") and len(word) > 2:
                outputs.append(word[2:])
            else:
                other_arguments.append(word)
        if len(outputs) > 1:
            raise click.UsageError(f"-o is given {len(outputs)} times, but one {self._name_of_output} is written", ctx)
        return [*other_arguments, *(() if "--" in other_arguments or not outputs else ["--"]), *outputs]


def _has_one_value(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and not (parameter.is_flag or parameter.multiple or parameter.count)


class Group(click.Group):
    """A group of such commands.

    Attributes:
        sections: the names of the group's commands by heading of `--help`; if empty, all are under one heading.
    """

    command_class = Command
    sections: Mapping[str, Sequence[str]] = {}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, each section under its heading."""
        if not self.sections:
            super().format_commands(ctx, formatter)
        for heading, command_names in self.sections.items():
            limit = formatter.width - 6 - max(map(len, self.commands))
            rows = [(name, self.commands[name].get_short_help_str(limit)) for name in command_names]
            with formatter.section(heading):
                formatter.write_dl(rows)


def all_commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield the words of each command, and the command."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from all_commands(command, (*path, name))
        else:
            yield (*path, name), command


def command_of(group: click.Group, args: Sequence[str]) -> click.Command | None:
    """Return the command that the words after `anydml` begin with, or None."""
    commands = (command for path, command in all_commands(group) if tuple(args[: len(path)]) == path)
    return next(commands, None)


def with_options(message: str, command: click.Command | None = None) -> str:
    """Name the options of a command in an error of a function of Python: ``--tp is 0`` for ``tp is 0``.

    Args:
        message: the error, which may name arguments beside options, such as ``--overwrite (overwrite=True)``.
        command: the command; by default, the one that is running.
    """
    command = command or click.get_current_context().command
    names = [max(option.opts, key=len) for option in command.params if isinstance(option, click.Option)]
    options = {name.removeprefix("--").replace("-", "_"): name for name in names}
    message = BOTH_NAMES.sub(r"\1", message)
    return ARGUMENT.sub(lambda match: options.get(match[0], match[0]), message)


def document_of_error(group: click.Group, args: Sequence[str], message: str) -> str | None:
    """Return the error as a document in the form that the command's options name; None if they name no form.

    Args:
        group: all commands.
        args: the words after `anydml`.
        message: the error.
    """
    for path, command in all_commands(group):
        if tuple(args[: len(path)]) != path:
            continue
        options = {name for parameter in command.params for name in parameter.opts}
        forms = (name for name in ("json", "junit", "sarif") if f"--{name}" in options.intersection(args))
        form = next(forms, None)
        if form == "json":
            return json.dumps({"command": " ".join(path), "error": message})
        if form is not None:
            from anydml.cli.check_results import Report
            from anydml.cli.reports import FORMS

            return FORMS[form]([Report(f"anydml {' '.join(path)}", "", (), (), error=message)])
    return None
