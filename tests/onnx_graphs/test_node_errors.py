"""What a node refuses, each with the node's name and what is wrong with it."""

import numpy as np
import pytest

pytest.importorskip("onnx")

from onnx import TensorProto, helper

from anydml import ModelError
from anydml.onnx import backend

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
PIXELS = np.zeros((1, 4, 4, 6), np.float32)
LEFT_OUT = None


def i64(*values):
    return np.array(values, np.int64)


def f32(*values):
    return np.array(values, np.float32)


BROKEN = {
    "SpaceToDepth of rank 3": ("SpaceToDepth", [X], {"blocksize": 2}, "input must have 4 dimensions"),
    "blocks of 0": ("SpaceToDepth", [PIXELS], {"blocksize": 0}, "blocksize is 0"),
    "rows that do not divide": ("SpaceToDepth", [PIXELS], {"blocksize": 3}, "4 rows and 6 columns do not divide by 3"),
    "channels that do not divide": ("DepthToSpace", [PIXELS], {"blocksize": 3}, "which blocksize² = 9 does not divide"),
    "neither scales nor sizes": ("Resize", [PIXELS], {}, "has both or none of scales and sizes"),
    "too few scales": ("Resize", [PIXELS, LEFT_OUT, f32(1, 1)], {}, "has 2 scales or sizes for 4 axes"),
    "a scale of 0": ("Resize", [PIXELS, LEFT_OUT, f32(1, 1, 0, 1)], {}, "scales has 0.0"),
    "pixels of nothing": ("Resize", [PIXELS[:, :0], LEFT_OUT, LEFT_OUT, i64(1, 4, 2, 2)], {}, "must have an element"),
    "Cast to nothing": ("Cast", [X], {"to": 99}, "to is"),
    "division by 0": ("Div", [i64(1, 2), i64(1, 0)], {}, "divides by 0"),
    "arithmetic on data": ("Add", [X, X], {}, "anydml moves data"),
    "the product of much": ("ReduceProd", [np.ones(65, np.int64)], {}, "anydml moves data"),
    "repeats of an empty axis": ("Pad", [X[:0], i64(1, 0, 0, 0, 0, 0)], {"mode": "edge"}, "axis 0 of data has size 0"),
    "too few pads": ("Pad", [X, i64(1, 1)], {}, "pads"),
    "pads that cut too much": ("Pad", [X, i64(-2, 0, 0, -1, 0, 0)], {}, "pads cut -2 and -1 from axis 0"),
    "a value of another type": ("Pad", [X, i64(*[1] * 6), i64(1)], {}, "constant_value is int64"),
    "too few sizes to crop to": ("CenterCropPad", [X, i64(1)], {}, "shape has 1 entry for 3 axes"),
    "a condition of numbers": ("Compress", [X, i64(1, 0)], {"axis": 0}, "condition is int64"),
    "a condition beyond the axis": ("Compress", [X, np.ones(3, bool)], {"axis": 0}, "condition holds at 2"),
    "elements of nothing": ("GatherElements", [X[:, :0], np.zeros((2, 1, 4), np.int64)], {"axis": 1}, "of size 0"),
    "indices of another shape": ("GatherElements", [X, np.zeros((3, 3, 4), np.int64)], {"axis": 1}, "indices have"),
    "coordinates in nothing": ("GatherND", [X[:0], i64(0)[None]], {}, "index 0 is out of range"),
    "scalar coordinates": ("GatherND", [X, np.array(0)], {}, "data or indices are a scalar"),
    "batches that differ": ("GatherND", [X, np.zeros((3, 1), np.int64)], {"batch_dims": 1}, "batch_dims is 1"),
    "too many coordinates": ("GatherND", [X, np.zeros((1, 4), np.int64)], {}, "indices have 4 coordinates"),
    "axes that are not rows": ("ReverseSequence", [X, i64(1, 1, 1)], {"batch_axis": 2}, "batch_axis is 2"),
    "too few lengths": ("ReverseSequence", [X, i64(1)], {}, "sequence_lens has shape [1], but the batch has 3 samples"),
    "too long a sequence": ("ReverseSequence", [X, i64(1, 1, 3)], {}, "sequence_lens are 1 to 3"),
    "a constant without a value": ("Constant", [], {}, "has 0 attributes"),
    "two values to fill with": (
        "ConstantOfShape",
        [i64(2)],
        {"value": helper.make_tensor("v", TensorProto.FLOAT, [2], [1, 2])},
        "value is not a tensor of one element",
    ),
    "a range of two types": ("Range", [np.float32(0), np.int64(4), np.float32(1)], {}, "limit is int64, but start is"),
    "a range without steps": ("Range", [np.int64(0), np.int64(4), np.int64(0)], {}, "delta must not be 0"),
    "a range without end": ("Range", [np.float64(0), np.float64(1e308), np.float64(1e-308)], {}, "must be finite"),
    "updates of another shape": ("ScatterElements", [X, np.zeros((1, 1, 1), np.int64), X], {}, "updates have shape"),
    "coordinates of 32 bits": ("ScatterND", [X, np.zeros((1, 1), np.int32), X[:1]], {}, "indices are int32"),
    "blocks of another shape": ("ScatterND", [X, i64(0)[None], X], {}, "updates have shape"),
    "three values for one-hot": ("OneHot", [i64(1), np.int64(3), f32(0, 1, 2)], {}, "values has shape"),
    "a negative depth": ("OneHot", [i64(1), np.int64(-3), f32(0, 1)], {}, "depth is -3"),
    "a choice by numbers": ("Where", [i64(1), f32(1), f32(2)], {}, "condition is int64"),
    "a choice of two types": ("Where", [np.array([True]), f32(1), i64(2)], {}, "Y is int64, but X is float32"),
    "a triangle of a vector": ("Trilu", [f32(1, 2)], {}, "input must have 2 dimensions or more"),
    "parts of 0": ("SplitToSequence", [X, np.int64(0)], {}, "split is 0"),
    "parts that do not add up": ("SplitToSequence", [X, i64(1, 2)], {}, "split adds up to 3"),
    "a sequence of two types": ("SequenceConstruct", [f32(1), i64(1)], {}, "inputs[1] is int64"),
    "a place outside": ("SequenceAt", [[f32(1)], np.int64(1)], {}, "position is 1"),
    "a place far outside": ("SequenceInsert", [[f32(1)], f32(2), np.int64(3)], {}, "position is 3"),
    "a tensor of another type": ("SequenceInsert", [[f32(1)], i64(2)], {}, "but the sequence has float32"),
    "a tensor for a sequence": ("SequenceLength", [X], {}, "is not a sequence"),
    "tensors that do not stack": (
        "ConcatFromSequence",
        [[f32(1), f32(1, 2)]],
        {"axis": 0, "new_axis": 1},
        "tensors differ in shape or type",
    ),
    "an axis twice": ("Transpose", [X], {"perm": [0, 0, 1]}, "perm is"),
    "sizes below -1": ("Reshape", [X, i64(-2, 12)], {}, "shape has -2"),
    "a size to keep that is not there": ("Reshape", [X, i64(2, 3, 4, 0)], {}, "whose entry 3 is 0"),
    "two sizes to find": ("Reshape", [X, i64(-1, -1)], {}, "at most one entry of shape may be −1"),
    "a size that cannot be found": ("Reshape", [X, i64(5, -1)], {}, "data has 24 elements"),
    "another number of elements": ("Reshape", [X, i64(5, 5)], {}, "of 25 elements"),
    "an axis to flatten at": ("Flatten", [X], {"axis": 4}, "axis is 4, but the rank is 3"),
    "an axis that is not 1": ("Squeeze", [X, i64(1)], {}, "axis 1 has size 3"),
    "an axis that is not an axis": ("Unsqueeze", [X, i64(9)], {}, "axes has 9"),
    "the same axis again": ("Unsqueeze", [X, i64(0, 0)], {}, "has axis 0 twice"),
    "sizes that do not fit": ("Expand", [X, i64(5, 4)], {}, "3"),
    "too few repeats": ("Tile", [X, i64(2)], {}, "repeats"),
    "repeats whose product is 2 modulo 2 to the 64": ("Tile", [X[0, :, 0], i64((2**64 + 2) // 3)], {}, "is too large"),
    "repeats of a later axis past 64 bits": ("Tile", [X[:, :, 0], i64(1, (2**64 + 2) // 3)], {}, "is too large"),
    "repeats that are 2 to the 62": ("Tile", [X, i64(2**62, 1, 1)], {}, "is too large"),
    "repeats of words past 64 bits": ("Tile", [np.array([*"abc"], object), i64((2**64 + 2) // 3)], {}, "is too large"),
    "as many repeats as there are": ("Tile", [X[:, 0, 0], i64(2**63 - 1)], {}, "is too large"),
    "repeats of two axes whose product is too large": ("Tile", [X[0], i64(2**33, 2**31)], {}, "is too large"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_said(name):
    operator, inputs, attributes, message = BROKEN[name]
    names = ["" if value is None else f"i{k}" for k, value in enumerate(inputs)]
    node = helper.make_node(operator, names, ["y"], name="n", **attributes)
    with pytest.raises(ModelError) as caught:
        backend.run_node(node, inputs, opset_version=21)
    said = f"{caught.value} ({caught.value.rule})"
    assert message in said, said
    assert str(caught.value).startswith(f'node "n" ({operator}): ')
