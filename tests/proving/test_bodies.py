"""Movement in the bodies of If, Loop and Scan, and what of shapes in them is known."""

import numpy as np
import pytest
from onnx import parser

from anydml.proving import prove
from anydml.proving.running import run

HEADER = '<ir_version: 9, opset_import: ["": 18]> g '
IF = """(float[N,4,8] x, bool c) => (float[A,B,C] y) {
    z = If (c) <then_branch = t () => (float[A,B,C] p) { BODY }, else_branch = e () => (float[A,B,C] q) { q = Neg (x) }>
    y = AFTER }"""
LOOP = """(float[N,4,8] x, int64 k) => (float[A,B,C] y) <bool go = {1}> {
    z = Loop (k, go, x) <body = g (int64 i, bool d, float[A,B,C] x2) => (bool dd, float[A,B,C] p) {
        dd = Identity (d) BODY }>
    y = AFTER }"""
SCAN = """(float[5,N,4,8] x) => (float[A,B,C,D] y) {
    z = Scan <num_scan_inputs = 1, body = g (float[A,B,C] x2) => (float[D,E,F] p) { BODY }> (x) y = Identity (z) }"""
THERE = "u = Transpose <perm = [0, 2, 1]> (IN) v = Relu (u) p = Transpose <perm = [0, 2, 1]> (v)"
TURNED = "w = Transpose <perm = [1, 2, 0]> (z) y = Transpose <perm = [2, 0, 1]> (w)"


def _model(text, body, after="Identity (z)"):
    text = text.replace("BODY", body).replace("IN", "x" if "If" in text else "x2")
    return parser.parse_model(HEADER + text.replace("y = AFTER", after if "=" in after else f"y = {after}"))


@pytest.mark.parametrize("text", [IF, LOOP, SCAN], ids=["If", "Loop", "Scan"])
def test_movement_in_bodies_is_followed(text):
    first = _model(text, THERE)
    assert prove(first, _model(text, "p = Relu (IN)")).verdict == "proved"
    assert prove(first, _model(text, "p = Abs (IN)")).verdict == "different"
    assert (
        prove(first, _model(text, THERE.replace("v = Relu (u)", "v = Softmax <axis = 1> (u)"))).verdict == "different"
    )


@pytest.mark.parametrize("text", [IF, LOOP], ids=["If", "Loop"])
def test_movement_behind_bodies_is_followed(text):
    first = _model(text, "p = Relu (IN)", TURNED)
    assert prove(first, _model(text, "p = Relu (IN)")).verdict == "proved"
    assert prove(first, _model(text, "p = Relu (IN)", "Neg (z)")).verdict == "different"


def test_shapes_that_rounds_change_are_not_known():
    """Each round turns a matrix, so that flattening it is not a fixed movement of what goes in."""
    text = """(float[2,3] x, int64 k) => (float[A,B] y) <bool go = {1}, int64[2] s = {3, 2}, int64[2] f = {-1, 2}> {
        y = Loop (k, go, x) <body = g (int64 i, bool d, float[A,B] h) => (bool dd, float[C,D] p) {
            dd = Identity (d) BODY }>
    }"""
    first = _model(text, "t = Transpose <perm = [1, 0]> (h) p = Relu (t)")
    wrong = _model(text, "r = Relu (h) u = Transpose <perm = [1, 0]> (r) p = Reshape (u, s)")
    same = _model(text, "r = Relu (h) p = Transpose <perm = [1, 0]> (r)")
    assert prove(first, wrong).verdict != "proved"
    assert prove(first, same).verdict in ("proved", "undecided")
    assert prove(first, first).verdict == "proved"


@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
@pytest.mark.parametrize("at", [None, 0, 1, 2, -1])
@pytest.mark.parametrize("is_turned", [False, True])
def test_what_a_scan_joins_has_the_shape_that_runtimes_make(axis, at, is_turned):
    options = ["num_scan_inputs = 1"]
    options += [] if axis is None else [f"scan_input_axes = [{axis}]"]
    options += [] if at is None else [f"scan_output_axes = [{at}]"]
    options += ["scan_input_directions = [1]"] if axis == 1 else []
    text = """(float[5,3,4] x) => (float[A,B,C] y) SHAPE { z = Scan <OPTIONS, body = g (p) => (q) { q = BODY }> (x)
        y = AFTER }"""
    text = text.replace("OPTIONS", ", ".join(options)).replace("BODY", "Transpose (p)" if is_turned else "Neg (p)")

    def scan(shape):
        sizes = "" if shape is None else f"<int64[3] s = {{{', '.join(map(str, shape))}}}>"
        after = "Identity (z)" if shape is None else "Reshape (z, s)"
        return parser.parse_model(HEADER + text.replace("SHAPE", sizes).replace("AFTER", after))

    plain = scan(None)
    (result,) = run(plain, {"x": np.random.default_rng(0).standard_normal((5, 3, 4)).astype(np.float32)})
    assert prove(plain, scan(result.shape), runs=False).verdict == "proved"
    assert prove(plain, scan(result.shape[::-1]), runs=False).verdict == "undecided"


def test_what_a_scan_joins_of_sizes_that_depend_on_elements_has_no_known_shape():
    """In both, a round finds one element, but the names of their numbers must not be equal."""
    text = """(float[N,4] x, float[N,4] u) => (int64[A] y) { z = Scan <num_scan_inputs = 1,
        body = g (p) => (q) { q = NonZero (p) }> (x) v = Scan <num_scan_inputs = 1, body = g (p) => (q)
        { q = NonZero (p) }> (u) y = Shape (READ) }"""
    assert prove(_of(text, "z"), _of(text, "v"), runs=False).verdict == "undecided"
    assert prove(_of(text, "z"), _of(text, "z"), runs=False).verdict == "proved"


def _of(text, name):
    return parser.parse_model(HEADER + text.replace("READ", name))
