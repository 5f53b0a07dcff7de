"""Nodes that tools write otherwise: axes from the end, Casts there and back, branches in another order, and more."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import ModelProto, parser

from anydml.proving import prove
from anydml.proving.running import error_of, random_inputs, run

IF = "y = If (c) <FIRST, SECOND>"
NEG = "then_branch = t () => (float[A,B] a) { a = Neg (x) }"
RELU = "else_branch = e () => (float[A,B] b) { b = Relu (x) }"
LOOP = """y = Loop (n, , x) <body = g (int64 i, bool d, p) => (bool e, q) { e = Identity (d) f = Abs (p) q = BODY }>"""
SCAN = "y = Scan <num_scan_inputs = 1, body = g (p) => (q) { f = Abs (p) q = BODY }> (x)"

SAME = [
    ("y = GatherElements <axis = -1> (x, i)", "y = GatherElements <axis = 1> (x, i)", "= 1", "= 0"),
    ("y = GatherElements <axis = -2> (x, i)", "y = GatherElements (x, i)", "(x, i)", "<axis = 1> (x, i)"),
    ("y, k = TopK <axis = 1> (x, one)", "y, k = TopK (x, one)", "(x, one)", "<axis = -2> (x, one)"),
    ("w = Cast <to = 11> (x) y = Cast <to = 1> (w)", "y = Identity (x)", "Identity", "Abs"),
    ("w = Cast <to = 6> (c) b = Cast <to = 9> (w) y = Where (b, x, z)", "y = Where (c, x, z)", "x, z", "z, x"),
    ("w = Cast <to = 11> (x) t = Transpose (w) u = Cast <to = 1> (t) y = Neg (u)", "u = Neg (x) y = Transpose (u)",
     "Neg", "Abs"),
    ("w = Cast <to = 10> (x) y = Cast <to = 1> (w)", "w = Cast <to = 10> (x) y = CastLike (w, x)", "= 10", "= 16"),
    ("y = CastLike (i, x)", "y = Cast <to = 1> (i)", "(i)", "(x)"),
    (IF.replace("FIRST", NEG).replace("SECOND", RELU), IF.replace("FIRST", RELU).replace("SECOND", NEG), "Neg", "Abs"),
    (LOOP.replace("BODY", "Mul (f, x)"), LOOP.replace("BODY", "Mul (x, f)"), "Mul", "Sub"),
    (LOOP.replace("BODY", "Cast <to = 1> (f)"), LOOP.replace("BODY", "Identity (f)"), "Identity (f)", "Neg (f)"),
    (SCAN.replace("BODY", "Cast <to = 1> (f)"), SCAN.replace("BODY", "Identity (f)"), "Identity", "Neg"),
    (IF.replace("FIRST", NEG).replace("SECOND", RELU).replace("(c)", "(yes)"), "y = Neg (x)", "Neg", "Relu"),
    (IF.replace("FIRST", NEG).replace("SECOND", RELU).replace("(c)", "(no)"), "y = Relu (x)", "Relu", "Neg"),
    ("a, m = Dropout (x) y = Where (m, a, z)", "y = Identity (x)", "(x)", "(z)"),
    ("y = Pad (x, ends, half, both)", "y = Pad (x, all, half)", "half", "zero"),
    ("y = CenterCropPad (x, wide)", "y = Pad (x, around)", "around", "beside"),
    ("y = CenterCropPad <axes = [-1]> (x, five)", "y = Pad (x, beside)", "beside", "around"),
]  # fmt: skip

HEADER = """<ir_version: 9, opset_import: ["": 18]> g
    (float[3,4] x, float[3,4] z, int64[3,4] i, bool[3,4] c) => (float[A,B] y)
    <int64[1] one = {1}, int64 n = {2}, int64[4] ends = {1, 2, 0, -1}, int64[2] both = {1, 0}, float half = {0.5},
     bool yes = {1}, bool no = {0},
     float zero = {0.0}, int64[4] all = {2, 1, -1, 0}, int64[2] wide = {6, 1}, int64[4] around = {1, -1, 2, -2},
     int64[1] five = {7}, int64[4] beside = {0, 1, 0, 2}> { """


def _model(body):
    text = HEADER.replace("bool[3,4] c", "bool c") if "If (c)" in body else HEADER
    return parser.parse_model(f"{text} {body} }}")


@pytest.mark.parametrize(("first", "second", "old", "new"), SAME, ids=range(len(SAME)))
def test_what_is_written_otherwise_is_proved(first, second, old, new):
    one, other = _model(first), _model(second)
    for pair in ((one, other), (other, one)):
        assert prove(*pair, runs=False).verdict == "proved"
    inputs = random_inputs(one)
    for a, b in zip(run(one, inputs), run(other, inputs), strict=True):
        assert error_of(a, b) == 0
    assert old in second
    wrong = _model(second.replace(old, new))
    assert prove(one, wrong, runs=False).verdict == "undecided"
    assert any(error_of(a, b) > 0 for a, b in zip(run(one, inputs), run(wrong, inputs), strict=True))


@pytest.mark.parametrize(("values", "back"), [(10, 1), (16, 1), (6, 1), (3, 7), (1, 7), (7, 1)])
def test_casts_to_fewer_digits_and_back_are_kept(values, back):
    text = '<ir_version: 9, opset_import: ["": 18]> g (TYPE[N] x) => (TYPE[A] y) { '
    text = text.replace("TYPE", {1: "float", 7: "int64"}[back])
    plain = parser.parse_model(f"{text} y = Identity (x) }}")
    cast = parser.parse_model(f"{text} a = Cast <to = {values}> (x) y = Cast <to = {back}> (a) }}")
    assert prove(plain, cast, runs=False).verdict == "undecided"


@pytest.mark.parametrize("values", [1, 3, 7, 10, 16, 17, 19])
def test_integers_are_not_held_by_short_floats(values):
    text = '<ir_version: 10, opset_import: ["": 23]> g (int8[N] x) => (int8[N] y) { '
    plain = parser.parse_model(f"{text} y = Identity (x) }}")
    cast = parser.parse_model(f"{text} a = Cast <to = {values}> (x) y = Cast <to = 3> (a) }}")
    expected = "undecided" if values in (16, 17, 19) else "proved"
    assert prove(plain, cast, runs=False).verdict == expected


def test_a_normalization_for_training_is_no_other():
    """Before opset 14, BatchNormalization is for training if it has more outputs than one."""
    text = """<ir_version: 9, opset_import: ["": 9]> g (float[N,2,3] x) => (float[A,B,C] y)
        <float[2] s = {1.0, 2.0}> { OUTPUTS = BatchNormalization (x, s, s, s, s) }"""
    one, several = (parser.parse_model(text.replace("OUTPUTS", names)) for names in ("y", "y, a, b, c, d"))
    assert prove(one, several, runs=False).verdict == "undecided"
    assert prove(several, one, runs=False).verdict == "undecided"
    newer = ModelProto()
    newer.CopyFrom(one)
    newer.opset_import[0].version = 15
    assert prove(one, newer, runs=False).verdict == "proved"
    x = {"x": np.random.default_rng(0).standard_normal((2, 2, 3)).astype(np.float32)}
    assert error_of(run(one, x)[0], run(newer, x)[0]) == 0
