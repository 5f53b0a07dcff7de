"""Mutants of models: a node, attribute, constant, permutation, index or size is another."""

from __future__ import annotations

from onnx import AttributeProto, ModelProto, numpy_helper

LIKE = [
    ("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Identity", "Exp", "Erf", "Sqrt"),
    ("Add", "Sub", "Mul", "Div", "Max", "Min"),
    ("Softmax", "LogSoftmax"),
    ("ReduceSum", "ReduceMean", "ReduceMax"),
    ("Less", "Greater", "Equal"),
]
"""Operators of which each can stand for the others."""


def mutant(model, random):
    """A copy of a model in which something is another, and what; None where there is nothing to change."""
    copy = ModelProto()
    copy.CopyFrom(model)
    kind = random.choice([_operator, _attribute, _bit, _element, _order, _input, _skipped, _sizes, _output])
    what = kind(copy.graph, random)
    return None if what is None else (copy, f"{kind.__name__[1:]}: {what}")


def _operator(graph, random):
    found = [(node, group) for node in graph.node for group in LIKE if node.op_type in group]
    if not found:
        return None
    node, group = found[random.integers(len(found))]
    old, node.op_type = node.op_type, random.choice([each for each in group if each != node.op_type])
    return f"{old} → {node.op_type}"


def _attribute(graph, random):
    kinds = AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.INTS
    every = [(node, each) for node in graph.node for each in node.attribute]
    found = [(node, each) for node, each in every if each.type in kinds and each.name != "to"]
    if not found:
        return None
    node, each = found[random.integers(len(found))]
    if each.type == AttributeProto.INT:
        each.i += int(random.choice([-1, 1]))
    elif each.type == AttributeProto.FLOAT:
        each.f = each.f * 2 + 1e-3
    elif each.name == "perm":
        each.ints[:] = random.permutation(len(each.ints)).tolist()
    elif len(each.ints):
        each.ints[random.integers(len(each.ints))] += int(random.choice([-1, 1]))
    return f"{node.op_type}.{each.name}"


def _constants(graph, kinds):
    made = [
        each.t for node in graph.node if node.op_type == "Constant" for each in node.attribute if each.HasField("t")
    ]
    found = [(tensor, numpy_helper.to_array(tensor)) for tensor in [*graph.initializer, *made]]
    return [(tensor, array) for tensor, array in found if array.dtype.kind in kinds and array.size]


def _changed(tensor, array):
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _bit(graph, random):
    found = _constants(graph, "f")
    if not found:
        return None
    tensor, array = found[random.integers(len(found))]
    flat = array.copy().reshape(-1)
    bits = flat.view(f"u{flat.itemsize}")
    bits[random.integers(bits.size)] ^= bits.dtype.type(1 << int(random.integers(8 * flat.itemsize)))
    _changed(tensor, flat.reshape(array.shape))
    return tensor.name


def _element(graph, random):
    found = _constants(graph, "i")
    if not found:
        return None
    tensor, array = found[random.integers(len(found))]
    flat = array.copy().reshape(-1)
    flat[random.integers(flat.size)] += random.choice([-1, 1, 2])
    _changed(tensor, flat.reshape(array.shape))
    return tensor.name


def _sizes(graph, random):
    found = [(tensor, array) for tensor, array in _constants(graph, "if") if array.size > 1]
    if not found:
        return None
    tensor, array = found[random.integers(len(found))]
    flat = array.reshape(-1)
    _changed(tensor, random.permutation(flat).reshape(array.shape))
    return tensor.name


def _order(graph, random):
    found = [node for node in graph.node if len(node.input) > 1 and all(node.input)]
    if not found:
        return None
    node = found[random.integers(len(found))]
    names = list(node.input)
    a, b = random.choice(len(names), 2, replace=False)
    names[a], names[b] = names[b], names[a]
    node.input[:] = names
    return node.op_type


def _input(graph, random):
    """Another value that is there by then."""
    if not graph.node:
        return None
    number = int(random.integers(len(graph.node)))
    node = graph.node[number]
    known = [value.name for value in graph.input] + [
        name for each in graph.node[:number] for name in each.output if name
    ]
    if not node.input or not known:
        return None
    k = int(random.integers(len(node.input)))
    node.input[k] = str(random.choice(known))
    return node.op_type


def _skipped(graph, random):
    """A node is Identity."""
    found = [node for node in graph.node if node.input and len(node.output) == 1]
    if not found:
        return None
    node = found[random.integers(len(found))]
    old = node.op_type
    node.op_type = "Identity"
    del node.input[1:], node.attribute[:]
    return old


def _output(graph, random):
    """Outputs of nodes with several are exchanged."""
    found = [node for node in graph.node if len(node.output) > 1 and all(node.output)]
    if not found:
        return None
    node = found[random.integers(len(found))]
    node.output[:] = list(node.output)[::-1]
    return node.op_type
