"""What people see first, compared with what was kept: help, reprs, messages and the pages of the command line.

To renew what is kept, look at the change in ``git diff`` after ``ANYDML_RENEW=1 pytest tests/test_golden.py``.
"""

import contextlib
import doctest
import os
import pydoc
import re
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import anydml as dml
from anydml import dxdispatch
from anydml.cli import anydml as command
from anydml.operators import REGISTRY

CLICK = version("click").split(".")[:2]
GOLDEN = Path(__file__).parent / "golden"
X = np.arange(6)
T = dml.TensorDesc


def same(name, text):
    """The text is the one that is kept under this name."""
    text = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    kept = GOLDEN / f"{name}.txt"
    if os.environ.get("ANYDML_RENEW"):
        kept.write_text(text, encoding="utf-8")
    assert text == kept.read_text(encoding="utf-8")


def in_one_line(found):
    return f"{found[1]}({' '.join(map(str.strip, found[2].splitlines()))}) ->"


def test_help_of_a_function():
    text = pydoc.plain(pydoc.render_doc(dml.split))
    # Python 3.13 and later give each argument of a long signature a line of its own.
    same("help_split", re.sub(r"^(\w+)\(\n(.*?)\n\) ->", in_one_line, text, flags=re.MULTILINE | re.DOTALL))


def example_of(kind):
    """The desc that the example of a class makes."""
    names = {"dml": dml, "np": np}
    for example in doctest.DocTestParser().get_examples(kind.__doc__):
        with contextlib.suppress(SyntaxError):
            found = eval(example.source.strip().removesuffix(".problems()"), names)
            if isinstance(found, dml.OperatorDesc):
                return found
            continue
        exec(example.source, names)
    return names["desc"]


def test_reprs_of_descs():
    kinds = sorted(set(REGISTRY.values()), key=lambda kind: kind.__name__)
    descs = [example_of(kind) for kind in kinds]
    assert [type(desc) for desc in descs] == kinds
    for desc in descs:
        assert not desc.problems()
    shown = [*descs, T("FLOAT32", [2, 3]), T("FLOAT32", [2, 3], strides=[0, 1]), dml.Device("cpu"), descs[0].problems()]
    same("reprs", "\n".join(map(repr, shown)) + f"\n\n{descs[0].describe()}")


REFUSED = {
    "split": lambda: dml.split(X, 4),
    "split sizes": lambda: dml.split(X, [4, 4]),
    "split axis": lambda: dml.split(X, 2, axis=1),
    "split out": lambda: dml.split(X, 2, out=[X[:3]]),
    "join": lambda: dml.join([X, X.astype("f4")]),
    "join one array": lambda: dml.join(X),
    "slice": lambda: dml.slice(X, [-2], [1]),
    "slice1": lambda: dml.slice1(X, [0], [3], [0]),
    "gather": lambda: dml.gather(X, [0.5]),
    "gather word": lambda: dml.gather(X, [0], out_of_range="raise"),
    "overlap": lambda: dml.flip(X, out=X),
    "pad": lambda: dml.pad(X, [1], "edge"),
    "data type": lambda: T("FLOAT23", [1]),
    "feature level": lambda: dml.FeatureLevel.parse("21"),
    "device": lambda: dml.Device("gpu"),
    "axis": lambda: dml.SplitOperatorDesc(T("INT8", [6]), [T("INT8", [6])], 1).check(),
    "parts": lambda: dml.SplitOperatorDesc(T("INT8", [6]), [T("INT8", [5])], 0).check(),
    "level": lambda: dml.SplitOperatorDesc(T("INT8", [6]), [T("INT8", [6])], 0).check("1_0"),
    "64 bits": lambda: dml.Upsample2dOperatorDesc(
        T("INT64", [1, 1, 1, 1]), T("INT64", [1, 1, 1, 1]), (1, 1), "NEAREST_NEIGHBOR"
    ).check(),
    "bind": lambda: dml.Device("cpu").compile_operator(
        dml.SplitOperatorDesc(T("INT8", [6]), [T("INT8", [6])], 0)
    ).bind([X], [X]),
    "file": lambda: dxdispatch.load("none.json"),
    "empty file": lambda: dxdispatch.load("empty.json"),
    "comma": lambda: dxdispatch.load("comma.json"),
    "resource": lambda: dxdispatch.load("resource.json"),
    "operator": lambda: dxdispatch.load("operator.json"),
}  # fmt: skip
FILES = {
    "empty.json": "",
    "comma.json": '{\n  "resources": {}\n  "dispatchables": {}}',
    "resource.json": '{"resources": {"input": {"initialValuesDataType": "INT8", "initialValues": [1]}},\n'
    '"dispatchables": {},\n"commands": [\n{"type": "print", "resource": "inptu"}]}',
    "operator.json": '{"resources": {},\n"dispatchables": {"s": {"type": "DML_OPERATOR_SPLTI", "desc": {}}},\n'
    '"commands": []}',
}


def test_messages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    lines = []
    for call in REFUSED.values():
        with pytest.raises(ValueError) as refused:
            call()
        lines.append(f"{type(refused.value).__name__}: {refused.value}")
    same("messages", "\n".join(lines))


def pages(group, words=("anydml",)):
    """The help of a command and of those below it."""
    asked = ["--help"]
    result = CliRunner().invoke(command, [*words[1:], *asked], prog_name="anydml", terminal_width=80)
    assert result.exit_code == 0, result.output
    yield " ".join(words), result.output
    for name, below in getattr(group, "commands", {}).items():
        yield from pages(below, (*words, name))


@pytest.mark.skipif(CLICK < ["8", "2"], reason="older clicks break lines elsewhere")
def test_pages_of_the_command_line():
    found = dict(pages(command))
    assert len(found) >= 8
    for name, page in found.items():
        assert max(map(len, page.splitlines())) <= 80, name
        assert "..." not in re.sub(r"\[?(OPTIONS|ARGS|[A-Z]+)\]?\.\.\.", "", page), f"{name}: a help line is cut"
    same("command_line", "\n".join(f"$ {name} --help\n{page}" for name, page in found.items()))


def test_the_table_of_operators(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    result = CliRunner().invoke(command, ["ops"], prog_name="anydml")
    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 60
    first, second = result.output.split("\n\n")[:2]
    same("ops", f"{first}\n\n{second}")
