"""One call of each operator and more, each with what PyTorch's own operators make of the same tensors."""

import dataclasses
import itertools
from collections.abc import Callable

import numpy as np
import torch
from torch.utils._pytree import tree_leaves, tree_map

import anydml.torch  # noqa: F401  # it registers the operators


@dataclasses.dataclass(frozen=True, eq=False)
class Case:
    """``torch.ops.anydml.<name>(*arguments)`` and ``expected(*arguments)``, which is PyTorch's own way.

    Strings stand for tensors: ``"3x6"`` is one of these sizes.
    """

    name: str
    arguments: tuple
    expected: Callable

    @property
    def operator(self):
        return getattr(torch.ops.anydml, self.name)

    def make(self, dtype=torch.float64, requires_grad=False):
        """The arguments, with new tensors of one dtype."""
        generator = torch.Generator().manual_seed(7)

        def tensor(leaf):
            if not isinstance(leaf, str) or "x" not in leaf or not leaf[0].isdigit():
                return leaf
            shape = [int(n) for n in leaf.split("x") if n]
            values = torch.randint(-99, 99, shape, generator=generator).to(dtype).requires_grad_(requires_grad)
            values.is_data = True
            return values

        return tree_map(tensor, self.arguments)

    def __str__(self):
        return f"{self.name}-{CASES.index(self)}"


def window(x, offsets, sizes, strides, output_sizes=None):
    """SLICE1 by indexing one dimension after the other."""
    for d, (offset, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True)):
        first = offset if stride > 0 else offset + size - 1
        places = list(range(first, offset + size if stride > 0 else offset - 1, stride)) if size else []
        count = len(places) if output_sizes is None else output_sizes[d]
        x = x.index_select(d, torch.tensor(places[:count], dtype=torch.int64))
    return x


def strided(x, offsets, sizes, strides):
    """SLICE by indexing."""
    return x[
        tuple(slice(o, o + (n - 1) * s + 1 if n else o, s) for o, n, s in zip(offsets, sizes, strides, strict=True))
    ]


def laid(x, sizes, starts, steps):
    """The gradient of SLICE1 by index_put, one coordinate for each element."""
    places = [start + step * torch.arange(size) for start, step, size in zip(starts, steps, x.shape, strict=True)]
    return x.new_zeros(sizes).index_put(torch.meshgrid(*places, indexing="ij"), x)


def picked(x, indices, axis=0, out_of_range="error"):
    """GATHER by index_select, with indices resolved one by one in Python."""
    axis %= x.ndim
    size = x.shape[axis]
    resolved = [min(max(i + size if i < 0 else i, 0), size - 1) for i in indices.reshape(-1).tolist()]
    flat = x.index_select(axis, torch.tensor(resolved, dtype=torch.int64))
    return flat.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def parts(x, split, axis=0, num_outputs=None):
    """SplitTraining by torch.split."""
    sizes = split.tolist() or [x.shape[axis] // num_outputs] * num_outputs
    return torch.split(x, sizes, axis)


def joined(arrays, axis=0):
    """ConcatTraining by torch.cat."""
    return torch.cat(arrays, axis), torch.tensor([array.shape[axis] for array in arrays])


def padded(x, pads, mode="constant", value=0):
    """PAD by torch.nn.functional.pad, or by index_select of one dimension after the other."""
    starts, ends = pads[: x.ndim], pads[x.ndim :]
    if mode == "constant":
        around = [n for pair in reversed([*zip(starts, ends, strict=True)]) for n in pair]
        return torch.nn.functional.pad(x, around, value=value)
    for d, (start, end) in enumerate(zip(starts, ends, strict=True)):
        places = np.pad(np.arange(x.shape[d]), (start, end), mode)
        x = x.index_select(d, torch.from_numpy(places))
    return x


def repeated(x, repeats, axis=None):
    """REPEAT by repeat_interleave."""
    return x.repeat_interleave(repeats[0] if len(repeats) == 1 else torch.tensor(repeats), axis)


def wrapped(indices, size):
    """Negative indices counted from the end."""
    return torch.where(indices < 0, indices + size, indices)


def hot(indices, values, depth, axis, out_of_range):
    """ONE_HOT by comparing with every position."""
    at = wrapped(indices, depth).unsqueeze(axis)
    shape = [1] * at.ndim
    shape[axis] = depth
    return torch.where(torch.arange(depth).reshape(shape) == at, values[1], values[0])


def put(x, indices, updates):
    """SCATTER_ND by index_put."""
    return x.index_put(tuple(indices.unbind(-1)), updates)


def grad_of_slice(x, sizes, offsets, window, strides):
    """SLICE_GRAD by index_put."""
    each = zip(offsets, window, strides, strict=True)
    return laid(x, sizes, [o if s > 0 else o + n - 1 for o, n, s in each], strides)


def to_depth(x, block, order="depth_column_row"):
    """SPACE_TO_DEPTH by reshape and permute."""
    n, c, h, w = x.shape
    split = x.reshape(n, c, h // block, block, w // block, block)
    axes = (0, 3, 5, 1, 2, 4) if order == "depth_column_row" else (0, 1, 3, 5, 2, 4)
    return split.permute(axes).reshape(n, c * block**2, h // block, w // block)


def to_space(x, block, order="depth_column_row"):
    """DEPTH_TO_SPACE by reshape and permute."""
    n, c, h, w = x.shape
    if order == "depth_column_row":
        split, axes = x.reshape(n, block, block, c // block**2, h, w), (0, 3, 4, 1, 5, 2)
    else:
        split, axes = x.reshape(n, c // block**2, block, block, h, w), (0, 1, 4, 2, 5, 3)
    return split.permute(axes).reshape(n, c // block**2, h * block, w * block)


def scaled(x, scales):
    """UPSAMPLE by repeat_interleave."""
    for d, scale in enumerate(scales):
        x = x.repeat_interleave(scale, d)
    return x


def windows(x, window, strides=None, dilations=None, pads=None):
    """UNFOLD by slicing."""
    rank = len(window)
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    x = padded(x, [0, 0, *pads[:rank], 0, 0, *pads[rank:]])
    columns = []
    for at in itertools.product(*map(range, window)):
        view = x
        for d, k in enumerate(at):
            last = (x.shape[2 + d] - dilations[d] * (window[d] - 1) - 1) // strides[d] + 1
            view = view.narrow(2 + d, k * dilations[d], (last - 1) * strides[d] + 1)
            view = view[(slice(None),) * (2 + d) + (slice(None, None, strides[d]),)]
        columns.append(view.reshape(*x.shape[:2], -1))
    return torch.stack(columns, 2).reshape(x.shape[0], -1, columns[0].shape[-1])


def odd_numbers(x, start, delta):
    """1, 3, 5 … and a gradient of 0."""
    numbers = torch.arange(start, start + delta * x.numel(), delta, dtype=x.dtype).reshape(x.shape)
    return torch.where(torch.zeros(x.shape, dtype=bool), x, numbers)


def turned(x, lengths):
    """Rows whose first elements are flipped."""
    counts = [n + x.shape[1] + 1 if n < 0 else n for n in lengths[:, 0].tolist()]
    return torch.stack([torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(x, counts, strict=True)])


I64 = torch.int64
CASES = [
    Case("split", ("3x6", [1, 2, 3], -1), torch.split),
    Case("split", ("4x5", [4]), torch.split),
    Case("split", ("2x6x3", [0, 6, 0], 1), torch.split),
    Case("join", (["2x3", "4x3", "1x3"],), torch.cat),
    Case("join", (["2x3x2", "2x0x2", "2x1x2"], -2), torch.cat),
    Case("slice", ("4x6", [1, 0], [2, 3], [1, 2]), strided),
    Case("slice", ("4x6", [4, 0], [0, 6], [1, 1]), strided),
    Case("slice1", ("3x6", [0, 1], [3, 5], [2, -2]), window),
    Case("slice1", ("3x6", [1, 0], [2, 6], [-1, -4], [1, 2]), window),
    Case("slice1", ("3x6", [1, 2], [0, 4], [1, 3]), window),
    Case("gather", ("4x3", torch.tensor([[0, -1], [99, 2]]), 0, "clamp"), picked),
    Case("gather", ("4x3", torch.tensor([2, 2, 2, -3], dtype=torch.int32), 1), picked),
    Case("gather", ("4x3x2", torch.tensor(-(2**63), dtype=I64), -2, "clamp"), picked),
    Case("gather", ("4x3", torch.tensor([1, 2**64 - 1], dtype=torch.uint64), 1, "clamp"), picked),
    Case("gather", ("4x3", torch.tensor([0, 1, -4])), picked),
    Case("lay_into_zeros", ("2x3", [5, 8], [1, 7], [2, -3]), laid),
    Case("lay_into_zeros", ("2x1x2", [3, 4, 6], [2, 3, 0], [-2, 1, 5]), laid),
    Case("split_training", ("3x6", torch.tensor([1, 2, 3]), 1), parts),
    Case("split_training", ("6x2", torch.tensor([], dtype=I64), 0, 3), parts),
    Case("concat_training", (["2x3", "4x3"],), joined),
    Case("concat_training", (["2x3", "2x1", "2x0"], 1), joined),
    Case("tile", ("2x3", [2, 1, 2]), torch.tile),
    Case("pad", ("2x3", [1, 0, 0, 2]), padded),
    Case("pad", ("2x3", [3, 0, 0, 4], "reflect"), padded),
    Case("permute_dims", ("2x3x2", [2, 0, 1]), torch.permute),
    Case("flip", ("2x3", [1]), torch.flip),
    Case("roll", ("2x3", [1, -1], [0, 1]), torch.roll),
    Case("repeat", ("2x3", [2], 1), repeated),
    Case("repeat", ("2x3", [2, 0, 1], 1), repeated),
    Case("repeat", ("2x3", [3]), repeated),
    Case("roll", ("2x3", [-4]), torch.roll),
    Case("join", (["2x3", "4x", "1x2"], None), lambda arrays, _: torch.cat([x.reshape(-1) for x in arrays])),
    Case("upsample", ("2x3", [2, 3]), scaled),
    Case("broadcast_to", ("2x1", [3, 2, 2]), torch.broadcast_to),
    Case("stack", (["2x3", "2x3"], 1), torch.stack),
    Case("gather_elements", ("4x3", torch.tensor([[0, 1], [3, 3]]), 0), lambda x, i, axis: x.gather(axis, i)),
    Case("scatter", ("4x3", torch.tensor([[0, 1], [3, 2]]), "2x2", 0), lambda x, i, u, axis: x.scatter(axis, i, u)),
    Case("gather_nd", ("4x3", torch.tensor([[0, 1], [3, -1], [3, -1]])), lambda x, i: x[tuple(i.unbind(-1))]),
    Case("scatter_nd", ("4x3", torch.tensor([[0], [-1]]), "2x3"), put),
    Case("one_hot", (torch.tensor([[0, 2], [-1, 9]]), "2x", 3, 1, "skip"), hot),
    Case("diagonal_matrix", ("2x3x4", 0, -1, 1), lambda x, value, *band: x - x.tril(0).triu(-1)),
    Case("tril", ("2x3x4", -1), torch.tril),
    Case("triu", ("2x3x4", 1), torch.triu),
    Case("slice_grad", ("2x3", [5, 8], [1, 1], [3, 7], [2, -3]), grad_of_slice),
    Case("space_to_depth", ("1x2x4x2", 2), to_depth),
    Case("depth_to_space", ("1x8x1x2", 2, "column_row_depth"), to_space),
    Case("reverse_subsequences", ("2x3", torch.tensor([[2], [-1]])), turned),
    Case(
        "fill", ("2x3", 0), lambda x, value: torch.where(torch.zeros(x.shape, dtype=bool), x, torch.full_like(x, value))
    ),
    Case("sequence", ("2x3", 1, 2), odd_numbers),
    Case("where", (torch.tensor([[True], [False]]), "2x3", "3x"), torch.where),
    Case("unfold", ("1x2x3x4", [2, 2], [1, 2], [1, 1], [0, 1, 1, 0]), windows),
]


def leaves(result):
    """All tensors of a result."""
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def data_of(arguments):
    """The tensors that a case has made: those that have gradients, and no indices."""
    return [leaf for leaf in leaves(arguments) if hasattr(leaf, "is_data")]


def with_data(arguments, change):
    """The same arguments, with each tensor of data changed; indices and sizes stay."""
    data = data_of(arguments)
    return tree_map(lambda leaf: change(leaf) if any(leaf is one for one in data) else leaf, arguments)


def of_data(case, arguments):
    """A function of the data tensors alone that gives the floating results, and these tensors."""

    def call(*tensors):
        given = iter(tensors)
        changed = with_data(arguments, lambda _: next(given))
        return tuple(leaf for leaf in leaves(case.operator(*changed)) if leaf.is_floating_point())

    return call, data_of(arguments)


def same(result, expected):
    """The same tensors, bit for bit."""
    result, expected = leaves(result), leaves(expected)
    assert len(result) == len(expected)
    for a, b in zip(result, expected, strict=True):
        assert (a.dtype, a.shape, a.device) == (b.dtype, b.shape, b.device)
        assert torch.equal(bits(a), bits(b))


def bits(tensor):
    """Elements that can be compared, for dtypes whose elements cannot."""
    if tensor.dtype.itemsize == 8 or tensor.dtype.is_complex or tensor.dtype is torch.float32:
        return tensor
    return tensor.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.dtype.itemsize])
