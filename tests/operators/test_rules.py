"""Operators' rules over random calls: their moves between tensors of any strides, and their values, against NumPy."""

import math

import numpy as np
import pytest
from drawn_calls import DRAW

import anydml as dml
from anydml.engines.numpy.engine import NumpyEngine
from anydml.functions.function_lowering import lower_function
from anydml.functions.python_calls import check_arguments
from anydml.moves.composer import Composer
from anydml.moves.value_maker import ValueMaker, ValueView
from anydml.operators.registry import FUNCTIONS
from anydml.strides import in_words
from anydml.tensor import Layout

RULED = sorted(FUNCTIONS.keys() & DRAW)
REWRITTEN = {"tril", "triu", "diagonal_matrix", "one_hot", "reverse_subsequences", "scatter", "scatter_nd", "where"}
"""Functions whose results are written twice in part."""
DTYPES = [np.dtype(name) for name in ("u1", "i2", "f4", "c8", "c16")]


def drawn(name, seed):
    """The function, the arrays of a random call, the checked call, and NumPy's results."""
    rng = np.random.default_rng([seed, *name.encode()])
    function = FUNCTIONS[name]
    given, expected = DRAW[name](rng, DTYPES[seed % len(DTYPES)])
    by_name = dict(zip([each.name for each in function.parameters], function.with_defaults(given), strict=True))
    every = [by_name[each.name] for each in function.arrays]
    arrays = [*every[0]] if function.is_of_lists else every
    # Indices as calls have them: of few types, in native byte order.
    first = function.data_count(len(arrays))
    kinds = [each.kind for each in function.arrays]
    for k in range(first, len(arrays)):
        arrays[k] = in_words(arrays[k]) if kinds[k] == "Indices" else np.asarray(arrays[k])
    rest = check_arguments(function, by_name, arrays[0], arrays[function.data_count(len(arrays)) :])
    inferred = function.infer(function.name, [array.shape for array in arrays], rest)
    results = expected if isinstance(expected, list) else [expected[0] if isinstance(expected, tuple) else expected]
    assert inferred.shapes == [each.shape for each in results]
    return rng, function, arrays, inferred, results


def target(rng, shape, dtype):
    """An array of zeros: its axes lie in any order and direction in memory, with gaps between their elements."""
    order = rng.permutation(len(shape))
    whole = np.zeros([2 * shape[axis] + 1 for axis in order], dtype)
    steps = tuple(slice(2 * n - 1, None, -2) if n and rng.random() < 0.5 else slice(0, 2 * n, 2) for n in shape)
    return whole.transpose(np.argsort(order))[(*steps, ...)]


def names(function, arrays):
    """NumPy's names of the dtypes of indices and masks."""
    return [each.dtype.name for each in arrays[function.data_count(len(arrays)) :]]


def run(program, arrays, outputs):
    NumpyEngine().compile(program).bind([*arrays, *outputs])()


def same(outputs, results):
    return all(each.tobytes() == result.tobytes() for each, result in zip(outputs, results, strict=True))


@pytest.mark.parametrize("name", RULED)
def test_moves_of_rules(name):
    for seed in range(60):
        rng, function, arrays, inferred, results = drawn(name, seed)
        outputs = [target(rng, result.shape, arrays[0].dtype) for result in results]
        layouts = [Layout.of(each) for each in arrays], [Layout.of(each) for each in outputs]
        program = lower_function(name, function, layouts[0], names(function, arrays), layouts[1], inferred.parameters)
        run(program, arrays, outputs)
        assert same(outputs, results), (name, seed)
        if name not in REWRITTEN:
            outputs_only = range(len(arrays), len(arrays) + len(outputs))
            written = sum(math.prod(m.sizes) for m in program.moves if m.destination.operand in outputs_only)
            assert written == sum(result.size for result in results), (name, seed)


@pytest.mark.parametrize("name", RULED)
def test_values_of_rules(name):
    for seed in range(60):
        _, function, arrays, inferred, results = drawn(name, 1000 + seed)
        composer, checked = Composer(name), []
        dtypes = [""] * function.data_count(len(arrays)) + names(function, arrays)
        values = [composer.input("x", each.shape, each.strides, each.itemsize) for each in arrays]
        views = [*map(ValueView, values, dtypes)]
        make = ValueMaker(composer, arrays[0].itemsize, checked.append)
        function.apply(make, views, inferred.parameters)
        for value in make.values():
            composer.output("result", value)
        outputs = [np.zeros(result.shape, arrays[0].dtype) for result in results]
        run(composer.program(), arrays, outputs)
        assert same(outputs, results), (name, seed)


def laid(x, step):
    """x in zeros, from row 1 and column 2 on."""
    whole = np.zeros((20, 30), x.dtype)
    whole[1 : 1 + x.shape[0], 2 : 2 + step * x.shape[1] : step] = x
    return whole


FUSED = {
    "roll": (lambda x: dml.roll(x, [1, -2], [0, 1]), lambda x: np.roll(x, [1, -2], [0, 1])),
    "flat roll": (lambda x: dml.roll(x, 3), lambda x: np.roll(x, 3)),
    "roll by sizes": (lambda x: dml.roll(x, x.shape[1] // 2, 1), lambda x: np.roll(x, x.shape[1] // 2, 1)),
    "split by sizes": (lambda x: dml.split(x, [x.shape[1] - 3, 3], 1), lambda x: np.split(x, [x.shape[1] - 3], 1)),
    "sections": (lambda x: dml.split(x, [len(x) // 2] * 2), lambda x: np.split(x, 2)),
    "slice by sizes": (
        lambda x: dml.slice(x, [1, 0], [len(x) - 1, x.shape[1] // 2]),
        lambda x: x[1:, : x.shape[1] // 2],
    ),
    "window": (lambda x: dml.slice1(x, [0, 2], [len(x), x.shape[1] - 2], [-1, 1]), lambda x: x[::-1, 2:]),
    "wide": (lambda x: dml.broadcast_to(x, [3, *x.shape]), lambda x: np.broadcast_to(x, (3, *x.shape))),
    "tile by sizes": (lambda x: dml.tile(x, [len(x), 1]), lambda x: np.tile(x, [len(x), 1])),
    "fill": (lambda x: dml.fill(x, 2), lambda x: np.full_like(x, 2)),
    "pad": (lambda x: dml.pad(x, [1, 0, 2, 3], value=7), lambda x: np.pad(x, ((1, 2), (0, 3)), constant_values=7)),
    "edge": (lambda x: dml.pad(x, [1, 0, 2, 3], "edge"), lambda x: np.pad(x, ((1, 2), (0, 3)), "edge")),
    "reflect": (lambda x: dml.pad(x, [1, 0, 2, 3], "reflect"), lambda x: np.pad(x, ((1, 2), (0, 3)), "reflect")),
    "wrap": (lambda x: dml.pad(x, [1, 0, 2, 3], "wrap"), lambda x: np.pad(x, ((1, 2), (0, 3)), "wrap")),
    "pad by sizes": (lambda x: dml.pad(x, [0, x.shape[0], 0, 0]), lambda x: np.pad(x, ((0, 0), (len(x), 0)))),
    "slice_grad": (lambda x: dml.slice_grad(x, [20, 30], [1, 2], [19, 28], [1, 1]), lambda x: laid(x, 1)),
    "gaps": (lambda x: dml.slice_grad(x, [20, 30], [1, 2], [19, 28], [1, 2]), lambda x: laid(x, 2)),
    "split": (lambda x: dml.split(x, 2, 1), lambda x: np.split(x, 2, 1)),
    "join": (lambda x: dml.join([x, x], 1), lambda x: np.concatenate([x, x], 1)),
    "flat join": (lambda x: dml.join([x, x], None), lambda x: np.concatenate([x, x], None)),
    "slice": (lambda x: dml.slice(x, [1, 2], [2, 3]), lambda x: x[1:3, 2:5]),
    "flip": (dml.flip, lambda x: x[::-1, ::-1]),
    "stack": (lambda x: dml.stack([x, x], 2), lambda x: np.stack([x, x], 2)),
    "tile": (lambda x: dml.tile(x, [2, 1, 3]), lambda x: np.tile(x, [2, 1, 3])),
    "repeat": (lambda x: dml.repeat(x, 2, 0), lambda x: np.repeat(x, 2, 0)),
    "flat repeat": (lambda x: dml.repeat(x, 2), lambda x: np.repeat(x, 2)),
    "upsample": (lambda x: dml.upsample(x, [1, 2]), lambda x: x.repeat(2, 1)),
    "blocks": (lambda x: dml.space_to_depth(x[None, None], 2), lambda x: dml.space_to_depth(x[None, None], 2)),
}


@pytest.mark.parametrize("name", FUSED)
def test_rules_leave_open_sizes_open(name):
    written, expected, traces = *FUSED[name], []

    def traced(x):
        traces.append(x.shape)
        return written(x)

    fused = dml.fuse(traced)
    for shape in ((4, 6), (6, 8), (10, 14), (8, 6)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        np.testing.assert_equal(fused(x), expected(x))
    assert len(traces) == 1


@pytest.mark.parametrize("step", [-3, -2, -1, 1, 2, 3])
@pytest.mark.parametrize("shape", [(0, 3), (0, 0), (2, 0), (0, 1), (1, 3)])
def test_windows_of_few_elements_are_laid_into_zeros(shape, step):
    for start in (0, 1, 3):
        window = [9, 5], [start, 0], [9 - start, 5], [step, 1]
        x, expected = np.ones(shape, np.float32), np.zeros((9, 5), np.float32)
        if len(x) == 1:
            expected[start if step > 0 else 8, : shape[1]] = 1
        np.testing.assert_equal(dml.slice_grad(x, *window), expected)
        np.testing.assert_equal(dml.slice_grad(x, *window, out=np.ones_like(expected)), expected)
        np.testing.assert_equal(dml.fuse(lambda x, window=window: dml.slice_grad(x, *window))(x), expected)
