"""PyTorch's functions and methods in fused functions: what they give is what PyTorch gives."""

import collections
import itertools
import warnings

import numpy as np
import pytest
from how_many import how_many

import anydml as dml

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402  # where there is PyTorch
from tracing.random_torch import Program  # noqa: E402
from tracing.random_torch_programs import TorchProgram  # noqa: E402

CHUNKS, PROGRAMS = 8, how_many(400) // 8
X = torch.arange(24.0).reshape(2, 3, 4)


def check(seed, seen, kind=Program):
    program = kind(seed)
    fused, names = dml.fuse(program), [name for name, _ in program.steps]
    try:
        lowered = fused.lower(program.tensors)
    except dml.FuseError as error:
        # The one thing that PyTorch does and a program cannot: indices that move before they are looked at.
        if "these would have to move first" not in str(error):
            raise
        return
    assert list(lowered.problems()) == [], (seed, names)
    result = fused(program.tensors)
    assert type(result) is torch.Tensor
    assert result.is_contiguous()
    assert result.dtype == program.expected.dtype
    assert result.shape == program.expected.shape, (seed, names)
    assert torch.equal(result, program.expected), (seed, names, str(lowered))
    seen["programs"] += 1
    seen["scratch"] += lowered.scratch_bytes > 0
    seen.update(set(names))


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs(chunk):
    seen = collections.Counter()
    for k in range(PROGRAMS):
        check([153, chunk, k], seen)
    assert seen["programs"] >= 0.95 * PROGRAMS
    assert seen["scratch"] <= 0.4 * PROGRAMS


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs_of_more_words(chunk):
    seen = collections.Counter()
    for k in range(PROGRAMS // 2):
        check([154, chunk, k], seen, TorchProgram)
    assert seen["programs"] >= 0.45 * PROGRAMS


def test_programs_use_every_step():
    names = {name[5:] for name in dir(Program) if name.startswith("step_")}
    assert {name for k in range(200) for name, _ in Program([78, k]).steps} == names


RIGHT = {
    "a tensor that is no argument": lambda x: torch.cat([x, torch.ones(2, 3, 1)], -1),
    "a result that is known": lambda x: (x, torch.arange(3.0)),
    "a legacy empty tensor": lambda x: torch.cat([torch.empty(0), x], 1),
    "shapes": lambda x: x.view(x.size(0), -1, x.size()[-1] // 2) if x.dim() == 3 else x,
    "numbers of elements": lambda x: x.new_full((x.numel(), x.nelement() if False else 1), 2.0),
    "axis instead of dim": lambda x: torch.cat([x, x], axis=1).flip(dims=(0,)),
    "named parameters": lambda x: torch.transpose(x, dim0=0, dim1=-1).unsqueeze(dim=1),
    "a parameter named input": lambda x: torch.roll(input=x, shifts=1, dims=0),
    "NumPy's names of dimensions": lambda x: torch.swapaxes(x, axis0=0, axis1=1),
    "a chain of methods": lambda x: x.contiguous().clone().detach().cpu().mT,
    "its own dtype": lambda x: x.float().to(torch.float32),
    "like another": lambda x: x.reshape_as(x.permute(1, 2, 0)).expand_as(torch.zeros(5, 3, 4, 2)),
    "vertical parts": lambda x: torch.hsplit(x, 3)[1] if x.ndim else x,
    "views of one another": lambda x: torch.broadcast_tensors(x, x[:1])[1],
    "what torch.atleast_3d does": lambda x: torch.atleast_3d(x[0]),
    "windows": lambda x: x.unfold(2, 3, 1),
    "columns": lambda x: F.unfold(x[None], (2, 3), dilation=(1, 1), padding=(1, 0), stride=1),
    "pads of three dimensions": lambda x: F.pad(x, (1, -1, 0, 2, -1, 0), value=-3.5),
    "replicated": lambda x: F.pad(x, (3, 2), "replicate"),
    "its own shape's size": lambda x: x.flatten(1).unflatten(1, (-1, 2)),
    "no dimensions": lambda x: x[0, 0, 0].repeat(2).unsqueeze(-1),
    "one after the other": lambda x: torch.stack([*x]),
    "an int8 mask of the host": lambda x: x[torch.tensor([True, False])],
    "channels": lambda x: F.channel_shuffle(torch.cat([x[None], x[None]], 1), 2),
}


@pytest.mark.parametrize("name", RIGHT)
def test_spellings(name):
    function = RIGHT[name]
    expected, found = function(X), dml.fuse(function)(X)
    if name == "numbers of elements":
        expected = torch.full((24, 1), 2.0)
    for one, other in zip(
        *((each,) if isinstance(each, torch.Tensor) else each for each in (found, expected)), strict=True
    ):
        assert torch.equal(one, other)


WRONG = {
    "arithmetic": (lambda x: x + 1, "does not compute"),
    "a function that computes": (lambda x: x.relu(), "relu of a traced"),
    "a functional that computes": (lambda x: F.softmax(x, -1), "torch's softmax"),
    "a method that computes": (lambda x: x.softmax(-1), "softmax of a traced float32 tensor"),
    "a sum": (lambda x: torch.sum(x, 0), "torch's sum"),
    "another dtype": (lambda x: x.to(torch.float16), "conversion of .* to torch.float16"),
    "a view of other sizes": (lambda x: x.view(torch.int16), "viewed as int16"),
    "another place": (lambda x: x.to("cuda"), "on cuda"),
    "an adjoint of more than a matrix": (lambda x: x.H, "use .mH for batches"),
    "two dtypes": (lambda x: torch.cat([x, torch.ones(2, 3, 4, dtype=torch.int64)]), "float32 and int64"),
    "a norm": (lambda x: F.embedding(torch.tensor([0]), x[0], max_norm=1.0), "max_norm"),
    "out": (lambda x: torch.cat([x[:1], x[1:]], out=x), "use the result instead"),
    "a mode": (lambda x: F.pad(x, (1, 1), "other"), "mode 'other'"),
    "shapes": (lambda x: torch.stack([x, x[0]]), "shapes must be equal"),
    "a size": (lambda x: x.view(5, -1), "cannot reshape"),
    "an index": (lambda x: torch.index_select(x, 1, torch.tensor([3])), "index 3 is out of range"),
    "a negative index": (
        lambda x: torch.index_select(x, 1, torch.tensor([-1])),
        "index -1 is negative: indices must be 0 or more",
    ),
    "a dimension": (lambda x: x.transpose(0, 3), "out of bounds"),
    "a split": (lambda x: x.split([1, 1], 1), "do not add up to 3"),
    "negative steps of pads": (lambda x: F.pad(x, (-3, -3)), "crops more than dimension"),
    "counts": (lambda x: x.repeat(2), "must be at least one per dimension"),
    "shifts without dims": (lambda x: torch.roll(x, (2, 1)), "one shift per dim"),
    "more shifts than dims": (lambda x: torch.roll(x, (2, 1), 0), "one shift per dim"),
    "more dims than shifts": (lambda x: torch.roll(x, 1, (0, 1)), "one shift per dim"),
    "no parts of rows": (lambda x: torch.hsplit(x, 0), "larger than 0"),
    "no parts": (lambda x: torch.vsplit(x, 0), "larger than 0"),
    "no parts in depth": (lambda x: torch.dsplit(x, 0), "larger than 0"),
    "fewer than no parts": (lambda x: torch.tensor_split(x, -1), "larger than 0"),
    "a row for a slice": (lambda x: x.slice_scatter(x[:1], 0, 0, 2), "what it replaces"),
    "a row for none": (lambda x: x.slice_scatter(x[:1], 0, 2, 2), "what it replaces"),
    "a number for a row": (lambda x: x.select_scatter(x[0, 0, 0], 0, 1), "what it replaces"),
    "an assignment": (lambda x: x.__setitem__(0, 1), "cannot assign into"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused(name):
    function, message = WRONG[name]
    with pytest.raises(dml.FuseError, match=message) as raised:
        dml.fuse(function)(X)
    assert str(raised.value).startswith(f"{__file__}:{function.__code__.co_firstlineno}: ")


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
@pytest.mark.parametrize("other", [(0, 0), (1, -2), (-1, 2), (-2, 1)], ids=str)
def test_pads_that_cut_off(mode, other):
    x = torch.arange(24.0).reshape(1, 1, 4, 6)
    for first in itertools.product((-5, -2, 0, 1, 5), repeat=2):

        def function(x, pads=(*first, *other)):
            return F.pad(x, pads, mode)

        kept = 6 + min(0, first[0]) + min(0, first[1])
        if mode == "circular" and max(first) > kept:
            # PyTorch gives elements of memory that nothing was written to.
            with pytest.raises(dml.FuseError):
                dml.fuse(function)(x)
            continue
        try:
            expected = function(x)
        except RuntimeError:
            if 6 + sum(first) == 0 and 4 + sum(other) >= 0:
                # The lowest PyTorch refuses to leave nothing, as the newest does not.
                continue
            with pytest.raises(dml.FuseError):
                dml.fuse(function)(x)
            continue
        assert torch.equal(dml.fuse(function)(x), expected), first


@pytest.mark.parametrize("arguments", [(0, 1, 1), (0, 0, 1), (-1, 1, 2)], ids=str)
def test_windows_of_no_dimensions(arguments):
    x = torch.tensor(5.0)
    expected, found = x.unfold(*arguments), dml.fuse(lambda x: x.unfold(*arguments))(x)
    assert found.shape == expected.shape
    assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_refused_indices_are_named_as_they_were_given(dtype):
    picks = {
        "gather": lambda x, i: torch.gather(x, 0, i),
        "index_select": lambda x, i: torch.index_select(x, 0, i),
        "embedding": lambda x, i: F.embedding(i, x[:, None]),
    }
    x = torch.arange(5.0)
    for name, pick in picks.items():
        if name == "gather" and dtype is torch.int32:
            continue
        for index in (-1, -5, 5, 2**31 - 1):
            message = f"index {index} in i is out of range for an axis of size 5: indices must be 0 to 4$"
            with pytest.raises(IndexError, match=message):
                dml.fuse(pick)(x, torch.tensor([0, index], dtype=dtype))
            with pytest.raises((IndexError, RuntimeError)):
                pick(x, torch.tensor([0, index], dtype=dtype))
        pick(x, torch.tensor([0, 4], dtype=dtype))


def test_indices_that_are_arguments_are_0_or_more():
    """As in PyTorch; but those of x[i] and take count from the end."""
    last = torch.tensor([2, -1])
    for function in (
        lambda x, i: torch.index_select(x, 1, i),
        lambda x, i: F.embedding(i, x[0]),
        lambda x, i: torch.gather(x[0, :, 0], 0, i),
    ):
        with pytest.raises(IndexError, match="out of range"):
            dml.fuse(function)(X, last)
        with pytest.raises((IndexError, RuntimeError)):
            function(X, last)
    assert torch.equal(dml.fuse(lambda x, i: x[:, i])(X, last), X[:, last])
    assert torch.equal(dml.fuse(torch.take)(X, last), torch.take(X, last))


@pytest.mark.parametrize("given", [torch.tensor, np.array], ids=["torch", "numpy"])
@pytest.mark.parametrize("dtype", [np.uint8, np.bool_])
def test_bytes_as_an_index_are_a_mask(given, dtype):
    """As in PyTorch, which says that bools are better; in NumPy, bytes are integers."""
    mask = given(np.array([1, 0, 1, 1]).astype(dtype))
    x = torch.arange(24).reshape(4, 6)
    for key in (mask, (mask, slice(1, 3)), (slice(None), given(np.array([0, 1] * 3).astype(dtype)))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            wanted = x[key]
        assert torch.equal(dml.fuse(lambda x, key=key: x[key])(x), wanted)
    with pytest.raises(dml.FuseError, match=f"a single {mask.dtype} is not an index".replace("torch.", "")):
        dml.fuse(lambda x: x[mask[0] if given is torch.tensor else np.array(mask[0])])(x)


PARTS = [[[0, 1]], [[0, 1], [1, 0]], [None, 0], [slice(1), 0], [..., 0], [torch.tensor(1), 0], [np.array([1, 0])] * 2]


@pytest.mark.parametrize("key", PARTS, ids=str)
def test_lists_that_may_be_tuples_are_refused(key):
    """PyTorch read them as tuples, and announced that it will read them as NumPy does."""
    with pytest.raises(dml.FuseError, match="pass a tuple, or a tensor"):
        dml.fuse(lambda x: x[key])(X)
    wanted = X[(*key,)]
    assert torch.equal(dml.fuse(lambda x: x[(*key,)])(X), wanted)


def test_modules_that_only_move():
    """Layers of PyTorch are functions like others."""
    layers = torch.nn.Sequential(torch.nn.Unflatten(1, (4, 6)), torch.nn.ZeroPad1d(1), torch.nn.Flatten())
    x = torch.arange(48.0).reshape(2, 24)
    assert torch.equal(dml.fuse(layers.forward)(x), layers(x))
    shuffle = torch.nn.PixelShuffle(2)
    image = torch.arange(32.0).reshape(1, 8, 2, 2)
    fused = dml.fuse(shuffle.forward)
    assert torch.equal(fused(image), shuffle(image))
    assert fused.lower(image).scratch_bytes == 0


BY_CONSTANTS = {
    "brackets": lambda x, by: x[by],
    "brackets along another axis": lambda x, by: x[:, by],
    "an assignment": lambda x, by: _assigned(x.clone(), by),
    "index_select": lambda x, by: x.index_select(0, by),
    "take": lambda x, by: x.take(by),
    "gather": lambda x, by: x.gather(1, by[:, None]),
    "take_along_dim": lambda x, by: torch.take_along_dim(x, by[:, None], 1),
    "embedding": lambda x, by: torch.nn.functional.embedding(by, x),
    "scatter": lambda x, by: x.scatter(1, by[:, None], 5),
    "index_copy": lambda x, by: x.index_copy(0, by, x[: len(by)]),
    "index_fill": lambda x, by: x.index_fill(0, by, 5),
    "index_put": lambda x, by: x.index_put((by,), x[by.long()] if by.dtype != torch.uint8 else x[by]),
    "put": lambda x, by: x.put(by, x[0, : len(by)]),
}
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64]


def _assigned(y, by):
    y[by] = torch.full((4, 6), 5.0)
    return y


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8")
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("name", BY_CONSTANTS)
def test_constant_indices_are_taken_or_refused_as_by_pytorch(name, dtype):
    function, x = BY_CONSTANTS[name], torch.arange(24.0).reshape(4, 6)
    # Of each value one, so that no order of writes matters; bytes are a mask of all rows.
    by = torch.tensor([1, 2, 3, 0]).to(dtype) if dtype != torch.uint8 else torch.ones(4, dtype=dtype)
    try:
        expected = function(x, by)
    except (RuntimeError, IndexError):
        with pytest.raises(dml.FuseError):
            dml.fuse(lambda x: function(x, by))(x)
    else:
        assert torch.equal(dml.fuse(lambda x: function(x, by))(x), expected)
