"""How the kernel gets its parts, as print(operator) says."""

import cuda_calls
import numpy as np
import pytest
from cuda_memory import get, put

import anydml as dml
from anydml.engines.cuda import engine, launch
from anydml.engines.cuda.arrays import DeviceArrays
from anydml.functions.call_plans import PLANS
from anydml.memory.device_array import as_array
from anydml.text import count_noun


def f32(*sizes):
    return dml.TensorDesc("FLOAT32", sizes)


def split_desc(sizes, rows=4):
    return dml.SplitOperatorDesc(f32(rows, sum(sizes)), [f32(rows, n) for n in sizes], 1)


def join_desc(sizes, rows=4):
    return dml.JoinOperatorDesc([f32(rows, n) for n in sizes], f32(rows, sum(sizes)), 1)


BY_VALUE = [
    ([8], "one move: no pointers, no table"),
    ([8] * 2, "2 equal parts: pointers by value"),
    ([8] * 31, "31 equal parts: pointers by value"),
    ([8] * 32, "32 equal parts: pointers by value"),
    ([8, 4], "2 unequal parts: pointers and sizes by value"),
    ([1, 2, 4] * 10 + [5], "31 unequal parts: pointers and sizes by value"),
    ([1, 2, 4] * 10 + [5, 6], "32 unequal parts: pointers and sizes by value"),
]
BY_TABLE = [
    ([8] * 33, "33 equal parts: too many to pass by value, one table of 1 column, uploaded once per binding"),
    ([8] * 300, "300 equal parts: too many to pass by value, one table of 1 column, uploaded once per binding"),
    ([1, 2, 4] * 11, "33 unequal parts: too many to pass by value, one table of"),
    ([1, 2, 4] * 100, "300 unequal parts: too many to pass by value, one table of"),
]


@pytest.mark.parametrize("make", [split_desc, join_desc])
@pytest.mark.parametrize("sizes, way", BY_VALUE + BY_TABLE, ids=lambda value: str(value)[:24])
def test_an_operator_says_its_way_and_why(make, sizes, way, device):
    lines = str(device.compile_operator(make(sizes))).splitlines()
    assert f"{count_noun(len(sizes), 'move')} in 1 launch" in lines[0]
    assert lines[1].strip().startswith(way)


def test_split_training_has_the_same_ways(device):
    for sizes, way in BY_VALUE + BY_TABLE:
        parts = [f32(4, n) for n in sizes]
        numbers = dml.TensorDesc("INT64", [len(sizes)])
        desc = dml.SplitTrainingOperatorDesc(f32(4, sum(sizes)), numbers, parts, 1)
        assert way in str(device.compile_operator(desc))


def bound(device, sizes):
    x = np.random.default_rng(0).random((4, sum(sizes)), np.float32)
    outputs = [put(np.zeros((4, n), np.float32)) for n in sizes]
    source = put(x)
    return device.compile_operator(split_desc(sizes)).bind([source], outputs), x, outputs


@pytest.mark.parametrize("sizes", [[8] * 4, [1, 2, 4], [8] * 33, [1, 2, 4] * 11], ids=len)
def test_dispatch_makes_nothing_new(sizes, device, monkeypatch):
    operator, x, outputs = bound(device, sizes)

    def refuse(*args):
        raise AssertionError("dispatch planned, uploaded or bound something")

    for module, name in ((engine, "plan"), (engine, "Table"), (engine, "Kernel"), (launch, "arguments")):
        monkeypatch.setattr(module, name, refuse)
    for _ in range(3):
        operator.dispatch()
    for output, expected in zip(outputs, np.split(x, np.cumsum(sizes)[:-1], 1), strict=True):
        np.testing.assert_array_equal(get(output), expected)


@pytest.fixture
def programs(monkeypatch):
    """The programs that calls make."""
    made, compile_program = [], DeviceArrays.compile_program

    def remember(*arguments):
        made.append(compile_program(*arguments))
        return made[-1]

    PLANS.clear()
    monkeypatch.setattr(DeviceArrays, "compile_program", remember)
    yield made
    PLANS.clear()


def block_split(sizes):
    return cuda_calls.split(as_array(put(np.zeros((4, sum(sizes)), np.float32))), sizes, 1)


def test_equal_parts_of_our_own_need_no_pointers_and_no_table(programs):
    for count in (2, 32, 33, 300):
        block_split([8] * count)
        assert f"{count} equal parts of one block: evenly spaced, no pointers, no table" in str(programs.pop())
    assert not programs


def test_unequal_parts_of_our_own_need_no_pointers(programs):
    block_split([1, 2, 4] * 10)
    block_split([1, 2, 4] * 11)
    few, many = map(str, programs)
    assert "30 unequal parts of one block: pointers and sizes by value" in few
    assert "uploaded once for all bindings" in many


def test_a_table_of_offsets_serves_every_call(monkeypatch):
    sizes, made = [1, 2, 4] * 11, []

    class Counted(launch.Table):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self.memory)

    monkeypatch.setattr(engine, "Table", Counted)
    PLANS.clear()
    kept = [block_split(sizes) for _ in range(5)]
    assert len([table for table in made if table is not None]) == 1
    assert len(kept) == 5
    PLANS.clear()


def test_a_table_of_addresses_belongs_to_its_binding(device):
    operator = device.compile_operator(split_desc([1, 2, 4] * 11))
    binds = []
    for seed in range(3):
        x = np.random.default_rng(seed).random((4, 77), np.float32)
        outputs = [put(np.zeros((4, n), np.float32)) for n in [1, 2, 4] * 11]
        binds.append((operator.bind([put(x)], outputs), x, outputs))
    for bound_operator, _, _ in reversed(binds):
        bound_operator.dispatch()
    for _, x, outputs in binds:
        np.testing.assert_array_equal(np.concatenate([get(y) for y in outputs], 1), x)
