"""Device → CompiledOperator → BoundOperator."""

import copy
import pickle

import numpy as np
import pytest
from refused import f32

import anydml as dml

SPLIT = dml.SplitOperatorDesc(f32(4), [f32(1), f32(3)], 0)


def floats(*values):
    return np.array(values, np.float32)


@pytest.mark.parametrize("name", ["gpu", "", "CPU", "gpu:0", None, 0])
def test_an_unknown_device_lists_the_known(name):
    with pytest.raises(ValueError, match=f"unknown device '{name}': 'cpu', 'numpy' and 'reference'"):
        dml.Device(name)


def test_the_level_is_the_devices():
    desc = dml.SplitOperatorDesc(f32(4), [f32(4)], 0)
    dml.Device("cpu", "3_0").compile_operator(desc)
    with pytest.raises(dml.DescError, match="it needs DML_FEATURE_LEVEL_3_0"):
        dml.Device("cpu", dml.FeatureLevel.LEVEL_2_1).compile_operator(desc)
    assert repr(dml.Device("cpu", "2_1")) == "Device('cpu', feature_level=DML_FEATURE_LEVEL_2_1)"
    assert dml.Device().feature_level is dml.FeatureLevel.LATEST


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_bound_once_dispatched_often(device):
    x, first, rest = floats(1, 2, 3, 4), floats(0), floats(0, 0, 0)
    bound = dml.Device(device).compile_operator(SPLIT).bind([x], [first, rest])
    assert first == [0], "binding writes nothing"
    for values in ([1, 2, 3, 4], [5, 6, 7, 8], [-1, np.inf, 0, 9]):
        x[...] = values
        bound.dispatch()
        assert [*first, *rest] == values


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_indices_are_read_at_dispatch(device):
    desc = dml.GatherOperatorDesc(f32(3), dml.TensorDesc("INT64", [2]), dml.TensorDesc("FLOAT32", [2]), 0, 1)
    indices, y = np.array([0, 1]), floats(0, 0)
    bound = dml.Device(device).compile_operator(desc).bind([floats(10, 20, 30), indices], [y])
    for wanted, expected in (([0, 1], [10, 20]), ([-1, 99], [30, 30])):
        indices[...] = wanted
        bound.dispatch()
        assert y.tolist() == expected


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_one_operator_bound_to_many_buffers(device):
    operator = dml.Device(device).compile_operator(SPLIT)
    binds = []
    for start in range(3):
        x, y = np.arange(start, start + 4, dtype=np.float32), [floats(0), floats(0, 0, 0)]
        spread = np.repeat(x, 2)[::2] if start == 1 else x
        binds.append((operator.bind([spread], y), x, y))
    for bound, _, _ in reversed(binds):
        bound.dispatch()
    for _, x, y in binds:
        np.testing.assert_array_equal(np.concatenate(y), x)


def test_buffers_outlive_their_names():
    y = [floats(0), floats(0, 0, 0)]
    bound = dml.Device().compile_operator(SPLIT).bind([floats(1, 2, 3, 4)], y)
    noise = [np.full(4, 9, np.float32) for _ in range(100)]
    bound.dispatch()
    assert np.concatenate(y).tolist() == [1, 2, 3, 4]
    assert len(noise) == 100


def test_compiled_operators_explain_themselves():
    assert str(dml.Device("reference").compile_operator(SPLIT)) == (
        "DML_SPLIT on reference: the document's formula, element by element"
    )
    lines = str(dml.Device("cpu").compile_operator(SPLIT)).splitlines()
    assert lines[0] == "DML_SPLIT on cpu: 16 B to read, 16 B to write, 1 thread"
    assert [line.strip() for line in lines[2:]] == ["1 of 4 B: #1[0] = #0[0]", "1 of 12 B: #2[0] = #0[4]"]


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_reprs_are_one_line(device):
    operator = dml.Device(device).compile_operator(SPLIT)
    assert repr(operator) == f"CompiledOperator(DML_SPLIT on '{device}')"
    bound = operator.bind([floats(1, 2, 3, 4)], [floats(0), floats(0, 0, 0)])
    assert repr(bound) == "BoundOperator(DML_SPLIT, 3 tensors)"


@pytest.mark.parametrize("thing", [None, f32(4), "DML_OPERATOR_SPLIT"])
def test_only_descs_are_compiled(thing):
    with pytest.raises(TypeError, match="compile_operator takes an operator's desc, such as SplitOperatorDesc, not "):
        dml.Device().compile_operator(thing)


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {n}": lambda it, n=n: pickle.loads(pickle.dumps(it, n)) for n in range(pickle.HIGHEST_PROTOCOL + 1)},
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_what_holds_addresses_does_not_travel(device, way):
    bound = dml.Device(device).compile_operator(SPLIT).bind([floats(1, 2, 3, 4)], [floats(0), floats(0, 0, 0)])
    for thing in (bound, [bound], bound.dispatch):
        if way == "copy" and thing is not bound:
            continue
        with pytest.raises(TypeError, match=r"holds the addresses of its buffers, .*; pickle its CompiledOperator or"):
            COPIES[way](thing)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("size", [4, 400_000])
def test_what_holds_none_travels(device, way, size):
    if device == "reference" and size > 4:
        size = 5
    desc = dml.Slice1OperatorDesc(f32(size), f32(size), [0], [size], [-1])
    operator = COPIES[way](dml.Device(device, "5_0").compile_operator(desc))
    assert (operator.device.name, str(operator.device.feature_level)) == (device, "DML_FEATURE_LEVEL_5_0")
    assert operator.desc == desc
    x, y = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    operator.bind([x], [y]).dispatch()
    np.testing.assert_array_equal(y, x[::-1])


def frozen_and_back(array):
    array.flags.writeable = False
    yield
    array.flags.writeable = True


@pytest.mark.parametrize("device, size", [("reference", 4), ("cpu", 4), ("cpu", 40_000), ("cpu", 1_000_000)])
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("which", [0, 1])
def test_an_output_made_read_only_is_not_written(device, size, flat, which):
    desc = dml.SplitOperatorDesc(f32(size, 2), [f32(size, 1), f32(size, 1)], 1)
    x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
    outputs = [np.full(4 * size, 7, np.uint8) if flat else np.full((size, 1), 7, np.float32) for _ in range(2)]
    bound = dml.Device(device).compile_operator(desc).bind([x], outputs)
    before = [output.tobytes() for output in outputs]
    for _ in frozen_and_back(outputs[which]):
        with pytest.raises(dml.BindingError) as caught:
            bound.dispatch()
    error = caught.value
    assert (error.operator, error.field, error.rule) == (
        "DML_SPLIT",
        f"OutputTensors[{which}]",
        "an output must be writeable",
    )
    assert [output.tobytes() for output in outputs] == before
    bound.dispatch()
    for k, output in enumerate(outputs):
        np.testing.assert_array_equal(output.view(np.float32).ravel(), x[:, k])


def test_a_bound_operator_explains_what_was_bound():
    tensor = dml.TensorDesc("FLOAT32", [300, 200])
    operator = dml.Device().compile_operator(dml.Slice1OperatorDesc(tensor, tensor, [0, 0], [300, 200], [1, 1]))
    y = np.zeros((300, 200), np.float32)
    packed = operator.bind([np.zeros((300, 200), np.float32)], [y])
    spread = operator.bind([np.zeros((300, 400), np.float32)[:, ::2]], [y])
    assert str(packed) == str(operator)
    assert "#0[8·c0]" in str(spread)
    assert "#0[8·c0]" not in str(packed)
