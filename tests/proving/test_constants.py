"""Constants that nodes compute, beside the same ones computed by ONNX Runtime, with and without a changed bit."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import helper, numpy_helper

from anydml.proving import prove
from anydml.proving.running import error_of, run
from anydml.slim import slim

EXACT = [
    "y = Clip (m, low, high)", "y = ReduceMax <keepdims = 1> (m)", "y = ReduceMin <keepdims = 0> (m, axis)",
    "y = Relu (m)", "y = Max (m, low)", "y = Sqrt (m)", "y = Div (m, high)", "y = Neg (m)",
]  # fmt: skip
ROUNDED = ["y = Exp (m)", "y = Tanh (m)", "y = ReduceMean (m)", "y = Softmax (m)"]
MOVES = [
    "m = Identity (c)", "m = Transpose (c)", "s = Shape (x) m = Expand (low, s)", "m = Concat <axis = 0> (c, c)",
]  # fmt: skip
CONSTANTS = "<float[2,3] c = {0.0, 1.5, -2, 0.25, 3, 7}, float low = {0.0}, float high = {3.0}, int64[1] axis = {1}>"


def model(body):
    text = f'<ir_version: 9, opset_import: ["": 18]> g (float[2,3] x) => (float y) {CONSTANTS} {{ {body} }}'
    found = onnx.parser.parse_model(text)
    found.graph.output[0].type.tensor_type.ClearField("shape")
    return found


def with_constant(array):
    found = model("y = Identity (k)")
    found.graph.initializer.append(numpy_helper.from_array(array, "k"))
    return found


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("node", EXACT + ROUNDED)
def test_one_bit_of_a_constant_is_rounding_only_where_an_operator_rounds(node, move):
    computed = model(f"{move} {node}")
    (array,) = run(computed, {"x": np.zeros((2, 3), np.float32)})
    assert prove(computed, with_constant(array), runs=False).verdict in (
        ("proved",) if node in EXACT else ("proved", "rounded")
    )
    changed = array.copy()
    changed.reshape(-1).view(np.uint32)[-1] ^= 1
    for pair in ((computed, with_constant(changed)), (with_constant(changed), computed)):
        verdict = prove(*pair, runs=False).verdict
        assert verdict == ("undecided" if node in EXACT else "rounded")


TABLES = [
    "t = Sin (a) n = Neg (t) j = Concat <axis = 1> (n, t) m = Transpose <perm = [1, 0]> (j)",
    "t = Cos (a) m = Reshape (t, other)",
    "t = Exp (a) j = Transpose <perm = [1, 0]> (t) m = Gather <axis = 0> (j, odd)",
]  # fmt: skip


@pytest.mark.parametrize("is_stored_first", [False, True])
@pytest.mark.parametrize("size", ["N", "4"])
@pytest.mark.parametrize("nodes", TABLES)
def test_tables_that_are_computed_moved_and_rounded_otherwise_are_equal(nodes, size, is_stored_first):
    """As the tables of rotary embeddings that another tool computes and `slim` moves, negates and joins."""
    constants = "<int64[2] other = {6, 4}, int64[3] odd = {0, 3, 2}>"
    text = '<ir_version: 9, opset_import: ["": 18]> g'
    rows = {"Sin": "[1,12,4]", "Cos": "[1,6,4]", "Exp": "[1,3,4]"}[nodes.split("=")[1].split()[0]]
    heads = rows.replace("[1", f"[{size}")
    inner = f"(float{heads} x) => (float{heads} y)"
    angles = np.random.default_rng(5).uniform(-3, 3, (4, 6)).astype(np.float32)
    table = angles[:, :6] if "Cos" not in nodes else angles
    computed = onnx.parser.parse_model(f"{text} {inner} {constants} {{ {nodes} y = Mul (x, m) }}")
    computed.graph.initializer.append(numpy_helper.from_array(table, "a"))
    values = onnx.parser.parse_model(f"{text} (float[1] x) => (float[r,c] m) {constants} {{ {nodes} }}")
    values.graph.initializer.append(numpy_helper.from_array(table, "a"))
    (array,) = run(values, {"x": np.zeros(1, np.float32)})
    for off, verdict in ((0, "proved"), (1, "rounded"), (100, "undecided")):
        changed = -array.T.copy()
        changed.reshape(-1)[::2] += np.spacing(np.abs(changed).max()) * np.float32(off)
        moved = "n = Neg (k) m = Transpose <perm = [1, 0]> (n) p = Neg (x) q = Neg (p) y = Mul (m, q)"
        stored = onnx.parser.parse_model(f"{text} {inner} {{ {moved} }}")
        stored.graph.initializer.append(numpy_helper.from_array(changed, "k"))
        pair = (stored, computed) if is_stored_first else (computed, stored)
        found = prove(*pair, runs=False).verdict
        # Cos and Exp may also be rounded otherwise by onnx's evaluator.
        assert found in ({"proved", "rounded"} if off == 0 else {verdict}), (off, found)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("scale", ["zero", "subnormal", "normal", "large"])
def test_differences_are_counted_in_units_in_the_last_place(dtype, scale):
    info, random = np.finfo(dtype), np.random.default_rng(3)
    largest = {"zero": 0, "subnormal": info.tiny / 2, "normal": 1, "large": info.max / 2}[scale]
    first = (random.uniform(-1, 1, 7) * largest).astype(dtype)
    first[3] = largest
    for count in (1, 5, 9):
        second = first.copy()
        for _ in range(count):
            second[3] = np.nextafter(second[3], dtype(np.inf))
        assert count / 2 <= error_of(first, second) <= count
        assert error_of(first, second) == error_of(second, first)
    assert error_of(first, first.copy()) == 0


@pytest.mark.parametrize("other", [np.inf, -np.inf, np.nan])
def test_numbers_that_are_not_finite_differ_from_all_others(other):
    first, second = np.float32([1, 2]), np.float32([1, other])
    assert error_of(first, second) == error_of(second, first) == np.inf
    assert error_of(second, second.copy()) == 0
    assert error_of(first, first.astype(np.float64)) == np.inf


OF_ONE = [
    "Abs", "Ceil", "Clip", "Floor", "IsInf", "IsNaN", "Neg", "ReduceMax", "ReduceMin", "Relu", "Round", "Sign", "Sqrt",
]  # fmt: skip
OF_TWO = ["Add", "Div", "Equal", "Less", "Max", "Min", "Mul", "Sub"]
ORDINARY = [0.0, 1.0, -1.0, 0.5, 2.5, -7.0]


@pytest.mark.parametrize("special", [[], [-0.0], [np.nan], [np.inf], [-np.inf]], ids=str)
@pytest.mark.parametrize("operator", OF_ONE + OF_TWO)
def test_constants_are_computed_only_if_all_runtimes_compute_the_same_bits(operator, special):
    for dtype in (np.float16, np.float32):
        first = np.array(ORDINARY + special, dtype)
        arrays = [first] if operator in OF_ONE else [np.tile(first, first.size), first.repeat(first.size)]
        tensors = [numpy_helper.from_array(array, f"c{k}") for k, array in enumerate(arrays)]
        names, output = [tensor.name for tensor in tensors], helper.make_empty_tensor_value_info("y")
        nodes = [helper.make_node(operator, names, ["m"]), helper.make_node("Identity", ["m"], ["y"])]
        graph = helper.make_graph(nodes, "g", [], [output], tensors)
        opset = [helper.make_opsetid("", 20)]
        computed = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opset, ir_version=9))
        slimmed = slim(computed).model
        assert special or operator not in {node.op_type for node in slimmed.graph.node}
        (expected,), (found,) = run(computed, {}), run(slimmed, {})
        np.testing.assert_array_equal(found, expected, strict=True)
        if expected.dtype != bool:
            numbers = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))
