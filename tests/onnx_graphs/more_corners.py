"""More corners that ONNX Runtime's own tests name, by operator: shapes, axes, steps and types that are seldom seen."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
V = np.arange(1, 5, dtype=np.float32)
NONE = np.zeros((2, 0), np.float32)
FEW = np.zeros((0, 3), np.float32)
IMAGE = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)
DEEP = np.arange(16, dtype=np.int32).reshape(1, 2, 2, 2, 2)
ONES = V.reshape(1, 2, 1, 1, 2)
SEVEN = np.arange(144, dtype=np.float64).reshape(2, 1, 2, 3, 1, 3, 4)
WORDS = np.array([["a", "", "ccc"], ["dd", "é", "f"]], object)
LONG = np.array([["a word of more than sixteen bytes", "x"], ["y", "z"], ["", "another such long word"]], object)
LEAST, MOST = -(2**63), 2**63 - 1
NEAREST = {"mode": "nearest"}
CROP = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": -1.0}


def i64(*values):
    return np.array(values, np.int64)


def f32(*values):
    return np.array(values, np.float32)


def filling(kind, value):
    return {"value": helper.make_tensor("v", kind, [1], [value])}


MORE = {
    "joined with a vector of nothing": ("Concat", [V, f32(), V[:1]], {"axis": -1}, 4),
    "joined nothings": ("Concat", [NONE, NONE], {"axis": 1}, 11),
    "joined in the middle of four": ("Concat", [IMAGE[:, :, :1], IMAGE], {"axis": -2}, 11),
    "scalars joined": ("Concat", [np.array(1), np.array(2)], {"axis": 0}, 13),
    "picked along no axis": ("Gather", [X, i64(0)], {"axis": -4}, 13),
    "picked by an index of 1000": ("Gather", [X, np.array([0, 1000], np.int32)], {"axis": 1}, 11),
    "picked from nothing": ("Gather", [NONE, i64(0)], {"axis": 1}, 13),
    "nothing picked from nothing": ("Gather", [NONE, i64()], {"axis": 1}, 13),
    "picked by a table, backwards": ("Gather", [WORDS, np.array([[-1, -3], [1, -2]], np.int32)], {"axis": 1}, 11),
    "single elements of less of every axis": ("GatherElements", [X, np.array([[[3], [-4]]])], {"axis": -1}, 11),
    "single elements of many": ("GatherElements", [X, np.array([[[1, 0, -1, 1], [0] * 4]], np.int32)], {}, 11),
    "as many elements as threads share": (
        "GatherElements", [np.arange(20002.0).reshape(2, -1), np.arange(10001, dtype=np.int32)[None] % 2], {}, 11,
    ),
    "more elements than another axis has": ("GatherElements", [X, np.zeros((3, 3, 1), int)], {"axis": 1}, 13),
    "words outside": ("GatherElements", [WORDS, np.array([[-3, 0, 0]])], {}, 11),
    "one element by its coordinates": ("GatherND", [X, i64(1, -1, 2)], {}, 11),
    "one word by its coordinates": ("GatherND", [WORDS, i64(-1, 1)], {}, 12),
    "rows of rows": ("GatherND", [X.astype(np.float16), np.array([[[1]], [[-2]]])], {}, 12),
    "batches of two axes": ("GatherND", [X, np.array([[[3], [0], [-1]], [[-4], [1], [2]]])], {"batch_dims": 2}, 12),
    "batches of another number": ("GatherND", [X[0], i64(1, 2)[:, None]], {"batch_dims": 1}, 12),
    "batches of none": ("GatherND", [FEW, i64(1, 2)[:, None]], {"batch_dims": 1}, 12),
    "a coordinate of an empty axis": ("GatherND", [NONE[..., None], i64(0, 0)[None]], {}, 12),
    "a last coordinate of an empty axis": ("GatherND", [NONE[..., None], i64(1, -1)[None]], {}, 13),
    "scalar coordinates": ("GatherND", [V, np.array(0)], {}, 12),
    "an old scatter outside": ("Scatter", [V, i64(4), f32(1)], {}, 9),
    "an old scatter of other sizes": ("Scatter", [V[None], i64(1, 3, 3)[None], f32(1, 2)[None]], {"axis": 1}, 9),
    "scattered by other sizes": ("ScatterElements", [V[None], i64(1, 3)[None], f32(1)[None]], {"axis": 1}, 11),
    "scattered into seven axes": (
        "ScatterElements",
        [SEVEN, np.full((2, 1, 1, 5, 1, 2, 3), -3, np.int32), -SEVEN[:, :, :1, [0, 1, 2, 0, 1], :, :2, :3]],
        {"axis": -4}, 11,
    ),
    "an old scatter into less of every axis": (
        "Scatter", [X, np.array([[[3, -3]]], np.int32), np.array([[[8, 9]]], np.float32)], {"axis": -1}, 9,
    ),
    "one element replaced": ("ScatterND", [X, i64(1, -1, 0), np.float32(9).reshape(())], {}, 11),
    "one word replaced": ("ScatterND", [WORDS, i64(-1, 0), np.array("new", object)], {}, 11),
    "a word replaced three times": (
        "ScatterND", [LONG[0], i64(1, 1, 1)[:, None], np.array(["first", "second", "last, of many letters"], object)],
        {}, 18,
    ),
    "tables of rows replaced": ("ScatterND", [X, np.array([[[0, -1]], [[1, 0]]]), -X[:, :1]], {}, 13),
    "truths replaced": ("ScatterND", [X > 9, np.array([[[1, 1, -4]]]), np.array([[False]])], {}, 16),
    "blocks of seven axes": ("ScatterND", [SEVEN, i64(1, 0, 1)[:, None], -np.stack([SEVEN[0]] * 3) + 5], {}, 11),
    "all replaced, twice": ("ScatterND", [V, np.zeros((2, 0), np.int64), np.stack([V + 1, V + 2])], {}, 18),
    "all replaced, never": ("ScatterND", [V, np.zeros((0, 0), np.int64), np.zeros((0, 4), np.float32)], {}, 18),
    "all of nothing replaced": ("ScatterND", [FEW, np.zeros((1, 0), np.int64), FEW[None]], {}, 18),
    "a slice from beyond": ("Slice", [X, i64(0, 1000), i64(10, 1001), i64(0, 1)], {}, 10),
    "a slice of the later axis first": ("Slice", [X, i64(1, 0), i64(1000, -1), i64(2, 0)], {}, 10),
    "axes of a slice out of order": ("Slice", [X], {"axes": [2, 0], "starts": [1, 0], "ends": [9, -1]}, 9),
    "axes of a slice left out": ("Slice", [X], {"starts": [0, 1], "ends": [9, -1]}, 1),
    "a slice by 32 bits": ("Slice", [X, *(np.array([n], np.int32) for n in (-3, -1, -1, 2))], {}, 13),
    "backwards to the least": ("Slice", [X, i64(-1, -1), i64(LEAST, LEAST), i64(0, -1), i64(-1, -1)], {}, 10),
    "backwards to the least of 32 bits": ("Slice", [V, i64(-1), i64(-(2**31)), i64(0), i64(-1)], {}, 10),
    "backwards to just beyond": ("Slice", [V, i64(-1), i64(-5), i64(0), i64(-1)], {}, 10),
    "backwards to the end": ("Slice", [V, i64(0), i64(4), i64(0), i64(-1)], {}, 10),
    "backwards from beyond": ("Slice", [X, i64(9), i64(0), i64(2), i64(-3)], {}, 10),
    "backwards to the most": ("Slice", [V, i64(-1), i64(2**31 - 1), i64(0), i64(-1)], {}, 10),
    "by the largest step": ("Slice", [DEEP, i64(0), i64(1), i64(1), i64(MOST)], {}, 10),
    "of five axes some": ("Slice", [DEEP, i64(0, 1, 1, 0), i64(1, 2, MOST, 6)], {}, 10),
    "of five axes two that are apart": ("Slice", [DEEP, i64(1, 1), i64(MOST, MOST), i64(1, 3)], {}, 13),
    "backwards through an empty axis": ("Slice", [FEW, i64(1), i64(0), i64(0), i64(-1)], {}, 10),
    "axes alone left out": ("Slice", [V, i64(1), i64(3), None, i64(1)], {}, 10),
    "a scalar tiled": ("Tile", [np.float32(3).reshape(()), i64()], {}, 13),
    "tiled by a table": ("Tile", [X[0], i64(1, 1)[None]], {}, 13),
    "tiled by fewer": ("Tile", [X[0], i64(1)], {}, 13),
    "tiled below 0 on one axis": ("Tile", [X[0], i64(2, -3)], {}, 13),
    "five axes tiled": ("Tile", [DEEP, i64(3, 1, 2, 1, 2)], {}, 6),
    "truths tiled": ("Tile", [X[:, :1] > 9, i64(2, 2, 1)], {}, 13),
    "expanded from both sides": ("Expand", [IMAGE.reshape(1, 3, 1, 4), i64(3, 1, 2, 1)], {}, 8),
    "a scalar expanded": ("Expand", [np.array(9, np.int32), i64(2, 3, 4)], {}, 8),
    "every other axis expanded": ("Expand", [ONES, i64(3, 1, 2, 2, 1)], {}, 13),
    "turned by nothing but ones": ("Transpose", [ONES.astype(np.int16)], {"perm": [1, 3, 2, 4, 0]}, 1),
    "halves as they are": ("Transpose", [np.arange(6, dtype=np.uint16).view(np.float16).reshape(2, 3)], {}, 13),
    "words of four axes turned": ("Transpose", [LONG.reshape(1, 3, 2, 1)], {"perm": [0, 2, 3, 1]}, 13),
    "a scalar turned": ("Transpose", [np.float32(3).reshape(())], {}, 13),
    "turned by one axis twice": ("Transpose", [X], {"perm": [0, 1, 1]}, 13),
    "what is left, then what was there": ("Reshape", [X, i64(-1, 0, 2)], {}, 13),
    "a scalar of three axes": ("Reshape", [V[:1].reshape(1, 1, 1), i64()], {}, 5),
    "nothing and one axis more": ("Reshape", [FEW, i64(0, 3, 1)], {}, 13),
    "nothing, and what is left": ("Reshape", [NONE[:1], i64(1, 1, -1)], {}, 13),
    "nothing there, and what is left": ("Reshape", [NONE[:1], i64(1, 0, -1)], {}, 13),
    "nothing in another place": ("Reshape", [FEW[..., None], i64(3, 1, 0)], {}, 13),
    "nothing in another place allowed": ("Reshape", [FEW[..., None], i64(3, 1, 0)], {"allowzero": 1}, 14),
    "something as nothing": ("Reshape", [X[0], i64(0, 4)], {"allowzero": 1}, 14),
    "something as what is left": ("Reshape", [X[0], i64(-1, 6)], {"allowzero": 1}, 14),
    "left twice": ("Reshape", [X, i64(-1, -1, 2)], {}, 14),
    "squeezed out of order": ("Squeeze", [ONES], {"axes": [3, 0, 2]}, 1),
    "squeezed twice": ("Squeeze", [ONES], {"axes": [3, 0, 2, 0, 3]}, 11),
    "squeezed twice, from either end": ("Squeeze", [ONES, i64(3, 0, -2, -5)], {}, 13),
    "squeezed from either end": ("Squeeze", [ONES], {"axes": [0, -3, -2]}, 11),
    "squeezed more than one": ("Squeeze", [ONES], {"axes": [1]}, 11),
    "nothing to squeeze": ("Squeeze", [X], {}, 11),
    "ones all squeezed": ("Squeeze", [V[:1].reshape(1, 1, 1)], {}, 11),
    "axes put in out of order": ("Unsqueeze", [X], {"axes": [2, 1, 0]}, 1),
    "axes put in from either end": ("Unsqueeze", [X, i64(-4, 1, -6)], {}, 13),
    "an axis put in twice": ("Unsqueeze", [X], {"axes": [2, 0, 2]}, 11),
    "an axis put in twice, by an input": ("Unsqueeze", [X, i64(0, -5)], {}, 13),
    "an axis far beyond": ("Unsqueeze", [X], {"axes": [4]}, 11),
    "a scalar's axes": ("Unsqueeze", [np.float32(3).reshape(())], {"axes": [0, 1]}, 11),
    "flattened beyond": ("Flatten", [IMAGE], {"axis": 5}, 11),
    "flattened far below": ("Flatten", [IMAGE], {"axis": -5}, 11),
    "flattened at the end": ("Flatten", [IMAGE], {"axis": 4}, 9),
    "flattened from the end": ("Flatten", [IMAGE], {"axis": -1}, 11),
    "flattened nothing": ("Flatten", [NONE], {"axis": 0}, 13),
    "a scalar flattened": ("Flatten", [np.float32(3).reshape(())], {"axis": 0}, 13),
    "a choice of three axes": ("Where", [X[:, :1, :1] > 5, X[:1, :, :1], X[:1, :1]], {}, 9),
    "a choice of words": ("Where", [np.array([[[True]], [[False]]]), WORDS[:, :1], WORDS[0]], {}, 9),
    "a choice beside nothing": ("Where", [np.array([True, False, True]), X[:1, :, 0], FEW[:, :1]], {}, 9),
    "classes before the rest": ("OneHot", [i64(1, -1, 5).reshape(1, 3), i64(5), i64(2, 3)], {"axis": -3}, 9),
    "classes of words by fractions": (
        "OneHot", [f32(1, 0, 2).reshape(3, 1), i64(3), np.array(["off", "on"], object)], {"axis": 1}, 11,
    ),
    "classes before nothing": ("OneHot", [np.zeros((2, 0), np.int64), i64(4), i64(0, 1)], {"axis": 0}, 11),
    "classes by three values": ("OneHot", [i64(0), i64(2), i64(0, 1, 2)], {}, 11),
    "classes below 0": ("OneHot", [i64(0), i64(-2), i64(0, 1)], {}, 11),
    "an image of fewer pixels": ("Resize", [IMAGE, f32(), f32(1, 1, 0.6, 0.6)], NEAREST, 12),
    "to a size that does not divide": ("Resize", [IMAGE, f32(), None, i64(1, 1, 2, 3)], NEAREST, 13),
    "pixels of neural networks": (
        "Resize", [IMAGE, f32(), f32(), i64(1, 1, 2, 2)],
        {**NEAREST, "coordinate_transformation_mode": "tf_half_pixel_for_nn"}, 12,
    ),
    "an axis as it is beside one halved": (
        "Resize", [X[0], f32(), f32(1, 0.5)],
        {**NEAREST, "coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "ceil"}, 12,
    ),
    "a part of an image and what is outside": (
        "Resize", [IMAGE, f32(0, 0, 0.4, 0.6, 1, 1, 1.2, 1.7), f32(1, 1, 0.8, 0.8)], {**NEAREST, **CROP}, 13,
    ),
    "a part of five axes": (
        "Resize", [IMAGE[None], f32(0, 0, 0, 0.4, 0.6, 1, 1, 1, 1.2, 1.7), f32(1, 1, 1, 0.8, 0.8)],
        {**NEAREST, **CROP}, 13,
    ),
    "a part of some axes": (
        "Resize", [X, f32(0.25, 0, 1.5, 1), None, i64(2, 2)], {**NEAREST, **CROP, "axes": [1, 2]}, 18,
    ),
    "a part as large as the whole": (
        "Resize", [X, f32(0.25, 0, 1.5, 1), None, i64(3, 2)], {**NEAREST, **CROP, "axes": [1, 2]}, 18,
    ),
    "up to sizes of five axes": (
        "Resize", [IMAGE[None], None, None, i64(1, 1, 1, 7, 9)], {**NEAREST, "nearest_mode": "ceil"}, 13,
    ),
    "corners, rounded down": (
        "Resize", [IMAGE, f32(), f32(1, 1, 2, 2)],
        {**NEAREST, "coordinate_transformation_mode": "align_corners", "nearest_mode": "floor"}, 13,
    ),
    "sizes no larger, of three axes": (
        "Resize", [X[None, None], None, None, i64(3, 4, 5)],
        {**NEAREST, "axes": [2, 3, 4], "keep_aspect_ratio_policy": "not_larger"}, 18,
    ),
    "sizes no smaller, of three axes": (
        "Resize", [X[None, None], None, None, i64(1, 2, 3)],
        {**NEAREST, "axes": [2, 3, 4], "keep_aspect_ratio_policy": "not_smaller"}, 18,
    ),
    "both scales and sizes": ("Resize", [IMAGE, None, f32(1, 1, 2, 2), i64(1, 1, 6, 8)], NEAREST, 13),
    "an image with its channels last": ("Resize", [IMAGE.reshape(1, 2, 2, 3), None, f32(1, 2, 1.5, 1)], NEAREST, 11),
    "an old image with its channels last": (
        "Upsample", [IMAGE.reshape(1, 2, 2, 3)], {**NEAREST, "scales": [1, 2, 1.5, 1]}, 7,
    ),
    "images repeated": ("Upsample", [IMAGE, f32(2, 1, 2, 2)], NEAREST, 9),
    "a row of pixels": ("Upsample", [V], {**NEAREST, "scales": [2.0]}, 7),
    "an image as it was": ("Upsample", [IMAGE.astype(np.uint8), f32(1, 1, 1, 1)], NEAREST, 9),
    "pixels by the default order": (
        "DepthToSpace", [np.arange(24, dtype=np.float64).reshape(2, 4, 3, 1)], {"blocksize": 2}, 11,
    ),
    "blocks that do not divide": ("SpaceToDepth", [IMAGE], {"blocksize": 2}, 13),
    "channels that do not divide": ("DepthToSpace", [IMAGE], {"blocksize": 2}, 13),
    "long words turned": ("ReverseSequence", [LONG[..., None], i64(3, 2)], {"time_axis": 0, "batch_axis": 1}, 10),
    "a batch axis of 2": ("ReverseSequence", [X, i64(1, 1, 1, 1)], {"batch_axis": 2, "time_axis": 1}, 10),
    "a time axis of 2": ("ReverseSequence", [X, i64(1, 1)], {"batch_axis": 0, "time_axis": 2}, 10),
    "lengths of others": ("ReverseSequence", [X, i64(1, 1)], {"batch_axis": 1, "time_axis": 0}, 10),
    "lengths beyond": ("ReverseSequence", [X, i64(4, 1)], {"batch_axis": 0, "time_axis": 1}, 10),
    "lengths far below": ("ReverseSequence", [X, i64(1, -2)], {"batch_axis": 0, "time_axis": 1}, 10),
    "a triangle by a vector": ("Trilu", [X, i64(1)], {}, 14),
    "a triangle by two": ("Trilu", [X, i64(1, 2)], {}, 14),
    "a triangle of no rows and columns": ("Trilu", [np.zeros((2, 0, 0), np.float32), np.array(-5)], {"upper": 0}, 14),
    "a triangle of a vector": ("Trilu", [V], {}, 14),
    "a triangle below": ("Trilu", [X.astype(np.int64), i64(-5)], {"upper": 0}, 14),
    "ones of another type": ("EyeLike", [X[0]], {"dtype": TensorProto.INT64, "k": 2}, 9),
    "compressed by more than there is": ("Compress", [X, np.array([False, True])], {"axis": 0}, 9),
    "compressed by more, which do not hold": ("Compress", [X, np.array([False, True, False])], {"axis": 0}, 9),
    "compressed by more, which hold": ("Compress", [X, np.array([False, True, True])], {"axis": 0}, 9),
    "words compressed flat": ("Compress", [WORDS, np.array([False, True, False, False, True])], {}, 9),
    "more than 127 kept": ("Compress", [np.arange(150, dtype=np.int16).reshape(2, 75), np.ones(150, bool)], {}, 9),
    "where a scalar is not zero": ("NonZero", [np.array(0, np.int32)], {}, 9),
    "where nothing is": ("NonZero", [np.zeros((1, 0, 2), np.int32)], {}, 9),
    "the size of a scalar": ("Size", [np.array(3, np.int32)], {}, 1),
    "the shape of words": ("Shape", [WORDS[None]], {}, 1),
    "an old shape with an end": ("Shape", [DEEP], {"start": 1, "end": -1}, 15),
    "padded axes out of order": ("Pad", [X, i64(1, 0, 2, -1), f32(8)[0], i64(2, 0)], {}, 18),
    "padded along an axis that is none": ("Pad", [X, i64(1, 0), f32(8)[0], i64(3)], {}, 18),
    "a vector of nothing padded": ("Pad", [f32(), i64(1, 2), f32(7)[0]], {}, 13),
    "a vector of nothing moved": ("Pad", [f32(), i64(-1, 1), f32(7)[0]], {}, 13),
    "no rows padded all round": ("Pad", [FEW, i64(1, 1, 1, 0), f32(7)[0]], {}, 11),
    "the edge of a vector of nothing": ("Pad", [f32(), i64(1, 1)], {"mode": "edge"}, 11),
    "edges beside an empty axis of three": ("Pad", [NONE[None], i64(2, 1, 0, 0, 1, 0)], {"mode": "edge"}, 13),
    "mirrored with an empty axis": ("Pad", [FEW[..., None], i64(1, 1, 1, 1, 1, 1)], {"mode": "reflect"}, 13),
    "edges after a cut": ("Pad", [X, i64(1, -1, 0, 1, 1, 0)], {"mode": "edge"}, 13),
    "mirrored after a cut": ("Pad", [X, i64(1, -1, 0, 1, 1, 0)], {"mode": "reflect"}, 13),
    "round as far as it goes": ("Pad", [X, i64(1, 3, 0, 2, 3, 0)], {"mode": "wrap"}, 19),
    "one edge at the end": ("Pad", [X, i64(0, 0, 0, 0, 0, 1)], {"mode": "edge"}, 18),
    "edges of old": ("Pad", [X.astype(np.float64)], {"mode": "edge", "pads": [0, 2, -1, 1, 0, 0]}, 10),
    "the middle of some axes": ("CenterCropPad", [X, i64(6, 1)], {"axes": [-1, 0]}, 18),
    "the middle by odd numbers": ("CenterCropPad", [X.astype(np.int32), i64(5, 2, 1)], {}, 18),
    "the middle of nothing": ("CenterCropPad", [NONE, i64(3, 3)], {}, 18),
    "no middle": ("CenterCropPad", [X[0], i64(0, 2)], {}, 18),
    "the middle of an axis that is none": ("CenterCropPad", [X, i64(2)], {"axes": [3]}, 18),
    "the middle by too many": ("CenterCropPad", [X, i64(2, 2)], {"axes": [0]}, 18),
    "a range of one long step": ("Range", [f32(2)[0], f32(2.01)[0], f32(1e6)[0]], {}, 11),
    "a range down to fractions": ("Range", [f32(2)[0], f32(-8.1)[0], f32(-2)[0]], {}, 11),
    "a range of no steps": ("Range", [np.int64(2), np.int64(5), np.int64(0)], {}, 11),
    "a range of vectors": ("Range", [i64(2), i64(5), i64(1)], {}, 11),
    "bytes below zero": ("ConstantOfShape", [i64(2, 3)], filling(TensorProto.INT8, -8), 9),
    "a truth of no sizes": ("ConstantOfShape", [i64()], filling(TensorProto.BOOL, True), 9),
    "halves of a shape": ("ConstantOfShape", [i64(2, 1)], filling(TensorProto.FLOAT16, 0.5), 9),
    "much of a number": ("ConstantOfShape", [i64(3)], filling(TensorProto.UINT64, 2**64 - 1), 9),
}  # fmt: skip
"""Operator, inputs, attributes and version, by what they are."""
