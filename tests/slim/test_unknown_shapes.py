"""Nodes whose results have shapes that are not known, because no size that stands for a name fits, or no rank is."""

import numpy as np
import pytest
from onnx import numpy_helper, parser
from slim.test_random_models import run

from anydml.slim import slim

RANDOM = np.random.default_rng(3)


def made(text, **constants):
    model = parser.parse_model('<ir_version: 8, opset_import: ["": 17]> ' + text)
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    return model


def checked(text, inputs, **constants):
    """Slim a model, and compare what it computes."""
    before = made(text, **constants)
    found = slim(before)
    for expected, other in zip(run(before, inputs), run(found.model, inputs), strict=True):
        np.testing.assert_array_equal(other, expected)
    return found


def numbers(*sizes):
    return RANDOM.integers(1, 5, sizes).astype(np.float32)


@pytest.mark.parametrize("product", ["MatMul (x, w)", "Gemm (x, w)", "Gemm <transB = 1> (x, v)", "Gemm (x, w, b)"])
@pytest.mark.parametrize("result", ["Mul (t, c)", "Add (c, t)", "Sub (t, c)", "Div (t, c)"])
@pytest.mark.parametrize("name", ["N", ""])
def test_a_product_is_combined_with_a_constant_that_fixes_a_size(product, result, name):
    w = numbers(3, 32)
    text = f"g (float[{name or '?'},3] x) => (float[] y) {{ t = {product} u = {result} y = Transpose (u) }}"
    checked(text, {"x": numbers(2, 3)}, w=w, v=w.T.copy(), b=numbers(32), c=numbers(2, 32))


@pytest.mark.parametrize("result", ["Mul (t, c)", "Add (t, c)"])
def test_a_convolution_is_combined_with_a_constant_that_fixes_a_size(result):
    text = f"g (float[N,3,4,4] x) => (float[] y) {{ t = Conv (x, w) y = {result} }}"
    checked(text, {"x": numbers(2, 3, 4, 4)}, w=numbers(2, 3, 1, 1), c=numbers(2, 1, 1, 1))


@pytest.mark.parametrize("product", ["MatMul (x, w)", "Gemm (x, w)"])
def test_a_factor_has_no_known_rank(product):
    text = f"g (float[] x) => (float[] y) {{ t = {product} u = Mul (t, c) y = Transpose (u) }}"
    checked(text, {"x": numbers(2, 3)}, w=numbers(3, 32), c=numbers(2, 32))


@pytest.mark.parametrize("given", ["float[] x", "float[?,?] x", "float[N,M] x"])
def test_parts_of_unknown_rank_make_a_known_shape(given):
    text = f"""g ({given}, float[2,3] z) => (float[2,5] y) <float[2,5] b> {{
        a = Neg (x) b = Concat <axis = 1> (a, z) y = Mul (b, c) }}"""
    checked(text, {"x": numbers(2, 2), "z": numbers(2, 3)}, c=numbers(2, 5))


@pytest.mark.parametrize("sizes", [(3, 1, 20), (1, 1, 20), (20, 1, 3)])
def test_a_rank_depends_on_a_size(sizes):
    text = """g (float[N,1,M] x) => (float[] y) {
        a = Squeeze (x) b = Identity (a) c = Neg (b) y = Slice (c, two, many, zero) }"""
    two, many, zero = (np.array([k]) for k in (2, 1 << 40, 0))
    checked(text, {"x": numbers(*sizes)}, two=two, many=many, zero=zero)


def test_a_gemm_of_declared_shape_has_inputs_that_do_not_fit_together():
    text = """g (float[N,2,32] c, float z, float[4,?,?] x) => (float[] y) <float[1,4] b> {
        a = Transpose (z) b = Gemm (x, w, c) d = Relu (a) e = Expand (d, four) f = Div (e, b)
        y = Flatten <axis = 0> (f) }"""
    slim(made(text, w=numbers(3, 64), four=np.array([4])), exact=True)
