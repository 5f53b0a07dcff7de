"""Models with a node that no runtime runs: each way to read a model refuses them, and so does ONNX Runtime."""

from __future__ import annotations

import warnings

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

from anydml import explain
from anydml.errors import ModelError
from anydml.onnx import backend
from anydml.onnx.node_descs import describe
from anydml.proving import prove
from anydml.proving.running import run
from anydml.slim import slim

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

IMPOSSIBLE = {
    "y = Reshape (x, n)": [[5, 3, 2], [5, -1, 2], [-1, -1, 2], [2, 3, 4, 0], [-2, 12]],
    "y = Expand (x, n)": [[2, 3, 5], [2, 3, -1], [2, 2, 3, 5]],
    "y = Tile (x, n)": [[1, 1, -1], [1, 1]],
    "y = Squeeze (x, n)": [[1], [3], [-4]],
    "y = Unsqueeze (x, n)": [[0, 0], [9]],
    "y, z = Split <axis = 1> (x, n)": [[1, 1], [-1, 4], [1, 2, 0]],
    "y = Gather <axis = 1> (x, n)": [[3], [0, -4]],
    "y = Gather <axis = 3> (x, n)": [[0]],
    "y = Slice (x, zero, one, n)": [[3], [-4]],
    "y = Slice (x, zero, one, zero, n)": [[0]],
    "y = Pad (x, n)": [[0, 0, -3, 0, 0, -3], [0] * 5],
    "y = Transpose <perm = [0, 1, 1]> (x)": [[]],
    "y = Transpose <perm = [1, 0]> (x)": [[]],
    "y = Flatten <axis = 4> (x)": [[]],
    "y = Concat <axis = 3> (x, x)": [[]],
    "t = Transpose (x) y = Concat <axis = 0> (x, t)": [[]],
    "r = Reshape (x, n) y = DepthToSpace <blocksize = 2> (r)": [[1, 2, 3, 4]],
    "r = Reshape (x, n) y = SpaceToDepth <blocksize = 2> (r)": [[1, 2, 3, 4]],
    "t = Transpose (x) y = Add (x, t)": [[]],
    "y = ConstantOfShape (n)": [[-7]],
}
CASES = [(body, numbers) for body, every in IMPOSSIBLE.items() for numbers in every]


def model(body, numbers, size=2):
    text = f"""<ir_version: 9, opset_import: ["": 18]> g (float[{size},3,4] x) => (float y)
        <int64[1] zero = {{0}}, int64[1] one = {{1}}> {{ k = Relu (x) {body} }}"""
    found = onnx.parser.parse_model(text)
    found.graph.output[0].type.tensor_type.ClearField("shape")
    found.graph.initializer.append(numpy_helper.from_array(np.array(numbers, np.int64), "n"))
    return found


WAYS = {
    "slim": slim,
    "prove": lambda found: prove(found, found, runs=False),
    "explain": explain,
}


@pytest.mark.parametrize(("body", "numbers"), CASES, ids=[f"{body} {numbers}" for body, numbers in CASES])
def test_all_commands_refuse_what_onnx_runtime_refuses(body, numbers):
    found = model(body, numbers)
    with pytest.raises(Exception, match=r".") as refusal:
        run(found, {"x": X})
    assert not isinstance(refusal.value, ModelError)
    errors = [finding.error for finding in describe(found) if finding.is_invalid]
    assert errors
    for name, way in WAYS.items():
        with pytest.raises(ModelError) as refused:
            way(found)
        assert str(refused.value).removeprefix("A: ") == str(errors[0]), name
    moving = onnx.ModelProto()
    moving.CopyFrom(found)
    del moving.graph.node[0]
    with pytest.raises(ModelError):
        backend.run_model(moving, [X])


@pytest.mark.parametrize(("body", "numbers"), CASES[:2] + CASES[14:18])
def test_given_sizes_show_what_is_impossible(body, numbers):
    found = model(body, numbers, "N")
    with pytest.raises(ModelError):
        slim(found, sizes={"N": 2})
    with pytest.raises(ModelError, match=r"^A: node "):
        prove(found, found, {"N": 2}, runs=False)
    proof = prove(model("y = Relu (x)", [], "N"), found, {"N": 2}, runs=False)
    assert proof.verdict == "undecided"


UNENFORCED = {
    "axes without a dimension": ("y = Unsqueeze (x, axis)", "<int64 axis = {1}>"),
    "a condition that is too long": ("y = Compress <axis = 0> (x, long)", "<bool[4] long = {1, 1, 1, 1}>"),
    "a word of a later version": ('y = Pad <mode = "wrap"> (x, ends)', "<int64[6] ends = {1, 0, 0, 0, 0, 1}>"),
}


@pytest.mark.parametrize("kind", UNENFORCED)
def test_what_onnx_runtime_takes_beyond_the_documents_is_slimmed(kind):
    body, constants = UNENFORCED[kind]
    found = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g (float[2,3,4] x) => (float[A,B,C] y) {constants} {{ {body} }}'
    )
    found.graph.output[0].type.tensor_type.ClearField("shape")
    (expected,) = run(found, {"x": X})
    assert [finding.error is not None for finding in describe(found)] == [True]
    np.testing.assert_array_equal(run(slim(found).model, {"x": X})[0], expected)
    assert prove(found, found, runs=False).verdict == "proved"
    with pytest.raises(ModelError):
        backend.run_model(found, [X])


def test_none_of_onnx_own_cases_is_impossible():
    """With their inputs as constants, so that elements are compared with sizes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)[::3]
    checked = 0
    for case in cases:
        found = onnx.ModelProto()
        found.CopyFrom(case.model)
        for value, array in zip(case.model.graph.input, case.data_sets[0][0], strict=True):
            if isinstance(array, np.ndarray) and array.dtype.kind in "iub" and value.name:
                found.graph.initializer.append(numpy_helper.from_array(array, value.name))
                found.graph.input.remove(value)
        try:
            findings = [*describe(found)]
        except ModelError:
            # Inputs of optional types, and names that onnx's checker refuses.
            continue
        checked += 1
        assert not any(finding.is_invalid for finding in findings), case.name
    assert checked > 500


def test_sequences_that_pass_through_branches_are_slimmed():
    """Identity of opset 13, by which a branch is replaced, takes tensors only."""
    branches = (
        ", ".join(
            f"{name}_branch = {name} () => (seq(float[4]) {name}s) {{ {name}s = SequenceConstruct ({name}x) }}"
            for name in ("then", "else")
        )
        .replace("thenx", "x")
        .replace("elsex", "x, x")
    )
    text = f"""<ir_version: 8, opset_import: ["": 13]> g (float[4] x) => (seq(float[4]) y) <bool yes = {{1}}>
        {{ y = If (yes) <{branches}> }}"""
    found = onnx.parser.parse_model(text)
    x = np.arange(4, dtype=np.float32)
    ((expected,),) = run(found, {"x": x})
    assert not any(finding.is_invalid for finding in describe(found))
    ((made,),) = run(slim(found).model, {"x": x})
    np.testing.assert_array_equal(made, expected)
