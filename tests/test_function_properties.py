"""Properties that tie the functions together, on arrays that hypothesis draws."""

from functools import partial

import hypothesis.strategies as st
import numpy as np
import pytest
from how_many import how_many
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

import anydml as dml

settings.register_profile("anydml", deadline=None, derandomize=True, max_examples=how_many(40))
settings.load_profile("anydml")

dtypes = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?"),
    hnp.complex_number_dtypes(),
    hnp.datetime64_dtypes(),
    hnp.unicode_string_dtypes(min_len=1, max_len=5),
    hnp.byte_string_dtypes(min_len=1, max_len=5),
    hnp.nested_dtypes(hnp.integer_dtypes(), max_leaves=4),
)
shapes = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)


@st.composite
def arrays(draw, shape=shapes):
    """An array, often a view with steps and swapped axes."""
    x = draw(hnp.arrays(draw(dtypes), draw(shape) if isinstance(shape, st.SearchStrategy) else shape))
    if draw(st.booleans()):
        x = x.transpose(draw(st.permutations(range(x.ndim))))
    return x[tuple(np.s_[:: draw(st.sampled_from([1, 1, -1, 2, -2]))] for _ in x.shape)]


@st.composite
def parts_of(draw, whole):
    """Sizes of 0 or more that add up."""
    cuts = sorted(draw(st.lists(st.integers(0, whole), max_size=4)))
    return [b - a for a, b in zip([0, *cuts], [*cuts, whole], strict=True)]


def same(a, b):
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    assert a.tobytes() == b.tobytes()


@given(st.data())
def test_join_undoes_split(data):
    x = data.draw(arrays())
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    sizes = data.draw(parts_of(x.shape[axis]))
    parts = dml.split(x, sizes, axis)
    assert [part.shape[axis] for part in parts] == sizes
    same(dml.join(parts, axis), x)


@given(st.data())
def test_split_training_takes_what_concat_training_gives(data):
    x = data.draw(arrays())
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    parts = dml.split_training(x, data.draw(parts_of(x.shape[axis])), axis)
    joined, lengths = dml.concat_training(parts, axis)
    same(joined, x)
    for part, again in zip(parts, dml.split_training(joined, lengths, axis, len(parts)), strict=True):
        same(part, again)


@given(arrays())
def test_slice1_backwards_twice_is_nothing(x):
    window = [0] * x.ndim, x.shape, [-1] * x.ndim
    back = dml.slice1(x, *window)
    same(back, np.flip(x))
    same(dml.slice1(back, *window), x)


@given(st.data())
def test_gather_by_arange_is_a_copy(data):
    x = data.draw(arrays())
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    same(dml.gather(x, np.arange(x.shape[axis]), axis), x)
    same(dml.gather(x, np.arange(-x.shape[axis], 0), axis), x)


@given(st.data())
def test_split_is_slices(data):
    x = data.draw(arrays())
    axis = data.draw(st.integers(0, x.ndim - 1))
    start = [0] * x.ndim
    for part in dml.split(x, data.draw(parts_of(x.shape[axis])), axis):
        same(part, dml.slice(x, start, part.shape))
        start[axis] += part.shape[axis]


@given(st.data())
def test_slice_is_gather_by_steps(data):
    x = data.draw(arrays(hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=6)))
    if not x.size:
        return
    axis = data.draw(st.integers(0, x.ndim - 1))
    steps = np.ones(x.ndim, int)
    starts, sizes = [0] * x.ndim, list(x.shape)
    steps[axis] = data.draw(st.integers(1, 4))
    starts[axis] = data.draw(st.integers(0, x.shape[axis] - 1))
    sizes[axis] = data.draw(st.integers(0, 1 + (x.shape[axis] - 1 - starts[axis]) // int(steps[axis])))
    indices = starts[axis] + steps[axis] * np.arange(sizes[axis])
    same(dml.slice(x, starts, sizes, steps), dml.gather(x, indices, axis))


@given(st.data())
def test_gather_twice_is_gather_of_gathered_indices(data):
    x = data.draw(arrays(hnp.array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=5)))
    axis = data.draw(st.integers(0, x.ndim - 1))
    index_types = st.sampled_from(["i1", "i4", "i8", "u4", "u8", ">i4", ">u2"])
    many = hnp.array_shapes(min_dims=1, max_dims=1, min_side=1, max_side=5)
    first = data.draw(hnp.arrays(data.draw(index_types), data.draw(many)))
    second = data.draw(hnp.arrays(data.draw(index_types), data.draw(many)))
    if not x.shape[axis]:
        return
    gather = partial(dml.gather, out_of_range="clamp")
    same(gather(gather(x, first, axis), second, axis), gather(x, gather(first, second), axis))


@given(st.data())
def test_gather_of_any_index_is_a_clamped_wrapped_take(data):
    x = data.draw(arrays(hnp.array_shapes(min_dims=1, max_dims=3, min_side=2, max_side=5)))
    axis = data.draw(st.integers(0, x.ndim - 1))
    size = x.shape[axis]
    indices = data.draw(hnp.arrays(data.draw(hnp.integer_dtypes(endianness="?")), shapes))
    picked = [min(max(int(i) + size if i < 0 else int(i), 0), size - 1) for i in indices.ravel()]
    expected = np.take(x, np.array(picked, int).reshape(indices.shape), axis)
    same(dml.gather(x, indices, axis, out_of_range="clamp"), expected.astype(x.dtype, copy=False))
    if all(-size <= int(i) < size for i in indices.ravel()):
        same(dml.gather(x, indices, axis), expected.astype(x.dtype, copy=False))
        return
    out = np.zeros(expected.shape, x.dtype)
    with pytest.raises(IndexError, match=r"gather: index -?[0-9]+ in indices is out of range"):
        dml.gather(x, indices, axis, out=out)
    same(out, np.zeros_like(out))
