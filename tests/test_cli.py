from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from trust import children

from anydml import dxdispatch
from anydml.cli import main
from anydml.feature_level import FeatureLevel
from anydml.operators import REGISTRY

EXAMPLES = Path(__file__).parents[1] / "examples"
SPLIT = str(EXAMPLES / "split.json")


@pytest.fixture
def anydml(capsys):
    """Run the command line in this process: exit code, standard output, standard error."""

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(argument) for argument in arguments])
        found = capsys.readouterr()
        return ended.value.code or 0, found.out, found.err

    return run


@pytest.fixture(params=["", "1"], ids=["buffered", "unbuffered"])
def environment(request):
    """The environment of a child that keeps what it prints until a line ends, or does not."""
    return {**os.environ, "PYTHONUNBUFFERED": request.param}


def edited(tmp_path, **desc):
    """The SPLIT example with a changed desc."""
    model = json.loads(Path(SPLIT).read_text().partition("\n")[2])
    model["dispatchables"]["split"]["desc"].update(desc)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    return path


@pytest.mark.parametrize(
    "arguments",
    [("run", SPLIT, "-i"), ("run", SPLIT, "-t"), ("cases", "--count"), ("judge", "x", "--jobs"), ("verify", "--first")],
    ids=" ".join,
)
@pytest.mark.parametrize("text", ["1e3", "nan", "", "0x10", "1.5"])
def test_numbers_that_are_no_integers(anydml, arguments, text):
    code, _, err = anydml(*arguments, text)
    assert code == 2
    assert f": {text!r} is not a valid integer. See 'anydml {arguments[0]} --help'." in err


@pytest.mark.skipif(os.name == "nt", reason="links need privileges")
@pytest.mark.parametrize("target", ["nothing", "link"])
@pytest.mark.parametrize("suffix", [".json", ".onnx", ".npy"])
def test_links_that_lead_nowhere(anydml, tmp_path, monkeypatch, suffix, target):
    monkeypatch.chdir(tmp_path)
    os.symlink(target + suffix, "link" + suffix)
    for command in ("stores",) if suffix == ".npy" else ("run", "check", "explain"):
        code, _, err = anydml(command, "link" + suffix)
        assert (code, err) == (2, f"anydml: link{suffix}: is a symbolic link that leads nowhere\n")


def test_files_named_like_options(anydml, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("-model.json", "--model.json"):
        Path(name).write_text(Path(SPLIT).read_text())
        code, _, err = anydml("check", name)
        assert code == 2
        assert f": the file of this name is written './{name}'. See 'anydml check --help'." in err
        assert anydml("check", f"./{name}")[0] == 0
        Path(name).unlink()


@pytest.mark.skipif(os.name == "nt", reason="the current folder cannot be removed")
def test_standard_input_in_a_folder_that_was_removed(tmp_path):
    folder = tmp_path / "gone"
    folder.mkdir()
    line = f"cd {folder} && rmdir {folder} && {sys.executable} -m anydml run -"
    model = Path(SPLIT).read_text()
    ended = subprocess.run(["sh", "-c", line], input=model, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert re.fullmatch(r"anydml: standard input: the current folder, .*, was removed\n", ended.stderr)


def test_run(anydml):
    code, out, err = anydml("run", SPLIT)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "Running on 'cpu'"
    assert re.fullmatch(r"Dispatch 'split': 1 iteration, \d+\.\d{4} ms \(CPU\)", lines[1])
    assert lines[2:] == [
        "Resource 'Out1' (float32 [1, 1, 2, 2]): 1, 2, 3, 4",
        "Resource 'Out2' (float32 [1, 1, 1, 2]): 5, 6",
        "Resource 'Out3' (float32 [1, 1, 3, 2]): 7, 8, 9, 10, 11, 12",
    ]


def test_the_tools_options(anydml):
    short = ("-i", 3, "-r", 2, "-w", 2, "-v", 2, "-I", 0)
    long = ("--dispatch_iterations", 3, "--dispatch_repeat", 2, "--warmup_samples", 2, "--timing_verbosity", 2)
    dashes = [str(word).replace("_", "-") for word in long]
    for options in (short, long, dashes):
        code, out, _ = anydml("run", SPLIT, *options)
        assert code == 0
        lines = out.splitlines()
        assert lines[1].startswith("Initialize 'split': ")
        assert lines[2] == "Dispatch 'split': 3 iterations"
        assert lines[3].startswith("CPU Timings (Cold) : 2 samples, ")
        assert lines[4].startswith("CPU Timings (Hot)  : 1 samples, ")
        assert lines[5] == "The timings of each iteration: "
        assert [line.partition(":")[0] for line in lines[6:9]] == ["iteration 0", "iteration 1", "iteration 2"]
    code, out, _ = anydml("run", SPLIT, "-t", 1)
    assert code == 0
    assert re.search(r"Dispatch 'split': [1-9]\d* iterations", out)
    code, out, _ = anydml("run", SPLIT, "-i", 0)
    assert (code, out.splitlines()[1]) == (0, "Resource 'Out1' (float32 [1, 1, 2, 2]): 0, 0, 0, 0")


def test_reference_and_explain(anydml):
    code, out, _ = anydml("run", SPLIT, "--device", "reference", "--explain", "--feature-level", "1_0")
    assert code == 0
    assert out.startswith("Running on 'reference'\nsplit: DML_SPLIT")
    assert "Resource 'Out2' (float32 [1, 1, 1, 2]): 5, 6" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "Missing argument 'MODEL'. See 'anydml run --help'."),
        (["onnx"], "Missing command. See 'anydml onnx --help'."),
        (["run", "none.json"], "none.json: there is no such file or folder"),
        (["run", SPLIT, "--device", "gpu"], "gpu"),
        (["run", SPLIT, "--feature-level", "9_9"], "9_9"),
        (["run", SPLIT, "-i", "x"], "-i"),
        (["run", SPLIT, "-r", "0"], "-r"),
        (["run", SPLIT, "-v", "3"], "-v"),
        (["run", SPLIT, "--bogus"], "--bogus"),
        (["check", SPLIT, "--feature-level", "9_9"], "9_9"),
        (["check", __file__], "line 1, column 1: expecting value: this is not JSON"),
        (["bogus"], "bogus"),
    ],
)
def test_errors_are_one_line_and_exit_2(anydml, arguments, message):
    code, out, err = anydml(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("anydml: ")
    assert message in err
    assert err.count("\n") == 1


def test_long_errors_are_cut_in_the_middle(anydml):
    code, out, err = anydml("run", f"{'x' * 1500}/{'y' * 1500}")
    assert (code, out) == (2, "")
    assert err.startswith(f"anydml: {'x' * 1000} … {'y' * 900}")
    assert err.endswith("File name too long\n")
    assert len(err) < 2100


def test_too_little_memory_is_one_line(anydml, monkeypatch):
    def load(*_, **__):
        raise MemoryError

    monkeypatch.setattr(dxdispatch, "load", load)
    assert anydml("run", SPLIT) == (2, "", "anydml: there is not enough memory\n")


def test_a_broken_rule_is_one_line_with_its_path(anydml, tmp_path):
    path = edited(tmp_path, Axis=4)
    code, out, err = anydml("run", path)
    assert (code, out) == (2, "")
    assert err.startswith(f"anydml: {path}: line 1: dispatchables.split.desc.Axis: DML_SPLIT: ")


def test_check_says_nothing_is_wrong(anydml):
    assert anydml("check", SPLIT, "--feature-level", "1_0") == (
        0,
        f"{SPLIT}: no problems at DML_FEATURE_LEVEL_1_0\n"
        "    DML_FEATURE_LEVEL_1_0 is the lowest level that allows all operators\n",
        "",
    )


def test_check_lists_every_problem(anydml, tmp_path):
    tensor = {"DataType": "FLOAT64", "Sizes": [6]}
    path = edited(tmp_path, InputTensor=tensor, OutputTensors=[tensor, tensor], OutputCount=2, Axis=1)
    code, out, err = anydml("check", path, "--feature-level", "2_1", "-v")
    assert (code, err) == (1, "")
    fields = [line.split(": ")[2] for line in out.splitlines() if not line.startswith(" ")]
    prefix = "dispatchables.split.desc"
    tensors = ("InputTensor", "OutputTensors[0]", "OutputTensors[1]")
    expected = [f"{prefix}.{name}.{field}" for name in tensors for field in ("Sizes", "DataType")]
    assert sorted(set(fields)) == sorted([f"{prefix}.Axis", *expected])
    assert "no feature level allows it" in out
    rules = [line for line in out.splitlines() if line.startswith("    rule: ")]
    assert len(rules) == len(fields)


def test_problems_of_one_rule_are_listed_together(anydml, tmp_path):
    tensor = {"DataType": "FLOAT64", "Sizes": [1, 1, 6, 2]}
    parts = [{**tensor, "Sizes": [1, 1, 1, 2]}] * 6
    path = edited(tmp_path, InputTensor=tensor, OutputTensors=parts, OutputCount=6)
    _, out, _ = anydml("check", path, "--feature-level", "2_1")
    lines = out.splitlines()
    named = [line.split(": ")[2].rpartition(".desc.")[2] for line in lines if not line.startswith(" ")]
    assert named == ["InputTensor.DataType", "OutputTensors[0].DataType", "OutputTensors[1].DataType"]
    assert [line.partition(":")[0] for line in lines[3:5]] == ["    rule", "    no feature level allows it"]
    assert lines[5] == "    and 4 more problems of this kind; -v lists each"
    assert anydml("check", path, "--feature-level", "2_1", "-v")[1].count("    rule: ") == 7


def test_check_names_the_lowest_level(anydml):
    code, out, _ = anydml("check", EXAMPLES / "gather_1.json", "--feature-level", "2_1")
    assert code == 1
    # Three tensors break one rule.
    assert out.count("    DML_FEATURE_LEVEL_3_0 allows it\n") == 1
    assert out.count("has 1 dimension, but DML_FEATURE_LEVEL_2_1 supports 4\n") == 3
    assert anydml("check", EXAMPLES / "gather_1.json", "--feature-level", "3_0")[0] == 0


def test_check_looks_at_bindings_too(anydml, tmp_path):
    big = {"DataType": "FLOAT32", "Sizes": [1, 1, 6, 3]}
    parts = [{"DataType": "FLOAT32", "Sizes": [1, 1, n, 3]} for n in (2, 1, 3)]
    code, out, _ = anydml("check", edited(tmp_path, InputTensor=big, OutputTensors=parts))
    assert code == 1
    assert 'commands[0].bindings.InputTensor: "input" has 48 bytes, but InputTensor needs 72' in out


def test_check_finds_what_is_bound_twice(anydml, tmp_path):
    model = json.loads(Path(SPLIT).read_text().partition("\n")[2])
    bindings = model["commands"][0]["bindings"]
    bindings["OutputTensors"][1] = bindings["InputTensor"]
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model))
    code, out, err = anydml("check", path)
    assert (code, err) == (1, "")
    assert "commands[0].bindings.OutputTensors[1]: DML_SPLIT: OutputTensors[1] overlaps InputTensor" in out
    code, ran, err = anydml("run", path)
    assert (code, ran, err) == (2, "", f"anydml: {out}")


def test_check_runs_and_takes_nothing(anydml, tmp_path):
    path = tmp_path / "model.json"
    huge = {
        "initialValuesDataType": "FLOAT64",
        "initialValues": {"valueCount": 2**32 - 1, "value": 0},
        "sizeInBytes": 2**60,
    }
    commands = [{"type": "writeFile", "resource": "A", "targetPath": "a.bin"}]
    path.write_text(json.dumps({"resources": {"A": huge}, "dispatchables": {}, "commands": commands}))
    assert anydml("check", path)[0] == 0
    assert list(tmp_path.iterdir()) == [path]


def test_ops_has_every_row_of_every_table(anydml):
    code, out, err = anydml("ops")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert all(len(line) <= 60 and line == line.rstrip() for line in lines)
    assert "…" not in out
    assert "\x1b" not in out
    for name, kind in REGISTRY.items():
        start = lines.index(name)
        section = lines[start : next((i for i in range(start, len(lines)) if not lines[i]), len(lines))]
        levels = [match[1] for line in section if (match := re.search(r"\s(\d_\d|any)\s", line))]
        assert levels == ([row.level.short for row in kind.SUPPORT] or ["any"])


def test_ops_agrees_with_a_row_of_the_document(anydml):
    """DML_GATHER_OPERATOR_DESC at DML_FEATURE_LEVEL_2_1: 4 dimensions; indices are UINT32."""
    lines = anydml("ops")[1].splitlines()
    start = lines.index("DML_OPERATOR_GATHER")
    row = next(i for i in range(start, len(lines)) if " 2_1 " in lines[i])
    assert [line.split() for line in lines[row : row + 4]] == [
        ["2_1", "InputTensor", "4", "FLOAT", "32", "16"],
        ["OutputTensor", "INT", "32", "16", "8"],
        ["UINT", "32", "16", "8"],
        ["IndicesTensor", "4", "UINT", "32"],
    ]


def test_ops_shows_the_operators_that_are_named(anydml):
    code, out, _ = anydml("ops", "gather", "DML_OPERATOR_SPLIT", "split_training")
    names = [line for line in out.splitlines() if "_OPERATOR_" in line]
    assert (code, names) == (0, ["DML_OPERATOR_GATHER", "DML_OPERATOR_SPLIT", "ORT_OPERATOR_SPLIT_TRAINING"])
    code, out, err = anydml("ops", "Gathr")
    assert (code, out) == (2, "")
    assert "did you mean DML_OPERATOR_GATHER?" in err


HELP = [
    [],
    ["--help"],
    ["-h"],
    ["run", "--help"],
    ["check", "-h"],
    ["doctor", "-h"],
    ["explain", "-h"],
    ["onnx", "-h"],
    ["ops", "-h"],
]


@pytest.mark.parametrize("arguments", HELP)
def test_help(anydml, arguments):
    code, out, err = anydml(*arguments)
    assert (code, err) == (0, "")
    assert out.startswith("Usage: anydml")
    assert "..." not in re.sub(r"\[ARGS\]\.\.\.|MODEL\.\.\.|\[OPERATOR\.\.\.\]", "", out), "every line is whole"
    assert all(len(line) <= 80 for line in out.splitlines())


def test_help_lists_the_devices(anydml):
    from anydml.engines import ENGINES

    assert f"--device [{'|'.join(ENGINES)}]" in anydml("run", "-h")[1]


@pytest.mark.parametrize(("shell", "marker"), [("bash", "COMPREPLY"), ("zsh", "compadd"), ("fish", "complete ")])
def test_shells_can_complete(shell, marker):
    running = process(env={**os.environ, "_ANYDML_COMPLETE": f"{shell}_source"})
    out, _ = running.communicate()
    assert marker in out.decode()


def test_devices_are_completed():
    words = {"COMP_WORDS": "anydml run --device c", "COMP_CWORD": "3", "_ANYDML_COMPLETE": "bash_complete"}
    out, err = process(env={**os.environ, **words}).communicate()
    assert (out.decode().split(), err) == (["plain,cpu", "plain,cuda"], b"")


@pytest.mark.parametrize("suffix", ["json", "onnx"])
@pytest.mark.parametrize("command", ["run", "check"])
def test_an_empty_file_is_called_one(anydml, tmp_path, command, suffix):
    if suffix == "onnx":
        pytest.importorskip("onnx")
    path = tmp_path / f"model.{suffix}"
    path.write_bytes(b"")
    rule = ": a model must be a JSON object" if suffix == "json" else ": an ONNX model must be a protobuf message"
    code, out, err = anydml(command, path)
    assert (code, out) == (2, "")
    assert err.startswith(f"anydml: {path}: the file is empty{rule}")


def test_the_package_is_the_command():
    command = [sys.executable, "-m", "anydml", "run", SPLIT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "Resource 'Out3' (float32 [1, 1, 3, 2]): 7, 8, 9, 10, 11, 12"
    assert done.stderr == ""


def test_version(anydml):
    code, out, _ = anydml("--version")
    assert code == 0
    assert re.fullmatch(r"anydml \d+\.\d+\S*\nPython 3\.\S+, numpy \d\S+(, \w+ \d\S*)*\n", out)


def process(*arguments, **options):
    command = [sys.executable, "-c", "from anydml.cli import main; main()", *map(str, arguments)]
    return subprocess.Popen(command, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options})


def test_what_a_run_never_imports():
    code = f"""
import sys
from anydml import dxdispatch
from anydml.cli import main
try:
    main(["run", {SPLIT!r}])
except SystemExit as end:
    assert not end.code
print(*(name for name in ("numba", "torch", "rich", "triton", "onnx", "hypothesis") if name in sys.modules))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize("arguments", [["ops"], ["run", SPLIT, "-i", 2000, "-v", 2], ["check", SPLIT]])
def test_a_closed_pipe_ends_quietly_and_not_as_if_a_model_had_problems(arguments, environment):
    reader, writer = os.pipe()
    os.close(reader)
    running = process(*arguments, stdout=writer, env=environment)
    os.close(writer)
    assert running.communicate()[1] == b""
    # A signal's, which is SIGPIPE.
    assert running.returncode == 128 + 13


@pytest.mark.parametrize("forms", [["--json", "--junit"], ["--sarif", "--json"], ["--json", "--junit", "--sarif"]])
def test_a_report_has_one_form(anydml, forms):
    code, out, err = anydml("check", SPLIT, *forms)
    assert (code, "exclude each other" in out) == (2, True)
    assert all(form in err for form in [form for form in ("--json", "--junit", "--sarif") if form in forms][:2])


needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
COMMANDS = (["run", SPLIT], ["ops"], ["--version"])


@needs_full
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_full_disk_under_the_output_is_one_line(arguments, environment):
    with open("/dev/full", "wb") as full:
        running = process(*arguments, stdout=full, env=environment)
        assert running.communicate()[1] == b"anydml: the output cannot be written: No space left on device\n"
    assert running.returncode == 2


@needs_full
def test_a_full_disk_under_the_errors_ends_as_the_error_does(environment):
    with open("/dev/full", "wb") as full:
        running = process("run", "none.json", stderr=full, env=environment)
        assert (running.communicate()[0], running.returncode) == (b"", 2)


@pytest.mark.skipif(sys.platform == "win32", reason="done by a shell")
@pytest.mark.parametrize(
    ("arguments", "closed", "code"),
    [
        (["run", SPLIT], ">&-", 0),
        (["run", SPLIT], "2>&-", 0),
        (["run", SPLIT], "<&- >&- 2>&-", 0),
        (["ops"], ">&-", 0),
        (["--help"], ">&-", 0),
        (["run", "none.json"], ">&-", 2),
        (["run", "none.json"], "2>&-", 2),
    ],
)
def test_a_process_without_output_still_works(arguments, closed, code):
    command = [sys.executable, "-c", "from anydml.cli import main; main()", *arguments]
    shell = ["sh", "-c", f'"$@" {closed}', "sh", *command]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr == (
        "anydml: none.json: there is no such file or folder\n" if (closed, code) == (">&-", 2) else ""
    )


def test_nothing_is_imported_before_interruptions_are_handled():
    package = Path(dxdispatch.__file__).parents[1]
    kinds = (ast.Import, ast.ImportFrom)
    first = next(
        node for node in ast.parse((package / "__init__.py").read_text("utf-8")).body if isinstance(node, kinds)
    )
    assert [name.name for name in first.names] == ["_interrupt"]
    module = ast.parse((package / "_interrupt.py").read_text("utf-8"))
    found = [node for node in ast.walk(module) if isinstance(node, kinds)]
    # What is built into Python, or imported by it before any program.
    assert {name.name for node in found for name in node.names} == {"_signal", "os", "sys"}


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_an_interrupt_ends_quietly():
    # As from a terminal: a shell starts what runs in the background with interrupts ignored.
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom anydml.cli import main; main()"
    )
    command = [sys.executable, "-c", program, "run", SPLIT, "-t", "60000"]
    # Without coverage, whose lock an interrupt may leave held.
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=children.environment())
    assert running.stdout.readline() == b"Running on 'cpu'\n"
    time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=600)
    # click ends the line that the terminal shows ^C on.
    assert (running.returncode, out, err) == (130, b"", b"\nanydml: interrupted\n")


IMPORTED = ("numpy", "numpy.linalg", "anydml.operators", "anydml.graph", "anydml.cli", "click")
"""What `main` comes after."""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
@pytest.mark.parametrize("module", [*IMPORTED, "pydantic", "anydml.dxdispatch.schedule"])
def test_an_interrupt_while_it_starts_ends_quietly(tmp_path, module):
    """Python sends itself the signal where it begins to import a module."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"sys.addaudithook(lambda event, about: event == 'import' and about[0] == {module!r}\n"
        "    and os.kill(os.getpid(), signal.SIGINT))\n"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**children.environment(), "PYTHONPATH": path}
    command = [sys.executable, "-m", "anydml", "run", SPLIT]
    done = subprocess.run(command, capture_output=True, env=environment, check=False)
    # First the line ends that the terminal shows ^C on.
    assert (done.returncode, done.stderr) == (130, b"\nanydml: interrupted\n")


def test_only_the_command_ends_quietly():
    starts = [["/usr/bin/anydml", "run"], ["-m"], [r"anydml.exe"], ["anydml"]]
    others = [["pytest"], ["-c"], [""], [], ["anydml.py"], ["/usr/lib/anydml/tool"]]
    code = (
        "import signal, sys\n"
        f"for arguments in {starts + others}:\n"
        "    for name in [name for name in sys.modules if name.startswith('anydml') and '.core' not in name]:\n"
        "        del sys.modules[name]\n"
        "    sys.argv = arguments\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    import anydml\n"
        "    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"] * len(starts) + ["True"] * len(others)
    # A process that a script has put into the background ignores SIGINT from its start.
    code = "import signal; before = signal.getsignal(signal.SIGINT); import anydml; "
    code += "assert signal.getsignal(signal.SIGINT) is before"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_names_beyond_the_terminals_encoding(tmp_path):
    path = tmp_path / "model.json"
    names = ["größe 漢字", "\\ud800"]
    resources = ", ".join(f'"{name}": {{"initialValuesDataType": "UINT8", "initialValues": [1]}}' for name in names)
    commands = ", ".join(f'{{"type": "print", "resource": "{name}"}}' for name in names)
    path.write_text(
        f'{{"resources": {{{resources}}}, "dispatchables": {{}}, "commands": [{commands}]}}', encoding="utf-8"
    )
    running = process("run", path, env={"PYTHONIOENCODING": "ascii", "PATH": ""})
    out, err = running.communicate()
    assert (running.returncode, err) == (0, b"")
    expected = [rb"Resource 'gr\xf6\xdfe \u6f22\u5b57' (uint8 [1]): 1", rb"Resource '\ud800' (uint8 [1]): 1"]
    assert out.splitlines()[1:] == expected


def test_every_level_can_be_asked_for(anydml):
    for level in FeatureLevel:
        assert anydml("check", EXAMPLES / "split_training.json", "--feature-level", level.short)[0] == 0
