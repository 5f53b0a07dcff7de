"""`copy` of views of every kind, against NumPy and PyTorch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import anydml as dml

SHAPES = hnp.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=9)
DTYPES = st.sampled_from(["u1", "f2", "<i4", ">i4", "f8", "c16", "V3", "U5", "M8[s]", "?"])


@given(st.data(), SHAPES, DTYPES)
def test_any_view(data, shape, dtype):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    whole = np.zeros(shape, dtype) if dtype == "U5" else np.arange(size, dtype=np.uint8).view(dtype).reshape(shape)
    x = whole.transpose(data.draw(st.permutations(range(whole.ndim))))
    x = x[(..., *(slice(None, None, data.draw(st.sampled_from([1, -1, 2]))) for _ in x.shape))]
    result = dml.copy(x)
    assert result.flags.c_contiguous
    assert result.dtype == x.dtype
    assert result.tobytes() == x.tobytes()
    assert not np.shares_memory(result, x)
    out = np.zeros_like(result).T.copy().T
    assert dml.copy(x, out) is out
    assert out.tobytes() == x.tobytes()


def test_large_views():
    x = np.random.default_rng(0).integers(0, 255, (300, 70, 110), np.uint8)
    for view in (x.T, x[::-1, :, ::2].transpose(1, 0, 2), np.broadcast_to(x[:1], x.shape).T, x.transpose(0, 2, 1)):
        assert dml.copy(view).tobytes() == view.tobytes()


def test_objects_and_lists():
    x = np.array([["a", 1], [None, 2.5]], object)
    assert dml.copy(x.T).tolist() == [["a", None], [1, 2.5]]
    assert dml.copy([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]


def test_an_output_that_does_not_fit_or_overlaps():
    x = np.zeros((4, 5))
    with pytest.raises(dml.BindingError, match=r"copy: out is float64 \(5, 4\), but the result is float64 \(4, 5\)"):
        dml.copy(x, np.zeros((5, 4)))
    square = np.zeros((4, 4))
    with pytest.raises(dml.BindingError, match="copy: out overlaps x"):
        dml.copy(square.T, square)


def test_tensors():
    torch = pytest.importorskip("torch")
    x = torch.arange(2 * 30 * 40 * 50, dtype=torch.bfloat16).reshape(2, 30, 40, 50).permute(3, 0, 2, 1)
    result = dml.copy(x)
    assert result.is_contiguous()
    assert torch.equal(result, x)
