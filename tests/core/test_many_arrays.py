"""Hundreds of arrays in one call: what overlaps is refused wherever it lies."""

import numpy as np
import pytest
from call_ways import counted

import anydml as dml

PARTS = 300


def outputs(rows, order, gap):
    """Arrays of one memory, `gap` elements apart, whose places have an order."""
    memory = np.zeros((PARTS, 3 * rows + gap), np.uint16)
    return [memory[place, : 3 * rows].reshape(rows, 3) for place in order], memory


ORDERS = {
    "upwards": np.arange(PARTS),
    "downwards": np.arange(PARTS)[::-1],
    "at random": np.random.default_rng(1).permutation(PARTS),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("rows", [4, 100], ids=["small", "large"])
@pytest.mark.parametrize("axis", [0, 1])
def test_hundreds_of_parts(order, rows, axis):
    x = np.random.default_rng(0).integers(0, 1 << 16, (rows, PARTS, 3), np.uint16)
    x = np.ascontiguousarray(x.transpose(1, 0, 2)).reshape(-1, 3) if axis == 0 else x.reshape(rows, -1)
    out, memory = outputs(rows, ORDERS[order], gap=1)
    with counted() as done:
        assert dml.split(x, PARTS, axis, out=out) is not None
    assert done
    expected = np.split(x, PARTS, axis)
    assert all(map(np.array_equal, out, expected))
    assert not memory[:, 3 * rows :].any()

    joined = np.zeros_like(x)
    dml.join(out, axis, out=joined)
    assert np.array_equal(joined, x)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shift", [-1, 1])
def test_a_part_that_overlaps_another_is_refused(order, shift):
    rows, places = 4, ORDERS[order]
    x = np.ones((PARTS * rows, 3), np.uint16)
    apart, memory = outputs(rows, places, gap=1)
    elements = memory.reshape(-1)
    for number in (0, 1, PARTS // 2, PARTS - 1):
        # Two elements towards its neighbour: past the gap, and one into it.
        first = places[number] * memory.shape[1] + 2 * shift
        if 0 <= first <= elements.size - 3 * rows:
            out = [*apart]
            out[number] = elements[first : first + 3 * rows].reshape(rows, 3)
            with pytest.raises(dml.BindingError, match=r"out\[\d+\] overlaps out\[\d+\] in memory"):
                dml.split(x, PARTS, 0, out=out)
    assert not memory.any()


def test_a_part_that_overlaps_the_input_is_refused():
    memory = np.zeros(PARTS * 12 + 8, np.uint16)
    x, out = memory[: PARTS * 12].reshape(-1, 12), [np.zeros((1, 12), np.uint16) for _ in range(PARTS)]
    out[7] = memory[-12:].reshape(1, 12)
    with pytest.raises(dml.BindingError, match=r"out\[7\] overlaps x in memory"):
        dml.split(x, PARTS, 0, out=out)


# Few enough arrays that their sizes stay open; and more than a signature has room for.
@pytest.mark.parametrize("arrays", [260, 5000])
def test_more_sizes_than_a_signature_holds(arrays):
    x = np.zeros((4,) + (1,) * 63)[::-2]
    x[...] = np.arange(2).reshape(x.shape)
    fused = dml.fuse(lambda *arrays: arrays[-1][::-1])
    for _ in range(3):
        assert fused(*[x] * arrays).ravel().tolist() == [1, 0]
