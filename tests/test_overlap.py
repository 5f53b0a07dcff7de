"""Overlaps among many arrays: the answer against every byte's address, and work that grows with their number."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anydml as dml
from anydml.memory import overlap
from anydml.memory.overlap import overlapping_pair


def touched(array):
    """The addresses of an array's bytes."""
    address = np.array(array.__array_interface__["data"][0])
    for size, stride in zip(array.shape, array.strides, strict=True):
        address = np.add.outer(address, np.arange(size) * stride)
    return set(np.add.outer(address, np.arange(array.itemsize)).ravel().tolist())


def pairs_that_share(arrays, first_output):
    """All pairs with an output, byte by byte."""
    bytes_of = [touched(array) for array in arrays]
    return {(i, j) for j in range(first_output, len(arrays)) for i in range(j) if bytes_of[i] & bytes_of[j]}


@st.composite
def views(draw):
    """Views of one block: tiles and columns of a three-dimensional array, stepped, reversed, repeated."""
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(1, 7)))
    block = np.zeros(shape, draw(st.sampled_from(["u1", "u2", "u4", "V3"])))
    arrays = []
    for _ in range(draw(st.integers(2, 24))):
        index = []
        for size in shape:
            start = draw(st.integers(0, size - 1))
            end = draw(st.integers(start + 1, size))
            index.append(slice(start, end, draw(st.sampled_from([1, 1, 2, 3]))))
        view = block[tuple(index)]
        if draw(st.booleans()):
            view = view[::-1, :, ::-1].T
        if draw(st.integers(0, 9)) == 0:
            view = np.broadcast_to(view, (2, *view.shape))
        arrays.append(view)
    return arrays, draw(st.integers(0, len(arrays)))


@settings(max_examples=300, deadline=None)
@given(views(), st.sampled_from([0, 32]))
def test_the_answer_is_that_of_every_byte(monkeypatch_module, case, few):
    arrays, first_output = case
    monkeypatch_module.setattr(overlap, "FEW_PAIRS", few)
    expected = pairs_that_share(arrays, first_output)
    pair = overlapping_pair(arrays, first_output)
    assert (pair is None) == (not expected)
    assert pair is None or pair in expected


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def tiles(block, rows, columns):
    """Tiles of a matrix, row by row."""
    height, width = (size // count for size, count in zip(block.shape, (rows, columns), strict=True))
    return [
        block[i : i + height, j : j + width]
        for i in range(0, block.shape[0], height)
        for j in range(0, block.shape[1], width)
    ]


FAMILIES = {
    "columns": lambda n: [block[:, i : i + 1] for block in [np.zeros((4, n), "f4")] for i in range(n)],
    "columns of every second row": lambda n: [b[::2, i] for b in [np.zeros((8, n), "f4")] for i in range(n)],
    "planes of channels": lambda n: [b[:, i, ::2] for b in [np.zeros((3, n, 10), "u1")] for i in range(n)],
    "every n-th": lambda n: [line[i::n] for line in [np.zeros(5 * n, "u2")] for i in range(n)],
    "backwards": lambda n: [line[i::n][::-1] for line in [np.zeros(3 * n, "u2")] for i in range(n)],
    "tiles": lambda n: tiles(np.zeros((64, 2 * n), "u1"), 16, n // 16),
    "rows": lambda n: list(np.zeros((n, 3), "u1")),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_many_parts_of_one_array_are_told_apart_without_comparing_pairs(name, monkeypatch):
    asked = []
    monkeypatch.setattr(overlap, "shares_memory", lambda a, b: asked.append(1) or np.shares_memory(a, b))
    arrays = FAMILIES[name](2048)
    assert len(arrays) > 2000
    assert overlapping_pair(arrays, 0) is None
    assert len(asked) <= len(arrays)
    # One more that shares a byte with one of them is found.
    number = len(arrays) // 3
    pair = overlapping_pair([*arrays, arrays[number][-1:]], len(arrays))
    assert pair == (number, len(arrays))
    assert len(asked) <= 8 * len(arrays)


def test_inputs_may_be_the_same_many_times():
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    out = np.empty((2, 12000), np.float32)
    assert (dml.join([x] * 3000, axis=1, out=out) == np.concatenate([x] * 3000, axis=1)).all()


def test_columns_that_overlap_are_named():
    block = np.zeros((4, 400), np.float32)
    out = [block[:, i : i + 1] for i in range(300)]
    out[200] = block[:, 7:8]
    with pytest.raises(dml.BindingError, match=r"out\[200\] overlaps out\[7\]"):
        dml.split(np.zeros((4, 300), np.float32), [1] * 300, axis=1, out=out)
