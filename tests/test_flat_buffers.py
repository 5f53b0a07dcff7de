"""Buffers that the desc's strides read, whatever their length, and values on the host that change after bind."""

from __future__ import annotations

import array

import numpy as np
import pytest

import anydml as dml


def run(desc, inputs, outputs):
    dml.Device("cpu").compile_operator(desc).bind(inputs, outputs).dispatch()


def flat_cases():
    """Ways to bind the same four bytes, or four elements, as a flat buffer."""
    for data_type in ("UINT8", "INT32", "FLOAT64"):
        dtype = np.dtype(data_type.lower())
        elements = np.arange(9, 9 + 16 // dtype.itemsize if dtype.itemsize > 1 else 13).astype(dtype)
        for make in (
            lambda a: a,
            lambda a: a.view(np.uint8),
            lambda a: a.tobytes(),
            lambda a: bytearray(a.tobytes()),
            memoryview,
            lambda a: array.array("B", a.tobytes()),
        ):
            yield data_type, elements, make


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize(("data_type", "elements", "make"), list(flat_cases()))
def test_a_flat_buffer_as_long_as_the_tensor_is_read_by_the_descs_strides(data_type, elements, make, device):
    n = elements.size
    repeated, target = dml.TensorDesc(data_type, [n], [0]), dml.TensorDesc(data_type, [n])
    desc = dml.Slice1OperatorDesc(repeated, target, [0], [n], [1])
    out = np.zeros(n, elements.dtype)
    dml.Device(device).compile_operator(desc).bind([make(elements)], [out]).dispatch()
    np.testing.assert_array_equal(out, np.full(n, elements[0]))


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32])
def test_flat_outputs_of_the_tensors_type_are_written_by_the_descs_strides(dtype, device):
    tensor = dml.TensorDesc(np.dtype(dtype).name.upper(), [4])
    strided = dml.TensorDesc(tensor.data_type, [4], [3])
    desc = dml.Slice1OperatorDesc(tensor, strided, [0], [4], [1])
    out = np.full(12, 7, dtype)
    dml.Device(device).compile_operator(desc).bind([np.arange(4, dtype=dtype)], [out]).dispatch()
    assert out.tolist() == [0, 7, 7, 1, 7, 7, 2, 7, 7, 3, 7, 7]
    short = out[:4].copy()
    with pytest.raises(dml.BindingError, match=r"Strides \[3\] read a flat array; leave them out to bind this array"):
        dml.Device(device).compile_operator(desc).bind([np.arange(4, dtype=dtype)], [short])
    assert short.tolist() == [0, 7, 7, 1]


@pytest.mark.parametrize(
    ("strides", "source"),
    [
        ([1], np.arange(3, dtype=np.uint8)),
        ([2], np.arange(6, dtype=np.uint8)[::2]),
        ([0], np.arange(3, dtype=np.uint8)[::-1]),
        ([0], np.broadcast_to(np.uint8(5), 3)),
        (None, np.arange(3, dtype=np.uint8)),
    ],
)
def test_an_array_that_the_strides_do_not_contradict_keeps_its_own(strides, source):
    desc = dml.Slice1OperatorDesc(dml.TensorDesc("UINT8", [3], strides), dml.TensorDesc("UINT8", [3]), [0], [3], [1])
    out = np.zeros(3, np.uint8)
    run(desc, [source], [out])
    np.testing.assert_array_equal(out, source)


def test_of_one_element_all_strides_are_alike():
    desc = dml.Slice1OperatorDesc(dml.TensorDesc("UINT8", [1], [7]), dml.TensorDesc("UINT8", [1]), [0], [1], [1])
    out = np.zeros(1, np.uint8)
    run(desc, [np.array([5], np.uint8)], [out])
    assert out.tolist() == [5]


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("flat", [False, True])
def test_host_values_that_change_after_bind_are_checked_again(flat, device):
    tensor = dml.TensorDesc
    desc = dml.SplitTrainingOperatorDesc(
        tensor("INT8", [6]), tensor("INT64", [2]), [tensor("INT8", [4]), tensor("INT8", [2])], 0
    )
    split, outputs = np.array([4, 2]), [np.zeros(4, np.int8), np.zeros(2, np.int8)]
    given = split.view(np.uint8) if flat else split
    bound = dml.Device(device).compile_operator(desc).bind([np.arange(6, dtype=np.int8), given], outputs)
    split[:] = 3
    with pytest.raises(dml.BindingError, match="SplitTensor holds \\[3, 3\\]"):
        bound.dispatch()
    assert not any(output.any() for output in outputs)
    split[:] = 4, 2
    bound.dispatch()
    assert np.concatenate(outputs).tolist() == [0, 1, 2, 3, 4, 5]
