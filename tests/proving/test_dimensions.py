"""Inputs that must have a dimension, or none: what runtimes may refuse is not proved."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from anydml.proving import prove
from anydml.proving.operator_calls import LIST_INPUTS, SCALAR_INPUTS
from anydml.proving.running import are_equal, run

NODES = {
    ("CenterCropPad", 1): ("CenterCropPad <axes = [0]> (x, k)", "int64", 4),
    ("ConstantOfShape", 0): ("ConstantOfShape (k)", "int64", 4),
    ("Dropout", 1): ("Dropout (x, k)", "float", 0.5),
    ("Dropout", 2): ("Dropout (x, , k)", "bool", 0),
    ("Expand", 1): ("Expand (x, k)", "int64", 4),
    ("Pad", 3): ("Pad (x, pads, , k)", "int64", 0),
    ("Reduce", 1): ("ReduceSum <keepdims = 1> (x, k)", "int64", 0),
    ("Reshape", 1): ("Reshape (x, k)", "int64", 4),
    ("Slice", 1): ("Slice (x, k, four)", "int64", 0),
    ("Slice", 2): ("Slice (x, zero, k)", "int64", 4),
    ("Slice", 3): ("Slice (x, zero, four, k)", "int64", 0),
    ("Slice", 4): ("Slice (x, zero, four, , k)", "int64", 1),
    ("Split", 1): ("Split (x, k)", "int64", 4),
    ("Squeeze", 1): ("Squeeze (z, k)", "int64", 0),
    ("Tile", 1): ("Tile (x, k)", "int64", 1),
}
"""A node of each input of the tables, its dtype and its element; but for pads of Pad, of which there are at least 2."""

TAKEN = "CenterCropPad", "Expand"
"""Operators whose lists may be without a dimension on ONNX Runtime."""


def _model(node, dtype, element, dims):
    return parser.parse_model(
        f"""<ir_version: 9, opset_import: ["": 18]> g (float[4] x) => (float[M] y)
        <{dtype}{dims} k = {{{element}}}, int64[2] pads = {{0, 0}}, int64[1] zero = {{0}}, int64[1] four = {{4}}>
        {{ z = Unsqueeze (x, zero) y = {node} }}"""
    )


def test_every_input_of_the_tables_is_tried():
    table = {(name, k) for inputs in (LIST_INPUTS, SCALAR_INPUTS) for name, numbers in inputs.items() for k in numbers}
    assert table - NODES.keys() == {("Pad", 1)}


@pytest.mark.parametrize(("name", "k"), NODES)
def test_an_input_with_another_rank_is_not_proved(name, k):
    node, dtype, element = NODES[name, k]
    ranks = ("[1]", "") if name in LIST_INPUTS else ("", "[1]")
    right, wrong = (_model(node, dtype, element, dims) for dims in ranks)
    assert prove(right, right, runs=False).verdict == "proved"
    assert prove(right, wrong, runs=False).verdict == "undecided"
    x = {"x": np.zeros(4, np.float32)}
    run(right, x)
    if name in TAKEN:
        assert are_equal(run(wrong, x), run(right, x))
        return
    with pytest.raises(Exception, match=r"(?s).+"):  # ONNX Runtime raises errors of several types
        run(wrong, x)


SIZES = {
    "declared": "float[?,?]", "right": "float[3,?]", "another": "float[4,?]", "a name": "float[?,K]",
    "no shape": "float", "unknown": "float[-1,?]", "another rank": "float[?,?,?]", "true for some sizes": "float[?,4]",
    "0": "float[0,?]",
}  # fmt: skip


@pytest.mark.parametrize("kind", SIZES)
def test_sizes_that_only_b_declares_for_an_output_must_be_right(kind):
    text = '<ir_version: 9, opset_import: ["": 18]> g (float[N,3] x) => (SIZES y) { a = Relu (x) y = Transpose (a) }'
    first, second = (parser.parse_model(text.replace("SIZES", SIZES[key])) for key in ("declared", kind))
    for model in (first, second):
        if kind == "no shape":
            second.graph.output[0].type.tensor_type.ClearField("shape")
        for dim in model.graph.output[0].type.tensor_type.shape.dim:
            if dim.dim_param == "?":
                dim.ClearField("value")
    is_wrong = kind in ("another", "another rank", "true for some sizes", "0")
    proof = prove(first, second, runs=False)
    assert (proof.verdict, proof.samples) == ("undecided" if is_wrong else "proved", [])
    assert not is_wrong or all(reason.startswith("B declares ") for reason in proof.reasons)
    # What A declares, it refuses likewise.
    assert prove(second, second, runs=False).verdict == "proved"
    if kind == "true for some sizes":
        assert prove(first, second, {"N": 4}, runs=False).verdict == "proved"
        assert prove(first, second, {"N": 5}, runs=False).verdict == "undecided"


@pytest.mark.parametrize("sizes", ["", "7,3", "N,3", "3"])
def test_sizes_that_only_b_declares_in_a_body_are_not_relied_on(sizes):
    text = """<ir_version: 9, opset_import: ["": 18]> g (float[N,3] x, bool c) => (float y) {
        y = If (c) <then_branch = t () => (float[?,?] a) { a = Relu (x) },
                    else_branch = e () => (float[?,?] b) { b = Neg (x) }>
    }"""
    first, second = (parser.parse_model(text.replace("?,?", declared)) for declared in ("?,?", sizes or "?,?"))
    for model in (first, second):
        for attribute in model.graph.node[0].attribute:
            shape = attribute.g.output[0].type.tensor_type
            if model is first:
                shape.ClearField("shape")
            elif not sizes:
                del shape.shape.dim[:]
    proof = prove(first, second, runs=False)
    assert proof.verdict == "undecided"
    assert proof.reasons == ["B declares sizes of outputs in a body of If, which A does not: they may be wrong"]
    # What A declares, it refuses likewise.
    assert prove(second, second, runs=False).verdict == "proved"
