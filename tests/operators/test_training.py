"""SplitTraining and ConcatTraining as descs."""

import numpy as np
import pytest
from refused import f32, i64, refused

import anydml as dml

DEVICES = ["cpu", "reference"]


def split_training(parts, axis=0, count=None, x=(6, 2)):
    vector = None if count is None else i64(count)
    shapes = [[*x[:axis], n, *x[axis:][1:]] if axis >= 0 else [*x[:-1], n] for n in parts]
    return dml.SplitTrainingOperatorDesc(f32(*x), vector, [f32(*s) for s in shapes], axis)


def run(device, desc, inputs, outputs):
    dml.Device(device).compile_operator(desc).bind(inputs, outputs).dispatch()
    return outputs


@pytest.mark.parametrize("device", DEVICES)
def test_split_is_read_when_bound(device):
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    outputs = [np.zeros((n, 2), np.float32) for n in (1, 2, 3)]
    run(device, split_training([1, 2, 3], count=3), [x, np.array([1, 2, 3])], outputs)
    for got, expected in zip(outputs, np.split(x, [1, 3]), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("device", DEVICES)
def test_no_split_makes_equal_parts(device):
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    outputs = [np.zeros((3, 2), np.float32) for _ in range(2)]
    run(device, split_training([3, 3]), [x], outputs)
    np.testing.assert_array_equal(np.stack(outputs), x.reshape(2, 3, 2))
    with pytest.raises(dml.DescError, match=r"sizes along Axis 0 are .2, 4., but there is no SplitTensor"):
        split_training([2, 4]).check()


def test_a_split_that_disagrees_writes_nothing():
    outputs = [np.full((n, 2), 7, np.float32) for n in (1, 2, 3)]
    operator = dml.Device().compile_operator(split_training([1, 2, 3], count=3))
    for wrong in ([1, 3, 2], [1, 2, -3], [0, 0, 6]):
        with pytest.raises(dml.BindingError, match=r"SplitTensor holds .*, but OutputTensors have sizes \[1, 2, 3\]"):
            operator.bind([np.zeros((6, 2), np.float32), np.array(wrong)], outputs)
    assert all((y == 7).all() for y in outputs)


@pytest.mark.parametrize("split", [np.array([3, 2, 1])[::-1], np.array([1, 0, 2, 0, 3])[::2]], ids=["back", "steps"])
def test_split_may_have_any_strides(split):
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    outputs = [np.zeros((n, 2), np.float32) for n in (1, 2, 3)]
    run("cpu", split_training([1, 2, 3], count=3), [x, split], outputs)
    np.testing.assert_array_equal(np.concatenate(outputs), x)


def test_axis_runs_from_minus_rank():
    for axis in (-2, -1, 0, 1):
        x = f32(2, 2)
        dml.SplitTrainingOperatorDesc(x, None, [x], axis).check()
        dml.ConcatTrainingOperatorDesc([x], x, None, axis).check()
    for axis in (-3, 2):
        for desc in (
            dml.SplitTrainingOperatorDesc(x, None, [x], axis),
            dml.ConcatTrainingOperatorDesc([x], x, None, axis),
        ):
            refused(desc, "Axis", "Axis must be -2 to 1", f"Axis is {axis}, but the rank is 2")


@pytest.mark.parametrize("axis", [-1, 1])
def test_a_negative_axis_counts_from_the_end(axis):
    x = np.arange(12, dtype=np.float32).reshape(2, 6)
    parts = [f32(2, 2), f32(2, 4)]
    outputs = [np.zeros((2, n), np.float32) for n in (2, 4)]
    run("cpu", dml.SplitTrainingOperatorDesc(f32(2, 6), i64(2), parts, axis), [x, np.array([2, 4])], outputs)
    np.testing.assert_array_equal(outputs[0], x[:, :2])
    joined, lengths = np.zeros_like(x), np.zeros(2, np.int64)
    run("cpu", dml.ConcatTrainingOperatorDesc(parts, f32(2, 6), i64(2), axis), outputs, [joined, lengths])
    np.testing.assert_array_equal(joined, x)
    assert lengths.tolist() == [2, 4]


def test_split_is_an_int64_vector_with_one_entry_a_part():
    entries = "{} must have one dimension, one entry per part"
    x, halves = f32(4), [f32(2), f32(2)]
    for sizes in ((1,), (3,), (1, 2)):
        refused(
            dml.SplitTrainingOperatorDesc(x, i64(*sizes), halves), "SplitTensor.Sizes", entries.format("SplitTensor")
        )
        refused(
            dml.ConcatTrainingOperatorDesc(halves, x, i64(*sizes)),
            "PerInputLengthTensor.Sizes",
            entries.format("PerInputLengthTensor"),
        )
    numbers = dml.TensorDesc("INT32", [2])
    desc = dml.SplitTrainingOperatorDesc(x, numbers, halves)
    refused(desc, "SplitTensor.DataType", "SplitTensor must be INT64", "SplitTensor.DataType is INT32")
    desc = dml.ConcatTrainingOperatorDesc(halves, x, numbers)
    refused(desc, "PerInputLengthTensor.DataType", "PerInputLengthTensor must be INT64")


def test_parts_add_up():
    refused(
        dml.SplitTrainingOperatorDesc(f32(5), i64(2), [f32(2), f32(2)]),
        "OutputTensors.Sizes[0]",
        "the sizes of OutputTensors along Axis must add up to InputTensor's",
        "add up to 4, but InputTensor.Sizes[0] is 5",
    )
    refused(
        dml.ConcatTrainingOperatorDesc([f32(2), f32(2)], f32(5)),
        "InputTensors.Sizes[0]",
        "the sizes of InputTensors along Axis must add up to OutputTensor's",
        "add up to 4, but OutputTensor.Sizes[0] is 5",
    )


@pytest.mark.parametrize("device", DEVICES)
def test_concat_training_without_lengths(device):
    desc = dml.ConcatTrainingOperatorDesc([f32(1), f32(2)], f32(3))
    (y,) = run(device, desc, [np.float32([1]), np.float32([2, 3])], [np.zeros(3, np.float32)])
    assert y.tolist() == [1, 2, 3]
