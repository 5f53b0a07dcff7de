"""Random NumPy programs of 2 to 8 steps: fused, they give what they give step by step."""

import collections

import numpy as np
import pytest
from how_many import how_many
from tracing.random_numpy import Program
from tracing.random_numpy_programs import NumpyProgram

import anydml as dml

CHUNKS, PROGRAMS = 10, how_many(1000) // 10
BEHIND, MARK = 1 << 14, np.uint8(77)
"""Bytes behind a result that must stay as they are, and their value."""


def check(seed, seen, kind=Program):
    program = kind(seed)
    fused = dml.fuse(program)
    names = [name for name, _ in program.steps]
    try:
        lowered = fused.lower(program.arrays)
    except dml.FuseError as error:
        # The one thing that NumPy does and a program cannot: indices that move before they are looked at.
        if "these would have to move first" not in str(error):
            raise
        seen["refused"] += 1
        return
    assert list(lowered.problems()) == [], (seed, names)
    result = fused(program.arrays)
    np.testing.assert_array_equal(result, program.expected, f"{seed} {names}\n{lowered}")
    assert result.dtype == program.expected.dtype
    assert result.shape == program.expected.shape
    assert result.flags.c_contiguous
    memory = np.full(result.nbytes + BEHIND, MARK)
    out = memory[: result.nbytes].view(result.dtype).reshape(result.shape)
    fused(program.arrays, out=out)
    np.testing.assert_array_equal(out, program.expected, f"{seed} {names}")
    assert (memory[result.nbytes :] == MARK).all(), (seed, names)
    seen["scratch"] += lowered.scratch_bytes > 0
    seen["programs"] += 1
    seen.update(set(names))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs(chunk):
    seen = collections.Counter()
    for k in range(PROGRAMS):
        check([chunk, k], seen)
    assert seen["programs"] >= 0.97 * PROGRAMS
    assert seen["scratch"] <= 0.3 * PROGRAMS


def test_programs_use_every_step():
    names = {name[5:] for name in dir(Program) if name.startswith("step_")}
    seen = {name for k in range(200) for name, _ in Program([77, k]).steps}
    assert seen == names


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs_of_more_words(chunk):
    seen = collections.Counter()
    for k in range(PROGRAMS // 2):
        check([chunk, 1, k], seen, NumpyProgram)
    assert seen["programs"] >= 0.45 * PROGRAMS
