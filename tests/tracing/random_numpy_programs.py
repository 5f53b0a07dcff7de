"""Random NumPy programs with the words that put elements over others, insert, leave out, and see windows."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from tracing import random_numpy


class NumpyProgram(random_numpy.Program):
    """With more steps."""

    def step_where(self, value):
        other, mask = self.other(value.shape), self.rng.random(value.shape[-1:]) < 0.5
        number = self.argument(mask)
        if self.rng.random() < 0.5:
            return lambda x, arrays: np.where(arrays[number], x, other(arrays))
        return lambda x, arrays: np.where(mask, other(arrays), x)

    def step_triangle(self, value):
        k = int(self.rng.integers(-3, 4))
        if value.ndim < 2 or value.dtype.kind == "S":
            return None
        return lambda x, arrays: np.triu(np.tril(x, k + 2), k)

    def step_insert(self, value):
        if (axis := self.axis(value)) is None:
            return None
        size = value.shape[axis]
        at = [int(n) for n in self.rng.integers(0, size + 1, 2)]
        row = self.other([1 if k == axis % value.ndim else n for k, n in enumerate(value.shape)])
        return lambda x, arrays: np.insert(x, at, row(arrays), axis)

    def step_delete(self, value):
        if (axis := self.axis(value)) is None or not value.shape[axis]:
            return None
        gone = int(self.rng.integers(0, value.shape[axis]))
        return lambda x, arrays: np.delete(x, gone, axis)

    def step_diagonal(self, value):
        k = int(self.rng.integers(-2, 3))
        if value.ndim == 1 and value.dtype.kind != "S":
            return lambda x, arrays: np.diag(x, k)
        return (lambda x, arrays: np.diagonal(x, k, -1, 0)) if value.ndim > 1 else None

    def step_windows(self, value):
        if (axis := self.axis(value)) is None or not value.shape[axis]:
            return None
        length = int(self.rng.integers(1, value.shape[axis] + 1))
        return lambda x, arrays: sliding_window_view(x, length, axis)

    def step_resize(self, value):
        shape = [int(n) for n in self.rng.integers(1, 5, 2)]
        return (lambda x, arrays: np.resize(x, shape)) if value.dtype.kind != "S" else None
