"""Random PyTorch programs with the words that put elements over others, and see windows."""

import numpy as np
import torch
from tracing import random_torch


class TorchProgram(random_torch.Program):
    """With more steps."""

    def step_masked(self, value):
        mask = torch.from_numpy(np.asarray(self.rng.random(tuple(value.shape)) < 0.5))
        other, number = self.other(value.shape), len(self.tensors)
        self.tensors.append(mask)
        return self.pick(
            lambda x, tensors: x.masked_fill(tensors[number], 1),
            lambda x, tensors: torch.where(tensors[number], x, other(tensors)),
            lambda x, tensors: torch.where(mask, other(tensors), x),
        )

    def step_scatter(self, value):
        if (dim := self.dim(value)) is None:
            return None
        index, part = self.indices(value.shape[dim], 1), self.other(value.shape)
        return self.pick(
            lambda x, tensors: x.index_copy(dim, index(tensors), part(tensors).narrow(dim, 0, 1)),
            lambda x, tensors: x.index_fill(dim, index(tensors), 0),
            lambda x, tensors: torch.select_scatter(x, part(tensors).select(dim, 0), dim, -1),
            lambda x, tensors: torch.slice_scatter(x, part(tensors)[::2].narrow(0, 0, 1), 0, 0, 1, 2),
        )

    def step_matrix(self, value):
        k = int(self.rng.integers(-2, 3))
        if value.ndim < 2:
            return lambda x, tensors: torch.diagflat(x, k)
        return self.pick(
            lambda x, tensors: torch.tril(x, k), lambda x, tensors: x.triu(k), lambda x, tensors: x.diagonal(k, -1, 0)
        )

    def step_unfold(self, value):
        if (dim := self.dim(value)) is None:
            return None
        size, step = int(self.rng.integers(1, value.shape[dim] + 1)), int(self.rng.integers(1, 3))
        return lambda x, tensors: x.unfold(dim, size, step)

    def step_retyped(self, value):
        if value.dtype is not torch.float32:
            return None
        return lambda x, tensors: x.view(torch.int32).flip(0).view(torch.float32) if x.ndim else x
