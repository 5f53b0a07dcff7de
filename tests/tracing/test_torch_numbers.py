"""Numbers that PyTorch writes into tensors: a fused function converts them as PyTorch does, or both refuse them."""

import itertools

import numpy as np
import pytest

import anydml as dml

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402  # where there is PyTorch
from torch.nn.utils.rnn import pad_sequence  # noqa: E402

NAMES = ("uint8", "int8", "int64", "bool", "float16", "bfloat16", "float32", "complex64", "float8_e4m3fn")
NUMBERS = (-1, -1.0, 300, 1.5, 1e9, 1e39, True, 2**40, float("inf"), float("nan"), np.float64(1e9), np.int64(-1))


def assigned(x, number):
    y = torch.zeros_like(x)
    y[1:] = number
    return y


def filled(x, number):
    y = torch.zeros_like(x)
    y[1:].fill_(number)
    return y


FILLS = {
    "pad": lambda x, number: F.pad(x, (2, 1), value=number),
    "full_like": torch.full_like,
    "new_full": lambda x, number: x.new_full((2, 3), number),
    "fill": torch.fill,
    "index_fill": lambda x, number: x.index_fill(0, torch.tensor([0, 2]), number),
    "masked_fill": lambda x, number: x.masked_fill(torch.tensor([True, False, True]), number),
    "where": lambda x, number: torch.where(torch.tensor([True, False, True]), x, number),
    "pad_sequence": lambda x, number: pad_sequence([x, x[1:]], padding_value=number),
    "assigned": assigned,
    "filled": filled,
}


@pytest.mark.filterwarnings("ignore:.*overflow encountered")
@pytest.mark.parametrize("fill", FILLS)
def test_numbers_are_converted_or_refused_as_by_pytorch(fill):
    function = FILLS[fill]
    for name, number in itertools.product(NAMES, NUMBERS):
        x = torch.ones(3).to(getattr(torch, name))
        try:
            expected = function(x, number)
        except NotImplementedError:
            continue
        except Exception:
            with pytest.raises(Exception, match=r"\S"):
                dml.fuse(lambda x, number=number: function(x, number))(x)
            continue
        try:
            result = dml.fuse(lambda x, number=number: function(x, number))(x)
        except dml.FuseError:
            # Results of another dtype are computed, and `where` takes fewer numbers.
            assert expected.dtype != x.dtype or fill == "where"
            continue
        assert result.dtype == expected.dtype, (name, number)
        equal = torch.equal(result.contiguous().view(torch.uint8), expected.contiguous().view(torch.uint8))
        assert equal, (name, number, result, expected)


@pytest.mark.parametrize("padding_side", ["left", "right"])
@pytest.mark.parametrize("batch_first", [False, True])
def test_sequences_of_any_lengths_share_a_trace(batch_first, padding_side):
    fused = dml.fuse(lambda rows: pad_sequence(rows, batch_first, -2.0, padding_side))
    rng = np.random.default_rng(7)
    for _ in range(20):
        rows = [torch.from_numpy(rng.random((size, 3))) for size in rng.integers(0, 7, 5)]
        assert torch.equal(fused(rows), pad_sequence(rows, batch_first, -2.0, padding_side))
    assert fused.counts.traces == 1


@pytest.mark.parametrize(
    "rows",
    [[torch.tensor(1)], [torch.ones(2, 3), torch.ones(2, 4)], [torch.ones(2), torch.ones(2, dtype=torch.int32)]],
    ids=["no dimensions", "other sizes", "other dtypes"],
)
def test_sequences_that_do_not_fit_are_refused(rows):
    with pytest.raises(dml.FuseError, match=r"at least one dimension|shapes must be equal|one dtype"):
        dml.fuse(pad_sequence)(rows)


def test_a_side_that_there_is_not_is_refused():
    with pytest.raises(dml.FuseError, match="'left' or 'right'"):
        dml.fuse(lambda rows: pad_sequence(rows, padding_side="top"))([torch.ones(2)])


WRITES = {
    "fill_": lambda x: x.clone().fill_(3),
    "zero_": lambda x: x.clone().zero_(),
    "copy_": lambda x: x.clone().copy_(x.flip(0)),
}


@pytest.mark.parametrize("name", WRITES)
def test_methods_that_write_return_the_tensor(name):
    x = torch.arange(4)
    assert torch.equal(dml.fuse(WRITES[name])(x), WRITES[name](x))


def test_an_assigned_number_that_pytorch_refuses_is_refused():
    def function(x):
        y = x.clone()
        y[0] = 2**63
        return y

    with pytest.raises(dml.FuseError, match="in a tensor of uint8"):
        dml.fuse(function)(torch.arange(4, dtype=torch.uint8))
