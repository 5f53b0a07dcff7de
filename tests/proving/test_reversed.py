"""What steps of any sign take of joined and padded values, beside the same elements in NumPy."""

from __future__ import annotations

import numpy as np
from how_many import how_many
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from anydml.proving import prove

INPUTS = {"x": (2, 3), "z": (2, 1), "f": (2, 2)}


def sliced(parts, padding, window, picked):
    """A model that takes a window of joined and padded parts, and then columns of that, and the elements it takes."""
    start, end, step = window
    values = {
        name: np.arange(2 * count).reshape(2, count) + 100 * k for k, (name, (_, count)) in enumerate(INPUTS.items())
    }
    whole = np.pad(np.concatenate([values[name] for name in parts], 1), [(0, 0), (0, padding)], constant_values=-1)
    count = whole.shape[1]
    taken = whole[:, start : None if end < -count else end : step]
    numbers = {
        "start": [start],
        "end": [end],
        "step": [step],
        "axis": [1],
        "pads": [0, 0, 0, padding],
        "picked": picked,
    }
    nodes = [
        helper.make_node("Concat", parts, ["joined"], axis=1),
        helper.make_node("Pad", ["joined", "pads"], ["padded"]),
        helper.make_node("Slice", ["padded", "start", "end", "axis", "step"], ["taken"]),
        helper.make_node("Gather", ["taken", "picked"], ["y"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in INPUTS.items()],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, len(picked)])],
        [numpy_helper.from_array(np.array(value, np.int64), name) for name, value in numbers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), taken[:, picked]


def windows(count):
    return st.one_of(
        st.tuples(st.integers(0, count - 1), st.just(count), st.sampled_from([1, 2])),
        st.tuples(st.integers(0, count - 1), st.just(-count - 1), st.sampled_from([-1, -2])),
    )


@settings(max_examples=how_many(300), deadline=None)
@given(st.data())
def test_what_is_proved_takes_the_same_elements(data):
    models = []
    for _ in range(2):
        parts = data.draw(st.lists(st.sampled_from([*INPUTS]), min_size=2, max_size=3), "parts")
        padding = data.draw(st.integers(0, 1), "padding")
        count = sum(INPUTS[name][1] for name in parts) + padding
        models.append(sliced(parts, padding, data.draw(windows(count), "window"), [0]))
    (first, one), (second, other) = models
    assert (prove(first, second, runs=False).verdict == "proved") == np.array_equal(one, other)


@settings(max_examples=how_many(100), deadline=None)
@given(st.data())
def test_windows_the_other_way_round_are_others(data):
    parts = data.draw(st.lists(st.sampled_from([*INPUTS]), min_size=2, max_size=3), "parts")
    count = sum(INPUTS[name][1] for name in parts)
    forward, taken = sliced(parts, 0, (0, count, 1), [*range(count)])
    backward, reverse = sliced(parts, 0, (count - 1, -count - 1, -1), [*range(count)])
    again, _ = sliced(parts, 0, (count - 1, -count - 1, -1), [*range(count)][::-1])
    assert (prove(forward, backward, runs=False).verdict == "proved") == np.array_equal(taken, reverse)
    assert prove(forward, again, runs=False).verdict == "proved"


def test_bounds_without_dimensions_are_refused_and_not_proved():
    one, _ = sliced(["x", "z"], 0, (3, -5, -1), [0])
    other = type(one)()
    other.CopyFrom(one)
    for tensor in other.graph.initializer:
        if tensor.name in ("start", "end", "step"):
            del tensor.dims[:]
    assert prove(one, other, runs=False).verdict == "undecided"
