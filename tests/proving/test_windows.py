"""Proofs of convolutions and pools that say, or leave out, what holds by default."""

from itertools import product

import numpy as np
import pytest
from onnx import helper, numpy_helper, parser

from anydml.proving import prove
from anydml.proving.running import run

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


@pytest.mark.parametrize("operator", NODES)
def test_valid_is_without_padding(operator):
    valid = 'auto_pad = "VALID"'
    for attributes in ("", "pads = [0,0,0,0]", 'auto_pad = "NOTSET"'):
        assert prove(_model(operator, valid), _model(operator, attributes)).verdict == "proved"
    assert prove(_model(operator, valid), _model(operator, "pads = [0,0,0,1]"), runs=False).verdict == "undecided"


def _row(operator, size, kernel=3, **attributes):
    """A model of one node along rows of 7 elements, or of a size with a name."""
    is_pool = operator.endswith("Pool")
    weights = numpy_helper.from_array(np.arange(16 * kernel, dtype=np.float32).reshape(4, 4, kernel) % 11, "w")
    node = helper.make_node(operator, ["x"] if is_pool else ["x", "w"], ["y"], kernel_shape=[kernel], **attributes)
    values = [helper.make_tensor_value_info("x", 1, [2, 4, size]), helper.make_tensor_value_info("y", 1, [2, 4, None])]
    graph = helper.make_graph([node], "g", values[:1], values[1:], [] if is_pool else [weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


PADS = [*product(range(3), range(3))]
X = np.random.default_rng(0).standard_normal((2, 4, 7)).astype(np.float32)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER", "VALID"])
@pytest.mark.parametrize("operator", NODES)
@pytest.mark.parametrize("size", [7, "N"])
def test_padding_that_is_proved_equal_is_so_on_onnx_runtime(operator, mode, size):
    for strides, gap in ((1, 1), (2, 1), (3, 1), (1, 2)):
        if gap > 1 and operator == "Conv" and mode != "VALID":
            continue  # ONNX Runtime refuses it.
        attributes = {"strides": [strides], **({"dilations": [gap]} if gap > 1 else {})}
        first, proved = _row(operator, size, auto_pad=mode, **attributes), 0
        (expected,) = run(first, {"x": X})
        for pads in PADS:
            second = _row(operator, size, pads=pads, **attributes)
            is_proved = prove(first, second, runs=False).verdict == "proved"
            assert not is_proved or np.array_equal(run(second, {"x": X})[0], expected), (strides, gap, pads)
            proved += is_proved
        # Where kernels have gaps, runtimes do not agree; where strides do, all sizes would have to be known.
        is_known = gap == 1 and operator != "ConvTranspose" and (size == 7 or strides == 1)
        assert proved == (mode == "VALID" or is_known)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("operator", NODES)
def test_padding_below_0_is_not_taken_for_none(operator, mode):
    for size, kernel, step in ((7, 1, 2), (6, 1, 2), (3, 1, 3), (6, 1, 4), (7, 2, 4), (5, 2, 5)):
        attributes = {"kernel": kernel, "strides": [step]}
        needed = (-(-size // step) - 1) * step + kernel - size
        first, second = (_row(operator, size, **attributes, **how) for how in ({"auto_pad": mode}, {"pads": [0, 0]}))
        is_equal = operator != "ConvTranspose" and needed == 0
        assert prove(first, second, runs=False).verdict == ("proved" if is_equal else "undecided"), (size, kernel, step)


@pytest.mark.parametrize("operator", ["AveragePool", "LpPool", "MaxPool"])
@pytest.mark.parametrize("height", [2, 3])
def test_results_of_images_smaller_than_the_window_are_not_empty(operator, height):
    pooled, negated = (
        parser.parse_model(
            f'<ir_version: 8, opset_import: ["": 17]> g (float[1,1,{height},4] x) => (float[P,Q,R,S] y) {{ '
            f"a = {operator} <kernel_shape = [3,3], strides = [2,2]> (x) y = {last} (a) }}"
        )
        for last in ("Identity", "Neg")
    )
    image = np.ones((1, 1, height, 4), np.float32)
    assert not np.array_equal(run(pooled, {"x": image})[0], run(negated, {"x": image})[0]), "there are elements"
    assert prove(pooled, negated, runs=False).verdict == "undecided"
