"""What `make_portable` makes of a model, run by ONNX Runtime, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.checker
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from anydml import ModelError
from anydml.onnx import backend, make_portable, reference_ops

onnxruntime.set_default_logger_severity(4)

X = np.arange(24, dtype="f").reshape(4, 6)
EMPTY = np.zeros(0, np.int64)


def parsed(body, opset=18, domains=(), ir=8):
    imports = ", ".join(f'"{domain}": {version}' for domain, version in (("", opset), ("com.microsoft", 1), *domains))
    return parser.parse_model(f"<ir_version: {ir}, opset_import: [{imports}]> {body}")


def run(model, **feeds):
    """The model's results by ONNX Runtime, once onnx has nothing to say against it."""
    onnx.checker.check_model(model, full_check=True)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def domains(model):
    return [entry.domain for entry in model.opset_import]


SPLIT = """g (float[N, K] x, int64[S] s) => (float[A, B] a, float[C, D] b, float[E, F] c) {
    a, b, c = com.microsoft.SplitTraining %s (x, s) }"""


@pytest.mark.parametrize("opset", [13, 14, 15, 18, 21])
@pytest.mark.parametrize("axis", [None, 0, 1, -1, -2])
def test_sizes_known_at_run_time(opset, axis):
    model = parsed(SPLIT % ("" if axis is None else f"<axis = {axis}>"), opset, ir=10)
    before = model.SerializeToString()
    portable = make_portable(model)
    assert model.SerializeToString() == before
    assert domains(portable) == [""]
    x = X[:3, :3]
    for split in (EMPTY, np.array([1, 0, 2])):
        results = run(portable, x=x, s=split)
        expected = backend.run_model(model, {"x": x, "s": split})
        evaluated = ReferenceEvaluator(portable).run(None, {"x": x, "s": split})
        for result, wanted, other in zip(results, expected, evaluated, strict=True):
            assert result.shape == wanted.shape
            assert np.array_equal(result, wanted)
            assert np.array_equal(other, wanted)


@pytest.mark.parametrize("split", [[2, 1], [2, 1, 0, 0], [1, 1, 3], [4, -1, 1], EMPTY])
def test_sizes_that_do_not_fit_still_fail(split):
    """Four rows: the empty split asks for three equal parts."""
    model = parsed(SPLIT % "")
    feeds = {"x": X, "s": np.array(split, np.int64)}
    with pytest.raises(ModelError):
        backend.run_model(model, feeds)
    with pytest.raises(Exception, match="Split"):
        run(make_portable(model), **feeds)


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("sizes", [[], [1, 3, 2]])
@pytest.mark.parametrize("where", ["initializer", "constant", "constant tensor", "input"])
def test_lengths_that_are_known_need_no_arithmetic(where, sizes, opset):
    model = parsed(SPLIT % "<axis = 1>", opset, ir=10)
    graph = model.graph
    tensor = numpy_helper.from_array(np.array(sizes, np.int64), "s")
    if where == "input":
        graph.input[1].type.tensor_type.shape.dim[0].dim_value = len(sizes)
    else:
        del graph.input[1]
    if where == "initializer":
        graph.initializer.append(tensor)
    if where == "constant":
        attribute = helper.make_attribute("value_ints", sizes, attr_type=onnx.AttributeProto.INTS)
        graph.node.insert(0, helper.make_node("Constant", [], ["s"]))
        graph.node[0].attribute.append(attribute)
    if where == "constant tensor":
        graph.node.insert(0, helper.make_node("Constant", [], ["s"], value=tensor))
    portable = make_portable(model)
    kinds = [node.op_type for node in portable.graph.node if node.output[0] != "s"]
    equal = ["Constant", "Constant", "Shape", "Gather", "Div", "Expand", "Split"]
    assert kinds == (["Split"] if sizes else equal)
    feeds = {"s": np.array(sizes, np.int64)} if where == "input" else {}
    for result, stop in zip(run(portable, x=X, **feeds), [1, 4, 6] if sizes else [2, 4, 6], strict=True):
        assert np.array_equal(result, X[:, stop - result.shape[1] : stop])


def test_an_initializer_that_is_only_a_default_is_not_relied_on():
    model = parsed(SPLIT % "<axis = 1>")
    model.graph.initializer.append(numpy_helper.from_array(np.array([1, 2, 3]), "s"))
    portable = make_portable(model)
    assert [part.shape[1] for part in run(portable, x=X)] == [1, 2, 3]
    assert [part.shape[1] for part in run(portable, x=X, s=EMPTY)] == [2, 2, 2]


@pytest.mark.parametrize(("axis", "outputs"), [(0, "y, n"), (-1, "y, n"), (1, "y")])
def test_concat(axis, outputs):
    results = "float[A, B] y" + (", int64[C] n" if "n" in outputs else "")
    body = f"g (float[N, K] x) => ({results}) {{ {outputs} = com.microsoft.ConcatTraining <axis = {axis}> (x, x, x) }}"
    y, *lengths = run(make_portable(parsed(body)), x=X)
    assert np.array_equal(y, np.concatenate([X] * 3, axis))
    assert [n.tolist() for n in lengths] == [[X.shape[axis]] * 3][: len(lengths)]


def test_lengths_alone():
    model = parsed("g (float[N, K] x) => (int64[C] n) { unused, n = com.microsoft.ConcatTraining <axis = 1> (x, x) }")
    model.graph.node[0].output[0] = ""
    assert run(make_portable(model), x=X)[0].tolist() == [6, 6]


@pytest.mark.parametrize("kind", ["string", "bool", "int32", "double", "uint8"])
def test_other_element_types(kind):
    body = f"""g ({kind}[N] x, int64[S] s) => ({kind}[A] a, {kind}[B] b, int64[C] n) {{
        y, n = com.microsoft.ConcatTraining <axis = 0> (x, x)
        a, b = com.microsoft.SplitTraining (y, s) }}"""
    model = parsed(body)
    x = np.array(["a", "bb", "c"], object) if kind == "string" else np.array([1, 0, 1], kind)
    a, b, n = run(make_portable(model), x=x, s=np.array([1, 5]))
    assert a.tolist() == x[:1].tolist()
    assert b.tolist() == [*x[1:], *x]
    assert n.tolist() == [3, 3]


IF = """g (bool c, float[N, K] x, int64[S] s) => (float[A, B] a, float[C, D] b) {
    a, b = If (c) <
        then_branch = then () => (float[E, F] p, float[G, H] q) {
            p, q = com.microsoft.SplitTraining <axis = 1> (x, s) },
        else_branch = else () => (float[E2, F2] p2, float[G2, H2] q2) {
            y, n = com.microsoft.ConcatTraining <axis = 1> (x, x)
            p2, q2 = com.microsoft.SplitTraining <axis = 1> (y, n) }
    > }"""


def test_branches():
    model = parsed(IF)
    portable = make_portable(model)
    assert domains(portable) == [""]
    for split, sizes in ((EMPTY, [3, 3]), (np.array([5, 1]), [5, 1])):
        assert [part.shape[1] for part in run(portable, c=np.array(True), x=X, s=split)] == sizes
    for part in run(portable, c=np.array(False), x=X, s=EMPTY):
        assert np.array_equal(part, X)


def test_bodies_of_loops():
    model = parsed("""g (int64 count, float[N] x, int64[S] s) => (float[M] y) {
        go = Constant <value = bool {1}> ()
        y = Loop (count, go, x) <body = body (int64 i, bool more, float[P] v) => (bool on, float[Q] w) {
            on = Identity (more)
            first, second = com.microsoft.SplitTraining (v, s)
            w, lengths = com.microsoft.ConcatTraining <axis = 0> (second, first)
        }> }""")
    x = np.arange(6, dtype="f")
    portable = make_portable(model)
    assert run(portable, count=np.array(3), x=x, s=np.array([2, 4]))[0].tolist() == [0, 1, 2, 3, 4, 5]
    assert run(portable, count=np.array(1), x=x, s=EMPTY)[0].tolist() == [3, 4, 5, 0, 1, 2]


def test_bodies_of_scans():
    body = parser.parse_graph("""body (float[K] row) => (float[P] p, float[Q] q) {
        p, q = com.microsoft.SplitTraining (row, s) }""")
    model = parsed("g (float[N, K] x, int64[S] s) => (float[N, P] p0, float[N, Q] q0) { p0, q0 = Scan (x) }")
    model.graph.node[0].attribute.extend(
        [helper.make_attribute("body", body), helper.make_attribute("num_scan_inputs", 1)]
    )
    p, q = run(make_portable(model), x=X, s=np.array([1, 5]))
    assert np.array_equal(p, X[:, :1])
    assert np.array_equal(q, X[:, 1:])


FUNCTION = """g (float[N, K] x, int64[S] s) => (float[A, B] a, float[C, D] b) {{ a, b = my.Swap {call} (x, s) }}
    <domain: "my", opset_import: ["": {opset}, "com.microsoft": 1]>
    Swap <{attribute}> (v, sizes) => (q, p) {{
        p, q = com.microsoft.SplitTraining <axis: int = @along> (v, sizes) }}"""


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize("attribute", ["along", "along: int = 1"])
def test_functions(attribute, opset):
    call = "" if ":" in attribute else "<along = 1>"
    model = parsed(FUNCTION.format(call=call, attribute=attribute, opset=opset), opset, [("my", 1)])
    portable = make_portable(model)
    assert domains(portable) == ["", "my"]
    assert [entry.domain for entry in portable.functions[0].opset_import] == [""]
    for split, cut in ((EMPTY, 3), (np.array([1, 5]), 1)):
        b, a = run(portable, x=X, s=split)
        assert np.array_equal(a, X[:, :cut])
        assert np.array_equal(b, X[:, cut:])


def test_an_axis_that_a_call_leaves_out_is_refused():
    model = parsed(FUNCTION.format(call="", attribute="along", opset=18), 18, [("my", 1)])
    with pytest.raises(
        ModelError, match='calls "Swap" without the attribute "along"; SplitTraining takes it as its axis'
    ):
        make_portable(model)


def test_functions_below_opset_13_are_refused():
    body = FUNCTION.format(call="<along = 1>", attribute="along", opset=11).replace("sizes) }", "sizes) r = Abs (v) }")
    with pytest.raises(
        ModelError, match='function "Swap" has its own opset 11, and onnx\'s converter leaves functions'
    ):
        make_portable(parsed(body, 13, [("my", 1)]))


def test_a_functions_own_operator_of_that_name_is_left_alone():
    model = parsed("""g (float[N] x, int64[S] s) => (float[A] a) { a = com.microsoft.SplitTraining (x, s) }
        <domain: "com.microsoft", opset_import: ["": 18]>
        SplitTraining (v, sizes) => (w) { w = Identity (v) }""")
    assert make_portable(model) is model
    assert run(model, x=X[0], s=EMPTY)[0].tolist() == X[0].tolist()


def test_training_graphs():
    model = parsed(SPLIT % "")
    model.training_info.add().algorithm.CopyFrom(model.graph)
    portable = make_portable(model)
    assert portable.training_info[0].algorithm.node[-1].op_type == "Split"


def test_a_portable_model_comes_back_unchanged():
    model = parsed("g (float[N] x) => (float[N] y) { y = Relu (x) }")
    before = model.SerializeToString()
    assert make_portable(model) is model
    assert model.SerializeToString() == before
    once = make_portable(parsed(SPLIT % ""))
    assert make_portable(once) is once


def test_everything_else_stays_as_it_is():
    model = parsed("""g (float[N, K] x, int64[S] s) => (float[A, B] a, float[C, D] b) {
        [gelu] h = com.microsoft.Gelu (x)
        [parts] a, b = com.microsoft.SplitTraining <axis = 1, __backwardpass = 1> (h, s) }""")
    model.graph.node[1].doc_string = "why"
    model.graph.node[1].metadata_props.add(key="k", value="v")
    model.graph.value_info.append(helper.make_tensor_value_info("h", TensorProto.FLOAT, ["N", "K"]))
    weight = model.graph.initializer.add(name="unused", data_type=TensorProto.FLOAT, dims=[3])
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="weights.bin")
    model.metadata_props.add(key="author", value="somebody")
    portable = make_portable(model)
    assert domains(portable) == ["", "com.microsoft"]
    assert portable.graph.node[0] == model.graph.node[0]
    assert portable.graph.initializer == model.graph.initializer
    assert portable.graph.value_info == model.graph.value_info
    assert (portable.graph.input, portable.graph.output) == (model.graph.input, model.graph.output)
    assert portable.metadata_props == model.metadata_props
    split = portable.graph.node[-1]
    assert (split.name, split.doc_string, split.domain) == ("parts", "why", "")
    assert [(attribute.name, attribute.i) for attribute in split.attribute] == [("axis", 1)]
    assert split.metadata_props[0].key == "k"


def test_new_names_are_new():
    model = parsed("""g (float[N, K] x, int64[S] s) => (float[A, B] y, float[C, D] z, int64[T] t) {
        "y/axis" = Identity (s)
        "y/split_sizes" = Identity ("y/axis")
        y, z = com.microsoft.SplitTraining <axis = 1> (x, "y/split_sizes")
        t = Identity ("y/axis") }""")
    portable = make_portable(model)
    made = [name for node in portable.graph.node for name in node.output]
    assert len(made) == len(set(made))
    assert [part.shape[1] for part in run(portable, x=X, s=np.array([2, 4]))[:2]] == [2, 4]
    assert [part.shape[1] for part in run(portable, x=X, s=EMPTY)[:2]] == [3, 3]


def test_models_without_onnxs_own_domain():
    model = parser.parse_model("""<ir_version: 8, opset_import: ["com.microsoft": 1]>
        g (float[N] x, int64[S] s) => (float[A] a, float[B] b) { a, b = com.microsoft.SplitTraining (x, s) }""")
    portable = make_portable(model)
    assert [(entry.domain, entry.version) for entry in portable.opset_import] == [("", 13)]
    assert run(portable, x=X[0], s=EMPTY)[0].tolist() == [0, 1, 2]


OLD = """g (float[1, N] p, int64[S] s) => (float[A] a, float[B] b) {
    q = Squeeze <axes = [0]> (p)
    a, b = com.microsoft.SplitTraining (q, s) }"""


@pytest.mark.parametrize("opset", [9, 11, 12])
def test_models_below_opset_13_are_converted(opset):
    portable = make_portable(parsed(OLD, opset, ir=4))
    assert [(entry.domain, entry.version) for entry in portable.opset_import] == [("", 13)]
    assert {"p", "s", "q", "a", "b"} <= {name for node in portable.graph.node for name in (*node.input, *node.output)}
    for split, cut in ((EMPTY, 3), (np.array([1, 5]), 1)):
        a, b = run(portable, p=X[:1], s=split)
        assert (a.tolist(), b.tolist()) == (X[0, :cut].tolist(), X[0, cut:].tolist())


def test_models_below_opset_13_without_other_nodes_need_no_conversion():
    portable = make_portable(parsed(SPLIT % "", 7, ir=4))
    assert portable.opset_import[0].version == 13


def test_models_that_cannot_be_converted_are_refused_with_the_reason():
    unknown = parsed(OLD.replace("a, b =", "r = Add <broadcast = 1> (p, q) a, b ="), 6)
    with pytest.raises(
        ModelError, match=r"the model has opset 6, and Split .* since opset 13; onnx's converter says: "
    ):
        make_portable(unknown)
    invalid = parsed(OLD.replace("a, b =", "r = NoSuchOperator (q) a, b ="), 11)
    with pytest.raises(ModelError, match="breaks a rule of ONNX: No Op registered for NoSuchOperator"):
        make_portable(invalid)
    functions = parsed(OLD + '<domain: "my", opset_import: ["": 11]> F (v) => (w) { w = Abs (v) }', 11, [("my", 1)])
    with pytest.raises(ModelError, match="onnx's converter would lose the model's functions"):
        make_portable(functions)
    training = parsed(OLD, 11)
    training.training_info.add().algorithm.name = "a"
    with pytest.raises(ModelError, match="onnx's converter would lose the model's training_info"):
        make_portable(training)


def test_nodes_that_are_not_valid():
    for node, message in (
        (
            helper.make_node("ConcatTraining", ["x"], ["y"], "n", domain="com.microsoft"),
            'node "n" .* no attribute axis',
        ),
        (helper.make_node("SplitTraining", [], ["y"], "n", domain="com.microsoft"), "has no input or no output"),
        (helper.make_node("SplitTraining", ["x"], ["y"], domain="com.microsoft", axis=[1]), "axis that is not an INT"),
    ):
        model = parsed("g (float[N] x) => (float[M] y) { }")
        model.graph.node.append(node)
        with pytest.raises(ModelError, match=message):
            make_portable(model)


def test_a_reference_evaluation_before_and_after():
    model = parsed(IF)
    feeds = {"c": np.array(True), "x": X, "s": np.array([2, 4])}
    before = ReferenceEvaluator(model, new_ops=reference_ops).run(None, feeds)
    after = ReferenceEvaluator(make_portable(model)).run(None, feeds)
    assert all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))
