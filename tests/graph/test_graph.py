"""Compiled graphs: what they give is what their nodes give one by one, and what they store is little, and explained."""

import collections
import copy
import gc
import pickle

import numpy as np
import pytest
from graph.random_graphs import node_by_node, random_buffers, random_graph
from how_many import how_many
from random_descs import padded_strides
from refused import f32

import anydml as dml

CHUNKS, GRAPHS = 8, how_many(120) // 8


def check(seed, devices, seen):
    rng = np.random.default_rng(seed)
    desc = random_graph(rng)
    assert list(desc.problems()) == [], seed
    buffers = random_buffers(rng, desc)
    program = desc.program()
    # Interleaved strides write each byte once, but it takes more than a look to see.
    assert all("may write a byte twice" in problem for problem in program.problems()), (seed, program)
    seen["graphs"] += 1
    seen["scratch"] += program.scratch_bytes > 0
    seen["nodes"] += len(desc.nodes)
    seen.update({type(node.operator).__name__ for node in desc.nodes if isinstance(node, dml.OperatorGraphNodeDesc)})
    expected = node_by_node(desc, buffers)
    for device in devices:
        graph = dml.Device(device).compile_graph(desc)
        outputs = [np.zeros(tensor.size_in_bytes, np.uint8) for _, tensor in desc.outputs]
        graph.bind(buffers, outputs).dispatch()
        for output, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_array_equal(output, wanted, f"{seed} {device}\n{graph}")
    arrays, results = strided(rng, desc, buffers)
    graph.bind(arrays, results).dispatch()
    for (_, tensor), result, wanted in zip(desc.outputs, results, expected, strict=True):
        np.testing.assert_array_equal(result, seen_as(tensor, wanted), f"{seed}\n{graph}", strict=True)


def seen_as(tensor, buffer):
    strides = [stride * tensor.data_type.itemsize for stride in tensor.element_strides]
    return np.ndarray(tensor.sizes, tensor.data_type.dtype, buffer, 0, strides)


def strided(rng, desc, buffers):
    """Arrays of the tensors' sizes with strides of their own, where nobody reads an input's bytes as another tensor."""
    arrays, results = [], []
    for k, ((_, tensor), buffer) in enumerate(zip(desc.inputs, buffers, strict=True)):
        ends = [edge for edge in desc.input_edges if edge.graph_input_index == k]
        arrays.append(buffer if len(ends) > 1 or len(tensor.sizes) == 1 else other(rng, seen_as(tensor, buffer)))
    for _, tensor in desc.outputs:
        empty = np.zeros(tensor.sizes, tensor.data_type.dtype)
        results.append(other(rng, empty) if len(tensor.sizes) > 1 else empty)
        if len(tensor.sizes) == 1:
            results[-1] = np.zeros((*tensor.sizes, 2), tensor.data_type.dtype)[:, 0]
    return arrays, results


def other(rng, array):
    strides = padded_strides(rng, array.shape, array.itemsize, 5)
    span = array.itemsize + sum((n - 1) * s for n, s in zip(array.shape, strides, strict=True))
    copied = np.ndarray(array.shape, array.dtype, np.zeros(span, np.uint8), 0, strides)
    copied[...] = array
    return copied


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_graphs(chunk):
    seen = collections.Counter()
    for k in range(GRAPHS):
        check([15, chunk, k], ("numpy", "cpu") if k % 4 else ("numpy", "cpu", "reference"), seen)
    assert seen["nodes"] >= 2 * seen["graphs"]
    assert 0 < seen["scratch"] <= 0.55 * seen["graphs"]
    assert len(seen) >= 15


def chain(*operators, device="cpu"):
    """Operators one after the other, compiled."""
    nodes = [dml.OperatorGraphNodeDesc(operator) for operator in operators]
    between = [dml.IntermediateGraphEdgeDesc(k, 0, k + 1, 0) for k in range(len(nodes) - 1)]
    extra = [(k, n) for k, node in enumerate(nodes) for n in range(bool(k), len(node.inputs))]
    inputs = [dml.InputGraphEdgeDesc(number, *end) for number, end in enumerate(extra)]
    outputs = [dml.OutputGraphEdgeDesc(len(nodes) - 1, k, k) for k in range(len(nodes[-1].outputs))]
    return dml.GraphDesc(len(inputs), len(outputs), nodes, inputs, outputs, between)


def run(desc, *inputs, device="cpu"):
    outputs = [np.zeros(tensor.sizes, tensor.data_type.dtype) for _, tensor in desc.outputs]
    graph = dml.Device(device).compile_graph(desc)
    graph.bind(inputs, outputs).dispatch()
    return outputs, graph


def transposed(*sizes, order):
    strides = np.cumprod([1, *sizes[::-1]])[-2::-1]
    return f32(*(sizes[k] for k in order), strides=[int(strides[k]) for k in order])


def test_a_chain_is_one_move_without_scratch():
    """Crop, flip, transpose by strides, space to depth: each byte once."""
    x = np.arange(1 * 4 * 8 * 10, dtype=np.float32).reshape(1, 4, 8, 10)
    desc = chain(
        dml.SliceOperatorDesc(f32(1, 4, 8, 10), f32(1, 4, 6, 8), [0, 0, 1, 2], [1, 4, 6, 8], [1, 1, 1, 1]),
        dml.Slice1OperatorDesc(f32(1, 4, 6, 8), f32(1, 4, 6, 8), [0] * 4, [1, 4, 6, 8], [1, 1, 1, -1]),
        dml.ElementWiseIdentityOperatorDesc(transposed(1, 4, 6, 8, order=(0, 2, 3, 1)), f32(1, 6, 8, 4)),
        dml.SpaceToDepthOperatorDesc(f32(1, 6, 8, 4), f32(1, 24, 4, 2), 2),
    )
    (y,), graph = run(desc, x)
    wanted = x[:, :, 1:7, 2:10][..., ::-1].transpose(0, 2, 3, 1)
    wanted = wanted.reshape(1, 6, 4, 2, 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 24, 4, 2)
    np.testing.assert_array_equal(y, wanted)
    assert len(desc.program().moves) == 1
    assert desc.program().scratch_bytes == 0
    assert str(graph).startswith("DML_GRAPH: 1 move, 0 B of scratch")
    assert repr(graph) == "CompiledGraph(1 move on 'cpu')"


def test_a_gather_of_a_gather_is_a_lookup_in_a_lookup():
    i32 = dml.TensorDesc("INT32", [1, 5])
    desc = chain(
        dml.GatherOperatorDesc(f32(7, 3), i32, f32(5, 3), 0, 1),
        dml.GatherOperatorDesc(f32(5, 3), dml.TensorDesc("INT32", [1, 9]), f32(9, 3), 0, 1),
    )
    x = np.arange(21, dtype=np.float32).reshape(7, 3)
    first = np.array([[6, -1, 0, 99, 2]], np.int32)
    second = np.array([[4, 3, 2, 1, 0, -5, -1, 2, 50]], np.int32)
    (y,), _ = run(desc, x, first, second)
    np.testing.assert_array_equal(y, x[[6, 6, 0, 6, 2]][[4, 3, 2, 1, 0, 0, 4, 2, 4]])
    assert desc.program().scratch_bytes == 0


def test_scratch_says_why():
    """A gather across what is joined has to find it in one place."""
    join = dml.JoinOperatorDesc([f32(2, 3), f32(4, 3)], f32(6, 3), 0)
    desc = chain(join, dml.GatherOperatorDesc(f32(6, 3), dml.TensorDesc("INT32", [1, 4]), f32(4, 3), 0, 1))
    x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.arange(12, dtype=np.float32).reshape(4, 3) + 10
    (z,), graph = run(desc, x, y, np.array([[5, 0, 2, 1]], np.int32))
    np.testing.assert_array_equal(z, np.concatenate([x, y])[[5, 0, 2, 1]])
    assert desc.program().scratch_bytes == 72
    reason = "Nodes[1].InputTensor is read: it is looked up along axis 0, which consists of several pieces"
    assert f"#4 scratch scratch 0: 72 B, because {reason}" in str(graph)


def test_what_is_scattered_goes_straight_to_an_output():
    scatter = dml.ScatterOperatorDesc(f32(1, 5), dml.TensorDesc("INT64", [1, 2]), f32(1, 2), f32(1, 5), 1)
    desc = chain(dml.Slice1OperatorDesc(f32(1, 5), f32(1, 5), [0, 0], [1, 5], [1, -1]), scatter)
    (y,), _ = run(desc, np.arange(5, dtype=np.float32)[None], np.array([[0, -1]]), np.array([[8, 9]], np.float32))
    assert y.tolist() == [[8, 3, 2, 1, 9]]
    assert desc.program().scratch_bytes == 0


def test_an_edge_reads_bytes():
    """Halves of 64-bit numbers, and a byte in the gap that fills up to 4."""
    i64, u32 = dml.TensorDesc("INT64", [1, 3]), dml.TensorDesc("UINT32", [3, 2])
    joined = dml.JoinOperatorDesc([i64, i64], dml.TensorDesc("INT64", [2, 3]), 0)
    halves = dml.TensorDesc("UINT32", [2, 3, 2])
    low = dml.SliceOperatorDesc(halves, dml.TensorDesc("UINT32", [2, 3, 1]), [0, 0, 0], [2, 3, 1], [1, 1, 1])
    desc = chain(joined, low)
    a, b = np.array([[1, 2, 3]]), np.array([[-1, 5 << 32, 6]])
    (y,), _ = run(desc, a, b)
    assert y[..., 0].tolist() == [[1, 2, 3], [2**32 - 1, 0, 6]]
    assert desc.program().scratch_bytes == 0
    u8 = dml.TensorDesc("UINT8", [3])
    whole = dml.TensorDesc("UINT32", [1])
    desc = chain(dml.ElementWiseIdentityOperatorDesc(u8, u8), dml.ElementWiseIdentityOperatorDesc(whole, whole))
    (y,), _ = run(desc, np.array([1, 2, 3], np.uint8))
    assert y.tobytes() == bytes([1, 2, 3, 0])
    assert u32.size_in_bytes == i64.size_in_bytes


def test_a_constant_node():
    node = dml.ConstantDataGraphNodeDesc(np.array([[2, 0, -1]]), "order")
    gather = dml.GatherOperatorDesc(f32(3, 2), dml.TensorDesc("INT64", [1, 3]), f32(3, 2), 0, 1)
    desc = dml.GraphDesc(
        1,
        1,
        [node, dml.OperatorGraphNodeDesc(gather)],
        [dml.InputGraphEdgeDesc(0, 1, 0)],
        [dml.OutputGraphEdgeDesc(1, 0, 0)],
        [dml.IntermediateGraphEdgeDesc(0, 0, 1, 1)],
    )
    assert node.data_size == 24
    (y,), graph = run(desc, np.arange(6, dtype=np.float32).reshape(3, 2))
    assert y.tolist() == [[4, 5], [0, 1], [4, 5]]
    assert '#2 constant Nodes[0] ("order"): 24 B' in str(graph)


@pytest.mark.parametrize("given", ["by a constant", "by ConcatTraining"])
def test_sizes_that_are_read_on_the_host(given):
    """SplitTraining's sizes come from a constant, or from ConcatTraining, whose lengths are an output, too."""
    sizes, x = dml.TensorDesc("INT64", [2]), np.arange(12, dtype=np.float32).reshape(3, 4)
    parts, whole = [f32(1, 4), f32(2, 4)], f32(3, 4)
    split = dml.OperatorGraphNodeDesc(dml.SplitTrainingOperatorDesc(whole, sizes, parts))
    join = dml.OperatorGraphNodeDesc(dml.ConcatTrainingOperatorDesc(parts, whole, sizes))
    outputs = [dml.OutputGraphEdgeDesc(0, k, k) for k in range(2)]
    if given == "by a constant":
        lengths = dml.ConstantDataGraphNodeDesc(np.array([1, 2], np.int64))
        nodes, inputs, between = [split, lengths], [dml.InputGraphEdgeDesc(0, 0, 0)], [(1, 0, 0, 1)]
        buffers, expected = [x], [x[:1], x[1:]]
    else:
        nodes, between = [split, join], [(1, 0, 0, 0), (1, 1, 0, 1)]
        inputs = [dml.InputGraphEdgeDesc(k, 1, k) for k in range(2)]
        outputs.append(dml.OutputGraphEdgeDesc(1, 1, 2))
        buffers, expected = [x[:1].copy(), x[1:].copy()], [x[:1], x[1:], np.array([1, 2])]
    edges = [dml.IntermediateGraphEdgeDesc(*edge) for edge in between]
    desc = dml.GraphDesc(len(inputs), len(outputs), nodes, inputs, outputs, edges)
    assert [*desc.problems()] == []
    for device in ("cpu", "reference"):
        actual = [np.zeros(each.shape, each.dtype) for each in expected]
        compiled = dml.Device(device).compile_graph(desc)
        compiled.bind(buffers, actual).dispatch()
        for one, other in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(one, other)
        assert desc.program().scratch_bytes == 0


def test_data_of_a_constant_is_copied():
    data = np.array([1, 2], np.float32)
    node = dml.ConstantDataGraphNodeDesc(data)
    data[0] = 5
    assert node.data == np.array([1, 2], np.float32).tobytes()


def halves():
    copied = dml.ElementWiseIdentityOperatorDesc(f32(1, 1, 2, 3), f32(1, 1, 2, 3))
    return chain(copied, dml.SplitOperatorDesc(f32(1, 1, 2, 3), [f32(1, 1, 2, 1), f32(1, 1, 2, 2)], 3))


@pytest.mark.parametrize("remake", [copy.copy, copy.deepcopy, lambda graph: pickle.loads(pickle.dumps(graph))])
def test_a_graph_is_compiled_again_where_it_goes(remake):
    x, y, z = (
        np.arange(6, dtype=np.float32).reshape(1, 1, 2, 3),
        np.zeros((1, 1, 2, 1), "f4"),
        np.zeros((1, 1, 2, 2), "f4"),
    )
    graph = remake(dml.Device("numpy").compile_graph(halves()))
    assert type(graph) is dml.CompiledGraph
    graph.bind([x], [y, z]).dispatch()
    np.testing.assert_array_equal(np.concatenate([y, z], 3), x)


def test_buffers_are_checked_as_an_operators():
    graph = dml.Device("numpy").compile_graph(halves())
    x, y, z = np.zeros((1, 1, 2, 3), "f4"), np.zeros((1, 1, 2, 1), "f4"), np.zeros((1, 1, 2, 2), "f4")
    for inputs, outputs, message in (
        ([x], [y], r"DML_GRAPH: outputs has 1 buffer for 2 tensors: Outputs\[0\], Outputs\[1\]"),
        ([x[..., :2]], [y, z], r"Inputs\[0\] is bound to float32 \[1, 1, 2, 2\]"),
        ([x], [y, x[..., :2]], r"Outputs\[1\] overlaps Inputs\[0\]"),
        ([x], [y.view()[::-1], np.broadcast_to(z[:, :, :1], z.shape)], r"Outputs\[1\] is read-only"),
    ):
        with pytest.raises(dml.BindingError, match=message):
            graph.bind(inputs, outputs)


def test_an_operator_twice_in_a_graph_and_one_output_to_many():
    copied = dml.OperatorGraphNodeDesc(dml.ElementWiseIdentityOperatorDesc(f32(4), f32(4)))
    desc = dml.GraphDesc(
        1,
        3,
        [copied, copied],
        [dml.InputGraphEdgeDesc(0, 0, 0)],
        [dml.OutputGraphEdgeDesc(0, 0, 2), dml.OutputGraphEdgeDesc(1, 0, 0), dml.OutputGraphEdgeDesc(0, 0, 1)],
        [dml.IntermediateGraphEdgeDesc(0, 0, 1, 0)],
    )
    outputs, _ = run(desc, np.arange(4, dtype=np.float32))
    for output in outputs:
        assert output.tolist() == [0, 1, 2, 3]


def test_bindings_are_in_the_order_of_indices_and_none_is_for_what_is_left_out():
    """An operator that is compiled alone has a place for its optional output, a graph has none."""
    parts = [f32(1, 2), f32(3, 2)]
    node = dml.OperatorGraphNodeDesc(dml.ConcatTrainingOperatorDesc(parts, f32(4, 2), None))
    copied = dml.OperatorGraphNodeDesc(dml.ElementWiseIdentityOperatorDesc(f32(4, 2), f32(4, 2)))
    desc = dml.GraphDesc(
        2,
        2,
        [copied, node],
        [dml.InputGraphEdgeDesc(1, 1, 0), dml.InputGraphEdgeDesc(0, 1, 1)],
        [dml.OutputGraphEdgeDesc(1, 0, 1), dml.OutputGraphEdgeDesc(0, 0, 0)],
        [dml.IntermediateGraphEdgeDesc(1, 0, 0, 0)],
    )
    second, first = np.arange(2, dtype="f4").reshape(1, 2), np.arange(6, dtype="f4").reshape(3, 2) + 10
    (copy_of, joined), graph = run(desc, first, second)
    np.testing.assert_array_equal(joined, np.concatenate([second, first]))
    np.testing.assert_array_equal(copy_of, joined)
    with pytest.raises(dml.BindingError, match="outputs has 3 buffers for 2 tensors"):
        graph.bind([first, second], [copy_of, joined, None])


def test_descs_and_data_are_needed_until_the_graph_is_compiled():
    data = np.arange(6, dtype="f4")
    copied = dml.OperatorGraphNodeDesc(dml.ElementWiseIdentityOperatorDesc(f32(1, 1, 2, 3), f32(1, 1, 2, 3)))
    desc = dml.GraphDesc(
        0,
        1,
        [dml.ConstantDataGraphNodeDesc(data), copied],
        [],
        [dml.OutputGraphEdgeDesc(1, 0, 0)],
        [dml.IntermediateGraphEdgeDesc(0, 0, 1, 0)],
    )
    graph, y = dml.Device("cpu").compile_graph(desc), np.zeros((1, 1, 2, 3), "f4")
    data[...] = -1
    del desc, copied, data
    gc.collect()
    graph.bind([], [y]).dispatch()
    assert y.ravel().tolist() == [0, 1, 2, 3, 4, 5]


def test_elements_that_the_producer_did_not_write_are_not_promised_and_what_it_wrote_is():
    """The gaps between strides of an edge: a consumer that reads them gets bytes, and all others what was written."""
    gaps = f32(1, 1, 2, 3, strides=[10, 10, 5, 1])
    packed = dml.TensorDesc("FLOAT32", [1, 1, 1, 8])
    desc = chain(
        dml.ElementWiseIdentityOperatorDesc(f32(1, 1, 2, 3), gaps), dml.ElementWiseIdentityOperatorDesc(packed, packed)
    )
    for device in ("numpy", "cpu", "reference"):
        (y,), _ = run(desc, np.arange(1, 7, dtype="f4").reshape(1, 1, 2, 3), device=device)
        assert y.ravel()[[0, 1, 2, 5, 6, 7]].tolist() == [1, 2, 3, 4, 5, 6]
