"""Random graphs of one node: the backend against ONNX Runtime and onnx's reference evaluator."""

from __future__ import annotations

import random

import numpy as np
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from anydml.onnx import backend

onnxruntime.set_default_logger_severity(4)


def shape(rng, least_rank=1):
    return tuple(rng.randint(0, 5) for _ in range(rng.randint(least_rank, 4)))


def random_slice(rng):
    x = shape(rng)
    axes = rng.sample(range(len(x)), rng.randint(1, len(x)))
    kind = rng.choice([np.int32, np.int64])
    edges = [-(2**31), -9, -2, -1, 0, 1, 2, 3, 9, 2**31 - 1]
    steps = [rng.choice([-7, -2, -1, 1, 2, 7]) for _ in axes]
    starts = [rng.choice(edges) for _ in axes]
    # ONNX Runtime reads INT_MAX as "to the first element" when it walks backwards; ONNX's document does not.
    ends = [rng.choice(edges if step > 0 else edges[:-1]) for step in steps]
    vectors = [starts, ends, [axis - rng.choice([0, len(x)]) for axis in axes], steps]
    return "Slice", {}, [x], [np.array(v, kind) for v in vectors], 1


def random_gather(rng):
    x = tuple(max(1, size) for size in shape(rng))
    axis = rng.randrange(len(x))
    indices = np.random.default_rng(rng.randrange(1000)).integers(-x[axis], x[axis], shape(rng, 0))
    return "Gather", {"axis": axis - rng.choice([0, len(x)])}, [x], [indices.astype(rng.choice(["i4", "i8"]))], 1


def random_concat(rng):
    x = shape(rng)
    axis = rng.randrange(len(x))
    shapes = [(*x[:axis], rng.randint(0, 4), *x[axis + 1 :]) for _ in range(rng.randint(1, 5))]
    return "Concat", {"axis": axis - rng.choice([0, len(x)])}, shapes, [], 1


def random_split(rng):
    x = shape(rng)
    axis = rng.randrange(len(x))
    count = rng.randint(1, 4)
    cuts = sorted(rng.randint(0, x[axis]) for _ in range(count - 1))
    sizes = np.diff([0, *cuts, x[axis]])
    return "Split", {"axis": axis - rng.choice([0, len(x)])}, [x], [sizes.astype(np.int64)], count


def starts_before_the_first(kind, sizes, constants):
    """Walking backwards from there, ONNX takes the first element (as ONNX Runtime does), NumPy's slices none."""
    return kind == "Slice" and any(
        step < 0 and start < -sizes[axis] for start, _, axis, step in zip(*(c.tolist() for c in constants), strict=True)
    )


@pytest.mark.parametrize("make", [random_slice, random_gather, random_concat, random_split])
def test_random_nodes(make):
    rng = random.Random(make.__name__)
    for _ in range(60):
        kind, attributes, shapes, constants, count = make(rng)
        dtype = np.dtype(rng.choice(["f4", "i8", "i4"]))
        arrays = [np.random.default_rng(7).integers(0, 99, s).astype(dtype) for s in shapes]
        names = [f"x{i}" for i in range(len(arrays) + len(constants))]
        outputs = [f"y{i}" for i in range(count)]
        node = helper.make_node(kind, names, outputs, **attributes)
        elem_type = helper.np_dtype_to_tensor_dtype(dtype)
        infos = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, [*arrays, *constants], strict=True)
        ]
        results = [helper.make_tensor_value_info(name, elem_type, None) for name in outputs]
        graph = helper.make_graph([node], "g", infos, results)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        feeds = dict(zip(names, [*arrays, *constants], strict=True))
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        expected = session.run(None, feeds)
        ours = backend.run_node(node, list(feeds.values()), opset_version=13)
        reference = ReferenceEvaluator(model).run(None, feeds)
        for theirs, result, other in zip(expected, ours, reference, strict=True):
            assert result.dtype == theirs.dtype
            assert np.array_equal(result, theirs), (node, shapes)
            # Some versions of the reference evaluator forget the shape of an empty result.
            same = np.array_equal(result, other) or result.size == other.size == 0
            assert same or starts_before_the_first(kind, shapes[0], constants)
