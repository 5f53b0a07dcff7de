"""The command line is one program: its commands, all of them, take and answer the same things in the same way."""

import contextlib
import io
import json
import os
import sys
from pathlib import Path
from xml.etree import ElementTree

import click
import pytest

from anydml.cli import anydml, main
from anydml.cli.command import Command, all_commands
from anydml.cli.output import AnyPath, LocalPath
from anydml.dxdispatch import jsonc
from anydml.files.location import Location

COMMANDS = {" ".join(path): command for path, command in all_commands(anydml)}
READERS = {
    name: [each for each in command.params if isinstance(each, click.Argument) and getattr(each.type, "is_read", False)]
    for name, command in COMMANDS.items()
}
"""Arguments that are read, by command."""

MORE = {"judge": ["--engine", "anydml"], "cases": ["--output", "out"]}
"""Options without which a command does not begin."""

ENDINGS = {"convert": "", "judge": "", "run": ".json", "explain": ".json", "check": ".json", "manifest": ".npz"}
"""How the names of read files end; .onnx or .npy otherwise."""

OF_ONE_MEANING = {
    "--json", "--junit", "--sarif", "--overwrite", "--quiet", "--dry-run", "--no-follow", "--allow-outside",
    "--feature-level", "--only", "--strip", "--rename", "--layout", "--dtype", "--memory", "--size", "--html",
    "--verbose", "--scheduler", "--tp", "--pp", "--ep", "--fsdp", "--dcp", "--extras-from", "--no-extras",
    "--shard-size", "--output",
}  # fmt: skip
OTHERWISE = {("run", "--output"), ("cases", "--output"), ("run", "--allow-outside")}
"""Options that differ from those of their names: NAME=FILE of one output, and an output that is not an argument."""


@pytest.fixture
def ran(tmp_path, monkeypatch, capsys):
    """Run a command in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(each) for each in arguments])
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return run


def words(name, make):
    """The words of a command of which every file that it reads is what `make` makes."""
    command = COMMANDS[name]
    ending = ENDINGS.get(name, ".onnx" if {"slim", "prove", "onnx portable"} & {name} else ".npy")
    arguments = name.split()
    for parameter in command.params:
        if isinstance(parameter, click.Argument) and name not in ("cases", "ops"):
            is_read = parameter in READERS[name]
            arguments.append(make(f"in{ending}") if is_read else {"manifest": "out.json"}.get(name, "out.zarr"))
    if name in ("onnx portable", "slim"):
        arguments[-1] = "out.onnx"
    return [*arguments, *MORE.get(name, [])]


def missing(path):
    return path


def empty_folder(path):
    with contextlib.suppress(FileExistsError):
        os.mkdir(path)
    return path


def empty(path):
    open(path, "wb").close()
    return path


def binary(path):
    with open(path, "wb") as file:
        file.write(bytes(range(256)) * 4)
    return path


def unreadable(path):
    empty(path)
    os.chmod(path, 0)
    return path


def standard_input(path):
    return "-"


READ = [name for name in COMMANDS if READERS[name]]


@pytest.mark.parametrize("make", [missing, empty, binary, empty_folder, standard_input, unreadable])
@pytest.mark.parametrize("name", READ)
def test_what_cannot_be_read_is_one_line_and_a_document_in_every_form(ran, monkeypatch, name, make):
    if make is unreadable:
        # An administrator may read everything.
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        if name == "check":
            pytest.skip("each file is opened, so that the others are checked")
    if make is standard_input:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    arguments = words(name, make)
    code, out, err = ran(*arguments)
    assert (code, out) == (2, "")
    lines = [line for line in err.splitlines() if line.startswith("anydml: ")]
    assert len(lines) == 1, err
    error = lines[0].removeprefix("anydml: ")
    assert "Traceback" not in error
    assert "Errno" not in error
    if make is missing:
        assert "there is no such file" in error
    options = {text for each in COMMANDS[name].params for text in each.opts}
    for form in {"--json", "--junit", "--sarif"} & options:
        code, out, err = ran(*arguments, form)
        assert (code, lines[0] in err) == (2, True)
        if form == "--json":
            said = [json.loads(line)["error"] for line in out.splitlines()]
        elif form == "--junit":
            said = [each.attrib["message"] for each in ElementTree.fromstring(out).iter("error")]
        else:
            (report,) = json.loads(out)["runs"]
            assert not report["invocations"][0]["executionSuccessful"]
            said = [each["message"]["text"] for each in report["invocations"][0]["toolExecutionNotifications"]]
        assert said == [error]
    assert not [path for path in os.listdir() if path.startswith("out")], "nothing is written"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_wrong_option_is_in_the_document_too(ran, name):
    if "--json" not in {text for each in COMMANDS[name].params for text in each.opts}:
        pytest.skip("it prints no document")
    code, out, err = ran(*name.split(), "--json", "--no-such-option")
    assert code == 2
    # click quotes options since 8.2.
    assert json.loads(out)["error"].replace("'", "").replace(":", "").startswith("No such option --no-such-option")
    assert json.loads(out)["command"] == name
    assert err == f"anydml: {json.loads(out)['error']}\n"


def test_every_command_is_one_of_these():
    assert all(isinstance(command, Command) for command in COMMANDS.values())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_help_and_every_path_is_checked(name):
    command = COMMANDS[name]
    assert command.help
    assert command.short_help
    for parameter in command.params:
        assert isinstance(parameter, click.Argument) or parameter.help, parameter
        assert type(parameter.type) is not click.Path, parameter
        if isinstance(parameter, click.Argument) and name not in ("cases", "ops"):
            assert isinstance(parameter.type, (LocalPath, AnyPath)), parameter


@pytest.mark.parametrize("option", sorted(OF_ONE_MEANING))
def test_an_option_is_the_same_everywhere(option):
    parameters = {
        name: each for name, command in COMMANDS.items() for each in command.params
        if option in each.opts and (name, option) not in OTHERWISE
    }  # fmt: skip
    assert parameters
    forms = {(tuple(each.opts), each.is_flag, type(each.type).__name__, each.multiple) for each in parameters.values()}
    assert len(forms) == 1, parameters


@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if command._name_of_output])
@pytest.mark.parametrize("form", ["-o {}", "--output {}", "--output={}", "-o{}"])
def test_an_output_may_be_named_by_an_option(monkeypatch, tmp_path, name, form):
    monkeypatch.chdir(tmp_path)
    command = COMMANDS[name]
    arguments_of_all = words(name, empty)[len(name.split()) :]
    *sources, output = [each for each in arguments_of_all if each not in MORE.get(name, [])]
    seen = []
    for arguments in ([*sources, output], [*form.format(output).split(), *sources]):
        with click.Context(anydml) as parent, command.make_context(name, arguments, parent=parent) as context:
            seen.append(context.params)
    assert seen[0] == seen[1]
    assert seen[0]["output"] == output
    with click.Context(anydml) as parent, pytest.raises(click.UsageError, match="-o is given 2 times"):
        command.make_context(name, [*sources, "-o", "a", "-o", "b"], parent=parent)


def test_an_option_and_a_file_of_its_name_are_told_apart():
    command = COMMANDS["reshard"]
    with click.Context(anydml) as parent, command.make_context("reshard", [".", "--", "-o"], parent=parent) as context:
        assert context.params["output"] == "-o"


def test_the_value_of_an_option_may_begin_like_another():
    command, arguments = COMMANDS["reshard"], [".", "--strip", "-old", "-o", "out"]
    with click.Context(anydml) as parent, command.make_context("reshard", arguments, parent=parent) as context:
        assert (context.params["strip"], context.params["output"]) in ((("-old",), "out"), ("-old", "out"))


EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def piped(monkeypatch):
    """Put bytes into standard input."""
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize("name", ["run", "check", "explain"])
@pytest.mark.parametrize("kind", ["json", "onnx"])
def test_a_model_is_read_from_standard_input_as_from_a_file(ran, piped, name, kind):
    if kind == "json":
        data = (EXAMPLES / "gather_1.json").read_bytes()
    else:
        onnx = pytest.importorskip("onnx")
        tensors = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [2, 3]) for name in "xy"]
        start = onnx.helper.make_tensor("x", onnx.TensorProto.INT64, [2, 3], range(6))
        node = onnx.helper.make_node("Identity", ["x"], ["y"])
        graph = onnx.helper.make_graph([node], "g", tensors[:1], tensors[1:], [start])
        data = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]).SerializeToString()
    Path(f"model.{kind}").write_bytes(data)
    results = []
    for model in (f"model.{kind}", "-"):
        piped(data)
        code, out, err = ran(name, model, "--json")
        document = json.loads(out)
        assert document.pop("model") == model
        document.pop("dispatches", None)
        results.append((code, document, err))
    assert results[0] == results[1]


def test_paths_in_a_piped_model_start_from_the_current_folder(ran, piped):
    numpy = pytest.importorskip("numpy")
    numpy.save("x.npy", numpy.arange(4, dtype=numpy.float32))
    model = jsonc.loads((EXAMPLES / "gather_1.json").read_text(), Location("gather_1.json"))
    model["resources"]["input"]["initialValues"] = {"sourcePath": "x.npy"}
    piped(json.dumps(model).encode())
    code, out, err = ran("run", "-", "-q", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["error"] is None


def test_external_data_of_a_piped_model_start_from_the_current_folder(ran, piped):
    onnx, numpy = pytest.importorskip("onnx"), pytest.importorskip("numpy")
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [3]) for name in "xy")
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in
               (("x", numpy.arange(3, dtype="f")), ("at", numpy.array([2, 0, 1])))]  # fmt: skip
    graph = onnx.helper.make_graph([onnx.helper.make_node("Gather", ["x", "at"], ["y"])], "g", [x], [y], tensors)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    onnx.save(model, "model.onnx", save_as_external_data=True, location="data", size_threshold=0)
    data = Path("model.onnx").read_bytes()
    for name in ("run", "check"):
        results = []
        for file in ("model.onnx", "-"):
            piped(data)
            code, out, err = ran(name, file, "--json")
            results.append((code, err, out.replace(json.dumps(file), "MODEL")))
        assert results[0] == results[1]
        assert results[0][0] == 0
    piped(data)
    code, out, err = ran("run", "-", "--output", "y=data", "--overwrite")
    assert code == 2
    assert "data" in err
    piped(data)
    Path("data").unlink()
    code, out, err = ran("run", "-")
    assert (code, out) == (2, "")
    assert f"looked for at {Path('data').absolute()}" in err


def test_errors_of_a_piped_model_name_standard_input(ran, piped):
    piped(b'{"resources": {"x": 1}}')
    code, out, err = ran("run", "-")
    assert (code, out) == (2, "")
    assert err.startswith("anydml: standard input: line 1: ")


def test_other_files_are_listed_beside_one_that_cannot_be_read(ran):
    numpy = pytest.importorskip("numpy")
    numpy.save("a.npy", numpy.arange(3))
    code, out, err = ran("stores", "a.npy", "none.npy", "a.npy", "--json")
    documents = [json.loads(line) for line in out.splitlines()]
    assert code == 2
    assert [each["model"] for each in documents] == ["a.npy", "none.npy", "a.npy"]
    assert [each["error"] and f"anydml: {each['error']}\n" for each in documents] == [None, err, None]
    assert documents[0] == documents[2]


def test_quiet_commands_print_nothing_where_there_is_nothing_wrong(ran):
    numpy = pytest.importorskip("numpy")
    numpy.save("a.npy", numpy.arange(3))
    example = str(EXAMPLES / "slice1.json")
    assert ran("stores", "a.npy", "-q") == (0, "", "")
    assert ran("check", example, "-q") == (0, "", "")
    code, out, _ = ran("check", example, "-q", "--feature-level", "1_0")
    assert code == 1
    assert "there is no such operator at DML_FEATURE_LEVEL_1_0" in out


ONE_VALUE = [
    (name, option)
    for name, command in COMMANDS.items()
    for option in command.params
    if isinstance(option, click.Option) and not (option.is_flag or option.multiple or option.count)
    if option.name != "output_option"
]


@pytest.mark.parametrize("name, option", ONE_VALUE, ids=lambda value: getattr(value, "name", value))
def test_no_value_of_an_option_is_ignored(name, option):
    values = [f"{spelling}=1" if spelling.startswith("--") else f"{spelling}1" for spelling in option.opts] * 2
    message = f"{max(option.opts, key=len)} is given {len(values)} times, but takes one value"
    with click.Context(anydml) as parent, pytest.raises(click.UsageError, match=message):
        COMMANDS[name].make_context(name, [*values, ".", "out"], parent=parent)


def test_options_of_several_values_may_be_given_again():
    arguments = ["--drop=a", "--drop", "b", "-q", "-q", ".", "out"]
    with (
        click.Context(anydml) as parent,
        COMMANDS["reshard"].make_context("reshard", arguments, parent=parent) as context,
    ):
        assert ("a", "b") in context.params.values()
