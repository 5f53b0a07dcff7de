"""Device → CompiledOperator → BoundOperator."""

import numpy as np
import pytest
from refused import f32

import anydml as dml

SPLIT = dml.SplitOperatorDesc(f32(4), [f32(1), f32(3)], 0)


def floats(*values):
    return np.array(values, np.float32)


@pytest.mark.parametrize("name", ["gpu", "", "CPU", "gpu:0", None, 0])
def test_an_unknown_device_lists_the_known(name):
    with pytest.raises(ValueError, match=f"unknown device '{name}': one of 'cpu', 'numpy', 'reference'"):
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
    assert lines[0] == "DML_SPLIT on cpu: 16 B to read, 16 B to write, 1 thread(s)"
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
