"""Cases of other projects' suites: web-platform-tests, webnn-baseline, ONNX Runtime, DxDispatch.

They are looked for beside the project, at ``../shared/conformance``, where a file says where it comes from and what its
licence is. Each runs by every interface that can say it: functions, descs on the CPU engine and on the reference, nodes
of ONNX, model files.
"""

from __future__ import annotations

import base64
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import anydml as dml
from anydml import dxdispatch
from anydml.errors import AnydmlError
from anydml.onnx import backend, to_descs
from anydml.referee import judge
from anydml.referee.folders import ABOUT, DATA, MODEL, element_type

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "conformance"
FILES = sorted(path.name for path in FOLDER.glob("*.json"))
NODES = ("cast", "expand", "reshape", "transpose")
"""Operators of WebNN that are no descs here."""

VALIDATION = "wpt_validation.json"

NO_LONGER = ("[gather] default options and 0-D indices",)
"""Cases that WebNN has allowed before: it lists no UINT64 for indices now."""

MOST_FOR_REFERENCE = 100_000
"""Elements of an output."""

pytestmark = pytest.mark.skipif(not FILES, reason="other projects' cases are not there")


def cases(name: str) -> list[dict[str, Any]]:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))["cases"] if FILES else []


def of_kind(kind: str) -> list[str]:
    return [name for name in FILES if cases(name)[0]["kind"] == kind]


WEBNN = [name for name in of_kind("webnn") if cases(name)[0]["op"] not in NODES]


def array(tensor: dict[str, Any]) -> np.ndarray:
    """A tensor of a case, zeros where only its shape counts; one element for all where they are alike."""
    kind = {"float32": "FLOAT", "float64": "DOUBLE"}.get(tensor["dtype"], tensor["dtype"].upper())
    dtype = np.dtype(object)
    if kind != "STRING":
        dtype = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, kind))
    if "data" in tensor:
        return np.array(tensor["data"], dtype).reshape(tensor["shape"])
    return np.broadcast_to(np.array(tensor.get("fill", 0), dtype), tensor["shape"])


PIECE = 1 << 18
"""Elements that are compared at once."""


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    if expected.dtype == object:
        return found.shape == expected.shape and np.array_equal(found.astype(object), expected)
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return False
    # One case has 2 GB: piece by piece it needs no copies.
    one, other = found.reshape(-1), expected.reshape(-1)
    pieces = (slice(k, k + PIECE) for k in range(0, one.size, PIECE))
    return all(np.array_equal(in_bytes(one[piece]), in_bytes(other[piece])) for piece in pieces)


def in_bytes(piece: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(piece).view(np.uint8)


def report(wrong: list[str], count: int, least: int) -> None:
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong)
    assert count >= least, f"only {count} cases were run"


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
        "case": {"broken": case["name"], "sentence": "it fails"} if fails else {},
    }


def slice_sizes(case: dict[str, Any]) -> tuple[list[int], list[int]]:
    """Sizes of the result, and strides; WebNN's sizes are those of the window."""
    sizes = case["arguments"]["sizes"]
    strides = case["options"].get("strides", [1] * len(sizes))
    return [-(-size // stride) for size, stride in zip(sizes, strides, strict=True)], strides


def webnn_desc(case: dict[str, Any]) -> tuple[Any, list[np.ndarray]]:
    """The desc and its inputs; all tensors of one rank, 1 at least."""
    arrays = {name: array(tensor) for name, tensor in case["inputs"].items()}
    given, options, op = case["arguments"], case["options"], case["op"]
    expected = [tuple(tensor["shape"]) for tensor in case["expected"]]
    rank = max(1, *map(len, expected), *(a.ndim for a in arrays.values()))
    inputs = {name: a.reshape((1,) * (rank - a.ndim) + a.shape) for name, a in arrays.items()}
    tensors = {name: dml.TensorDesc(a.dtype.name.upper(), a.shape) for name, a in inputs.items()}
    first = given["inputs"][0] if op == "concat" else given["input"]
    extra = rank - arrays[first].ndim
    outputs = [dml.TensorDesc(tensors[first].data_type, (1,) * (rank - len(sizes)) + sizes) for sizes in expected]
    zeros, ones = [0] * rank, [1] * rank
    if op == "concat":
        used = given["inputs"]
        return dml.JoinOperatorDesc([tensors[n] for n in used], outputs[0], given["axis"] + extra), [
            inputs[n] for n in used
        ]
    x = tensors[first]
    if op == "split":
        return dml.SplitOperatorDesc(x, outputs, options.get("axis", 0) + extra), [inputs[first]]
    if op == "gather":
        indices = given["indices"]
        desc = dml.GatherOperatorDesc(
            x, tensors[indices], outputs[0], options.get("axis", 0) + extra, arrays[indices].ndim
        )
        return desc, [inputs[first], inputs[indices]]
    if op == "slice":
        _, strides = slice_sizes(case)
        strides = ones[:extra] + strides
        return dml.SliceOperatorDesc(x, outputs[0], zeros[:extra] + given["starts"], outputs[0].sizes, strides), [
            inputs[first]
        ]
    axes = [d + extra for d in options.get("axes", range(rank - extra))]
    flips = [-1 if d in axes else 1 for d in range(rank)]
    return dml.Slice1OperatorDesc(x, outputs[0], zeros, x.sizes, flips), [inputs[first]]


def dispatched(device: str, desc: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    outputs = [np.empty(tensor.sizes, tensor.data_type.dtype) for _, tensor in desc.outputs]
    dml.Device(device).compile_operator(desc).bind(inputs, outputs).dispatch()
    return outputs


def report_of(folder: Path, count: int) -> None:
    """Judge cases that were written to a folder or file; all must agree."""
    judged = judge(folder, "anydml", jobs=1)
    wrong = [f"{each.case}: {each.verdict}: {each.detail}" for each in judged.verdicts if each.verdict != "agrees"]
    report(wrong, len(judged.verdicts), count)


@pytest.mark.parametrize("name", of_kind("webnn"))
def test_webnn_by_functions(name, tmp_path):
    found = cases(name)
    (tmp_path / name).write_text(json.dumps({"tests": [webnn_test(case) for case in found]}))
    report_of(tmp_path / name, len(found))


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("name", [name for name in WEBNN if name != VALIDATION])
def test_webnn_by_descs(name, device):
    wrong, count, found = [], 0, cases(name)
    for case in found:
        desc, inputs = webnn_desc(case)
        try:
            results = dispatched(device, desc, inputs)
        except AnydmlError as error:
            wrong.append(f"{case['name']}: {error}")
            continue
        count += 1
        expected = [array(tensor) for tensor in case["expected"]]
        if not all(same(r.reshape(e.shape), e) for r, e in zip(results, expected, strict=True)):
            wrong.append(case["name"])
    report(wrong, count, len(found))


def node_of(case: dict[str, Any]) -> tuple[onnx.NodeProto, list[np.ndarray | None]]:
    """The node, and its inputs; None for one that is left out."""
    inputs = [array(tensor).copy() if "shape" in tensor else None for tensor in case["inputs"]]
    names = ["" if value is None else tensor["name"] for tensor, value in zip(case["inputs"], inputs, strict=True)]
    attributes = {key: value for key, (_, value) in case["attributes"].items()}
    outputs = [tensor["name"] if "shape" in tensor else "" for tensor in case["outputs"]]
    return helper.make_node(case["op"], names, outputs, domain=case["domain"], **attributes), inputs


def write_node(case: dict[str, Any], folder: Path) -> None:
    """Write a case as a folder of the referee."""
    node, inputs = node_of(case)
    given = [(name, value) for name, value in zip(node.input, inputs, strict=True) if value is not None]
    kinds = [element_type(value.dtype) for _, value in given]
    infos = [
        helper.make_tensor_value_info(name, kind, value.shape) for (name, value), kind in zip(given, kinds, strict=True)
    ]
    results = [(tensor["name"], array(tensor)) for tensor in case["outputs"] if "shape" in tensor]
    outputs = [
        helper.make_tensor_value_info(name, element_type(value.dtype), [None] * value.ndim) for name, value in results
    ]
    # What fails has no outputs.
    outputs = outputs or [helper.make_tensor_value_info(node.output[0], kinds[0], None)]
    opsets = [helper.make_opsetid("", case["opset"] if not case["domain"] else 13)]
    opsets += [helper.make_opsetid(case["domain"], 1)] if case["domain"] else []
    model = helper.make_model(helper.make_graph([node], "g", infos, outputs), opset_imports=opsets, ir_version=8)
    (folder / DATA).mkdir(parents=True)
    (folder / MODEL).write_bytes(model.SerializeToString())
    for kind, values in (("input", given), ("output", results)):
        for k, (_, value) in enumerate(values):
            tensor = onnx.numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape))
            (folder / DATA / f"{kind}_{k}.pb").write_bytes(tensor.SerializeToString())
    fails = case["expect"] == "failure"
    about = {"operator": case["op"], "document": "ONNX Runtime's tests", "sentence": case["name"], "features": []}
    (folder / ABOUT).write_text(json.dumps({**about, "readings": [], "broken": case["name"] if fails else ""}))


@pytest.mark.parametrize("name", of_kind("onnx"))
def test_onnx_by_nodes(name, tmp_path):
    found = [case for case in cases(name) if "disputed" not in case]
    fit = [case for case in found if not is_large(case)]
    for number, case in enumerate(fit):
        write_node(case, tmp_path / "cases" / str(number))
    report_of(tmp_path / "cases", len(fit))
    # Of what does not fit into a file, the nodes are run here.
    for case in found:
        if is_large(case):
            node, inputs = node_of(case)
            results = backend.run_node(node, inputs, **({} if case["domain"] else {"opset_version": case["opset"]}))
            expected = [array(tensor) for tensor in case["outputs"] if "shape" in tensor]
            assert all(map(same, results, expected)), case["name"]


DESCRIBED = {"Concat": 12, "ConcatTraining": 5, "Gather": 20, "Slice": 60, "Split": 30, "SplitTraining": 5}
"""Cases of an ONNX operator that DirectML has tensors and sizes for, at least."""


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("name", [name for name in of_kind("onnx") if name != "ort_identity.json"])
def test_onnx_by_descs(name, device):
    wrong, count, found = [], 0, cases(name)
    for case in found:
        if case["expect"] == "failure" or "disputed" in case or (device == "reference" and is_large(case)):
            continue
        node, inputs = node_of(case)
        model = model_of(case, node, inputs)
        try:
            (desc,) = to_descs(model, min_dimensions=1).values()
            desc.check()
        except AnydmlError:
            # Strings, small floats, sizes of zero: DirectML has none of them.
            continue
        count += 1
        moved = [value.view(np.uint8) if value.dtype == bool else value for value in inputs if value is not None]
        given = [value.reshape(tensor.sizes) for value, (_, tensor) in zip(moved, desc.inputs, strict=False)]
        expected = [array(tensor) for tensor in case["outputs"] if "shape" in tensor]
        for result, value in zip(dispatched(device, desc, given), expected, strict=False):
            if not same(result.reshape(value.shape), value.view(np.uint8) if value.dtype == bool else value):
                wrong.append(case["name"])
    report(wrong, count, DESCRIBED[found[0]["op"]])


def is_large(case: dict[str, Any]) -> bool:
    """Whether a case would take the reference, which works element by element, more than a moment."""
    return any(math.prod(tensor.get("shape", [0])) > MOST_FOR_REFERENCE for tensor in case["outputs"])


def model_of(case: dict[str, Any], node: onnx.NodeProto, inputs: list[np.ndarray | None]) -> onnx.ModelProto:
    """A model of one node, in which what says sizes is known."""
    named = [(name, value) for name, value in zip(node.input, inputs, strict=True) if value is not None]
    kinds = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in named}
    values = named[1:] if case["op"] in ("Slice", "Split", "SplitTraining") else []
    infos = [helper.make_tensor_value_info(name, kinds[name], value.shape) for name, value in named]
    results = [tensor for tensor in case["outputs"] if "shape" in tensor]
    kind = next(iter(kinds.values()))
    outputs = [
        helper.make_tensor_value_info(r["name"], TensorProto.INT64 if r["dtype"] == "int64" else kind, r["shape"])
        for r in results
    ]
    stored = [onnx.numpy_helper.from_array(value, name) for name, value in values]
    graph = helper.make_graph([node], "g", infos[: len(infos) - len(stored)], outputs, stored)
    opsets = [helper.make_opsetid("", 13 if case["domain"] else case["opset"]), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("name", of_kind("dxdispatch"))
def test_dxdispatch_models(name, device, tmp_path):
    wrong, found = [], cases(name)
    for number, case in enumerate(found):
        folder = tmp_path / str(number)
        folder.mkdir()
        for file, data in case.get("files", {}).items():
            (folder / file).write_bytes(base64.b64decode(data))
        path = folder / "model.json"
        path.write_text(case["model"], encoding="utf-8")
        lines: list[str] = []
        try:
            model = dxdispatch.load(path)
            dxdispatch.run(model, device=device, log=lines.append, warn=lambda line: None)
        except AnydmlError as error:
            if case.get("expect") != "failure":
                wrong.append(f"{case['name']}: {error}")
            continue
        # Cases of DxDispatch print no dtype and shape.
        printed = [
            re.sub(r"(?<=') \(\w+ \[[\d, ]*\]\)(?=:)", "", line) for line in lines if line.startswith("Resource")
        ]
        if case.get("expect") == "failure" or printed != case["prints"]:
            wrong.append(f"{case['name']}: {printed}")
        elif name == "dxdispatch_models.json" and model.warnings:
            wrong.append(f"{case['name']}: {model.warnings}")
    report(wrong, len(found), len(found))
