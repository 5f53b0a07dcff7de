"""Types that models declare, and that nodes take: ONNX Runtime refuses the same models."""

from __future__ import annotations

import onnxruntime
import pytest
from onnx import parser

from anydml.errors import ModelError
from anydml.onnx import to_descs
from anydml.onnx.declared_types import check_types
from anydml.proving import prove
from anydml.slim import slim

IF = """g (float[N,4] x, bool c) => (float[A,B] y) { y = If (c) <
    then_branch = t () => (OF[A,B] a) { b = Neg (x) a = Relu (b) }, else_branch = e () => (float[A,B] d) { d = Neg (x) }
> }"""

LARGE = "".join(["<float[2000] w = {", ", ".join(["1"] * 2000), "}>"])

TAKEN = [
    "g (float[N,4] x) => (float[A,B] y) { y = Relu (x) }",
    "g (float[N,4] x) => (float[A,5] y) { y = Relu (x) }",
    "g (float[N,4] x) => (float[A] y) { y = Relu (x) }",
    "g (float[N,4] x) => (float[A,4] y) <float[7,8] a> { a = Relu (x) y = Relu (a) }",
    "g (float[N,4] x) => (float[A,4] y) <int64[N,4] a> { y = Relu (x) }",
    f"g (float[2000] x) => (float[A] y) {LARGE} {{ y = Add (x, w) }}",
    IF.replace("OF", "float"),
]

REFUSED = [
    ("g (float[N,4] x) => (int64[A,B] y) { y = Relu (x) }", "declare FLOAT, or leave the declaration out"),
    ("g (float[N,4] x) => (float[A,4] y) <int64[N,4] a> { a = Relu (x) y = Relu (a) }", '"a" is declared as INT64'),
    ("g (float[N,4] x, int64[N,4] z) => (float[A,B] y) { y = Add (x, z) }", "inconsistent type"),
    ("g (float[3,4] x, float[2] i) => (float[A,B] y) { y = Gather (x, i) }", "unsupported type"),
    (f"g (int64[2000] x) => (int64[A] y) {LARGE} {{ y = Add (x, w) }}", "inconsistent type"),
    (IF.replace("OF", "int64"), '"a" is declared as INT64'),
]


def _model(text, opset=18):
    return parser.parse_model(f'<ir_version: 9, opset_import: ["": {opset}]> {text}')


def _load(model):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("text", TAKEN, ids=range(len(TAKEN)))
def test_what_runtimes_take_is_taken(text):
    _load(_model(text))
    check_types(_model(text))


@pytest.mark.parametrize(("text", "says"), REFUSED, ids=range(len(REFUSED)))
def test_what_runtimes_refuse_is_refused(text, says):
    model = _model(text)
    with pytest.raises(Exception, match=r"[Tt]ype"):
        _load(model)
    for work in (check_types, slim, to_descs, lambda model: prove(model, model)):
        with pytest.raises(ModelError, match=says):
            work(model)


def test_types_that_an_older_opset_lacks_are_refused():
    text = "g (uint8[N] x) => (uint8[A] y) { y = Add (x, x) }"
    check_types(_model(text, 14))
    with pytest.raises(ModelError, match="unsupported type"):
        check_types(_model(text, 13))
