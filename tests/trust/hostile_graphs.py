"""Small, valid or nearly valid ONNX files that ask for much: memory, time, dimensions; or whose names pretend."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

MICROSOFT = "com.microsoft"
OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid(MICROSOFT, 1), helper.make_opsetid("my", 1)]
PRETENDING = [
    "q\nFORGED", "q\r\nFORGED", "\x1b[2J", "\u202egnp.exe\u202c", "a\u2028FORGED", "a\u2029FORGED", "\u2066x\u2069",
    "q\x0bFORGED", "q\x85FORGED", "\x9b2J", "\u200f", "\u061c", "\ufeff", "q'\n    FORGED", "\x00", "x" * 5000 + "\n",
]  # fmt: skip
START = 1 << 16


def hostile_graph(rng: random.Random) -> ModelProto:
    """One model."""
    return rng.choice(_KINDS)(rng)


def deep_file(rng: random.Random) -> bytes:
    """A file of graphs inside each other, deeper than protobuf writes them."""
    depth = rng.choice([20, 40, 1000, 20_000])
    # From the inside out, and put together once: what is inside is long.
    before, after, length = [], b"\xa0\x01\x05", 0
    for _ in range(depth):
        node = _head(1, length)
        graph = _head(6, len(node) + length) + node
        body = _field(1, b"body") + graph
        head = _field(1, b"x") + _field(4, b"Loop") + _head(5, len(body) + length + len(after)) + body
        before.append(head)
        length += len(head) + len(after)
    node = b"".join(reversed(before)) + after * depth
    return b"\x08\x08" + _field(8, b"\x10\x12") + _field(7, _field(1, node))


def _field(number: int, data: bytes) -> bytes:
    """A field of bytes, as protobuf writes one."""
    return _head(number, len(data)) + data


def _head(number: int, length: int) -> bytes:
    """What comes before a field's bytes."""
    size = b""
    while length > 127:
        size += bytes([length & 127 | 128])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length])


def _model(
    nodes: Sequence[NodeProto], outputs: Sequence[str], tensors: Sequence[TensorProto] = (), functions: Any = ()
) -> ModelProto:
    """A model with the input that the command line gives, FLOAT [4, 2]."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 2])
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", [x], results, tensors)
    return helper.make_model(graph, opset_imports=OPSETS, functions=functions, ir_version=9)


def _node(kind: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any) -> NodeProto:
    domain = MICROSOFT if kind.endswith("Training") else "my" if kind.startswith("F") else ""
    return helper.make_node(kind, inputs, outputs, domain=domain, **attributes)


def _tensor(name: str, kind: int, sizes: Sequence[int], data: bytes) -> TensorProto:
    return TensorProto(name=name, data_type=kind, dims=sizes, raw_data=data)


def _integers(name: str, *values: int) -> TensorProto:
    return helper.make_tensor(name, TensorProto.INT64, [len(values)], values)


def _grown(size: int) -> tuple[list[NodeProto], str]:
    """Nodes that join a tensor with itself until it has so many bytes, and the last one's name."""
    nodes, name, reached = [], "c", START
    while reached < size:
        nodes.append(_node("Concat", [name, name], [f"{name}c"], axis=0))
        name, reached = f"{name}c", 2 * reached
    return nodes, name


def _start() -> TensorProto:
    return _tensor("c", TensorProto.UINT8, [START], bytes(START))


def _many_results(rng: random.Random) -> ModelProto:
    size = rng.choice([1, 1 << 20, 1 << 23, 1 << 25])
    nodes, name = _grown(size)
    outputs = [f"o{i}" for i in range(rng.choice([1, 3, 30, 300, 1000]))]
    # What is let go at once takes no memory, but its time.
    kept = outputs if rng.random() < 0.7 or size * len(outputs) > 1 << 28 else outputs[-1:]
    if rng.random() < 0.3:
        # Gathers: an index of a few bytes makes a row of any length.
        whole = _node("Split", [name], ["first", *outputs], axis=0, num_outputs=len(outputs) + 1)
        return _model([*nodes, whole], kept, [_start()])
    return _model([*nodes, *(_node("Concat", [name, "c"], [one], axis=0) for one in outputs)], kept, [_start()])


def _copies(rng: random.Random) -> ModelProto:
    nodes, name = _grown(rng.choice([1, 1 << 22, 1 << 25, 1 << 27]))
    outputs = [f"o{i}" for i in range(rng.choice([1, 3, 30, 300]))]
    source = name if rng.random() < 0.7 else "c"
    chain = rng.random() < 0.3
    for i, one in enumerate(outputs):
        nodes.append(_node("Identity", [outputs[i - 1] if chain and i else source], [one]))
    return _model(nodes, outputs, [_start()])


def _declared(rng: random.Random) -> ModelProto:
    sizes = rng.choice([[2**40], [2**31, 2**31], [2**20] * 3, [2**62, 2], [-1], [0, 2**62], [2**63 - 1], [1 << 28]])
    kind = rng.choice(
        [TensorProto.FLOAT, TensorProto.INT4, TensorProto.INT64, TensorProto.BFLOAT16, TensorProto.STRING]
    )
    tensor = _tensor("d", kind, sizes, rng.choice([b"", bytes(8), bytes(1000)]))
    way = rng.randrange(4)
    if way == 0:
        return _model([_node("Identity", ["d"], ["y"])], ["y"], [tensor])
    if way == 1:
        return _model([_node("Constant", [], ["y"], value=tensor)], ["y"])
    if way == 2:
        index = _integers("i", *[0] * rng.choice([1, 4000]))
        nodes = [_node("Gather", ["d", "i"], ["r"], axis=0), _node("Split", ["x", "r"], ["y"], axis=0)]
        return _model(nodes, ["y"], [tensor, index])
    model = _model([_node("Concat", ["x", "z"], ["y"], axis=0)], ["y"])
    model.graph.input.append(helper.make_tensor_value_info("z", kind, sizes))
    return model


def _texts(rng: random.Random) -> ModelProto:
    """One long string among many empty ones: as elements of one size they would be gigabytes."""
    texts = [b"", b"x" * rng.choice([1, 1000, 100_000]), *[rng.choice([b"", b"a\nFORGED", b"\xff"])] * 3]
    texts += [b""] * rng.choice([0, 100, 20_000])
    tensor = TensorProto(name="t", data_type=TensorProto.STRING, dims=[len(texts)], string_data=texts)
    nodes = [_node("Concat", ["t", "t"], ["u"], axis=0), _node("Slice", ["u", "s", "e", "a", "b"], ["y"])]
    ends = [_integers("s", -1), _integers("e", -(2**40)), _integers("a", 0), _integers("b", rng.choice([-1, -2]))]
    return _model(nodes, rng.choice([["y"], ["u", "y"]]), [tensor, *ends])


def _called(rng: random.Random) -> ModelProto:
    """Functions that call functions: each doubles the nodes, or hands on long names and large attributes."""
    depth, width = rng.choice([1, 3, 12, 40]), rng.choice([1, 2, 3])
    functions = []
    for i in range(depth):
        nodes, name = [], "a"
        for k in range(width):
            nodes.append(_node(f"F{i + 1}", [name], [f"t{k}"]))
            name = f"t{k}"
        functions.append(helper.make_function("my", f"F{i}", ["a"], [name], nodes, OPSETS))
    names = [f"n{i}" for i in range(rng.choice([1, 100, 1000]))]
    last = [_node("Identity", ["a"], [name]) for name in [*names, "b"]]
    call = _node("F0", ["x"], ["y"])
    if rng.random() < 0.5:
        values = [_node("Constant", [], [f"v{i}"]) for i in range(len(names))]
        for node in values:
            node.attribute.append(AttributeProto(name="value_ints", ref_attr_name="v", type=AttributeProto.INTS))
        last += values
        if depth == 0 or rng.random() < 0.5:
            call.attribute.append(helper.make_attribute("v", list(range(rng.choice([1, 5000])))))
    functions.append(helper.make_function("my", f"F{depth}", ["a"], ["b"], last, OPSETS, rng.choice([[], ["v"]])))
    rng.shuffle(functions)
    source = "x" if rng.random() < 0.5 else "l" * 20_000
    call.input[0] = source
    return _model([_node("Identity", ["x"], [source]), call] if source != "x" else [call], ["y"], functions=functions)


def _nested(rng: random.Random) -> ModelProto:
    """Graphs in graphs, deep or wide, with training nodes inside."""
    inner: list[NodeProto] = [_node("SplitTraining", ["x", "s"], ["p", "q"], axis=0)]
    for i in range(rng.choice([1, 5, 25])):
        branch = GraphProto(name="b", node=inner, output=[helper.make_tensor_value_info(inner[-1].output[0], 1, None)])
        inner = [NodeProto(op_type="If", input=["c"], output=[f"r{i}"])]
        for name in ("then_branch", "else_branch")[: rng.choice([1, 2]) if i < 8 else 1]:
            inner[0].attribute.append(AttributeProto(name=name, type=AttributeProto.GRAPH, g=branch))
    wide = rng.choice([0, 0, 300])
    copies = [NodeProto(op_type="If", input=["c"], output=[f"w{i}"]) for i in range(wide)]
    result = helper.make_tensor_value_info("o", TensorProto.FLOAT, None)
    small = GraphProto(name="b", node=[_node("Identity", ["x"], ["o"])], output=[result])
    for copy in copies:
        for name in ("then_branch", "else_branch"):
            copy.attribute.append(AttributeProto(name=name, type=AttributeProto.GRAPH, g=small))
    outside = [_node("SplitTraining", ["x", "s"], ["y"])] if rng.random() < 0.5 else []
    condition = _tensor("c", TensorProto.BOOL, [], b"\1")
    tables = [_integers(f"k{i}", 1) for i in range(wide)]
    tensors = [condition, _integers("s", *rng.choice([[], [4]])), *tables]
    return _model([*copies, *outside, *inner], [inner[0].output[0]], tensors)


def _long(rng: random.Random) -> ModelProto:
    """Long names, and long lists of one name."""
    name, count = "n" * rng.choice([10, 1000, 50_000]), rng.choice([1, 100, 5000])
    nodes = [_node("ConcatTraining", ["x"] * count, [f"{name}y", name], axis=0)]
    nodes.append(_node("SplitTraining", [f"{name}y", name], [f"o{i}" for i in range(count)], axis=0))
    for i in range(rng.choice([0, 10, 1000])):
        nodes += [helper.make_node("Identity", ["x"], [f"s{i}"], name=rng.choice(["", "same", name[:1000]]))]
    return _model(nodes, [name, "o0"])


def _dimensions(rng: random.Random) -> ModelProto:
    """Of tensors, indices and results, around NumPy's most."""
    first, second = (rng.choice([1, 31, 32, 33, 40, 63, 64, 65, 100, 5000]) for _ in range(2))
    kind = rng.choice([TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING])
    if kind == TensorProto.STRING:
        data = TensorProto(name="d", data_type=kind, dims=[1] * first, string_data=[b"a"])
    else:
        data = _tensor("d", kind, [1] * first, bytes(4 if kind == TensorProto.FLOAT else 8))
    index = _tensor("i", TensorProto.INT64, [1] * second, bytes(8))
    axis = rng.choice([0, -1, first - 1, 64])
    work = rng.choice(
        [
            _node("Gather", ["d", "i"], ["y"], axis=axis),
            _node("Gather", ["x", "i"], ["y"], axis=rng.choice([0, 1])),
            _node("Split", ["d"], ["y"], axis=axis, num_outputs=1),
            _node("Concat", ["d", "d"], ["y"], axis=axis),
            _node("ConcatTraining", ["d", "d"], ["y"], axis=axis),
            _node("SplitTraining", ["d"], ["y"], axis=axis),
        ]
    )
    nodes = [work]
    if rng.random() < 0.5:
        # What decides sizes is evaluated even by a check.
        nodes += [_node("Split", ["x", "y"], ["z"], axis=0)]
    model = _model(nodes, ["y"], [data, index])
    if rng.random() < 0.2:
        model.graph.input.append(helper.make_tensor_value_info("i", TensorProto.INT64, [1] * second))
    return model


def _pretending(rng: random.Random) -> ModelProto:
    """Names that would command a terminal, or look like lines of their own."""
    names = [f"{rng.choice(PRETENDING)}{i}" for i in range(6)]
    t, y, n, size, node, attribute = names
    texts = TensorProto(name=t, data_type=TensorProto.STRING, dims=[2], string_data=[y.encode(), b"b"])
    kind, called = rng.choice(["Identity", "Identity", attribute]), rng.choice([node, attribute])
    nodes = [
        helper.make_node("Concat", [t, t], [y], name=node, axis=rng.choice([0, 0, 1])),
        helper.make_node(kind, ["x"], [n], name=called),
    ]
    if rng.random() < 0.3:
        nodes[1].attribute.append(helper.make_attribute(attribute, 1))
    if rng.random() < 0.2:
        nodes[1].domain = size
    model = _model(nodes, [y, n], [texts])
    if rng.random() < 0.3:
        model.graph.input.append(helper.make_tensor_value_info(attribute, TensorProto.FLOAT, [size]))
    if rng.random() < 0.2:
        texts = model.graph.initializer[0]
        texts.ClearField("string_data")
        texts.data_location = TensorProto.EXTERNAL
        texts.external_data.add(key="location", value=size)
    if rng.random() < 0.2:
        model.graph.input[0].name = n
    if rng.random() < 0.2:
        # An index that is outside, and a split that does not fit.
        model.graph.node.append(helper.make_node("Gather", ["x", "i"], [attribute], name=node))
        model.graph.initializer.append(_integers("i", 7))
    return model


LARGE = [-(2**63), -(2**31), -7, -1, 0, 1, 2, 3, 5, 64, 1000, 2**20, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1]
SMALL = [-2, -1, 0, 1, 2, 3, 4]


def _some(rng: random.Random, name: str, least: int = 0) -> TensorProto:
    """A vector of integers of all sizes, mostly harmless ones."""
    pool = LARGE if rng.random() < 0.4 else SMALL
    count = rng.choice([least, 1, 2, 2, 2, 3, 4, 8, rng.choice([64, 65, 200])])
    return _integers(name, *(rng.choice(pool) for _ in range(count)))


def _scalar(name: str, number: int) -> TensorProto:
    return helper.make_tensor(name, TensorProto.INT64, [], [number])


def _drawn(rng: random.Random, x: str, y: str, tag: str) -> tuple[NodeProto, list[TensorProto]]:
    """A node that moves what `x` holds, with arguments of all sizes, most of which do not fit."""
    names = {part: f"{part}{tag}" for part in ("a", "b", "c", "i", "u")}
    a, b = _some(rng, names["a"]), _some(rng, names["b"])
    sizes = rng.choice([[2], [1, 2], [4, 2], [2, 1], [4, 1], [1, 1, 2], [0, 2]])
    count = 1
    for size in sizes:
        count *= size
    pool = LARGE if rng.random() < 0.1 else [-2, -1, 0, 1]
    index = helper.make_tensor(names["i"], TensorProto.INT64, sizes, [rng.choice(pool) for _ in range(count)])
    updates = helper.make_tensor(names["u"], TensorProto.FLOAT, sizes, [1.0] * count)
    truth = helper.make_tensor(names["c"], TensorProto.BOOL, sizes, [rng.random() < 0.5 for _ in range(count)])
    number = rng.choice(LARGE if rng.random() < 0.4 else SMALL)
    one = _scalar(names["a"], number)
    axis, block = rng.choice([-3, -2, -1, 0, 1, 2]), rng.choice([-1, 0, 1, 2, 2**31, 2**62])
    kinds: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("Transpose", [x], {"perm": rng.choice([[0, 1], [1, 0], [0, 0], [2, 1], [0, 1, 2]])}),
        ("Reshape", [x, a], {"allowzero": rng.choice([0, 1])}),
        ("Flatten", [x], {"axis": axis}),
        ("Squeeze", [x, a], {}),
        ("Unsqueeze", [x, a], {}),
        ("Expand", [x, a], {}),
        ("Tile", [x, a], {}),
        ("Pad", [x, a], {"mode": rng.choice(["constant", "reflect", "edge"])}),
        ("CenterCropPad", [x, a], {}),
        ("ConstantOfShape", [a], {}),
        ("Range", [one, _scalar(names["b"], rng.choice(LARGE)), _scalar(names["u"], rng.choice(LARGE))], {}),
        ("Where", [truth, x, updates], {}),
        ("Compress", [x, truth], rng.choice([{}, {"axis": axis}])),
        ("GatherElements", [x, index], {"axis": axis}),
        ("GatherND", [x, index], {"batch_dims": rng.choice([0, 0, 1, 2, -1])}),
        ("ScatterElements", [x, index, updates], {"axis": axis}),
        ("ScatterND", [x, index, updates], {}),
        ("OneHot", [index, one, helper.make_tensor(names["u"], TensorProto.FLOAT, [2], [0.0, 1.0])], {"axis": axis}),
        ("EyeLike", [x], {"k": number}),
        ("Trilu", [x, one], {"upper": rng.choice([0, 1])}),
        ("NonZero", [x], {}),
        ("ReverseSequence", [x, index], {"batch_axis": rng.choice([0, 1]), "time_axis": rng.choice([0, 1])}),
        ("DepthToSpace", [x], {"blocksize": block}),
        ("SpaceToDepth", [x], {"blocksize": block}),
        ("Resize", [x, "", "", a], {"mode": "nearest"}),
        ("Resize", [x, "", helper.make_tensor(names["a"], TensorProto.FLOAT, [2], [rng.choice(
            [0.0, -1.0, 0.3, 1.0, 2.0, 1e9, 1e38, float("inf"), float("nan")]) for _ in range(2)])],
         {"mode": "nearest", "coordinate_transformation_mode": rng.choice(["asymmetric", "half_pixel",
          "align_corners", "pytorch_half_pixel", "tf_crop_and_resize"])}),
        ("Cast", [x], {"to": rng.choice([1, 3, 7, 8, 9, 10, 16, 17, 21, 22, 99])}),
        ("Shape", [x], {"start": number if abs(number) < 2**63 else 0}),
        ("Size", [x], {}),
        ("Mul", [a, b], {}),
        ("Div", [a, b], {}),
        ("SplitToSequence", [x, one], {"axis": axis}),
        ("Dropout", [x], {}),
        ("Slice", [x, a, b], {}),
        ("Identity", [x], {}),
    ]  # fmt: skip
    kind, inputs, attributes = rng.choice(kinds)
    tensors = [each for each in inputs if not isinstance(each, str)]
    given = [each if isinstance(each, str) else each.name for each in inputs]
    return helper.make_node(kind, given, [y], **attributes), tensors


def _moving(rng: random.Random) -> ModelProto:
    """A chain of nodes that move, each with sizes that may be anything."""
    nodes: list[NodeProto] = []
    tensors: list[TensorProto] = []
    name = rng.choice(["x", "x", "x", "c"])
    for k in range(rng.choice([1, 1, 2, 3, 6])):
        node, own = _drawn(rng, name, f"v{k}", str(k))
        nodes.append(node)
        tensors += own
        name = rng.choice([f"v{k}", f"v{k}", f"v{k}", "x"])
    kept = rng.sample([f"v{k}" for k in range(len(nodes))], rng.choice([1, len(nodes)]))
    return _model(nodes, kept, [*tensors, _start()])


def _much(rng: random.Random) -> ModelProto:
    """Many small nodes, whose values have many pieces."""
    count = rng.choice([10, 100, 1000])
    nodes = [_node("Concat", ["x", "x"], ["v0"], axis=0)]
    tensors = [_integers("two", 2, 1), _integers("flat", -1, 2), _integers("low", 1), _integers("high", -1)]
    tensors += [_integers("pads", 1, 0, 0, 0), _integers("which", 0, -1, 1, 0)]
    for k in range(count):
        node = rng.choice([
            ("Concat", [f"v{k}", "x"], {"axis": 0}), ("Concat", [f"v{k}", f"v{max(0, k - 1)}"], {"axis": 0}),
            ("Transpose", [f"v{k}"], {"perm": [0, 1]}), ("Reshape", [f"v{k}", "flat"], {}),
            ("Slice", [f"v{k}", "low", "high"], {}), ("Pad", [f"v{k}", "pads"], {}),
            ("Gather", [f"v{k}", "which"], {"axis": 0}), ("ScatterND", [f"v{k}", "which2", "x2"], {}),
        ])  # fmt: skip
        nodes.append(_node(node[0], node[1], [f"v{k + 1}"], **node[2]))
    tensors.append(helper.make_tensor("which2", TensorProto.INT64, [2, 1], [0, 1]))
    tensors.append(helper.make_tensor("x2", TensorProto.FLOAT, [2, 2], [1.0] * 4))
    return _model(nodes, [f"v{count}"], tensors)


_KINDS = (
    _many_results, _copies, _declared, _texts, _called, _nested, _long, _dimensions, _pretending, _moving, _moving,
    _moving, _moving, _moving, _much,
)  # fmt: skip
