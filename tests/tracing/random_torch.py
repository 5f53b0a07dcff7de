"""Random PyTorch programs of a few steps: lists of plain instructions, which run eagerly and traced alike."""

import itertools

import numpy as np
import torch
import torch.nn.functional as F

MOST = 500
"""Elements above which a program grows no further."""

DTYPES = (torch.uint8, torch.int16, torch.int64, torch.bfloat16, torch.float32, torch.complex64)


class Program:
    """A random program. Each step is a function of the last value and of the arguments.

    Attributes:
        tensors: the arguments.
        steps: names and functions.
        expected: what it gives, eagerly.
    """

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.tensors, self.steps = [], []
        self.dtype = DTYPES[rng.integers(len(DTYPES))]
        value = self.argument([int(n) for n in rng.choice([1, 2, 3, 4, 6], int(rng.integers(1, 5)))])(self.tensors)
        names = sorted(name for name in dir(self) if name.startswith("step_"))
        for _ in range(int(rng.integers(2, 9))):
            name = str(rng.choice(names))
            step = getattr(self, name)(value)
            if step is None:
                continue
            after = step(value, self.tensors)
            if after.numel() > MOST or after.ndim > 6 or not after.numel():
                continue
            value = after
            self.steps.append((name[5:], step))
        self.expected = value

    def __call__(self, tensors):
        value = tensors[0]
        for _, step in self.steps:
            value = step(value, tensors)
        return value

    def numbers(self, shape):
        return torch.from_numpy(self.rng.integers(0, 120, shape)).to(self.dtype)

    def argument(self, shape):
        tensor = self.numbers(shape)
        if tensor.ndim > 1 and self.rng.random() < 0.3:
            tensor = tensor.transpose(0, 1).contiguous().transpose(0, 1)
        if tensor.ndim and self.rng.random() < 0.2:
            tensor = tensor.repeat_interleave(2, -1)[..., ::2]
        number = len(self.tensors)
        self.tensors.append(tensor)
        return lambda tensors: tensors[number]

    def other(self, shape):
        """An argument or a constant."""
        if self.rng.random() < 0.6:
            return self.argument(shape)
        constant = self.numbers(shape)
        return lambda tensors: constant

    def indices(self, size, shape):
        """Indices inside a dimension, as an argument or a constant."""
        index = torch.from_numpy(self.rng.integers(0, size, shape))
        if self.rng.random() < 0.3:
            return lambda tensors: index
        number = len(self.tensors)
        self.tensors.append(index)
        return lambda tensors: tensors[number]

    def dim(self, value):
        return int(self.rng.integers(-value.ndim, value.ndim)) if value.ndim else None

    def pick(self, *ways):
        return ways[self.rng.integers(len(ways))]

    def step_cat(self, value):
        if (dim := self.dim(value)) is None:
            return None
        shape = [*value.shape]
        shape[dim] = int(self.rng.integers(1, 4))
        other = self.other(shape)
        make = self.pick(torch.cat, torch.concat)
        if self.rng.random() < 0.5:
            return lambda x, tensors: make([x, other(tensors)], dim)
        return lambda x, tensors: make((other(tensors), x, x), dim=dim)

    def step_stack(self, value):
        other, make = self.other(value.shape), self.pick(torch.stack, torch.hstack, torch.vstack, torch.dstack)
        if make is torch.stack:
            dim = int(self.rng.integers(-value.ndim - 1, value.ndim + 1))
            return lambda x, tensors: torch.stack([x, other(tensors)], dim)
        make = self.pick(make, torch.column_stack)
        return lambda x, tensors: make([x, other(tensors)])

    def step_chunk(self, value):
        if (dim := self.dim(value)) is None:
            return None
        count, size = int(self.rng.integers(1, 5)), int(self.rng.integers(1, 4))
        way = self.pick(
            lambda x: torch.chunk(x, count, dim),
            lambda x: x.chunk(count, dim=dim),
            lambda x: torch.split(x, size, dim),
            lambda x: x.split(size, dim=dim),
            lambda x: torch.tensor_split(x, count, dim),
            lambda x: x.tensor_split([1, 2], dim),
            lambda x: x.unbind(dim),
        )
        return lambda x, tensors: way(x)[-1] if way(x)[-1].numel() else way(x)[0]

    def step_split_joined(self, value):
        if (dim := self.dim(value)) is None:
            return None
        size = value.shape[dim]
        cuts = sorted(int(n) for n in self.rng.integers(0, size + 1, 2))
        sizes = [b - a for a, b in itertools.pairwise([0, *cuts, size])]
        return lambda x, tensors: torch.cat(x.split(sizes, dim)[::-1], dim)

    def step_narrow(self, value):
        if (dim := self.dim(value)) is None:
            return None
        size = value.shape[dim]
        start = int(self.rng.integers(0, size))
        length = int(self.rng.integers(1, size - start + 1))
        return self.pick(
            lambda x, tensors: torch.narrow(x, dim, start, length),
            lambda x, tensors: x.narrow(dim, start - size, length),
            lambda x, tensors: x.select(dim, start - size),
            lambda x, tensors: torch.select(x, dim, start),
        )

    def step_permute(self, value):
        dims = [int(d) for d in self.rng.permutation(value.ndim)]
        if not dims:
            return None
        a, b = self.dim(value), self.dim(value)
        return self.pick(
            lambda x, tensors: x.permute(dims),
            lambda x, tensors: x.permute(*dims),
            lambda x, tensors: torch.permute(x, dims),
            lambda x, tensors: x.transpose(a, b),
            lambda x, tensors: torch.swapaxes(x, a, b),
            lambda x, tensors: torch.movedim(x, a, b),
            lambda x, tensors: x.movedim(a, b),
            lambda x, tensors: x.mT if x.ndim > 1 else x,
        )

    def step_view(self, value):
        count, sizes = value.numel(), []
        while count > 1 and len(sizes) < 4:
            factor = int(self.rng.choice([n for n in range(1, count + 1) if count % n == 0]))
            sizes.append(factor)
            count //= factor
        sizes.append(count)
        if self.rng.random() < 0.4:
            sizes[int(self.rng.integers(len(sizes)))] = -1
        return self.pick(
            lambda x, tensors: x.contiguous().view(sizes),
            lambda x, tensors: x.contiguous().view(*sizes),
            lambda x, tensors: torch.reshape(x, sizes),
            lambda x, tensors: x.reshape(tuple(sizes)),
        )

    def step_flatten(self, value):
        first = int(self.rng.integers(0, max(value.ndim, 1)))
        last = int(self.rng.integers(first, max(value.ndim, 1)))
        return self.pick(
            lambda x, tensors: torch.flatten(x, first, last),
            lambda x, tensors: x.flatten(start_dim=first),
            lambda x, tensors: x.ravel(),
        )

    def step_unflatten(self, value):
        if (dim := self.dim(value)) is None:
            return None
        factor = int(self.rng.choice([n for n in range(1, value.shape[dim] + 1) if value.shape[dim] % n == 0]))
        make = self.pick(torch.unflatten, torch.Tensor.unflatten)
        if make is torch.unflatten:
            return lambda x, tensors: torch.unflatten(x, dim, (factor, -1))
        return lambda x, tensors: x.unflatten(dim, [-1, factor])

    def step_squeeze(self, value):
        dim, new = self.dim(value), int(self.rng.integers(-value.ndim - 1, value.ndim + 1))
        return self.pick(
            lambda x, tensors: x.squeeze(),
            lambda x, tensors: x if dim is None else torch.squeeze(x, dim),
            lambda x, tensors: torch.unsqueeze(x, new),
            lambda x, tensors: x.unsqueeze(new),
            lambda x, tensors: x[..., None],
        )

    def step_flip(self, value):
        if not value.ndim:
            return None
        dims = [int(d) for d in self.rng.permutation(value.ndim)[: int(self.rng.integers(1, value.ndim + 1))]]
        shift = int(self.rng.integers(-7, 8))
        return self.pick(
            lambda x, tensors: torch.flip(x, dims),
            lambda x, tensors: x.flip(*dims),
            lambda x, tensors: torch.roll(x, shift),
            lambda x, tensors: x.roll(shift, dims[0]),
            lambda x, tensors: torch.roll(x, tuple(shift + k for k in range(len(dims))), tuple(dims)),
            lambda x, tensors: torch.rot90(x, shift, dims[:2]) if len(dims) > 1 else x,
        )

    def step_index_select(self, value):
        if (dim := self.dim(value)) is None:
            return None
        index = self.indices(value.shape[dim], [int(self.rng.integers(1, 5))])
        return self.pick(
            lambda x, tensors: torch.index_select(x, dim, index(tensors)),
            lambda x, tensors: x.index_select(dim, index(tensors)),
        )

    def step_gather(self, value):
        if (dim := self.dim(value)) is None:
            return None
        shape = [int(self.rng.integers(1, n + 1)) for n in value.shape]
        whole = [*value.shape]
        shape[dim] = whole[dim] = int(self.rng.integers(1, 4))
        index, along = self.indices(value.shape[dim], shape), self.indices(value.shape[dim], whole)
        return self.pick(
            lambda x, tensors: torch.gather(x, dim, index(tensors)),
            lambda x, tensors: x.gather(dim, index(tensors)),
            lambda x, tensors: torch.take_along_dim(x, along(tensors), dim),
        )

    def step_embedding(self, value):
        if value.ndim != 2 or not value.shape[0]:
            return None
        ids = self.indices(value.shape[0], [int(n) for n in self.rng.integers(1, 4, int(self.rng.integers(1, 3)))])
        return lambda x, tensors: F.embedding(ids(tensors), x)

    def step_take(self, value):
        ids = self.indices(value.numel(), [int(n) for n in self.rng.integers(1, 4, 2)])
        return lambda x, tensors: torch.take(x, ids(tensors))

    def step_index(self, value):
        items = []
        for size in value.shape:
            start = int(self.rng.integers(-size, size))
            stop = None if self.rng.random() < 0.5 else int(self.rng.integers(-size, size + 2))
            items.append(start if self.rng.random() < 0.2 else slice(start, stop, int(self.rng.integers(1, 4))))
        if items and self.rng.random() < 0.3:
            items[int(self.rng.integers(len(items)))] = ...
        if value.ndim and self.rng.random() < 0.4:
            axis = int(self.rng.integers(value.ndim))
            picks = self.indices(value.shape[axis], [2, 3])
            return lambda x, tensors: x[(slice(None),) * axis + (picks(tensors),)]
        return lambda x, tensors: x[tuple(items)]

    def step_pad(self, value):
        if not value.ndim:
            return None
        count = int(self.rng.integers(1, value.ndim + 1))
        pads = [int(n) for n in self.rng.integers(-1, 3, 2 * count)]
        if any(n + sum(pads[2 * k : 2 * k + 2]) <= 0 for k, n in enumerate(value.shape[::-1][:count])):
            return None
        number = int(self.rng.integers(0, 100))
        if self.dtype in (torch.float32, torch.complex64) and value.ndim in (2, 3) and self.rng.random() < 0.5:
            mode = str(self.rng.choice(["reflect", "replicate", "circular"]))
            most = value.shape[-1] - (mode == "reflect")
            near = [int(self.rng.integers(0, min(most, 3) + 1)) for _ in "ab"]
            return lambda x, tensors: F.pad(x, near, mode)
        return self.pick(
            lambda x, tensors: F.pad(x, pads),
            lambda x, tensors: torch.nn.functional.pad(x, pads, value=number),
        )

    def step_pixels(self, value):
        if value.ndim < 3:
            return None
        *_, channels, height, width = value.shape
        ways = [lambda x, tensors: F.channel_shuffle(x, x.shape[1])] if value.ndim == 4 else []
        if channels % 4 == 0:
            ways.append(lambda x, tensors: F.pixel_shuffle(x, 2))
        if not height % 2 and not width % 2:
            ways.append(lambda x, tensors: torch.pixel_unshuffle(x, 2))
        return self.pick(*ways) if ways else None

    def step_expand(self, value):
        lead = [int(n) for n in self.rng.integers(1, 3, int(self.rng.integers(0, 3)))]
        sizes = [3 if n == 1 and self.rng.random() < 0.6 else -1 for n in value.shape]
        known = [own if n == -1 else n for n, own in zip(sizes, value.shape, strict=True)]
        return self.pick(
            lambda x, tensors: x.expand(*lead, *sizes) if lead or sizes else x,
            lambda x, tensors: torch.broadcast_to(x, (*lead, *known)),
            lambda x, tensors: x.expand((*lead, *sizes)),
        )

    def step_repeat(self, value):
        counts = [int(n) for n in self.rng.choice([1, 1, 2, 3], value.ndim + int(self.rng.integers(0, 2)))]
        dim = self.dim(value)
        return self.pick(
            lambda x, tensors: x.repeat(*counts) if counts else x,
            lambda x, tensors: x.repeat(counts),
            lambda x, tensors: torch.tile(x, tuple(counts[-1:])),
            lambda x, tensors: torch.repeat_interleave(x, 2, dim=dim),
        )

    def step_copies(self, value):
        return self.pick(
            lambda x, tensors: x.contiguous(),
            lambda x, tensors: torch.clone(x),
            lambda x, tensors: x.detach().to(x.dtype),
            lambda x, tensors: torch.cat([x.flatten(), torch.zeros_like(x).flatten()]),
            lambda x, tensors: torch.stack([x, torch.full_like(x, 7)]),
            lambda x, tensors: torch.cat([x.reshape(-1), x.new_ones(3)]),
        )

    def step_unfold(self, value):
        if (dim := self.dim(value)) is None:
            return None
        size = int(self.rng.integers(1, value.shape[dim] + 1))
        step = int(self.rng.integers(1, 4))
        image = value.ndim == 4 and self.dtype == torch.float32 and min(value.shape[2:]) > 1
        if image and self.rng.random() < 0.7:
            return lambda x, tensors: F.unfold(x, 2, padding=1, stride=(1, 2))
        return lambda x, tensors: x.unfold(dim, size, step)
