"""Fake tensors against real ones: what is refused, in which words, and what results look like, for random calls."""

import random

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map
from torch_cases import leaves

import anydml.torch  # it registers the operators
from anydml import BindingError, DescError

CALLS = 400
INTEGERS = [torch.int64, torch.int32, torch.uint8, torch.int16, torch.uint64]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.bool, torch.complex64, torch.int8]


def shape_of(rng, least=0):
    return [rng.randint(0, 4) if rng.random() < 0.2 else rng.randint(1, 5) for _ in range(rng.randint(least, 3))]


def tensor(rng, shape, dtype=None):
    """Zeros, sometimes in a layout that is not packed."""
    new_tensor = torch.zeros(shape, dtype=dtype or rng.choice(DTYPES))
    return new_tensor.T if new_tensor.ndim == 2 and rng.random() < 0.3 else new_tensor


def wrong(rng, value, low=-2, high=7):
    """Mostly the value, sometimes another."""
    return rng.randint(low, high) if rng.random() < 0.12 else value


def cut(rng, size):
    """Sizes that add up."""
    cuts = sorted(rng.randint(0, size) for _ in range(rng.randint(0, 3)))
    return [b - a for a, b in zip([0, *cuts], [*cuts, size], strict=True)]


def axis_of(rng, rank):
    return wrong(rng, rng.randint(-rank, rank - 1) if rank else 0, -4, 4)


def draw(rng, name):
    """The arguments of a call that is valid about half of the time."""
    x = tensor(rng, shape_of(rng))
    axis = axis_of(rng, x.ndim)
    at = axis % x.ndim if x.ndim else 0
    size = x.shape[at] if x.ndim else 1
    if name == "split":
        return x, [wrong(rng, n) for n in cut(rng, size)], axis
    if name == "split_training":
        sizes = [wrong(rng, n) for n in cut(rng, size)]
        kind = rng.choice(["sizes", "sizes", "empty", "float", "square"])
        if kind == "empty":
            return (
                x,
                torch.tensor([], dtype=rng.choice([torch.int64, torch.float32])),
                axis,
                rng.choice([None, 1, 2, 0]),
            )
        dtype = torch.float32 if kind == "float" else torch.int64
        split = torch.tensor([sizes] if kind == "square" else sizes, dtype=dtype)
        return x, split, axis, rng.choice([None, len(sizes), len(sizes), wrong(rng, len(sizes))])
    if name in ("join", "concat_training"):
        parts = [x]
        for _ in range(rng.randint(0, 3)):
            shape = [wrong(rng, n, 0) for n in x.shape]
            if x.ndim:
                shape[at] = rng.randint(0, 3)
            if rng.random() < 0.05:
                shape.append(1)
            parts.append(tensor(rng, shape, x.dtype if rng.random() < 0.9 else None))
        return ([] if rng.random() < 0.03 else parts), axis
    if name == "gather":
        indices = tensor(rng, shape_of(rng), rng.choice(INTEGERS) if rng.random() < 0.85 else rng.choice(DTYPES))
        return x, indices, axis, rng.choice(["error", "error", "clamp", "wrap"]) if rng.random() < 0.3 else "clamp"
    return window(rng, name, x)


def window(rng, name, x):
    offsets = [rng.randint(0, n) for n in x.shape]
    sizes = [rng.randint(0, n - o) for n, o in zip(x.shape, offsets, strict=True)]
    steps = [rng.choice([1, 1, 2, 3]) * (rng.choice([1, -1]) if name != "slice" else 1) for _ in sizes]
    max_sizes = [1 + (n - 1) // abs(s) for n, s in zip(sizes, steps, strict=True)]
    if name == "slice":
        sizes = [rng.randint(0, n) for n in max_sizes]
    if name == "lay_into_zeros":
        shape = [o + n for o, n in zip(offsets, sizes, strict=True)]
        starts = [(o if s > 0 else o + n - 1) if n else o for o, n, s in zip(offsets, sizes, steps, strict=True)]
        x = tensor(rng, [rng.randint(0, n) for n in max_sizes])
        # A transposed draw has other sizes, and so is mostly wrong.
        return x, *([wrong(rng, v) for v in values] for values in (shape, starts, steps))
    lists = [[wrong(rng, v) for v in values] for values in (offsets, sizes, steps)]
    if rng.random() < 0.05:
        lists[rng.randrange(3)].append(1)
    if name == "slice1" and rng.random() < 0.5:
        lists.append([wrong(rng, rng.randint(0, n)) for n in max_sizes])
    return x, *lists


def outcome(call):
    """What was raised, or what results look like."""
    try:
        results = leaves(call())
    except (DescError, BindingError) as error:
        return type(error), str(error), error.operator, error.field, error.rule
    return [(part.shape, part.stride(), part.dtype, part.device) for part in results]


NAMES = ["split", "split_training", "join", "concat_training", "slice", "slice1", "gather", "lay_into_zeros"]


@pytest.mark.parametrize("name", NAMES)
def test_fake_tensors_are_refused_as_real_ones_and_results_look_alike(name):
    rng = random.Random(NAMES.index(name))
    operator = getattr(torch.ops.anydml, name)
    mode = FakeTensorMode()
    refused = ran = 0
    for _ in range(CALLS):
        arguments = draw(rng, name)
        real = outcome(lambda arguments=arguments: operator(*arguments))
        if name == "split_training":
            # Sizes that are data are known to real tensors alone.
            arguments = arguments[0].to("meta"), *arguments[1:]
            fake = outcome(lambda arguments=arguments: operator(*arguments))
            if type(fake) is list:
                fake = [(*part[:3], torch.device("cpu")) for part in fake]
        else:
            given = tree_map(lambda leaf: mode.from_tensor(leaf) if torch.is_tensor(leaf) else leaf, arguments)
            fake = outcome(lambda given=given: operator(*given))
        assert fake == real, arguments
        refused += type(real) is tuple
        ran += type(real) is list
    assert refused > CALLS // 20
    assert ran > CALLS // 5


SOUND = {
    "split": lambda x: (x, [1, 2], 0),
    "join": lambda x: ([x, x], 0),
    "slice": lambda x: (x, [0, 0], [2, 3], [1, 1]),
    "slice1": lambda x: (x, [0, 0], [2, 3], [1, -1]),
    "gather": lambda x: (x, torch.zeros(2, dtype=torch.int64), 0),
    "lay_into_zeros": lambda x: (x, [4, 4], [0, 0], [1, 1]),
}


@pytest.mark.parametrize("name", SOUND)
def test_results_of_dynamic_sizes_are_as_large(name):
    x = torch.zeros(3, 4)
    operator = getattr(torch.ops.anydml, name)
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    with mode:
        fake = mode.from_tensor(x, static_shapes=False)
        arguments = SOUND[name](fake)
        found = [tuple(map(int, part.shape)) for part in leaves(operator(*arguments))]
    assert found == [tuple(part.shape) for part in leaves(operator(*SOUND[name](x)))]


def mixed(x, other):
    """Calls whose tensors lie on two devices, each with the name of what is refused."""
    indices = torch.zeros(2, dtype=torch.int64, device=other.device)
    return [
        (lambda: torch.ops.anydml.join([x, other]), r"arrays\[1\]"),
        (lambda: torch.ops.anydml.join([other, x]), r"arrays\[1\]"),
        (lambda: torch.ops.anydml.concat_training([x, x, other]), r"arrays\[2\]"),
        (lambda: torch.ops.anydml.gather(x, indices), "indices"),
        (lambda: anydml.torch.gather(x, indices), "indices"),
        (lambda: anydml.join([x, other]), r"arrays\[1\]"),
        (lambda: anydml.gather(x, indices), "indices"),
        (lambda: anydml.join([x], out=other), "out"),
        (lambda: torch.vmap(lambda a, b: anydml.torch.join([a, b]))(x, other), r"arrays\[1\]"),
        (lambda: torch.vmap(lambda a: anydml.torch.gather(a, indices))(x), "indices"),
        (lambda: torch.vmap(anydml.torch.gather)(x, indices.expand(3, 2)), "indices"),
        (lambda: torch.func.grad(lambda a: anydml.torch.join([a, other]).sum())(x), r"arrays\[1\]"),
        (lambda: torch.func.jvp(lambda a: anydml.torch.join([a, other]), (x,), (x,)), r"arrays\[1\]"),
    ]


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_memory_that_is_not_there_is_never_given_out():
    x = torch.ones(3, 4)
    for call, field in mixed(x, x.to("meta")):
        with pytest.raises(BindingError, match=f"{field} is a PyTorch tensor on (meta|cpu), but .* move one of them"):
            call()


def test_two_devices_are_refused_while_programs_are_compiled():
    with FakeTensorMode():
        x, other = torch.empty(3, 4), torch.empty(3, 4, device="cuda")
        for call, field in mixed(x, other)[:5]:
            with pytest.raises(BindingError, match=f"{field} is a PyTorch tensor on c.*, but .* move one of them"):
                call()
        with pytest.raises(BindingError, match="split is a PyTorch tensor on cuda:0, but its values are needed on the"):
            torch.ops.anydml.split_training(x, torch.empty(2, dtype=torch.int64, device="cuda"))


def test_sizes_without_memory_are_refused():
    with pytest.raises(BindingError, match=r"split_training: split is a PyTorch tensor on meta"):
        anydml.torch.split_training(torch.ones(3), torch.tensor([1, 2], device="meta"))


@pytest.mark.parametrize("values", [[0.5], [True]])
def test_lists_become_no_integers(values):
    with pytest.raises(DescError, match=r"gather: indices are (float|bool)"):
        anydml.torch.gather(torch.zeros(3), values)
    with pytest.raises(DescError, match=r"gather: indices are (float|bool)"):
        torch.vmap(anydml.torch.gather)(torch.zeros(2, 3), torch.as_tensor([values, values]))
    with pytest.raises(DescError, match=r"split_training: split is (float|bool)"):
        anydml.torch.split_training(torch.zeros(3), values)


def test_a_batch_is_checked_as_its_samples_are():
    x, indices = torch.zeros(2, 3), torch.zeros(2, 4, dtype=torch.int64)
    with pytest.raises(DescError, match="axis is 1, but the array has 1 dimension"):
        torch.vmap(lambda a, i: anydml.torch.gather(a, i, 1))(x, indices)
    with pytest.raises(DescError, match="out_of_range is 'wrap'"):
        torch.vmap(lambda a, i: anydml.torch.gather(a, i, out_of_range="wrap"))(x, indices)
