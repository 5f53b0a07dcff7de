"""Buffers for tensors: what fits, what is refused, and that a refusal writes nothing."""

import array
import itertools
import re

import numpy as np
import pytest
from refused import f32, i64

import anydml as dml

FITS = "a buffer must have the tensor's type and sizes, or be flat"
LARGE_ENOUGH = "a flat buffer must have at least TotalTensorSizeInBytes bytes"
NO_OVERLAP = "an output must overlap no input and no other output"
PATTERN = 0xAB

SPLIT = dml.SplitOperatorDesc(f32(5, 2), [f32(2, 2), f32(3, 2)], 0)
X = np.arange(10, dtype=np.float32).reshape(5, 2)


def pattern(*shape, dtype=np.float32):
    """An array whose every byte is PATTERN."""
    return np.full(int(np.prod(shape)) * np.dtype(dtype).itemsize, PATTERN, np.uint8).view(dtype).reshape(shape)


def refuse(desc, inputs, outputs, field, rule, *texts):
    """Binding fails for this reason, and outputs keep every byte."""
    before = [np.asarray(y).tobytes() for y in outputs if not isinstance(y, (str, list, type(None)))]
    for device in ("cpu", "reference"):
        with pytest.raises(dml.BindingError) as caught:
            dml.Device(device).compile_operator(desc).bind(inputs, outputs)
        error = caught.value
        assert (error.operator, error.field, error.rule) == (desc.OPERATOR, field, rule)
        for text in (f"{desc.OPERATOR}: ", *texts):
            assert text in str(error)
    assert before == [np.asarray(y).tobytes() for y in outputs if not isinstance(y, (str, list, type(None)))]


def run(desc, inputs, outputs):
    dml.Device("cpu").compile_operator(desc).bind(inputs, outputs).dispatch()


@pytest.mark.parametrize(
    "buffer",
    [
        X,
        X.tobytes(),
        bytearray(X.tobytes()),
        memoryview(X.tobytes()),
        memoryview(X),
        array.array("f", X.ravel().tolist()),
        X.ravel(),
        X.view(np.uint8).ravel(),
        np.concatenate([X.ravel(), [9, 9]]).astype(np.float32),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
    ],
    ids=lambda buffer: type(buffer).__name__,
)
def test_what_an_input_may_be(buffer):
    outputs = [pattern(2, 2), pattern(3, 2)]
    run(SPLIT, [buffer], outputs)
    np.testing.assert_array_equal(np.concatenate(outputs), X)


@pytest.mark.parametrize("make", [bytearray, lambda n: array.array("B", bytes(n)), lambda n: memoryview(bytearray(n))])
def test_what_an_output_may_be(make):
    outputs = [make(16), make(24)]
    run(SPLIT, [X], outputs)
    assert b"".join(map(bytes, outputs)) == X.tobytes()


def test_the_number_of_buffers():
    rule = "one buffer per tensor"
    y = [pattern(2, 2), pattern(3, 2)]
    refuse(SPLIT, [], y, "inputs", rule, "inputs has 0 buffers for 1 tensor: InputTensor")
    refuse(SPLIT, [X, X], y, "inputs", rule, "inputs has 2 buffers for 1 tensor")
    refuse(SPLIT, [X], y[:1], "outputs", rule, "outputs has 1 buffer for 2 tensors: OutputTensors[0], OutputTen")
    refuse(SPLIT, [X], [*y, pattern(1)], "outputs", rule, "outputs has 3 buffers for 2 tensors")


@pytest.mark.parametrize("thing", [None, 3, iter([X])], ids=lambda thing: type(thing).__name__)
def test_what_is_no_list_of_buffers(thing):
    y = [pattern(2, 2), pattern(3, 2)]
    text = f"is {type(thing).__name__}, but it is a list with one buffer per tensor"
    refuse(SPLIT, thing, y, "inputs", "one buffer per tensor", f"inputs {text}")
    for device in ("cpu", "reference"):
        with pytest.raises(dml.BindingError, match=f"DML_SPLIT: outputs {text}"):
            dml.Device(device).compile_operator(SPLIT).bind(inputs=[X], outputs=thing)


@pytest.mark.parametrize(
    "wrong",
    [
        pattern(2, 5),
        pattern(5, 2, 1),
        pattern(1, 5, 2),
        pattern(5, 2, dtype=np.int32),
        pattern(5, 2, dtype=np.float64),
        pattern(10, dtype=np.int32),
        pattern(40, dtype=np.int8),
        pattern(5, 2).astype(">f4"),
        np.array(1, np.float32),
    ],
    ids=lambda x: f"{x.dtype} {x.shape}",
)
def test_types_and_shapes(wrong):
    outputs = [pattern(2, 2), pattern(3, 2)]
    text = f"InputTensor is bound to {wrong.dtype} {list(wrong.shape)}, but the tensor is float32 [5, 2]"
    refuse(SPLIT, [wrong], outputs, "InputTensor", FITS, text)


def test_flat_buffers_reach_the_total_size():
    outputs = [pattern(2, 2), pattern(3, 2)]
    for size in (0, 39):
        text = f"InputTensor is bound to {size} bytes, but the tensor needs 40"
        refuse(SPLIT, [np.zeros(size, np.uint8)], outputs, "InputTensor", LARGE_ENOUGH, text)
    refuse(SPLIT, [X], [bytearray(15), bytearray(24)], "OutputTensors[0]", LARGE_ENOUGH, "15 bytes", "needs 16")
    refuse(SPLIT, [X], [bytearray(16), bytearray(23)], "OutputTensors[1]", LARGE_ENOUGH, "23 bytes", "needs 24")
    run(SPLIT, [bytes(40)], [bytearray(16), bytearray(24)])


def test_the_total_size_counts_padding():
    wide = dml.TensorDesc("UINT8", [5], total_tensor_size_in_bytes=11)
    desc = dml.SliceOperatorDesc(wide, dml.TensorDesc("UINT8", [5]), [0], [5], [1])
    refuse(desc, [bytes(10)], [bytearray(8)], "InputTensor", LARGE_ENOUGH, "10 bytes", "needs 11")
    # Five bytes are rounded up to eight.
    refuse(desc, [bytes(11)], [bytearray(7)], "OutputTensor", LARGE_ENOUGH, "7 bytes", "needs 8")
    run(desc, [bytes(11)], [bytearray(8)])


def test_bytes_beyond_the_tensor_are_kept():
    y = bytearray([PATTERN]) * 30
    strided = dml.TensorDesc("FLOAT32", [3], [2], total_tensor_size_in_bytes=24)
    run(dml.SliceOperatorDesc(f32(3), strided, [0], [3], [1]), [np.float32([1, 2, 3])], [y])
    expected = np.full(30, PATTERN, np.uint8)
    for place, value in ((0, 1), (8, 2), (16, 3)):
        expected[place : place + 4] = np.frombuffer(np.float32(value).tobytes(), np.uint8)
    assert y == expected.tobytes()


def test_flat_arrays_have_no_gaps():
    gaps = np.zeros(40, np.float32)[::2]
    text = "InputTensor is bound to a flat array with gaps"
    refuse(SPLIT, [gaps], [pattern(2, 2), pattern(3, 2)], "InputTensor", "a flat buffer must be contiguous", text)


def test_masks_are_not_dropped():
    for place, name in enumerate(("InputTensor", "OutputTensors[0]", "OutputTensors[1]")):
        buffers = [pattern(5, 2), pattern(2, 2), pattern(3, 2)]
        buffers[place] = np.ma.array(buffers[place], mask=True)
        with pytest.raises(dml.BindingError, match=re.escape(f"DML_SPLIT: {name} is a masked array: pass")):
            dml.Device("cpu").compile_operator(SPLIT).bind(buffers[:1], buffers[1:])


@pytest.mark.parametrize("thing", [None, 3, "text", [1.0] * 10, memoryview(bytes(80))[::2]])
def test_what_is_no_buffer(thing):
    rule = "bind NumPy arrays or contiguous buffers"
    text = f"InputTensor is bound to a {type(thing).__name__}, which is not a contiguous buffer"
    refuse(SPLIT, [thing], [pattern(2, 2), pattern(3, 2)], "InputTensor", rule, text)


def test_outputs_are_writeable():
    rule = "an output must be writeable"
    frozen = pattern(3, 2)
    frozen.flags.writeable = False
    refuse(SPLIT, [X], [pattern(2, 2), frozen], "OutputTensors[1]", rule, "OutputTensors[1] is read-only")
    refuse(SPLIT, [X], [bytes(16), pattern(3, 2)], "OutputTensors[0]", rule)


@pytest.mark.parametrize("strides", [(0, 4), (4, 4), (8, 2), (8, 0), (3, 8)])
def test_an_outputs_elements_are_apart(strides):
    y = np.lib.stride_tricks.as_strided(pattern(12), (3, 2), strides)
    refuse(SPLIT, [X], [pattern(2, 2), y], "OutputTensors[1]", "an output must write each element once", str(strides))


def test_inputs_are_not_written():
    x = X.copy()
    x.flags.writeable = False
    run(SPLIT, [x], [pattern(2, 2), pattern(3, 2)])
    np.testing.assert_array_equal(x, X)


def test_an_output_overlaps_no_input():
    base = pattern(20)
    for start in (0, 1, 9):
        y = base[start : start + 4].reshape(2, 2)
        text = "OutputTensors[0] overlaps InputTensor in memory"
        refuse(SPLIT, [base[:10].reshape(5, 2)], [y, pattern(3, 2)], "OutputTensors[0]", NO_OVERLAP, text)
    run(SPLIT, [base[:10].reshape(5, 2)], [base[10:14].reshape(2, 2), base[14:].reshape(3, 2)])


def test_an_output_overlaps_no_other():
    base = pattern(20)
    text = "OutputTensors[1] overlaps OutputTensors[0] in memory"
    refuse(
        SPLIT, [X], [base[:4].reshape(2, 2), base[3:9].reshape(3, 2)], "OutputTensors[1]", NO_OVERLAP, text
    )  # fmt: skip
    refuse(SPLIT, [X], [base[4:8].reshape(2, 2), base[:6].reshape(3, 2)], "OutputTensors[1]", NO_OVERLAP, text)


def test_outputs_may_interleave_without_sharing_a_byte():
    whole = pattern(5, 4)
    desc = dml.SplitOperatorDesc(f32(5, 4), [f32(5, 2), f32(5, 2)], 1)
    x = np.arange(20, dtype=np.float32).reshape(5, 4)
    run(desc, [x], [whole[:, ::2], whole[:, 1::2]])
    np.testing.assert_array_equal(whole, x[:, [0, 2, 1, 3]])


def test_inputs_may_overlap_each_other():
    y = pattern(6, 2)
    run(dml.JoinOperatorDesc([f32(3, 2), f32(3, 2)], f32(6, 2), 0), [X[:3], X[2:]], [y])
    np.testing.assert_array_equal(y, X[[0, 1, 2, 2, 3, 4]])


def test_indices_overlap_no_output():
    base = np.zeros(8, np.int64)
    desc = dml.GatherOperatorDesc(i64(4), i64(4), i64(4), 0, 1)
    text = "OutputTensor overlaps IndicesTensor"
    refuse(desc, [np.arange(4), base[:4]], [base[3:7]], "OutputTensor", NO_OVERLAP, text)


def test_overlap_among_many_against_brute_force():
    rng = np.random.default_rng(3)
    part = dml.TensorDesc("UINT8", [2])
    desc = dml.SplitOperatorDesc(dml.TensorDesc("UINT8", [8]), [part] * 4, 0)
    operator = dml.Device().compile_operator(desc)
    refused = 0
    for _ in range(600):
        base = np.zeros(200, np.uint8)
        numbers = np.arange(200)
        spans = [(int(rng.integers(0, 180)), int(rng.choice([1, 2, 3, -1, 7]))) for _ in range(4)]
        views = [np.s_[start : start + 2 * step if start + 2 * step >= 0 else None : step] for start, step in spans]
        at = int(rng.integers(0, 190))
        places = [set(numbers[at : at + 8].tolist()), *(set(numbers[view].tolist()) for view in views)]
        if any(len(place) != 2 for place in places[1:]):
            continue
        meet = any(a & b for a, b in itertools.combinations(places, 2))
        rule = None
        try:
            operator.bind([base[at : at + 8]], [base[view] for view in views])
        except dml.BindingError as error:
            rule = error.rule
        assert rule == (NO_OVERLAP if meet else None), spans
        refused += meet
    assert 50 < refused < 550
