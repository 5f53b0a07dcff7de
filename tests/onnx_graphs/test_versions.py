"""Operators as older opsets had them: attributes that are inputs today, other defaults; against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import defs, helper, parser

from anydml import ModelError
from anydml.onnx import backend
from anydml.onnx.checks import check
from anydml.onnx.table import NODES

onnxruntime.set_default_logger_severity(4)
X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
IMAGE = np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4)
ONE = np.arange(12, dtype=np.float32).reshape(1, 3, 1, 4)


def ints(*values):
    return np.array(values, np.int64)


CASES = [
    ("Transpose", 7, [X], {"perm": [2, 0, 1]}),
    ("Reshape", 7, [X, ints(0, -1)], {}),
    ("Reshape", 13, [X, ints(4, 0, -1)], {}),
    ("Flatten", 9, [X], {"axis": 2}),
    ("Flatten", 11, [X], {"axis": -1}),
    ("Squeeze", 7, [ONE], {"axes": [0, 2]}),
    ("Squeeze", 11, [ONE], {"axes": [-2]}),
    ("Squeeze", 12, [ONE], {}),
    ("Unsqueeze", 7, [X], {"axes": [0, 4]}),
    ("Unsqueeze", 11, [X], {"axes": [-1]}),
    ("Expand", 8, [ONE, ints(2, 1, 5, 4)], {}),
    ("Tile", 7, [X, ints(1, 2, 2)], {}),
    ("Pad", 7, [X], {"pads": [0, 1, 0, 1, 0, 2], "value": 3.0}),
    ("Pad", 10, [X], {"pads": [0, 1, 1, 1, 0, 2], "mode": "reflect"}),
    ("Pad", 10, [X], {"pads": [0, -1, 1, 1, 0, -2], "mode": "edge"}),
    ("Pad", 11, [X, ints(0, -1, 0, 1, 0, -2), np.float32(7)], {}),
    ("Pad", 18, [X, ints(1, 2), np.float32(7), ints(-1)], {}),
    ("Pad", 19, [X, ints(0, 5, 0, 1, 0, 9)], {"mode": "wrap"}),
    ("Shape", 13, [X], {}),
    ("Shape", 15, [X], {"start": -2, "end": 99}),
    ("Size", 7, [X], {}),
    ("Where", 9, [X > 5, X, -X], {}),
    ("Scatter", 9, [X, np.zeros((2, 1, 4), np.int64), -X[:, :1]], {"axis": 1}),
    ("ScatterElements", 11, [X, np.full((2, 1, 4), -1), -X[:, :1]], {"axis": 1}),
    ("ScatterND", 11, [X, ints(1, 0)[:, None], -X], {}),
    ("GatherND", 11, [X, np.array([[1, 2], [0, -1]])], {}),
    ("GatherElements", 11, [X, np.zeros((2, 1, 4), np.int64)], {"axis": -2}),
    ("DepthToSpace", 7, [np.repeat(IMAGE, 2, 1)], {"blocksize": 2}),
    ("DepthToSpace", 11, [np.repeat(IMAGE, 2, 1)], {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", 7, [IMAGE], {"blocksize": 2}),
    ("Upsample", 7, [IMAGE], {"scales": [1.0, 1.0, 2.0, 3.0]}),
    ("Upsample", 9, [IMAGE, np.float32([1, 1, 2, 1.5])], {}),
    ("Resize", 10, [IMAGE, np.float32([1, 1, 0.5, 2])], {}),
    ("Resize", 11, [IMAGE, np.float32([]), np.float32([1, 1, 0.6, 2])], {"nearest_mode": "ceil"}),
    ("Resize", 11, [IMAGE, np.float32([]), np.float32([]), ints(1, 2, 3, 7)],
     {"coordinate_transformation_mode": "tf_half_pixel_for_nn"}),
    ("OneHot", 9, [ints(1, 7, -1), ints(3), np.float32([2, 5])], {"axis": 0}),
    ("Compress", 9, [X, np.array([False, True])], {"axis": 1}),
    ("Dropout", 7, [X], {}),
    ("Dropout", 10, [X], {"ratio": 0.7}),
    ("Dropout", 12, [X, np.float32(0.5), np.bool_(False)], {}),
    ("Cast", 7, [X - 3.5], {"to": 7}),
    ("Cast", 9, [X], {"to": 9}),
    ("ConstantOfShape", 9, [ints(2, 3)], {}),
    ("Range", 11, [np.int32(7), np.int32(-3), np.int32(-4)], {}),
    ("EyeLike", 9, [X[0]], {"k": 1, "dtype": 7}),
    ("NonZero", 9, [X % 3], {}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_against_onnx_runtime(case):
    kind, opset, arrays, attributes = case
    node = helper.make_node(kind, [f"x{k}" for k in range(len(arrays))], ["y"], **attributes)
    feeds = {f"x{k}": np.asarray(array) for k, array in enumerate(arrays)}
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in feeds.items()
    ]
    (ours,) = backend.run_node(node, [*feeds.values()], opset_version=opset)
    result = helper.make_tensor_value_info("y", helper.np_dtype_to_tensor_dtype(ours.dtype), None)
    graph = helper.make_graph([node], "g", infos, [result])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (theirs,) = session.run(None, feeds)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    assert np.array_equal(ours, theirs)


def test_the_table_has_every_version_from_opset_7_on():
    """Of its operators; what is older is broadcast by attributes, or has tensors for sizes."""
    newest = {}
    for schema in defs.get_all_schemas_with_history():
        if not schema.domain and ("", schema.name) in NODES:
            newest.setdefault(schema.name, set()).add(schema.since_version)
    for name, versions in newest.items():
        ours = set(NODES["", name].versions)
        first = max((version for version in versions if version <= 7), default=min(versions))
        assert {version for version in versions if version >= first} <= ours, name
        # Of operators that have changed since, an older onnx knows the first versions only.
        assert {version for version in ours if version <= defs.onnx_opset_version()} <= versions, name


def test_a_version_that_is_missing_is_refused():
    node = helper.make_node("Tile", ["x", "tiles", "axis"], ["y"])
    with pytest.raises(ModelError, match="does not have the version of opset 5; it has versions 6, 13"):
        backend.run_node(node, [X, np.float32(2), np.float32(0)], opset_version=5)


@pytest.mark.parametrize("where", ["model", "function"])
@pytest.mark.parametrize("above", [1, 1000])
def test_an_opset_that_onnx_does_not_know_is_refused(where, above):
    version = defs.onnx_opset_version() + above
    model, inner = (version, 18) if where == "model" else (18, version)
    text = f"""<ir_version: 9, opset_import: ["": {model}, "f": 1]> g (float[2] x) => (float[2] y) {{ y = f.f (x) }}
    <domain: "f", opset_import: ["": {inner}]> f (a) => (b) {{ b = Identity (a) }}"""
    message = f"imports opset {version} of ONNX, but the installed onnx .* up to {version - above}:"
    with pytest.raises(ModelError, match=message):
        check(parser.parse_model(text))


def test_the_newest_opset_is_taken():
    newest = defs.onnx_opset_version()
    text = f'<ir_version: 10, opset_import: ["": {newest}]> g (float[2] x) => (float[2] y) {{ y = Neg (x) }}'
    check(parser.parse_model(text))
