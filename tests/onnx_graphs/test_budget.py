"""What a graph takes in memory: counted beforehand, compared with what Python's allocators say afterwards."""

from __future__ import annotations

import random
import tracemalloc
import weakref

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

from anydml import ModelError
from anydml.memory import limits
from anydml.onnx import backend, budget, program, tensor_protos, to_descs
from anydml.onnx.budget import ARRAY_OVERHEAD, UNQUERIED_GROWTH, Budget
from anydml.onnx.program import Program

MIB = 2**20


def parsed(body):
    return parser.parse_model(f'<ir_version: 8, opset_import: ["": 18, "com.microsoft": 1]> {body}')


@pytest.fixture
def available(monkeypatch):
    """Say how many bytes the machine has for the test in all: what a budget holds is gone from what is available."""
    alive = weakref.WeakSet()
    made = Budget.__init__

    def register(self):
        made(self)
        alive.add(self)

    monkeypatch.setattr(Budget, "__init__", register)

    def say(size):
        monkeypatch.setattr(limits, "available_memory", lambda: size and size - sum(one.held_bytes for one in alive))

    return say


def test_little_is_taken_without_asking(monkeypatch):
    monkeypatch.setattr(limits, "available_memory", None)
    held = Budget()
    array = np.empty(UNQUERIED_GROWTH // 2 - ARRAY_OVERHEAD, np.uint8)
    held.ask("it", "this", array.nbytes)
    held.hold(array)
    held.ask("it", "this", array.nbytes)
    with pytest.raises(TypeError):
        held.ask("it", "this", array.nbytes + 1)


@pytest.mark.parametrize("count", [10, 100])
def test_many_small_ones_come_to_much(available, count):
    available(8 * MIB)
    held, arrays = Budget(), []
    with pytest.raises(
        ModelError, match=r"^it: this needs 102\.66 kB, but .* of memory are available: all tensors in use"
    ):
        for _ in range(count * 10):
            held.ask("it", "this", 100 * 1024)
            arrays.append(np.empty(100 * 1024, np.uint8))
            held.hold(arrays[-1])
    assert 7 * MIB < held.held_bytes <= 8 * MIB


def test_what_is_released_can_be_taken_again(available):
    available(8 * MIB)
    held, array = Budget(), np.empty(6 * MIB, np.uint8)
    for _ in range(5):
        held.ask("it", "this", array.nbytes)
        held.hold(array)
        held.hold(array)
        held.release([array])
        assert held.held_bytes == array.nbytes + ARRAY_OVERHEAD
        with pytest.raises(ModelError, match="but 2"):
            held.ask("it", "that", array.nbytes)
        held.release([array])
        assert held.held_bytes == 0
    held.release([array])
    assert held.held_bytes == 0


def test_others_take_memory_while_a_graph_runs(available):
    held, array = Budget(), np.empty(6 * MIB, np.uint8)
    available(100 * MIB)
    held.ask("it", "this", array.nbytes)
    held.hold(array)
    available(16 * MIB)
    held.ask("it", "this", 9 * MIB)
    available(1000 * MIB)
    with pytest.raises(ModelError, match=r"needs 11\.53 MB, but 10\.49 MB"):
        held.ask("it", "this", 11 * MIB)
    available(None)
    held.ask("it", "this", 2**60)


def grown(times, outputs, operator="Concat"):
    """A graph that doubles 64 KiB so many times, and then makes outputs of it."""
    nodes = [helper.make_node("Concat", [f"c{i}"] * 2, [f"c{i + 1}"], axis=0) for i in range(times)]
    names = [f"o{i}" for i in range(outputs)]
    nodes += [
        helper.make_node(operator, [f"c{times}"] * (1 + (operator == "Concat")), [name],
                         **({"axis": 0} if operator == "Concat" else {}))
        for name in names
    ]  # fmt: skip
    results = [helper.make_tensor_value_info(name, TensorProto.UINT8, ["N"]) for name in names]
    start = numpy_helper.from_array(np.zeros(1 << 16, np.uint8), "c0")
    graph = helper.make_graph(nodes, "g", [], results, [start])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.mark.parametrize(
    ("model", "need", "message"),
    [
        # 20 results of 2 MiB; what they are made of is never stored.
        (
            grown(4, 20),
            40,
            r"node \"Concat_\d+\" \(Concat\): the result of shape \[2097152\] needs 2\.10 MB, but [12]\.",
        ),
        # 8 MiB, one of whose 5 names goes out as it is.
        (grown(7, 5, "Identity"), 40, r"output \"o4\": a separate copy needs 8\.39 MB, but [78]\.\d\d MB of memory"),
    ],
)
def test_results_and_copies_are_counted_together(available, model, need, message):
    available((need + 1) * MIB)
    assert len(backend.run_model(model, [])) == len(model.graph.output)
    available(need * MIB)
    with pytest.raises(ModelError, match=message):
        backend.run_model(model, [])


def test_values_that_are_no_longer_needed_are_not_counted(available):
    available(20 * MIB)
    body = "a0 = Concat <axis = 0> (x, x)"
    steps = " ".join(f"a{i + 1} = Gather <axis = 0> (a{i}, i)" for i in range(20))
    model = parsed(f"g (float[N, M] x, int64[K] i) => (float[N, M] a20) {{ {body} {steps} }}")
    x = np.ones((1, 2 * MIB // 4), np.float32)
    assert backend.run_model(model, [x, np.zeros(2, np.int64)])[0].nbytes == 4 * MIB


class Recording(Budget):
    """Remembers the most that was held or asked for."""

    peak = 0

    def ask(self, label, what, size, arrays=1):
        Recording.peak = max(Recording.peak, self.held_bytes + size + arrays * ARRAY_OVERHEAD)
        super().ask(label, what, size, arrays)


def drawn(rng, kinds=5, sizes=(3, 40)):
    """A random graph of operators of so many kinds, some of whose values are outputs."""
    rows = rng.choice(sizes)
    values, nodes = {"x": rows, "c": 8}, []
    tensor = numpy_helper.from_array(np.ones((8, 2000), np.float32), "c")
    if rng.random() < 0.3:
        tensor = helper.make_tensor("c", TensorProto.FLOAT, [8, 2000], [1.0] * 16000)
    tensors = [tensor, *(numpy_helper.from_array(np.array([value]), f"k{value}") for value in (-1, 0, 1, 10**6))]
    for i in range(rng.randint(1, 15)):
        name, kind = rng.choice(list(values)), rng.randrange(kinds)
        size, new = values[name], f"v{i}"
        if kind == 0 and size < 200:
            nodes.append(helper.make_node("Concat", [name, name], [new], axis=0))
            values[new] = 2 * size
        elif kind == 1 and size > 1:
            nodes.append(helper.make_node("Split", [name], [new, f"{new}b"], axis=0, num_outputs=2))
            values[new], values[f"{new}b"] = (size + 1) // 2, size // 2
        elif kind == 2:
            nodes.append(helper.make_node("Slice", [name, "k1", "k1000000", "k0"], [new]))
            values[new] = max(0, size - 1)
        elif kind == 3 and size:
            nodes.append(helper.make_node("Gather", [name, "i"], [new], axis=0))
            values[new] = 5
        elif kind == 5 and size < 2000:
            nodes.append(helper.make_node("Pad", [name, "pads"], [new], mode=rng.choice(["edge", "constant"])))
            values[new] = size + 3
        elif kind == 6:
            nodes.append(helper.make_node("Trilu", [name], [new]))
            values[new] = size
        elif kind == 7:
            nodes.append(helper.make_node("Where", ["w", name, "k"], [new]))
            values[new] = size
        elif kind == 8:
            half = f"{new}h"
            nodes.append(helper.make_node("Cast", [name], [half], to=TensorProto.FLOAT16))
            nodes.append(helper.make_node("Cast", [half], [new], to=TensorProto.FLOAT))
            values[new] = size
        else:
            nodes.append(helper.make_node("Identity", [name], [new]))
            values[new] = size
    tensors.append(numpy_helper.from_array(np.array([1, 0, 2, 0]), "pads"))
    tensors.append(numpy_helper.from_array(np.arange(2000) % 3 == 0, "w"))
    tensors.append(numpy_helper.from_array(np.float32(5), "k"))
    outputs = rng.sample(sorted(values.keys() - {"x", "c"}), rng.randint(1, len(values.keys() - {"x", "c"})))
    graph = helper.make_graph(
        nodes, "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 2000]),
         helper.make_tensor_value_info("i", TensorProto.INT64, [5])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["M", 2000]) for name in outputs], tensors,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return model, {"x": np.ones((rows, 2000), np.float32), "i": np.zeros(5, np.int64)}


@pytest.fixture
def measured(monkeypatch):
    """Every run is composed region by region, and asks for what it takes."""
    monkeypatch.setattr(program, "fuse", lambda function: None)


@pytest.mark.parametrize("seed", range(40))
def test_no_more_is_taken_than_was_asked_for(monkeypatch, measured, seed):
    monkeypatch.setattr(program, "Budget", Recording)
    model, feeds = drawn(random.Random(seed))
    ready = Program(model)
    # What is compiled stays, and is none of the graph's.
    expected = ready.run(feeds)
    Recording.peak = 0
    tracemalloc.start()
    results = ready.run(feeds)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    slack = 64 * 1024
    assert taken <= Recording.peak + slack
    assert Recording.peak <= taken + slack, "more is asked for than is taken"
    for a, b in zip(results, expected, strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("seed", range(12))
def test_nodes_that_make_indices_count_them(monkeypatch, measured, seed):
    """They ask for the most that they may take; what NumPy takes for small work is not counted."""
    monkeypatch.setattr(program, "Budget", Recording)
    model, feeds = drawn(random.Random(seed), kinds=9, sizes=(700,))
    ready = Program(model)
    ready.run(feeds)
    Recording.peak = 0
    tracemalloc.start()
    ready.run(feeds)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken <= Recording.peak + MIB


@pytest.mark.parametrize("kind", ["raw", "float_data", "int32_data", "packed", "strings"])
def test_tensors_take_no_more_than_was_asked_for(kind):
    count = 20_000
    tensor = {
        "raw": lambda: numpy_helper.from_array(np.zeros(count), "t"),
        "float_data": lambda: helper.make_tensor("t", TensorProto.FLOAT, [count], [1.5] * count),
        "int32_data": lambda: helper.make_tensor("t", TensorProto.BFLOAT16, [count], [1] * count),
        "packed": lambda: numpy_helper.from_array(np.zeros(count, helper.tensor_dtype_to_np_dtype(22)), "t"),
        "strings": lambda: helper.make_tensor(
            "t", TensorProto.STRING, [count], [b"x" * 10_000, *[b"\xc3\xa9" * 3] * (count - 1)]
        ),
    }[kind]()
    tensor_protos.to_array(tensor, Budget())
    Recording.peak = 0
    tracemalloc.start()
    array = tensor_protos.to_array(tensor, Recording())
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert array.size == count
    assert taken <= Recording.peak + 64 * 1024


def test_strings_are_not_made_as_long_as_the_longest():
    """NumPy's own strings would take 4 bytes for each character of the longest, for every one."""
    texts = [b"x" * 100_000, b"a\0\0", *[b""] * 20_000]
    tensor = TensorProto(name="t", data_type=TensorProto.STRING, dims=[len(texts)], string_data=texts)
    tracemalloc.start()
    array = tensor_protos.to_array(tensor, Budget())
    assert tracemalloc.get_traced_memory()[1] < 10 * MIB
    tracemalloc.stop()
    assert array.tolist() == [text.decode() for text in texts]


def test_constants_and_inputs_are_counted(available):
    available(5 * MIB)
    values = ", ".join(["1"] * 120_000)
    model = parsed(f"g () => (int64[N] y) {{ y = Constant <value_ints = [{values}]> () }}")
    with pytest.raises(ModelError, match=r'node "Constant_0" \(Constant\): reading its value needs 5\.76 MB'):
        backend.run_model(model, [])
    strings = parsed("g (string[N] x) => (string[N] y) { y = Identity (x) }")
    with pytest.raises(ModelError, match=r'input "x": reading it needs'):
        backend.run_model(strings, [np.full(80_000, "abc")])
    large = parsed("g () => (float[N] y) <float[2] w = {1, 2}> { y = Identity (w) }")
    large.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.zeros(2 * MIB, np.float32), "w"))
    with pytest.raises(ModelError, match=r"the model: checking it needs 16\.78 MB, but 5\.24 MB"):
        backend.prepare(large)
    available(20 * MIB)
    ready = backend.prepare(large)
    available(7 * MIB)
    with pytest.raises(ModelError, match=r'output "y": a separate copy needs 8\.39 MB, but 7\.34 MB'):
        ready.run({})


def test_a_check_asks_too(available):
    values = ", ".join(["1"] * 4000)
    tables = " ".join(f"t{i} = Constant <value_ints = [{values}]> ()" for i in range(150))
    splits = " ".join(f"y{i} = Split (x, t{i})" for i in range(150))
    model = parsed(f"g (float[2] x) => (float[2] y0) {{ {tables} {splits} }}")
    available(UNQUERIED_GROWTH // 4)
    with pytest.raises(ModelError, match="of memory are available"):
        to_descs(model)


def test_asking_costs_little(monkeypatch):
    asked = []
    monkeypatch.setattr(limits, "available_memory", lambda: asked.append(1) or 2**40)
    held, arrays = Budget(), [np.empty(1000, np.uint8) for _ in range(20_000)]
    for array in arrays:
        held.ask("it", "this", array.nbytes)
        held.hold(array)
    assert len(asked) <= 1 + held.held_bytes // (UNQUERIED_GROWTH - 2 * (1000 + ARRAY_OVERHEAD))
    assert budget.UNQUERIED_GROWTH <= 2**26
