"""The compiled kernels, on memory between bytes that must stay as they are, against NumPy's views and the reference."""

import copy
import platform
import sys
from pathlib import Path

import numpy as np
import pytest
from random_programs import random_program
from trust.guarded import Arena

import anydml as dml
from anydml.engines.common import scratch_arrays
from anydml.engines.numpy.engine import NumpyEngine
from anydml.engines.reference.literal import bind_literally
from anydml.moves import Access, Fill, Move

moving = pytest.importorskip("anydml.core.moving", reason="the core is not compiled here")
run_moves = pytest.importorskip("anydml.core.program").run_moves

SETS = ("v2", "v3", "v4")
FLAGS = {
    "v3": {"avx2", "bmi1", "bmi2", "fma", "movbe"},
    "v4": {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
}
"""What Linux calls what an instruction set has beyond the one before."""
CPUINFO = Path("/proc/cpuinfo")
CANARY = 256
"""Bytes on both sides of what a move may touch."""


@pytest.mark.skipif(not CPUINFO.exists() or platform.machine() != "x86_64", reason="there is no list of what it has")
def test_the_best_kernels_for_the_processor_are_chosen():
    flags = set(next(line for line in CPUINFO.read_text().splitlines() if line.startswith("flags")).split())
    moving.choose_kernels()
    best = "v4" if FLAGS["v3"] | FLAGS["v4"] <= flags else "v3" if FLAGS["v3"] <= flags else "v2"
    assert moving.instruction_set() == f"x86-64-{best}"


@pytest.fixture(params=[(name, streamed) for name in SETS for streamed in (False, True)], ids=str)
def kernels(request):
    """Each instruction set that there is, with stores through the caches and past them."""
    name, streamed = request.param
    moving.choose_kernels(name, 0 if streamed else 1 << 60)
    if not moving.instruction_set().endswith(name):
        moving.choose_kernels()
        pytest.skip(f"this processor has no {name}")
    yield name
    moving.choose_kernels()


def run(moves, arrays, backwards=False):
    run_moves(moves, arrays, backwards)


def box_strides(rng, sizes, element, order, negative=True):
    """Strides of a box that writes no byte twice, and the bytes that it spans; some axes backwards, some with gaps."""
    strides, step = [0] * len(sizes), element
    for d in order:
        strides[d] = step * (-1 if negative and rng.random() < 0.15 else 1)
        step *= sizes[d]
        if rng.random() < 0.15:
            step += int(rng.integers(1, 70))
    return strides


def placed(rng, sizes, strides, element):
    """Random bytes for an end of a move, as a view of bytes along its box, and where it begins."""
    low = sum(min(0, stride * (size - 1)) for size, stride in zip(sizes, strides, strict=True))
    high = sum(max(0, stride * (size - 1)) for size, stride in zip(sizes, strides, strict=True)) + element
    # Any alignment, and lines' own in one of three.
    offset = CANARY + (0 if rng.random() < 0.3 else int(rng.integers(64)))
    memory = rng.integers(0, 256, high - low + CANARY + offset + 64, np.uint8)
    memory = memory[-memory.ctypes.data % 64 :]
    return memory, offset - low


def view(memory, start, sizes, strides, element):
    return np.lib.stride_tricks.as_strided(memory[start:], (*sizes, element), (*strides, 1))


def random_sizes(rng, most):
    sizes = []
    for _ in range(int(rng.choice([0, 1, 1, 2, 2, 2, 2, 3, 3, 4, 5]))):
        kind = rng.random()
        top = 5 if kind < 0.3 else 20 if kind < 0.6 else 150 if kind < 0.9 else 2000
        sizes.append(int(rng.integers(1, top)))
    while np.prod(sizes, dtype=np.int64) > most:
        sizes[int(np.argmax(sizes))] //= 2
    return [max(1, size) for size in sizes]


def check_plain(rng):
    """A move of any box, element and strides, or a fill."""
    element = int(rng.choice([1, 1, 2, 2, 3, 4, 4, 4, 8, 8, 16, int(rng.integers(1, 71)), int(rng.integers(64, 700))]))
    sizes = random_sizes(rng, 300_000 // element if rng.random() < 0.2 else 20_000 // element + 1)
    check_move(rng, sizes, element)


def check_move(rng, sizes, element):
    order = list(reversed(range(len(sizes))))
    to = box_strides(rng, sizes, element, order if rng.random() < 0.7 else rng.permutation(len(sizes)))
    source = box_strides(rng, sizes, element, order if rng.random() < 0.4 else rng.permutation(len(sizes)))
    source = [0 if rng.random() < 0.07 else stride for stride in source]
    check_strides(rng, sizes, element, to, source)


def check_strides(rng, sizes, element, to, source):
    target, start = placed(rng, sizes, to, element)
    given, begin = placed(rng, sizes, source, element)
    expected = target.copy()
    written = view(expected, start, sizes, to, element)
    if rng.random() < 0.1:
        periods = [period for period in (1, 2, 3, 4, 8, 12, 33, element) if element % period == 0]
        pattern = rng.integers(0, 256, int(rng.choice(periods)), np.uint8)
        written[...] = np.tile(pattern, element // len(pattern))
        end = Fill(pattern.tobytes())
    else:
        written[...] = view(given, begin, sizes, source, element)
        end = Access(0, begin, tuple(source))
    move = Move(tuple(sizes), Access(1, start, tuple(to)), end, element)
    run([move], [given, target], rng.random() < 0.3)
    assert np.array_equal(target, expected), move


@pytest.mark.parametrize("chunk", range(4))
def test_random_moves(kernels, chunk):
    rng = np.random.default_rng(chunk)
    for _ in range(200):
        check_plain(rng)


def test_turned(kernels):
    """Long rows of many blocks, whose source lies the other way round; some go on behind another short axis."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        element = int(rng.choice([1, 2, 3, 4, 8]))
        sizes = [int(rng.integers(2, 150)), int(rng.integers(900, 3500)) // element]
        if rng.random() < 0.4:
            sizes = [int(rng.integers(2, 70)), int(rng.integers(2, 40)), int(rng.integers(16, 60))]
        order = list(reversed(range(len(sizes))))
        to = box_strides(rng, sizes, element, order, negative=False)
        source = box_strides(rng, sizes, element, [0, *order[:-1]])
        check_strides(rng, sizes, element, to, source)


def test_lines_apart_whose_elements_are_read_far_apart(kernels):
    """Lines that do not follow each other at the destination, of which each reads more than the first cache holds."""
    rng = np.random.default_rng(4)
    for _ in range(40):
        element = int(rng.choice([1, 2, 3, 4]))
        sizes = [int(rng.integers(2, 6)), int(rng.integers(2, 6)), int(rng.integers(100, 700))]
        pitch = sizes[2] * element + int(rng.integers(1, 70))
        source = [int(rng.integers(60)), int(rng.integers(60)), int(rng.integers(2 * element, 129))]
        check_strides(rng, sizes, element, [sizes[1] * pitch, pitch, element], source)


def test_crossed_rows_that_evict_each_other(kernels):
    """Rows of the source whose distance has a large power of two, and lines of the destination together or apart."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        element = int(rng.choice([2, 3, 6, 12, 16, 24, 32, 48, 64]))
        many, between, long = int(rng.integers(2, 40)), int(rng.integers(1, 3)), int(rng.integers(2, 70))
        distance = 2048 * int(rng.integers(2, 5)) * int(rng.choice([1, 1, -1]))
        line = long * element
        to = [between * line, line, element]
        check_strides(rng, [many, between, long], element, to, [element, abs(distance) * long, distance])


@pytest.mark.parametrize("element", [1, 2, 3, 4, 8])
def test_turned_planes_whose_rows_evict_each_other(kernels, element):
    """More rows at the destination than stay in the first cache, at distances with a large power of two."""
    rng = np.random.default_rng(element)
    for distance in (64, 128, 256, 512, 1024, 2048, 4096):
        rows = int(rng.integers(32768 // distance + 1, 65536 // distance + 40))
        row = int(rng.integers(16, 65536 // rows)) // element + 16
        pitch = -(-row * element // distance) // 2 * 2 * distance + distance
        check_strides(rng, [rows, row], element, [pitch, element], [element, (rows + int(rng.integers(3))) * element])


@pytest.mark.skipif(sys.platform == "win32", reason="guard pages are made by mprotect")
@pytest.mark.parametrize("at_end", [False, True])
def test_turned_pixels_between_guard_pages(kernels, at_end):
    """Registers take more of the source than the three bytes of a pixel, and less of the destination than they have."""
    rng = np.random.default_rng(7)
    source, target = Arena(16), Arena(16)
    for rows, columns in [(16, 6), (6, 16), (16, 16), (21, 9), (70, 22), (97, 101), *rng.integers(6, 140, (30, 2))]:
        size = int(rows * columns * 3)
        x = source.take(size, at_end).reshape(rows, columns, 3)
        x[...] = rng.integers(0, 256, x.shape)
        for turned in (x.swapaxes(0, 1), np.rot90(x), np.rot90(x, 3)):
            out = target.take(size, at_end).reshape(turned.shape)
            np.testing.assert_array_equal(dml.copy(turned, out=out), turned)


@pytest.mark.skipif(sys.platform == "win32", reason="guard pages are made by mprotect")
@pytest.mark.parametrize("at_end", [False, True])
def test_mirrored_rows_between_guard_pages(kernels, at_end):
    """Likewise: vectors overlap."""
    rng = np.random.default_rng(8)
    source, target = Arena(16), Arena(16)
    for element in (1, 2, 3, 4, 5, 6, 7, 8, 12, 16):
        for rows, columns in [(1, 600), (300, 2), (300, 3), *rng.integers(1, 70, (25, 2))]:
            size = int(rows * columns * element)
            x = source.take(size, at_end).reshape(rows, columns, element)
            x[...] = rng.integers(0, 256, x.shape)
            out = target.take(size, at_end).reshape(x.shape)
            np.testing.assert_array_equal(dml.flip(x, 1, out=out), x[:, ::-1])


@pytest.mark.parametrize("element", [1, 2, 4, 8])
def test_turned_rows_whose_last_block_is_short(kernels, element):
    """The last block of a row has less than a line, which may begin in the block before it, at any place in memory."""
    rng = np.random.default_rng(element)
    for rest in range(element, 128, element):
        row = int(rng.choice([1024, 2048])) // element + rest // element
        columns = int(rng.integers(16, 40))
        to = [row * element + element * int(rng.integers(0, 64 // element)), element]
        check_strides(rng, [columns, row], element, to, [element, columns * element])


def check_columns(rng):
    """A split, a join, or another order of short columns, one move each, along rows that may lie apart."""
    rows = [int(rng.integers(1, 5)) for _ in range(rng.integers(0, 2))] + [int(rng.choice([5, 70, 1000, 3000]))]
    word = int(rng.choice([1, 1, 2, 4, 8, 3]))
    runs = [word * int(rng.choice([1, 1, 1, 2, 3])) for _ in range(int(rng.integers(1, 7)))]
    gap = int(rng.choice([0, 0, 0, word]))
    target, given, moves = [], [], []
    for together in (rng.random() < 0.5, rng.random() < 0.5):
        order = rng.permutation(len(runs)) if rng.random() < 0.5 else range(len(runs))
        ends = [None] * len(runs)
        operands = []
        if together:
            at, width = 0, sum(runs) + gap
            strides = box_strides(rng, rows, width, list(reversed(range(len(rows)))))
            memory, start = placed(rng, rows, strides, width)
            for k in order:
                ends[k] = (0, start + at, strides)
                at += runs[k]
            operands.append(memory)
        else:
            for k in order:
                strides = box_strides(rng, rows, runs[k], list(reversed(range(len(rows)))))
                memory, start = placed(rng, rows, strides, runs[k])
                ends[k] = (len(operands), start, strides)
                operands.append(memory)
        (target if not target else given).extend((operands, ends))
    expected = [each.copy() for each in target[0]]
    for k, run_bytes in enumerate(runs):
        (to, start, strides), (source, begin, steps) = target[1][k], given[1][k]
        moved = view(given[0][source], begin, rows, steps, run_bytes)
        view(expected[to], start, rows, strides, run_bytes)[...] = moved
        source += len(expected)
        moves.append(
            Move(tuple(rows), Access(to, start, tuple(strides)), Access(source, begin, tuple(steps)), run_bytes)
        )
    run(moves, [*target[0], *given[0]], rng.random() < 0.3)
    for got, wanted in zip(target[0], expected, strict=True):
        assert np.array_equal(got, wanted), [str(move) for move in moves]


def test_columns(kernels):
    rng = np.random.default_rng(5)
    for _ in range(200):
        check_columns(rng)


def check_program(seed, scale, reference):
    program, arrays = random_program(seed, scale)
    expected = copy.deepcopy(arrays)
    reference(program, expected)
    every = [*arrays, *scratch_arrays(program)]
    run(program.moves, every, backwards=bool(seed % 2))
    for number, (got, wanted) in enumerate(zip(arrays, expected, strict=True)):
        assert np.array_equal(got, wanted), (seed, number, [str(move) for move in program.moves])


def by_definition(program, arrays):
    bind_literally(program, [*arrays, *scratch_arrays(program)])()


def move_with_numpy(program, arrays):
    NumpyEngine().compile(program).bind(arrays)()


@pytest.mark.parametrize("chunk", range(4))
def test_random_programs(kernels, chunk):
    """Lookups at both ends, inside each other, skipped and clamped; moves that meet what others wrote."""
    for seed in range(60 * chunk, 60 * chunk + 60):
        check_program(seed, 1, by_definition)


@pytest.mark.parametrize("chunk", range(2))
def test_long_random_programs(kernels, chunk):
    for seed in range(1000 + 60 * chunk, 1000 + 60 * chunk + 60):
        check_program(seed, int(np.random.default_rng(seed).choice([37, 300])), move_with_numpy)
