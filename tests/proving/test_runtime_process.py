"""A runtime that ends its process ends no proof: what it was given is refused, and the next process runs on."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np
import pytest
from onnx import parser

from anydml.cli.proving import lines
from anydml.proving import prove, runtime_process
from anydml.proving.runtime_process import RefusedError, Runtime

HEADER = '<ir_version: 9, opset_import: ["": 18]> '
RELU, NEG = (
    parser.parse_model(f"{HEADER} g (float[N,3] x) => (float[N,3] y) {{ y = {operator} (x) }}")
    for operator in ("Relu", "Neg")
)
X = np.array([[1, -2, 3]], np.float32)
ENDS = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)" if os.name == "posix" else "import os; os._exit(7)"


def ends_at(monkeypatch, operator, code=ENDS):
    """Let the process end when it runs the model of an operator."""
    start = runtime_process.START.replace(
        "main()", f"run = m.runner\ncalls = []\ndef ends(model):\n    if model.graph.node[0].op_type == {operator!r}:\n"
        f"        {code}\n    return run(model)\nm.runner = ends\nm.main()"
    ).replace("import main", "import main\nimport anydml.proving.runtime_process as m")  # fmt: skip
    monkeypatch.setattr(runtime_process, "START", start)


def test_results_and_refusals():
    with Runtime([(RELU, None), (NEG, None)]) as runtime:
        np.testing.assert_array_equal(runtime.run(0, {"x": X})[0], np.maximum(X, 0))
        np.testing.assert_array_equal(runtime.run(1, {"x": X})[0], -X)
        with pytest.raises(RefusedError, match="x"):
            runtime.run(0, {})
        np.testing.assert_array_equal(runtime.run(0, {"x": X})[0], np.maximum(X, 0))


def test_the_next_process_runs_on(monkeypatch):
    ends_at(monkeypatch, "Neg")
    with Runtime([(RELU, None), (NEG, None)]) as runtime:
        for _ in range(2):
            np.testing.assert_array_equal(runtime.run(0, {"x": X})[0], np.maximum(X, 0))
            with pytest.raises(RefusedError, match="its process ended"):
                runtime.run(1, {"x": X})


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
def test_a_proof_says_which_model_ended_it(monkeypatch):
    ends_at(monkeypatch, "Neg")
    said = f"its process ended by {signal.SIGSEGV.name}"
    second = prove(RELU, NEG)
    assert (second.verdict, second.run.note) == ("different", f"ONNX Runtime refuses B: {said}")
    first = prove(NEG, RELU)
    assert (first.verdict, first.run.note) == ("undecided", f"ONNX Runtime refuses A: {said}")
    assert any(f"    ONNX Runtime refuses A: {said} where " in line for line in lines(first))


def test_a_run_without_an_end_is_ended(monkeypatch):
    ends_at(monkeypatch, "Relu", "import time; time.sleep(60)")
    proof = prove(RELU, NEG, seconds=0.5)
    said = "it takes longer than 0.5 s; anydml prove --seconds allows more"
    assert (proof.verdict, proof.run.note) == ("undecided", f"A is not run to its end: {said}")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no signals")
def test_what_the_system_kills_does_not_differ(monkeypatch):
    ends_at(monkeypatch, "Neg", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    proof = prove(RELU, NEG)
    assert proof.verdict == "undecided"
    assert proof.run.note == "B is not run to its end: its process ended by SIGKILL"


def test_an_interruption_ends_what_computes_on(monkeypatch):
    monkeypatch.setattr(runtime_process, "START", "import time; time.sleep(30)")
    with pytest.raises(KeyboardInterrupt), Runtime([(RELU, None)]) as runtime:
        runtime._start()
        process = runtime._process
        raise KeyboardInterrupt
    assert process.returncode not in (None, 0)


@pytest.mark.parametrize("sizes", ["100000,100000,100000,1000", f"{2**62},4", f"{2**63 - 1}"])
def test_inputs_that_no_memory_holds_are_not_run(sizes):
    one, other = (
        parser.parse_model(f"{HEADER} g (float[{sizes}] x) => (float[{sizes}] y) {{ y = {operator} (x) }}")
        for operator in ("Relu", "Neg")
    )
    proof = prove(one, other)
    assert (proof.verdict, proof.run.note[:14]) == ("undecided", "A is not run: ")
