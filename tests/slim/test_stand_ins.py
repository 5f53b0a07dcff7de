"""Primes that stand for symbolic sizes: what is derived from these is recognized, too."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

from anydml.proving.sizes import evaluate, name, quotient
from anydml.slim import slim
from anydml.slim.sizes import StandIns

MODEL = """<ir_version: 9, opset_import: ["": 18]> g (float[1,3,H,W] x) => (float[A,B,C] y)
    <float[2,3,1,1] w = {1, 2, 3, 4, 5, 6}, int64[1] zero = {0}, int64[1] b = {-1}, int64[1] end = {2}> {
    p = Conv<strides=[4, 4]> (x, w)  q = Relu(p)  s = Shape(q)  a = Slice(s, zero, end)
    t = Concat<axis=0>(a, b)  r = Reshape(q, t)  m = Transpose<perm=[0, 2, 1]>(r)
    y = Transpose<perm=[0, 2, 1]>(m) }"""


@pytest.fixture
def model():
    return parser.parse_model(MODEL)


def test_what_is_derived_from_sizes_is_recognized(model):
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    n, h, w = map(name, "NHW")
    rows, columns = quotient(h - 1, 4) + 1, quotient(w - 1, 4) + 1
    derived = [29, n * rows * columns, 16 * (n + 1), rows * rows + h * rows]
    sets = StandIns.several(model, derived)
    assert len(sets) == 3
    for each in sets:
        for size in (n, h, w, rows, columns, n + 1, rows + h, 6 * rows * columns):
            assert not each.is_constant(evaluate(size, each.sizes))
        assert each.is_constant(1, 29, 3, 2**20)
        assert each.shape([1, 29, evaluate(rows, each.sizes)], [29, evaluate(rows, each.sizes)]) == (29, -1)


@pytest.mark.parametrize(("limit", "is_kept"), [(77, True), (1000, True), (28, False), (5, False)])
def test_sizes_are_in_the_tables_that_limit_them_if_primes_are(model, limit, is_kept):
    sets = StandIns.several(model, limits={"W": limit})
    assert len(sets) == 3
    assert all((each.sizes["W"] <= limit) == is_kept for each in sets)


def test_texts_are_planned_for_sizes_that_a_table_of_positions_has():
    """Longer texts have no positions, and what is cut from the table would have as many rows as the table."""
    model = parser.parse_model("""<ir_version: 9, opset_import: ["": 18]> g (float[N,S,4] x) => (float[A,B,C] y)
        <int64[1] zero = {0}, int64[1] one = {1}, int64[1] row = {-1}, int64[1] width = {4}> {
        s = Shape <start = 1, end = 2> (x)  p = Slice (table, zero, s, zero)  b = Unsqueeze (p, zero)  a = Add (x, b)
        n = Shape <start = 0, end = 1> (x)  k = Concat <axis = 0> (n, row, width)  y = Reshape (a, k) }""")
    table = onnx.numpy_helper.from_array(np.arange(160, dtype=np.float32).reshape(40, 4), "table")
    model.graph.initializer.append(table)
    kinds = {node.op_type for node in slim(model).model.graph.node}
    assert "Add" in kinds
    assert "Reshape" not in kinds


def test_shapes_of_images_are_no_numbers(model):
    """Reshape merges an image, of any size, into one axis."""
    found = slim(model).model
    shapes = [onnx.numpy_helper.to_array(each).tolist() for each in found.graph.initializer if each.data_type == 7]
    assert {node.op_type for node in found.graph.node} == {"Conv", "Relu", "Reshape"}
    assert shapes == [[1, 2, -1]]
