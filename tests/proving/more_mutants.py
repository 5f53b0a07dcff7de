"""More mutants of models: what is left out, of another type, written twice, moved there and back, or in bodies."""

from __future__ import annotations

import re

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.defs import OpSchema
from proving import mutants

from anydml.onnx.walk import bodies, nodes

NUMBERS = ["f4", "f8", "f2", "i8", "i4", "u1", "i1", "?"]


def mutant(model, random):
    """A copy of a model in which something is another, and what; None where there is nothing to change."""
    kind = random.choice(KINDS)
    if kind is mutants.mutant:
        return kind(model, random)
    copy = ModelProto()
    copy.CopyFrom(model)
    what = kind(copy, random)
    return None if what is None else (copy, f"{kind.__name__[1:]}: {what}")


def _choice(random, options):
    options = [*options]
    return options[random.integers(len(options))] if options else None


def _nodes(model):
    return nodes([model.graph, *model.functions])


def _names(model):
    """Values that all nodes after the graph's may read."""
    return [each.name for each in model.graph.input] + [
        name for node in model.graph.node for name in node.output if name
    ]


def _wrong_type(model, random):
    kinds = AttributeProto.INT, AttributeProto.FLOAT, AttributeProto.INTS, AttributeProto.STRING
    every = [(node, each) for node in _nodes(model) for each in node.attribute]
    found = _choice(random, [(node, each) for node, each in every if each.type in kinds and not each.ref_attr_name])
    if found is None:
        return None
    node, each = found
    value, name = helper.get_attribute_value(each), each.name
    other = [value] if isinstance(value, int | float | bytes) else [float(number) for number in value] or 1
    each.CopyFrom(helper.make_attribute(name, other))
    return f"{node.op_type}.{name}"


def _left_out(model, random):
    node = _choice(random, [node for node in _nodes(model) if len(node.input) > 1])
    if node is None:
        return None
    k = int(random.integers(1, len(node.input)))
    if k == len(node.input) - 1 and (node.op_type == "Squeeze" or random.integers(2)):
        # For Squeeze, ONNX Runtime does not take an empty name for an input that is left out.
        del node.input[k]
    else:
        node.input[k] = ""
    return f"input {k} of {node.op_type}"


def _dtype(model, random):
    tensors = [*model.graph.initializer]
    tensors += [each.t for node in _nodes(model) for each in node.attribute if each.HasField("t")]
    tensor = _choice(random, tensors)
    array = None if tensor is None else numpy_helper.to_array(tensor)
    if array is None or array.dtype.kind not in "fiub":
        return None
    dtype = np.dtype(str(random.choice(NUMBERS)))
    with np.errstate(all="ignore"):
        is_same_size = dtype.itemsize == array.itemsize and random.integers(3) == 0
        other = array.reshape(-1).view(dtype).reshape(array.shape) if is_same_size else array.astype(dtype)
    what = f"{tensor.name}: {array.dtype} → {dtype}"
    tensor.CopyFrom(numpy_helper.from_array(np.asarray(other), tensor.name))
    return what


def _size(model, random):
    """A size of an input or output has another name, or a number."""
    values = [*model.graph.input, *model.graph.output]
    found = _choice(random, [(value, dim) for value in values for dim in value.type.tensor_type.shape.dim])
    if found is None:
        return None
    value, dim = found
    if random.integers(2):
        dim.dim_param = str(random.choice(["M", "N"]))
    else:
        dim.dim_value = int(random.choice([1, 2, 3, 4]))
    return value.name


def _exchanged(model, random):
    """Two outputs of the model are exchanged, or only their names."""
    outputs = model.graph.output
    if len(outputs) < 2:
        return None
    a, b = (outputs[int(k)].name for k in random.choice(len(outputs), 2, replace=False))
    if random.integers(2):
        for node in model.graph.node:
            node.output[:] = [{a: b, b: a}.get(name, name) for name in node.output]
        return "made values"
    values = [helper.make_tensor_value_info(each.name, TensorProto.FLOAT, None) for each in outputs]
    for value, old in zip(values, outputs, strict=True):
        value.CopyFrom(old)
    del outputs[:]
    outputs.extend(values[::-1])
    return "order"


def _twice(model, random):
    """A node is there twice, perhaps with another attribute, and later nodes read either one."""
    graph = model.graph
    if not graph.node:
        return None
    k = int(random.integers(len(graph.node)))
    twin = NodeProto()
    twin.CopyFrom(graph.node[k])
    names = {name: f"{name}_twin" for name in twin.output if name}
    twin.output[:] = [names.get(name, "") for name in twin.output]
    twin.name = ""
    each = _choice(random, twin.attribute)
    if each is not None and random.integers(2):
        if each.type == AttributeProto.INT:
            each.i += int(random.choice([-1, 1]))
        elif each.type == AttributeProto.FLOAT:
            each.f = each.f * 1.5 + 0.25
    _inserted_at(graph, k + 1, [twin])
    for node in graph.node[k + 2 :]:
        node.input[:] = [names.get(name, name) if random.integers(2) else name for name in node.input]
    return twin.op_type


def _inserted_at(graph, k, new):
    later = []
    for node in [*graph.node[:k], *new, *graph.node[k:]]:
        copy = NodeProto()
        copy.CopyFrom(node)
        later.append(copy)
    del graph.node[:]
    graph.node.extend(later)


def _inner(model):
    return [body for body in bodies([model.graph]) if isinstance(body, GraphProto)][1:]


def _body(model, random):
    """Inputs or outputs of a body are exchanged, one of its nodes reads another value, or it returns another one."""
    body = _choice(random, _inner(model))
    if body is None:
        return None
    kind = int(random.integers(4))
    values = body.input if kind == 0 else body.output
    if kind < 2 and len(values) > 1:
        a, b = (values[int(k)] for k in random.choice(len(values), 2, replace=False))
        a.name, b.name = b.name, a.name
        return f"{'inputs' if kind == 0 else 'outputs'}"
    known = [each.name for each in body.input] + [name for node in body.node for name in node.output if name]
    known += [each.name for each in model.graph.input]
    node = _choice(random, body.node)
    if kind == 2 and node is not None and node.input:
        node.input[int(random.integers(len(node.input)))] = str(random.choice(known))
        return f"an input of {node.op_type}"
    value = _choice(random, body.output)
    if value is None or not known:
        return None
    value.name = str(random.choice(known))
    return "another result"


def _rounds(model, random):
    """A Loop has other conditions or states, or a Scan other directions or axes."""
    node = _choice(random, [node for node in _nodes(model) if node.op_type in ("Loop", "Scan")])
    if node is None:
        return None
    if node.op_type == "Loop":
        k = int(random.integers(2))
        kind = (TensorProto.INT64, TensorProto.BOOL)[k]
        names = [tensor.name for tensor in model.graph.initializer if tensor.data_type == kind]
        node.input[k] = str(random.choice([*names, "", node.input[k]]))
        return f"input {k} of Loop"
    name = str(
        random.choice([f"scan_{side}_{what}" for side in ("input", "output") for what in ("axes", "directions")])
    )
    for k in reversed(range(len(node.attribute))):
        if node.attribute[k].name == name:
            del node.attribute[k]
    node.attribute.append(helper.make_attribute(name, [int(random.integers(2))]))
    return name


def _scale(model, random):
    """A scale or zero point is another."""
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    kinds = ("Quant", "QLinear", "Integer")
    quantized = [node for node in _nodes(model) if any(kind in node.op_type for kind in kinds)]
    name = _choice(random, [name for node in quantized for name in node.input[1:] if name in tensors])
    if name is None:
        return None
    array = numpy_helper.to_array(tensors[name]).copy()
    with np.errstate(all="ignore"):
        other = array * 2 if array.dtype.kind == "f" else array + array.dtype.type(1)
    tensors[name].CopyFrom(numpy_helper.from_array(other.astype(array.dtype), name))
    return name


def _unneeded(model, random):
    """A node is added whose result nobody needs."""
    operator, names = str(random.choice(["Add", "MatMul", "Gather", "Div", "Concat"])), _names(model)
    if not names:
        return None
    attributes = {"axis": 0} if operator == "Concat" else {}
    inputs = [str(name) for name in random.choice(names, 2)]
    model.graph.node.append(helper.make_node(operator, inputs, ["unneeded"], **attributes))
    return operator


def _text(model, random):
    """An attribute is another of the texts in the operator's document."""
    version = next(each.version for each in model.opset_import if not each.domain)
    found = []
    for node in _nodes(model):
        if not node.domain and onnx.defs.has(node.op_type, version, ""):
            for name, each in onnx.defs.get_schema(node.op_type, version, "").attributes.items():
                if each.type == OpSchema.AttrType.STRING:
                    words = {*re.findall(r"[\"'`]([A-Za-z_]+)[\"'`]|\b([A-Z_]{3,})\b", each.description)}
                    found += [(node, name, word) for word in sorted(a or b for a, b in words)]
    if not found:
        return None
    node, name, word = _choice(random, found)
    _give(node, name, word)
    return f"{node.op_type}.{name} = {word}"


def _number(model, random):
    """Any attribute of numbers has a small value."""
    version = next(each.version for each in model.opset_import if not each.domain)
    found = [
        (node, name, each.type)
        for node in _nodes(model) if not node.domain and onnx.defs.has(node.op_type, version, "")
        for name, each in onnx.defs.get_schema(node.op_type, version, "").attributes.items()
    ]  # fmt: skip
    values = {
        OpSchema.AttrType.INT: lambda: int(random.choice([0, 1, 2, -1, 3])),
        OpSchema.AttrType.FLOAT: lambda: float(random.choice([0, 1, 0.5, -1, 1e-5])),
        OpSchema.AttrType.INTS: lambda: [int(n) for n in random.choice([0, 1, 2, -1], int(random.integers(1, 5)))],
    }
    found = [(node, name, kind) for node, name, kind in found if kind in values]
    if not found:
        return None
    node, name, kind = _choice(random, found)
    value = values[kind]()
    _give(node, name, value)
    return f"{node.op_type}.{name} = {value}"


def _give(node, name, value):
    for k in reversed(range(len(node.attribute))):
        if node.attribute[k].name == name:
            del node.attribute[k]
    node.attribute.append(helper.make_attribute(name, value))


def _detour(model, random):
    """A value is moved, or computed, before a node reads it; often this changes nothing."""
    graph = model.graph
    found = _choice(random, [(k, i) for k, node in enumerate(graph.node) for i, name in enumerate(node.input) if name])
    if found is None:
        return None
    k, i = found
    name = graph.node[k].input[i]
    known = onnx.shape_inference.infer_shapes(model, data_prop=True).graph
    types = {each.name: each.type.tensor_type for each in (*known.value_info, *known.input, *known.output)}
    if name not in types or not types[name].HasField("shape") or not len(types[name].shape.dim):
        return None
    rank = len(types[name].shape.dim)

    def constant(value):
        tensor = numpy_helper.from_array(np.asarray(value), f"detour_{len(graph.initializer)}")
        graph.initializer.append(tensor)
        return tensor.name

    perm = random.permutation(rank).tolist()
    axis = int(random.integers(-rank, rank))
    end = int(random.choice([2**63 - 1, 1000, -1, 1]))
    back = [*np.argsort(perm)] if random.integers(2) else perm
    ways = [
        lambda: [("Transpose", ["IN"], {"perm": perm}), ("Transpose", ["1"], {"perm": [int(n) for n in back]})],
        lambda: [("Unsqueeze", ["IN", constant([rank])], {}), ("Squeeze", ["1", constant([-1])], {})],
        lambda: [("Flatten", ["IN"], {}), ("Shape", ["IN"], {}), ("Reshape", ["1", "2"], {})],
        lambda: [("Slice", ["IN", constant([0]), constant([end]), constant([axis])], {})],
        lambda: [("Neg", ["IN"], {}), ("Neg", ["1"], {})],
        lambda: [(str(random.choice(["Identity", "Abs", "Relu", "Neg"])), ["IN"], {})],
        lambda: [("Cast", ["IN"], {"to": int(random.choice([6, 10, 11]))}), ("Cast", ["1"], {"to": 1})],
        lambda: [("Mul", ["IN", constant(np.float32(random.choice([1, -1])))], {})],
        lambda: [("Add", ["IN", constant(np.float32(random.choice([0, -0.0, 1e-30])))], {})],
        lambda: [("Shape", ["IN"], {}), ("Gather", ["1", constant(axis)], {}),
                 ("Range", [constant(0), "2", constant(1)], {}), ("Gather", ["IN", "3"], {"axis": axis})],
    ]  # fmt: skip
    new, way = [], _choice(random, ways)()
    for number, (operator, inputs, attributes) in enumerate(way, 1):
        read = [name if each == "IN" else f"detour{each}" if each.isdigit() else each for each in inputs]
        new.append(helper.make_node(operator, read, [f"detour{number}"], **attributes))
    graph.node[k].input[i] = f"detour{len(way)}"
    _inserted_at(graph, k, new)
    return ", ".join(node.op_type for node in new)


def _inside(model, random):
    """A function reads, refers to, returns or imports something else."""
    function = _choice(random, model.functions)
    if function is None:
        return None
    node = _choice(random, function.node)
    known = [*function.input, *(name for each in function.node for name in each.output)]
    match int(random.integers(4)):
        case 0 if any(each.ref_attr_name for each in node.attribute):
            names = [*function.attribute, *(each.name for each in function.attribute_proto)]
            next(each for each in node.attribute if each.ref_attr_name).ref_attr_name = str(random.choice(names))
            return "attribute"
        case 1:
            node.input[0] = str(random.choice(known))
            return "input"
        case 2:
            function.output[0] = str(random.choice(known))
            return "output"
        case _:
            for each in function.opset_import:
                each.version = int(random.choice([11, 13, 18, 20]))
            return "opset"


KINDS = [
    _wrong_type, _left_out, _dtype, _size, _exchanged, _twice, _body, _body, _rounds, _scale, _unneeded, _text, _number,
    _number, _detour, _detour, _detour, _inside, mutants.mutant, mutants.mutant, mutants.mutant, mutants.mutant,
]  # fmt: skip
