"""Random nodes that move, against ONNX Runtime, or onnx's reference evaluator where it does not have a type."""

from __future__ import annotations

import random

import numpy as np
import onnxruntime
import pytest
from how_many import how_many
from onnx.reference import ReferenceEvaluator

from anydml.onnx import backend

from .exact_resize import resized
from .random_corners import CORNERS
from .random_nodes import MAKERS, OPSET, model_of

onnxruntime.set_default_logger_severity(4)
CASES, CORNER_CASES = how_many(25), how_many(12)


def expected(model, feeds):
    """What ONNX Runtime makes of it, or the reference evaluator."""
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return ReferenceEvaluator(model).run(None, feeds)[0]
    return session.run(None, feeds)[0]


def compare(kind, arrays, attributes, *version):
    model, feeds = model_of(kind, arrays, attributes, *version)
    theirs = expected(model, feeds)
    (ours,) = backend.run_model(model, feeds)
    given = [None if array is None else (array.shape, array.dtype) for array in arrays]
    shown = (kind, attributes, given, arrays[1:], *version)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), shown
    if kind == "Resize" and not np.array_equal(ours, theirs):
        # Places halfway between two elements fall to either side in FLOAT and DOUBLE.
        theirs = resized(arrays, attributes, *version or (OPSET,))
    assert np.array_equal(ours, theirs), shown


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_random_nodes(make):
    rng = random.Random(make.__name__)
    for _ in range(CASES):
        compare(*make(rng))


@pytest.mark.parametrize("make", CORNERS, ids=lambda make: make.__name__)
def test_corners_that_onnx_runtimes_own_tests_look_at(make):
    rng = random.Random(make.__name__)
    for _ in range(CORNER_CASES):
        compare(*make(rng))
