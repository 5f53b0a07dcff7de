"""Operators whose defaults are others in other opsets."""

from __future__ import annotations

import onnx
import pytest
from onnx import ModelProto, parser

from anydml.proving import prove
from anydml.proving.elementwise import ELEMENTWISE_OPERATORS
from anydml.proving.operator_calls import OTHER_DEFAULTS
from anydml.slim import slim


def test_other_defaults_of_old_opsets_are_known():
    changed, newest = set(), {}
    for schema in sorted(onnx.defs.get_all_schemas_with_history(), key=lambda each: -each.since_version):
        if schema.domain or schema.name not in ELEMENTWISE_OPERATORS:
            continue
        defaults = {name: each.default_value for name, each in schema.attributes.items() if each.default_value.name}
        later = newest.setdefault(schema.name, defaults)
        if any(later.get(name) != each for name, each in defaults.items() if name != "broadcast"):
            changed.add((schema.name, schema.since_version))
    assert changed == OTHER_DEFAULTS


@pytest.mark.parametrize(("node", "opset"), [("Clip (x)", 10), ("Selu (x)", 5)])
def test_what_differs_by_defaults_is_not_proved(node, opset):
    one = parser.parse_model(f'<ir_version: 9, opset_import: ["": 18]> g (float[N] x) => (float[N] y) {{ y = {node} }}')
    other = ModelProto()
    other.CopyFrom(one)
    other.opset_import[0].version = opset
    assert prove(one, one, runs=False).verdict == "proved"
    assert prove(one, other, runs=False).verdict == "undecided"


@pytest.mark.parametrize(
    ("dtype", "flag", "verdict"),
    [
        ("float", "", "undecided"),
        ("float", "<fmod = 1>", "proved"),
        ("int32", "", "proved"),
        ("int32", "<fmod = 1>", "proved"),
    ],
)
def test_mod_of_floats_needs_fmod_before_opset_28(dtype, flag, verdict):
    if onnx.defs.onnx_opset_version() < 28:
        pytest.skip("this onnx has no Mod of opset 28")
    values = f"({dtype}[N] x, {dtype}[N] z) => ({dtype}[N] y) {{ y = Mod {flag} (x, z) }}"
    new = parser.parse_model(f'<ir_version: 10, opset_import: ["": 28]> g {values}')
    old = ModelProto()
    old.CopyFrom(new)
    old.opset_import[0].version = 20
    assert prove(new, new, runs=False).verdict == "proved"
    assert prove(new, old, runs=False).verdict == verdict


@pytest.mark.parametrize(("slope", "verdict"), [("x", "undecided"), ("s", "proved")])
def test_shapes_that_onnx_infers_otherwise_than_runtimes_make_are_not_known(slope, verdict):
    image = "s" if slope == "x" else "x"
    one, other = (
        parser.parse_model(
            f'<ir_version: 9, opset_import: ["": 16]> g (float[N,3] x) => (float[A,B] y) <float[1,1] s = {{-2.0}}> '
            f"{{ a = PRelu ({image}, {slope}) b = Transpose (a) {last} }}"
        )
        for last in ("y = Transpose (b)", "y = Identity (a)" if slope == "s" else "y = Identity (b)")
    )
    assert prove(one, other, runs=False).verdict == verdict


@pytest.mark.parametrize("axis", [2, -3, 1])
def test_axes_of_a_squeeze_that_the_tensor_has_not_or_not_of_size_1_are_not_left_out(axis):
    one, other = (
        parser.parse_model(
            f'<ir_version: 8, opset_import: ["": 11]> g (float[2,3] x) => (float[A,B] y) {{ a = Unsqueeze <axes = [2]> '
            f"(x) y = Squeeze <axes = [{2 if name == 'a' else axis}]> ({name}) }}"
        )
        for name in "ax"
    )
    assert prove(one, other, runs=False).verdict == "undecided"


def test_the_order_of_channels_that_blocks_become_is_compared():
    if onnx.defs.onnx_opset_version() < 28:
        pytest.skip("this onnx has no SpaceToDepth of opset 28")
    text = '<ir_version: 10, opset_import: ["": 28]> g (float[N,3,4,6] x) => (float[A,B,C,D] y) '
    plain, other, written = (
        parser.parse_model(text + body)
        for body in (
            "{ y = SpaceToDepth <blocksize = 2> (x) }",
            '{ y = SpaceToDepth <blocksize = 2, mode = "CRD"> (x) }',
            "<int64[6] s = {0, 3, 2, 2, 3, 2}, int64[4] t = {0, 12, 2, 3}> { a = Reshape (x, s) "
            "b = Transpose <perm = [0, 1, 3, 5, 2, 4]> (a) y = Reshape (b, t) }",
        )
    )
    assert prove(plain, other, runs=False).verdict == "undecided"
    assert prove(other, written, runs=False).verdict == "proved"


@pytest.mark.parametrize("wide", ["s", "k"])
def test_lists_of_two_dimensions_are_no_bounds(wide):
    text = '<ir_version: 9, opset_import: ["": 18]> g (float[4,4] x) => (float[A,B] y) ' + (
        "<int64[1] s = {1}, int64[1] e = {4}, int64[1] a = {0}, int64[1] k = {-1}> { y = Slice (x, s, e, a, k) }"
    )
    one, other = (
        parser.parse_model(text),
        parser.parse_model(text.replace(f"int64[1] {wide} =", f"int64[1,1] {wide} =")),
    )
    assert prove(one, other, runs=False).verdict == "undecided"
    assert slim(other).model.graph.node == other.graph.node
