"""Programs as C structs, against the definition of a move and against NumPy."""

import itertools
import threading
from functools import partial

import numpy as np
import pytest
from how_many import how_many
from random_programs import random_program

from anydml import moves
from anydml.engines.common import scratch_arrays
from anydml.engines.cpu.engine import CpuProgram
from anydml.engines.reference.literal import bind_literally
from anydml.moves import Access, Fill, Lookup, Move, Operand, Program

core = pytest.importorskip("anydml.core.program", reason="nothing is compiled here")
Compiled, UnfitError, run_moves = core.Compiled, core.UnfitError, core.run_moves

CHUNKS, PROGRAMS = 4, how_many(400) // 4


def by_definition(program, arrays):
    """The operands' bytes after a program."""
    copies = [array.copy() for array in arrays]
    bind_literally(program, [*copies, *scratch_arrays(program)])()
    return copies


def run_program(program, arrays):
    compiled = CpuProgram(program)
    assert compiled.packed is not None
    compiled.run(arrays)


def check(program, arrays, run):
    expected = by_definition(program, arrays)
    copies = [array.copy() for array in arrays]
    run(copies)
    for number, (result, right) in enumerate(zip(copies, expected, strict=True)):
        np.testing.assert_array_equal(result, right, f"operand {number} of\n{program}")


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize("scale", [1, 40])
def test_random_programs(chunk, scale):
    for k in range(PROGRAMS // (1 if scale == 1 else 10)):
        program, arrays = random_program([21, chunk, k], scale)
        check(program, arrays, partial(run_program, program))


def test_moves_that_are_not_simple():
    count = 0
    for k in range(PROGRAMS):
        program, arrays = random_program([22, k])
        if any(move.has_lookups for move in program.moves):
            continue
        count += 1
        check(program, arrays, lambda copies, it=program: run_moves(it.moves, [*copies, *scratch_arrays(it)]))
    assert count > PROGRAMS // 50


def test_an_index_that_may_not_be_outside_stops_everything():
    raised = 0
    for k in range(200):
        program, arrays = random_program([23, k], outside=("error", "clamp", "skip"))
        before = [array.copy() for array in arrays]
        try:
            by_definition(program, arrays)
        except IndexError:
            raised += 1
            pattern = r"random: index -?\d+ in indices\d+ is out of range for an axis of size \d"
            with pytest.raises(IndexError, match=pattern):
                run_program(program, arrays)
            for array, same in zip(arrays, before, strict=True):
                np.testing.assert_array_equal(array, same)
        else:
            check(program, arrays, partial(run_program, program))
    assert 30 < raised < 170


def test_an_index_is_refused_by_whoever_has_no_words_for_it():
    lookup = Lookup(1, "int64", 0, (8,), 5, 1, "error")
    arrays = np.arange(5, dtype=np.uint8), np.array([0, -6]), np.zeros(2, np.uint8)
    with pytest.raises(IndexError, match="an index is out of range for its axis"):
        run_moves([Move((2,), Access(2, 0, (1,)), Access(0, 0, (0,), (lookup,)), 1)], arrays)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_the_index_refused_is_told_as_it_stands(dtype):
    limits = np.iinfo(dtype)
    for bad in {limits.max, limits.min, 5} - {0}:
        indices = np.array([0, 4, bad, limits.max], dtype)
        lookup = Lookup(1, dtype, 0, (indices.itemsize,), 5, 1, "error")
        move = Move((4,), Access(2, 0, (1,)), Access(0, 0, (0,), (lookup,)), 1)
        operands = (Operand("input", "x"), Operand("input", "indices"), Operand("output", "y"))
        x, y = np.arange(5, dtype=np.uint8), np.zeros(4, np.uint8)
        with pytest.raises(IndexError, match=f"^pick: index {bad} in indices is out of range for an axis of size 5"):
            run_program(Program("pick", operands, (move,)), [x, indices, y])
        assert not y.any()


def test_moves_that_read_what_was_written_stay_apart():
    # Each continues the one before it at both ends.
    for step in (1, 3, 8):
        x = np.arange(100, dtype=np.uint8)
        expected = x.copy()
        for k in range(5):
            expected[(k + 1) * step : (k + 2) * step] = expected[k * step : (k + 1) * step]
        run_moves([Move((), Access(0, (k + 1) * step, ()), Access(0, k * step, ()), step) for k in range(5)], [x])
        np.testing.assert_array_equal(x, expected)


def test_an_output_that_became_read_only_is_refused_before_anything_is_written():
    x, outputs = np.arange(6, dtype=np.uint8), [np.zeros(3, np.uint8), np.zeros(3, np.uint8)]
    each = [Move((), Access(k + 1, 0, ()), Access(0, 3 * k, ()), 3) for k in range(2)]

    def refuse():
        raise PermissionError

    run = Compiled(each, 3).bind([x, *outputs]).requiring_writable(tuple(outputs), refuse)
    run()
    assert [list(part) for part in outputs] == [[0, 1, 2], [3, 4, 5]]
    outputs[1].flags.writeable = False
    x[:] = 9
    with pytest.raises(PermissionError):
        run()
    assert list(outputs[0]) == [0, 1, 2]
    outputs[1].flags.writeable = True
    run()
    assert [list(part) for part in outputs] == [[9, 9, 9], [9, 9, 9]]


def test_operands_live_as_long_as_what_is_bound():
    packed = Compiled([Move((), Access(1, 0, ()), Access(0, 0, ()), 1 << 16)], 2)
    target = np.zeros(1 << 16, np.uint8)
    run = packed.bind([np.full(1 << 16, 7, np.uint8), target])
    del packed
    hindrance = [np.zeros(1 << 16, np.uint8) for _ in range(50)]
    run()
    assert (target == 7).all()
    assert not any(each.any() for each in hindrance)


def test_patterns_live_as_long_as_what_is_bound():
    target = np.zeros(12, np.uint8)
    run = Compiled([Move((2,), Access(0, 0, (6,)), Fill(bytes([1, 2, 3])), 6)], 1).bind([target])
    run()
    assert list(target) == [1, 2, 3] * 4


def strided(rank):
    """A move of 2 elements in each dimension, none of which merge."""
    sizes = (2,) * rank
    return Move(sizes, Access(1, 0, tuple(3**k for k in range(rank))), Access(0, 0, (0,) * rank), 1)


def test_as_many_dimensions_as_fit():
    x, y = np.full(1, 5, np.uint8), np.zeros(3**10, np.uint8)
    run_moves([strided(10)], [x, y])
    expected = np.zeros((3,) * 10, np.uint8)
    expected[(slice(2),) * 10] = 5
    np.testing.assert_array_equal(y, expected.ravel())


def test_more_dimensions_than_fit_are_refused():
    with pytest.raises(UnfitError, match="too many dimensions"):
        Compiled([strided(17)], 2)


def test_dimensions_that_merge_fit():
    sizes = (2,) * 17
    strides = tuple(2**k for k in reversed(range(17)))
    x, y = np.random.default_rng(1).integers(0, 256, (2, 2**17), np.uint8)
    run_moves([Move(sizes, Access(1, 0, strides), Access(0, 0, strides), 1)], [x, y])
    np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("count, fits", [(16, True), (17, False)])
def test_lookups_that_fit(count, fits):
    lookups = tuple(Lookup(1, "uint8", k, (), 2, 1) for k in range(count))
    x = np.arange(20, dtype=np.uint8)
    indices, y = np.ones(count, np.uint8), np.zeros(1, np.uint8)
    move = Move((), Access(2, 0, ()), Access(0, 0, (), lookups), 1)
    if fits:
        run_moves([move], [x, indices, y])
        assert y[0] == count
    else:
        with pytest.raises(UnfitError, match="17 lookups"):
            Compiled([move], 3)


def test_nested_lookups_of_both_ends():
    rng = np.random.default_rng(4)
    table, outer, inner = rng.permutation(50).astype("i4"), rng.integers(0, 20, 30), rng.integers(0, 30, 10)
    y, places = np.full(40, -1, "i4"), rng.permutation(40)[:10].astype("u4")
    nested = Lookup(2, "int64", 0, (8,), 30, 8)
    source = Access(0, 0, (0,), (Lookup(1, "int64", 0, (0,), 50, 4, lookups=(nested,)),))
    to = Access(4, 0, (0,), (Lookup(3, "uint32", 0, (4,), 40, 4),))
    run_moves([Move((10,), to, source, 4)], [table, outer, inner, places, y])
    expected = np.full(40, -1, "i4")
    expected[places] = table[outer[inner]]
    np.testing.assert_array_equal(y, expected)


def test_moves_of_nothing():
    x, y = np.ones(4, np.uint8), np.zeros(4, np.uint8)
    nothing = (
        Move((0,), Access(1, 0, (1,)), Access(0, 0, (1,)), 1),
        Move((4,), Access(1, 0, (0,)), Access(0, 0, (0,)), 0),
    )
    run_moves(nothing, [x, y])
    run_moves([], [x, y])
    assert not y.any()


@pytest.mark.parametrize("number", [-1, 2, 1 << 20])
def test_operands_that_there_are_not(number):
    with pytest.raises(ValueError, match=f"there is no operand {number}"):
        Compiled([Move((), Access(number, 0, ()), Access(0, 0, ()), 1)], 2)
    with pytest.raises(ValueError, match=f"there is no operand {number}"):
        lookup = Lookup(number, "int32", 0, (), 1, 1)
        Compiled([Move((), Access(0, 0, ()), Access(1, 0, (), (lookup,)), 1)], 2)


def test_operands_of_the_wrong_number_and_type():
    packed = Compiled([Move((), Access(1, 0, ()), Access(0, 0, ()), 1)], 2)
    with pytest.raises(ValueError, match="1 operands, but the moves are between 2"):
        packed.bind([np.zeros(1)])
    with pytest.raises(TypeError, match="bytearray is not a NumPy array"):
        packed.bind([np.zeros(1), bytearray(1)])


SHAPES = [(1 << 20,), (16 << 20,), (3, 500_000), (700, 3, 500), (2, 2, 100_003), (5_000_011,)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("item", [1, 3, 4, 8])
def test_large_copies(shape, item):
    rng = np.random.default_rng(len(shape))
    x = rng.integers(0, 256, (*shape, item), np.uint8)
    for order in itertools.islice(itertools.permutations(range(len(shape))), 3):
        view = x.transpose(*order, len(shape))[..., ::-1, :]
        y = np.zeros(view.shape, np.uint8)
        base = view.__array_interface__["data"][0] - x.__array_interface__["data"][0]
        move = Move(view.shape[:-1], Access(1, 0, y.strides[:-1]), Access(0, base, view.strides[:-1]), item)
        packed = Compiled(moves.simplify([move]), 2)
        packed.bind([x, y])()
        assert np.array_equal(y, view)


def test_many_moves_of_all_sizes():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, 9_000_000, np.uint8)
    cuts = np.unique([0, *rng.integers(0, x.size, 100), x.size])
    parts = [np.zeros(end - start, np.uint8) for start, end in itertools.pairwise(cuts)]
    each = [Move((), Access(k + 1, 0, ()), Access(0, int(cuts[k]), ()), part.size) for k, part in enumerate(parts)]
    Compiled(each, 1 + len(parts)).bind([x, *parts])()
    assert np.array_equal(np.concatenate(parts), x)


def test_large_fills():
    y = np.zeros((1000, 1000), np.uint32)
    run_moves([Move((1000,), Access(0, 4, (4000,)), Fill(b"\1\2\3\4"), 3996)], [y])
    assert (y[:, 1:] == np.frombuffer(b"\1\2\3\4", np.uint32)).all()
    assert not y[:, 0].any()


def test_scatters_keep_their_order():
    indices = np.random.default_rng(3).integers(0, 10, 300_000)
    x, y = np.arange(300_000, dtype=np.int64), np.zeros(10, np.int64)
    to = Access(2, 0, (0,), (Lookup(1, "int64", 0, (8,), 10, 8),))
    run_moves([Move((300_000,), to, Access(0, 0, (8,)), 8)], [x, indices, y])
    expected = np.zeros(10, np.int64)
    np.put(expected, indices, x)
    np.testing.assert_array_equal(y, expected)


def test_many_threads_run_one_bound_program():
    x, y = np.arange(1 << 20, dtype=np.int32), np.zeros(1 << 20, np.int32)
    run = Compiled([Move((1 << 20,), Access(1, 0, (4,)), Access(0, x.nbytes - 4, (-4,)), 4)], 2).bind([x, y])
    threads = [threading.Thread(target=lambda: [run() for _ in range(10)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(y, x[::-1])
