"""Split and sequences of tensors as ONNX Runtime has them: sizes, numbers and places that its own tests name."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from anydml import ModelError
from anydml.onnx import backend

onnxruntime.set_default_logger_severity(4)

X = np.arange(30, dtype=np.float32).reshape(5, 3, 2)
NONE = np.zeros((0, 2), np.float32)
WORDS = np.array([["a", "", "ccc"], ["dd", "é", "f"]], object)
TYPES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "O"]


def i64(*values):
    return np.array(values, np.int64)


AS_ONNX = {
    "more parts than elements",
    "a part of an empty axis",
    "by sizes of 1, which keep the axis",
    "by sizes, which keep the axis",
    "by a table",
}
"""Where ONNX Runtime is not as ONNX's text and onnx's reference evaluator are: the last part is smaller, or empty;
`keepdims` is ignored where there is a split, which is a scalar or a vector."""


def result_of(run):
    """What something makes; None where it refuses."""
    try:
        return run()
    except Exception:
        return None


def are_same(some, others):
    """Whether results, arrays or lists of them, have the same types, sizes and elements; or there are none."""
    if some is None or others is None:
        return some is others
    if isinstance(some, list):
        return isinstance(others, list) and len(some) == len(others) and all(map(are_same, some, others))
    return (some.dtype, some.shape) == (others.dtype, others.shape) and np.array_equal(some, others)


def compare(name, nodes, feeds, results, version):
    """Run a graph whose results are tensors, or where `results` says so sequences, of one type; and have it refused
    where ONNX Runtime refuses it. Whether it ran."""
    kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in feeds.items()}
    infos = [helper.make_tensor_value_info(name, kinds[name], array.shape) for name, array in feeds.items()]
    outputs = [
        (helper.make_tensor_sequence_value_info if is_sequence else helper.make_tensor_value_info)(name, kind, None)
        for name, kind, is_sequence in results
    ]
    graph = helper.make_graph(nodes, "g", infos, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
    sessions = (model.SerializeToString(), None, ["CPUExecutionProvider"])
    expected = result_of(lambda: onnxruntime.InferenceSession(*sessions).run(None, feeds))
    if name in AS_ONNX:
        # ONNX Runtime's versions differ.
        expected = result_of(lambda: ReferenceEvaluator(model).run(None, feeds))
    if expected is None:
        with pytest.raises(ModelError):
            backend.run_model(model, feeds)
        return False
    assert are_same([*backend.run_model(model, feeds)], [*expected])
    return True


SPLITS = {
    "sizes of an attribute": (X, None, {"axis": 0, "split": [1, 4]}, 2, 2),
    "sizes of an attribute, from the end": (X, None, {"axis": -2, "split": [2, 1]}, 11, 2),
    "sizes of an attribute of another sum": (X, None, {"split": [1, 3]}, 2, 2),
    "sizes of an attribute for fewer results": (X, None, {"axis": -1, "split": [1, 0, 1]}, 2, 2),
    "sizes in the middle": (X, i64(1, 0, 2), {"axis": 1}, 13, 3),
    "sizes of another sum": (X, i64(1, 2), {}, 13, 2),
    "sizes for fewer results": (X, i64(1, 0, 4), {}, 13, 2),
    "sizes for more results": (X, i64(5), {}, 13, 2),
    "sizes below 0": (X, i64(6, -1), {}, 13, 2),
    "equal parts of the last axis": (X, None, {"axis": -1}, 13, 2),
    "equal parts of an old node": (X, None, {"axis": 1}, 2, 3),
    "parts that do not divide": (X, None, {}, 13, 2),
    "parts of no elements": (NONE, None, {"axis": -1}, 13, 2),
    "parts of an empty axis": (NONE, i64(0, 0), {}, 13, 2),
    "an axis that is none": (X, None, {"axis": 3}, 13, 1),
    "an axis far below": (X, None, {"axis": -4}, 2, 1),
    "as many as say": (X, None, {"axis": 1, "num_outputs": 3}, 18, 3),
    "a last part that is smaller": (X, None, {"num_outputs": 3}, 18, 3),
    "a last part of the middle that is smaller": (X, None, {"axis": 1, "num_outputs": 2}, 18, 2),
    "no parts": (X, None, {"num_outputs": 0}, 18, 1),
    "more parts than elements": (X, None, {"axis": -1, "num_outputs": 3}, 18, 3),
    "a part of an empty axis": (NONE, None, {"num_outputs": 1}, 18, 1),
    "both sizes and a number": (X, i64(2, 3), {"num_outputs": 2}, 18, 2),
    "neither sizes nor a number": (X, None, {"axis": 1}, 18, 3),
    "words": (WORDS, i64(2, 1), {"axis": 1}, 13, 2),
}


@pytest.mark.parametrize("name", SPLITS)
def test_split(name):
    x, sizes, attributes, version, count = SPLITS[name]
    feeds = {"x": x} if sizes is None else {"x": x, "sizes": sizes}
    node = helper.make_node("Split", [*feeds], [f"y{k}" for k in range(count)], **attributes)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    compare(name, [node], feeds, [(each, kind, False) for each in node.output], version)


@pytest.mark.parametrize("dtype", TYPES)
def test_split_of_each_type(dtype):
    x = np.arange(12).reshape(4, 3)
    x = np.array(list("abcdefghijkl"), object).reshape(4, 3) if dtype == "O" else x % 2 == 0 if dtype == "?" else x
    x = x.astype(dtype)
    # The optional input is there, but has no name.
    node = helper.make_node("Split", ["x", ""], ["y", "z"])
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    assert compare(dtype, [node], {"x": x}, [("y", kind, False), ("z", kind, False)], 13)


PARTS = {
    "by a vector": (X, i64(2, 3), {}),
    "by a vector of another sum": (X, i64(2, 2), {}),
    "by a vector with a 0": (X, i64(0, 5), {}),
    "by a size": (X, np.array(2), {}),
    "by a size of 32 bits": (X, np.array(3, np.int32), {}),
    "by a size of the last axis": (X, np.array(2), {"axis": -1}),
    "by a size beyond": (X, np.array(9), {"axis": 1}),
    "by a size of 0": (X, np.array(0), {}),
    "by a size below 0": (X, np.array(-2), {}),
    "one by one": (X, None, {"axis": 1}),
    "one by one, without the axis": (X, None, {"axis": 0, "keepdims": 0}),
    "one by one, without the last axis": (X, None, {"axis": -1, "keepdims": 0}),
    "a vector, one by one": (X[:, 0, 0], None, {"keepdims": 0}),
    "by sizes of 1, which keep the axis": (X, np.array(1), {"keepdims": 0}),
    "by sizes, which keep the axis": (X, np.array(2), {"keepdims": 0}),
    "by a vector, which keeps the axis": (X, i64(1, 1, 1, 1, 1), {"keepdims": 0}),
    "by a table": (X, i64(2, 3)[None], {}),
    "of nothing": (NONE, None, {"axis": 1}),
    "of an empty axis": (NONE, None, {}),
    "along no axis": (X, None, {"axis": 3}),
    "of words": (WORDS, np.array(2), {"axis": 1}),
}


@pytest.mark.parametrize("name", PARTS)
def test_split_to_sequence(name):
    x, split, attributes = PARTS[name]
    feeds = {"x": x} if split is None else {"x": x, "split": split}
    node = helper.make_node("SplitToSequence", [*feeds], ["y"], **attributes)
    compare(name, [node], feeds, [("y", helper.np_dtype_to_tensor_dtype(x.dtype), True)], 11)


TENSORS = [X[0], X[:, 0], X[:1, :1]]
SAME = [X[:1, 0], X[1:2, 0], X[2:3, 1]]
SCALARS = [np.array(n, np.float32) for n in range(3)]
JOINED = {
    "stacked first": (SAME, {"axis": 0, "new_axis": 1}),
    "stacked last": (SAME, {"axis": 2, "new_axis": 1}),
    "stacked from the end": (SAME, {"axis": -2, "new_axis": 1}),
    "stacked beyond": (SAME, {"axis": 3, "new_axis": 1}),
    "stacked nothings": ([NONE[:, :1]] * 3, {"axis": 1, "new_axis": 1}),
    "stacked scalars": (SCALARS, {"axis": 0, "new_axis": 1}),
    "stacked of other shapes": (TENSORS, {"axis": 0, "new_axis": 1}),
    "stacked words": ([WORDS, WORDS[::-1]], {"axis": 1, "new_axis": 1}),
    "joined": (SAME, {"axis": 0}),
    "joined from the end": (SAME, {"axis": -1}),
    "joined beyond": (SAME, {"axis": 2}),
    "joined nothings": ([NONE] * 3, {"axis": 1}),
    "joined scalars": (SCALARS, {"axis": 0}),
    "joined of other ranks": (TENSORS, {"axis": 0}),
}


@pytest.mark.parametrize("name", JOINED)
def test_concat_from_sequence(name):
    tensors, attributes = JOINED[name]
    feeds = {f"x{k}": np.ascontiguousarray(each) for k, each in enumerate(tensors)}
    nodes = [
        helper.make_node("SequenceConstruct", [*feeds], ["s"]),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], **attributes),
    ]
    compare(name, nodes, feeds, [("y", helper.np_dtype_to_tensor_dtype(tensors[0].dtype), False)], 11)


PLACES = [None, 0, 1, 2, 3, 4, 10, -1, -3, -4, -99]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ["SequenceAt", "SequenceErase", "SequenceInsert"])
def test_places_in_sequences(kind, place):
    if kind == "SequenceAt" and place is None:
        place = np.array(1, np.int32)
    feeds = {f"x{k}": np.ascontiguousarray(each) for k, each in enumerate(TENSORS)}
    tensors = [*feeds]
    given = ["s"]
    if kind == "SequenceInsert":
        feeds["new"] = X[:2]
        given.append("new")
    if place is not None:
        feeds["place"] = np.asarray(place)
        given.append("place")
    nodes = [helper.make_node("SequenceConstruct", tensors, ["s"]), helper.make_node(kind, given, ["y"])]
    results = [("y", TensorProto.FLOAT, kind != "SequenceAt")]
    if kind != "SequenceAt":
        nodes.append(helper.make_node("SequenceLength", ["y"], ["n"]))
        results.append(("n", TensorProto.INT64, False))
    count = {"SequenceInsert": 4}.get(kind, 3)
    assert compare(kind, nodes, feeds, results, 11) == (place is None or -3 <= place < count)


@pytest.mark.parametrize("dtype", [None, TensorProto.INT64, TensorProto.STRING])
def test_empty_sequences(dtype):
    attributes = {} if dtype is None else {"dtype": dtype}
    kind = dtype or TensorProto.FLOAT
    nodes = [
        helper.make_node("SequenceEmpty", [], ["s"], **attributes),
        helper.make_node("SequenceLength", ["s"], ["n"]),
        helper.make_node("Identity", ["s"], ["y"]),
    ]
    assert compare("empty", nodes, {}, [("n", TensorProto.INT64, False), ("y", kind, True)], 14)


def test_the_same_sequence():
    feeds = {f"x{k}": np.ascontiguousarray(each) for k, each in enumerate(TENSORS)}
    nodes = [helper.make_node("SequenceConstruct", [*feeds], ["s"]), helper.make_node("Identity", ["s"], ["y"])]
    assert compare("same", nodes, feeds, [("y", TensorProto.FLOAT, True)], 16)
