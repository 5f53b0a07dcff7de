"""Moves by NumPy: lookups of any length of row, a chunk at a time."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from fuzz.case import How
from fuzz.check import check
from fuzz.draw import Seeded
from fuzz.generate import random_case

import anydml as dml
from anydml import core
from anydml.engines.cpu.engine import CpuProgram
from anydml.engines.numpy import general, views
from anydml.moves import Access, Lookup, Move, Operand, Program, simplify
from anydml.operators.registry import FUNCTIONS
from anydml.tensor import Layout

LONG = 2**31 + 3
BY_NUMPY = How(kernels="numpy")


@pytest.mark.parametrize("piece, chunk, chunk_bytes", [(3, 1 << 16, 1 << 19), (5, 4, 64), (2, 5, 30), (1 << 16, 7, 40)])
def test_lookups_agree_however_they_are_cut(piece, chunk, chunk_bytes, monkeypatch):
    monkeypatch.setattr(general, "PIECE", piece)
    monkeypatch.setattr(general, "CHUNK", chunk)
    monkeypatch.setattr(general, "CHUNK_BYTES", chunk_bytes)
    cases = [random_case(Seeded(number), [BY_NUMPY], "gather") for number in range(400)]
    little = [case for case in cases if case.bytes <= 4000]
    assert len(little) > 40
    for case in little:
        check(case)


@pytest.mark.parametrize(
    "size, stride, lasts", [(2, 1, {0: 8, 1: 9, -1: 9, -9: 8, 99: 9}), (1, LONG, {0: 8, -1: 8, 99: 8})]
)
def test_rows_longer_than_an_element_of_numpys_are_looked_up(size, stride, lasts, monkeypatch):
    # All but the ends of the memory is never touched: the system gives none for it.
    source, rows = np.zeros(LONG + 1, np.uint8), np.zeros(LONG, np.uint8)
    source[-2:] = 8, 9
    lookup = Lookup(1, "int64", 0, (), size, stride)
    move = Move((), Access(2, 0, ()), Access(0, 0, (), (lookup,)), LONG)
    monkeypatch.setattr(general, "chunks", lambda sizes, most: [tuple(slice(n - 1, n) for n in sizes)])
    for index, last in lasts.items():
        views.bind_views([move], [source, np.array([index]), rows])()
        assert rows[-1] == last


def test_long_rows_take_little_memory():
    table, rows = np.zeros((4, 2 << 20), np.uint8), np.empty((9, 2 << 20), np.uint8)
    table[...] = np.arange(4)[:, None]
    indices = np.array([3, 1, -1, 9, 0, -9, 2, 2, 1])
    layouts = [Layout.of(array) for array in (table, indices, rows)]
    moves = FUNCTIONS["gather"].lower(layouts[:2], ["int64"], layouts[2:], (0, "clamp")).moves
    ready = views.bind_views(simplify(moves), [table, indices, rows])
    ready()
    assert rows[:, -1].tolist() == [3, 1, 3, 3, 0, 0, 2, 2, 1]
    tracemalloc.start()
    ready()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20


@pytest.mark.parametrize("has_core", [True, False])
def test_what_is_bound_says_what_it_does(has_core, monkeypatch):
    if not has_core:
        monkeypatch.setattr(core, "program", None)
    x, out = np.arange(12, dtype=np.float32), np.empty(12, np.float32)
    tensor = dml.TensorDesc("FLOAT32", [12])
    operator = dml.Device("cpu").compile_operator(dml.ElementWiseIdentityOperatorDesc(tensor, tensor))
    made = operator.bind([x], [out])
    assert str(made) == str(operator)
    for _ in range(3):
        x += 1
        made.dispatch()
        np.testing.assert_array_equal(out, x)
    out.flags.writeable = False
    with pytest.raises(dml.BindingError, match="OutputTensor is read-only"):
        made.dispatch()


def test_more_dimensions_than_compiled_code_knows_are_numpys():
    # No two of them merge.
    strides = tuple(3**k for k in range(17))
    move = Move((2,) * 17, Access(1, 0, strides), Access(0, 0, (0,) * 17), 1)
    operands = Operand("input", "x"), Operand("output", "y")
    program = CpuProgram(Program("wide", operands, (move,)))
    x, y = np.full(1, 7, np.uint8), np.zeros(3**17, np.uint8)
    program.bind((x, y))()
    assert (y[np.add.outer([0, 1], [0, 3])] == 7).all()
    assert int(y.sum()) == 7 << 17
    assert "by NumPy" in str(program)
