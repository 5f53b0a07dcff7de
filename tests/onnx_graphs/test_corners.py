"""Corners that ONNX Runtime's own tests name: what it makes of a node we make, and what it refuses we refuse."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from anydml import ModelError
from anydml.onnx import backend

from .more_corners import MORE, NONE, WORDS, V, X, f32, i64
from .random_nodes import model_of

onnxruntime.set_default_logger_severity(4)


BOOLS = np.array([[True, False], [True, False], [True, False]])
IMAGE = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)

CASES = {
    "words gathered": ("Gather", [WORDS, i64(-1, 0)], {"axis": 1}, 13),
    "words gathered one by one": ("GatherElements", [WORDS, np.array([[-1, 0, 1]])], {"axis": 0}, 13),
    "words at coordinates": ("GatherND", [WORDS, np.array([[1, -1], [0, 0]])], {}, 13),
    "words scattered": ("ScatterElements", [WORDS, np.array([[1, 0, 1]]), WORDS[1:]], {}, 18),
    "rows of words scattered": ("ScatterND", [WORDS, np.array([[-1]]), WORDS[:1]], {}, 18),
    "words joined": ("Concat", [WORDS, WORDS[:, :1]], {"axis": 1}, 13),
    "words backwards": ("Slice", [WORDS, i64(2), i64(-9), i64(1), i64(-2)], {}, 13),
    "words turned": ("Transpose", [WORDS], {}, 13),
    "words kept": ("Compress", [WORDS, np.array([True, False, True])], {"axis": 1}, 11),
    "words chosen": ("Where", [np.array([True, False, True]), WORDS, WORDS[::-1]], {}, 16),
    "words again": ("Tile", [WORDS, i64(1, 2)], {}, 13),
    "words made more": ("Expand", [WORDS[:, None], i64(2, 2, 3)], {}, 13),
    "sequences of words": ("ReverseSequence", [WORDS, i64(2, 1, 2)], {}, 10),
    "words by classes": ("OneHot", [i64(1, 0), np.int64(2), np.array(["off", "on"], object)], {}, 11),
    "words in another shape": ("Reshape", [WORDS, i64(3, -1)], {}, 14),
    "words without an axis": ("Squeeze", [WORDS[:1], i64(0)], {}, 13),
    "the same words": ("Identity", [WORDS], {}, 16),
    "a value in a vector": ("Pad", [BOOLS, i64(0, 2, 0, 0), np.array([True])], {}, 13),
    "axes of 32 bits": ("Pad", [X, i64(1, 2, 1, 0), f32(7).reshape(()), np.array([2, 0], np.int32)], {}, 18),
    "all of an axis cut off, and as much put there": ("Pad", [IMAGE, i64(0, 0, -4, 0, 0, 0, 4, 0), f32(5)[0]], {}, 18),
    "cut to nothing beside much": ("Pad", [X, i64(1, 1 << 20, -2, -3, 0, 1), f32(9)[0]], {}, 18),
    "more cut off than there is, and put there": ("Pad", [V, i64(5, -6), f32(9)[0]], {}, 18),
    "more cut off before than there is": ("Pad", [V, i64(-5, 3), f32(9)[0]], {}, 18),
    "more cut off than is put there": ("Pad", [V, i64(1, -6), f32(9)[0]], {}, 18),
    "cut and put on several axes": ("Pad", [X, i64(1, 3, -2, -1, 0, 1), f32(9)[0]], {}, 18),
    "the edge of nothing left": ("Pad", [V, i64(-4, 3)], {"mode": "edge"}, 18),
    "the edge of one left": ("Pad", [V, i64(-3, 3)], {"mode": "edge"}, 18),
    "a mirror of one left": ("Pad", [V, i64(-3, 3)], {"mode": "reflect"}, 18),
    "round one left": ("Pad", [V, i64(-3, 3)], {"mode": "wrap"}, 19),
    "edges beside an empty axis": ("Pad", [NONE, i64(1, 0, 1, 0)], {"mode": "edge"}, 13),
    "mirrored beside an empty axis": ("Pad", [NONE, i64(1, 0, 1, 0)], {"mode": "reflect"}, 13),
    "edges of an empty axis": ("Pad", [NONE, i64(1, 1, 1, 1)], {"mode": "edge"}, 13),
    "a mirror of an empty axis": ("Pad", [NONE, i64(0, 1, 0, 1)], {"mode": "reflect"}, 13),
    "constants around nothing": ("Pad", [NONE, i64(0, 1, 1, 1), f32(3)[0]], {}, 13),
    "a slice that ends before it starts": ("Slice", [V, i64(3), i64(1)], {}, 13),
    "a slice of nothing": ("Slice", [NONE, i64(0, 0), i64(9, 9)], {}, 13),
    "a slice backwards from far": ("Slice", [V, i64(100), i64(-100), i64(0), i64(-1)], {}, 13),
    "a slice by the smallest step": ("Slice", [V, i64(3), i64(-9), i64(0), i64(-(2**63))], {}, 13),
    "a slice by steps of 0": ("Slice", [V, i64(0), i64(4), i64(0), i64(0)], {}, 13),
    "a slice along no axis": ("Slice", [V, i64(0), i64(2), i64(1)], {}, 13),
    "slices of an axis twice": ("Slice", [X, i64(0, 0), i64(1, 1), i64(0, 0)], {}, 13),
    "starts and ends of two lengths": ("Slice", [X, i64(0, 0), i64(1)], {}, 13),
    "steps without axes": ("Slice", [X, i64(0, 2, 3), i64(2, -4, -5), None, i64(1, -1, -2)], {}, 13),
    "an index outside": ("Gather", [V, i64(4)], {}, 13),
    "an index far below": ("Gather", [V, i64(-5)], {}, 13),
    "indices of no elements": ("Gather", [X, np.zeros((0, 2), np.int64)], {"axis": 1}, 13),
    "a scalar index": ("Gather", [X, np.array(-1)], {"axis": -1}, 13),
    "element indices outside": ("GatherElements", [X, np.full((1, 3, 4), 2)], {}, 13),
    "elements of fewer rows": ("GatherElements", [X, np.array([[[-1, 0, 1, -2]]])], {"axis": 0}, 13),
    "coordinates outside": ("GatherND", [X, i64(0, 3)[None]], {}, 13),
    "coordinates below": ("GatherND", [X, i64(-2, -3, -4)[None]], {}, 13),
    "coordinates of a batch": ("GatherND", [X, np.array([[[2, -1]], [[0, 3]]])], {"batch_dims": 1}, 13),
    "coordinates for no rows": ("GatherND", [X, np.zeros((0, 2), np.int64)], {}, 13),
    "scattered outside": ("ScatterElements", [V, i64(4), f32(1)], {}, 18),
    "scattered below": ("ScatterElements", [V, i64(-5), f32(1)], {}, 18),
    "scattered to the last": ("ScatterElements", [V, i64(-1, -1, 0), f32(1, 2, 3)], {}, 18),
    "scattered nothing": ("ScatterElements", [V, i64(), f32()], {}, 18),
    "scattered to more rows than there are": (
        "ScatterElements", [X[0], np.zeros((4, 4), np.int64), np.ones((4, 4), np.float32)], {"axis": 1}, 18,
    ),
    "truths scattered": ("ScatterElements", [BOOLS, np.array([[1, 0]]), np.array([[False, True]])], {}, 18),
    "an axis to scatter along that is none": ("ScatterElements", [V, i64(0), f32(1)], {"axis": 1}, 18),
    "blocks scattered outside": ("ScatterND", [X, i64(2)[None], X[:1]], {}, 18),
    "blocks scattered below": ("ScatterND", [X, i64(-2)[None], X[1:]], {}, 18),
    "blocks scattered to nowhere": ("ScatterND", [X, np.zeros((0, 1), np.int64), X[:0]], {}, 18),
    "blocks by no coordinates": ("ScatterND", [X, np.zeros((1, 0), np.int64), X[None]], {}, 18),
    "joined with nothing": ("Concat", [NONE, np.ones((2, 3), np.float32), NONE], {"axis": 1}, 13),
    "joined of other ranks": ("Concat", [V, X], {"axis": 0}, 13),
    "joined beside another axis": ("Concat", [X, X[:, :2]], {"axis": 0}, 13),
    "joined along no axis": ("Concat", [V, V], {"axis": 1}, 13),
    "a part of nothing": ("Split", [NONE, i64(0)], {"axis": 1}, 13),
    "parts of another sum": ("Split", [V, i64(3)], {}, 13),
    "parts below 0": ("Split", [V, i64(-4)], {}, 13),
    "expanded to no sizes": ("Expand", [np.float32(3).reshape(()), i64()], {}, 13),
    "expanded to fewer": ("Expand", [X[:, :1], i64(3, 1)], {}, 13),
    "expanded to nothing": ("Expand", [X[:, :1], i64(2, 0, 4)], {}, 13),
    "expanded to what does not fit": ("Expand", [X, i64(2, 2, 4)], {}, 13),
    "expanded nothing": ("Expand", [NONE, i64(2, 1)], {}, 13),
    "tiled no times": ("Tile", [X, i64(1, 0, 2)], {}, 13),
    "tiled below 0": ("Tile", [V, i64(-1)], {}, 13),
    "tiled nothing": ("Tile", [NONE, i64(2, 3)], {}, 13),
    "turned nothing": ("Transpose", [NONE], {}, 13),
    "turned by an axis that is none": ("Transpose", [NONE], {"perm": [0, 2]}, 13),
    "turned by too few axes": ("Transpose", [X], {"perm": [0, 1]}, 13),
    "laid out as nothing": ("Reshape", [NONE, i64(0, 0, 7)], {}, 14),
    "laid out as nothing there was": ("Reshape", [NONE, i64(0, 3)], {"allowzero": 1}, 14),
    "nothing laid out by what is left": ("Reshape", [NONE, i64(0, -1)], {}, 14),
    "nothing laid out by what cannot be known": ("Reshape", [NONE, i64(0, -1)], {"allowzero": 1}, 14),
    "laid out as a scalar": ("Reshape", [V[:1], i64()], {}, 14),
    "squeezed to a scalar": ("Squeeze", [V[:1].reshape(1, 1)], {}, 13),
    "squeezed by no axes": ("Squeeze", [V.reshape(1, 4), i64()], {}, 13),
    "squeezed outside": ("Squeeze", [V.reshape(1, 4), i64(2)], {}, 13),
    "a scalar's axis": ("Unsqueeze", [np.float32(3).reshape(()), i64(-1, 0)], {}, 13),
    "an axis beyond the new ones": ("Unsqueeze", [V, i64(2)], {}, 13),
    "a choice of nothing": ("Where", [np.zeros((1, 0), bool), NONE, f32(1)], {}, 16),
    "a choice that does not fit": ("Where", [np.array([True, False]), X, V], {}, 16),
    "classes from the end": ("OneHot", [i64(-1, -10, 9, 10, -11), np.int64(10), f32(2, 5)], {}, 11),
    "classes by fractions": ("OneHot", [f32(1.9, -1.5, 3), f32(10), f32(0, 1)], {"axis": 0}, 11),
    "classes of nothing": ("OneHot", [np.zeros((2, 0), np.int64), np.int64(3), f32(0, 1)], {}, 11),
    "no classes": ("OneHot", [i64(0, 1), np.int64(0), f32(0, 1)], {}, 11),
    "classes along no axis": ("OneHot", [i64(0, 1), np.int64(3), f32(0, 1)], {"axis": 2}, 11),
    "turned by columns": (
        "ReverseSequence", [np.arange(8, dtype=np.float32).reshape(4, 2), i64(1, 4)], {}, 10,
    ),
    "turned by lengths of 0": ("ReverseSequence", [X, i64(0, 1, 2)], {}, 10),
    "turned by lengths below": ("ReverseSequence", [X, i64(-1, 1, 2)], {}, 10),
    "turned along one axis twice": ("ReverseSequence", [X, i64(1, 1)], {"time_axis": 0, "batch_axis": 0}, 10),
    "compressed flat": ("Compress", [X, np.array([False, True, True, False, True])], {}, 11),
    "compressed by all": ("Compress", [X, np.ones(3, bool)], {"axis": -2}, 11),
    "compressed to nothing": ("Compress", [X, np.zeros(3, bool)], {"axis": 1}, 11),
    "compressed by a square": ("Compress", [X, np.ones((2, 2), bool)], {}, 11),
    "compressed along no axis": ("Compress", [V, np.ones(1, bool)], {"axis": 1}, 11),
    "ones outside": ("EyeLike", [np.zeros((2, 3), np.int32)], {"k": 5}, 9),
    "ones far below": ("EyeLike", [np.zeros((3, 2), np.float64)], {"k": -2}, 9),
    "ones in a cube": ("EyeLike", [X], {}, 9),
    "a triangle of nothing": ("Trilu", [np.zeros((2, 0, 3), np.float32)], {}, 14),
    "a triangle far off": ("Trilu", [X, np.array(2**40)], {"upper": 0}, 14),
    "what is not zero of a scalar": ("NonZero", [np.array(3)], {}, 13),
    "what is not zero of nothing": ("NonZero", [NONE], {}, 13),
    "what is not a number": ("NonZero", [f32(0, -0.0, np.nan, np.inf)], {}, 13),
    "a range downwards": ("Range", [np.int64(2), np.int64(-7), np.int64(-2)], {}, 11),
    "a range to nowhere": ("Range", [np.float32(2), np.float32(2), np.float32(1)], {}, 11),
    "a range the wrong way": ("Range", [np.int32(2), np.int32(9), np.int32(-1)], {}, 11),
    "a range of fractions": ("Range", [np.float32(0.1), np.float32(1), np.float32(0.3)], {}, 11),
    "sizes of no elements": ("ConstantOfShape", [i64(2, 0)], {}, 9),
    "no sizes": ("ConstantOfShape", [i64()], {}, 9),
    "sizes below 0": ("ConstantOfShape", [i64(2, -1)], {}, 9),
    "the shape's end": ("Shape", [X], {"start": -1}, 15),
    "the shape of nothing between": ("Shape", [X], {"start": 2, "end": 1}, 15),
    "the shape of a scalar": ("Shape", [np.float32(3).reshape(())], {}, 13),
    "the size of nothing": ("Size", [NONE], {}, 13),
    "the same nothing": ("Identity", [NONE], {}, 16),
    "pixels of more than four axes": ("DepthToSpace", [X[None, None]], {"blocksize": 1}, 13),
    "blocks of one": ("SpaceToDepth", [IMAGE], {"blocksize": 1}, 13),
    "enlarged in one axis": ("Resize", [V, None, f32(2.5)], {"mode": "nearest"}, 13),
    "enlarged by corners": (
        "Resize", [IMAGE, None, None, i64(1, 1, 7, 7)],
        {"mode": "nearest", "coordinate_transformation_mode": "align_corners"}, 13,
    ),
    "made small, asymmetric": (
        "Resize", [IMAGE, None, f32(1, 1, 0.6, 0.6)],
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "ceil"}, 13,
    ),
    "made to one pixel": (
        "Resize", [IMAGE, None, None, i64(1, 1, 1, 1)],
        {"mode": "nearest", "coordinate_transformation_mode": "pytorch_half_pixel"}, 13,
    ),
    "not made larger at all": ("Resize", [IMAGE, None, f32(1, 1, 1, 1)], {"mode": "nearest"}, 13),
    "enlarged along one axis of four": ("Resize", [IMAGE, None, f32(3)], {"mode": "nearest", "axes": [-1]}, 18),
    "made to no pixels": ("Resize", [IMAGE, None, f32(1, 1, 0.1, 1)], {"mode": "nearest"}, 13),
    "volumes enlarged": ("Resize", [X[None, None], None, f32(1, 1, 2, 1, 2)], {"mode": "nearest"}, 13),
    **MORE,
}  # fmt: skip

OTHERWISE = {
    "a mirror of one left": [4, 4, 4, 4],
    "squeezed by no axes": V.reshape(1, 4),
    "classes by fractions": np.eye(10, dtype=np.float32)[[1, -1, 3]].T,
    "no classes": np.zeros((2, 0)),
    "what is not zero of a scalar": np.zeros((0, 1)),
    "nothing laid out by what cannot be known": None,
    "compressed by a square": None,
    "compressed by more, which hold": None,
    "where a scalar is not zero": np.zeros((0, 0)),
    "backwards to the most": f32(),
    "an axis as it is beside one halved": [[5, 7], [9, 11], [9, 11]],
    "a part as large as the whole": np.stack([[[0, 3], [8, 11], [-1, -1]], [[12, 15], [20, 23], [-1, -1]]]),
}
"""What ONNX Runtime has otherwise, and why: a mirror of one element repeats it, as DirectML's tables of loose ends have
it here. No axes are not all of them, as onnx's reference evaluator has it. ONNX's document casts classes to integers,
allows 0 of them, and has no rows of coordinates for a scalar; a slice backwards ends at its end, too, and a part of an
image is a part where the size stays, too, as tf_half_pixel_for_nn maps places where the scale is 1. It refuses the
others: 0 and −1 do not go together where 0 is a size, and a condition is a vector, no longer than what it chooses
from."""


def theirs(model, feeds):
    """What ONNX Runtime makes of it; None where it refuses, whenever that is."""
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return session.run(None, feeds)[0]
    except Exception:
        return None


@pytest.mark.parametrize("name", CASES)
def test_corner(name):
    kind, arrays, attributes, version = CASES[name]
    given = [None if each is None else np.asarray(each) for each in arrays]
    model, feeds = model_of(kind, given, attributes, version)
    # What decides sizes is fed, or is part of the model.
    made = (model, feeds), model_of(kind, given, attributes, version, fed=1)
    expected = theirs(model, feeds)
    if name in OTHERWISE:
        # ONNX Runtime's versions differ.
        expected = OTHERWISE[name]
        expected = None if expected is None else np.asarray(expected, np.int64 if kind == "NonZero" else np.float32)
    if expected is None:
        for each in made:
            with pytest.raises(ModelError):
                backend.run_model(*each)
        return
    for each in made:
        (ours,) = backend.run_model(*each)
        assert (ours.dtype, ours.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("is_upper", [0, 1])
@pytest.mark.parametrize("k", [-2, -1, 0, 1, 3])
def test_triangles_of_words(is_upper, k):
    """ONNX Runtime has none; elsewhere are empty words, as in NumPy's triangles of its own strings."""
    made = (np.triu if is_upper else np.tril)(WORDS.astype(np.dtypes.StringDType()), k).astype(object)
    for fed in (None, 1):
        model, feeds = model_of("Trilu", [WORDS, np.array(k)], {"upper": is_upper}, 14, **({"fed": fed} if fed else {}))
        (ours,) = backend.run_model(model, feeds)
        np.testing.assert_array_equal(ours, made)
