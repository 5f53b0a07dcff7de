"""Random nodes that move, as DirectML's descs: run on the reference device they compute what the backend computes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from how_many import how_many
from onnx import numpy_helper, parser

from anydml import Device
from anydml.errors import ModelError
from anydml.onnx import backend, to_descs
from anydml.onnx.node_descs import describe

from .random_nodes import MAKERS, model_of, non_zero

CASES = how_many(25)
NO_DESC = {
    "reshape", "flatten", "squeeze", "unsqueeze", "compress", "center_crop_pad",
}  # fmt: skip
"""Those that DirectML runs nothing for, or an operator that anydml has no desc of."""
RESIZING = {"resize"}
"""Those whose pixels FLOAT arithmetic may miss, which is an error."""


def parsed_model(text):
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 18]> {text}')


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
        try:
            descs = to_descs(model)
        except ModelError as error:
            if make.__name__ not in RESIZING or "RESAMPLE2 would read" not in str(error):
                raise
            continue
        (expected,) = backend.run_model(model, {value.name: feeds[value.name] for value in model.graph.input})
        if not descs:
            assert make.__name__ in NO_DESC
            continue
        (desc,) = descs.values()
        if not expected.size or any(array is not None and not array.size for array in arrays[:1]):
            continue
        problems = [*desc.problems()]
        assert all(problem.field.endswith(("DataType", "IndicesTensor.Sizes")) for problem in problems), problems
        if problems:
            # DirectML has fewer types than ONNX, and wants indices as large as the data except along the axis.
            continue
        found += 1
        result = dispatch(desc, arrays)
        ours = result.reshape(expected.shape)
        same = ours == (expected.view(np.uint8) if expected.dtype == bool else expected)
        assert same.all(), (kind, attributes)
    assert (found > 1) == (make.__name__ not in NO_DESC)


def test_pixels_that_float_arithmetic_misses_are_said():
    model = parsed_model("""g (float[1, 1, 2, 16] x) => (float[1, 1, 2, 2] y) <int64[4] sizes = {1, 1, 2, 2}> {
        y = Resize <mode = "nearest", coordinate_transformation_mode = "align_corners", nearest_mode = "floor">
            (x, , , sizes)
    }""")
    x = np.arange(32, dtype="f4").reshape(1, 1, 2, 16)
    (expected,) = backend.run_model(model, [x])
    (finding,) = describe(model)
    assert expected[0, 0, 0, 1] == 15
    assert "pixel 1 of axis 3 is the one at 15, but RESAMPLE2 would read the one at 14" in str(finding.error)
    with pytest.raises(ModelError, match="RESAMPLE2 would read the one at 14"):
        to_descs(model)


@pytest.mark.parametrize("shape, sizes, rows", [((2, 3), (1, 1, 2, 3), (1, 1, 6, 2)), ((), (1, 1, 1, 1), (1, 1, 1, 1))])
def test_what_is_not_zero_is_described_by_its_input(shape, sizes, rows):
    model = parsed_model(f"g (float{[*shape] if shape else ''} x) => (int64[A, B] y) {{ y = NonZero (x) }}")
    (finding,) = describe(model)
    tensors = finding.desc.input_tensor, finding.desc.output_count_tensor, finding.desc.output_coordinates_tensor
    assert [tensor.sizes for tensor in tensors] == [sizes, (1, 1, 1, 1), rows]
    x = np.arange(np.prod(shape, dtype=int), dtype="f4").reshape(sizes)
    count, places = np.zeros((1, 1, 1, 1), "u4"), np.zeros(rows, "u4")
    Device("reference").compile_operator(finding.desc).bind([x], [count, places]).dispatch()
    (expected,) = backend.run_model(model, [x.reshape(shape)])
    assert places.reshape(rows[2:])[: count.item(), : len(shape)].T.tolist() == expected.tolist()


def test_a_node_after_what_is_not_zero_is_not_checked():
    model = parsed_model("""g (float[2, 3] x) => (int64[A, B] z) {
        y = NonZero (x)
        z = Transpose (y)
    }""")
    first, second = describe(model)
    assert first.desc.OPERATOR == "DML_NONZERO_COORDINATES"
    assert "how many elements are not zero is known only when the graph runs" in second.unchecked


def test_a_crop_that_resizes_is_not_checked():
    model = parsed_model("""g (float[1, 1, 4, 4] x) => (float[1, 1, 2, 2] y)
        <float[8] roi = {0, 0, 0, 0, 1, 1, 0.5, 0.5}, int64[4] sizes = {1, 1, 2, 2}> {
        y = Resize <mode = "nearest", coordinate_transformation_mode = "tf_crop_and_resize"> (x, roi, , sizes)
    }""")
    (finding,) = describe(model)
    assert finding.unchecked == "DirectML has no operator that crops and resizes, which tf_crop_and_resize does"
