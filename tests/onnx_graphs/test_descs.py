"""Descs of ONNX graphs: run on the reference device they compute what the backend computes."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, numpy_helper, parser

from anydml import (
    DescError,
    Device,
    GatherOperatorDesc,
    JoinOperatorDesc,
    ModelError,
    Slice1OperatorDesc,
    SplitOperatorDesc,
    TensorDesc,
)
from anydml.onnx import backend, to_descs


def parsed(body, opset=18):
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}, "com.microsoft": 1]> {body}')


def tensor(*sizes, kind="FLOAT32"):
    return TensorDesc(kind, sizes)


def test_each_operator():
    descs = to_descs(
        parsed("""g (float[6, 4] x, int64[2, 2] i) => (float[A, B] a) {
        [cut] p, q = Split <axis = -2, num_outputs = 2> (x)
        starts = Constant <value_ints = [3]> ()
        ends = Constant <value_ints = [-100]> ()
        axes = Constant <value_ints = [1]> ()
        steps = Constant <value_ints = [-2]> ()
        [back] r = Slice (p, starts, ends, axes, steps)
        [pick] t = Gather <axis = 1> (r, i)
        [glue] a = Concat <axis = 0> (t, t)
        same = Identity (a)
    }""")
    )
    assert descs == {
        "cut": SplitOperatorDesc(tensor(1, 1, 6, 4), [tensor(1, 1, 3, 4), tensor(1, 1, 3, 4)], 2),
        "back": Slice1OperatorDesc(
            tensor(1, 1, 3, 4), tensor(1, 1, 3, 2), (0, 0, 0, 1), (1, 1, 3, 3), (1, 1, 1, -2)
        ),
        "pick": GatherOperatorDesc(
            tensor(1, 1, 3, 2), tensor(1, 1, 2, 2, kind="INT64"), tensor(1, 3, 2, 2), 3, 2
        ),
        "glue": JoinOperatorDesc([tensor(1, 3, 2, 2)] * 2, tensor(1, 6, 2, 2), 1),
    }  # fmt: skip
    for desc in descs.values():
        desc.check("6_4")


@pytest.mark.parametrize("least", [0, 1, 4, 8])
@pytest.mark.parametrize("index", ["int64", "int64[3]", "int32[2, 3]", "int64[1, 2, 1, 2]"])
@pytest.mark.parametrize(("shape", "axis"), [((5,), 0), ((4, 3), 0), ((4, 3), 1), ((2, 3, 4), 1), ((1, 1, 3, 2), 2)])
def test_gather_of_every_rank(shape, axis, index, least):
    sizes = ", ".join(map(str, shape))
    model = parsed(f"g (float[{sizes}] x, {index} i) => (float y) {{ y = Gather <axis = {axis}> (x, i) }}")
    model.graph.output[0].CopyFrom(model.graph.input[0])
    model.graph.output[0].name = "y"
    (desc,) = to_descs(model, min_dimensions=least).values()
    desc.check()
    assert len(desc.input_tensor.sizes) == max(least, len(shape), len(desc.output_tensor.sizes))
    rng = np.random.default_rng(3)
    kind = desc.indices_tensor.data_type.dtype
    indices = rng.integers(
        -shape[axis], shape[axis], [d.dim_value for d in model.graph.input[1].type.tensor_type.shape.dim]
    )
    x, indices = rng.random(shape, np.float32), indices.astype(kind)
    node = model.graph.node[0]
    (expected,) = backend.run_node(node, [x, indices], opset_version=18)
    assert np.array_equal(dispatch(desc, [x, indices])[0].reshape(expected.shape), expected)


def dispatch(desc, arrays):
    inputs = [array.reshape(t.sizes) for array, (_, t) in zip(arrays, desc.inputs, strict=True)]
    outputs = [np.empty(t.sizes, t.data_type.dtype) for _, t in desc.outputs]
    Device("reference").compile_operator(desc).bind(inputs, outputs).dispatch()
    return outputs


def test_random_slices_and_splits():
    rng = np.random.default_rng(11)
    for _ in range(60):
        shape = rng.integers(1, 6, rng.integers(1, 5)).tolist()
        axis = int(rng.integers(len(shape)))
        start, end = rng.integers(-7, 8, 2).tolist()
        step = int(rng.choice([-3, -1, 1, 2]))
        sizes = ", ".join(map(str, shape))
        model = parsed(f"""g (float[{sizes}] x) => (float[{sizes}] y) {{
            s = Constant <value_ints = [{start}]> () e = Constant <value_ints = [{end}]> ()
            a = Constant <value_ints = [{axis}]> () t = Constant <value_ints = [{step}]> ()
            y = Slice (x, s, e, a, t) }}""")
        x = rng.random(shape, np.float32)
        (expected,) = backend.run_model(model, [x])
        (desc,) = to_descs(model).values()
        if not expected.size:
            with pytest.raises(DescError, match="is 0"):
                desc.check()
            continue
        desc.check()
        assert np.array_equal(dispatch(desc, [x])[0].reshape(expected.shape), expected)


def test_training_operators_and_lengths_that_follow_from_sizes():
    descs = to_descs(
        parsed("""g (float16[2, 3] x, float16[1, 3] y) => (float16[A, B] a, float16[C, D] b) {
        [join] j, n = com.microsoft.ConcatTraining <axis = 0> (x, y)
        m = Identity (n)
        [split] a, b = com.microsoft.SplitTraining (j, m)
    }""")
    )
    parts = [tensor(1, 1, 2, 3, kind="FLOAT16"), tensor(1, 1, 1, 3, kind="FLOAT16")]
    whole = tensor(1, 1, 3, 3, kind="FLOAT16")
    assert descs == {"join": JoinOperatorDesc(parts, whole, 2), "split": SplitOperatorDesc(whole, parts, 2)}


def test_lengths_may_be_computed_by_our_own_operators():
    descs = to_descs(
        parsed("""g (float[6] x) => (float[A] a, float[B] b) {
        all = Constant <value_ints = [9, 4, 2, 9]> ()
        low = Constant <value_ints = [1]> ()
        high = Constant <value_ints = [3]> ()
        n = Slice (all, low, high)
        a, b = Split (x, n)
    }""")
    )
    assert [t.sizes for t in descs["Split_4"].output_tensors] == [(1, 1, 1, 4), (1, 1, 1, 2)]


def test_names_are_made_up_and_never_repeat():
    nodes = "[n] y = Identity (x) [n] z = Concat <axis = 0> (y, x) [n] b = Concat <axis = 0> (z, z)"
    body = f"g (float[2] x) => (float[A] a) {{ {nodes} a = Concat <axis = 0> (b, b) }}"
    assert list(to_descs(parsed(body))) == ["n_1", "n_2", "Concat_3"]


def test_functions():
    model = parsed("""g (float[2] x) => (float[M] y) { y = my.Twice <along = 0> (x) }
        <domain: "my", opset_import: ["": 18]>
        Twice <along> (v) => (r) { r = Concat <axis: int = @along> (v, v) }""")
    model.opset_import.add(domain="my", version=1)
    (desc,) = to_descs(model).values()
    assert desc == JoinOperatorDesc([tensor(1, 1, 1, 2)] * 2, tensor(1, 1, 1, 4), 3)


def test_booleans_are_bytes():
    (desc,) = to_descs(parsed("g (bool[2] x) => (bool[M] y) { y = Concat <axis = 0> (x, x) }")).values()
    assert desc.output_tensor == tensor(1, 1, 1, 4, kind="UINT8")


@pytest.mark.parametrize("kind", ["string", "bfloat16", "complex64"])
def test_types_that_directml_does_not_have(kind):
    with pytest.raises(ModelError, match=f'node "Concat_0" .*moves {kind.upper()}, and DirectML has no tensors of it'):
        to_descs(parsed(f"g ({kind}[2] x) => ({kind}[M] y) {{ y = Concat <axis = 0> (x, x) }}"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("g (float[2, N] x) => (float[A, B] y) { y = Concat <axis = 0> (x, x) }", r"sizes \[2, N\]; give it"),
        ("g (float[4] x, int64[2] s) => (float[A] y, float[B] z) { y, z = Split (x, s) }", "split is known only when"),
        ("g (float[4] x) => (float[A] y) { y = Relu (x) }", "not supported: anydml has"),
        ("g (float[4] x, float[2, 2] w) => (float[A] y) { y = Concat <axis = 0> (x, w) }", r"arrays\[1\] has shape"),
        ("g (float[4] x, double[4] w) => (float[A] y) { y = Concat <axis = 0> (x, w) }", "inconsistent type"),
        ("g (float[4] x, float[4] i) => (float[A] y) { y = Gather (x, i) }", "does not take the types of its inputs"),
        ("g (float[5] x) => (float[A] y, float[B] z) { y, z = com.microsoft.SplitTraining (x) }", "does not divide"),
    ],
)  # fmt: skip
def test_what_cannot_be_said(body, message):
    with pytest.raises(ModelError, match=message):
        to_descs(parsed(body))


def test_values_of_other_tensors_are_not_read():
    model = parsed("g (float[4] x) => (float[A] y) { y = Concat <axis = 0> (x, w) }")
    model.graph.initializer.append(numpy_helper.from_array(np.zeros(3, np.float32), "w"))
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="nowhere.bin")
    (desc,) = to_descs(model).values()
    assert desc.output_tensor.sizes == (1, 1, 1, 7)
