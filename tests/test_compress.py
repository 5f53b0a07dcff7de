"""`compress` selects what NumPy's and PyTorch's masks select."""

import threading

import numpy as np
import pytest
from function_cases import array
from hypothesis import given, settings
from hypothesis import strategies as st

import anydml as dml

DTYPES = ["?", "i1", "f2", "f4", "f8", "c16", "S3", "S5", "S11", "S31", "S33", "S100", "O", "i4,i8"]


@st.composite
def cases(draw):
    """An array of any layout, a condition of its shape, and an axis."""
    rank = draw(st.integers(1, 3))
    most = draw(st.sampled_from([3, 40, 200])) if rank < 3 else 12
    shape = draw(st.lists(st.integers(0, most), min_size=rank, max_size=rank))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    x = array(rng, tuple(shape), np.dtype(draw(st.sampled_from(DTYPES))))
    layout = draw(st.sampled_from(["packed", "transposed", "stepped", "reversed", "repeated"]))
    if layout == "transposed":
        x = x.T
    elif layout == "stepped":
        x = np.repeat(x, 2, -1)[..., ::2]
    elif layout == "reversed":
        x = x[::-1]
    elif layout == "repeated":
        x = np.broadcast_to(x[..., :1], x.shape)
    condition = rng.random(x.shape) < draw(st.sampled_from([0, 0.03, 0.5, 0.97, 1]))
    if draw(st.booleans()):
        condition = np.asfortranarray(condition)
    return x, condition, draw(st.integers(0, rank - 1))


def same(found, expected):
    with np.errstate(invalid="ignore"):  # NumPy 2.1 warns of NaNs that it compares
        np.testing.assert_array_equal(found, expected, strict=True)
    assert found.flags.c_contiguous


@settings(max_examples=300, deadline=None)
@given(cases())
def test_masks_select_what_numpys_select(case):
    x, condition, axis = case
    same(dml.compress(condition, x), x[condition])
    same(dml.compress(condition.ravel(), x), np.compress(condition.ravel(), x))
    for rank in range(1, x.ndim + 1):
        mask = condition[(..., *(0,) * (x.ndim - rank))] if condition.size else np.zeros(x.shape[:rank], bool)
        same(dml.compress(mask, x, 0), x[mask])
    along = np.arange(x.shape[axis]) % 3 != 1
    same(dml.compress(along, x, axis), np.compress(along, x, axis))
    same(dml.compress(along, x, axis - x.ndim), np.compress(along, x, axis))


@settings(max_examples=50, deadline=None)
@given(cases())
def test_tensors_are_selected_as_pytorch_selects_them(case):
    torch = pytest.importorskip("torch")
    x, condition, axis = case
    if x.dtype.kind not in "?ifc":
        return
    tensor = torch.from_numpy(x.copy())
    mask = torch.from_numpy(condition.copy())
    same(dml.compress(mask, tensor).numpy(), tensor[mask].numpy())
    same(dml.compress(condition, tensor).numpy(), tensor[mask].numpy())
    along = torch.arange(x.shape[axis]) % 2 == 0
    expected = tensor[(slice(None),) * axis + (along,)].contiguous()
    same(dml.compress(along, tensor, axis).numpy(), expected.numpy())
    if tensor.ndim < 2:
        return
    words = torch.arange(tensor.numel(), dtype=torch.int16).reshape(tensor.shape).view(torch.bfloat16)
    assert torch.equal(dml.compress(mask.mT, words.mT).view(torch.int16), words.mT[mask.mT].view(torch.int16))


def test_conditions_are_whatever_is_not_zero():
    x = np.arange(6).reshape(2, 3)
    assert dml.compress([0, 2, -1], x, axis=1).tolist() == [[1, 2], [4, 5]]
    assert dml.compress([[0, 1.5, 0], [np.nan, 0, 0]], x).tolist() == [1, 3]
    assert dml.compress(np.array([2, 0], np.uint8), x, 0).tolist() == [[0, 1, 2]]
    assert dml.compress([True, False], [[1], [2]], 0).tolist() == [[1]]
    assert dml.compress(True, 5).tolist() == [5]
    assert dml.compress(False, np.float32(5)).shape == (0,)


def test_conditions_that_do_not_fit_are_refused():
    x = np.zeros((2, 3))
    for condition, axis in (([1, 0], None), ([1, 0], 1), (np.ones((2, 2)), 0), (np.ones((3, 1)), 1), (True, 0)):
        with pytest.raises(dml.DescError, match=r"compress: condition has shape \(.*\), but x has \(2, 3\)"):
            dml.compress(condition, x, axis)
    with pytest.raises(dml.DescError, match="compress: axis is 2"):
        dml.compress([1], x, 2)
    for given_as, other in ((None, x), (x, None), ("abc", x)):
        with pytest.raises(TypeError, match="compress: "):
            dml.compress(given_as, other)
    torch = pytest.importorskip("torch")
    with pytest.raises(dml.BindingError, match="compress: condition is a PyTorch tensor on cpu"):
        dml.compress(torch.ones(2, 3), x)
    with pytest.raises(dml.BindingError, match="compress: x is a PyTorch tensor that requires grad"):
        dml.compress(torch.ones(2) > 0, torch.ones(2, requires_grad=True))


def test_fused_functions_take_constant_conditions():
    x = np.arange(12.0).reshape(3, 4)
    mask = x % 3 > 0
    same(dml.fuse(lambda x: dml.compress(mask, x.T.T))(x), x[mask])
    same(dml.fuse(lambda x: dml.compress([1, 0, 1], x, 0))(x), x[[0, 2]])
    with pytest.raises(dml.FuseError, match="depend on elements"):
        dml.fuse(dml.compress)(mask, x)


def test_flags_that_change_meanwhile_write_nothing_outside():
    x = np.arange(1 << 18)
    condition = np.zeros(x.shape, bool)
    stop = threading.Event()

    def flicker():
        rng = np.random.default_rng(0)
        while not stop.is_set():
            condition[rng.integers(0, condition.size, 5000)] ^= True

    thread = threading.Thread(target=flicker)
    thread.start()
    try:
        for _ in range(200):
            found = dml.compress(condition, x)
            assert found.size <= x.size
            assert not found.size or (found.min() >= 0 and found.max() < x.size)
    finally:
        stop.set()
        thread.join()


def test_large_conditions_are_shared_between_threads():
    rng = np.random.default_rng(1)
    x = rng.random(3_000_000)
    condition = rng.random(x.shape) < 0.5
    same(dml.compress(condition, x), x[condition])
    grid = x.reshape(3000, 1000).T
    same(dml.compress(condition.reshape(1000, 3000), grid), grid[condition.reshape(1000, 3000)])
