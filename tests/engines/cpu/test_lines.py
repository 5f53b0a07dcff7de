"""What is stored in whole lines is right at every alignment, and nothing around it changes."""

from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anydml.engines.cpu import kernel_call as calls
from anydml.engines.cpu import pixels
from anydml.engines.cpu import plan as planning
from anydml.engines.cpu.kernels.interleave import rows_to_line
from anydml.engines.cpu.pool import POOL
from anydml.memory.host import address_of
from anydml.moves import Access, Lookup, Move

LINE, AROUND = 64, 128
FILL = 0xA5
THREADS = 3


@pytest.fixture(scope="module", autouse=True)
def threads():
    """Threads that share lines at the ends of what they claim, even where there is one core."""
    before = POOL.threads
    POOL.resize(THREADS)
    yield
    POOL.resize(before)


class Buffer:
    """Bytes at a chosen distance from a line, with others around them that nobody may change."""

    def __init__(self, size, offset):
        self._memory = np.full(size + 2 * AROUND + 2 * LINE, FILL, np.uint8)
        self._start = AROUND + (offset - address_of(self._memory) - AROUND) % LINE
        self.bytes = self._memory[self._start : self._start + size]

    def is_whole(self):
        """Whether what is around is as it was."""
        before, after = self._memory[: self._start], self._memory[self._start + self.bytes.size :]
        return (before == FILL).all() and (after == FILL).all()


PAST, THROUGH = 1 << 40, 1
"""Bytes written that let stores go past the caches, or through them."""


def run(kernel, chunk, moves, destinations, *sources, written=PAST):
    """Do moves, about `chunk` bytes a claim; operands are the destinations, then the sources."""
    # A unit of looked-up rows is no longer than a claim, so that few rows make several.
    # Pixels have tests of their own.
    with mock.patch.object(calls, "CHUNK", chunk), mock.patch.object(pixels, "MOST_BYTES", 0):
        (step,) = planning.plan(moves, written)
    assert step.kernel == kernel
    operands = [*(buffer.bytes for buffer in destinations), *sources]
    table = step.table(np.array([address_of(operand) for operand in operands], np.uint64))
    POOL.run(step.load(), table, operands)
    assert all(buffer.is_whole() for buffer in destinations)


offsets = st.integers(0, LINE - 1)
seeds = st.integers(0, 2**32 - 1)
chunks = st.sampled_from([1, 3000, calls.CHUNK])


@given(
    run_bytes=st.integers(65, 700), rows=st.integers(1, 40), gap=st.integers(0, 200), offset=offsets, seed=seeds,
    chunk=chunks,
)  # fmt: skip
def test_rows_that_continue_each_other(run_bytes, rows, gap, offset, seed, chunk):
    source = np.random.default_rng(seed).integers(0, 256, (rows, run_bytes + gap), np.uint8)
    destination = Buffer(rows * run_bytes, offset)
    move = Move((rows,), Access(0, 0, (run_bytes,)), Access(1, 0, (run_bytes + gap,)), run_bytes)
    kernel = "row_blocks" if run_bytes <= planning.SHORT_ROW else "rows"
    run(kernel, chunk, [move], [destination], source)
    np.testing.assert_array_equal(destination.bytes.reshape(rows, -1), source[:, :run_bytes])


@given(
    run_bytes=st.integers(65, 330), shape=st.tuples(st.integers(1, 9), st.integers(1, 9)), between=st.integers(0, 70),
    offset=offsets, seed=seeds, chunk=chunks,
)  # fmt: skip
def test_short_rows_through_the_caches(run_bytes, shape, between, offset, seed, chunk):
    source = np.random.default_rng(seed).integers(0, 256, (*shape, run_bytes + 8), np.uint8)
    pitch = run_bytes + between
    destination = Buffer(shape[0] * shape[1] * pitch, offset)
    there = Access(0, 0, (shape[1] * pitch, pitch))
    move = Move(shape, there, Access(1, 0, source.strides[:2]), run_bytes)
    run("rows", chunk, [move], [destination], source, written=THROUGH)
    found = destination.bytes.reshape(*shape, pitch)
    np.testing.assert_array_equal(found[..., :run_bytes], source[..., :run_bytes])
    assert (found[..., run_bytes:] == FILL).all()


@given(
    run_bytes=st.integers(513, 900), shape=st.tuples(st.integers(1, 9), st.integers(1, 9)), between=st.integers(0, 70),
    offset=offsets, seed=seeds, chunk=chunks,
)  # fmt: skip
def test_rows_that_continue_each_other_now_and_then(run_bytes, shape, between, offset, seed, chunk):
    groups, rows = shape
    source = np.random.default_rng(seed).integers(0, 256, (groups, rows, run_bytes + 8), np.uint8)
    pitch = rows * run_bytes + between
    destination = Buffer(groups * pitch, offset)
    there = Access(0, 0, (pitch, run_bytes))
    move = Move((groups, rows), there, Access(1, 0, (source.strides[0], source.strides[1])), run_bytes)
    run("rows", chunk, [move], [destination], source)
    found = destination.bytes.reshape(groups, pitch)
    np.testing.assert_array_equal(found[:, : rows * run_bytes].reshape(groups, rows, -1), source[..., :run_bytes])
    assert (found[:, rows * run_bytes :] == FILL).all()


@given(
    size=st.integers(65, 700), count=st.integers(1, 60), between=st.sampled_from([0, 0, 1, 64]), offset=offsets,
    seed=seeds, chunk=chunks, written=st.sampled_from([PAST, THROUGH]),
)  # fmt: skip
def test_looked_up_rows(size, count, between, offset, seed, chunk, written):
    rng = np.random.default_rng(seed)
    source, indices = rng.integers(0, 256, (30, size), np.uint8), rng.integers(-40, 40, count)
    pitch = size + between
    destination = Buffer(count * pitch, offset)
    picked = Access(1, 0, (0,), (Lookup(2, "int64", 0, (8,), 30, size),))
    move = Move((count,), Access(0, 0, (pitch,)), picked, size)
    run("lookup rows", chunk, [move], [destination], source, indices, written=written)
    wrapped = np.clip(np.where(indices < 0, indices + 30, indices), 0, 29)
    found = destination.bytes.reshape(count, pitch)
    np.testing.assert_array_equal(found[:, :size], source[wrapped])
    assert (found[:, size:] == FILL).all()


@pytest.mark.parametrize("number", range(10))
def test_a_claim_writes_its_own_row_and_no_other(number):
    size, offset = 600, 5
    source = np.random.default_rng(number).integers(0, 256, (2, 5, size + 8), np.uint8)
    destination = Buffer(10 * size, offset)
    move = Move((2, 5), Access(0, 0, (5 * size, size)), Access(1, 0, source.strides[:2]), size)
    with mock.patch.object(calls, "CHUNK", 1):
        (step,) = planning.plan([move], 1 << 40)
    table = step.table([address_of(destination.bytes), address_of(source)])
    counter = np.array([number], np.uint64)
    assert step.load()(address_of(table), address_of(counter), 1) == 1
    found = destination.bytes.reshape(10, size)
    np.testing.assert_array_equal(found[number], source.reshape(10, -1)[number, :size])
    assert (np.delete(found, number, 0) == FILL).all()
    assert destination.is_whole()


PATTERNS = {
    "colour planes": (1, (1, 1, 1)), "floats": (4, (1, 1, 1)), "twelve": (4, (4, 4, 4)), "uneven": (4, (2, 1, 3)),
    "pairs": (8, (1, 1)), "one of two": (4, (1, -1)), "one of four": (2, (1, -3)), "fives": (1, (5,)),
    "six and two": (2, (3, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", PATTERNS)
@pytest.mark.parametrize("direction", ["forwards", "backwards", "joined", "joined backwards"])
@given(
    lines=st.integers(1, 3), rows=st.integers(150, 9000), near=offsets, far=offsets, apart=st.booleans(), seed=seeds,
    chunk=chunks,
)  # fmt: skip
def test_interleaved_columns(name, direction, lines, rows, near, far, apart, seed, chunk):
    size, pattern = PATTERNS[name]
    runs = [size * run for run in pattern if run > 0]
    width = size * sum(map(abs, pattern))
    if direction.startswith("joined") and sum(runs) != width:
        return
    rng = np.random.default_rng(seed)
    starts = np.cumsum([0, *runs[:-1]]).tolist()
    offsets_of = [(far + 5 * k * apart) % LINE for k in range(len(runs))]
    if direction.startswith("joined"):
        back = direction == "joined backwards"
        sources = [rng.integers(0, 256, (lines, rows, run), np.uint8) for run in runs]
        whole = Buffer(lines * rows * width, near)
        moves = [
            Move(
                (lines, rows),
                Access(0, start, (rows * width, width)),
                Access(1 + k, (rows - 1) * r * back, (rows * r, -r if back else r)),
                r,
            )
            for k, (start, r) in enumerate(zip(starts, runs, strict=True))
        ]
        run("interleave", chunk, moves, [whole], *sources)
        expected = np.concatenate(sources, 2)[:, :: -1 if back else 1]
        np.testing.assert_array_equal(whole.bytes.reshape(lines, rows, width), expected)
        return
    source = rng.integers(0, 256, (lines, rows, width), np.uint8)
    back = direction == "backwards"
    columns = [Buffer(lines * rows * run, offset) for run, offset in zip(runs, offsets_of, strict=True)]
    first, stride = ((rows - 1) * width, -width) if back else (0, width)
    moves = [
        Move((lines, rows), Access(k, 0, (rows * r, r)), Access(len(runs), first + start, (rows * width, stride)), r)
        for k, (start, r) in enumerate(zip(starts, runs, strict=True))
    ]
    run("interleave", chunk, moves, columns, source)
    for column, start, r in zip(columns, starts, runs, strict=True):
        expected = source[:, :: -1 if back else 1, start : start + r]
        np.testing.assert_array_equal(column.bytes.reshape(lines, rows, r), expected)


@given(address=st.integers(0, 1 << 40), size=st.integers(1, 600))
def test_rows_to_the_next_line(address, size):
    step, inverse, cycle = rows_to_line(size)
    ahead = -address % LINE // step * inverse % cycle
    possible = [k for k in range(LINE) if (address + k * size) % LINE == 0]
    assert not possible or ahead == possible[0]
