"""Functions of models, which are inlined before a model is read, or refused."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import parser

from anydml.errors import ModelError
from anydml.onnx import to_descs
from anydml.onnx.checks import check, inline_functions
from anydml.onnx.declared_types import check_types
from anydml.proving import prove
from anydml.slim import slim

MODEL = """<ir_version: 9, opset_import: ["": 18, "own": 1]>
    g (float[2,4] x) => (float[A,B] y) { h = Relu (x) y = own.F HANDED (h) }
    <domain: "own", opset_import: [IMPORTS]> F HANDS (a) => (b) { BODY }"""


def _model(body, imports='"": 18', hands="", handed="", more=""):
    text = MODEL.replace("IMPORTS", imports).replace("BODY", body)
    return parser.parse_model(text.replace("HANDED", handed).replace("HANDS", hands) + more)


def _run(model, x):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


G = '<domain: "own", opset_import: ["": 13]> G (a) => (b) { b = Neg (a) }'

OF_OTHER_VERSIONS = [
    ("b = Neg (a)", '"": 13', ""),
    ("b = Neg (a)", '"": 18, "own": 2', ""),
    ("b = own.G (a)", '"": 18, "own": 3', G),
    ("b = Neg (a)", '"": 18, "unused": 3', ""),
]


@pytest.mark.parametrize(("body", "imports", "more"), OF_OTHER_VERSIONS, ids=range(len(OF_OTHER_VERSIONS)))
def test_functions_that_import_other_versions_are_inlined(body, imports, more):
    model = _model(body, imports, more=more)
    check(model)
    inlined = inline_functions(model)
    assert [node.op_type for node in inlined.graph.node] == ["Relu", "Neg"]
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    np.testing.assert_array_equal(_run(inlined, x), _run(model, x))
    assert prove(model, inlined, runs=False).verdict == "proved"
    wrong = _model(body.replace("Neg", "Abs"), imports, more=more.replace("Neg", "Abs"))
    assert prove(model, wrong, runs=False).verdict == "undecided"
    assert prove(model, wrong).verdict == "different"


@pytest.mark.parametrize(("body", "imports", "says"), [
    ("b = zz.Q (a)", '"": 18, "zz": 3', 'function "F" imports version 3 of "zz": Q must mean the same in version 1'),
    ("b = Softmax (a)", '"": 12', 'function "F" imports version 12 of "ai.onnx": Softmax must mean the same'),
])  # fmt: skip
def test_functions_that_mean_something_else_in_the_models_opset_are_refused(body, imports, says):
    model = _model(body, imports)
    model.opset_import.add(domain="zz", version=1)
    with pytest.raises(ModelError, match=says):
        inline_functions(model)


@pytest.mark.parametrize("output", ["a", "b, a"])
def test_functions_that_return_an_input_are_refused(output):
    model = _model("b = Neg (a)")
    model.functions[0].output[:] = output.split(", ")
    model.graph.node[1].output.extend(["z"] * (output != "a"))
    check(model)
    with pytest.raises(ModelError, match='function "F" returns its input "a": return an Identity of it'):
        inline_functions(model)
    with pytest.raises(Exception, match="Schema F"):
        _run(model, np.zeros((2, 4), np.float32))


@pytest.mark.parametrize(("model", "says"), [
    (_model("c = Cast <to = 7> (a) b = Add (a, c)"), "inconsistent type"),
    (_model("c = Cast <to = 7> (a) b = Neg (c)"), '"y" is declared as FLOAT, but the model makes INT64 of it'),
    (
        _model("b = Softmax <axis: int = @axis> (a)", hands="<axis>", handed="<axis: ints = [1]>"),
        "Mismatched attribute type",
    ),
])  # fmt: skip
def test_nodes_of_functions_must_take_what_they_get(model, says):
    with pytest.raises(Exception, match=r"[Tt]ype"):
        _run(model, np.zeros((2, 4), np.float32))
    for work in (check_types, slim, to_descs, lambda model: prove(model, model)):
        with pytest.raises(ModelError, match=says):
            work(model)


@pytest.mark.parametrize("handed", ["", "<perm = [0, 1]>", "<perm = [1, 0]>"])
@pytest.mark.parametrize("default", ["[0, 1]", "[1, 0]"])
@pytest.mark.parametrize("calls", ["itself", "another"])
def test_attributes_that_a_call_leaves_out_have_their_defaults(calls, default, handed):
    body = "b = Transpose <perm: ints = @perm> (a)"
    if calls == "itself":
        model = _model(body, hands=f"<perm: ints = {default}>", handed=handed)
    else:
        more = f'<domain: "own", opset_import: ["": 18]> G <perm: ints = {default}> (a) => (b) {{ {body} }}'
        model = _model(f"b = own.G {handed} (a)", '"": 18, "own": 1', more=more)
    check(model)
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    wanted = _run(model, x)
    np.testing.assert_array_equal(_run(inline_functions(model), x), wanted)
    perms = [[0, 1], [1, 0]] if wanted.shape == x.shape else [[1, 0], [0, 1]]
    same, other = (f"b = Transpose <perm = {perm}> (a)" for perm in perms)
    assert prove(model, _model(same), runs=False).verdict == "proved"
    assert prove(model, _model(other)).verdict == "different"


def test_a_default_that_depends_on_a_call_is_refused():
    body = "b = Transpose <perm: ints = @perm> (a)"
    more = f'<domain: "own", opset_import: ["": 18]> G <perm: ints = [0, 1]> (a) => (b) {{ {body} }}'
    model = _model("b = own.G <perm: ints = @perm> (a)", '"": 18, "own": 1', hands="<perm>", more=more)
    with pytest.raises(ModelError, match=r'"perm" on: it must have a default, since "perm" of "G" has one'):
        inline_functions(model)


@pytest.mark.parametrize("is_called", [True, False])
def test_a_default_that_no_call_needs_is_not_refused(is_called):
    body = "b = Transpose <perm: ints = @perm> (a)"
    more = f'<domain: "own", opset_import: ["": 18]> G <perm: ints = [0, 1]> (a) => (b) {{ {body} }}'
    outer = (
        '<domain: "own", opset_import: ["": 18, "own": 1]> H <perm> (a) => (b) { b = own.G <perm: ints = @perm> (a) }'
    )
    inner = "b = own.H <perm = [1, 0]> (a)" if is_called else "b = Transpose <perm = [1, 0]> (a)"
    model = _model(inner, '"": 18, "own": 1', more=more + outer)
    x = np.random.default_rng(0).standard_normal((2, 4)).astype(np.float32)
    np.testing.assert_array_equal(_run(inline_functions(model), x), _run(model, x))
