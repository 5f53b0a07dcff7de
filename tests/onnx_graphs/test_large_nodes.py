"""Nodes whose results are large enough for kernels, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import pytest

from anydml.onnx import backend

from .random_nodes import ints, model_of
from .test_moving_nodes import expected

RNG = np.random.default_rng(4)
X = RNG.random((3, 70, 600), np.float32)
IMAGE = RNG.random((2, 12, 60, 70), np.float32)
CHOSEN = RNG.permutation(70)[:50]
EVERY = np.argsort(RNG.random((3, 70, 600)), axis=1)

CASES = [
    ("Transpose", [X], {"perm": [2, 0, 1]}),
    ("Expand", [X[:, None], ints(3, 4, 70, 600)], {}),
    ("Tile", [X, ints(2, 1, 3)], {}),
    ("Pad", [X, ints(0, 9, 5, 1, 20, 3)], {"mode": "reflect"}),
    ("Pad", [X, ints(0, 9, 5, 1, 20, 3), np.array(7, np.float32)], {"mode": "constant"}),
    ("Where", [X[0] > 0.5, X, X[:1, :1]], {}),
    ("GatherElements", [X, EVERY], {"axis": 1}),
    ("GatherND", [X, RNG.integers(-70, 70, (3, 90, 1))], {"batch_dims": 1}),
    ("ScatterElements", [X, EVERY[:, :40], X[:, :40]], {"axis": 1}),
    ("ScatterND", [X[0], CHOSEN[:, None], X[1, :50]], {}),
    ("OneHot", [RNG.integers(-9, 9, (50, 60)), ints(40), np.array([0, 1], np.float32)], {"axis": 1}),
    ("ReverseSequence", [X, RNG.integers(1, 4, 70)], {"time_axis": 0, "batch_axis": 1}),
    ("Trilu", [X, np.array(-20)], {"upper": 0}),
    ("Compress", [X, RNG.random(70) < 0.6], {"axis": 1}),
    ("DepthToSpace", [IMAGE], {"blocksize": 2, "mode": "CRD"}),
    ("SpaceToDepth", [IMAGE], {"blocksize": 2}),
    ("Resize", [IMAGE, None, None, ints(2, 12, 131, 97)], {"mode": "nearest"}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_against_onnx_runtime(case):
    kind, arrays, attributes = case
    model, feeds = model_of(kind, arrays, attributes)
    (ours,) = backend.run_model(model, feeds)
    assert ours.nbytes > 64 << 10
    assert np.array_equal(ours, expected(model, feeds))
