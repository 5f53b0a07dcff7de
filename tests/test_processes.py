"""Processes of Python beside this one, where there is no interpreter that they could run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from anydml.errors import ModelError
from anydml.processes import start_python


def proves(folder):
    pytest.importorskip("onnxruntime")
    from onnx import parser

    from anydml.proving import prove

    text = '<ir_version: 9, opset_import: ["": 18]> g (float[3] x) => (float[3] y) { y = Relu (x) }'
    proof = prove(parser.parse_model(text), parser.parse_model(text.replace("Relu", "Neg")))
    assert proof.verdict == "undecided"
    raise ModelError(proof.run.note)


def judges(folder):
    pytest.importorskip("onnx")
    from anydml.referee.judging import Worker

    Worker("anydml", 0)


def converts(folder):
    from anydml.stores.checkpoints.model_layouts import cached_layout

    cached_layout(folder, "llama", False, {})


@pytest.mark.parametrize("executable", [None, "", "/nothing here", "an application"])
@pytest.mark.parametrize("work", [proves, judges, converts])
def test_what_has_no_interpreter_says_so(monkeypatch, tmp_path, work, executable):
    if executable == "an application":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    else:
        monkeypatch.setattr(sys, "executable", executable)
    # Any model's, whether or not transformers is installed, and imported.
    monkeypatch.delitem(sys.modules, "transformers", raising=False)
    with pytest.raises(ModelError, match="/nothing here" if executable == "/nothing here" else "sys.executable"):
        work(tmp_path)


def test_the_current_folder_is_not_searched_for_modules(monkeypatch, tmp_path):
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert start_python("import json", "to test", cwd=Path()).wait() == 0
