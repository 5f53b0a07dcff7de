"""Mutants of models: a node, attribute, constant, permutation, index or size is another."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, helper, numpy_helper
from onnx.defs import OpSchema

LIKE = [
    ("Relu", "Neg", "Abs", "Sigmoid", "Tanh", "Identity", "Exp", "Erf", "Sqrt"),
    ("Add", "Sub", "Mul", "Div", "Max", "Min"),
    ("Softmax", "LogSoftmax"),
    ("ReduceSum", "ReduceMean", "ReduceMax"),
    ("Less", "Greater", "Equal"),
]
"""Operators of which each can stand for the others."""


def mutant(model, random, kinds=None):
    """A copy of a model in which something is another, and what; None where there is nothing to change."""
    copy = ModelProto()
    copy.CopyFrom(model)
    kind = random.choice(KINDS if kinds is None else kinds)
    what = kind(copy if kind in OF_MODELS else copy.graph, random)
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
    found = [(node, each) for node, each in every if each.type in kinds]
    if not found:
        return None
    node, each = found[random.integers(len(found))]
    if each.name == "to":
        each.i = int(random.choice([1, 2, 3, 5, 6, 7, 9, 10, 11]))
    elif each.type == AttributeProto.INT:
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
    k = random.integers(flat.size)
    with np.errstate(over="ignore"):
        flat[k] = random.choice([flat[k] - 1, flat[k] + 1, flat[k] + 2, -flat[k], 0, flat.dtype.type(0) - 1])
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


def _default(graph, random):
    """An attribute is left out, so that the default of its opset holds."""
    found = [node for node in graph.node if len(node.attribute)]
    if not found:
        return None
    node = found[random.integers(len(found))]
    k = int(random.integers(len(node.attribute)))
    what = f"{node.op_type} without {node.attribute[k].name}"
    del node.attribute[k]
    return what


def _given(model, random):
    """An attribute that has a default is there, perhaps with another value."""
    version = next(each.version for each in model.opset_import if not each.domain)
    found = []
    for node in model.graph.node:
        if onnx.defs.has(node.op_type, version, node.domain):
            schema = onnx.defs.get_schema(node.op_type, version, node.domain)
            names = schema.attributes.keys() - {each.name for each in node.attribute}
            found += [(node, schema.attributes[name]) for name in sorted(names)]
    found = [(node, each) for node, each in found if each.default_value.name]
    if not found:
        return None
    node, each = found[random.integers(len(found))]
    attribute = node.attribute.add()
    attribute.CopyFrom(each.default_value)
    if each.type == OpSchema.AttrType.INT:
        attribute.i += int(random.choice([0, 1, -1]))
    elif each.type == OpSchema.AttrType.FLOAT:
        attribute.f *= float(random.choice([1, 1.5, 1 + 2**-12]))
    return f"{node.op_type} with {attribute.name}"


def _sign(graph, random):
    """An axis is counted from the other end, or is another one."""
    found = [(node, each) for node in graph.node for each in node.attribute if each.name in ("axis", "axes")]
    if not found:
        return None
    node, each = found[random.integers(len(found))]
    by = int(random.choice([1, 2, 3, 4]))
    change = random.choice([lambda axis: -axis, lambda axis: -1 - axis, lambda axis: axis + by, lambda axis: axis - by])
    if each.type == AttributeProto.INT:
        each.i = change(each.i)
    else:
        each.ints[:] = [change(axis) for axis in each.ints]
    return f"{node.op_type}.{each.name}"


def _opset(model, random):
    """All nodes mean what they did in another opset."""
    imported = next(each for each in model.opset_import if not each.domain)
    old, newest = imported.version, onnx.defs.onnx_opset_version()
    imported.version = min(newest, max(7, old + int(random.choice([-6, -4, -2, -1, 1, 2, 4]))))
    for function in model.functions:
        for each in function.opset_import:
            each.version = imported.version if not each.domain else each.version
    return f"{old} → {imported.version}"


def _rank(graph, random):
    """A constant has another shape of as many elements."""
    found = _constants(graph, "fiu")
    if not found:
        return None
    tensor, array = found[random.integers(len(found))]
    shapes = [array.shape[1:]] * (array.shape[:1] == (1,)) + [(1, *array.shape), (*array.shape, 1), array.shape[::-1]]
    shape = shapes[random.integers(len(shapes))]
    _changed(tensor, array.reshape(shape))
    return f"{tensor.name}: {array.shape} → {shape}"


def _scale(graph, random):
    """One of several elements of a constant of floats is its neighbour's."""
    found = [(tensor, array) for tensor, array in _constants(graph, "f") if array.size > 1]
    if not found:
        return None
    tensor, array = found[random.integers(len(found))]
    flat = array.copy().reshape(-1)
    k = random.integers(1, flat.size)
    flat[k] = flat[k - 1]
    _changed(tensor, flat.reshape(array.shape))
    return tensor.name


def _as_input(graph, random):
    """A constant is the default of an input."""
    found = [tensor for tensor in graph.initializer if tensor.name not in {each.name for each in graph.input}]
    if not found:
        return None
    tensor = found[random.integers(len(found))]
    graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return tensor.name


def _capture(graph, random):
    """A node in a body reads another value, or is another, or branches are exchanged."""
    found = [node for node in graph.node if any(each.HasField("g") for each in node.attribute)]
    if not found:
        return None
    node = found[random.integers(len(found))]
    inner = next(each.g for each in node.attribute if each.HasField("g"))
    kind = int(random.integers(3))
    known = [each.name for each in graph.input] + [name for each in graph.node for name in each.output]
    known = known[: known.index(node.output[0])]
    if kind == 0:
        inner.node[0].input[0] = str(random.choice(known))
    elif kind == 1:
        inner.node[0].op_type = str(random.choice(["Relu", "Neg", "Abs", "Sigmoid"]))
    else:
        names = [each.name for each in node.attribute if each.HasField("g")]
        for attribute, name in zip((each for each in node.attribute if each.HasField("g")), names[::-1], strict=True):
            attribute.name = name
    return node.op_type


def _function(model, random):
    """A node of a function has another attribute, or the function another default."""
    if not model.functions:
        return None
    function = model.functions[random.integers(len(model.functions))]
    defaults = [each for each in function.attribute_proto if each.type == AttributeProto.FLOAT]
    if defaults and random.integers(2):
        defaults[0].f *= 2
        return f"{function.name}: default"
    node = function.node[random.integers(len(function.node))]
    node.op_type = str(random.choice([each for group in LIKE for each in group if node.op_type in group] or ["Relu"]))
    return f"{function.name}: {node.op_type}"


KINDS = [
    _operator, _attribute, _bit, _element, _order, _input, _skipped, _sizes, _output, _default, _given, _sign, _opset,
    _rank, _scale, _as_input, _capture, _function,
]  # fmt: skip

OF_MODELS = _given, _opset, _function
"""Those that change more than the graph."""
