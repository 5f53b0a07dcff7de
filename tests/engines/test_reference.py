"""The reference engine judges the others, so it is judged here by hand: formulas, written out element by element."""

import numpy as np
from refused import f32, i64

import anydml as dml
from anydml.operators import REGISTRY


def elements(desc, indices=None):
    """What the formula says: (output, its coordinate, source, its coordinate)."""
    return list(desc.elements(lambda operand, at: int(indices[at])))


def test_split_and_join():
    desc = dml.SplitOperatorDesc(f32(1, 3), [f32(1, 1), f32(1, 2)], 1)
    assert elements(desc) == [(1, (0, 0), 0, (0, 0)), (2, (0, 0), 0, (0, 1)), (2, (0, 1), 0, (0, 2))]
    desc = dml.JoinOperatorDesc([f32(1, 1), f32(1, 2)], f32(1, 3), 1)
    assert elements(desc) == [(2, (0, 0), 0, (0, 0)), (2, (0, 1), 1, (0, 0)), (2, (0, 2), 1, (0, 1))]


def test_training():
    desc = dml.SplitTrainingOperatorDesc(f32(3), i64(2), [f32(1), f32(2)], -1)
    assert elements(desc) == [(2, (0,), 0, (0,)), (3, (0,), 0, (1,)), (3, (1,), 0, (2,))]
    desc = dml.ConcatTrainingOperatorDesc([f32(1), f32(2)], f32(3), i64(2))
    assert elements(desc) == [
        (2, (0,), 0, (0,)), (2, (1,), 1, (0,)), (2, (2,), 1, (1,)), (3, (0,), 4, (0,)), (3, (1,), 4, (1,)),
    ]  # fmt: skip
    assert [c.tolist() for c in desc.lower()[1]] == [[1, 2]]


def test_slices():
    desc = dml.SliceOperatorDesc(f32(9, 9), f32(2, 2), [1, 4], [2, 2], [3, 2])
    assert [at for *_, at in elements(desc)] == [(1, 4), (1, 6), (4, 4), (4, 6)]
    desc = dml.Slice1OperatorDesc(f32(9, 9), f32(2, 2), [1, 4], [6, 4], [-3, 2])
    assert [at for *_, at in elements(desc)] == [(6, 4), (6, 6), (3, 4), (3, 6)]


def test_gather():
    indices = np.array([[[7, -1, -3, -4]]])
    desc = dml.GatherOperatorDesc(
        f32(1, 3, 2), dml.TensorDesc("INT64", [1, 1, 4]), dml.TensorDesc("FLOAT32", [1, 4, 2]), 1, 1
    )
    rows = [at[1] for *_, at in elements(desc, indices)]
    assert rows == [2, 2, 2, 2, 0, 0, 0, 0]
    assert [at[2] for *_, at in elements(desc, indices)] == [0, 1] * 4


def test_it_copies_bit_patterns():
    # A signalling NaN that passes through a Python float would come out quiet.
    x = np.array([0x7F800001, 0xFF800001, 0x80000000], np.uint32).view(np.float32)
    y = np.zeros(3, np.float32)
    desc = dml.SliceOperatorDesc(f32(3), f32(3), [0], [3], [1])
    dml.Device("reference").compile_operator(desc).bind([x], [y]).dispatch()
    assert y.tobytes() == x.tobytes()


def test_a_wrong_move_cannot_hide_from_the_reference(monkeypatch):
    def no_moves(self, layouts=None):
        return (), ()

    for operator in REGISTRY.values():
        monkeypatch.setattr(operator, "lower", no_moves)
    desc = dml.SplitOperatorDesc(f32(2), [f32(1), f32(1)], 0)
    outputs = [np.zeros(1, np.float32) for _ in range(2)]
    dml.Device("reference").compile_operator(desc).bind([np.float32([3, 4])], outputs).dispatch()
    assert [float(y[0]) for y in outputs] == [3, 4]
    outputs[0][0] = 9
    dml.Device("cpu").compile_operator(desc).bind([np.float32([3, 4])], outputs).dispatch()
    assert [float(y[0]) for y in outputs] == [9, 4]
