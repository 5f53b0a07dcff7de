"""No plan asks a kernel to put more into its scratch on the stack than there is."""

import itertools

import numpy as np
import pytest
from anydml.engines.cpu.kernels import elements, interleave, lookup, pixels
from anydml.engines.cpu.kernels.ir import LINE
from anydml.engines.cpu.kernels.registers import parse_spec
from anydml.engines.cpu.plan import plan

from anydml.engines.cpu import columns as limits
from anydml.engines.cpu import plan as planner
from anydml.moves import Access, Lookup, Move

LENGTHS = [2, 7, 64, 128, 1000, 8192, 100_000]


@pytest.fixture(autouse=True)
def streamed(monkeypatch):
    """Everything is with non-temporal stores: that is when scratch is used."""
    monkeypatch.setattr(planner, "most_cached", lambda: -1)


def columns(period, runs, count, zipped=False, back=False):
    """Moves that take rows of `period` bytes apart into runs at their heads."""
    step = -period if back else period
    starts = itertools.accumulate(runs[:-1], initial=0)
    result = []
    for k, (start, run) in enumerate(zip(starts, runs, strict=True)):
        near, far = Access(len(runs), start, (step,)), Access(k, 0, (run,))
        result.append(Move((count,), near, far, run) if zipped else Move((count,), far, near, run))
    return result


def extremes():
    """Runs of 1 to 8 columns with the longest and the shortest, the widest rows and rows with gaps."""
    rng = np.random.default_rng(8)
    for number in range(1, limits.MAX_COLUMNS + 2):
        widest = limits.INTERLEAVE_BYTES // 4
        for run in (1, 2, 3, 4, 8, 12, 16, widest // number, planner.ELEMENT):
            for period in {number * run, number * run + 1, 4 * number * run, widest}:
                yield period, [run] * number
        yield widest, [1] * (number - 1) + [planner.ELEMENT]
        yield widest, [1] * (number - 1) + [widest - number + 1]
        for _ in range(60):
            runs = rng.integers(1, 20, number).tolist()
            yield sum(runs) + int(rng.integers(0, 2) * rng.integers(0, 30)), runs


def test_shuffled_rows_and_columns_fit():
    assert limits.MAX_COLUMNS <= interleave.MAX_COLUMNS
    assert 8 * 2 * interleave.MAX_COLUMNS <= interleave.ADDRESSES
    fullest = found = 0
    for (period, runs), length, back in itertools.product(extremes(), (128, 100_000), (False, True)):
        for zipped in (False, True):
            for step in plan(columns(period, runs, length, zipped, back), 1 << 40):
                if step.kernel != "interleave":
                    continue
                _, word, words, count, _, pairs = parse_spec(step.load.args[0])
                segment = int(step.template[interleave.SEGMENT])
                assert segment % count == 0
                assert count * words * word <= limits.INTERLEAVE_BYTES
                assert all(offset >= 0 and offset + run <= words for offset, run in pairs)
                longest = max(run for _, run in pairs) * word
                column = (segment * longest + LINE - 1) // LINE * LINE
                needed = max(segment * words * word, column * len(pairs))
                assert needed <= interleave.BLOCK, step.load.args[0]
                fullest, found = max(fullest, needed), found + 1
    assert found > 1000
    assert fullest > interleave.BLOCK // 4, "nothing came near the bound, so nothing was shown"


def test_pixels_fit():
    fullest = found = 0
    for step, size, length, gap in itertools.product(range(1, 65), (1, 8), (64, 300, 500, 8192), (0, 1)):
        box, strides = (9, length), (length * step, step)
        reads = length * step + gap, step
        moves = [
            Move(box, Access(0, k, strides), Access(1, step - k - size, reads), size)
            for k in range(0, step - step % size, size)
        ]
        for made in plan(moves, 1 << 40) if moves else ():
            if made.kernel != "pixels":
                continue
            pattern = pixels.parse_spec(made.load.args[0])
            segment, together = (int(made.template[at]) for at in (pixels.SEGMENT, pixels.TOGETHER))
            assert segment % pattern.block == 0
            needed = pattern.to_step * max(pattern.block, min(segment, length), together * length * (together > 1))
            assert needed <= pixels.SCRATCH
            fullest, found = max(fullest, needed), found + 1
    assert found > 200
    assert fullest > pixels.SCRATCH // 4, "nothing came near the bound, so nothing was shown"


def test_segments_of_elements_fit():
    fullest = 0
    for size, length, apart in itertools.product(range(1, 65), LENGTHS, (1, 100, 10**6)):
        source = Access(1, 0, (9 * size + apart,))
        line = Move((length,), Access(0, 0, (size,)), source, size)
        turned = Move((length, 9), Access(0, 0, (9 * size, size)), Access(1, 0, (size, size * length)), size)
        for step in (*plan([line], 1 << 40), *plan([turned], 1 << 40)):
            if step.kernel == "elements":
                needed = int(step.template[elements.SEGMENT]) * size
                assert needed <= elements.BLOCK
                fullest = max(fullest, needed)
    assert fullest == elements.BLOCK


def test_segments_of_indices_fit():
    most = {}
    for size, length, lines in itertools.product([1, 4, 64, 65, 2048, 10**6], LENGTHS, (1, 70)):
        looked = Lookup(2, "int64", 0, (0, 8), 10, size)
        sizes, to = (lines, length), (size * length, size)
        (step,) = plan([Move(sizes, Access(0, 0, to), Access(1, 0, (10 * size, 0), (looked,)), size)], 1 << 40)
        most[step.kernel] = max(most.get(step.kernel, 0), int(step.template[lookup.SEGMENT]))
    # Elements resolve a segment of their own; the others resolve all that the plan gives them.
    assert 8 * most["lookup lines"] == lookup.LINE_OFFSETS
    assert most["lookup rows"] == lookup.ROW_SEGMENT
    assert 8 * lookup.ELEMENT_SEGMENT == lookup.ELEMENT_OFFSETS
    assert planner.ELEMENT * lookup.ELEMENT_SEGMENT <= lookup.ELEMENT_BLOCK
    assert planner.ELEMENT <= lookup.BLOCK
