"""`anydml prove` as a user types it."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import parser

from anydml.cli import main
from anydml.proving.running import run

TEXT = """<ir_version: 9, opset_import: ["": 18]> g (float[N,3] x) => (float[A,B] y, float[C,D] z)
    { a = Transpose (x) b = Transpose (a) y = Relu (b) z = Neg (x) }"""
SAME = TEXT.replace("Relu (b)", "Relu (x)")
OTHER = TEXT.replace("Relu (b)", "Abs (b)")
ROUNDED = SAME.replace("Relu (x)", "Add (r, o)").replace("{ a", "<float o = {0.0}> { r = Relu (x) a")


@pytest.fixture
def prove(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(first, second, *options):
        for name, text in (("a.onnx", first), ("b.onnx", second)):
            onnx.save(parser.parse_model(text), name)
        with pytest.raises(SystemExit) as ended:
            main(["prove", "a.onnx", "b.onnx", *options])
        found = capsys.readouterr()
        return ended.value.code or 0, found.out, found.err

    return call


def test_proved(prove):
    assert prove(TEXT, SAME) == (0, 'proved: both compute the same, for all sizes "N" from 1 on\n', "")
    assert prove(TEXT, SAME, "--size", "N=2") == (0, 'proved: both compute the same, for "N" = 2\n', "")


def test_different_and_the_input_is_written(prove):
    code, out, err = prove(TEXT, OTHER, "--save-input", "shown.npz")
    assert (code, err) == (1, "")
    assert out.startswith('different: they do not compute the same\n    output "y" where "N" = ')
    assert '\n        A: Relu "y": Relu("x")[3*N]\n        B: Abs "y": Abs("x")[3*N]\n' in out
    inputs = dict(np.load("shown.npz"))
    first, second = (run(onnx.load(name), inputs)[0] for name in ("a.onnx", "b.onnx"))
    assert not np.array_equal(first, second)
    code, _, err = prove(TEXT, OTHER, "--save-input", "shown.npz")
    assert (code, "exists" in err) == (2, True)


def test_rounding_is_an_option(prove):
    code, out, _ = prove(SAME, ROUNDED)
    assert (code, out.splitlines()[1]) == (3, "    0 is added, which makes 0 of −0")
    assert prove(SAME, ROUNDED, "--rounding")[0] == 0


def test_undecided_without_running(prove):
    code, out, _ = prove(TEXT, OTHER, "--no-run")
    assert (code, out.splitlines()[0]) == (3, "not decided: 1 output of 2 not proved")


def test_documents(prove):
    code, out, _ = prove(TEXT, OTHER, "--json")
    found = json.loads(out)
    assert (code, found["exit_code"], found["verdict"], found["outputs"]) == (
        1,
        1,
        "different",
        {"y": False, "z": True},
    )
    assert found["first_difference"]["nodes"] == ['Relu "y"', 'Abs "y"']
    code, out, _ = prove(TEXT, OTHER, "--junit")
    suite = ElementTree.fromstring(out)
    assert (code, suite.get("tests"), suite.get("failures")) == (1, "2", "1")
    assert [case.get("name") for case in suite if len(case)] == ["y"]
    code, out, _ = prove(TEXT, SAME, "--junit")
    assert (code, ElementTree.fromstring(out).get("failures")) == (0, "0")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--size", "M=2"], 'no size is named "M"; A has "N"'),
        (["--size", "N"], "write --size NAME=SIZE"),
        (["--json", "--junit"], "exclude each other"),
        (["--save-input", "shown.npy"], "its name must end in .npz"),
    ],
)
def test_wrong_options(prove, options, message):
    code, out, err = prove(TEXT, SAME, *options)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert message in json.loads(out)["error"] if "--json" in options else not out


def test_weights_need_not_be_equal(prove):
    assert prove(TEXT, SAME, "--weights", "none")[0] == 0
    assert "constants of floats are not compared" in prove(TEXT, SAME, "--weights", "none")[1]
