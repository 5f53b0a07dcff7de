"""The pages of the site: how many there are, and where they lead."""

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from anydml.cli import anydml
from anydml.cli.command import all_commands

DOCS = Path(__file__).parents[1] / "docs"
MAX_PAGES = 25


def test_there_are_few_pages_beside_those_of_operators():
    assert len([path for path in DOCS.rglob("*.md") if path.parent.name != "operators"]) <= MAX_PAGES


def test_no_page_has_a_heading_twice():
    for path in DOCS.rglob("*.md"):
        headings = re.findall(r"^##+ .*$", re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.S | re.M), re.M)
        assert len(headings) == len({*headings}), path.name


def broken_rows(text):
    """A document's rows that are printed as they are, or have more or fewer cells than their table."""
    code = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
    for table in re.findall(r"^\|.*(?:\n\|.*)*", code.sub("", text), re.MULTILINE):
        rows = table.split("\n")
        if len(rows) == 1 or not re.fullmatch(r"\|( *:?-+:? *\|)+", rows[1]):
            yield from rows
        else:
            yield from (row for row in rows if columns(row) != columns(rows[1]))


def columns(line):
    """The number of lines between cells, without those that are escaped or part of code."""
    return len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line)))


@pytest.mark.parametrize(
    "path", [*sorted(DOCS.parent.glob("*.md")), *sorted(DOCS.rglob("*.md"))], ids=lambda path: path.name
)
def test_no_table_is_broken(path):
    assert list(broken_rows(path.read_text(encoding="utf-8"))) == []


def test_a_broken_table_is_told():
    table = "| a | b |\n|---|--:|\n| 1 | `x \\| y` |\n"
    assert list(broken_rows(table)) == []
    assert list(broken_rows(f"{table}\n| 2 | 3 |\n")) == ["| 2 | 3 |"]
    assert list(broken_rows(f"{table}| 2 |\n")) == ["| 2 |"]
    assert list(broken_rows("| a |\n| 1 |\n")) == ["| a |", "| 1 |"]


def test_one_table_has_the_exit_codes_of_every_command():
    text = (DOCS / "command-line.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `anydml ([a-z ]+?)(?= [A-Z-]|`).*\| (.*?) \|$", text, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(" ".join(path) for path, _ in all_commands(anydml))
    assert all(codes.startswith("0") for _, codes in rows)


def test_help_of_every_command_ends_with_examples_that_it_accepts():
    for words, command in all_commands(anydml):
        shown = CliRunner().invoke(anydml, [*words, "--help"]).output.partition("\nExamples:\n")[2].splitlines()
        assert shown, words
        for line in shown:
            assert len(line) <= 80, line
            call = shlex.split(line.partition(" > ")[0])
            assert tuple(call[1 : 1 + len(words)]) == words
            command.make_parser(click.Context(command)).parse_args(call[1 + len(words) :])


def test_help_lists_every_command_once():
    listed = [name for names in anydml.sections.values() for name in names]
    assert sorted(listed) == sorted(anydml.commands)


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: path.relative_to(DOCS).as_posix())
def test_commands_that_are_shown_have_the_options_that_they_name(path):
    commands = {" ".join(words): command for words, command in all_commands(anydml)}
    for block in re.findall(r"^```sh\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            for call in re.findall(r"(?:^|[;&|] *)anydml ([^;&|#>]*)", line):
                name = next((each for each in commands if f"{call} ".startswith(f"{each} ")), None)
                if name is None:
                    continue
                known = {text for each in commands[name].params for text in each.opts} | {"-h", "--help"}
                for option in re.findall(r"(?<!\S)--[a-z][\w-]*", call):
                    assert option.replace("_", "-") in known, call
