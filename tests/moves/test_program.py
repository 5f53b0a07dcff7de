"""Programs on every engine, against the definition of a move."""

import collections

import numpy as np
import pytest
from fuzz.case import How
from fuzz.forced import CPU_WAYS, forced
from how_many import how_many
from random_programs import random_program

from anydml.engines.common import scratch_arrays
from anydml.engines.cpu.engine import CpuProgram
from anydml.engines.numpy.engine import NumpyProgram
from anydml.engines.reference.literal import bind_literally
from anydml.moves import Access, Fill, Lookup, Move, Operand, Program, without_fills

CHUNKS, PROGRAMS = 4, how_many(160) // 4


def bind_reference(program):
    return lambda arrays: bind_literally(program, [*arrays, *scratch_arrays(program)])


ENGINES = {
    "reference": bind_reference,
    "numpy": lambda program: NumpyProgram(program).bind,
    "cpu": lambda program: CpuProgram(program).bind,
}


def literally(program, arrays):
    """The operands' bytes after the program, by definition."""
    copies = [array.copy() for array in arrays]
    every = [*copies, *scratch_arrays(program)]
    bind_literally(program, every)()
    return copies


def check(program, arrays, bind):
    expected = literally(program, arrays)
    copies = [array.copy() for array in arrays]
    bind(copies)()
    for number, (result, right) in enumerate(zip(copies, expected, strict=True)):
        np.testing.assert_array_equal(result, right, f"operand {number} of\n{program}")


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("way", [How("numpy"), *CPU_WAYS], ids=str)
def test_random_programs(way, chunk):
    with forced(way):
        for k in range(PROGRAMS):
            program, arrays = random_program([chunk, k])
            check(program, arrays, ENGINES[way.engine](program))


def test_random_programs_are_varied():
    seen = collections.Counter()
    for k in range(400):
        program, _ = random_program([9, k])
        assert list(program.problems()) == []
        for move in program.moves:
            source = () if isinstance(move.source, Fill) else move.source.lookups
            seen["fill"] += isinstance(move.source, Fill)
            seen["scatter"] += bool(move.destination.lookups)
            seen["gather"] += bool(source)
            seen["several"] += len(source) > 1 or len(move.destination.lookups) > 1
            seen["nested"] += any(lookup.lookups for lookup in (*source, *move.destination.lookups))
            seen["skip"] += any(lookup.outside == "skip" for lookup in move.all_lookups())
    assert all(seen[kind] > 60 for kind in ("fill", "scatter", "gather", "several", "nested", "skip")), seen


@pytest.mark.parametrize("bind", ENGINES.values(), ids=ENGINES)
def test_an_index_that_may_not_be_outside_stops_everything(bind):
    raised = 0
    for k in range(60):
        program, arrays = random_program([10, k], outside=("error", "clamp", "skip"))
        before = [array.copy() for array in arrays]
        try:
            literally(program, arrays)
        except IndexError:
            raised += 1
            with pytest.raises(
                IndexError, match=r"random: index -?\d+ in indices\d+ is out of range for an axis of size \d"
            ):
                bind(program)(arrays)()
            for array, same in zip(arrays, before, strict=True):
                np.testing.assert_array_equal(array, same)
        else:
            check(program, arrays, bind(program))
    assert 10 < raised < 50


@pytest.mark.parametrize(
    "broken, problem",
    [
        (
            Move((2,), Access(0, 0, (4,)), Access(1, 0, (4,)), 4),
            "it writes an operand that is neither output nor scratch",
        ),
        (Move((2,), Access(1, 0, (4,)), Access(5, 0, (4,)), 4), "there is no operand 5"),
        (Move((2,), Access(1, 0, (4, 4)), Access(0, 0, (4,)), 4), "it has 1 dimension, but an access has 2 strides"),
        (Move((2,), Access(1, 0, (2,)), Access(0, 0, (4,)), 4), "it may write a byte twice"),
        (Move((2,), Access(1, 0, (0,)), Access(0, 0, (4,)), 4), "it may write a byte twice"),
        (Move((2,), Access(1, 0, (4,)), Access(1, 4, (4,)), 4), "it reads what it writes"),
        (Move((2,), Access(1, 0, (4,)), Fill(b"abc"), 4), "its pattern of 3 B does not divide its elements of 4 B"),
        (
            Move((2,), Access(1, 0, (4,)), Access(0, 0, (0,), (Lookup(1, "int32", 8, (4,), 3, 4, "error"),)), 4),
            "the indices in #1 are refused before anything is written, but they are written",
        ),
    ],
)
def test_broken_programs_are_told(broken, problem):
    program = Program("p", (Operand("input", "x"), Operand("output", "y")), (broken,))
    assert [text.partition("): ")[2] for text in program.problems()] == [problem]


def test_a_dimension_of_one_element_has_any_stride():
    move = Move((1, 4, 1), Access(1, 0, (2, 4, -1)), Access(0, 0, (0, 4, 0)), 4)
    program = Program("p", (Operand("input", "x"), Operand("output", "y")), (move,))
    assert [*program.problems()] == []


def test_a_program_explains_itself():
    operands = (Operand("input", "x"), Operand("output", "y"), Operand("scratch", "s", 8, reason="two passes"))
    moves = (
        Move((2,), Access(2, 0, (4,)), Access(0, 4, (-4,)), 4),
        Move((2,), Access(1, 0, (4,)), Fill(b"\x01\x02"), 4),
    )
    assert str(Program("turn", operands, moves)).splitlines() == [
        "turn: 2 moves, 8 B of scratch",
        "  #0 input x",
        "  #1 output y",
        "  #2 scratch s: 8 B, because two passes",
        "  2 of 4 B: #2[4·c0] = #0[4 + -4·c0]",
        "  2 of 4 B: #1[4·c0] = fill 01 02",
    ]


@pytest.mark.parametrize("pattern", [b"\x07", b"\x01\x02", b"abc", bytes(range(12)), bytes(range(200))])
@pytest.mark.parametrize("count", [1, 2, 50, 3000])
def test_long_fills_are_cut_into_rows_of_their_pattern(pattern, count):
    output = np.zeros(len(pattern) * count + 8, np.uint8)
    fill = Move((), Access(0, 3, ()), Fill(pattern), len(pattern) * count)
    program = Program("fill", (Operand("output", "y"),), (fill,))
    lowered = without_fills(program)
    assert all(isinstance(move.source, Access) for move in lowered.moves)
    assert len(lowered.moves) <= 2
    assert lowered.constants[0].size <= max(4096, len(pattern))
    for bind in ENGINES.values():
        output[...] = 0
        bind(program)([output])()
        assert output.tobytes() == bytes(3) + pattern * count + bytes(5)


@pytest.mark.parametrize("engine", ["numpy", "cpu"])
@pytest.mark.parametrize("size", [5000, 70_000])
@pytest.mark.parametrize("is_fill", [True, False])
def test_long_elements_that_partly_meet_are_written_whole(engine, size, is_fill):
    rng = np.random.default_rng(size)
    lookup = Lookup(1, "int64", 0, (8,), 3, size // 3)
    rows = rng.integers(0, 256, (4, size), np.uint8)
    source = Fill(rows[0, :10].tobytes()) if is_fill else Access(0, 0, (size,))
    scatter = Move((4,), Access(2, 0, (0,), (lookup,)), source, size // 10 * 10)
    operands = (Operand("input", "x"), Operand("input", "indices"), Operand("output", "y"))
    program = Program("scatter", operands, (scatter,))
    check(program, [rows, np.array([2, 0, 1, 0]), np.zeros(2 * size, np.uint8)], ENGINES[engine](program))


def test_indices_of_refused_indices_are_not_written_either():
    inner = Lookup(1, "int32", 8, (4,), 3, 4)
    lookup = Lookup(0, "int32", 0, (0,), 3, 4, "error", (inner,))
    move = Move((2,), Access(1, 0, (4,)), Access(0, 0, (0,), (lookup,)), 4)
    program = Program("p", (Operand("input", "x"), Operand("output", "y")), (move,))
    assert any("the indices in #1 are refused" in problem for problem in program.problems())
