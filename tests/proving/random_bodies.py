"""More nodes of random models: bodies, integers, truth values, what is quantized, and computed shapes."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from proving import random_operators
from proving.random_operators import drawn


def _graph(nodes, inputs, outputs):
    infos = [[helper.make_tensor_value_info(*value) for value in values] for values in (inputs, outputs)]
    return helper.make_graph(nodes, "body", *infos)


def _looped(d, x, shape):
    end = d.name()
    known = [f"s{end}", f"u{end}", x]
    nodes = [
        helper.make_node(d.choice(["Relu", "Neg", "Abs", "Identity"]), [f"s{end}"], [f"u{end}"]),
        helper.make_node(d.choice(["Add", "Mul", "Sub", "Max"]), [f"u{end}", d.choice(known)], [f"w{end}"]),
        helper.make_node("Identity", [f"c{end}"], [f"d{end}"]),
    ]
    outputs, results = [(f"d{end}", TensorProto.BOOL, []), (f"w{end}", TensorProto.FLOAT, None)], [d.name()]
    if d.number(0, 1):
        nodes.append(helper.make_node(d.choice(["Transpose", "Neg"]), [f"w{end}"], [f"o{end}"]))
        outputs.append((f"o{end}", TensorProto.FLOAT, None))
        results.append(d.name())
    inputs = [
        (f"i{end}", TensorProto.INT64, []),
        (f"c{end}", TensorProto.BOOL, []),
        (f"s{end}", TensorProto.FLOAT, None),
    ]
    condition = d.choice(["", d.constant(True, "b"), d.constant(False, "b")])
    body = _graph(nodes, inputs, outputs)
    d.graph.node.append(helper.make_node("Loop", [d.constant(d.number(0, 3)), condition, x], results, body=body))
    return results[0]


def _in_turn(d, x, shape):
    """A Scan along an axis, with a state."""
    end, results = d.name(), [d.name(), d.name()]
    nodes = [
        helper.make_node(d.choice(["Neg", "Relu", "Abs"]), [f"e{end}"], [f"f{end}"]),
        helper.make_node("ReduceMax", [f"f{end}"], [f"g{end}"], keepdims=0),
        helper.make_node(d.choice(["Add", "Max", "Sub"]), [f"s{end}", f"g{end}"], [f"t{end}"]),
        helper.make_node("Mul", [f"f{end}", f"s{end}"], [f"y{end}"]),
    ]
    inputs = [(f"s{end}", TensorProto.FLOAT, []), (f"e{end}", TensorProto.FLOAT, None)]
    outputs = [(f"t{end}", TensorProto.FLOAT, []), (f"y{end}", TensorProto.FLOAT, None)]
    attributes = d.maybe(
        scan_input_axes=[d.number(0, len(shape) - 1)],
        scan_input_directions=[d.number(0, 1)],
        scan_output_directions=[d.number(0, 1)],
    )
    body, first = _graph(nodes, inputs, outputs), d.constant(0.5, "f")
    d.graph.node.append(helper.make_node("Scan", [first, x], results, body=body, num_scan_inputs=1, **attributes))
    return results[1]


def _decided(d, x, shape):
    """An If on data, with several nodes and results."""
    highest = d.node("ReduceMax", [x], keepdims=0)
    condition = d.node("Greater", [highest, d.constant(d.choice([0.0, 1.0]), "f")])
    bodies, names, results = [], [*d.shapes], [d.name(), d.name()]
    for _ in range(2):
        end = d.name()
        nodes = [
            helper.make_node(d.choice(["Relu", "Neg", "Abs"]), [d.choice(names)], [f"a{end}"]),
            helper.make_node(d.choice(["Add", "Mul", "Sub"]), [x, d.choice([f"a{end}", x])], [f"b{end}"]),
        ]
        bodies.append(_graph(nodes, [], [(f"{name}{end}", TensorProto.FLOAT, None) for name in "ba"]))
    d.graph.node.append(helper.make_node("If", [condition], results, then_branch=bodies[0], else_branch=bodies[1]))
    return results[0]


def _integers(d, x, shape):
    kind = d.choice([TensorProto.INT32, TensorProto.INT64])
    whole = d.node("Cast", [d.node("Mul", [x, d.constant(4.0, "f")])], to=kind)

    def constant(value):
        dtype = helper.tensor_dtype_to_np_dtype(kind)
        d.graph.initializer.append(numpy_helper.from_array(np.asarray(value, dtype), f"k{d.name()}"))
        return d.graph.initializer[-1].name

    for _ in range(d.number(1, 3)):
        match d.number(0, 6):
            case 0:
                whole = d.node(d.choice(["Add", "Sub", "Mul"]), [whole, constant(d.choice([0, 1, 2, -1, 2**31 - 1]))])
            case 1:
                # Not by −1: the smallest integer has no negative, and ONNX Runtime ends the process.
                whole = d.node(d.choice(["Div", "Mod"]), [whole, constant(d.choice([1, 2, -2, 3]))])
            case 2:
                whole = d.node(d.choice(["Neg", "Abs", "Sign"]), [whole])
            case 3:
                condition = d.node(d.choice(["Less", "Greater", "Equal"]), [whole, constant(d.number(0, 2))])
                whole = d.node("Where", [condition, whole, constant(d.number(-1, 1))])
            case 4:
                whole = d.node(d.choice(["Max", "Min"]), [whole, constant(d.number(-1, 1))])
            case 5:
                whole = d.of_axes("ReduceSum", whole, d.choice([[d.axis(shape)], [0, -1]]), keepdims=1)
            case _:
                whole = d.node("Transpose", [whole])
    return d.floats(whole)


def _truths(d, x, shape):
    a = d.node(d.choice(["Less", "Greater"]), [x, d.constant(d.choice([0.0, 0.5]), "f")])
    b = d.node("Not", [a])
    pair = [d.choice([a, b]), d.choice([a, b, d.constant(bool(d.number(0, 1)), "b")])]
    both = d.node(d.choice(["And", "Or", "Xor", "Equal"]), pair)
    match d.number(0, 2):
        case 0:
            return d.node("Where", [both, x, d.choice([x, d.constant(0.0, "f"), d.node("Neg", [x])])])
        case 1:
            return d.floats(d.node("NonZero", [both]))
        case _:
            return d.floats(both)


def _quantized(d, x, shape):
    scale, zero = d.constant(d.choice([0.25, 0.5]), "f"), d.constant(d.number(0, 5), "u")
    low = d.node("QuantizeLinear", [x, scale, zero])
    match d.number(0, 5):
        case 0:
            low = d.node("Transpose", [low])
        case 1:
            low = d.node("Reshape", [low, d.constant([-1])])
        case 2:
            low = d.node("Concat", [low, low], axis=d.axis(shape))
        case 3 if isinstance(shape[-1], int):
            weights = d.constant(d.random.integers(0, 255, (shape[-1], 3)), "u")
            low = d.node("QLinearMatMul", [low, scale, zero, weights, scale, zero, scale, zero])
        case 4 if isinstance(shape[-1], int):
            weights = d.constant(d.random.integers(0, 255, (shape[-1], 3)), "u")
            return d.floats(d.node("MatMulInteger", [low, weights, *d.choice([[], [zero], [zero, zero], ["", zero]])]))
        case 5:
            return d.floats(d.node("DynamicQuantizeLinear", [x], 3))
    other = d.constant(1, "u")
    return d.node("DequantizeLinear", [low, d.choice([scale, d.constant(0.25, "f")]), d.choice([zero, zero, other])])


def _shapes(d, x, shape):
    sizes = d.node("Shape", [x], **(d.maybe(start=d.number(-2, 1), end=d.number(-1, 3)) if d.opset >= 15 else {}))
    match d.number(0, 4):
        case 0:
            return d.floats(sizes)
        case 1:
            one = d.node("Gather", [d.node("Shape", [x]), d.constant(d.choice([0, -1]))], axis=0)
            return d.node("Mul", [x, d.floats(one)])
        case 2:
            return d.node("Expand", [d.constant(d.number(0, 3), "f"), d.node("Shape", [x])])
        case 3:
            return d.floats(d.node("Size", [x]))
        case _:
            count = d.node("Gather", [d.node("Shape", [x]), d.constant(0)], axis=0)
            numbers = d.node("Range", [d.constant(0), count, d.constant(1)])
            return d.node("Gather", [x, numbers], axis=0) if d.number(0, 1) else d.floats(numbers)


MAKERS = [
    _looped, _looped, _in_turn, _in_turn, _decided, _decided, _integers, _integers, _truths, _quantized, _quantized,
    _shapes, _shapes, *random_operators.MAKERS[::3],
]  # fmt: skip


def drawn_bodies(random, is_open):
    """A random model with such nodes; None if onnx refuses it (see `drawn`)."""
    return drawn(random, is_open, MAKERS)
