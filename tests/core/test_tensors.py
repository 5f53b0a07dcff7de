"""Calls on PyTorch's tensors: what compiled code moves itself, and what it leaves to Python, which refuses some."""

import sys
import threading

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from call_ways import FUNCTIONS, counted, in_python  # noqa: E402
from drawn_calls import DRAW  # noqa: E402
from function_cases import called  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.overrides import TorchFunctionMode  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import anydml as dml  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:The storage passed")

CALLS = 40
DTYPES = ("f4", "f8", "f2", "i1", "u1", "i4", "i8", "?", "D")


def tensors_of(value):
    """The same arguments with tensors in place of arrays, transposed or with steps where the arrays are."""
    if isinstance(value, (list, tuple)):
        return type(value)(tensors_of(each) for each in value)
    if not isinstance(value, np.ndarray):
        return value
    if not value.dtype.isnative:
        value = value.astype(value.dtype.newbyteorder("="))
    if not value.ndim or min(value.strides) < 0 or any(step % value.itemsize for step in value.strides):
        value = np.array(value)
    if not value.flags.writeable:
        value = np.ndarray(value.shape, value.dtype, bytearray(value.tobytes()))
    return torch.from_numpy(value) if value.flags.aligned else torch.from_numpy(np.array(value))


def told(function, given, **named):
    """What a call on tensors comes to."""
    try:
        found = called(function, given, **named)
    except Exception as error:
        return type(error), str(error)
    return [
        (
            type(each),
            each.dtype,
            each.shape,
            each.stride(),
            each.requires_grad,
            each.clone().view(-1).tolist().__repr__(),
        )
        if isinstance(each, torch.Tensor)
        else repr(each)
        for each in (found if isinstance(found, (list, tuple)) else [found])
    ]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_tensors_are_moved_as_arrays_are(name):
    rng = np.random.default_rng([6, *name.encode()])
    dtypes = [dtype for dtype in DTYPES if dtype != "?" or name != "sequence"]
    with counted() as done:
        for number in range(CALLS):
            given, _ = DRAW[name](rng, np.dtype(dtypes[number % len(dtypes)]))
            own = tensors_of(given)
            found = told(FUNCTIONS[name], own)
            with in_python():
                assert found == told(FUNCTIONS[name], own), given
            expected = called(FUNCTIONS[name], given)
            results = called(FUNCTIONS[name], own)
            pairs = (
                zip(results, expected, strict=True) if isinstance(expected, (list, tuple)) else [(results, expected)]
            )
            for one, other in pairs:
                assert one.contiguous().numpy().tobytes() == other.astype(other.dtype.newbyteorder("=")).tobytes()
    assert len(done) > CALLS // 8


def drawn():
    return torch.arange(1.0, 31.0).reshape(5, 6)


class Derived(torch.Tensor):
    """A class of its own."""


REFUSED = {
    "records": (lambda x: x.requires_grad_(), "requires grad"),
    "of a graph": (lambda x: x.requires_grad_() * 1, "requires grad"),
    "view of what records": (lambda x: x.requires_grad_().view(5, 6), "requires grad"),
    "a parameter": (torch.nn.Parameter, "requires grad"),
    "empty": (lambda x: resized(x, 0), "was freed"),
    "empty behind an offset": (lambda x: resized(torch.arange(31.0)[1:].reshape(5, 6), 0), "was freed"),
    "meta": (lambda x: x.to("meta"), "on meta"),
    "sparse": (lambda x: x.to_sparse(), "to_dense"),
    "nested": (lambda x: torch.nested.nested_tensor([x]), "nested"),
    "fake": (lambda x: FakeTensorMode().from_tensor(x), "FakeTensor"),
}


def resized(tensor, size):
    tensor.untyped_storage().resize_(size)
    return tensor


@pytest.mark.parametrize("is_target", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_what_must_not_be_moved_is_refused(name, is_target):
    change, words = REFUSED[name]
    x, out = drawn(), torch.zeros(5, 6)
    other = change(drawn())
    with pytest.raises(dml.BindingError, match=words):
        dml.copy(*((x, other) if is_target else (other, out)))
    assert not out.any()
    assert torch.equal(x, drawn())
    with pytest.raises(dml.BindingError, match=words):
        dml.join([x, other])


def test_an_out_that_does_not_fit_is_refused():
    x = drawn()
    for bad, words in (
        (x, "overlap|share"),
        (torch.zeros(5, 6, dtype=torch.complex64).conj().imag, "lazy"),
        (torch.zeros(5, 6, dtype=torch.float64), "result is"),
        (np.zeros((5, 6), np.float32), "NumPy"),
        (torch.zeros(6, 6)[:5].T, "shape"),
        (torch.zeros(1, 6).expand(5, 6), "share an element"),
    ):
        with pytest.raises(dml.BindingError, match=words):
            dml.copy(x, out=bad)
    assert torch.equal(x, drawn())


def test_lazy_signs_are_made_real():
    x = drawn()
    z = torch.complex(x, x + 1)
    assert torch.equal(dml.copy(z), z)
    assert torch.equal(dml.copy(z.conj()), z.conj().resolve_conj())
    negative = z.conj().imag
    for view in negative, negative.T, negative[::2, ::3], negative.flatten(), negative[2, 3], negative[:1, :1]:
        assert view.is_neg()
        assert torch.equal(dml.copy(view), view.clone())
    for dtype in torch.complex64, torch.complex128:
        own = z.to(dtype)
        for view in own.conj(), own.conj().T, torch._neg_view(own), torch._neg_view(own).conj():
            assert torch.equal(dml.copy(view), view.clone())
            assert torch.equal(dml.join([view.clone(), view]), torch.cat([view, view]))
            with pytest.raises(dml.BindingError, match="lazy"):
                dml.copy(view.clone(), out=view)


def lazily(value):
    """The same arguments with tensors that are negated, conjugated or both when they are read."""
    if isinstance(value, (list, tuple)):
        return type(value)(lazily(each) for each in value)
    # PyTorch negates neither truth values nor unsigned integers of several bytes.
    if not isinstance(value, torch.Tensor) or value.dtype in (torch.bool, torch.uint16, torch.uint32, torch.uint64):
        return value
    return torch._neg_view((-value).conj_physical().conj())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_lazy_signs_of_all_arguments_are_made_real(name):
    rng = np.random.default_rng([7, *name.encode()])
    for number in range(CALLS):
        given = tensors_of(DRAW[name](rng, np.dtype(("f4", "D", "i8", "f2", "i4")[number % 5]))[0])
        assert told(FUNCTIONS[name], lazily(given)) == told(FUNCTIONS[name], given), given


@pytest.mark.parametrize("quiet", [torch.no_grad, torch.inference_mode])
def test_recording_is_refused_only_while_it_is_on(quiet):
    recording, out = (2 * drawn()).requires_grad_(), torch.zeros(5, 6)
    with quiet():
        result = dml.copy(recording)
        assert torch.equal(result, recording)
        assert not result.requires_grad
        dml.copy(recording, out=out)
        before = recording._version
        dml.copy(drawn(), out=recording)
        assert recording._version == before + 1
        assert torch.equal(recording.detach(), drawn())
    assert torch.equal(out, 2 * drawn())


@pytest.mark.parametrize("is_input_inferring", [False, True])
def test_inference(is_input_inferring):
    x, out = drawn(), torch.zeros(5, 6)
    with torch.inference_mode():
        given, own = drawn() if is_input_inferring else x, torch.zeros(5, 6)
    assert not dml.copy(given).is_inference()
    with torch.inference_mode():
        result = dml.copy(given)
        assert result.is_inference()
        dml.copy(given, out=own)
        before = out._version
        dml.copy(given, out=out)
        assert out._version == before + 1
    assert all(torch.equal(each, x) for each in (result, own, out))


def test_gradients_notice_what_was_written():
    out, weights = torch.zeros(5, 6), torch.ones(5, 6, requires_grad=True)
    loss = (weights * out).sum()
    dml.copy(drawn(), out=out)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: dml.split(x, 2, 1, out=[out[:, :3], out[:, 3:]]),
        lambda x, out: dml.roll(x, 2, 1, out=out),
        lambda x, out: dml.fill(x, 3, out=out),
        lambda x, out: dml.where(x > 3, x, -x, out=out),
        lambda x, out: dml.gather(x, torch.arange(5), out=out),
        lambda x, out: dml.join([x[:2], x[2:]], out=out),
    ],
)
def test_whoever_wrote_says_so(call):
    out = torch.zeros(5, 6)
    before = out._version
    call(drawn(), out)
    found = out._version - before
    assert out.any()
    out.zero_()
    with in_python():
        before = out._version
        call(drawn(), out)
        assert out._version - before == found > 0


class Recorded(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        seen.append(str(function))
        return function(*arguments, **(named or {}))


class Called(TorchFunctionMode):
    def __torch_function__(self, function, types, arguments=(), named=None):
        seen.append(str(function))
        return function(*arguments, **(named or {}))


seen = []


@pytest.mark.parametrize("mode, expected", [(Recorded, "anydml.flip.default"), (Called, "new_empty")])
def test_modes_see_calls_or_their_results(mode, expected):
    x = drawn()
    for way in (counted, in_python):
        with way(), mode():
            seen.clear()
            assert torch.equal(dml.flip(x, 0), x.flip(0))
        assert sum(expected in each for each in seen) == 1


def test_what_makes_results_without_memory_is_refused():
    x = drawn()
    with pytest.raises(dml.BindingError, match="have no memory"):
        torch.func.grad(lambda y: (y.sum() * dml.copy(x)).sum())(torch.ones(5, 6))
    assert torch.equal(torch.func.vmap(lambda y: y * dml.copy(x))(torch.ones(2, 5, 6))[1], x)


TRANSFORMS = {
    "vmap": lambda call: torch.func.vmap(call)(torch.arange(60.0).reshape(2, 5, 6)),
    "grad": lambda call: torch.func.grad(lambda x: call(x).sum())(drawn()),
    "jvp": lambda call: torch.func.jvp(call, (drawn(),), (drawn(),)),
    "functionalize": lambda call: torch.func.functionalize(call)(drawn()),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_treated_as_python_treats_them(name):
    def each():
        try:
            found = TRANSFORMS[name](lambda x: dml.roll(x, 1, 0))
        except Exception as error:
            return type(error), str(error)
        return [one.tolist() for one in (found if isinstance(found, tuple) else (found,))]

    found = each()
    with in_python():
        assert each() == found


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_tangents_are_never_dropped():
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(drawn(), drawn())
        with pytest.raises(dml.BindingError, match="tangent"):
            dml.flip(dual, 1)


def test_results_are_pytorchs_own():
    x = drawn()
    result = dml.copy(x.T)
    assert type(result) is torch.Tensor
    assert (result.device.type, result.dtype, result.stride()) == ("cpu", torch.float32, (5, 1))
    assert result.untyped_storage().nbytes() == 120
    assert result.untyped_storage().resizable()
    assert result.is_leaf
    assert not result._is_view()
    result.resize_(60)
    result.requires_grad_()
    assert type(dml.copy(torch.nn.Parameter(x, requires_grad=False))) is torch.Tensor
    assert torch.equal(dml.copy(x.as_subclass(Derived)), x)
    with torch.device("meta"):
        assert dml.copy(x).device.type == "cpu"
    torch.use_deterministic_algorithms(True)
    try:
        parts = dml.split(x, 5)
    finally:
        torch.use_deterministic_algorithms(False)
    assert torch.equal(torch.cat(parts), x)
    assert len({each.untyped_storage().data_ptr() for each in parts}) == 5
    _, lengths = dml.concat_training(parts)
    assert lengths.tolist() == [1] * 5
    assert lengths.untyped_storage().resizable()


def test_copies_on_write_are_made_first():
    x, shared = drawn(), torch.full((5, 6), 7.0)
    lazy = torch._lazy_clone(shared)
    assert torch.equal(dml.copy(torch._lazy_clone(x)), x)
    dml.copy(x, out=lazy)
    assert torch.equal(lazy, x)
    assert torch.equal(shared, torch.full((5, 6), 7.0))


def test_indices_may_be_anybodys():
    x = drawn()
    for indices in ([1, 0], np.array([1, 0]), torch.tensor([1, 0], dtype=torch.int32), torch.tensor([1, 0])):
        assert torch.equal(dml.gather(x, indices), x[[1, 0]])
    with pytest.raises(IndexError):
        dml.gather(x, torch.tensor([7, 0]))


def test_sizes_of_tensors_are_sizes():
    x = drawn()
    assert torch.equal(dml.broadcast_to(x, torch.Size([2, 5, 6])), x.expand(2, 5, 6))
    assert torch.equal(dml.split(x, torch.Size([2, 3]))[1], x[2:])


def test_no_reference_is_lost_or_kept():
    x, out = drawn(), [torch.zeros(5, 3), torch.zeros(5, 3)]
    held = [x, *out, out]

    def every():
        dml.split(x, 2, 1)
        dml.split(x, [3, 3], 1, out=out)
        dml.copy(x.T)
        dml.gather(x, [1, 2])
        for bad in (out[0], [out[0]], None):
            with pytest.raises((dml.BindingError, dml.DescError)):
                dml.join([x, x], 7 if bad is None else 0, out=bad)

    every()
    before = [sys.getrefcount(each) for each in held]
    for _ in range(1000):
        every()
    assert [sys.getrefcount(each) for each in held] == before


def test_threads():
    wrong = []

    def work(k):
        x = torch.full((40, 96), float(k))
        wrong.extend(
            k
            for _ in range(300)
            for part in (*dml.split(x, 3, 1), dml.join([x, x]), dml.flip(x))
            if not bool((part == k).all())
        )

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
