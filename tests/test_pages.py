"""The pages of the site: how many there are, and where they lead."""

import re
from pathlib import Path

import pytest

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


def test_one_table_has_the_exit_codes_of_every_command():
    text = (DOCS / "command-line.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `anydml ([a-z ]+?)(?= [A-Z-]|`).*\| (.*?) \|$", text, re.MULTILINE)
    assert sorted(name for name, _ in rows) == sorted(" ".join(path) for path, _ in all_commands(anydml))
    assert all(codes.startswith("0") for _, codes in rows)


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
