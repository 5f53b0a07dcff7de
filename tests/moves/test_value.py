"""Values: random chains of views, joins, pads and gathers give what NumPy gives, in as few moves as they need."""

import collections
import math

import numpy as np
import pytest
from how_many import how_many

from anydml.engines.common import scratch_arrays
from anydml.engines.numpy.engine import NumpyProgram
from anydml.engines.reference.literal import bind_literally
from anydml.moves import Access
from anydml.moves.composer import Composer
from anydml.moves.sizing import Integers
from anydml.moves.value import Value
from anydml.moves.value_maker import ValueMaker, ValueView
from anydml.operators.element import Element
from anydml.operators.padding import pad_rule

CHUNKS, CHAINS = 10, how_many(600) // 10
DTYPE = np.dtype(np.int32)


class Chain:
    """A random chain, on values and on NumPy's arrays at once."""

    def __init__(self, rng):
        self.rng, self.composer, self.arrays, self.steps = rng, Composer("chain"), [], collections.Counter()

    def new_input(self, shape, dtype=DTYPE, values=None):
        array = self.rng.integers(0, 1 << 30, shape).astype(dtype) if values is None else values.astype(dtype)
        if array.ndim and self.rng.random() < 0.3:
            array = np.asfortranarray(array)
        self.arrays.append(array)
        return self.composer.input(f"x{len(self.arrays)}", array.shape, array.strides, array.itemsize), array

    def start(self):
        rng = self.rng
        return self.new_input([int(n) for n in rng.choice([1, 2, 3, 4, 6], int(rng.integers(0, 4)))])

    def step(self, value, array):
        names = ["slice", "permute", "reshape", "broadcast", "join", "pad", "gather", "split", "along", "points"]
        name = str(self.rng.choice(names))
        if array.size > 4000 or (not array.ndim and name not in ("reshape", "broadcast")):
            return value, array
        self.steps[name] += 1
        return getattr(self, name)(value, array)

    def slice(self, value, array):
        rng = self.rng
        starts, sizes, steps = [], [], []
        for whole in array.shape:
            step = int(rng.choice([1, 1, 1, 2, 3, -1, -2]))
            start = int(rng.integers(0, max(whole, 1)))
            left = (whole - 1 - start) // step + 1 if step > 0 else start // -step + 1
            size = int(rng.integers(0 if rng.random() < 0.05 else 1, left + 1)) if whole else 0
            if step > 0 and rng.random() < 0.5:
                start, size = 0, -(-whole // step)
            starts.append(start), sizes.append(size), steps.append(step)
        key = [np.arange(n) * s + o for o, n, s in zip(starts, sizes, steps, strict=True)]
        return self.composer.slice(value, starts, sizes, steps), array[np.ix_(*key)]

    def split(self, value, array):
        axis = int(self.rng.integers(array.ndim))
        cut = int(self.rng.integers(0, array.shape[axis] + 1))
        starts, sizes = [0] * array.ndim, list(array.shape)
        starts[axis], sizes[axis] = cut, array.shape[axis] - cut
        return self.composer.slice(value, starts, sizes, [1] * array.ndim), np.split(array, [cut], axis)[1]

    def permute(self, value, array):
        axes = [int(axis) for axis in self.rng.permutation(array.ndim)]
        return value.permute(axes), array.transpose(axes)

    def reshape(self, value, array):
        rng, sizes, left = self.rng, [], array.size
        while left > 1 and rng.random() < 0.7:
            size = int(rng.choice([n for n in range(1, left + 1) if left % n == 0]))
            sizes.append(size)
            left //= size
        sizes += [left] if left != 1 or not array.size or rng.random() < 0.3 else []
        return self.composer.reshape(value, sizes), array.reshape(sizes)

    def broadcast(self, value, array):
        sizes = [int(self.rng.choice([1, 3])) if n == 1 else n for n in array.shape]
        sizes = [2] * int(self.rng.integers(0, 2)) + sizes
        return value.broadcast(sizes), np.broadcast_to(array, sizes)

    def join(self, value, array):
        axis = int(self.rng.integers(array.ndim))
        if self.rng.random() < 0.4:
            return self.composer.join([value, value], axis), np.concatenate([array, array], axis)
        shape = list(array.shape)
        shape[axis] = int(self.rng.integers(0, 4))
        other, numbers = self.new_input(shape)
        return self.composer.join([other, value], axis), np.concatenate([numbers, array], axis)

    def pad(self, value, array):
        counts = self.rng.integers(0, 3, (2, array.ndim))
        pattern = int(self.rng.integers(0, 1 << 30))
        padded = np.pad(array, counts.T, constant_values=pattern)
        return self.surrounded(value, *counts.tolist(), np.array(pattern, DTYPE).tobytes()), padded

    def surrounded(self, value, before, after, pattern):
        make = self.maker(value)
        pad_rule(make, ValueView(value), Integers(before), Integers(after), "constant", Element(pattern))
        return make.values()[0]

    def maker(self, value):
        return ValueMaker(self.composer, value.element_size, lambda sizes: None, "")

    def gather(self, value, array):
        axis = int(self.rng.integers(array.ndim))
        size = array.shape[axis]
        if not size:
            return value, array
        dtype = str(self.rng.choice(["int32", "int64", "uint32", "uint64"]))
        numbers = self.rng.integers(
            0 if dtype[0] == "u" else -size - 2, size + 2, [2, 3][: int(self.rng.integers(0, 3))]
        )
        indices, numbers = self.new_input(numbers.shape, dtype, numbers)
        if numbers.ndim and self.rng.random() < 0.4:
            # Indices that are themselves composed.
            by = self.rng.integers(0, len(numbers), 3)
            more, by = self.new_input(by.shape, "int64", by)
            indices, numbers = self.composer.pick(indices, more, "int64", 0), numbers[by]
        positions = numbers.astype(np.int64)
        positions = np.clip(np.where(positions < 0, positions + size, positions), 0, size - 1)
        return self.composer.pick(value, indices, dtype, axis), np.take(array, positions, axis)

    def along(self, value, array):
        if 0 in array.shape:
            return value, array
        axis, shape = int(self.rng.integers(array.ndim)), list(array.shape)
        shape[axis] = int(self.rng.integers(1, 4))
        numbers = self.rng.integers(0, array.shape[axis], shape)
        indices, numbers = self.new_input(shape, "int64", numbers)
        picked = self.maker(value).pick_along(ValueView(value), ValueView(indices, "int64"), axis, "clamp")
        return picked.value, np.take_along_axis(array, numbers, axis)

    def points(self, value, array):
        if array.ndim < 2 or 0 in array.shape:
            return value, array
        rng = self.rng
        first, second = sorted(int(axis) for axis in rng.choice(array.ndim, 2, replace=False))
        shape, picks, key = [2, 3][: int(rng.integers(0, 3))], [], [slice(None)] * array.ndim
        for axis in (first, second):
            indices, key[axis] = self.new_input(shape, "int32", rng.integers(0, array.shape[axis], shape))
            if shape and rng.random() < 0.3:
                # Indices that are in part a fill.
                padded = np.concatenate([key[axis], np.zeros((1, *shape[1:]), np.int32)])[1:]
                ends = [1] + [0] * (len(shape) - 1)
                indices = self.surrounded(indices, [0] * len(shape), ends, bytes(4))
                indices = self.composer.slice(indices, ends, shape, [1] * len(shape))
                key[axis] = padded
            picks.append((axis, indices, "int32"))
        # NumPy puts the indices' axes first unless they stand side by side.
        found = np.moveaxis(array, (first, second), (0, 1))[key[first], key[second]]
        count = len(shape)
        places = [*range(first, first + count)]
        return self.composer.pick_points(value, picks), np.moveaxis(found, range(count), places)


def random_chain(seed):
    """A program, its inputs, and what its output must be."""
    rng = np.random.default_rng(seed)
    chain = Chain(rng)
    value, array = chain.start()
    for _ in range(int(rng.integers(2, 7))):
        value, array = chain.step(value, array)
        assert value.sizes == array.shape
    chain.composer.output("y", value)
    return chain.composer.program(), chain.arrays, np.ascontiguousarray(array), chain.steps


def bind_reference(program):
    return lambda arrays: bind_literally(program, [*arrays, *scratch_arrays(program)])


@pytest.mark.parametrize("chunk", range(CHUNKS))
@pytest.mark.parametrize(
    "bind", [bind_reference, lambda program: NumpyProgram(program).bind], ids=["reference", "numpy"]
)
def test_random_chains_equal_numpys(chunk, bind):
    for k in range(CHAINS):
        program, arrays, expected, steps = random_chain([chunk, k])
        assert list(program.problems()) == [], str(program)
        assert all(operand.reason for operand in program.operands if operand.role == "scratch"), str(program)
        result = np.zeros(expected.shape, DTYPE)
        bind(program)([*arrays, result])()
        np.testing.assert_array_equal(result, expected, f"{steps}\n{program}")


def test_chains_are_varied_and_seldom_need_scratch():
    steps, scratch, nested = collections.Counter(), 0, 0
    for k in range(500):
        program, _, _, seen = random_chain([77, k])
        steps += seen
        scratch += program.scratch_bytes > 0
        nested += any(lookup.lookups for move in program.moves for lookup in move.all_lookups())
        for operand in program.operands:
            assert (operand.role == "scratch") == bool(operand.reason)
    assert min(steps.values()) > 60
    assert 0 < scratch < 120
    assert nested > 20


def test_cutting_takes_no_time_in_proportion_to_an_axis():
    """An axis that nothing is stored of may have any size."""
    value = Value.of_operand(0, (2**50, 3), (12, 4), 4)
    part = value.slice([2**40, 1], [5, 2], [1, 1])
    assert [piece.source for piece in part.pieces] == [Access(0, 12 * 2**40 + 4, (12, 4))]
    merged = value.reshape((3 * 2**50,)).slice([2**40 + 1], [7], [1])
    assert sum(math.prod(factor.size for factor in piece.factors) for piece in merged.pieces) == 7
