"""Sizes that slim fixes in a model."""

import pytest
from onnx import parser

import anydml as dml
from anydml.slim import slim


def test_sizes_without_a_name_are_fixed_and_others_refused():
    model = parser.parse_model(
        '<ir_version: 9, opset_import: ["": 18]> g (float[A,N] x) => (float[B,C] y) { y = Transpose <perm=[1,0]> (x) }'
    )
    model.graph.input[0].type.tensor_type.shape.dim[0].ClearField("value")
    fixed = slim(model, sizes={"x\n0": 4, "N": 3}).model
    assert [dim.dim_value for dim in fixed.graph.input[0].type.tensor_type.shape.dim] == [4, 3]
    for size in (-1, 2.5, 2**70, True):
        with pytest.raises(dml.ModelError, match="must be an integer, 0 to"):
            slim(model, sizes={"N": size})
