"""Integers as arrays and tensors without dimensions are numbers where a function needs them."""

import warnings

import numpy as np
import pytest

import anydml as dml

torch = pytest.importorskip("torch")

X = np.arange(60).reshape(6, 10)
T = torch.arange(60).reshape(6, 10)

FUNCTIONS = {
    "index": lambda x, k: x[k],
    "axis 1": lambda x, k: x[:, k],
    "slice": lambda x, k: x[k:],
    "window": lambda x, k: x[k : k + 2],
    "item": lambda x, k: x[k.item() :],
    "int": lambda x, k: x[:, int(k) :],
    "branch": lambda x, k: x if k > 1 else x[1:],
}
NUMPYS = FUNCTIONS | {
    "backwards": lambda x, k: x[k + 1 :: -1],
    "from the end": lambda x, k: x[: k.astype(np.int64) - 5],
    "roll": lambda x, k: np.roll(x, k, 1),
    "take": lambda x, k: np.take(x, k, 0),
    "repeat": lambda x, k: np.repeat(x, k, 0),
    "pad": lambda x, k: np.pad(x, ((k, 0), (0, 0))),
    "ufunc": lambda x, k: x[np.minimum(k, 3) :],
}
TORCHS = FUNCTIONS | {
    "from the end": lambda x, k: x[: k - 5],
    "roll": lambda x, k: torch.roll(x, k, 1),
    "narrow": lambda x, k: torch.narrow(x, 0, k, 2),
    "method": lambda x, k: x.narrow(1, k, 3),
    "select": lambda x, k: x.select(0, k),
}


INTEGERS = ("int8", "uint8", "int16", "int32", "uint32", "int64")


@pytest.mark.filterwarnings("ignore:.* runs without a trace")
@pytest.mark.parametrize(
    "name, dtype",
    # NumPy 2.1 itself does not roll by unsigned integers.
    [(name, dtype) for name in NUMPYS for dtype in INTEGERS if (name, dtype[0]) != ("roll", "u")],
)
def test_numpys_integers(name, dtype):
    function = NUMPYS[name]
    fused = dml.fuse(function)
    for number in (2, 0, 3, 1, 4, 2, 1):
        k = np.array(number, dtype)
        np.testing.assert_array_equal(fused(X, k), function(X, k), strict=True)


@pytest.mark.filterwarnings("ignore:.* runs without a trace")
@pytest.mark.parametrize("name", TORCHS)
@pytest.mark.parametrize("dtype", [torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_torchs_integers(name, dtype):
    function = TORCHS[name]
    fused = dml.fuse(function)
    for number in (2, 0, 3, 1, 4, 2, 1):
        k = torch.tensor(number, dtype=dtype)
        assert torch.equal(fused(T, k), function(T, k))


def test_lists_dicts_and_keywords_share_a_trace():
    def crops(images, tops, *, where):
        return np.stack([x[y : y + 2, z : z + 3] for x, y, z in zip(images, tops, where["left"], strict=True)])

    fused, rng = dml.fuse(crops), np.random.default_rng(1)
    for _ in range(12):
        images = [X + n for n in range(4)]
        tops, left = ([np.array(n) for n in rng.integers(0, 5, 4)] for _ in range(2))
        found = fused(images, tops, where={"left": left})
        np.testing.assert_array_equal(found, crops(images, tops, where={"left": left}))
    assert fused.counts.traces <= 2
    assert fused.counts.unfused == 0
    assert "moves" in fused.explain(images, tops, where={"left": left})


def test_an_array_that_is_only_moved_stays_one():
    fused = dml.fuse(lambda x, k: np.stack([x[0], k]))
    assert fused(np.array([5, 6]), np.array(7)).tolist() == [5, 7]


def test_pytorchs_masks_are_no_numbers():
    with pytest.raises(dml.FuseError, match="index"):
        dml.fuse(lambda x, k: x[k:])(T, torch.tensor(2, dtype=torch.uint8))


def test_without_other_arrays_it_is_refused():
    with warnings.catch_warnings(), pytest.raises(dml.FuseError, match="does not compute"):
        dml.fuse(lambda k: k + 1)(np.array(3))


def test_numbers_are_out_of_range_as_everywhere():
    with pytest.raises(IndexError):
        dml.fuse(lambda x, k: x[k + 1])(X, np.array(5))
