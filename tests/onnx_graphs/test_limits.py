"""Small files that ask for much: dimensions, time, and functions that become gigabytes."""

from __future__ import annotations

import time

import numpy as np
import pytest
from google.protobuf.message import EncodeError
from onnx import AttributeProto, ModelProto, TensorProto, helper, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from anydml import ModelError
from anydml.onnx import backend, checks, folding, make_portable, node_descs, to_descs
from anydml.onnx.checks import check, inline_functions
from anydml.onnx.program import Program

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("my", 1)]


def value(name, sizes, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, sizes)


def made(nodes, inputs=(), outputs=("y",), tensors=(), functions=(), kind=TensorProto.FLOAT):
    results = [value(name, None, kind) for name in outputs]
    graph = helper.make_graph(nodes, "g", list(inputs), results, list(tensors))
    return helper.make_model(graph, opset_imports=OPSETS, functions=functions, ir_version=9)


def ones(name, rank, kind=np.int64):
    tensor = numpy_helper.from_array(np.zeros((), kind), name)
    tensor.dims.extend([1] * rank)
    return tensor


def seconds(work):
    """Processor time of the fastest of three tries."""
    found = []
    for _ in range(3):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


@pytest.mark.parametrize(("data", "indices"), [(40, 40), (33, 33), (64, 2), (2, 64), (64, 64)])
@pytest.mark.parametrize("kind", [np.float32, np.int64])
def test_gathers_of_more_dimensions_than_numpy_has(data, indices, kind):
    """NumPy's `take` crashes."""
    node = helper.make_node("Gather", ["d", "i"], ["y"], name="n")
    decisive = helper.make_node("Split", ["x", "y"], ["z"])
    given = [ones("d", data, kind), ones("i", indices)]
    message = rf'node "n" \(Gather\): the result has {data + indices - 1} dimensions, but .* at most 64'
    output_type = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    models = [made([node], tensors=given, kind=output_type)]
    if kind is np.int64:
        models.append(made([node, decisive], [value("x", [1])], tensors=given, kind=output_type))
    for model in models:
        with pytest.raises(ModelError, match=message):
            Program(model).run({name: np.zeros(1, np.float32) for name in Program(model).inputs})
        with pytest.raises(ModelError, match=message):
            to_descs(model)
    with pytest.raises(ModelError, match=message):
        backend.run_node(node, [np.zeros((1,) * data, kind), np.zeros((1,) * indices, np.int64)])


def test_gathers_of_as_many_dimensions():
    model = made(
        [helper.make_node("Gather", ["d", "i"], ["y"])], tensors=[ones("d", 33), ones("i", 32)], kind=TensorProto.INT64
    )
    assert backend.run_model(model, []).y.shape == (1,) * 64
    (desc,) = to_descs(model).values()
    assert next(problem.field for problem in desc.problems()).endswith("Sizes")


@pytest.mark.parametrize("count", [65, 100, 5000])
def test_tensors_of_more_dimensions(count):
    tensor = ones("d", count)
    rule = rf"has {count} dimensions, but anydml moves tensors of at most 64"
    nodes = [helper.make_node("Identity", ["d"], ["y"])]
    inputs = made(nodes, [value("d", [1] * count)])
    constant = made([helper.make_node("Constant", [], ["y"], value=tensor)], kind=TensorProto.INT64)
    initialized = made(nodes, tensors=[tensor], kind=TensorProto.INT64)
    for model, name in ((initialized, 'tensor "d"'), (inputs, '"d"'), (constant, 'tensor "d"')):
        for use in (lambda model: Program(model).run({}), to_descs):
            with pytest.raises(ModelError, match=f"{name} {rule}"):
                use(model)


def functions_of(count):
    """As many functions, each with a training node, and the same names in all."""
    body = helper.make_node("SplitTraining", ["x", "s"], ["a", "b"], domain="com.microsoft", axis=0)
    functions = [helper.make_function("my", f"f{i}", ["x", "s"], ["a", "b"], [body], OPSETS) for i in range(count)]
    calls = [helper.make_node(f"f{i}", ["x", "s"], [f"a{i}", f"b{i}"], domain="my") for i in range(count)]
    inputs = [value("x", [4]), value("s", ["k"], TensorProto.INT64)]
    return made(calls, inputs, ["a0"], functions=functions)


def branches_of(count):
    """As many constants, and as many graphs that see them."""
    small = helper.make_graph([helper.make_node("Identity", ["c0"], ["o"])], "s", [], [value("o", [1])])
    nodes = [helper.make_node("If", ["c"], [f"r{i}"], then_branch=small, else_branch=small) for i in range(count)]
    nodes.append(helper.make_node("SplitTraining", ["x", "c0"], ["p"], domain="com.microsoft"))
    tensors = [ones(f"c{i}", 1) for i in range(count)]
    return made(nodes, [value("x", [1]), value("c", [], TensorProto.BOOL)], ["p"], tensors)


def imports_of(count):
    model = functions_of(count)
    for function in model.functions:
        del function.opset_import[0]
    for i in range(count):
        model.opset_import.add(domain="com.microsoft" if i % 2 else f"d{i}", version=1)
    return model


@pytest.mark.parametrize("kind", [functions_of, branches_of, imports_of])
def test_rewriting_takes_time_in_proportion(kind):
    small, large = kind(300), kind(2400)
    # What is quadratic takes 64 times as long.
    assert seconds(lambda: make_portable(large)) < 24 * seconds(lambda: make_portable(small))


def test_names_of_many_functions_stay_different():
    portable = make_portable(functions_of(50))
    made_names = [name for function in portable.functions for node in function.node for name in node.output]
    fresh = [name for name in made_names if name not in ("a", "b")]
    assert len(fresh) == len(set(fresh)) > 100


def test_long_names_are_not_repeated_for_every_input():
    name, count = "n" * 20_000, 5_000
    node = helper.make_node("ConcatTraining", ["x"] * count, [f"{name}y", name], domain="com.microsoft", axis=0)
    model = made([node], [value("x", [1])], [name])
    assert make_portable(model).ByteSize() < 100 * model.ByteSize()
    assert backend.run_model(model, [np.ones(1, np.float32)])[0].size == count


def call_with(body, functions_attributes=(), **attributes):
    function = helper.make_function("my", "F", ["a"], ["b"], body, OPSETS, list(functions_attributes))
    call = helper.make_node("F", ["x"], ["y"], domain="my", **attributes)
    return made([call], [value("x", [1])], functions=[function])


@pytest.mark.parametrize("count", [10, 20_000])
def test_functions_whose_calls_hand_on_much(count):
    """In 0.5 MB each: a long name, or a large attribute, for each node of the body."""
    last = helper.make_node("Identity", ["a"], ["b"])
    named = call_with([*(helper.make_node("Identity", ["a"], [f"t{i}"]) for i in range(count)), last])
    named.graph.input[0].name = named.graph.node[0].input[0] = "x" * 20 * count
    constants = [helper.make_node("Constant", [], [f"t{i}"]) for i in range(count)]
    for node in constants:
        node.attribute.append(AttributeProto(name="value_ints", ref_attr_name="v", type=AttributeProto.INTS))
    filled = call_with([*constants, last], ["v"], v=list(range(4 * count)))
    for model in (named, filled):
        if count == 10:
            assert len(inline_functions(model).graph.node) in (count, count + 1)
            continue
        with pytest.raises(ModelError, match="come to more than 100000 nodes or 2 GiB"):
            inline_functions(model)


def test_more_imports_than_anybody_has():
    model = made([helper.make_node("Identity", ["x"], ["y"])], [value("x", [1])])
    for i in range(1000):
        model.opset_import.add(domain=f"d{i}", version=1)
    with pytest.raises(ModelError, match="imports 1003 opsets, but anydml reads at most 1000"):
        check(model)


def test_a_check_evaluates_nothing_but_what_decides_sizes(monkeypatch):
    ran = []

    def folded(node, *arguments):
        found = folding.fold(node, *arguments)
        ran.extend([node.name] * (found is not None))
        return found

    monkeypatch.setattr(node_descs, "fold", folded)
    large = numpy_helper.from_array(np.arange(4096).reshape(1, 4096), "large")
    index = numpy_helper.from_array(np.zeros(4096, np.int64), "index")
    small = numpy_helper.from_array(np.array([1, 0, 2]), "small")
    nodes = [
        helper.make_node("Gather", ["large", "index"], ["y"], name="large gather"),
        helper.make_node("Gather", ["small", "small"], ["u"], name="small gather that nobody needs"),
        helper.make_node("Constant", [], ["k"], name="constant", value_ints=[0, 2]),
        helper.make_node("Constant", [], ["f"], name="other constant", value_ints=[0, 2]),
        helper.make_node("Gather", ["small", "k"], ["sizes"], name="needed gather"),
        helper.make_node("Split", ["x", "sizes"], ["a", "b"], name="split"),
        helper.make_node("ConcatTraining", ["a", "b"], ["j", "lengths"], name="j", axis=0, domain="com.microsoft"),
        helper.make_node("SplitTraining", ["j", "lengths"], ["c", "d"], name="t", domain="com.microsoft"),
    ]
    model = made(nodes, [value("x", [3])], tensors=[large, index, small], kind=TensorProto.INT64)
    found = to_descs(model)
    assert ran == ["constant", "needed gather"]
    assert [tensor.sizes[-1] for tensor in found["split"].output_tensors] == [1, 2]
    assert [tensor.sizes[-1] for tensor in found["t"].output_tensors] == [1, 2]
    assert found["large gather"].output_tensor.sizes == (1, 1, 4096, 4096)


@pytest.mark.parametrize("field", ["input", "output"])
@pytest.mark.parametrize("lacks", ["shape", "type"])
def test_graphs_without_shapes(field, lacks):
    model = made([helper.make_node("Concat", ["x", "x"], ["y"], axis=0)], [value("x", [2])])
    known = getattr(model.graph, field)[0].type
    if lacks == "shape":
        known.tensor_type.ClearField("shape")
    elif field == "output":
        known.Clear()
    else:
        known.tensor_type.Clear()
        with pytest.raises(ModelError, match="elem_type"):
            backend.prepare(model)
        return
    before = model.SerializeToString()
    x = np.float32([1, 2])
    assert backend.run_model(model, [x]).y.tolist() == ReferenceEvaluator(model).run(None, {"x": x})[0].tolist()
    assert model.SerializeToString() == before
    if field == "input":
        assert backend.run_model(model, [np.ones((3, 4), "f")]).y.shape == (6, 4)
        with pytest.raises(ModelError, match='input "x" has no shape; give it fixed sizes'):
            to_descs(model)
    else:
        assert len(to_descs(model)) == 1


class Unserializable:
    """A model that protobuf cannot count: one of more than 2 GiB."""

    def __init__(self, model):
        self._model = model

    def __getattr__(self, name):
        return getattr(self._model, name)

    def ByteSize(self):
        raise EncodeError("Failed to serialize proto")

    SerializeToString = ByteSize


def test_models_that_protobuf_cannot_serialize(monkeypatch):
    tensor = numpy_helper.from_array(np.zeros(1000, np.int64), "w")
    large = Unserializable(made([helper.make_node("Identity", ["w"], ["y"])], tensors=[tensor]))
    with pytest.raises(MemoryError):
        check(large)
    monkeypatch.setattr(checks, "MAX_BYTES", 7999)
    check(large)
    with pytest.raises(ModelError, match="cannot be serialized: it has 2 GiB or more"):
        checks.serialize(large)
    assert checks.serialize(ModelProto(ir_version=8)) == b"\x08\x08"


def test_an_operator_is_named_once():
    model = parser.parse_model("""<ir_version: 8, opset_import: ["": 18]> g (float[4] x, int64[2] s) => (float[N] a) {
        [cut] a, b = Split (x, s) }""")
    with pytest.raises(ModelError) as error:
        backend.run_model(model, [np.zeros(4, np.float32), np.array([1, 1])])
    assert str(error.value) == (
        'node "cut" (Split): split has the sizes [1, 1], which add up to 2, but axis 0 has size 4: '
        "the parts' sizes must add up to the axis"
    )
    assert error.value.field == "split"
    for node, arrays in (
        (helper.make_node("Gather", ["x", "i"], ["y"]), [np.zeros(2), np.array([5])]),
        (helper.make_node("Concat", ["x", "i"], ["y"], axis=0), [np.zeros(2), np.zeros((2, 2))]),
        (helper.make_node("SplitTraining", ["x"], ["y", "z"], domain="com.microsoft"), [np.zeros(3)]),
        (helper.make_node("ConcatTraining", ["x", "i"], ["y"], domain="com.microsoft", axis=0), [np.zeros(2), X]),
    ):
        with pytest.raises(ModelError) as error:
            backend.run_node(node, arrays)
        label, message = str(error.value).split(": ", 1)
        assert label.startswith('node "')
        assert not message.lower().startswith(("gather", "join", "split", "slice", "concat")), message


X = np.zeros((2, 2))
