"""Movement in the bodies of If, Loop and Scan goes, and what is computed stays, in onnxruntime."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

from anydml.onnx.walk import subgraphs
from anydml.proving import prove
from anydml.slim import slim

HEADER = '<ir_version: 9, opset_import: ["": 18]> g '
TURN = "u = Transpose <perm = [0, 2, 1]> (IN) v = Relu (u) w = Transpose <perm = [0, 2, 1]> (v)"
CUT = "u = Reshape (IN, shape) t = Transpose <perm = [0, 1, 3, 2]> (u) r = Transpose <perm = [0, 1, 3, 2]> (t)"
MODELS = {
    "If": f"""(float[N,4,8] x, bool c) => (float[A,B,C] y) {{
        y = If (c) <then_branch = t () => (float[A,B,C] p) {{ {TURN} p = Neg (w) }},
                    else_branch = e () => (float[A,B,C] q) {{ q = Abs (x) }}> }}""",
    "Loop": f"""(float[N,4,8] x, int64 k) => (float[A,B,C] y) <bool go = {{1}}> {{
        y = Loop (k, go, x) <body = g (int64 i, bool d, float[A,B,C] z) => (bool dd, float[A,B,C] p) {{
            dd = Identity (d) {TURN.replace("IN", "z")} p = Neg (w) }}> }}""",
    "Scan": f"""(float[5,N,4,8] x) => (float[A,B,C,D] y) {{
        y = Scan <num_scan_inputs = 1, body = g (float[A,B,C] z) => (float[D,E,F] p) {{
            {TURN.replace("IN", "z")} p = Neg (w) }}> (x) }}""",
    "constants around": f"""(float[N,4,8] x, bool c) => (float[A,B,C,D] y) <int64[4] shape = {{0, 0, 2, 4}}> {{
        y = If (c) <then_branch = t () => (float[A,B,C,D] p) {{ {CUT} p = Neg (r) }},
                    else_branch = e () => (float[A,B,C,D] q) {{ q = Reshape (x, shape) }}> }}""",
    "names around": f"""(float[N,4,8] x, bool c) => (float[A,B,C] y) {{ m = Relu (x)
        y = If (c) <then_branch = t () => (float[A,B,C] p) {{ {TURN.replace("IN", "m")} p = Add (w, m) }},
                    else_branch = e () => (float[A,B,C] q) {{ q = Abs (m) }}> }}""",
}


def _run(model, inputs):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


@pytest.mark.parametrize("name", MODELS)
def test_movement_in_bodies_goes(name):
    model = parser.parse_model(HEADER + MODELS[name].replace("IN", "x"))
    new = slim(model).model
    onnx.checker.check_model(new, full_check=True)
    assert prove(model, new).verdict == "proved"
    kinds = [node.op_type for node in next(iter(subgraphs(new.graph.node[-1]))).node]
    assert "Transpose" not in kinds
    random = np.random.default_rng(0)
    for flag in (False, True):
        shape = (5, 3, 4, 8) if name == "Scan" else (3, 4, 8)
        inputs = {"x": random.standard_normal(shape).astype(np.float32)}
        more = {"If": {"c": np.array(flag)}, "Loop": {"k": np.array(3 * flag)}, "Scan": {}}
        given = {**inputs, **more.get(name, more["If"])}
        for a, b in zip(_run(model, given), _run(new, given), strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_a_round_makes_of_another_shape_stays():
    model = parser.parse_model(f"""{HEADER} (float[2,3] x, int64 k) => (float[A,B] y) <bool go = {{1}}> {{
        y = Loop (k, go, x) <body = g (int64 i, bool d, float[A,B] h) => (bool dd, float[C,D] p) {{
            dd = Identity (d) t = Transpose <perm = [1, 0]> (h) p = Relu (t) }}> }}""")
    new = slim(model).model
    for rounds in range(4):
        inputs = {"x": np.arange(-3, 3, dtype=np.float32).reshape(2, 3), "k": np.array(rounds)}
        for a, b in zip(_run(model, inputs), _run(new, inputs), strict=True):
            np.testing.assert_array_equal(a, b)
