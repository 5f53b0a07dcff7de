"""Lists of moves that are columns of the same rows, some of them several side by side: against NumPy's views."""

import numpy as np
import pytest
from core.test_kernels import CANARY, kernels, run  # noqa: F401

from anydml.moves import Access, Fill, Move

CASES = 60


def parts_of(rng, columns):
    """Runs of columns, each with where its first lies in a row of the source, and its step there."""
    done = 0
    while done < columns:
        count = int(rng.integers(1, columns - done + 1))
        step = int(rng.choice([-2, -1, 1, 2]))
        reach = (count - 1) * abs(step)
        if reach >= columns:
            continue
        first = int(rng.integers(0, columns - reach)) + (reach if step < 0 else 0)
        yield done, count, first, step
        done += count


@pytest.mark.parametrize("seed", range(CASES))
def test_columns_side_by_side_are_interleaved(kernels, seed):  # noqa: F811
    """Some are filled. Every byte around them stays as it is; so do gaps in rows, which no list of whole rows has."""
    rng = np.random.default_rng(seed)
    columns, element = int(rng.integers(2, 9)), int(rng.choice([1, 2, 3, 4, 8]))
    lines, rows = int(rng.integers(1, 5)), int(rng.choice([15, 16, 17, 40, 63, 500, 3000]))
    source = rng.integers(0, 256, (lines, rows, columns, element), np.uint8)
    gap = int(rng.integers(0, 3)) if rng.random() < 0.3 else 0
    memory = rng.integers(0, 256, 2 * CANARY + lines * rows * (columns + gap) * element, np.uint8)
    expected = memory.copy()
    target = expected[CANARY:-CANARY].reshape(lines, rows, columns + gap, element)
    moves = []
    row, line = (columns + gap) * element, rows * (columns + gap) * element
    for done, count, first, step in parts_of(rng, columns):
        if rng.random() < 0.25:
            pattern = rng.integers(0, 256, element * int(rng.choice([1, count])), np.uint8)
            target[:, :, done : done + count] = np.resize(pattern, (count, element))
            to = Access(1, CANARY + done * element, (line, row))
            moves.append(Move((lines, rows), to, Fill(pattern.tobytes()), count * element))
            continue
        picked = [first + k * step for k in range(count)]
        target[:, :, done : done + count] = source[:, :, picked]
        moves.append(Move(
            (lines, rows, count),
            Access(1, CANARY + done * element, (line, row, element)),
            Access(0, first * element, (rows * columns * element, columns * element, step * element)),
            element,
        ))  # fmt: skip
    for k in rng.permutation(len(moves))[: int(rng.integers(0, 2))]:
        moves.append(moves.pop(int(k)))
    found = memory.copy()
    run(moves, [source.reshape(-1), found])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", range(CASES))
def test_many_short_lines_are_interleaved(kernels, seed):  # noqa: F811
    """Lines of some elements, every second or third, that follow each other or leave gaps: those stay as they are."""
    rng = np.random.default_rng(seed)
    element, step = int(rng.choice([1, 2, 4, 8])), int(rng.choice([-3, -2, 2, 3]))
    lines, rows, gap = int(rng.integers(1, 300)), int(rng.integers(1, 120)), int(rng.integers(0, 2))
    source = rng.integers(0, 256, (lines, rows * 3 + 1, element), np.uint8)
    memory = rng.integers(0, 256, 2 * CANARY + lines * (rows + gap) * element, np.uint8)
    expected = memory.copy()
    picked = np.arange(rows) * step + (0 if step > 0 else 3 * rows)
    expected[CANARY:-CANARY].reshape(lines, rows + gap, element)[:, :rows] = source[:, picked]
    move = Move(
        (lines, rows),
        Access(1, CANARY, ((rows + gap) * element, element)),
        Access(0, int(picked[0]) * element, ((rows * 3 + 1) * element, step * element)),
        element,
    )
    found = memory.copy()
    run([move], [source.reshape(-1), found])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("seed", range(CASES))
def test_planes_of_many_images_are_written_in_order(kernels, seed):  # noqa: F811
    """Crops of images of any width, some of which are what another crop is written to, or will be."""
    rng = np.random.default_rng(seed)
    many, planes, element = int(rng.choice([2, 3, 9, 70])), int(rng.integers(2, 6)), int(rng.choice([1, 1, 2, 4]))
    height, width = int(rng.integers(1, 9)), int(rng.choice([16, 31, 48, 64, 500, rng.integers(17, 80)]))
    pixel = planes * element
    rows = width + rng.integers(0, 5, many)
    size, place = height * width * pixel, int((height * rows * pixel).sum())
    memory = rng.integers(0, 256, 2 * CANARY + place + many * size, np.uint8)
    order = [*range(many)] if rng.random() < 0.7 else [*rng.permutation(many)]
    expected, moves = memory.copy(), []
    for k, to in enumerate(order):
        start, row = CANARY + int((height * rows[:k] * pixel).sum()), int(rows[k]) * pixel
        if rng.random() < (0.1 if seed % 2 else 0):
            start, row = CANARY + place + int(rng.choice([each for each in order if each != to])) * size, width * pixel
        is_flipped = rng.random() < (0 if seed % 3 else 0.2)
        first, step = (start + (height - 1) * row, -row) if is_flipped else (start, row)
        lines = [expected[first + y * step :][: width * pixel] for y in range(height)]
        target = CANARY + place + int(to) * size
        found = np.stack(lines).reshape(height, width, planes, element).transpose(2, 0, 1, 3)
        expected[target : target + size] = found.reshape(-1)
        moves.append(Move(
            (planes, height, width),
            Access(0, target, (height * width * element, width * element, element)),
            Access(0, first, (element, step, pixel)),
            element,
        ))  # fmt: skip
    found = memory.copy()
    run(moves, [found])
    np.testing.assert_array_equal(found, expected)


def test_columns_that_are_written_twice_are_written_in_order(kernels):  # noqa: F811
    x = np.arange(8000, dtype=np.uint16).reshape(2000, 4)
    y = np.zeros_like(x)
    reversed_rows = Move((2000, 4), Access(1, 0, (8, 2)), Access(0, 6, (8, -2)), 2)
    for column in range(4):
        again = Move((2000,), Access(1, 2 * column, (8,)), Access(0, 0, (8,)), 2)
        for moves in ([reversed_rows, again], [again, reversed_rows]):
            expected = x[:, ::-1].copy()
            if moves[1] is again:
                expected[:, column] = x[:, 0]
            run(moves, [x, y])
            np.testing.assert_array_equal(y, expected)
