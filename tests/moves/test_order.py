"""What may run together: any order within a stage gives the program's result, and hazards are there to be missed."""

import numpy as np
import pytest
from how_many import how_many
from random_programs import random_program

from anydml.engines.common import scratch_arrays
from anydml.engines.reference.literal import bind_literally
from anydml.moves import Access, Lookup, Move, stages
from anydml.moves.dependencies import reads_what_it_writes

CHUNKS, PROGRAMS = 8, how_many(480) // 8


def results(program, arrays):
    copies = [array.copy() for array in arrays]
    bind_literally(program, [*copies, *scratch_arrays(program)])()
    return [copy.tobytes() for copy in copies]


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_any_order_within_a_stage_gives_the_same(chunk):
    together = 0
    for k in range(PROGRAMS):
        rng = np.random.default_rng([5, chunk, k])
        program, arrays = random_program([3, chunk, k])
        groups = stages(program.moves)
        assert sorted(map(str, program.moves)) == sorted(str(move) for group in groups for move in group)
        shuffled = [group[n] for group in groups for n in rng.permutation(len(group))]
        together += len(groups) < len(program.moves)
        assert results(program.with_moves(shuffled), arrays) == results(program, arrays), str(program)
    assert together > PROGRAMS // 4


def test_an_order_that_is_not_kept_is_seen():
    different = 0
    for k in range(200):
        program, arrays = random_program([4, k])
        different += results(program.with_moves(program.moves[::-1]), arrays) != results(program, arrays)
    assert different > 40


def copy(to, source, size=4, to_stride=4, count=8):
    return Move((count,), Access(*to, (to_stride,)), Access(*source, (4,)), size)


@pytest.mark.parametrize(
    "first, second, independent",
    [
        (copy((1, 0), (0, 0)), copy((2, 0), (0, 0)), True),
        (copy((1, 0), (0, 0)), copy((2, 0), (1, 0)), False),
        (copy((1, 0), (0, 0)), copy((0, 0), (2, 0)), False),
        (copy((1, 0), (0, 0)), copy((1, 28), (0, 0)), False),
        (copy((1, 0), (0, 0)), copy((1, 32), (0, 0)), True),
        (copy((1, 0), (0, 0), to_stride=8), copy((1, 4), (0, 0), to_stride=8), True),
        (copy((1, 0), (0, 0), to_stride=8), copy((1, 12), (0, 0), to_stride=8), True),
        (copy((1, 0), (0, 0), to_stride=8), copy((1, 6), (0, 0), to_stride=8), False),
        (copy((1, 0), (0, 0), to_stride=12), copy((1, 4), (0, 0), to_stride=8), False),
        # Boxes side by side in a matrix with gaps: the pitch alone does not tell them apart.
        (
            Move((3, 2), Access(1, 0, (40, 8)), Access(0, 0, (40, 8)), 4),
            Move((3, 3), Access(1, 16, (40, 8)), Access(0, 0, (40, 8)), 4),
            True,
        ),
        # A scatter may write anywhere in its axis.
        (
            Move((4,), Access(1, 0, (0,), (Lookup(2, "int64", 0, (8,), 10, 4),)), Access(0, 0, (4,)), 4),
            copy((1, 36), (0, 0), count=1),
            False,
        ),
        (
            Move((4,), Access(1, 0, (0,), (Lookup(2, "int64", 0, (8,), 9, 4),)), Access(0, 0, (4,)), 4),
            copy((1, 36), (0, 0), count=1),
            True,
        ),
        # It reads indices that the other writes.
        (
            copy((2, 0), (0, 0)),
            Move((4,), Access(1, 0, (4,)), Access(0, 0, (0,), (Lookup(2, "int32", 0, (4,), 9, 4),)), 4),
            False,
        ),
    ],
)
def test_independence_by_example(first, second, independent):
    assert (len(stages([first, second])) == 1) is independent


def test_a_join_of_many_columns_is_one_stage():
    moves = [copy((9, 4 * k), (k % 9, 0), to_stride=4 * 3000, count=5) for k in range(3000)]
    assert len(stages(moves)) == 1
    assert len(stages([*moves, moves[7]])) == 2


def test_moves_that_read_what_they_write_are_told():
    assert reads_what_it_writes(copy((1, 0), (1, 4)))
    assert not reads_what_it_writes(copy((1, 0), (1, 32)))
    assert not reads_what_it_writes(copy((1, 0), (1, 4), to_stride=8)._replace(source=Access(1, 4, (8,))))
