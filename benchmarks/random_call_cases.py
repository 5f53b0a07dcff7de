"""The calls that `benchmarks.random_calls` draws: their arguments, and how everybody writes them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import anydml as dml
from benchmarks.family_calls import torch_module

TYPES = ("uint8", "int16", "float16", "float32", "int64", "float64", "complex128", "bool")

T = torch_module


class Call(NamedTuple):
    """A call.

    Attributes:
        about: its arguments.
        arrays: what everybody is given.
        ours: makes new results of NumPy's arrays, or of tensors; with `takes_out` also writes to ``out=``.
        numpy: likewise, in each way that may be the fastest; the first one's results are the right ones.
        torch: likewise, of tensors; empty where PyTorch has nothing like it.
    """

    about: Any
    arrays: list[Any]
    ours: Callable[..., Any]
    numpy: Sequence[Callable[..., Any]]
    torch: Sequence[Callable[..., Any]] = ()
    takes_out: bool = False


class Draw:
    """Decisions and arrays from one number; arrays have at most 2 to the power of `most` bytes."""

    def __init__(self, number: int, most: float) -> None:
        self.one, self.many, self.most = random.Random(number), np.random.default_rng(number), most

    def array(self, share: int, rank: int) -> tuple[str, Any]:
        """What an array is, and the array: random bytes, none of a NaN, in a random shape and layout."""
        dtype, pick = np.dtype(self.one.choice(TYPES)), self.one.random()
        size = 2 ** self.one.uniform(8, self.most) / dtype.itemsize / share
        cuts = [self.one.random() for _ in range(self.one.randint(rank, 5))]
        shape = [max(1, round(size ** (cut / sum(cuts)))) for cut in cuts]
        data = np.frombuffer(self.many.bytes(math.prod(shape) * dtype.itemsize), np.uint8)
        x, d = (data & (1 if dtype.kind == "b" else 63)).view(dtype).reshape(shape), self.one.randrange(len(shape))
        if pick < 0.25:
            order = self.one.sample(range(x.ndim), x.ndim)
            return f"{dtype}{shape} transposed to {order}", x.transpose(order)
        if pick < 0.5 and shape[d] >= 4:
            cut = slice(None, None, 2) if pick < 0.4 else slice(1, -1)
            return f"{dtype}{shape} {'every second' if pick < 0.4 else 'inside'} of axis {d}", x[at(d, cut)]
        return f"{dtype}{shape}", x

    def some(self, axes: int) -> Any:
        """One axis or several."""
        return self.one.sample(range(axes), self.one.randint(1, axes))


def at(axis: int, index: Any) -> Any:
    """An index of one axis."""
    return (*(slice(None),) * axis, index)


def copied(view: Any, out: Any = None) -> Any:
    """Packed copies of one view or several."""
    if isinstance(view, (list, tuple)):
        return [copied(each, out and out[k]) for k, each in enumerate(view)]
    if isinstance(view, np.ndarray):
        return view.copy() if out is None else np.copyto(out, view)
    return view.clone(memory_format=T().contiguous_format) if out is None else out.copy_(view)


def views(about: Any, x: Any, ours: Any, numpy: Any, torch: Any = None, *more: Any) -> Call:
    """What others do by copying views."""
    both = [lambda x, out=None, make=make: copied(make(x), out) for make in (numpy, torch or numpy)]
    return Call(about, [x], ours, both[:1], [both[1], *more], takes_out=True)


def put(y: Any, index: Any, values: Any) -> Any:
    """The array, after values are written to it."""
    y[index] = values
    return y


def put_along(y: Any, i: Any, values: Any, axis: int) -> Any:
    """Likewise along an axis."""
    np.put_along_axis(y, i, values, axis)
    return y


SIZES = {
    "slice_grad": (2, 1), "join": (2, 1), "concat_training": (2, 1), "stack": (2, 1), "where": (2, 1), "gather": (2, 1),
    "gather_nd": (2, 2), "scatter_nd": (2, 1), "repeat": (4, 1), "gather_elements": (8, 1), "scatter": (8, 1),
    "reverse_subsequences": (8, 1), "tile": (8, 1), "upsample": (8, 3), "space_to_depth": (8, 3),
    "depth_to_space": (8, 3), "broadcast_to": (16, 1), "nonzero_coordinates": (16, 1), "one_hot": (64, 1),
    "unfold": (64, 3), "diagonal_matrix": (1, 2), "fused": (2, 2), "tril": (1, 2), "triu": (1, 2),
}  # fmt: skip
"""The part of the most bytes that a function's arrays may have, and the fewest axes, where these are not 1."""

FUNCTIONS = (
    *("copy", "permute_dims", "flip", "roll", "slice", "slice1", "split", "split_training", "pad", "fill", "sequence"),
    *("compress", *SIZES),
)

PADDING = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "symmetric": "", "wrap": "circular"}
"""NumPy's modes, and PyTorch's where it has them."""

CHAINS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tril": (np.tril, lambda x: x.tril()),
    "swapped halves": (
        lambda x: np.concatenate([x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], -1),
        lambda x: T().cat([x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], -1),
    ),
    "transposed and padded": (
        lambda x: np.pad(np.swapaxes(x, -1, -2), 1),
        lambda x: T().nn.functional.pad(x.mT, [1] * 2 * x.ndim),
    ),
    "interleaved with its reverse": (
        lambda x: np.stack([x, x[..., ::-1]], -1).reshape(*x.shape[:-1], -1),
        lambda x: T().stack([x, x.flip(-1)], -1).flatten(-2),
    ),
}
"""What is fused, and how PyTorch writes it."""


def drawn(name: str, draw: Draw, x: Any, d: int) -> Call:
    """A call of a function: of this array, and where it has one, along this axis."""
    one, many, n, rank = draw.one, draw.many, x.shape[d], x.ndim
    ours: Any = getattr(dml, name, None)
    # What differs in type from case to case.
    numpy: Any
    torch: Any
    join: Any
    mode: Any
    times: Any
    given: Any
    order: Any
    cut: Any
    end: Any
    # Of one number for each line along the axis.
    flat = tuple(1 if k == d else size for k, size in enumerate(x.shape))
    match name:
        case "copy":
            return views("", x, ours, lambda x: x)
        case "permute_dims":
            order = one.sample(range(rank), rank)
            return views(order, x, partial(ours, axes=order), lambda x: x.transpose(order), lambda x: x.permute(order))
        case "flip":
            axes = draw.some(rank)
            numpy, torch = lambda x: np.flip(x, axes).copy(), lambda x: x.flip(axes)
            return Call(axes, [x], lambda x: ours(x, axes), [numpy], [torch])
        case "roll":
            axes = draw.some(rank)
            shifts = [one.randrange(x.shape[axis]) for axis in axes]
            d, cut = axes[0], x.shape[axes[0]] - shifts[0]
            numpy = [
                lambda x: np.roll(x, shifts, axes),
                lambda x: np.concatenate([x[at(d, slice(cut, None))], x[at(d, slice(cut))]], d),
            ][: 1 + (len(axes) == 1)]
            return Call([axes, shifts], [x], lambda x: ours(x, shifts, axes), numpy, [lambda x: x.roll(shifts, axes)])
        case "tril" | "triu":
            k = one.randrange(-x.shape[-1], x.shape[-1])
            numpy, torch = (lambda x, at=at: getattr(at, name)(x, k) for at in (np, T()))
            return Call(k, [x], lambda x: ours(x, k), [numpy], [torch])
        case "slice":
            steps = [one.choice([1, 1, 1, 2, 3]) for _ in x.shape]
            starts = [one.randrange(-(-m // 2)) for m in x.shape]
            sizes = [one.randint(1, -(-(m - a) // step)) for m, a, step in zip(x.shape, starts, steps, strict=True)]
            cut = tuple(slice(a, a + m * s, s) for a, m, s in zip(starts, sizes, steps, strict=True))
            return views(cut, x, lambda x, **out: ours(x, starts, sizes, steps, **out), lambda x: x[cut])
        case "slice1":
            step = one.choice([-3, -2, -1])
            steps, cut = [step if k == d else 1 for k in range(rank)], at(d, slice(None, None, step))
            chosen = T().arange(n - 1, -1, step)
            torch = [lambda x: x.index_select(d, chosen), lambda x: x.flip(d)][: 1 + (step == -1)]
            return Call(steps, [x], lambda x: ours(x, [0] * rank, x.shape, steps), [lambda x: x[cut].copy()], torch)
        case "slice_grad":
            step, start = one.choice([1, 2, 3]), one.choice([0, 1, 5])
            cut = at(d, slice(start, None, step))
            axes = [
                (start + m * step, start, m * step, step) if k == d else (m, 0, m, 1) for k, m in enumerate(x.shape)
            ]
            given = [*zip(*axes, strict=True)]
            numpy = [lambda x: put(np.zeros(given[0], x.dtype), cut, x)]
            return Call(given, [x], lambda x: ours(x, *given), numpy, [lambda x: put(x.new_zeros(given[0]), cut, x)])
        case "split" | "split_training":
            cuts = sorted(one.sample(range(1, n), min(n - 1, one.choice([1, 2, 3, 7, 15]))))
            sizes = [b - a for a, b in zip([0, *cuts], [*cuts, n], strict=True)]
            split, copy = (lambda x, f=f, **out: f(x, sizes, d, **out) for f in (ours, T().split_with_sizes_copy))
            return views([d, sizes], x, split, lambda x: np.split(x, cuts, d), lambda x: x.split(sizes, d), copy)
        case "join" | "concat_training" | "stack":
            count, d = one.choice([2, 3, 4, 8, 50, 1000]), one.randrange(rank + 1) if name == "stack" else d
            x = x[: max(1, len(x) * 2 // count)]
            functions = (dml.stack, np.stack, T().stack) if name == "stack" else (ours, np.concatenate, T().cat)
            join, numpy, torch = (lambda *x, f=f, **out: f(x, d, **out) for f in functions)
            # The second result of concat_training is no array.
            made = (lambda *x, **out: join(*x, **out)[0]) if name == "concat_training" else join
            x = [x, *(x.copy("K") for _ in range(count - 1))]
            return Call([count, x[0].shape, d], x, made, [numpy], [torch], takes_out=True)
        case "pad":
            mode, other = one.choice([*PADDING.items()])
            most = [3 if mode == "constant" else m - (mode == "reflect") for m in x.shape * 2]
            wide = [min(one.randint(0, 3), m) for m in most]
            pairs = [*zip(wide[:rank], wide[rank:], strict=True)]
            shape = [a + m + b for (a, b), m in zip(pairs, x.shape, strict=True)]
            inside = tuple(slice(a, a + m) for (a, _), m in zip(pairs, x.shape, strict=True))
            numpy = [lambda x: np.pad(x, pairs, mode), lambda x: put(np.zeros(shape, x.dtype), inside, x)]
            # PyTorch wants two more dimensions in its other modes, and pads three at most.
            first = 0 if mode == "constant" else next((k for k, pair in enumerate(pairs) if any(pair)), rank - 1)
            inverse = [width for pair in reversed(pairs[first:]) for width in pair]

            def padded(x: Any) -> Any:
                given = x if mode == "constant" else x.reshape(1, -1, *x.shape[first:])
                return T().nn.functional.pad(given, inverse, other).reshape(shape)

            torch = [padded] if other else []
            return Call([wide, mode], [x], lambda x: ours(x, wide, mode), numpy[: 1 + (mode == "constant")], torch)
        case "gather":
            i = many.integers(0, n, max(1, int(n * one.choice([0.1, 1, 2]))))
            # NumPy buffers a result that is given where it may have to raise.
            numpy = [lambda x, i, out=None: np.take(x, i, d, out, "raise" if out is None else "clip")]
            torch = [lambda x, i, **out: T().index_select(x, d, i, **out)]
            return Call([d, len(i)], [x, i], lambda x, i, **out: ours(x, i, d, **out), numpy, torch, takes_out=True)
        case "gather_elements":
            numpy, torch = lambda x, i: np.take_along_axis(x, i, d), lambda x, i: x.gather(d, i)
            return Call(d, [x, many.integers(0, n, x.shape)], lambda x, i: ours(x, i, d), [numpy], [torch])
        case "gather_nd":
            i = np.stack([many.integers(0, m, len(x)) for m in x.shape[: one.randint(1, 2)]], 1)
            numpy = torch = [lambda x, i: x[i[:, 0]] if i.shape[1] == 1 else x[i[:, 0], i[:, 1]]]
            return Call(i.shape, [x, i], ours, numpy, torch)
        case "scatter":
            # Each element once: which of several updates stays differs between libraries.
            i = np.moveaxis(many.permutation(n)[(None,) * (rank - 1)], -1, d) + many.integers(0, n, flat)
            runs = [lambda x, i, u: put_along(x.copy(), i, u, d)], [lambda x, i, u: x.scatter(d, i, u)]
            return Call(d, [x, i % n, np.roll(x, 1)], lambda *each: ours(*each, d), *runs)
        case "scatter_nd":
            count = max(1, int(len(x) * one.choice([0.1, 0.5, 1])))
            given = [x, many.permutation(len(x))[:count, None], np.roll(x, 1)[:count]]
            torch = [lambda x, i, u: x.index_put((i[:, 0],), u), lambda x, i, u: x.index_copy(0, i[:, 0], u)]
            return Call(count, given, ours, [lambda x, i, u: put(x.copy(), i[:, 0], u)], torch)
        case "tile":
            times = [one.choice([1, 1, 2, 3]) for _ in x.shape]
            numpy, torch = lambda x: np.tile(x, times), lambda x: x.repeat(times)
            return Call(times, [x], lambda x: ours(x, times), [numpy], [torch])
        case "repeat":
            times = one.choice([2, 3, 5])
            shape, end = [*x.shape[: d + 1], times, *x.shape[d + 1 :]], [*x.shape[:d], n * times, *x.shape[d + 1 :]]
            torch = [lambda x: x.repeat_interleave(times, d), lambda x: x.unsqueeze(d + 1).expand(shape).reshape(end)]
            return Call([d, times], [x], lambda x: ours(x, times, d), [lambda x: np.repeat(x, times, d)], torch)
        case "upsample":
            a, b = one.choice([1, 2, 3]), one.choice([2, 3])
            end, image, times = (*x.shape[:-2], x.shape[-2] * a, -1), (1, -1, *x.shape[-2:]), [*(1,) * (rank - 2), a, b]
            torch = [
                lambda x: T().nn.functional.interpolate(x.reshape(image), scale_factor=(a, b)).reshape(end),
                lambda x: x.repeat_interleave(a, -2).repeat_interleave(b, -1),
            ]
            return Call([a, b], [x], lambda x: ours(x, times), [lambda x: x.repeat(a, -2).repeat(b, -1)], torch)
        case "broadcast_to":
            shape, x = [one.choice([2, 5, 16]), *x.shape], x[at(d, slice(one.choice([1, None])))]
            made = partial(ours, shape=shape)
            return views(shape, x, made, lambda x: np.broadcast_to(x, shape), lambda x: x.expand(shape))
        case "where":
            c = many.random(one.choice([x.shape, x.shape, flat])) < 0.5
            numpy = [np.where, lambda c, x, y: put(y.copy(), c, x[c])] if c.shape == x.shape else [np.where]
            return Call(c.shape, [c, x, np.roll(x, 1)], ours, numpy, [T().where])
        case "diagonal_matrix":
            k, far, other = one.randint(-3, 3), 2**31 - 1, one.choice(["tril", "triu"])
            given = (k + 1, far) if other == "tril" else (-far, k)
            numpy, torch = (getattr(library, other) for library in (np, T()))
            return Call([other, k], [x], lambda x: ours(x, 0, *given), [lambda x: numpy(x, k)], [lambda x: torch(x, k)])
        case "one_hot":
            depth, values = one.choice([2, 10, 100]), np.array([0, 1], one.choice(["float32", "uint8", "int64"]))
            end = (*x.shape, depth)
            numpy = [lambda i, v: put_along(np.zeros(end, v.dtype), i[..., None], v[1], -1)]
            torch = [lambda i, v: v.new_zeros(end).scatter_(-1, i[..., None], 1)]
            return Call(end, [many.integers(0, depth, x.shape), values], lambda i, v: ours(i, v, depth), numpy, torch)
        case "reverse_subsequences":
            k = np.moveaxis(np.arange(n)[(None,) * (rank - 1)], -1, d)
            same = T().from_numpy(k)
            numpy = [lambda x, m: np.take_along_axis(x, np.where(k < m, m - 1 - k, k), d)]
            torch = [lambda x, m: x.gather(d, T().where(same < m, m - 1 - same, same).expand(x.shape))]
            return Call(d, [x, many.integers(0, n + 1, flat)], lambda x, m: ours(x, m, d), numpy, torch)
        case "compress":
            numpy = [lambda c, x: np.compress(c, x, d), lambda c, x: x[at(d, c)]]
            c = many.random(n) < one.choice([0.1, 0.5, 0.9])
            return Call(d, [c, x], lambda c, x: ours(c, x, d), numpy, numpy[1:])
        case "nonzero_coordinates":
            x = x * (many.random(x.shape) < one.choice([0.01, 0.5, 0.9])).astype(x.dtype)
            return Call("", [x], ours, [np.argwhere], [lambda x: x.nonzero()])
        case "fill":
            numpy, torch = lambda x: np.full(x.shape, 1, x.dtype), lambda x: x.new_full(x.shape, 1)
            return Call("", [x], lambda x: ours(x, 1), [numpy], [torch])
        case "sequence":
            y, count = np.empty(x.size, one.choice(["int32", "int64", "float64"])), x.size
            numpy, torch = (lambda x, f=f: f(count, dtype=x.dtype) for f in (np.arange, T().arange))
            return Call([count, y.dtype], [y], lambda x: ours(x, 0, 1), [numpy], [torch])
        case "space_to_depth" | "depth_to_space":
            b, (c, h, w) = one.choice([2, 3]), x.shape[-3:]
            to_space = name == "depth_to_space"
            x = np.tile(x.reshape(-1, c, h, w)[:1], (1, b * b, 1, 1) if to_space else (1, 1, b, b))
            cut, order = ((c, b, b, h, w), (0, 3, 1, 4, 2)) if to_space else ((c, h, b, w, b), (0, 2, 4, 1, 3))
            end = (1, c, h * b, w * b) if to_space else (1, c * b * b, h, w)
            numpy = [lambda x: x.reshape(cut).transpose(order).reshape(end)]
            torch = [lambda x: (T().pixel_shuffle if to_space else T().pixel_unshuffle)(x, b)]
            return Call([x.shape, b], [x], lambda x: ours(x, b, "column_row_depth"), numpy, torch)
        case "unfold":
            k, s = one.choice([2, 3]), one.choice([1, 2])
            x = np.tile(x.reshape(-1, *x.shape[-3:])[:1], (1, 1, 3, 3))
            order, end, windows = (
                (0, 1, 4, 5, 2, 3),
                (1, x.shape[1] * k * k, -1),
                np.lib.stride_tricks.sliding_window_view,
            )
            numpy = [lambda x: windows(x, (k, k), (2, 3))[:, :, ::s, ::s].transpose(order).reshape(end)]
            torch = [
                lambda x: x.unfold(2, k, s).unfold(3, k, s).permute(order).reshape(end),
                lambda x: T().nn.functional.unfold(x, k, stride=s),
            ]
            return Call([x.shape, k, s], [x], lambda x: ours(x, [k, k], [s, s]), numpy, torch)
    name = one.choice([*CHAINS])
    numpy, torch = CHAINS[name]
    return Call(name, [x], dml.fuse(numpy), [numpy], [torch])
