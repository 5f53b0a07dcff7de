"""Integers, bools and masks that words take as arguments: as NumPy and PyTorch do, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anydml as dml

X = np.arange(12).reshape(3, 4)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.uint16, np.uint32, np.int64])
@pytest.mark.parametrize("is_argument", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        np.diagonal,
        np.diag,
        lambda x, k: np.diag(x[0], k),
        np.diagflat,
        lambda x, k: np.roll(x, k, 0),
        np.rot90,
        lambda x, k: np.repeat(x, k, 1),
        lambda x, k: np.rollaxis(x, 1, k),
        lambda x, k: x[k:],
    ],
)
def test_short_integers_are_integers(function: Callable[..., Any], is_argument: bool, kind: Any) -> None:
    for value in (0, 1, 2):
        number = kind(value)
        fused = dml.fuse(function if is_argument else lambda x, _, number=number: function(x, number))
        np.testing.assert_array_equal(fused(X, number), function(X, value))


def test_insert_refuses_positions_that_are_no_integers() -> None:
    with pytest.raises(dml.FuseError, match="float64, not integers"):
        dml.fuse(lambda x: np.insert(x, 1.0, 0, axis=0))(X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.insert(x, np.uint64(2**64 - 1), 7),
        lambda x: np.insert(x, np.array([2**64 - 1], np.uint64), 7),
        lambda x: np.insert(x, True, 7),
        lambda x: np.insert(x, np.False_, 7),
        lambda x: np.take(x, 2**70, mode="clip"),
        lambda x: np.take(x, -(2**70), mode="wrap"),
    ],
)
def test_what_numpy_refuses_is_refused(function: Callable[[Any], Any]) -> None:
    with pytest.raises((IndexError, ValueError, AttributeError, OverflowError)):
        function(X)
    with pytest.raises(dml.FuseError, match=r"index|positions|indices"):
        dml.fuse(function)(X)


torch = pytest.importorskip("torch")
T = torch.arange(12).reshape(3, 4)
BYTES = torch.tensor([1, 0, 1], dtype=torch.uint8)


def _assigned(key: Any, value: Any) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        copied = x.clone()
        copied[key] = value
        return copied

    return function


RAISING: dict[str, Callable[[Any], Any]] = {
    "bytes as a mask of a scalar": _assigned(BYTES, 5),
    "bytes as a mask of a tensor without dimensions": _assigned(BYTES, torch.tensor(5)),
    "bytes in a tuple": _assigned((BYTES, slice(None)), 5),
    "bytes of masked_fill": lambda x: x.masked_fill(torch.ones(3, 4, dtype=torch.uint8), 5),
    "bytes of masked_scatter": lambda x: x.masked_scatter(torch.ones(3, 4, dtype=torch.uint8), x),
    "a mask of another shape": lambda x: x.index_put((torch.tensor([True, False]),), torch.tensor(3)),
    "narrow by True": lambda x: torch.narrow(x, 0, True, 1),
    "narrow by a tensor of bools": lambda x: torch.narrow(x, 0, torch.tensor(True), 1),
    "narrow by a tensor with a dimension": lambda x: torch.narrow(x, 0, torch.tensor([1]), 1),
    "narrow to True": lambda x: x.narrow(0, 0, True),
    "unsqueeze at True": lambda x: x.unsqueeze(True),
    "chunk into True": lambda x: x.chunk(True)[0],
    "split by True": lambda x: x.split(True)[0],
    "flip along False": lambda x: x.flip(False),
    "reshape to True": lambda x: x.reshape(True, 12),
    "repeat by True": lambda x: x.repeat(True, 1),
    "pad by True": lambda x: torch.nn.functional.pad(x, (True, 0)),
    "diagonal at True": lambda x: x.diagonal(True),
    "tril at False": lambda x: x.tril(False),
    "diagonal at a float": lambda x: x.diagonal(1.0),
    "where with an integer that int32 does not hold": lambda x: torch.where(
        T > 4, x.new_zeros(3, 4, dtype=torch.int32), 2**31
    ),
    "where with an integer that uint8 does not hold": lambda x: torch.where(
        T > 4, x.new_zeros(3, 4, dtype=torch.uint8), -256
    ),
}


@pytest.mark.parametrize("name", RAISING)
def test_what_torch_refuses_is_refused(name: str) -> None:
    with pytest.raises((RuntimeError, TypeError, IndexError)):
        RAISING[name](T)
    with pytest.raises((dml.FuseError, TypeError, IndexError)):
        dml.fuse(RAISING[name])(T)


INDEXING: dict[str, Callable[[Any, Any], Any]] = {
    "take": lambda x, i: x.take(i),
    "take_along_dim": lambda x, i: x.take_along_dim(i[:, None], 0),
    "index_select": lambda x, i: x.index_select(0, i),
    "gather": lambda x, i: x.gather(0, i[:, None]),
    "index_fill": lambda x, i: x.index_fill(0, i, 7),
    "index_copy": lambda x, i: x.index_copy(0, i, x[:2]),
    "put": lambda x, i: x.put(i, x[0, :2]),
    "one_hot": lambda x, i: torch.nn.functional.one_hot(i, 3),
    "embedding": lambda x, i: torch.nn.functional.embedding(i, x),
    "brackets": lambda x, i: x[i],
}


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64, torch.bool])
@pytest.mark.parametrize("is_argument", [False, True])
@pytest.mark.parametrize("name", INDEXING)
def test_indices_have_dtypes_that_torch_takes(name: str, is_argument: bool, dtype: Any) -> None:
    function, indices = INDEXING[name], torch.tensor([1, 0]).to(dtype)
    fused = dml.fuse(function) if is_argument else lambda x, i: dml.fuse(lambda x: function(x, i))(x)
    try:
        expected = function(T, indices)
    except (RuntimeError, IndexError):
        with pytest.raises((dml.FuseError, RuntimeError, IndexError)):
            fused(T, indices)
    else:
        assert torch.equal(fused(T, indices), expected)


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
def test_bools_remain_values() -> None:
    flags = T > 4
    fused = dml.fuse(lambda x: (x.masked_fill(x, True), x.new_full((2,), False), torch.where(x, x, False)))
    for found, expected in zip(fused(flags), (flags, torch.zeros(2, dtype=torch.bool), flags), strict=True):
        assert torch.equal(found, expected)
    assert torch.equal(dml.fuse(_assigned(BYTES.bool(), 5))(T), _assigned(BYTES.bool(), 5)(T))
    # With a tensor of rows, PyTorch takes bytes as a mask.
    assert torch.equal(dml.fuse(_assigned(BYTES, T[:2] * 3))(T), _assigned(BYTES, T[:2] * 3)(T))
