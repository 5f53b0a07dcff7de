"""Random nodes that move, as DirectML's descs: run on the reference device they compute what the backend computes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from onnx import numpy_helper

from anydml import Device
from anydml.onnx import backend, to_descs

from .random_nodes import MAKERS, model_of, non_zero

CASES = 25
NO_DESC = {
    "reshape", "flatten", "squeeze", "unsqueeze", "where", "compress", "center_crop_pad",
}  # fmt: skip
"""Those that DirectML runs nothing for, or an operator that anydml has no desc of."""


def dispatch(desc, arrays):
    given = iter(array for array in arrays if array is not None)
    inputs = []
    for name, tensor in desc.inputs:
        if name == "ValuesTensor":
            array = arrays[2]
        elif name == "SequenceLengthsTensor":
            array = arrays[1].view(np.uint64)
        else:
            array = next(given)
        inputs.append(bound(np.ascontiguousarray(array).view(np.uint8) if array.dtype == bool else array, tensor))
    outputs = [np.zeros(tensor.sizes, tensor.data_type.dtype) for _, tensor in desc.outputs]
    Device("reference").compile_operator(desc).bind(inputs, outputs).dispatch()
    return outputs[0]


def bound(array, tensor):
    """A packed array as a tensor that may have strides of its own."""
    if tensor.strides is None:
        return np.ascontiguousarray(array).reshape(tensor.sizes)
    steps = [stride * array.itemsize for stride in tensor.strides]
    return np.lib.stride_tricks.as_strided(np.ascontiguousarray(array), tensor.sizes, steps)


@pytest.mark.parametrize("make", [make for make in MAKERS if make is not non_zero], ids=lambda make: make.__name__)
def test_random_nodes(make):
    rng, found = random.Random(make.__name__), 0
    for _ in range(CASES):
        kind, arrays, attributes = make(rng)
        model, feeds = model_of(kind, arrays, attributes)
        # What decides sizes has to be known.
        for k, value in reversed([*enumerate(model.graph.input)][1 if kind not in ("Range",) else 0 :]):
            model.graph.initializer.append(numpy_helper.from_array(feeds[value.name], value.name))
            del model.graph.input[k]
        if not any(array is not None and array.dtype.kind in "iufb" for array in arrays):
            continue
        descs = to_descs(model)
        (expected,) = backend.run_model(model, {value.name: feeds[value.name] for value in model.graph.input})
        if not descs:
            assert make.__name__ in NO_DESC | {"resize"}
            continue
        (desc,) = descs.values()
        if not expected.size or any(array is not None and not array.size for array in arrays[:1]):
            continue
        problems = [*desc.problems()]
        assert all(problem.field.endswith(("DataType", "IndicesTensor.Sizes")) for problem in problems), problems
        if problems:
            # DirectML has fewer types than ONNX, and wants indices as large as the data but along the axis.
            continue
        found += 1
        result = dispatch(desc, arrays)
        ours = result.reshape(expected.shape)
        assert np.array_equal(ours, expected.view(np.uint8) if expected.dtype == bool else expected), (kind, attributes)
    assert (found > 1) == (make.__name__ not in NO_DESC | {"resize"})
