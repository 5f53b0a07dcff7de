"""Every example of the documents, through descs on each device, flat and shaped, and through the functions."""

import numpy as np
import pytest
from seeds import CASES, GATHER, SLICE1, SPLIT

import anydml as dml

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
every_device = pytest.mark.parametrize("device", ["cpu", "reference"])


def test_no_example_is_missing():
    assert (len(SPLIT), len(SLICE1), len(GATHER)) == (2, 2, 5)


@every_case
@every_device
def test_desc_on_shaped_arrays(case, device):
    outputs = [np.full_like(output, -7) for output in case.outputs]
    dml.Device(device).compile_operator(case.desc).bind(case.inputs, outputs).dispatch()
    for output, expected in zip(outputs, case.outputs, strict=True):
        np.testing.assert_array_equal(output, expected)


@every_case
@every_device
def test_desc_on_flat_buffers(case, device):
    inputs = [x.tobytes() for x in case.inputs]
    outputs = [bytearray(b"\xee" * (y.nbytes + 3)) for y in case.outputs]
    dml.Device(device).compile_operator(case.desc).bind(inputs, outputs).dispatch()
    assert outputs == [y.tobytes() + b"\xee" * 3 for y in case.outputs]


@every_case
def test_function(case):
    before = [x.copy() for x in case.inputs]
    results = case.call(*case.inputs)
    assert len(results) == len(case.outputs)
    for result, expected in zip(results, case.outputs, strict=True):
        assert [n for n in result.shape if n != 1] == [n for n in expected.shape if n != 1]
        np.testing.assert_array_equal(result.reshape(expected.shape), expected)
    for x, same in zip(case.inputs, before, strict=True):
        np.testing.assert_array_equal(x, same)


@every_case
def test_desc_passes_its_own_check(case):
    assert case.desc.check() is None
    assert list(case.desc.problems()) == []
