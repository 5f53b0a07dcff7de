"""Random NumPy programs of a few steps: lists of plain instructions, which run eagerly and traced alike."""

import numpy as np

import anydml as dml

MOST = 600
"""Elements above which a program grows no further."""

DTYPES = ("uint8", "int16", "int32", "float64", "complex128", "S3")
INDEX_DTYPES = ("int32", "int64", "uint32", "uint64")


def _as_array(picked, dtype):
    """An element of NumPy's as an array without dimensions, as which a trace returns it."""
    return np.asarray(picked, dtype) if isinstance(picked, np.generic) else picked


class Program:
    """A random program. Each step is a function of the last value and of the arguments.

    Attributes:
        arrays: the arguments.
        steps: names and functions.
    """

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.arrays, self.steps = [], []
        self.dtype = np.dtype(str(rng.choice(DTYPES)))
        shape = [int(n) for n in rng.choice([1, 2, 3, 4, 6], int(rng.integers(1, 5)))]
        if rng.random() < 0.03:
            shape[0] = 0
        x = self.argument(self.numbers(shape))
        value = self.arrays[x]
        names = sorted(name for name in dir(self) if name.startswith("step_"))
        for _ in range(int(rng.integers(2, 9))):
            name = str(rng.choice(names))
            step = getattr(self, name)(value)
            if step is None:
                continue
            after = step(value, self.arrays)
            if after.size > MOST or after.ndim > 7:
                continue
            value = after
            self.steps.append((name[5:], step))
        self.expected = value

    def __call__(self, arrays):
        value = arrays[0]
        for _, step in self.steps:
            value = step(value, arrays)
        return value

    def numbers(self, shape):
        values = self.rng.integers(0, 120, shape)
        return values.astype(self.dtype)

    def argument(self, array):
        rng = self.rng
        if array.ndim and rng.random() < 0.3:
            array = np.asfortranarray(array)
        if array.ndim and rng.random() < 0.2:
            array = np.repeat(array, 2, axis=-1)[..., ::2]
        if array.ndim and rng.random() < 0.2:
            array = np.ascontiguousarray(array[::-1])[::-1]
        self.arrays.append(array)
        return len(self.arrays) - 1

    def axis(self, value):
        return int(self.rng.integers(-value.ndim, value.ndim)) if value.ndim else None

    def other(self, shape):
        """An argument or a constant."""
        array = self.numbers(shape)
        if self.rng.random() < 0.5:
            return lambda arrays: array
        number = self.argument(array)
        return lambda arrays: arrays[number]

    def indices(self, size, shape):
        """Indices inside an axis, as an argument or a constant."""
        known = self.rng.random() < 0.4
        dtype = np.dtype(str(self.rng.choice([*INDEX_DTYPES, *(["int8", "uint16"] if known else [])])))
        array = self.rng.integers(0 if dtype.kind == "u" else -size, size, shape).astype(dtype)
        if known:
            return lambda arrays: array
        number = self.argument(array)
        return lambda arrays: arrays[number]

    def index_shape(self):
        return tuple(int(n) for n in self.rng.choice([1, 2, 3], int(self.rng.integers(0, 3))))

    def step_index(self, value):
        rng, items = self.rng, []
        for size in value.shape:
            kind = rng.random()
            if kind < 0.2 and size:
                items.append(int(rng.integers(-size, size)))
            else:
                bounds = [None if rng.random() < 0.5 else int(rng.integers(-size - 2, size + 3)) for _ in range(2)]
                items.append(
                    slice(*bounds, int(rng.choice([1, 1, 2, 3, -1, -2]))) if rng.random() < 0.6 else slice(None)
                )
        if rng.random() < 0.3:
            first = int(rng.integers(0, len(items) + 1))
            items[first : first + int(rng.integers(0, 3))] = [...]
        for _ in range(int(rng.integers(0, 2))):
            items.insert(int(rng.integers(0, len(items) + 1)), None)
        key = tuple(items)
        return lambda x, arrays: _as_array(x[key], x.dtype)

    def step_index_arrays(self, value):
        if not value.ndim or 0 in value.shape:
            return None
        rng, items, shape = self.rng, [slice(None)] * value.ndim, self.index_shape()
        axes = [int(a) for a in rng.choice(value.ndim, min(value.ndim, int(rng.choice([1, 1, 2]))), replace=False)]
        picks = {}
        for axis in axes:
            own = tuple(1 if rng.random() < 0.2 else n for n in shape)
            picks[axis] = self.indices(value.shape[axis], own[int(rng.integers(0, len(own) + 1)) :])
        rest = [a for a in range(value.ndim) if a not in picks]
        for axis in rest:
            if rng.random() < 0.2:
                items[axis] = int(rng.integers(0, value.shape[axis]))
            elif rng.random() < 0.2:
                items[axis] = slice(None, None, -1)

        def step(x, arrays):
            key = [picks[axis](arrays) if axis in picks else item for axis, item in enumerate(items)]
            return _as_array(x[tuple(key)], x.dtype)

        return step

    def step_take(self, value):
        axis = None if self.rng.random() < 0.2 else self.axis(value)
        size = value.size if axis is None else value.shape[axis]
        if not size:
            return None
        by = self.indices(size, self.index_shape())
        if axis is not None and self.rng.random() < 0.3:
            return lambda x, arrays: x.take(by(arrays), axis) if by(arrays).ndim else np.take(x, [0], axis)
        return lambda x, arrays: np.take(x, np.atleast_1d(by(arrays)), axis)

    def step_gather(self, value):
        axis = self.axis(value)
        if axis is None or not value.shape[axis]:
            return None
        by = self.indices(value.shape[axis], self.index_shape())
        return lambda x, arrays: dml.gather(x, by(arrays), axis)

    def step_along(self, value):
        axis = self.axis(value)
        if axis is None or 0 in value.shape:
            return None
        shape = [1 if self.rng.random() < 0.2 else n for n in value.shape]
        shape[axis] = int(self.rng.integers(1, 4))
        by = self.indices(value.shape[axis], shape)
        if by(self.arrays).dtype == np.uint64:
            return None
        return lambda x, arrays: np.take_along_axis(x, by(arrays), axis)

    def step_split(self, value):
        axis = self.axis(value)
        if axis is None:
            return None
        rng, size = self.rng, value.shape[axis]
        way = int(rng.integers(4))
        k = int(rng.integers(0, 2))
        if way == 0:
            sections = int(rng.integers(2, 5))
            return lambda x, arrays: np.array_split(x, sections, axis)[k]
        if way == 1:
            ends = [int(n) for n in rng.integers(-2, size + 3, 2)]
            return lambda x, arrays: np.split(x, ends, axis)[k]
        first = int(rng.integers(0, size + 1))
        if way == 2:
            return lambda x, arrays: dml.split(x, [first, size - first], axis)[k]
        return lambda x, arrays: dml.split_training(x, np.array([first, size - first]), axis)[k]

    def step_window(self, value):
        rng = self.rng
        starts = [int(rng.integers(0, max(n, 1))) for n in value.shape]
        sizes = [n - s for n, s in zip(value.shape, starts, strict=True)]
        steps = [int(rng.choice([1, 2, -1, -3])) for _ in starts]
        if value.ndim == 0:
            return None
        if rng.random() < 0.5:
            return lambda x, arrays: dml.slice1(x, starts, sizes, steps)
        return lambda x, arrays: dml.slice(x, starts, sizes)

    def step_reshape(self, value):
        rng, sizes, left = self.rng, [], value.size
        while left > 1 and rng.random() < 0.7:
            size = int(rng.choice([n for n in range(1, left + 1) if left % n == 0]))
            sizes.append(size)
            left //= size
        sizes.append(left)
        if value.size and rng.random() < 0.3:
            sizes[int(rng.integers(len(sizes)))] = -1
        if rng.random() < 0.3:
            return lambda x, arrays: x.reshape(*sizes)
        return lambda x, arrays: np.reshape(x, sizes)

    def step_transpose(self, value):
        axes = [int(axis) for axis in self.rng.permutation(value.ndim)]
        way = int(self.rng.integers(4))
        if way == 0 or not axes:
            return lambda x, arrays: x.T
        if way == 1:
            return lambda x, arrays: np.moveaxis(x, axes[0], axes[-1])
        if way == 2:
            return lambda x, arrays: np.swapaxes(x, axes[0], axes[-1])
        return lambda x, arrays: x.transpose(axes)

    def step_ones(self, value):
        axis = int(self.rng.integers(0, value.ndim + 1))
        way = int(self.rng.integers(4))
        if way == 0:
            return lambda x, arrays: np.expand_dims(x, axis)
        if way == 1:
            return lambda x, arrays: np.squeeze(x)
        if way == 2:
            return lambda x, arrays: np.ravel(x)
        return lambda x, arrays: np.atleast_3d(x)

    def step_turn(self, value):
        rng, way, axis = self.rng, int(self.rng.integers(4)), self.axis(value)
        if axis is None:
            return None
        if way == 0 and value.ndim > 1:
            axes, k = [int(a) for a in rng.choice(value.ndim, 2, replace=False)], int(rng.integers(-4, 5))
            return lambda x, arrays: np.rot90(x, k, axes)
        if way == 1:
            return lambda x, arrays: np.flip(x, axis)
        if way == 2:
            by = int(rng.integers(-9, 10))
            return lambda x, arrays: np.roll(x, by)
        by = [int(n) for n in rng.integers(-5, 6, value.ndim)]
        return lambda x, arrays: np.roll(x, by, tuple(range(x.ndim)))

    def step_join(self, value):
        axis = self.axis(value)
        if axis is None:
            return None
        shape = list(value.shape)
        shape[axis] = int(self.rng.integers(0, 4))
        other, way = self.other(shape), int(self.rng.integers(5))
        if way == 0:
            return lambda x, arrays: np.concatenate([x, x[..., ::-1]], axis)
        if way == 1:
            return lambda x, arrays: np.stack([x, x], axis)
        if way == 2:
            return lambda x, arrays: dml.join([other(arrays), x], axis)
        if way == 3:
            return lambda x, arrays: dml.concat_training([x, other(arrays)], axis)[0]
        return lambda x, arrays: np.concatenate([x, other(arrays), x], axis)

    def step_repeat(self, value):
        rng, axis, way = self.rng, self.axis(value), int(self.rng.integers(4))
        if way == 0:
            reps = [int(n) for n in rng.integers(1, 3, int(rng.integers(1, 4)))]
            return lambda x, arrays: np.tile(x, reps)
        if way == 1 and axis is not None:
            counts = rng.integers(0, 3, value.shape[axis])
            return lambda x, arrays: np.repeat(x, counts, axis)
        if way == 2:
            shape = (2, *(3 if n == 1 else n for n in value.shape))
            return lambda x, arrays: np.broadcast_to(x, shape)
        count = int(rng.integers(0, 3))
        return lambda x, arrays: np.repeat(x, count, axis)

    def step_pad(self, value):
        rng = self.rng
        counts = rng.integers(0, 4, (value.ndim, 2)).tolist()
        mode = str(rng.choice(["constant", "edge", "reflect", "symmetric", "wrap"]))
        if not value.ndim or (mode != "constant" and 0 in value.shape):
            return None
        if mode == "constant":
            number = self.numbers(())[()]
            return lambda x, arrays: np.pad(x, counts, constant_values=number)
        return lambda x, arrays: np.pad(x, counts, mode)

    def step_fill(self, value):
        axis, way = self.axis(value), int(self.rng.integers(4))
        if axis is None or self.rng.random() < 0.5:
            return None
        like = [np.zeros_like, np.ones_like][way % 2]
        if self.dtype.kind == "S":
            like = np.zeros_like
        return lambda x, arrays: np.concatenate([x, like(x)], axis)

    def step_copy(self, value):
        return [lambda x, arrays: np.copy(x), lambda x, arrays: dml.copy(x)][int(self.rng.integers(2))]
