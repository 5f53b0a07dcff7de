"""Proofs of convolutions and pools that say, or leave out, what holds by default."""

import pytest
from onnx import parser

from anydml.proving import prove

WEIGHTS = "".join(["<float[4,4,3,3] w = {", ", ".join(str(k % 7) for k in range(144)), "}>"])
NODES = {
    "Conv": ("x, w", "", "[3,3]"),
    "ConvTranspose": ("x, w", "", "[3,3]"),
    "MaxPool": ("x", "kernel_shape = [2,2]", ""),
    "AveragePool": ("x", "kernel_shape = [2,2]", ""),
    "LpPool": ("x", "kernel_shape = [2,2]", ""),
}


def _model(operator, attributes, opset=17):
    inputs, needed, _ = NODES[operator]
    listed = ", ".join(filter(None, (needed, attributes)))
    head = f'<ir_version: 8, opset_import: ["": {opset}]>'
    node = f"y = {operator} {f'<{listed}>' if listed else ''} ({inputs})"
    return parser.parse_model(f"{head} g (float[N,4,8,8] x) => (float[N,P,Q,R] y) {WEIGHTS} {{ {node} }}")


@pytest.mark.parametrize("operator", NODES)
def test_what_holds_by_default_may_be_left_out(operator):
    kernel = NODES[operator][2]
    told = ["strides = [1,1]", "pads = [0,0,0,0]", *([f"kernel_shape = {kernel}"] if kernel else [])]
    if operator not in ("AveragePool", "LpPool"):
        told.append("dilations = [1,1]")
    for attributes in (*told, ", ".join(told)):
        assert prove(_model(operator, ""), _model(operator, attributes)).verdict == "proved"


@pytest.mark.parametrize("operator", NODES)
@pytest.mark.parametrize(
    "attributes", ["strides = [2,2]", "pads = [0,0,1,0]", 'auto_pad = "SAME_UPPER", strides = [1,1]']
)
def test_what_does_not_is_no_default(operator, attributes):
    assert prove(_model(operator, ""), _model(operator, attributes), runs=False).verdict != "proved"


def test_strides_of_old_opsets_have_no_default():
    assert prove(_model("MaxPool", "", 10), _model("MaxPool", "strides = [1,1]", 10), runs=False).verdict != "proved"


def test_attributes_that_differ_are_named():
    padded, strided = _model("Conv", "pads = [1,1,1,1]"), _model("Conv", "strides = [2,2]")
    difference = prove(padded, strided, runs=False).first_difference
    assert difference.terms[0].endswith(", with pads [1, 1, 1, 1] and the default strides")
    assert difference.terms[1].endswith(", with the default pads and strides [2, 2]")
