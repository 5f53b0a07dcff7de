"""Random builders' graphs, right and mutated: right ones give what NumPy gives, others are refused."""

import numpy as np
from how_many import how_many

import anydml
import anydml.pydirectml as dml

GRAPHS = how_many(150)
WRONG = (
    None,
    -1,
    0,
    7,
    1 << 31,
    1 << 32,
    1 << 40,
    1 << 63,
    1 << 70,
    -(1 << 63),
    1.5,
    "1",
    [],
    [0],
    [1, 2],
    [None],
    True,
)
REFUSED = (anydml.DescError, anydml.BindingError, TypeError, ValueError)


def step(rng, x, sizes):
    """A function of the builder, its arguments, and the same on NumPy's arrays."""
    n = len(sizes)
    kind = ["slice", "split", "join", "gather", "padding", "identity", "up"][int(rng.integers(7))]
    axis = int(rng.integers(0, n))
    if kind == "slice":
        offsets = [int(rng.integers(0, k)) for k in sizes]
        counts = [int(rng.integers(1, k - o + 1)) for k, o in zip(sizes, offsets, strict=True)]
        strides = [int(rng.integers(1, 3)) for _ in sizes]
        place = tuple(np.s_[o : o + c : s] for o, c, s in zip(offsets, counts, strides, strict=True))
        return dml.slice, [x, offsets, counts, strides], lambda a: a[place]
    if kind == "split":
        first = int(rng.integers(1, sizes[axis])) if sizes[axis] > 1 else sizes[axis]
        parts = [first, sizes[axis] - first] if first < sizes[axis] else [first]
        return (lambda *given: dml.split(*given)[0]), [x, axis, parts], lambda a: np.split(a, [first], axis)[0]
    if kind == "join":
        return dml.join, [[x, x], axis], lambda a: np.concatenate([a, a], axis)
    if kind == "padding":
        before, after = ([int(k) for k in rng.integers(0, 3, n)] for _ in range(2))
        wide = [*zip(before, after, strict=True)]
        return dml.padding, [x, dml.PaddingMode.EDGE, 0.0, before, after], lambda a: np.pad(a, wide, "edge")
    if kind == "up":
        scale = dml.Size2D(2, 3)
        return (
            dml.up_sample_2d,
            [x, scale, dml.InterpolationMode.NEAREST_NEIGHBOR],
            lambda a: a.repeat(3, 2).repeat(2, 3),
        )
    return dml.activation_identity, [x], lambda a: a


def mutated(rng, value):
    """The value with something else in it, at any depth."""
    if isinstance(value, list) and value and rng.random() < 0.7:
        changed = [*value]
        at = int(rng.integers(0, len(changed)))
        changed[at] = mutated(rng, changed[at])
        return changed
    return WRONG[int(rng.integers(len(WRONG)))]


def test_graphs():
    device, right, refused = dml.Device(True, True), 0, 0
    for number in range(2 * GRAPHS):
        rng = np.random.default_rng([31, number])
        builder = dml.GraphBuilder(device)
        sizes = [int(k) for k in rng.integers(1, 5, 4)]
        array = rng.random(sizes, np.float32)
        try:
            drawn_sizes = mutated(rng, sizes) if number % 8 == 7 else sizes
            x = source = dml.input_tensor(builder, 0, dml.TensorDesc(dml.TensorDataType.FLOAT32, drawn_sizes))
            expected = array
            for _ in range(int(rng.integers(1, 5))):
                function, arguments, same = step(rng, x, [*expected.shape])
                if number % 2:
                    at = int(rng.integers(0, len(arguments)))
                    arguments[at] = mutated(rng, arguments[at])
                x, expected = function(*arguments), same(expected)
            if number % 16 == 5:
                array = array[..., :-1]
            op = builder.build(dml.ExecutionFlags.NONE, [x])
            (result,) = device.compute(op, [dml.Binding(source, array)], [x])
        except REFUSED:
            refused += 1
            continue
        if number % 2 == 0:
            np.testing.assert_array_equal(np.array(result), expected, strict=True)
            right += 1
    assert right == GRAPHS
    assert refused > GRAPHS // 3
