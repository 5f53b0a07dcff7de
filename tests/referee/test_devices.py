"""Cases on anydml's devices, by descs where there are any, and cases of DxDispatch that say what is printed."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from anydml.errors import ModelError
from anydml.referee import find_cases, judge, make_cases, write_cases
from anydml.referee.directml.cases import directml_cases, write_directml
from anydml.referee.documents import as_json, lines_of
from anydml.referee.shrinking import shrink_all
from anydml.referee.webnn.cases import by_operator, webnn_cases, write_webnn

NOTHING = """
import sys
if any("anydml.referee.worker" in word for word in sys.orig_argv):
    from anydml import device

    device.BoundOperator.__init__ = lambda self, *given: setattr(self, "dispatch", lambda: None)
"""
"""What makes devices of a worker write nothing, which starts with it as `sitecustomize`."""

PRINTS = """
import sys
print("Running on 'GPU'")
print("Resource 'Out': 1, 2")
print("Resource 'Out' written to 'out.npy'")
"""
"""A program that prints as DxDispatch does."""

MODEL = {
    "resources": {
        "A": {"initialValuesDataType": "FLOAT32", "initialValues": {"sourcePath": "a.npy"}},
        "Out": {"initialValuesDataType": "FLOAT32", "initialValues": {"valueCount": 2, "value": 0}},
    },
    "dispatchables": {
        "cut": {
            "type": "DML_OPERATOR_SLICE1",
            "desc": {
                "InputTensor": {"DataType": "FLOAT32", "Sizes": [3]},
                "OutputTensor": {"DataType": "FLOAT32", "Sizes": [2]},
                "InputWindowOffsets": [0], "InputWindowSizes": [2], "InputWindowStrides": [1],
            },
        },
    },
    "commands": [
        {"type": "dispatch", "dispatchable": "cut", "bindings": {"InputTensor": "A", "OutputTensor": "Out"}},
        {"type": "print", "resource": "Out"},
        {"type": "writeFile", "resource": "Out", "targetPath": "out.npy"},
    ],
}  # fmt: skip
"""A model that reads a file beside it."""


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cases")
    write_cases(make_cases((), 99, seed=4), folder / "onnx")
    write_cases(by_operator(webnn_cases((), 54, seed=4)), folder / "webnn", write_webnn)
    write_cases(directml_cases((), 66, seed=4), folder / "dxdispatch", write_directml)
    return folder


def ways(judged):
    found = {}
    for way, count in judged.ways.items():
        short = way.partition(":")[0]
        found[short] = found.get(short, 0) + count
    return found


@pytest.mark.parametrize("device", ["cpu", "numpy", "reference"])
def test_a_device_runs_descs(cases, device):
    judged = judge(cases, f"anydml:{device}", jobs=2)
    assert judged.engine.endswith(f" on {device}")
    assert judged.counts["agrees"] == len(judged.verdicts) == 219
    taken = ways(judged)
    assert taken.keys() == {"a desc", "the backend", "functions"}
    assert sum(taken.values()) == 219
    assert taken["a desc"] > 66 + 36
    told = json.loads(as_json(judged))
    assert told["ways"] == judged.ways
    text = "\n".join(lines_of(judged))
    assert f"{taken['a desc']} × by a desc" in text
    assert "by the backend: DirectML has no operator for it" in text


def test_without_a_device_there_is_one_way(cases):
    judged = judge(cases / "webnn", "anydml", jobs=1)
    assert judged.ways == {}
    assert not any(line.startswith("run ") for line in lines_of(judged))


def test_what_a_device_gets_wrong_differs(cases, tmp_path, monkeypatch):
    (tmp_path / "sitecustomize.py").write_text(NOTHING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    judged = judge(cases, "anydml:cpu", jobs=2)
    by_desc = {each.verdict for each in judged.verdicts if each.way.startswith("a desc")}
    others = {each.verdict for each in judged.verdicts if not each.way.startswith("a desc")}
    # What is all zeros is right.
    assert by_desc == {"agrees", "differs"}
    assert judged.counts["differs"] > 100
    assert others == {"agrees"}


def test_illegal_cases_are_refused_on_a_device(tmp_path):
    write_cases(make_cases((), 66, seed=4, is_valid=False), tmp_path / "onnx")
    write_cases(by_operator(webnn_cases((), 36, 4, False)), tmp_path / "webnn", write_webnn)
    write_cases(directml_cases((), 33, 4, False), tmp_path / "dxdispatch", write_directml)
    judged = judge(tmp_path, "anydml:cpu", jobs=2)
    assert judged.counts["agrees"] == len(judged.verdicts) == 135
    # ONNX refuses indices outside, and DirectML clamps them.
    assert {each.case for each in judged.verdicts if each.way == "a desc"} <= {
        each.name for each in find_cases(tmp_path / "dxdispatch")
    }


@pytest.mark.parametrize(
    "engine, said",
    [
        ("anydml:cpx", "anydml has no device 'cpx': its devices are cpu, numpy, reference, cuda"),
        ("anydml:cpu:1", "unknown device 'cpu:1'"),
        ("anydml:", "there is no engine 'anydml:'"),
        ("anydml:cuda", "TRITON_INTERPRET=1"),
    ],
)
def test_devices_that_are_not_there(cases, engine, said, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(ModelError, match=said):
        judge(cases / "webnn", engine, jobs=1)


@pytest.fixture
def printing(tmp_path):
    """A case whose outputs are what is printed."""
    folder = tmp_path / "case"
    folder.mkdir()
    (folder / "model.json").write_text(json.dumps(MODEL))
    np.save(folder / "a.npy", np.float32([1, 2, 3]))
    (folder / "printed.txt").write_text("Resource 'Out': 1, 2\n")
    return folder


@pytest.mark.parametrize("engine", ["anydml", "anydml:cpu", "anydml:reference"])
def test_what_is_printed_is_compared(printing, engine):
    judged = judge(printing, engine, jobs=1)
    assert [(each.verdict, each.operator) for each in judged.verdicts] == [("agrees", "DML_SLICE1")]
    assert judged.is_clean
    assert not any("1e-3" in line for line in lines_of(judged))
    (printing / "printed.txt").write_text("Resource 'Out': 1, 3\n")
    (found,) = judge(printing, engine, jobs=1).verdicts
    assert (found.verdict, "Out': 1, 2, not Resource" in found.detail) == ("differs", True)
    assert not (printing / "out.npy").exists()


def test_programs_and_other_machines_print(printing, tmp_path):
    (tmp_path / "engine.py").write_text(PRINTS)
    assert judge(printing, f"command:{sys.executable} {tmp_path / 'engine.py'}", jobs=1).is_clean
    (printing / "there").mkdir()
    assert judge(printing, "outputs:there", jobs=1).counts["differs"] == 1
    (printing / "there/printed.txt").write_text("Running on 'GPU'\r\nResource 'Out': 1, 2\r\n")
    assert judge(printing, "outputs:there", jobs=1).is_clean


def test_what_a_verbose_print_command_prints(printing):
    (printing / "model.json").write_text(json.dumps(MODEL).replace('"print",', '"print", "verbose": true,'))
    lines = ["Resource 'Out':", "[0] 1 (0x3F800000)", "[1] 2 (0x40000000)"]
    (printing / "printed.txt").write_text("\n".join(lines))
    assert judge(printing, "anydml", jobs=1).is_clean
    (printing / "printed.txt").write_text("\n".join(lines[:2]))
    assert judge(printing, "anydml", jobs=1).counts["differs"] == 1
    (printing / "printed.txt").write_text("nothing")
    (found,) = judge(printing, "anydml", jobs=1).verdicts
    assert (found.verdict, "has no line of a print command" in found.detail) == ("not run", True)


def test_models_that_a_case_says_are_refused_or_run(printing):
    (printing / "model.json").write_text('{"dispatchables": {"a": {"type": "DML_OPERATOR_OF_OTHERS"}}}')
    (found,) = judge(printing, "anydml", jobs=1).verdicts
    assert (found.verdict, found.operator) == ("refuses", "model.json")
    for text in ("{", "[]", ""):
        (printing / "model.json").write_text(text)
        (found,) = judge(printing, "anydml", jobs=1).verdicts
        assert (found.verdict, found.kind) == ("not run", "unreadable case")


def test_a_case_says_what_is_expected_once(printing):
    np.save(printing / "expected_0.npy", np.float32([1, 2]))
    with pytest.raises(ModelError, match=r"has both expected_0\.npy and printed\.txt"):
        judge(printing, "anydml", jobs=1)
    (printing / "expected_0.npy").unlink()
    (printing / "printed.txt").unlink()
    with pytest.raises(ModelError, match=r"has no expected_0\.npy and no printed\.txt"):
        judge(printing, "anydml", jobs=1)


def test_cases_of_others_are_judged_but_not_shrunk(printing, tmp_path):
    about = {"operator": "SLICE1", "document": "a suite", "sentence": "a test", "readings": [], "features": []}
    (printing / "case.json").write_text(json.dumps(about))
    (printing / "printed.txt").write_text("Resource 'Out': 1, 3")
    judged = judge(printing, "anydml", jobs=1)
    (line,) = shrink_all(judged, "anydml", tmp_path / "small")
    assert "case is not shrunk" in line
