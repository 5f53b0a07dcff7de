"""Options of other tools for checkpoints are answered by the line that does the same here."""

import re
import shlex

import click
import pytest

from anydml.cli import CHECKPOINT_COMMANDS, anydml, main
from anydml.cli.foreign_options import _GROUPS, ANSWERS, RESHARD_ONLY_OPTIONS

OWN = {
    name: {text for each in anydml.commands[name].params for text in (*each.opts, *each.secondary_opts)}
    for name in (*CHECKPOINT_COMMANDS, "rechunk")
}


def said(capsys, *arguments):
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder in which there is what the lines name."""
    monkeypatch.chdir(tmp_path)
    for name in ("in", "i", "FOLDER"):
        (tmp_path / name).mkdir()


@pytest.mark.parametrize("option", ANSWERS)
def test_the_answer_is_one_line_with_options_that_exist(option, capsys):
    assert option not in OWN["reshard"]
    error = said(capsys, "reshard", "in", "out", option)
    assert error == f"anydml: No such option '{option}': {ANSWERS[option]}. See 'anydml reshard --help'.\n"
    named = re.findall(r"(?<![\w-])--?[a-z][\w-]*", ANSWERS[option])
    assert {*named} <= OWN["reshard"] | OWN["verify"]
    # What is to be written for reshard can be parsed by it.
    for line in re.findall(r"write (--.*?)(?:, |$| or )", ANSWERS[option]):
        if "NAME for each" not in line and "," not in line:
            options = [re.sub(r"^N$", "2", each) for each in shlex.split(line)]
            with click.Context(anydml) as parent:
                anydml.commands["reshard"].make_context("reshard", ["in", "out", *options], parent=parent)
    for command in re.findall(r"anydml ([a-z]+)", ANSWERS[option]):
        assert command in anydml.commands


def test_each_option_has_one_answer():
    assert sum(len(options.split()) for _, options in _GROUPS) == len(ANSWERS)


@pytest.mark.parametrize("given", ["--max_shard_size", "--max-shard-size=5GB", "--MAX-SHARD-SIZE"])
def test_they_are_known_however_they_are_written(given, capsys):
    for command in ("reshard", "convert"):
        assert "write --shard-size 5GB. See" in said(capsys, command, "in", "out", given)


@pytest.mark.parametrize("option", RESHARD_ONLY_OPTIONS)
@pytest.mark.parametrize("command", CHECKPOINT_COMMANDS)
def test_options_of_reshard_are_answered_by_it(command, option, capsys):
    assert option in OWN["reshard"]
    if option not in OWN[command]:
        error = said(capsys, command, "in", *(["out"] if command != "stores" else []), option, "x")
        assert f"'{option}': write anydml reshard IN BETWEEN {option} … first, and name BETWEEN as IN. See" in error


def test_others_are_answered_as_before(capsys):
    assert "No such option" in said(capsys, "reshard", "in", "out", "--layuot", "x")
    assert "--layout" in said(capsys, "reshard", "in", "out", "--layuot", "x")
    assert "write --shard" not in said(capsys, "rechunk", "in", "out", "--max-shard-size", "x")


@pytest.mark.parametrize(
    "arguments", [("stores", ""), ("reshard", "", "o"), ("reshard", "i", ""), ("verify", "i", ""), ("rechunk", "", "o")]
)
def test_an_empty_path_is_not_this_folder(arguments, capsys):
    assert said(capsys, *arguments) == "anydml: a path is empty: this folder is written as .\n"
