"""Cases of other projects' suites: web-platform-tests, webnn-baseline, ONNX Runtime, DxDispatch.

They are looked for beside the project, at ``../shared/conformance``, where a file says where it comes from and what its
licence is. They are written as `anydml.referee` reads them, and judged: anydml's functions and backend, and DirectML's
descs on the CPU engine and on the reference.
"""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from anydml import dxdispatch
from anydml.referee import judge
from anydml.referee.anydml_engine import DESC
from anydml.referee.case_folders import ABOUT, DATA, MODEL
from anydml.referee.directml.model_folders import StoredDirectml
from anydml.referee.external_engines import PRINTED
from anydml.referee.schema_texts import element_type

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "conformance"
FILES = sorted(path.name for path in FOLDER.glob("*.json"))

NO_LONGER = ("[gather] default options and 0-D indices",)
"""Cases that WebNN has allowed before: it lists no UINT64 for indices now."""

MOST = 1 << 31
"""Bytes of a file of ONNX, at most."""

ENGINES = ("anydml", "anydml:cpu", "anydml:reference")

DESCRIBED = {"Concat": 26, "ConcatTraining": 6, "Gather": 40, "Slice": 86, "Split": 54, "SplitTraining": 6}
"""Cases of an ONNX operator that DirectML has tensors and sizes for, at least."""

WITHOUT = ("cast", "reshape")
"""WebNN's operators of which there is no desc."""

pytestmark = pytest.mark.skipif(not FILES, reason="other projects' cases are not there")


def cases(name: str) -> list[dict[str, Any]]:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))["cases"] if FILES else []


def of_kind(kind: str) -> list[str]:
    return [name for name in FILES if cases(name)[0]["kind"] == kind]


def array(tensor: dict[str, Any]) -> np.ndarray:
    """A tensor of a case; one element for all where they are alike."""
    kind = {"float32": "FLOAT", "float64": "DOUBLE"}.get(tensor["dtype"], tensor["dtype"].upper())
    dtype = np.dtype(object) if kind == "STRING" else helper.tensor_dtype_to_np_dtype(getattr(TensorProto, kind))
    if "data" in tensor:
        return np.array(tensor["data"], dtype).reshape(tensor["shape"])
    return np.broadcast_to(np.array(tensor["fill"], dtype), tensor["shape"])


def judged_by(engine: str, cases: Path, count: int) -> int:
    """Judge cases that were written to a folder or file, all of which must agree; return how many have descs."""
    # One has 2 GB, which a busy machine takes its time for.
    judged = judge(cases, engine, jobs=1, seconds=600)
    wrong = [f"{each.case}: {each.verdict}: {each.detail}" for each in judged.verdicts if each.verdict != "agrees"]
    assert not wrong, f"{len(wrong)} of {len(judged.verdicts)}:\n" + "\n".join(wrong)
    assert len(judged.verdicts) == count
    assert (sum(judged.ways.values()) == count) == (engine != "anydml")
    return sum(number for way, number in judged.ways.items() if way.startswith(DESC))


def about(case: dict[str, Any], operator: str, document: str) -> dict[str, Any]:
    """What is said of a case."""
    broken = case["name"] if case.get("expect") == "failure" else ""
    return {
        "operator": operator, "document": document, "sentence": case["name"], "broken": broken, "readings": [],
        "features": [],
    }  # fmt: skip


def webnn_test(case: dict[str, Any]) -> dict[str, Any]:
    """A case as the referee reads it: a test of web-platform-tests."""

    def tensor(given: dict[str, Any]) -> dict[str, Any]:
        data = given.get("data", [given.get("fill", 0)])
        return {"data": data, "descriptor": {"shape": given["shape"], "dataType": given["dtype"]}}

    given = [{key: value} for key, value in case["arguments"].items()] + [{"options": case["options"]}]
    fails = case.get("expect") == "failure" or case["name"] in NO_LONGER
    # Where only sizes are given, all elements are zeros.
    dtype = next((each["dtype"] for each in case["inputs"].values()), "float32")
    outputs = case.get("expected", [{"shape": sizes, "dtype": dtype} for sizes in case.get("shapes", [])])
    expected = {f"output{k}": tensor(each) for k, each in enumerate(outputs)}
    names: Any = [*expected] or ["output0"]
    operator = {"name": case["op"], "arguments": given, "outputs": names if case["op"] == "split" else names[0]}
    inputs = {name: tensor(each) for name, each in case["inputs"].items()}
    return {
        "name": case["name"],
        "graph": {"inputs": inputs, "operators": [operator], "expectedOutputs": expected},
        "case": about({**case, "expect": "failure"}, case["op"], "web-platform-tests") if fails else {},
    }


def write_tests(tests: list[dict[str, Any]], path: Path) -> Path:
    path.write_text(json.dumps({"tests": tests}))
    return path


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", of_kind("webnn"))
def test_webnn(name, engine, tmp_path):
    found = [webnn_test(case) for case in cases(name)]
    valid = [test for test in found if not test["case"] and test["graph"]["operators"][0]["name"] not in WITHOUT]
    described = judged_by(engine, write_tests(found, tmp_path / name), len(found))
    assert described == (0 if engine == "anydml" else len(valid))


def write_node(case: dict[str, Any], folder: Path) -> None:
    """Write a case as a folder of the referee."""
    inputs = [array(tensor) if "shape" in tensor else None for tensor in case["inputs"]]
    names = ["" if value is None else tensor["name"] for tensor, value in zip(case["inputs"], inputs, strict=True)]
    attributes = {key: value for key, (_, value) in case["attributes"].items()}
    outputs = [tensor["name"] if "shape" in tensor else "" for tensor in case["outputs"]]
    node = helper.make_node(case["op"], names, outputs, domain=case["domain"], **attributes)
    given = [(name, value) for name, value in zip(names, inputs, strict=True) if value is not None]
    results = [(tensor["name"], array(tensor)) for tensor in case["outputs"] if "shape" in tensor]
    infos = [helper.make_tensor_value_info(name, element_type(value.dtype), value.shape) for name, value in given]
    # What fails has no outputs.
    wanted = results or [(node.output[0], given[0][1])]
    outputs = [
        helper.make_tensor_value_info(name, element_type(value.dtype), [None] * value.ndim if results else None)
        for name, value in wanted
    ]
    opsets = [helper.make_opsetid("", case["opset"] if not case["domain"] else 13)]
    opsets += [helper.make_opsetid(case["domain"], 1)] if case["domain"] else []
    model = helper.make_model(helper.make_graph([node], "g", infos, outputs), opset_imports=opsets, ir_version=8)
    (folder / DATA).mkdir(parents=True)
    (folder / MODEL).write_bytes(model.SerializeToString())
    for kind, values in (("input", given), ("output", results)):
        for k, (_, value) in enumerate(values):
            tensor = onnx.numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape))
            (folder / DATA / f"{kind}_{k}.pb").write_bytes(tensor.SerializeToString())
    (folder / ABOUT).write_text(json.dumps(about(case, case["op"], "ONNX Runtime's tests")))


def fits(case: dict[str, Any]) -> bool:
    """Whether the outputs of a case fit into files of ONNX."""
    return all(math.prod(tensor.get("shape", [0])) < MOST for tensor in case["outputs"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", of_kind("onnx"))
def test_onnx(name, engine, tmp_path, record_property):
    every = cases(name)
    found = [case for case in every if "disputed" not in case and fits(case)]
    for number, case in enumerate(found):
        write_node(case, tmp_path / str(number))
    described = judged_by(engine, tmp_path, len(found))
    assert described >= (0 if engine == "anydml" else DESCRIBED.get(found[0]["op"], 0))
    left_out = f"{len(every) - len(found)} disputed or too large for a file"
    record_property("in summary", f"{name} by {engine}: {len(found)} agree, {described} by descs, {left_out}")


@pytest.mark.parametrize("engine", ["anydml", "anydml:cpu"])
def test_gathers_that_do_not_fit_into_files_of_onnx(engine, tmp_path):
    """A test of WebNN says in one number that all elements are alike. The reference is too slow for it."""
    tests = []
    for case in (case for name in of_kind("onnx") for case in cases(name) if not fits(case)):
        x, indices = ({**tensor, "op": "input"} for tensor in case["inputs"])
        axis = case["attributes"]["axis"][1]
        given = {"name": case["name"], "op": "gather", "inputs": {"x": x, "i": indices}, "expected": case["outputs"]}
        tests.append(webnn_test({**given, "arguments": {"input": "x", "indices": "i"}, "options": {"axis": axis}}))
    assert judged_by(engine, write_tests(tests, tmp_path / "large.json"), 1) == (engine != "anydml")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", of_kind("dxdispatch"))
def test_dxdispatch(name, engine, tmp_path):
    found = cases(name)
    for number, case in enumerate(found):
        folder = tmp_path / str(number)
        folder.mkdir()
        for file, data in case.get("files", {}).items():
            (folder / file).write_bytes(base64.b64decode(data))
        (folder / StoredDirectml.MODEL).write_text(case["model"], encoding="utf-8")
        (folder / PRINTED).write_text("\n".join(case["prints"]), encoding="utf-8")
        (folder / ABOUT).write_text(json.dumps(about(case, "", "DxDispatch's tests")))
    described = judged_by(engine, tmp_path, len(found))
    assert described == (0 if engine == "anydml" else len(found))


def test_dxdispatch_models_have_no_warnings(tmp_path):
    for case in cases("dxdispatch_models.json"):
        path = tmp_path / "model.json"
        path.write_text(case["model"], encoding="utf-8")
        assert not dxdispatch.load(path).warnings
