"""Gradients: numeric ones (gradcheck, gradgradcheck), and autograd through PyTorch's own operators."""

import pytest
import torch
from torch_cases import CASES, leaves, of_data, same

import anydml.torch as at

every_case = pytest.mark.parametrize("case", CASES, ids=str)


@every_case
def test_numeric_gradients(case):
    call, data = of_data(case, case.make(requires_grad=True))
    assert torch.autograd.gradcheck(call, data)
    assert torch.autograd.gradgradcheck(call, data)


@every_case
def test_gradients_are_those_of_pytorchs_own_operators(case):
    for is_last_only in (False, True):
        grads = []
        for function in (case.operator, case.expected):
            arguments = case.make(requires_grad=True)
            results = [leaf for leaf in leaves(function(*arguments)) if leaf.is_floating_point()]
            weighted = [(result * torch.arange(result.numel()).reshape(result.shape)).sum() for result in results]
            sum(weighted[-1:] if is_last_only else weighted).backward()
            grads.append([tensor.grad for tensor in leaves(arguments[0])])
        same(*grads)


def test_repeated_and_clamped_indices_add_up():
    x = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([1.0, 10, 100, 1000, 10000, 100000])
    (at.gather(x, [1, 1, -1, 99, -99, -4], out_of_range="clamp") * weights).sum().backward()
    assert x.grad.tolist() == [110000, 11, 0, 1100]


def test_unsigned_indices_add_up_too():
    x = torch.zeros(3, requires_grad=True)
    indices = torch.tensor([2**64 - 1, 2**63, 1], dtype=torch.uint64)
    at.gather(x, indices, out_of_range="clamp").sum().backward()
    assert x.grad.tolist() == [0, 1, 2]


def test_no_indices_have_no_gradient():
    x = torch.zeros(2, 0, requires_grad=True)
    at.gather(x, torch.zeros(0, dtype=torch.int64), 1).sum().backward()
    assert x.grad.shape == (2, 0)


def test_split_and_join_undo_each_other():
    x = torch.randn(3, 6, requires_grad=True)
    (at.join(at.split(x, [1, 2, 3], 1)[::-1], 1) * torch.arange(6.0)).sum().backward()
    assert x.grad[0].tolist() == [5, 3, 4, 0, 1, 2]


def test_results_need_gradients_only_where_inputs_do():
    x = torch.zeros(4)
    assert not any(part.requires_grad for part in at.split(x, 2))
    joined, lengths = at.concat_training([x, x.clone().requires_grad_()])
    assert joined.requires_grad
    assert not lengths.requires_grad
    with torch.no_grad():
        assert not at.join([x.clone().requires_grad_()]).requires_grad
