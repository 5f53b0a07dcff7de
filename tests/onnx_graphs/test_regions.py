"""Graphs of moves become one program a region: counted, and compared with node by node and with ONNX Runtime."""

from __future__ import annotations

import random

import numpy as np
import onnxruntime
import pytest
from how_many import how_many
from onnx import TensorProto, helper, numpy_helper, parser

from anydml import ModelError
from anydml.onnx.program import Program

onnxruntime.set_default_logger_severity(4)

BLOCKS, GRAPHS = 4, how_many(120) // 4


def parsed(body, opset=18):
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> {body}')


def programs(model, **given):
    """How many programs a model runs as, fused and node by node; the results are equal."""
    fused, single = Program(model), Program(model, is_fused=False)
    results, others = fused.run(given), single.run(given)
    for a, b in zip(results, others, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert np.array_equal(a, b)
    return fused.programs, single.programs


HEADS = """g (float[N, S, 48] x) => (float[A,B,C,D] q, float[E,F,G,H] k, float[I,J,K,L] v)
    <int64[3] parts = {16, 16, 16}, int64[4] heads = {0, 0, 2, 8}> {
        a, b, c = Split <axis = 2> (x, parts)
        ra = Reshape (a, heads) rb = Reshape (b, heads) rc = Reshape (c, heads)
        q = Transpose <perm = [0, 2, 1, 3]> (ra)
        k = Transpose <perm = [0, 2, 3, 1]> (rb)
        v = Transpose <perm = [0, 2, 1, 3]> (rc)
    }"""


def test_a_chain_of_moves_is_one_program():
    x = np.random.default_rng(0).random((2, 5, 48), np.float32)
    assert programs(parsed(HEADS), x=x) == (1, 7)


def test_shape_arithmetic_ends_no_region():
    """As exporters write a reshape of a dynamic batch."""
    model = parsed("""g (float[N, 6] x) => (float[A, B, C] y) <int64 zero = {0}, int64[1] first = {0},
        int64[2] rest = {2, 3}> {
            t = Transpose <perm = [0, 1]> (x)
            s = Shape (t)
            n = Gather (s, zero)
            one = Unsqueeze (n, first)
            sizes = Concat <axis = 0> (one, rest)
            r = Reshape (t, sizes)
            y = Transpose <perm = [2, 0, 1]> (r)
        }""")
    assert programs(model, x=np.arange(24, dtype=np.float32).reshape(4, 6))[0] == 1


def test_a_node_that_looks_at_elements_is_between_two_regions():
    model = parsed("""g (float[20, 6] x) => (int64[A, B] y) <int64[2] twice = {1, 2}> {
        t = Transpose (x) r = Tile (t, twice)
        n = NonZero (r)
        a = Transpose (n) y = Concat <axis = 0> (a, a)
    }""")
    x = np.arange(120, dtype=np.float32).reshape(20, 6) % 3
    assert programs(model, x=x)[0] == 2


def test_what_is_written_over_and_what_reads_it_are_one_program():
    model = parsed("""g (float[4, 6] x, int64[2, 1] i, float[2, 4] u) => (float[A, B] y) {
        t = Transpose (x)
        s = ScatterND (t, i, u)
        y = Transpose (s)
    }""")
    given = {"x": np.arange(24, dtype=np.float32).reshape(4, 6), "i": np.array([[3], [-6]]), "u": np.ones((2, 4), "f")}
    assert programs(model, **given) == (1, 3)


def test_results_that_nobody_needs_are_never_stored():
    model = parsed("""g (float[4, 6] x) => (float[A, B] y) <int64[2] many = {1000000, 1000000}, int64[2] two = {2, 2},
        int64[2] zero = {0, 0}> { t = Tile (x, many) y = Slice (t, zero, two) unused = Transpose (t) }""")
    (y,) = Program(model).run({"x": np.arange(24, dtype=np.float32).reshape(4, 6)})
    assert y.tolist() == [[0, 1], [6, 7]]


def test_an_index_outside_is_named_by_its_node():
    model = parsed("""g (float[4, 6] x, int64[2] i) => (float[A, B] y) {
        a = Transpose (x) [pick] b = Gather <axis = 0> (a, i) y = Concat <axis = 0> (b, b) }""")
    with pytest.raises(ModelError, match=r'node "pick" \(Gather\): index 6 is out of range for axis 0 of size 6'):
        Program(model).run({"x": np.zeros((4, 6), np.float32), "i": np.array([0, 6])})


@pytest.mark.parametrize("operator", ["Gather", "GatherND", "ScatterND"])
@pytest.mark.parametrize("wrong", [-5, 4])
@pytest.mark.parametrize("is_computed", [False, True])
def test_an_index_outside_is_refused_where_nothing_is_moved(operator, wrong, is_computed):
    indices = np.array([0, wrong] if operator == "Gather" else [[0], [wrong]])
    given = {"x": np.zeros((4, 0), np.float32), "i": indices}
    if operator == "ScatterND":
        given["u"] = np.zeros((2, 0), np.float32)
    nodes = [helper.make_node("Concat", ["i", "i"], ["j"], axis=0)] if is_computed and "u" not in given else []
    names = ["x", "j" if nodes else "i", *list(given)[2:]]
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in given.items()
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([*nodes, helper.make_node(operator, names, ["y"])], "g", inputs, [output])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    with pytest.raises(ModelError, match=f"index {wrong} is out of range for axis 0 of size 4"):
        Program(model).run(given)
    assert Program(model).run({**given, "i": np.abs(indices) % 4})[0].size == 0


def test_strings_go_through_regions_too():
    model = parsed("""g (string[N, M] x, int64[K] i) => (string[A, B] y)
    <int64[4] pads = {1, 0, 0, 1}, string p = {"pad"}> {
        a = Transpose (x) b = Gather <axis = 0> (a, i) c = Concat <axis = 0> (b, a) y = Pad (c, pads, p) }""")
    x = np.array([["a", "bc", ""], ["d", "é", "ff"]], object)
    t = x.T
    joined = np.concatenate([t[[2, 0]], t])
    expected = np.pad(joined, ((1, 0), (0, 1)), constant_values="pad")
    for fused in (True, False):
        (y,) = Program(model, is_fused=fused).run({"x": x, "i": np.array([2, 0])})
        assert np.array_equal(y, expected)
        assert y.dtype == object


KINDS = ["Transpose", "Slice", "Concat", "Pad", "Gather", "Tile", "Reshape", "Split", "GatherElements", "Unsqueeze",
         "ScatterElements", "Where"]  # fmt: skip


def drawn(rng):
    """A random graph of moves: nodes, constants, and the arrays that it is fed."""
    shapes, nodes, tensors = {"x": (4, 6), "z": (3, 4, 2)}, [], []

    def constant(array):
        tensors.append(numpy_helper.from_array(array, f"k{len(tensors)}"))
        return tensors[-1].name

    for i in range(rng.randint(2, 8)):
        name = rng.choice(list(shapes)[-3:])
        shape, new = shapes[name], f"v{i}"
        rank = len(shape)
        axis = rng.randrange(rank)
        kind = rng.choice(KINDS)
        if np.prod(shape) > 2000 and kind in ("Concat", "Pad", "Tile"):
            kind = "Slice"
        out = [*shape]
        attributes, inputs, outputs = {}, [name], [new]
        if kind == "Transpose":
            attributes["perm"] = rng.sample(range(rank), rank)
            out = [shape[k] for k in attributes["perm"]]
        elif kind == "Slice":
            step = rng.choice([-2, -1, 1, 2])
            out[axis] = -(-shape[axis] // abs(step))
            ends = (shape[axis], -100)[step < 0]
            inputs += [constant(np.array([n])) for n in (-1 if step < 0 else 0, ends, axis, step)]
        elif kind == "Concat":
            inputs.append(name)
            attributes["axis"], out[axis] = axis, 2 * shape[axis]
        elif kind == "Pad":
            counts = [rng.randint(0, 2) for _ in range(2 * rank)]
            attributes["mode"] = rng.choice(["constant", "edge"])
            inputs.append(constant(np.array(counts)))
            out = [size + counts[k] + counts[k + rank] for k, size in enumerate(shape)]
        elif kind in ("Gather", "GatherElements", "ScatterElements"):
            attributes["axis"] = axis
            out[axis] = 3 if kind == "Gather" else shape[axis]
            places = np.random.default_rng(i).permuted(
                np.broadcast_to(np.arange(shape[axis]), shape[:axis] + shape[axis + 1 :] + (shape[axis],)), axis=-1
            )
            every = np.ascontiguousarray(np.moveaxis(places, -1, axis))
            inputs.append(
                constant(np.array([rng.randrange(shape[axis]) for _ in range(3)]) if kind == "Gather" else every)
            )
            if kind == "ScatterElements":
                inputs.append(constant(np.full(shape, float(i), np.float32)))
        elif kind == "Tile":
            times = [rng.randint(1, 2) for _ in shape]
            inputs.append(constant(np.array(times)))
            out = [size * n for size, n in zip(shape, times, strict=True)]
        elif kind == "Reshape":
            out = rng.sample(shape, rank) if rng.random() < 0.5 else [int(np.prod(shape[:2])), *shape[2:]]
            inputs.append(constant(np.array(out)))
        elif kind == "Split":
            first = rng.randint(0, shape[axis])
            if shape[axis] - first == 0:
                first = 0
            attributes["axis"] = axis
            inputs.append(constant(np.array([first, shape[axis] - first])))
            outputs = [f"{new}b", new]
            out[axis] = shape[axis] - first
        elif kind == "Unsqueeze":
            if rank > 4:
                continue
            inputs.append(constant(np.array([axis])))
            out.insert(axis, 1)
        else:
            condition = constant(np.random.default_rng(i).random(shape) < 0.5)
            inputs = [condition, name, constant(np.full((), -float(i), np.float32))]
        nodes.append(helper.make_node(kind, inputs, outputs, **attributes))
        shapes[new] = tuple(out)
    made = [name for name in shapes if name.startswith("v")] or ["x"]
    kept = rng.sample(made, rng.randint(1, len(made)))
    if not nodes:
        nodes, kept = [helper.make_node("Identity", ["x"], ["y"])], ["y"]
    given = {name: np.random.default_rng(5).random(shapes[name], np.float32) for name in ("x", "z")}
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, array.shape) for name, array in given.items()]
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in kept]
    graph = helper.make_graph(nodes, "g", infos, results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), given


@pytest.mark.parametrize("block", range(BLOCKS))
def test_random_graphs(block):
    rng, fewer = random.Random(block), 0
    for _ in range(GRAPHS):
        model, feeds = drawn(rng)
        fused, single = programs(model, **feeds)
        assert fused <= single
        fewer += fused < single
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for ours, theirs in zip(Program(model).run(feeds), session.run(None, feeds), strict=True):
            assert np.array_equal(ours, theirs)
    assert fewer > GRAPHS // 2
