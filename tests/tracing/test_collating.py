"""What collate functions do beside moves: PyTorch's `default_collate`, and conversions of arrays to tensors."""

import re

import numpy as np
import pytest

import anydml as dml

torch = pytest.importorskip("torch")
data = pytest.importorskip("torch.utils.data")

X = torch.arange(6.0)

ITEMS = {
    "tensor": lambda k: X + k,
    "tuple": lambda k: (X + k, k),
    "list": lambda k: [X[: k % 1 + 2] + k, [X, k]],
    "dict": lambda k: {"x": X + k, "y": k, "name": str(k)},
    "nested": lambda k: {"x": (X + k, {"z": X.reshape(2, 3) * k}), "y": k / 2},
    "numbers of NumPy": lambda k: (X, np.int64(k), np.float32(k)),
    "bools": lambda k: (X, k > 3),
    "no dimensions": torch.tensor,
    "other lengths": lambda k: X[: k % 2 + 2],
}

WAYS = {
    "itself": lambda: data.default_collate,
    "by name": lambda: lambda batch: [data.default_collate(batch)][0],
    "of a list": lambda: lambda batch: data.default_collate([*batch]),
    "its module": lambda: lambda batch: [torch.utils.data.default_collate(batch)][0],
    "held": lambda: lambda batch, held=(data.default_collate,): held[0](batch),
}


def check_same(found, expected):
    """Check that two structures have the same types and elements."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert [*found] == [*expected]
        found, expected = [*found.values()], [*expected.values()]
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for each in zip(found, expected, strict=True):
            check_same(*each)
    elif isinstance(expected, torch.Tensor):
        assert found.dtype == expected.dtype
        assert torch.equal(found, expected)
    else:
        assert found == expected


@pytest.mark.filterwarnings("ignore:.*runs without a trace")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("item", ITEMS)
def test_default_collate(item, way):
    collate = WAYS[way]()
    fused = dml.fuse(collate)
    for numbers in ([1, 5], [2, 3, 4], [3, 4], [7], [5, 6]):
        batch = [ITEMS[item](k) for k in numbers]
        if item == "other lengths" and len(numbers) > 1 and len({len(x) for x in batch}) > 1:
            with pytest.raises(dml.FuseError, match="shapes must be equal"):
                fused(batch)
        else:
            check_same(fused(batch), data.default_collate(batch))


@pytest.mark.parametrize("way", WAYS)
def test_default_collate_of_numpys_arrays_is_refused(way):
    for batch in ([np.arange(3), np.arange(3)], [{"x": np.arange(3), "y": 1}] * 2):
        with pytest.raises(dml.FuseError, match="default_collate of NumPy arrays: pass tensors"):
            dml.fuse(WAYS[way]())(batch)


class Samples(data.Dataset):
    """Tensors with labels."""

    def __len__(self):
        return 10

    def __getitem__(self, k):
        return {"x": X + k, "y": k}


@pytest.mark.filterwarnings("ignore:.*runs without a trace")
def test_default_collate_in_workers():
    collate = dml.fuse(data.default_collate)
    found = [*data.DataLoader(Samples(), 4, collate_fn=collate, num_workers=2)]
    check_same(found, [*data.DataLoader(Samples(), 4)])


CONVERTERS = ["tensor", "as_tensor", "asarray"]


@pytest.mark.filterwarnings("ignore:To copy construct from a tensor")
@pytest.mark.parametrize("name", CONVERTERS)
def test_tensors_may_be_converted_to_tensors(name):
    convert = getattr(torch, name)
    for function in (
        lambda x: convert(x)[1:],
        lambda x: convert(x, dtype=torch.float32),
        lambda x: convert(x.T, device="cpu"),
        lambda x: (x, convert([1, 2])),
        lambda x: x[convert([len(x) - 1, 0])],
        lambda x: x if any(convert is each for each in (torch.tensor, torch.as_tensor, torch.asarray)) else x[1:],
    ):
        fused = dml.fuse(function)
        for x in (X.reshape(2, 3), X.reshape(3, 2)):
            check_same(fused(x), function(x))
    with pytest.raises(dml.FuseError, match=r"torch\.float64: anydml moves"):
        dml.fuse(lambda x: convert(x, dtype=torch.float64))(X)
    with pytest.raises(dml.FuseError, match=rf"torch\.{name} of a traced .* call torch\.stack"):
        dml.fuse(lambda x: convert([x, x]))(X)


def test_tensors_without_dimensions_are_numbers_in_lists():
    def collate(batch):
        return torch.stack([x for x, _ in batch]), torch.tensor([y for _, y in batch])

    fused = dml.fuse(collate)
    for labels in ([1, 2], [3, 4], [5]):
        batch = [(X + y, torch.tensor(y)) for y in labels]
        check_same(fused(batch), collate(batch))


class Holder:
    """Methods that make tensors of arrays."""

    def from_numpy(self, x):
        return torch.from_numpy(x)

    def as_tensor(self, x):
        return torch.as_tensor(x)

    def old_class(self, x):
        return torch.FloatTensor(x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.tensor(x)[1:],
        lambda x: torch.as_tensor(x)[1:],
        lambda x: torch.asarray(x)[1:],
        lambda x: torch.from_numpy(x)[1:],
        lambda x: torch.stack([torch.from_numpy(row) for row in x]),
        lambda x: torch.Tensor(x)[1:],
        lambda x: torch.FloatTensor(x)[1:],
        lambda x: Holder().from_numpy(x),
        lambda x: Holder().as_tensor(x),
        lambda x: Holder().old_class(x),
    ],
)
def test_numpys_arrays_become_tensors_outside(function):
    fused = dml.fuse(function)
    for x in (np.arange(6.0).reshape(2, 3), np.arange(3)):
        with pytest.raises(dml.FuseError) as caught:
            fused(x)
        assert re.search(rf"{__file__}:\d+", str(caught.value))
        assert re.search(r"pass tensors, or convert|call it outside the fused function", str(caught.value))


def test_len_of_an_array_without_dimensions_is_a_type_error():
    def function(x, y):
        try:
            return x[: len(y)]
        except TypeError:
            return x[1:]

    fused = dml.fuse(function)
    assert fused(np.arange(3), np.array(1.5)).tolist() == [1, 2]
    with pytest.raises(TypeError, match="which has no length"):
        dml.fuse(lambda x: x[: len(x[0])])(np.arange(3))


def _filled_through(convert):
    def function(x):
        whole = torch.zeros(4)
        part = convert(whole)
        part[:2] = x[:2]
        return whole

    return function


@pytest.mark.filterwarnings("ignore:To copy construct")
@pytest.mark.parametrize(
    "convert",
    [
        torch.as_tensor,
        torch.asarray,
        torch.tensor,
        lambda x: torch.tensor(x, dtype=torch.float32),
        lambda x: torch.tensor(x, device="cpu"),
        lambda x: torch.as_tensor(x, dtype=torch.float32),
        lambda x: torch.asarray(x, dtype=torch.float32, copy=True),
        lambda x: torch.asarray(obj=x),
        lambda x: torch.as_tensor(x[1:]),
    ],
)
def test_conversions_copy_or_share_memory_as_pytorchs(convert):
    function = _filled_through(convert)
    assert dml.fuse(function)(X).tolist() == function(X).tolist()


@pytest.mark.parametrize("option", ["requires_grad", "pin_memory"])
def test_results_that_a_trace_cannot_give_are_refused(option):
    with pytest.raises(dml.FuseError, match=rf"torch\.tensor with {option}"):
        dml.fuse(lambda x: torch.tensor(x, **{option: True}))(X)


@pytest.mark.parametrize(
    "convert",
    [
        lambda x: torch.as_tensor(x, torch.float32),
        lambda x: torch.tensor(x, dtypes=torch.float32),
        lambda x: torch.asarray(x, obj=x),
        torch.from_numpy,
    ],
)
def test_arguments_that_pytorch_refuses_are_refused(convert):
    with pytest.raises(TypeError) as expected:
        convert(X)
    with pytest.raises(TypeError, match=re.escape(str(expected.value).splitlines()[0])):
        dml.fuse(lambda xs: [convert(x) for x in xs])([X])
