"""PyTorch's words in fused functions, by random arguments: what they give is what PyTorch gives."""

import numpy as np
import pytest
from how_many import how_many

import anydml as dml

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402  # where there is PyTorch

CALLS = how_many(40)
DTYPES = torch.uint8, torch.int16, torch.int64, torch.bfloat16, torch.float32, torch.complex64, torch.bool
REFUSED = RuntimeError, IndexError, ValueError


class Draw:
    """Random arguments."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def int(self, low, high):
        """From low to high − 1."""
        return int(self.rng.integers(low, high))

    def pick(self, *ways):
        return ways[self.int(0, len(ways))]

    def shape(self, least=0, most=4):
        return [self.pick(0, 1, 1, 2, 2, 2, 3, 3, 3, 5) for _ in range(self.int(least, most + 1))]

    def tensor(self, shape, dtype):
        tensor = torch.from_numpy(np.asarray(self.rng.integers(0, 100, tuple(shape)))).to(dtype)
        if tensor.ndim > 1 and self.int(0, 3) == 0:
            return tensor.transpose(0, -1).contiguous().transpose(0, -1)
        return tensor

    def x(self, least=0, most=4):
        return self.tensor(self.shape(least, most), self.pick(*DTYPES))

    def dim(self, x):
        return self.int(-x.ndim, x.ndim) if x.ndim else self.int(-1, 1)

    def indices(self, size, shape, least=0):
        """Indices, now and then one that is out of range."""
        end = max(size + (self.int(0, 20) == 0), 1)
        return torch.from_numpy(np.asarray(self.rng.integers(least, end, tuple(shape))))

    def different(self, size, count):
        return torch.from_numpy(self.rng.permutation(size)[:count].astype(np.int64))

    def mask(self, shape):
        return torch.from_numpy(np.asarray(self.rng.random(tuple(shape)) < 0.5))

    def either(self, function, *tensors):
        """A function of tensors of which the last is an argument or a constant."""
        if self.int(0, 2):
            return function, *tensors
        *rest, last = tensors
        return lambda *given: function(*given, last), *rest


def sizes(x, dim, size):
    return [size if k == dim % x.ndim else n for k, n in enumerate(x.shape)]


def scatter(draw):
    x = draw.x(1)
    dim = draw.dim(x)
    shape = [draw.int(0, n + 1) for n in x.shape]
    shape[dim] = min(shape[dim], x.shape[dim])
    index = draw.different(x.shape[dim], shape[dim]).reshape([-1 if k == dim % x.ndim else 1 for k in range(x.ndim)])
    src = draw.tensor([n + draw.int(0, 2) for n in shape], x.dtype)
    if draw.int(0, 4) == 0:
        return lambda x, i: x.scatter(dim, i, 1), x, index.expand(shape)
    return draw.either(lambda x, src, i: x.scatter(dim, i, src), x, src, index.expand(shape))


def index_copy(draw):
    x = draw.x()
    dim = draw.dim(x)
    size = x.shape[dim] if x.ndim else 1
    index = draw.different(size, draw.int(0 if x.ndim else 1, size + 1))
    source = draw.tensor(sizes(x, dim, len(index)) if x.ndim else [1] * len(index), x.dtype)
    return draw.either(lambda x, s, i: x.index_copy(dim, i, s), x, source, index)


def index_fill(draw):
    x = draw.x(1)
    dim = draw.dim(x)
    value = draw.pick(1, torch.ones((), dtype=x.dtype))
    index = draw.indices(x.shape[dim], draw.shape(1, 1) if x.shape[dim] else [0], -x.shape[dim])
    return draw.either(lambda x, i: torch.index_fill(x, dim, i, value), x, index)


def index_put(draw):
    x = draw.tensor([3, 4, 2], draw.pick(*DTYPES))
    rows = draw.different(3, draw.int(1, 4))
    index = draw.pick(
        [rows],
        [rows - 3, rows],
        [rows, rows[:1] + 1, -1 - rows[:1] % 2],
        [draw.mask([3, 4])],
        [draw.mask([3]), rows[:1]],
    )
    values = draw.tensor(x[tuple(index)].shape, x.dtype)
    values = draw.pick(values, values[:1], values[..., :1])
    if draw.int(0, 2) or index[0].dtype is torch.bool:
        return lambda x, v: x.index_put(index, v), x, values
    return lambda x, v, *index: torch.index_put(x, index, v), x, values, *index


def put(draw):
    x = draw.x()
    index = draw.different(x.numel(), draw.int(0, x.numel() + 1))
    index = index - x.numel() * draw.int(0, 2)
    return draw.either(lambda x, s, i: x.put(i, s), x, draw.tensor(index.shape, x.dtype), index)


def slice_scatter(draw):
    x = draw.x(1)
    dim, ends = draw.dim(x), (draw.pick(None, draw.int(-7, 7)), draw.pick(None, draw.int(-7, 7)), draw.int(1, 4))
    count = len(range(x.shape[dim])[slice(*ends)])
    src = draw.tensor(sizes(x, dim, count), x.dtype)
    return lambda x, s: torch.slice_scatter(x, s, dim, *ends), x, src


def select_scatter(draw):
    x = draw.x(1)
    dim = draw.dim(x)
    index = draw.int(-x.shape[dim] - 1, x.shape[dim] + 1)
    src = draw.tensor([n for k, n in enumerate(x.shape) if k != dim % x.ndim], x.dtype)
    return lambda x, s: torch.select_scatter(x, s, dim, index), x, src


def diagonals(draw):
    x = draw.x(2)
    one, other = (int(n) for n in draw.rng.permutation(x.ndim)[:2])
    offset = draw.int(-5, 6)
    src = draw.tensor(torch.diagonal(x, offset, one, other).shape, x.dtype)
    return (
        lambda x, s: (
            torch.diagonal_scatter(x, s, offset, one, other),
            x.diagonal(offset, one - x.ndim, other),
            torch.linalg.diagonal(x, offset=offset),
        ),
        x,
        src,
    )


def diag_embed(draw):
    x = draw.x(1, 3)
    one, other = (int(n) for n in draw.rng.permutation(x.ndim + 1)[:2])
    offset = draw.int(-3, 4)
    return lambda x: (torch.diag_embed(x, offset, one, other), x.diagflat(offset), torch.diag_embed(x)), x


def diag(draw):
    x, offset = draw.x(1, 2), draw.int(-3, 4)
    return lambda x: torch.diag(x, offset), x


def triangles(draw):
    x, k = draw.x(2), draw.int(-6, 7)
    return lambda x: (x.tril(k), torch.triu(x, k), x.mT.triu()), x


def masked(draw):
    x = draw.x()
    mask = draw.mask(x.shape[draw.int(0, x.ndim + 1) :])
    source = draw.tensor([x.numel() + draw.int(0, 2)], x.dtype)
    value = draw.pick(1, torch.ones((), dtype=x.dtype))
    if draw.int(0, 3) == 0:
        return lambda x, s: x.masked_scatter(mask, s), x, source
    return draw.either(lambda x, m: (x.masked_fill(m, value), torch.where(m, x, x[..., :1] if x.ndim else x)), x, mask)


def narrow(draw):
    x = draw.x(1)
    dim = draw.dim(x)
    length = draw.int(0, x.shape[dim] + 1)
    start = torch.tensor(draw.int(0, x.shape[dim] - length + 1))
    return lambda x, s: (torch.narrow(x, dim, s, length), x.narrow(dim, s, length)), x, start


def windows(draw):
    x = draw.x()
    dim = draw.dim(x)
    size = x.shape[dim] if x.ndim else 1
    length, step = draw.int(0, size + 1), draw.int(1, 4)
    return lambda x: (x.unfold(dim, length, step), torch.cat([x, x], dim).unfold(dim, length, step) if x.ndim else x), x


def nearest(draw):
    rank = draw.int(1, 4)
    x = draw.tensor([draw.int(1, 3), draw.int(1, 3), *(draw.int(1, 6) for _ in range(rank))], torch.float32)
    mode = draw.pick("nearest", "nearest-exact")
    if draw.int(0, 2):
        size = [draw.int(1, 12) for _ in range(rank)]
        return lambda x: F.interpolate(x, size, mode=mode), x
    by = draw.pick(2, 3.0, [draw.pick(0.5, 1.3, 1.7, 2.0, 2.6, 3.0) for _ in range(rank)])
    again = draw.pick(None, True)
    return lambda x: F.interpolate(x, scale_factor=by, mode=mode, recompute_scale_factor=again), x


def pads(draw):
    x = draw.x(1)
    counts = [draw.int(-2, 4) for _ in range(2 * draw.int(1, x.ndim + 1))]
    value = draw.pick(0, 1)
    return lambda x: (torch.constant_pad_nd(x, counts, value), torch.constant_pad_nd(x, counts)), x


def grids(draw):
    dtype = draw.pick(*DTYPES)
    tensors = [draw.tensor(draw.shape(1, 1), dtype) for _ in range(draw.int(1, 4))]
    indexing = draw.pick("ij", "xy")
    return lambda *given: (
        *torch.meshgrid(*given, indexing=indexing),
        torch.cartesian_prod(*given),
        torch.block_diag(*given),
        torch.combinations(given[0], 3, True),
        torch.combinations(given[0]),
    ), *tensors


def one_hot(draw):
    x = draw.indices(4, draw.shape())
    return lambda x: F.one_hot(x, 4), x


def others(draw):
    x, dtype = draw.x(), draw.pick(*DTYPES)
    return lambda x: (
        torch.zeros_like(x, dtype=dtype),
        x.new_full((2,), 1, dtype=dtype),
        x.new_ones(3, 2),
        torch.fill(x, 1),
        torch.full_like(x, 1, dtype=dtype),
        x.new_zeros(2, 1, dtype=dtype),
    ), x


def copies(draw):
    x = draw.x(2)
    one, other = draw.dim(x), draw.dim(x)
    half = x.shape[one] // 2
    return lambda x: (
        torch.transpose_copy(x, one, other),
        torch.unsqueeze_copy(x, one),
        torch.squeeze_copy(x),
        *torch.unbind_copy(x, one),
        *torch.split_with_sizes_copy(x, [half, x.shape[one] - half], one),
        torch.narrow_copy(x, one, half, x.shape[one] - half),
        torch.diagonal_copy(x),
        torch.expand_copy(x, (2, *x.shape)),
        torch.view_copy(x, [-1]) if x.numel() else x,
        torch.permute_copy(x, [*range(x.ndim)][::-1]),
        torch.alias_copy(x),
        torch.slice_copy(x, one, 1),
        torch.select_copy(x, one, 0) if x.shape[one] else x,
        torch.unfold_copy(x, one, half, 1),
    ), x


def along(draw):
    x = draw.x(1)
    dim = draw.dim(x)
    size = x.shape[dim]
    # Beyond that PyTorch takes remainders on the CPU, and refuses on GPUs.
    index = torch.from_numpy(draw.rng.integers(-size, max(size, 1), sizes(x, dim, draw.int(0, 4))))
    return draw.either(lambda x, i: torch.take_along_dim(x, i, dim), x, index)


def retyped(draw):
    x = draw.tensor(draw.shape(), torch.float32)
    return lambda x: x.view(torch.int32).T if x.ndim == 2 else x.view(torch.int32), x


WORDS = [
    *(along, copies, diag, diag_embed, diagonals, grids, index_copy, index_fill, index_put, masked, narrow, nearest),
    *(one_hot, others, pads, put, retyped, scatter, select_scatter, slice_scatter, triangles, windows),
]


def contents(tensor):
    packed = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.reshape(-1))
    return tensor.shape, tensor.dtype, packed.view(torch.uint8).numpy().tobytes()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.__name__)
def test_words(word):
    done = 0
    for number in range(CALLS):
        function, *tensors = word(Draw([42, *word.__name__.encode(), number]))
        try:
            expected = function(*tensors)
        except REFUSED:
            with pytest.raises((dml.FuseError, IndexError)):
                dml.fuse(function)(*tensors)
            continue
        found = dml.fuse(function)(*tensors)
        pairs = [(found, expected)] if isinstance(expected, torch.Tensor) else zip(found, expected, strict=True)
        for k, (one, other) in enumerate(pairs):
            assert contents(one) == contents(other), (number, k, tensors, one, other)
        assert list(dml.fuse(function).lower(*tensors).problems()) == []
        done += 1
    assert done > CALLS // 2


def test_results_of_other_dtypes_go_to_out():
    def function(x):
        return x.flip(0), torch.zeros_like(x, dtype=torch.float64), x.new_ones(2, dtype=torch.bfloat16)

    x, fused = torch.arange(3.0), dml.fuse(function)
    out = torch.empty(3), torch.empty(3, dtype=torch.float64), torch.empty(2, dtype=torch.bfloat16)
    assert fused(x, out=out) is out
    for one, other in zip(out, function(x), strict=True):
        assert contents(one) == contents(other)
    for k, wrong in enumerate((torch.float64, torch.float32, torch.int16)):
        given = [*out]
        given[k] = torch.empty_like(out[k], dtype=wrong)
        with pytest.raises(dml.BindingError, match=rf"out\[{k}\] is"):
            fused(x, out=tuple(given))


ON_SCALARS = {
    "flipud": torch.flipud,
    "fliplr": torch.fliplr,
    "fliplr of a row": lambda x: torch.fliplr(x[None]),
    "roll": lambda x: torch.roll(x, 1),
    "roll along 0": lambda x: torch.roll(x, 1, 0),
    "roll along -1": lambda x: x.roll((1,), (-1,)),
    "rot90": torch.rot90,
    "flip": lambda x: torch.flip(x, [0]),
    "flip none": lambda x: torch.flip(x, []),
    "narrow from -5": lambda x: torch.narrow(x.expand(4), 0, torch.tensor(-5), 2),
    "narrow from -2": lambda x: torch.narrow(x.expand(4), 0, torch.tensor(-2), 2),
    "narrow from 3": lambda x: x.expand(4).narrow(0, 3, 2),
}


@pytest.mark.parametrize("name", ON_SCALARS)
def test_tensors_without_dimensions(name):
    function, x = ON_SCALARS[name], torch.tensor(3.0)
    try:
        expected = function(x)
    except (RuntimeError, IndexError):
        with pytest.raises((dml.FuseError, IndexError)):
            dml.fuse(function)(x)
    else:
        assert torch.equal(dml.fuse(function)(x), expected)


def test_a_traced_start_is_in_range():
    narrowed = lambda x, start: torch.narrow(x, 1, start, 2)  # noqa: E731
    x, fused = torch.arange(12.0).reshape(3, 4), dml.fuse(narrowed)
    for start in range(3):
        assert torch.equal(fused(x, torch.tensor(start)), narrowed(x, torch.tensor(start)))
    for start in (-5, -2, 3, 4):
        with pytest.raises(IndexError, match=f"index {start} in start is out of range"):
            fused(x, torch.tensor(start))
