"""Patterns that models are full of: fused, each is one program without scratch, of as few moves as it needs."""

import numpy as np
import pytest

import anydml as dml

RNG = np.random.default_rng(15)


def floats(*shape, dtype=np.float32):
    return RNG.integers(0, 1 << 14, shape).astype(dtype)


def heads(x):
    """F1: queries, keys and values of attention."""
    batch, length, width = x.shape
    parts = np.split(x, 3, axis=-1)
    return tuple(part.reshape(batch, length, 4, width // 12).transpose(0, 2, 1, 3) for part in parts)


def rotary_halves(x):
    """F2: the second half before the first."""
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([second, first], axis=-1)


def rotary_pairs(x):
    """F2: even before odd elements."""
    return np.concatenate([x[..., ::2], x[..., 1::2]], axis=-1)


def windows(x):
    """F3: Swin's shifted windows of 7 by 7."""
    batch, height, width, channels = x.shape
    rolled = np.roll(x, (-3, -3), axis=(1, 2))
    cut = rolled.reshape(batch, height // 7, 7, width // 7, 7, channels)
    return cut.transpose(0, 1, 3, 2, 4, 5).reshape(-1, 49, channels)


def crops(images, places, mirrored):
    """F4: crops of images, every second mirrored, channels first."""
    cut = [image[y : y + 12, x : x + 12] for image, (y, x) in zip(images, places, strict=True)]
    return np.stack([np.fliplr(c) if m else c for c, m in zip(cut, mirrored, strict=True)]).transpose(0, 3, 1, 2)


def focus(x):
    """F5: YOLO's focus."""
    return np.concatenate([x[..., a::2, b::2] for b in (0, 1) for a in (0, 1)], axis=1)


def columns(x):
    """F6: im2col of 3 by 3, padded by 1."""
    batch, channels, height, width = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = [padded[:, :, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return np.stack(taps, axis=2).reshape(batch, channels * 9, height * width)


def shuffled(x):
    """F7: pixel shuffle by 4, cropped by 8, mirrored."""
    batch, channels, height, width = x.shape
    apart = x.reshape(batch, channels // 16, 4, 4, height, width).transpose(0, 1, 4, 2, 5, 3)
    return apart.reshape(batch, channels // 16, height * 4, width * 4)[..., 8:-8, 8:-8][..., ::-1]


def embedded(table, ids, positions):
    """F8: rows of a table beside their positions."""
    rows = table[ids]
    return np.concatenate([rows, np.broadcast_to(positions, rows.shape)], axis=-1)


def pages(cache, table):
    """F9: pages of keys, heads first."""
    found = cache[table].transpose(2, 0, 1, 3)
    return found.reshape(found.shape[0], -1, found.shape[3])


IMAGES = [RNG.integers(0, 255, (16, 16, 3), dtype=np.uint8) for _ in range(8)]
PLACES = [(int(y), int(x)) for y, x in RNG.integers(0, 5, (8, 2))]
CASES = {
    "F1 heads": (heads, (floats(2, 16, 3 * 4 * 8),), 3),
    "F2 halves": (rotary_halves, (floats(2, 4, 16, 8),), 2),
    "F2 pairs": (rotary_pairs, (floats(2, 4, 16, 8),), 2),
    # A roll cuts an axis of windows into whole ones, and one of two parts.
    "F3 windows": (windows, (floats(2, 14, 14, 4),), 9),
    "F4 crops": (crops, (IMAGES, PLACES, [bool(k % 2) for k in range(8)]), 8),
    "F5 focus": (focus, (floats(2, 3, 8, 8),), 4),
    # Nine taps, and what each takes of the border: a side, or a side and a row that ends in a corner.
    "F6 columns": (columns, (floats(2, 3, 5, 6),), 21),
    "F7 shuffle": (shuffled, (floats(2, 32, 6, 6),), 1),
    "F8 embedding": (embedded, (floats(50, 6), RNG.integers(0, 50, (3, 7)), floats(7, 6)), 2),
    "F9 pages": (pages, (floats(9, 4, 2, 8, dtype=np.float16), RNG.integers(0, 9, 5)), 1),
}


@pytest.mark.parametrize("name", CASES)
def test_pattern(name):
    function, arguments, moves = CASES[name]
    fused = dml.fuse(function)
    program = fused.lower(*arguments)
    assert list(program.problems()) == []
    assert program.scratch_bytes == 0
    assert len(program.moves) == moves, str(program)
    expected, found = function(*arguments), fused(*arguments)
    if isinstance(expected, np.ndarray):
        expected, found = (expected,), (found,)
    for one, other in zip(expected, found, strict=True):
        assert other.flags.c_contiguous
        np.testing.assert_array_equal(other, one)


def test_a_large_pattern_runs_kernels():
    x = floats(2, 256, 3 * 4 * 64)
    for one, other in zip(dml.fuse(heads)(x), heads(x), strict=True):
        np.testing.assert_array_equal(one, other)
