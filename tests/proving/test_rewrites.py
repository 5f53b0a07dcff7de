"""Proofs of rewrites of one model, one after the other, as slim asks for them."""

import pytest
from onnx import parser

from anydml.proving.constants import Constants
from anydml.proving.rewrites import Proofs

HEAD = '<ir_version: 9, opset_import: ["": 18]>'
TABLE = """<float[1,4,2] table = {0, 1, 2, 3, 4, 5, 6, 7},
int64[1] zero = {0}, int64[1] one = {1}, int64[1] all = {4}, int64[2] flat = {-1, 2}>"""
"""A table of four positions, as models of texts have one."""

LONG = f"""{HEAD} texts (float[B,N,2] x) => (float[R,2] y) {TABLE} {{
    size = Shape <start = 1, end = 2> (x)
    positions = Slice (table, zero, size, one)
    sum = Add (x, positions)
    y = Reshape (sum, flat)
}}"""

APART = f"""{HEAD} texts (float[B,N,2] x) => (float[R,2] y) {TABLE} {{
    size = Shape <start = 1, end = 2> (x)
    positions = Slice (table, zero, size, one)
    shape = Shape (x)
    wide = Expand (positions, shape)
    sum = Add (wide, x)
    y = Reshape (sum, flat)
}}"""


def _proved(first: str, *others: str) -> list[bool]:
    models = [parser.parse_model(each) for each in (first, *others)]
    proofs = Proofs(Constants(models[0], None), ["B", "N"])
    return [proofs.are_proved(models[0], other) for other in models[1:]]


def test_a_size_that_the_model_refuses_needs_no_proof():
    # Beyond 4 positions, no Add takes N + 4 beside 4.
    assert _proved(LONG, APART) == [True]


def test_what_is_taken_beyond_a_limit_needs_a_proof():
    """Without Add, any length is taken, and what is beyond the table differs."""
    text = f"""{HEAD} texts (float[B,N,2] x) => (float[1,M,2] y) {TABLE} {{
        size = Shape <start = 1, end = 2> (x)
        part = Slice (table, zero, size, one)
        y = KIND (part)
    }}"""
    first, second = text.replace("KIND", "Relu"), text.replace("KIND", "Relu").replace("M", "K")
    other = text.replace("zero, size", "zero, most").replace("part = ", "most = Min (size, all) part = ")
    assert _proved(first, second) == [True]
    assert _proved(first, other.replace("KIND", "Neg")) == [False]


@pytest.mark.parametrize("perm", ["0, 1, 3, 2", "3, 1, 2, 0"])
def test_what_was_proved_of_one_rewrite_is_not_taken_for_another(perm):
    text = f"""{HEAD} heads (float[B,N,3,3] x) => (float[B,N,3,3] y) {{
        a = Transpose <perm = [0, 2, 1, 3]> (x)
        b = Relu (a)
        y = Transpose <perm = [0, 2, 1, 3]> (b)
    }}"""
    plain = f"{HEAD} heads (float[B,N,3,3] x) => (float[B,N,3,3] y) {{ y = Relu (x) }}"
    wrong = text.replace("perm = [0, 2, 1, 3]> (b)", f"perm = [{perm}]> (b)").replace(
        "float[B,N,3,3] y", "float[I,J,K,L] y"
    )
    assert _proved(text, plain, wrong, plain, wrong) == [True, False, True, False]


def test_what_is_drawn_is_never_the_same():
    text = f"""{HEAD} g (float[B,N] x) => (float[B,N] y) {{ a = RandomNormalLike (x) y = Add (x, a) }}"""
    assert _proved(text, text) == [False]


def test_what_scales_of_an_axis_quantize_is_not_what_is_quantized_in_another_order():
    text = f"""{HEAD} g (float[B,3,3] x) => (float[B,3,3] y)
    <float[3] scale = {{0.5, 1, 2}}, int8[3] zero = {{0, 1, 2}}, float one = {{0.5}}, int8 none = {{1}}> {{
        a = Transpose <perm = [0, 2, 1]> (x) q = QuantizeLinear <axis = 1> (a, SCALE)
        b = Transpose <perm = [0, 2, 1]> (q) y = DequantizeLinear <axis = 2> (b, SCALE)
    }}"""
    plain = text.replace("Transpose <perm = [0, 2, 1]>", "Identity")
    for scale, is_equal in (("one, none", True), ("scale, zero", False)):
        assert _proved(text.replace("SCALE", scale), plain.replace("SCALE", scale)) == [is_equal]
