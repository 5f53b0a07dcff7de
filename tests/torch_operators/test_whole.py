"""Calls on plain tensors are done by compiled code before PyTorch sees them; all others go PyTorch's way, as before."""

import contextlib
from functools import partial

import numpy as np
import pytest
import torch
from call_ways import in_python
from torch._subclasses import FakeTensor, FakeTensorMode

import anydml as dml
import anydml.torch


def ops(x):
    return torch.ops.anydml.split(x, [3, 3], 1)


def function(x):
    return dml.split(x, 2, 1)


def partially(x):
    # As C's code calls it.
    return partial(dml.split, x, 2, 1)()


def joined(x):
    return [partial(dml.join, [x, x], 1)()]


class Derived(torch.Tensor):
    pass


def plain():
    return torch.arange(24.0).reshape(4, 6)


def freed():
    tensor = plain()
    tensor.untyped_storage().resize_(0)
    return tensor


def inferred():
    with torch.inference_mode():
        return plain().clone()


ODD = {
    "plain": plain,
    "sparse": lambda: plain().to_sparse(),
    "nested": lambda: torch.nested.nested_tensor([plain(), plain()], layout=torch.jagged),
    "meta": lambda: plain().to("meta"),
    "derived": lambda: plain().as_subclass(Derived),
    "parameter": lambda: torch.nn.Parameter(plain()),
    "recorded": lambda: plain().requires_grad_(),
    "negative": lambda: torch.ones(4, 6, dtype=torch.complex64).conj().imag,
    "conjugate": lambda: torch.full((4, 6), 1j).conj(),
    "freed": freed,
    "fake": lambda: FakeTensorMode().from_tensor(plain()),
    "inference": inferred,
    "transposed": lambda: torch.arange(24.0).reshape(6, 4).T,
    "offset": lambda: torch.arange(30.0)[6:].reshape(4, 6),
    "bfloat16": lambda: plain().bfloat16(),
    "integers": lambda: plain().int(),
    "expanded": lambda: torch.ones(1, 6).expand(4, 6),
    "none": lambda: None,
    "numpy's": lambda: plain().numpy(),
}


def said(call, *arguments):
    try:
        results = call(*arguments)
    except Exception as error:
        return type(error), str(error).splitlines()[:1]
    results = results if isinstance(results, (list, tuple)) else [results]
    return [
        (
            type(each),
            each.requires_grad,
            each.shape,
            each.is_meta or isinstance(each, FakeTensor) or each.detach().tolist(),
        )
        if isinstance(each, torch.Tensor)
        else each.tolist()
        for each in results
    ]


def transformed(call):
    batch = torch.arange(72.0).reshape(3, 4, 6)
    yield lambda: torch.func.vmap(lambda x: call(x)[0])(batch)
    yield lambda: torch.func.grad(lambda x: (call(x)[0] * x[:, :1]).sum())(plain())
    yield lambda: torch.func.jvp(lambda x: call(x)[0], (plain(),), (plain(),))[1]


CALLS = (ops, function, partially, joined)


@pytest.fixture
def leave_to_python(monkeypatch):
    """Have Python do what compiled code does."""

    @contextlib.contextmanager
    def way():
        with monkeypatch.context() as patched, in_python():
            patched.setattr("anydml.torch.registration.is_native", lambda x: False)
            yield

    return way


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("call", CALLS)
def test_odd_tensors_are_treated_as_python_treats_them(call, name, leave_to_python):
    found = said(call, ODD[name]())
    with leave_to_python():
        assert said(call, ODD[name]()) == found


@pytest.mark.parametrize("call", CALLS)
def test_transforms_are_seen(call, leave_to_python):
    found = [said(run) for run in transformed(call)]
    with leave_to_python():
        assert [said(run) for run in transformed(call)] == found


def test_modes_profilers_and_scripts_see_the_operator():
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    class Dispatches(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    for mode in (Functions, Dispatches):
        with mode():
            ops(plain())
        assert any("anydml" in each for each in seen), mode
        seen.clear()
    with torch.profiler.profile() as profile:
        ops(plain())
    assert "anydml::split" in [event.key for event in profile.key_averages()]
    with torch.device("meta"):
        assert {each.device.type for each in (*ops(torch.ones(4, 6, device="cpu")),)} == {"cpu"}
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert ops(plain().float())[0].dtype == torch.float32
    finally:
        torch.set_default_dtype(before)


def test_results_are_tensors_of_their_own():
    x = plain()
    for call in CALLS:
        results = call(x)
        again = call(x)
        places = {each.data_ptr() for each in (*results, *again, x)}
        assert len(places) == 2 * len(results) + 1
        for each in results:
            each.untyped_storage().resize_(1 << 16)
            each.requires_grad_()
    x += 1
    assert np.array_equal(ops(x)[1].numpy(), x.numpy()[:, 3:])
    with torch.inference_mode():
        assert ops(x)[0].is_inference()


FILLED = {
    "fill": (dml.fill, np.full_like, (2.5, 7, True, -0.0)),
    "pad": (
        lambda x, value: dml.pad(x, (1, 0, 0, 2), value=value),
        lambda x, value: np.pad(x, ((1, 0), (0, 2)), constant_values=value),
        (0, 1.5, -0.0, 3),
    ),
    "where": (lambda x, value: dml.where(x > value, x, -x), lambda x, value: np.where(x > value, x, -x), (3, 5.0)),
}


@pytest.mark.parametrize("name", FILLED)
def test_numbers_and_masks_are_those_of_the_call(name):
    call, numpys, values = FILLED[name]
    tensor = plain()
    for value in (*values, *values):
        expected = numpys(tensor.numpy(), value)
        assert call(tensor, value).numpy().tobytes() == expected.tobytes()
        changed = tensor.flip(0)
        assert call(changed, value).numpy().tobytes() == numpys(changed.numpy(), value).tobytes()
