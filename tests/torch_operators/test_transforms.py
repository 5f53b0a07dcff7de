"""torch.func and forward mode: the functions of anydml.torch against PyTorch's own operators."""

import pytest
import torch
from torch.autograd import forward_ad
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torch_cases import CASES, data_of, leaves, same, with_data

import anydml.torch as at
from anydml.torch.transforms import call

# PyTorch's own, when its forward mode is first entered.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")


def of_data(case, function):
    """A function of the data tensors alone that gives the floating results."""
    arguments = case.make()

    def call(*tensors):
        given = iter(tensors)
        return tuple(x for x in leaves(function(*with_data(arguments, lambda _: next(given)))) if x.is_floating_point())

    return call, data_of(arguments)


def both(case):
    """Ours, PyTorch's, and the tensors to call them with."""
    ours, data = of_data(case, lambda *arguments: of_anydml(case.name, *arguments))
    return ours, of_data(case, case.expected)[0], data


def of_anydml(name, *arguments):
    if name == "lay_into_zeros":
        # The gradient of slice1, under which it is called.
        return call(name, *arguments)
    if name == "gather" and len(arguments) == 4:
        return at.gather(*arguments[:3], out_of_range=arguments[3])
    return getattr(at, name)(*arguments)


def curved(call):
    """One number, whose second and third derivatives are not 0."""
    return lambda *tensors: sum((result.sin() * result).sum() for result in call(*tensors))


def batch(data):
    return [torch.stack([tensor, tensor + 1, tensor * 2]) for tensor in data]


def every(data):
    return tuple(range(len(data)))


TRANSFORMS = {
    "grad": lambda f, data: grad(curved(f), every(data))(*data),
    "grad of one": lambda f, data: grad(curved(f), len(data) - 1)(*data),
    "grad of grad": lambda f, data: grad(
        lambda *t: sum(g.sin().sum() for g in grad(curved(f), every(data))(*t)), every(data)
    )(*data),
    "vjp": lambda f, data: vjp(f, *data)[1](tuple(result.cos() for result in f(*data))),
    "jvp": lambda f, data: jvp(f, tuple(data), tuple(tensor.cos() for tensor in data)),
    "jacrev": lambda f, data: jacrev(f, every(data))(*data),
    "jacfwd": lambda f, data: jacfwd(f, every(data))(*data),
    "jacfwd of one": lambda f, data: jacfwd(f, len(data) - 1)(*data),
    "hessian": lambda f, data: hessian(curved(f), every(data))(*data),
    "jacfwd of jacfwd": lambda f, data: jacfwd(jacfwd(curved(f), every(data)), every(data))(*data),
    "jacrev of jacfwd": lambda f, data: jacrev(jacfwd(curved(f), every(data)), every(data))(*data),
    "vmap": lambda f, data: vmap(f)(*batch(data)),
    "vmap of vmap": lambda f, data: vmap(vmap(f))(*batch(batch(data))),
    "vmap of grad": lambda f, data: vmap(grad(curved(f), every(data)))(*batch(data)),
    "grad of vmap": lambda f, data: grad(lambda *t: vmap(curved(f))(*t).sum(), every(data))(*batch(data)),
    "vmap of jvp": lambda f, data: vmap(lambda *t: jvp(f, t, tuple(x.cos() for x in t)))(*batch(data)),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_transforms(case, transform):
    ours, expected, data = both(case)
    found, wanted = leaves(transform(ours, data)), leaves(transform(expected, data))
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_dual_numbers(case):
    results = []
    for function in both(case)[:2]:
        with forward_ad.dual_level():
            data = [forward_ad.make_dual(tensor, tensor.cos()) for tensor in both(case)[2]]
            results.append([part for result in function(*data) for part in forward_ad.unpack_dual(result)])
    same(*results)


def test_dual_numbers_that_require_grad():
    x = torch.arange(4.0, requires_grad=True)
    with forward_ad.dual_level():
        dual = at.gather(forward_ad.make_dual(x, x.detach() + 1), [3, 3, 0])
        value, tangent = forward_ad.unpack_dual(dual)
        assert tangent.tolist() == [4, 4, 1]
        value.sum().backward()
    assert x.grad.tolist() == [1, 0, 0, 2]


def test_batched_indices_under_grad():
    x, indices = torch.randn(4, 3, dtype=torch.float64), torch.tensor([[0, 0], [2, -1], [9, 1]])

    def loss(gather):
        return lambda x, i: (gather(x, i) ** 2).sum()

    found = vmap(grad(loss(at.gather)), in_dims=(None, 0))(x, indices)
    wanted = vmap(grad(loss(lambda x, i: x.index_select(0, i))), in_dims=(None, 0))(x, indices.clamp(-1, 3) % 4)
    torch.testing.assert_close(found, wanted)


def test_gradients_of_each_sample_of_a_model():
    class Model(torch.nn.Module):
        def __init__(self, library):
            super().__init__()
            self.linear = torch.nn.Linear(6, 6, dtype=torch.float64)
            self.library = library

        def forward(self, x):
            a, b = self.library.split(self.linear(x), [2, 4])
            return self.library.join([b, a]).sin().sum()

    class Own:
        split, join = staticmethod(torch.split), staticmethod(torch.cat)

    model, own = Model(at), Model(Own)
    own.load_state_dict(model.state_dict())
    parameters, rows = dict(model.named_parameters()), torch.randn(5, 6, dtype=torch.float64)
    found, wanted = (
        vmap(grad(lambda p, row, m=m: functional_call(m, p, (row,))), in_dims=(None, 0))(parameters, rows)
        for m in (model, own)
    )
    for name in parameters:
        torch.testing.assert_close(found[name], wanted[name])


def test_what_is_no_number_has_no_gradient():
    def total(x):
        joined, lengths = at.concat_training([x, x[:1]])
        return (joined * lengths[0]).sum()

    assert grad(total)(torch.ones(3)).tolist() == [6, 3, 3]


def test_rules_are_the_same():
    from anydml import DescError

    with pytest.raises(DescError, match="add up to 3, but axis 0 has size 4"):
        grad(lambda x: at.split(x, [1, 2])[0].sum())(torch.zeros(4))
    with pytest.raises(DescError, match="axis is 2"):
        vmap(lambda x: at.split(x, [4], 2)[0])(torch.zeros(0, 3, 4))


def test_a_batch_without_samples():
    parts = vmap(lambda x: tuple(at.split(x, [1, 3], -1)))(torch.zeros(0, 2, 4))
    assert [part.shape for part in parts] == [(0, 2, 1), (0, 2, 3)]
    assert vmap(lambda x: at.join([x, torch.zeros(1, 4)]))(torch.zeros(0, 2, 4)).shape == (0, 3, 4)
