"""torch.func and forward mode: the functions of anydml.torch against PyTorch's own operators."""

from functools import partial

import pytest
import torch
from function_cases import called
from torch.autograd import forward_ad
from torch.func import functional_call, functionalize, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from torch_cases import CASES, data_of, leaves, same, with_data

import anydml as dml
import anydml.torch as at
from anydml.torch.transforms import call

# PyTorch's own, when its forward mode is first entered.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit")


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
    return called(getattr(at, name), arguments)


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
    "functionalize": lambda f, data: functionalize(f)(*data),
    "functionalize of vmap": lambda f, data: functionalize(vmap(f))(*batch(data)),
    "vmap of jvp": lambda f, data: vmap(lambda *t: jvp(f, t, tuple(x.cos() for x in t)))(*batch(data)),
}


SINGLE = "grad", "jvp", "vmap"
FIRST = {case.name: case for case in reversed(CASES)}.values()


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name):
    """Those of several levels meet one case of each operator."""
    transform = TRANSFORMS[name]
    for case in CASES if name in SINGLE else FIRST:
        ours, expected, data = both(case)
        results, wanted = leaves(transform(ours, data)), leaves(transform(expected, data))
        assert len(results) == len(wanted), case
        for a, b in zip(results, wanted, strict=True):
            assert (a.dtype, a.shape) == (b.dtype, b.shape), case
            torch.testing.assert_close(a, b, msg=lambda text, case=case: f"{case}: {text}")


@pytest.mark.filterwarnings("ignore:Attempted to insert a get_attr Node")
@pytest.mark.parametrize("name", ["split", "join", "scatter"])
def test_linearized(name):
    """PyTorch records the kernels' calls, below autograd."""
    ours, expected, data = both(next(case for case in CASES if case.name == name))
    tangents = [tensor.cos() for tensor in data]
    results = linearize(ours, *data)[1](*tangents)
    for a, b in zip(leaves(results), leaves(jvp(expected, tuple(data), tuple(tangents))[1]), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_dual_numbers(case):
    results = []
    for function in both(case)[:2]:
        with forward_ad.dual_level():
            data = [forward_ad.make_dual(tensor, tensor.cos()) for tensor in both(case)[2]]
            results.append([part for result in function(*data) for part in forward_ad.unpack_dual(result)])
    same(*results)


FORWARD = {name: TRANSFORMS[name] for name in ("jvp", "jacfwd", "jacfwd of jacfwd", "vmap of jvp")}
"""What PyTorch allows of its registered operators."""


@pytest.mark.parametrize("name", FORWARD)
def test_registered_operators_carry_tangents(name):
    transform = FORWARD[name]
    for case in CASES if name in SINGLE else FIRST:
        expected, data = of_data(case, case.expected)
        wanted = leaves(transform(expected, data))
        for operator in case.operator, case.operator.default:
            results = leaves(transform(of_data(case, operator)[0], data))
            assert len(results) == len(wanted) > 0, case
            for a, b in zip(results, wanted, strict=True):
                torch.testing.assert_close(a, b, msg=lambda text, case=case: f"{case}: {text}")


# One of each kind of results and tensors: programs take seconds each.
@pytest.mark.parametrize("name", ["split", "join", "gather", "concat_training"])
def test_compiled_programs_carry_tangents(name):
    torch.compiler.reset()
    case = next(case for case in CASES if case.name == name)
    ours, data = of_data(case, case.operator)
    expected, _ = of_data(case, case.expected)
    compiled = torch.compile(lambda *data: TRANSFORMS["jvp"](ours, data), backend="aot_eager", fullgraph=True)
    same(leaves(compiled(*data)), leaves(TRANSFORMS["jvp"](expected, data)))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_registered_operators_of_dual_numbers(case):
    results = []
    for function in case.operator, case.expected:
        of_data_alone, data = of_data(case, function)
        with forward_ad.dual_level():
            duals = [forward_ad.make_dual(tensor, tensor.cos()) for tensor in data]
            results.append([part for result in of_data_alone(*duals) for part in forward_ad.unpack_dual(result)])
            if function is case.operator:
                with forward_ad._set_fwd_grad_enabled(False):
                    plain = [forward_ad.unpack_dual(result) for result in of_data_alone(*duals)]
    same(*results)
    same([result.primal for result in plain], results[0][::2])
    assert all(result.tangent is None for result in plain)


def test_one_of_several_has_a_tangent():
    x, y = torch.rand(3), torch.rand(2)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(y, torch.ones(2))
        value, tangent = forward_ad.unpack_dual(torch.ops.anydml.join([x, dual]))
        assert tangent.tolist() == [0, 0, 0, 1, 1]
        padded = forward_ad.unpack_dual(torch.ops.anydml.pad(dual, [1, 1], "constant", 7))
        assert padded.tangent.tolist() == [0, 1, 1, 0]
        assert padded.primal[0] == 7
    same(value, torch.cat([x, y]))


def test_gradients_of_tangents():
    x = torch.arange(4.0, dtype=torch.float64, requires_grad=True)
    with forward_ad.dual_level():
        dual = torch.ops.anydml.gather(forward_ad.make_dual(x.sin(), x.cos()), torch.tensor([3, 3, 0]))
        value, tangent = forward_ad.unpack_dual(dual)
        (value.sum() + tangent.sum()).backward()
    assert torch.allclose(x.grad, (x.cos() - x.sin()).detach() * torch.tensor([1, 0, 0, 2]))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_of_a_batch(case):
    ours, _, data = both(case)
    data = [tensor.clone().requires_grad_() for tensor in data]
    for result in filter(lambda result: result.requires_grad, ours(*data)):
        incoming = torch.stack([torch.ones_like(result), result.detach() + 1, torch.zeros_like(result)])
        gradients = partial(torch.autograd.grad, result, data, allow_unused=True, retain_graph=True)
        batched = gradients(incoming, is_grads_batched=True)
        for k, one in enumerate(incoming):
            for whole, wanted in zip(batched, gradients(one), strict=True):
                assert (whole is None) == (wanted is None)
                assert whole is None or torch.equal(whole[k], wanted)


def test_functions_on_arrays_refuse_tangents():
    x, out = torch.rand(4, 6), torch.zeros(6, 4)
    flip_twice = dml.fuse(lambda x: x.flip(0).flip(1))
    calls = {
        "permute_dims": lambda x: dml.permute_dims(x, (1, 0)),
        "split": lambda x: dml.split(x, 2, 1),
        "copy": dml.copy,
        "join": lambda x: dml.join([torch.zeros(4, 6), x]),
        "gather": lambda x: dml.gather(x, torch.tensor([1])),
        "fill by": lambda x: dml.pad(x, [1, 0, 1, 0]),
        "fuse": flip_twice,
        "out": lambda x: dml.copy(torch.zeros(4, 6), x),
        "out of a reading call": lambda x: dml.permute_dims(x, (1, 0), out=out),
    }
    for function in calls.values():
        for _ in range(40):
            # Compiled code takes over.
            function(x)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones(4, 6))
        before = x.clone()
        for function in calls.values():
            with pytest.raises(dml.BindingError, match="that has a tangent"):
                function(dual)
            # Others are moved as ever, and what no tangents are asked for.
            function(x.clone())
            with forward_ad._set_fwd_grad_enabled(False):
                function(dual.clone())
        assert torch.equal(before, x)


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

    gradients = vmap(grad(loss(partial(at.gather, out_of_range="clamp"))), in_dims=(None, 0))(x, indices)
    wanted = vmap(grad(loss(lambda x, i: x.index_select(0, i))), in_dims=(None, 0))(x, indices.clamp(-1, 3) % 4)
    torch.testing.assert_close(gradients, wanted)


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
