"""Pixels, groups of a few bytes, are permuted in registers: every byte of theirs, and no other, wherever they lie."""

import functools
import random
from unittest import mock

import numpy as np
import pytest
from anydml.engines.cpu.kernels import kept, pixel_registers
from anydml.engines.cpu.kernels import pixels as kernels
from anydml.engines.cpu.pool import POOL
from how_many import how_many
from hypothesis import given
from hypothesis import strategies as st

import anydml as dml
from anydml.engines.cpu import kernel_call as calls
from anydml.engines.cpu import pixels, plan
from anydml.memory.host import address_of
from anydml.moves import Access, Move, simplify

from .test_lines import Buffer, chunks, offsets, seeds

PATTERNS = {
    "RGB to BGR": (3, 3, [(0, 2, 1), (1, 1, 1), (2, 0, 1)]),
    "RGBA to BGR, backwards": (3, -4, [(0, 2, 1), (1, 1, 1), (2, 0, 1)]),
    "BGR into RGBA": (4, 3, [(0, 2, 1), (1, 1, 1), (2, 0, 1)]),
    "words of 2 bytes, backwards": (6, -6, [(0, 4, 2), (2, 2, 2), (4, 0, 2)]),
    "words of 8 bytes": (16, 16, [(0, 8, 8), (8, 0, 8)]),
    "three of five": (5, 4, [(0, 3, 1), (2, 0, 2)]),
}
"""Steps in destination and source, and each run's places and length, in bytes."""


def check(
    pattern, lines, count, gap=0, near=0, far=0, seed=0, chunk=calls.CHUNK, streamed=False, load=None, packed=False
):
    """Do a pattern's moves by the kernel and three threads, and look at every byte of the destination and around it."""
    to_step, from_step, runs = pattern
    rng = np.random.default_rng(seed)
    to_line, from_line = count * to_step + gap * (not packed), count * abs(from_step) + gap
    source = rng.integers(0, 256, lines * from_line + far, np.uint8)[far:]
    destination = Buffer(lines * to_line, near)
    destination.bytes[...] = rng.integers(0, 256, lines * to_line, np.uint8)
    expected = destination.bytes.copy()
    to_pixels = expected.reshape(lines, -1)[:, : count * to_step].reshape(lines, count, to_step)
    from_pixels = source.reshape(lines, -1)[:, : count * abs(from_step)].reshape(lines, count, -1)
    for at, other, run in runs:
        to_pixels[..., at : at + run] = from_pixels[:, :: 1 if from_step > 0 else -1, other : other + run]
    # Reshaping may have copied.
    expected.reshape(lines, -1)[:, : count * to_step] = to_pixels.reshape(lines, -1)
    first = max(0, (count - 1) * -from_step)
    moves = [
        Move((lines, count), Access(0, at, (to_line, to_step)), Access(1, first + other, (from_line, from_step)), run)
        for at, other, run in runs
    ]
    with mock.patch.object(calls, "CHUNK", chunk), mock.patch.object(pixels, "LEAST_BYTES", 0):
        (step,) = plan.plan(simplify(moves), 1 << 40 if streamed else 1)
    assert step.kernel == "pixels"
    table = step.table(np.array([address_of(destination.bytes), address_of(source)], np.uint64))
    threads = POOL.threads
    POOL.resize(3)
    try:
        POOL.run(load(*step.load.args) if load else step.load(), table, [destination.bytes, source])
    finally:
        POOL.resize(threads)
    np.testing.assert_array_equal(destination.bytes, expected)
    assert destination.is_whole()


@pytest.mark.parametrize("name", PATTERNS)
@given(
    lines=st.integers(1, 3), count=st.integers(64, 9000) | st.integers(16, 700), packed=st.booleans(),
    gap=st.sampled_from([0, 1, 64]), near=offsets, far=offsets,
    seed=seeds, chunk=chunks, streamed=st.booleans(),
)  # fmt: skip
def test_every_alignment(name, lines, count, packed, gap, near, far, seed, chunk, streamed):
    check(PATTERNS[name], lines, count, gap, near, far, seed, chunk, streamed, packed=packed)


@pytest.mark.parametrize("name", PATTERNS)
@given(
    lines=st.integers(4, 400), count=st.integers(16, 230), packed=st.booleans(), near=offsets, far=offsets, seed=seeds,
    chunk=chunks, streamed=st.booleans(),
)  # fmt: skip
def test_many_short_lines(name, lines, count, packed, near, far, seed, chunk, streamed):
    check(PATTERNS[name], lines, count, 7, near, far, seed, chunk, streamed, packed=packed)


@pytest.mark.parametrize("seed", range(how_many(8)))
def test_any_pattern(seed):
    rng = random.Random(seed)
    word = rng.choice([1, 1, 2, 4])
    size = rng.randint(2, 16 // word)
    taken, places = rng.randint(size // 2 + 1, size + 2), [*range(size)]
    rng.shuffle(places)
    runs = [(at * word, rng.randrange(taken) * word, word) for at in sorted(places[: size - rng.choice([0, 1])])]
    step = taken * word * rng.choice([1, -1])
    for streamed in (False, True):
        check((size * word, step, runs), 2, 1111, 8, rng.randrange(64), rng.randrange(64), seed, streamed=streamed)


@pytest.mark.parametrize("features", [(), (pixel_registers.MASKS,)])
@pytest.mark.parametrize("name", ["RGB to BGR", "BGR into RGBA", "RGBA to BGR, backwards"])
def test_processors_that_permute_less_at_once(features, name, monkeypatch):
    # What is compiled here for others is not kept.
    monkeypatch.setattr(kept, "name_of", lambda *_: None)
    asked, load = [], functools.cache(kernels.pixels_kernel.__wrapped__)
    monkeypatch.setattr(pixel_registers, "_has", lambda feature: asked.append(feature) or feature in features)
    for streamed in (False, True):
        check(PATTERNS[name], 2, 3001, 1, 5, 7, streamed=streamed, load=load)
    assert asked


X = np.random.default_rng(0).integers(0, 256, (90, 110, 4), np.uint8)
RGB = X[..., :3].copy()
VIEWS = {
    "RGB to BGR": (RGB, lambda x: x[..., ::-1]),
    "RGBA to BGR": (X, lambda x: x[..., 2::-1]),
    "a window of it, mirrored": (X, lambda x: x[3:50, 100:7:-1, 2::-1]),
    "bytes of words swapped": (X, lambda x: x[..., ::-1]),
    "words of 2 bytes": (X.view(np.uint16).reshape(-1, 3), lambda x: x[:, ::-1]),
    "pairs": (X.view(np.int32).reshape(-1, 2), lambda x: x[:, ::-1]),
    "small pictures mirrored": (X, lambda x: x[:, ::-1, :3]),
    "short lines backwards": (RGB, lambda x: x[:, ::-1, ::-1]),
    "a window of few columns": (X, lambda x: x[:, 5:26, 2::-1]),
    "rows of 64 bytes": (np.ascontiguousarray(X[:, :96]).view(np.float32).reshape(-1, 16), lambda x: x[:, ::-1]),
    "rows and columns of four": (np.ascontiguousarray(X[:, :96]).view(np.float32).reshape(-1, 4, 4), lambda x: x.mT),
    "rows and columns of two": (X.reshape(-1, 2, 2), lambda x: x.transpose(0, 2, 1)),
    "channels by slices": (X, lambda x: np.concatenate([x[..., 2:3], x[..., :1], x[..., 1:2]], axis=-1)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_pictures(name):
    x, view = VIEWS[name]
    moves = simplify(dml.fuse(view).lower(x).moves)
    assert [step.kernel for step in plan.plan(moves, 0)] == ["pixels"]
    if name != "channels by slices":
        for _ in range(3):
            assert dml.copy(view(x)).tobytes() == view(x).tobytes()


@pytest.mark.parametrize("channels", [slice(3), slice(2, None, -1)])
def test_alpha_stays(channels):
    seen = X.copy()
    out = seen[..., channels]
    for _ in range(3):
        dml.copy(RGB, out=out)
        np.testing.assert_array_equal(seen[..., channels], RGB)
        np.testing.assert_array_equal(seen[..., 3], X[..., 3])


WIDE = np.zeros((64, 200, 40), np.uint8)
OTHERS = {
    "too few pixels in a line": WIDE[:, :15, 2::-1],
    "pixels of too many lines": WIDE[:, :, 30::-1],
    "pixels too far apart": WIDE[:, ::2, 2::-1],
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_left_to_others(name):
    view = OTHERS[name]
    start = address_of(view) - address_of(WIDE)
    to = np.empty(view.shape, view.dtype).strides
    moves = simplify([Move(view.shape, Access(0, 0, to), Access(1, start, view.strides), 1)])
    assert "pixels" not in [step.kernel for step in plan.plan(moves, 0)]
