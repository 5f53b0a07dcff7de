"""Nodes of B that may refuse inputs that A takes, although all outputs are equal: nothing is proved then."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import parser

from anydml.proving import prove
from anydml.proving.runtime_process import RefusedError, Runtime

GIVEN = {
    "x": np.arange(5, dtype=np.float32), "l": np.zeros(3, np.float32), "i": np.array([0, 9, 3]),
    "c": np.array(False), "s": np.array(["1", "a"], object), "z": np.zeros((2, 1, 4), np.float32),
    "w": np.ones((1, 12, 4), np.float32), "r": np.ones((1, 12, 3), np.float32),
}  # fmt: skip

HEADER = """<ir_version: 9, opset_import: ["": 21]> g
    (float[N] x, float[L] l, int64[K] i, bool c, string[T] s, float[S,B,4] z, float[1,12,4] w, float[1,12,3] r)
    => (float[A] y) <bool no = {0}, float half = {0.5}> { """

IF = """y = If (c) <then_branch = t () => (float[A] a) { a = Neg (x) THEN },
    else_branch = e () => (float[A] b) { b = Relu (x) ELSE }>"""
THEN, ELSE, NEITHER = (
    IF.replace("THEN", one).replace("ELSE", other)
    for one, other in (("u = Add (x, l)", ""), ("", "u = Add (x, l)"), ("", ""))
)

REFUSING = [
    ("y = Relu (x)", "y = Relu (x) u = Gather (x, i)"),
    ("y = Relu (x)", "y = Relu (x) t = Transpose (x) u = Gather (t, i)"),
    ("y = Relu (x)", "y = Relu (x) u = Div (i, i)"),
    ("y = Relu (x)", "y = Relu (x) u = Mod (i, i)"),
    ("y = Relu (x)", "y = Relu (x) u = Cast <to = 1> (s)"),
    ("y = Relu (x)", "y = Relu (x) u = Cast <to = 10, saturate = 0> (x)"),
    ("y = Relu (x)", "y = Relu (x) u = QuantizeLinear <block_size = 2> (x, half)"),
    ("y = Relu (x)", "y = Relu (x) , u = LSTM <hidden_size = 4> (z, w, r)"),
    (THEN, f"{THEN} v = Add (x, l)"),
    (THEN, ELSE),
    (NEITHER, ELSE),
    ("y = Relu (x)", ELSE.replace("(c)", "(no)")),
    (THEN.replace("(c)", "(no)"), f"{THEN.replace('(c)', '(no)')} v = Add (x, l)"),
]


def _model(body):
    return parser.parse_model(f"{HEADER} {body} }}")


@pytest.mark.parametrize(("first", "second"), REFUSING, ids=range(len(REFUSING)))
def test_no_model_with_a_node_that_refuses_more_is_proved(first, second):
    models = _model(first), _model(second)
    with Runtime([(model, None) for model in models]) as runtime:
        runtime.run(0, GIVEN)
        with pytest.raises(RefusedError):
            runtime.run(1, GIVEN)
    proof = prove(*models, runs=False)
    assert proof.verdict == "undecided"
    assert "B may refuse inputs that A takes, at " in proof.reasons[0]
    assert proof.reasons[0].endswith('"')
    # What refuses less, and what refuses the same, is proved.
    assert prove(*models[::-1], runs=False).verdict == ("undecided" if (first, second) == (THEN, ELSE) else "proved")
    assert prove(models[1], models[1], runs=False).verdict == "proved"


def test_what_is_gathered_elsewhere_refuses_the_same_indices():
    first = _model("y = Relu (x) t = Neg (x) u = Gather (t, i)")
    second = _model("y = Relu (x) t = Abs (x) u = Gather (t, i)")
    assert prove(first, second, runs=False).verdict == "proved"
    assert prove(first, _model("y = Relu (x) t = Abs (l) u = Gather (t, i)"), runs=False).verdict == "undecided"


SPLIT = "k = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> () u, y2 = Split <num_outputs = "
CAST = "n = Constant <value_int = 3> () m = Cast <to = 1"


@pytest.mark.parametrize(("first", "second"), [
    ("y = Min (x)", "y = Min (x, none)"),
    (f"{SPLIT}2> (k) y = Identity (y2)", f"{SPLIT}3> (k) y = Identity (y2)"),
    ("y = Relu (x)", "a = Relu (x) y = Sum (a, none)"),
    (f"{CAST}> (n) y = Add (x, m)", f"{CAST}, saturate = 2> (n) y = Add (x, m)"),
    ("y = Relu (x)", "a = Relu (x) y = Cast <to = 1, saturate = 0> (a)"),
    (f"{CAST}> (n) y = Add (x, m)", f"{CAST}, saturate = 0> (n) y = Add (x, m)"),
])  # fmt: skip
def test_nothing_is_proved_of_what_onnx_does_not_define(first, second):
    """ONNX Runtime ends the process, computes anything, or refuses the attribute."""
    models = [_model(body) for body in (first, second)]
    for model in models:
        model.graph.node[-1].input[:] = [name if name != "none" else "" for name in model.graph.node[-1].input]
    assert prove(*models, runs=False).verdict == "undecided"
