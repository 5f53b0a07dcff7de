"""Fused functions are traced once for many shapes: results are NumPy's for every one, and traces are counted."""

import itertools

import numpy as np
import pytest
from how_many import how_many

import anydml as dml
from anydml.tracing.trace import TracedArray

CHUNKS, PROGRAMS, SHAPES = 10, how_many(300) // 10, 10
DTYPES = ("uint8", "int16", "float32", "float64", "S3")


def drawn(rng, ndim):
    """A step that fits arrays of so many dimensions, whatever their sizes."""
    axis, other = (int(k) for k in rng.integers(0, ndim, 2))
    count, step = int(rng.integers(0, 4)), int(rng.choice([-3, -2, -1, 1, 2, 3]))

    def along(*parts):
        return (slice(None),) * axis + parts

    def halves(x):
        middle = x.shape[axis] // 2
        return np.concatenate([x[along(slice(middle, None))], x[along(slice(None, middle))]], axis)

    def pairs(x):
        if x.shape[axis] % 2:
            return x
        apart = x.reshape(*x.shape[:axis], x.shape[axis] // 2, 2, *x.shape[axis + 1 :])
        return np.swapaxes(apart, axis, axis + 1).reshape(x.shape)

    def merged(x):
        together = x.reshape(*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :])
        return together[..., None]

    def one_repeated(x):
        return np.broadcast_to(x[along(slice(None, 1))], [3 if k == axis else n for k, n in enumerate(x.shape)])

    steps = [
        lambda x: np.flip(x, axis),
        lambda x: one_repeated(x) if x.shape[axis] else x,
        lambda x: np.roll(x, step, axis),
        lambda x: np.swapaxes(x, axis, other),
        lambda x: x[along(slice(count, None))],
        lambda x: x[along(slice(None, -count or None))],
        lambda x: x[along(slice(None, None, step))],
        lambda x: x[..., count : x.shape[-1] - count],
        lambda x: np.concatenate([x, x[along(slice(None, count))]], axis),
        lambda x: np.pad(x, [(count, 1) if k == axis else (0, 0) for k in range(x.ndim)]),
        lambda x: np.pad(x, [(1, count) if k == axis else (0, 0) for k in range(x.ndim)], "edge") if x.size else x,
        lambda x: np.repeat(x, count, axis),
        lambda x: np.stack([x, x[..., ::-1]], axis)[along(count % 2)],
        lambda x: np.array_split(x, 2, axis)[count % 2],
        lambda x: np.broadcast_to(x, (2, *x.shape))[count % 2],
        lambda x: x.reshape(-1).reshape(x.shape[::-1]).T,
        lambda x: np.pad(x, [(0, max(x.shape) - n) for n in x.shape], constant_values=1)[along(slice(count, None))],
        lambda x: np.pad(x, [(x.shape[axis] // 2, 0)] * x.ndim),
        halves,
        pairs,
        *([merged] if axis + 1 < ndim else []),
    ]
    return steps[int(rng.integers(len(steps)))]


class Program:
    """A random chain of steps, each of which fits any shape of so many dimensions."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng(seed)
        self.ndim = int(rng.integers(1, 4))
        self.dtype = str(rng.choice(DTYPES))
        self.steps = [drawn(rng, self.ndim) for _ in range(int(rng.integers(1, 6)))]
        self.picks = bool(rng.random() < 0.4)
        self.traces = 0

    def __call__(self, x, indices):
        if isinstance(x, TracedArray):
            self.traces += 1
        for step in self.steps:
            x = step(x)
        return dml.gather(x, indices, axis=0, out_of_range="clamp") if self.picks else x

    def arguments(self, least, most):
        shape = self.rng.integers(least, most, self.ndim)
        x = self.rng.integers(0, 120, shape).astype(self.dtype)
        if self.rng.random() < 0.2:
            x = np.asfortranarray(x)
        return x, self.rng.integers(-9, 9, self.rng.integers(1, 9))


def answer(program, x, indices):
    """What NumPy makes of a program; None where there is nothing to pick from."""
    for step in program.steps:
        x = step(x)
    if not program.picks:
        return x
    return x[np.clip(np.where(indices < 0, indices + len(x), indices), 0, len(x) - 1)] if len(x) else None


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_programs_of_random_shapes(chunk):
    traces = 0
    for k in range(PROGRAMS):
        program = Program([chunk, k])
        fused = dml.fuse(program)
        for number in range(SHAPES):
            x, indices = program.arguments(*((0, 6) if number < 3 else (6, 30)))
            expected = answer(program, x, indices)
            if expected is None:
                continue
            found = fused(x, indices)
            assert found.shape == expected.shape, ([chunk, k], number)
            np.testing.assert_array_equal(found, expected, f"{[chunk, k]} {number}")
            out = np.zeros((*expected.shape, 2), expected.dtype)[..., 0]
            if expected.ndim:
                fused(x, indices, out=out)
                np.testing.assert_array_equal(out, expected, f"{[chunk, k]} {number} out")
        traces += program.traces
    # Sizes of 0 and 1, odd and even ones, packed arrays and others have traces of their own.
    assert traces <= 5 * PROGRAMS


def test_chains_are_traced_once():
    chains = [
        lambda x, n: x.reshape(x.shape[0], x.shape[1], 4, -1).transpose(0, 2, 1, 3),
        lambda x, n: np.concatenate([x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], -1),
        lambda x, n: np.pad(x, ((0, 0), (1, 2), (0, 0)))[:, 3:],
        lambda x, n: tuple(np.split(x, 2, -1)),
        lambda x, n: np.stack([x[:, k : k + x.shape[1] - 3] for k in range(3)], 1),
        lambda x, n: np.roll(x, (-1, 1), (0, 1))[::-1, ::2],
        lambda x, n: np.broadcast_to(x[:, None], (x.shape[0], 3, *x.shape[1:])).reshape(-1, x.shape[-1]),
        lambda x, n: np.concatenate([x, np.zeros_like(x[:, :n])], 1),
        lambda x, n: np.moveaxis(x, 0, -1)[..., None, :],
    ]
    for number, chain in enumerate(chains):
        traces = []

        def counted(x, n, chain=chain, traces=traces):
            traces.append(1)
            return chain(x, n)

        fused = dml.fuse(counted)
        for k in range(20):
            x = np.arange((4 + k) * (2 * k + 9) * 8 * (k + 1)).reshape(4 + k, 2 * k + 9, -1)
            found, expected = fused(x, 2 + k % 3), chain(x, 2 + k % 3)
            for one, another in zip(
                *(each if type(each) is tuple else [each] for each in (found, expected)), strict=True
            ):
                np.testing.assert_array_equal(one, another)
        assert len(traces) == 1, number


def test_ragged_rows_are_traced_once():
    """As data loaders write it, whichever row is the longest; rows of no elements are another case."""
    traces, rng = [], np.random.default_rng(3)

    def collated(rows):
        traces.append(1)
        longest = max(len(row) for row in rows)
        whole = np.stack([np.pad(row, (0, longest - len(row)), constant_values=7) for row in rows])
        return whole, np.stack([np.pad(row, (len(row) - min(map(len, rows)), 0)) for row in rows[:1]])

    fused = dml.fuse(collated)
    for most in (30, 30, 30, 9, 200):
        rows = [rng.random(n) for n in rng.integers(3, most, 12)]
        for found, expected in zip(fused(rows), collated(rows), strict=True):
            assert np.array_equal(found, expected)
    # Those that NumPy ran are five.
    assert len(traces) == 1 + 5
    for _ in range(20):
        rows = [rng.random(n) for n in rng.integers(0, 3, 12)]
        for found, expected in zip(fused(rows), collated(rows), strict=True):
            assert np.array_equal(found, expected)


def test_a_function_of_open_sizes_is_the_same_function():
    """Its globals, defaults and closure are there, and what it calls is as it was."""
    more = 2

    def padded(x, *, least=3):
        return np.pad(x, (0, max(least, len(x), more) - len(x))), isinstance(len(x), int), max("ab"), helper(x)

    for n in (1, 2, 4, 9):
        found, is_integer, letter, own = dml.fuse(padded)(np.ones(n))
        assert np.array_equal(found, np.pad(np.ones(n), (0, max(3 - n, 0))))
        assert (is_integer, letter, own.shape) == (True, "b", (n,))


def helper(x):
    """Another function, whose builtins are Python's."""
    return x[: len(x)]


COVERED = {
    "as it lies": lambda x, m: np.tril(x),
    "turned": lambda x, m: np.tril(x).T,
    "in part": lambda x, m: np.tril(x)[1:, ::-1],
    "twice": lambda x, m: (np.tril(x), np.tril(x)[::2]),
    "both": lambda x, m: (np.tril(x), np.triu(x)),
    "beside another": lambda x, m: np.concatenate([x, np.triu(x)]),
    "by a mask": lambda x, m: np.where(m, x, np.flip(x, 0)),
    "covered again": lambda x, m: np.where(m, np.tril(x), x),
}


@pytest.mark.parametrize("name", COVERED)
def test_what_lies_over_something_else(name):
    """It may be made in the result's own memory, or needs memory of its own, by what else is read of it."""
    function, rng = COVERED[name], np.random.default_rng(5)
    fused = dml.fuse(function)
    for rows, columns in ((4, 6), (7, 3), (1, 5), (6, 1), (2, 2), (300, 400)):
        x = rng.integers(-9, 9, (rows, columns)).astype(np.float32)
        mask = x > 2
        expected = function(x, mask)
        results = [fused(x, mask)]
        single = not isinstance(expected, tuple)
        for order in "CF":
            given = [np.empty(each.shape, each.dtype, order) for each in ([expected] if single else expected)]
            results.append(fused(x, mask, out=given[0] if single else tuple(given)))
        for found in results:
            for one, other in zip([found] if single else found, [expected] if single else expected, strict=True):
                assert np.array_equal(one, other)


def collated(rows):
    longest = max(len(row) for row in rows)
    return np.stack([np.pad(row, (0, longest - len(row))) for row in rows])


def longest_of(rows):
    return max(len(row) for row in rows)


@pytest.mark.parametrize("is_local", [False, True])
def test_functions_that_a_fused_one_calls_keep_sizes_open(is_local):
    traces, rng = [], np.random.default_rng(5)

    def local(rows):
        return longest_of(rows) if len(rows) else 0

    def counted(rows):
        traces.append(1)
        longest = local(rows) if is_local else longest_of(rows)
        return np.stack([np.pad(row, (0, longest - len(row))) for row in rows])

    fused = dml.fuse(counted)
    for _ in range(6):
        rows = [rng.integers(0, 100, length) for length in rng.integers(2, 50, 7)]
        np.testing.assert_array_equal(fused(rows), collated(rows))
    assert len(traces) <= 2


OF_ANOTHER_MODULE = """
import time
import numpy as np

def filled(rows):
    batch = np.zeros((len(rows), max(len(row) for row in rows)), rows[0].dtype)
    for number, row in enumerate(rows):
        batch[number, : len(row)] = row
    return batch

def since_midnight(x):
    return x[int(time.time()) % 86400 :]
"""


def test_functions_of_other_modules_are_traced_alike():
    # As those of a project's package are, which a script calls.
    module = {"__name__": "transforms_of_a_project"}
    exec(OF_ANOTHER_MODULE, module)
    filled, since_midnight, rng = module["filled"], module["since_midnight"], np.random.default_rng(5)
    fused = dml.fuse(lambda rows: filled(rows).T)
    for _ in range(6):
        rows = [rng.integers(0, 100, length) for length in rng.integers(1, 50, 7)]
        np.testing.assert_array_equal(fused(rows), filled(rows).T, strict=True)
    assert fused.counts.traces <= 2
    with pytest.raises(dml.FuseError, match=r"time\.time was read"):
        dml.fuse(lambda x: since_midnight(x)[:1])(rows[0])


LAST = None


def noted(rows):
    global LAST  # noqa: PLW0603  # what is tested
    LAST = len(rows)
    return rows


def test_global_variables_are_assigned_where_they_are():
    def flipped(rows):
        return [row[::-1] for row in noted(rows)]

    for function in (flipped, noted):
        globals()["LAST"] = None
        dml.fuse(function)([np.arange(3), np.arange(4)])
        assert LAST == 2


@pytest.mark.parametrize("count", [63, 64, 65, 200, 1000])
def test_a_batch_of_many_ragged_rows_is_traced_once(count):
    traces, rng = [], np.random.default_rng(count)

    def counted(rows):
        traces.append(1)
        return collated(rows)

    fused = dml.fuse(counted)
    for _ in range(6):
        rows = [rng.integers(0, 100, length) for length in rng.integers(2, 50, count)]
        np.testing.assert_array_equal(fused(rows), collated(rows))
    assert len(traces) <= 2


@pytest.mark.parametrize("count", [64, 65, 300])
def test_many_results_of_one_call(count):
    def cut(x):
        return [part[:, ::-1] for part in np.split(x, count)]

    fused, rng = dml.fuse(cut), np.random.default_rng(count)
    for columns in (3, 5, 4):
        x = rng.integers(0, 100, (2 * count, columns))
        found = fused(x)
        assert len(found) == count
        for each, right in zip(found, cut(x), strict=True):
            np.testing.assert_array_equal(each, right)


@pytest.mark.parametrize(
    "padded",
    [
        lambda x, n: np.pad(np.broadcast_to(x, (n, *x.shape)), 2),
        lambda x, n: np.pad(np.zeros_like(x, shape=(n, 2)), 2),
        lambda x, n: np.pad(np.full_like(x, 1, shape=(n, 2)), 2),
        lambda x, n: np.pad(np.tile(x, (n, 1)), 2),
        lambda x, n: np.pad(np.resize(x, (n, 2)), 2),
    ],
)
@pytest.mark.parametrize("numbers", [(2, -1, 3, -3, 0), (-3, 2, -1)])
def test_sizes_that_are_negative_before_they_are_padded(padded, numbers):
    fused, x = dml.fuse(padded), np.arange(12.0).reshape(3, 4)
    for n in numbers:
        if n < 0:
            with pytest.raises(ValueError, match=r"0 or more|negative"):
                fused(x, n)
        else:
            np.testing.assert_array_equal(fused(x, n), padded(x, n))


REPEATED = {
    "joined": lambda x, k: np.concatenate([x[:k], x[k:]])[:1],
    "twice": lambda x, k: np.concatenate([x, x])[:1],
    "at k": lambda x, k: np.concatenate([x[:k], x[k:]])[k : k + 1],
    "turned": lambda x, k: np.concatenate([x[:, :k], x[:, k:]], 1)[:, :1].T,
}


@pytest.mark.parametrize("name", REPEATED)
def test_one_row_of_parts_that_may_be_empty_is_repeated(name):
    """Which part the row is of differs from call to call."""
    row, rng = REPEATED[name], np.random.default_rng(3)

    def repeated(x, k):
        one = row(x, k)
        return np.broadcast_to(one, (3, *one.shape[1:]))

    fused = dml.fuse(repeated)
    for _ in range(60):
        x, k = rng.integers(1, 99, rng.integers(1, 6, 2)), int(rng.integers(0, 5))
        if row(x, k).shape[0] == 1:
            np.testing.assert_array_equal(fused(x, k), repeated(x, k), strict=True)


@pytest.mark.parametrize("given", [(2, 3, "k"), (2, "k", "k"), ("k", 2, "k"), ("k", -1, "k"), (3, "k"), ("k", 2, 5)])
def test_powers_of_open_numbers(given):
    """Python asks the modulus for its method as well, which gets numbers of other types."""

    def power(x, k):
        return x[: pow(*(k if each == "k" else each for each in given))]

    fused, x = dml.fuse(power), np.arange(30)
    for k in (3, 7):
        try:
            expected = power(x, k)
        except ValueError:
            with pytest.raises(ValueError, match="not invertible"):
                fused(x, k)
        else:
            np.testing.assert_array_equal(fused(x, k), expected)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: dml.sequence(x, 3, 2), lambda x: 3 + 2 * np.arange(x.size).reshape(x.shape)),
        (
            lambda x: dml.reverse_subsequences(x, np.full((1, 2), 3, np.uint32), 0),
            lambda x: np.concatenate([x[:3][::-1], x[3:]]),
        ),
        (
            lambda x: dml.reverse_subsequences(x, np.full((1, 2), -1), 0),
            lambda x: x[::-1],
        ),
    ],
    ids=["sequence", "first ones", "all"],
)
def test_numbers_that_depend_on_sizes_are_those_of_each_call(function, expected):
    fused = dml.fuse(function)
    # Of the largest, the numbers are computed only when a program runs.
    for n in (4, 7, 1 << 18, 9, 4, 3 << 17, 1, 0):
        x = np.arange(2 * n).reshape(n, 2)
        np.testing.assert_array_equal(fused(x), expected(x))


def assigned(x, start, stop, step):
    y = x.copy()
    y[start:stop:step] = 7
    return y


def padded_and_cut(x, start, stop, step):
    return np.pad(x, 2, mode="reflect")[start:stop:step] if x.size > 2 else x


@pytest.mark.parametrize("step", [1, 2, -1, -2])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, start, stop, step: x[start:stop:step],
        lambda x, start, stop, step: np.concatenate([x, x])[start:stop:step],
        lambda x, start, stop, step: x[start:][:stop][::step],
        assigned,
        padded_and_cut,
    ],
    ids=["indexed", "joined", "cut twice", "assigned", "padded"],
)
@pytest.mark.filterwarnings("ignore:.* runs without a trace")
def test_slices_of_any_place_share_a_trace(function, step):
    fused = dml.fuse(function)
    for size, start, stop in itertools.product((5, 3, 4, 6), range(8), range(9)):
        x = np.arange(size)
        np.testing.assert_array_equal(fused(x, start, stop, step), function(x, start, stop, step))
    # Whether there is something to assign is decided, and by steps, where the first of them is in a part.
    assert fused.counts.traces == 1 or step != 1 or function is assigned
    for size, start, stop in itertools.product((5, 0, 1, 3), (0, 2, 9, -1, -9), (4, 0, 9, -2, -9)):
        x = np.arange(size)
        np.testing.assert_array_equal(fused(x, start, stop, step), function(x, start, stop, step))
