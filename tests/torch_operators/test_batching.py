"""torch.vmap against a loop over the samples."""

from functools import partial

import pytest
import torch
from torch_cases import CASES, of_data, same

import anydml
import anydml.torch as at
from anydml.torch.transforms import call

BATCH = 3


@pytest.mark.parametrize("where", [0, -1], ids=["in front", "at the end"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_data_in_batches(case, where):
    call, data = of_data(case, case.make())
    samples = [[tensor + n for tensor in data] for n in range(BATCH)]

    batches = [torch.stack(tensors, where) for tensors in zip(*samples, strict=True)]
    result = torch.vmap(call, in_dims=where)(*batches)
    expected = [torch.stack(tensors) for tensors in zip(*(call(*sample) for sample in samples), strict=True)]
    same(result, expected)


@pytest.mark.parametrize("name", ["join", "concat_training"])
def test_what_is_not_batched_is_repeated(name):
    x, y = torch.arange(12.0).reshape(3, 4), torch.arange(2.0)
    operator = getattr(torch.ops.anydml, name)

    def joined(row):
        result = operator([row, y])
        return result if name == "join" else result[0]

    same(torch.vmap(joined)(x), torch.stack([torch.cat([row, y]) for row in x]))


def test_lengths_are_the_same_for_all():
    _, lengths = torch.vmap(lambda row: at.concat_training([row, row[:1]]), out_dims=(0, None))(torch.zeros(3, 4))
    assert lengths.tolist() == [4, 1]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_indices_in_batches(axis):
    x = torch.arange(24.0).reshape(2, 3, 4)
    indices = torch.tensor([[[0, -1], [9, 1]], [[1, 1], [-9, 0]], [[2, 0], [0, 2]]])
    clamping = partial(at.gather, out_of_range="clamp")
    expected = torch.stack([torch.ops.anydml.gather(x, one, axis, "clamp") for one in indices])
    result = torch.vmap(lambda one: clamping(x, one, axis))(indices)
    same(result.contiguous(), expected)
    both = torch.stack([x, x + 100, x + 200])
    expected = torch.stack([torch.ops.anydml.gather(*pair, axis, "clamp") for pair in zip(both, indices, strict=True)])
    same(torch.vmap(lambda x, one: clamping(x, one, axis))(both, indices).contiguous(), expected)
    last = both.movedim(0, -1)
    same(torch.vmap(lambda x, one: clamping(x, one, axis), in_dims=(-1, 0))(last, indices).contiguous(), expected)


def test_a_batch_of_bad_indices_is_an_error():
    call = torch.vmap(at.gather)
    same(call(torch.arange(6.0).reshape(2, 3), torch.tensor([[2], [-3]])), torch.tensor([[2.0], [3.0]]))
    with pytest.raises(IndexError, match="gather: index 3 in indices is out of range for an axis of size 3"):
        call(torch.arange(6.0).reshape(2, 3), torch.tensor([[2], [3]]))


def test_sizes_cannot_be_batched():
    with pytest.raises(ValueError, match=r"split_training: split is batched by vmap"):
        torch.vmap(at.split_training)(torch.zeros(2, 3), torch.tensor([[1, 2], [2, 1]]))


# PyTorch's own, when its forward mode is first entered.
@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_what_is_filled_has_neither_batch_nor_tangent():
    x, tangent = torch.randn(3, 2), torch.randn(3, 2)
    expected = torch.nn.functional.pad(x, [1, 2], value=7)
    same(torch.vmap(lambda row: at.pad(row, [1, 2], value=7))(x), expected)
    value, found = torch.func.jvp(lambda x: at.pad(x, [0, 1, 0, 2], value=7), (x,), (tangent,))
    same([value, found], [expected, torch.nn.functional.pad(tangent, [1, 2])])


def test_indices_in_batches_of_any_function():
    x = torch.arange(12.0).reshape(4, 3)
    indices = torch.tensor([[[0, 1, 2]], [[3, 3, 0]]])
    expected = torch.stack([x.gather(0, one) for one in indices])
    same(torch.vmap(lambda one: at.gather_elements(x, one))(indices), expected)
    both = torch.stack([x, x + 100])
    expected = torch.stack([one.gather(0, i) for one, i in zip(both, indices, strict=True)])
    same(torch.vmap(at.gather_elements)(both, indices), expected)


def put(x, indices, columns):
    """Replace columns by index, one after the other."""
    result = x.clone()
    for k, index in enumerate(indices):
        result[:, index] = columns[:, k]
    return result


def reversed_first(x, lengths):
    """Reverse the first elements of each row, by numbers that count from the end if negative."""
    ends = [n if n >= 0 else x.shape[1] + 1 + n for n in lengths.tolist()]
    return torch.stack([torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(x, ends, strict=True)])


def encoded(x, indices):
    """One-hot rows of three elements."""
    return torch.where(indices[:, None] % 3 == torch.arange(3), x[0, 1], x[0, 0])


SELECTING = [
    (lambda x, i: at.gather(x, i, -1), lambda x, i: x[..., i]),
    (at.gather, lambda x, i: x[i]),
    (lambda x, i: at.gather_elements(x, i.expand(3, 2), 1), lambda x, i: x[torch.arange(3)[:, None], i]),
    (at.gather_nd, lambda x, i: x[i[0], i[1]]),
    (lambda x, i: at.gather_nd(x, i.expand(3, 2)[:, :1], 1), lambda x, i: x[:, i[0]]),
    (lambda x, i: at.gather_nd(x, i * 99, out_of_range="clamp"), lambda x, i: x[(i[0] > 0) * 2, (i[1] > 0) * 2]),
    (lambda x, i: at.scatter(x, i.expand(3, 2), x[:, 1:], 1), lambda x, i: put(x, i, x[:, 1:])),
    (
        lambda x, i: at.scatter(x, i.expand(3, 2) * 5, x[:, 1:], -1, out_of_range="skip"),
        lambda x, i: put(x, i[i == 0], x[:, 1:][:, i == 0]),
    ),
    (lambda x, i: at.scatter_nd(x, i, x[0, 0] + 7), lambda x, i: x.index_put((i[0], i[1]), x[0, 0] + 7)),
    (lambda x, i: at.scatter_nd(x, i[:, None], x[1:]), lambda x, i: put(x.T, i, x[1:].T).T),
    (
        lambda x, i: at.scatter_nd(x, i[:, None] * 5, x[1:], out_of_range="skip"),
        lambda x, i: put(x.T, i[i == 0], x[1:].T[:, i == 0]).T,
    ),
    (lambda x, i: at.scatter_nd(x, i[:, None][:, :0], x.expand(2, 3, 3) + i[:, None, None]), lambda x, i: x + i[1]),
    (lambda x, i: at.one_hot(i, x[0, :2], 3), encoded),
    (lambda x, i: at.one_hot(i, x[0, :2], 3, 0), lambda x, i: encoded(x, i).T),
    (lambda x, i: at.reverse_subsequences(x[:2], i[:, None]), lambda x, i: reversed_first(x[:2], i)),
    (lambda x, i: at.where(i == i[:1], x[:1, :2], x[:, :1]), lambda x, i: torch.where(i == i[:1], x[:1, :2], x[:, :1])),
    (lambda x, i: at.where(x > 5, i[:1], i[1]), lambda x, i: torch.where(x > 5, i[:1], i[1])),
]


@pytest.mark.parametrize(("call", "expected"), SELECTING)
def test_selectors_in_batches(call, expected):
    x = torch.arange(45).reshape(5, 3, 3)
    indices = torch.tensor([[0, 2], [-1, 1], [2, 2], [1, -3], [0, 0]])
    for in_dims, data in (((0, 0), x), ((2, 0), x.movedim(0, 2)), ((None, 0), x[1]), ((0, None), x)):
        ours = torch.vmap(call, in_dims)(data, indices[3] if in_dims[1] is None else indices)
        samples = [x[1] if in_dims[0] is None else x[k] for k in range(5)]
        theirs = [expected(sample, indices[3 if in_dims[1] is None else k]) for k, sample in enumerate(samples)]
        same(ours.contiguous(), torch.stack(theirs))


def test_batches_of_selectors_cost_one_call_of_their_size(monkeypatch):
    from anydml.torch import batching, gather_gradient

    results = []

    def recorded(name, *arguments):
        results.append(call(name, *arguments))
        return results[-1]

    for module in (batching, gather_gradient):
        monkeypatch.setattr(module, "call", recorded)
    x, indices, values = torch.randn(100, 8), torch.randint(-8, 8, (100, 4)), torch.tensor([0, 1])
    for function, size in (
        (at.gather, 4),
        (at.gather_elements, 4),
        (lambda x, i: at.gather_nd(x, i[:, None]), 4),
        (lambda x, i: at.scatter(x, i, x[:4]), 8),
        (lambda x, i: at.scatter_nd(x, i[:, None], x[:4]), 8),
        (lambda x, i: at.one_hot(i, values, 9, out_of_range="skip"), 36),
        (lambda x, i: at.one_hot(i, x[:2], 9, out_of_range="skip"), 36),
        (lambda x, i: at.reverse_subsequences(x, i[:1]), 8),
    ):
        results.clear()
        torch.vmap(function)(x, indices)
        assert 1 <= len(results) <= 2
        assert all(result.numel() == 100 * size for result in results)
    with pytest.raises(anydml.DescError, match="batch_dims is -1"):
        torch.vmap(lambda x, i: at.gather_nd(x, i[:, None], -1))(x, indices)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.uint64])
def test_coordinates_of_more_samples_than_their_type_holds(dtype):
    x, indices = torch.zeros(300, 4), torch.arange(300) % 4
    result = torch.vmap(at.scatter_nd)(x, indices[:, None].to(dtype), torch.arange(300.0))
    same(result, torch.arange(300.0)[:, None] * torch.nn.functional.one_hot(indices, 4))


def test_batched_updates_of_one_tensor():
    x, updates = torch.zeros(4, 2), torch.randn(3, 1, 2)
    indices = torch.tensor([[2, 0]])
    expected = torch.stack([x.scatter(0, indices, one) for one in updates])
    same(torch.vmap(lambda one: at.scatter(x, indices, one))(updates), expected)
