"""Random graphs of operators, and what their nodes give one by one: judges of graphs that are compiled as a whole."""

import dataclasses
import math

import numpy as np
from random_descs import INDEX_TYPES, OPERATORS, padded_strides, random_desc, random_parts
from random_family import FAMILY, fill_indices

import anydml as dml

T = dml.DataType
STRANGERS = ("split", "join", "slice", "slice1", "gather")
BITS_TO_32 = tuple(t for t in T if t.itemsize < 8)


class Draft:
    """A graph in the making. Outputs of nodes are numbered (node, output).

    Args:
        rng: what draws.
    """

    def __init__(self, rng):
        self.rng = rng
        self.nodes, self.inputs, self.edges = [], [], []
        self.totals = {}
        self.outputs = []

    def tensor(self, node, name):
        return dict((*self.nodes[node].inputs, *self.nodes[node].outputs))[name]

    def add(self, desc, sources):
        """A node, and for each of its inputs an output of a node, a graph's input, a constant's bytes, or None."""
        number = len(self.nodes)
        self.nodes.append(desc)
        for k, ((name, tensor), given) in enumerate(zip(desc.inputs, sources, strict=True)):
            source = given or ("input", len(self.inputs))
            if given is None:
                self.inputs.append(name)
            self.edges.append((source, number, k))
            self.grow(source, tensor)
        for k, (_, tensor) in enumerate(desc.outputs):
            self.outputs.append((number, k))
            self.grow((number, k), tensor)
        return number

    def grow(self, end, tensor):
        self.totals[end] = max(self.totals.get(end, 0), tensor.size_in_bytes)

    def graph(self):
        """The GraphDesc, whose edges have at both ends what the larger tensor takes."""
        rng = self.rng
        nodes = []
        flags = {}
        for number, desc in enumerate(self.nodes):
            totals = {("i", k): (self.totals[source], source) for source, n, k in self.edges if n == number}
            totals |= {("o", k): (self.totals[number, k], None) for k in range(len(desc.outputs))}
            counters, fields = {"i": 0, "o": 0}, {}
            for kind, names in (("i", desc.INPUTS), ("o", desc.OUTPUTS)):
                for name in names:
                    value = getattr(desc, name)
                    if value is None:
                        continue
                    tensors = value if isinstance(value, tuple) else (value,)
                    field_tensors = []
                    for tensor in tensors:
                        total, source = totals[kind, counters[kind]]
                        counters[kind] += 1
                        flag = dml.TensorFlags.NONE
                        if source and source[0] == "input":
                            flag = flags.setdefault(source, tensor.flags)
                        field_tensors.append(dataclasses.replace(tensor, total_tensor_size_in_bytes=total, flags=flag))
                    fields[name] = tuple(field_tensors) if isinstance(value, tuple) else field_tensors[0]
            nodes.append(dml.OperatorGraphNodeDesc(dataclasses.replace(desc, **fields), f"node {number}"))
        inputs, intermediate, constants = [], [], {}
        for source, number, k in self.edges:
            if source[0] == "input":
                inputs.append(dml.InputGraphEdgeDesc(source[1], number, k))
            elif source[0] == "constant":
                if source not in constants:
                    constants[source] = len(nodes)
                    data = source[1] + bytes(self.totals[source] - len(source[1]))
                    nodes.append(dml.ConstantDataGraphNodeDesc(data))
                intermediate.append(dml.IntermediateGraphEdgeDesc(constants[source], 0, number, k))
            else:
                intermediate.append(dml.IntermediateGraphEdgeDesc(*source, number, k))
        used = {source for source, *_ in self.edges}
        leaving = [end for end in self.outputs if end not in used or rng.random() < 0.2]
        leaving += [end for end in leaving if rng.random() < 0.1]
        outputs = [dml.OutputGraphEdgeDesc(*end, k) for k, end in enumerate(leaving)]
        return dml.GraphDesc(len(self.inputs), len(outputs), nodes, inputs, outputs, intermediate)


def random_graph(rng, most=6):
    """A graph of 1 to `most` nodes."""
    draft = Draft(rng)
    for _ in range(int(rng.integers(1, most + 1))):
        if draft.outputs and rng.random() < 0.75:
            _follow(draft)
        else:
            _stranger(draft)
    return draft.graph()


def _stranger(draft):
    """Any operator, whose inputs are the graph's, or the bytes of what is there."""
    rng = draft.rng
    names = [*STRANGERS, *FAMILY]
    name = names[rng.integers(len(names))]
    desc = random_desc(rng, name) if name in OPERATORS else FAMILY[name](rng)
    sources = []
    for _ in desc.inputs:
        draw, source = rng.random(), None
        if draft.inputs and draw < 0.15:
            source = ("input", int(rng.integers(len(draft.inputs))))
        elif draft.outputs and draw < 0.5:
            source = draft.outputs[rng.integers(len(draft.outputs))]
        sources.append(source)
    draft.add(desc, sources)


def _tensor(rng, data_type, sizes, gaps=True):
    """Packed, permuted, or with gaps."""
    draw = rng.random()
    if draw < 0.6 or not gaps:
        return dml.TensorDesc(data_type, sizes)
    return dml.TensorDesc(data_type, sizes, padded_strides(rng, sizes, gap=1 if draw < 0.85 else 3))


def _follow(draft):
    """An operator on the tensor that another one wrote."""
    rng = draft.rng
    end = draft.outputs[rng.integers(len(draft.outputs))]
    whole = draft.nodes[end[0]].outputs[end[1]][1]
    x = dataclasses.replace(whole, total_tensor_size_in_bytes=None)
    if rng.random() < 0.2:
        # The same bytes with axes in another order, or all in one.
        order = rng.permutation(len(x.sizes))
        strides = [x.element_strides[k] for k in order]
        x = dml.TensorDesc(x.data_type, [x.sizes[k] for k in order], strides)
    kinds = (_slice1, _parts, _joined, _padded, _tiled, _gathered, _copied, _along, _scattered, _blocks)
    addition = kinds[rng.integers(len(kinds))](draft, end, x)
    if addition is not None and math.prod(addition[0].outputs[0][1].sizes) <= 2000:
        draft.add(*addition)


def _slice1(draft, end, x):
    rng = draft.rng
    offsets = [int(rng.integers(0, n)) for n in x.sizes]
    windows = [int(rng.integers(1, n - o + 1)) for n, o in zip(x.sizes, offsets, strict=True)]
    steps = [int(rng.choice([1, 1, -1, 2, -2, 3])) for _ in x.sizes]
    sizes = [1 + (n - 1) // abs(step) for n, step in zip(windows, steps, strict=True)]
    return dml.Slice1OperatorDesc(x, _tensor(rng, x.data_type, sizes), offsets, windows, steps), [end]


def _parts(draft, end, x):
    rng = draft.rng
    if x.data_type.itemsize == 8:
        return None
    axis = int(rng.integers(len(x.sizes)))
    shapes = [[*x.sizes[:axis], n, *x.sizes[axis + 1 :]] for n in random_parts(rng, x.sizes[axis])]
    return dml.SplitOperatorDesc(x, [_tensor(rng, x.data_type, sizes) for sizes in shapes], axis), [end]


def _joined(draft, end, x):
    rng = draft.rng
    axis = int(rng.integers(len(x.sizes)))
    parts, sources = [x], [end]
    for _ in range(int(rng.integers(0, 3))):
        size = int(rng.integers(1, 4))
        if rng.random() < 0.4:
            parts.append(x)
            sources.append(end)
        else:
            sizes = [*x.sizes[:axis], size, *x.sizes[axis + 1 :]]
            part = _tensor(rng, x.data_type, sizes)
            parts.append(part)
            data = rng.integers(0, 256, part.size_in_bytes, np.uint8).tobytes()
            sources.append(None if rng.random() < 0.5 else ("constant", data))
    order = rng.permutation(len(parts))
    total = sum(part.sizes[axis] for part in parts)
    out = _tensor(rng, x.data_type, [*x.sizes[:axis], total, *x.sizes[axis + 1 :]])
    return dml.JoinOperatorDesc([parts[k] for k in order], out, axis), [sources[k] for k in order]


def _padded(draft, end, x):
    rng = draft.rng
    start, stop = ([int(n) for n in rng.integers(0, 3, len(x.sizes)) * (rng.random(len(x.sizes)) < 0.4)] for _ in "ab")
    sizes = [a + n + b for a, n, b in zip(start, x.sizes, stop, strict=True)]
    mode = str(rng.choice(["CONSTANT", "EDGE", "REFLECTION", "SYMMETRIC", "WRAP"]))
    out = _tensor(rng, x.data_type, sizes)
    return dml.Padding1OperatorDesc(x, out, mode, x.data_type, 3, start, stop), [end]


def _tiled(draft, end, x):
    rng = draft.rng
    if x.data_type == T.FLOAT64:
        return None
    repeats = [int(n) for n in rng.choice([1, 1, 2, 3], len(x.sizes))]
    sizes = [n * k for n, k in zip(x.sizes, repeats, strict=True)]
    return dml.TileOperatorDesc(x, _tensor(rng, x.data_type, sizes), repeats), [end]


def _indices(draft, sizes, bound):
    """Indices as an input of the graph, as a constant, or as what a node makes."""
    rng = draft.rng
    data_type = INDEX_TYPES[rng.integers(4)]
    tensor = _tensor(rng, data_type, sizes)
    draw = rng.random()
    if draw < 0.3:
        number = draft.add(dml.ElementWiseIdentityOperatorDesc(tensor, _tensor(rng, data_type, sizes)), [None])
        draft.inputs[-1] = "IndicesTensor"
        return tensor, (number, 0)
    if draw < 0.6:
        numbers = rng.integers(0, bound, tensor.size_in_bytes // data_type.itemsize + 1)
        return tensor, ("constant", numbers.astype(data_type.dtype).tobytes()[: tensor.size_in_bytes])
    return tensor, None


def _gathered(draft, end, x):
    rng, rank = draft.rng, len(x.sizes)
    axis = int(rng.integers(rank))
    count = int(rng.integers(1, 5))
    indices, source = _indices(draft, [1] * (rank - 1) + [count], x.sizes[axis])
    out = _tensor(rng, x.data_type, [*x.sizes[:axis], count, *x.sizes[axis + 1 :]])
    return dml.GatherOperatorDesc(x, indices, out, axis, 1), [end, source]


def _along(draft, end, x):
    rng = draft.rng
    axis = int(rng.integers(len(x.sizes)))
    sizes = [*x.sizes[:axis], int(rng.integers(1, 5)), *x.sizes[axis + 1 :]]
    indices, source = _indices(draft, sizes, x.sizes[axis])
    return dml.GatherElementsOperatorDesc(x, indices, _tensor(rng, x.data_type, sizes), axis), [end, source]


def _scattered(draft, end, x):
    rng = draft.rng
    axis = int(rng.integers(len(x.sizes)))
    sizes = [*x.sizes[:axis], int(rng.integers(1, 3)), *x.sizes[axis + 1 :]]
    indices, source = _indices(draft, sizes, x.sizes[axis])
    updates, out = _tensor(rng, x.data_type, sizes), _tensor(rng, x.data_type, x.sizes)
    return dml.ScatterOperatorDesc(x, indices, updates, out, axis), [end, source, None]


def _copied(draft, end, x):
    return dml.ElementWiseIdentityOperatorDesc(x, _tensor(draft.rng, x.data_type, x.sizes)), [end]


def _blocks(draft, end, x):
    """Depth to space of all elements, as one row or column of blocks of channels."""
    rng, count = draft.rng, math.prod(x.sizes)
    if x.strides is not None or count % 4:
        return None
    height = next(k for k in (3, 2, 1) if count // 4 % k == 0)
    sizes = [1, 4, height, count // 4 // height]
    kind = dml.DepthToSpaceOperatorDesc if rng.random() < 0.5 else dml.SpaceToDepthOperatorDesc
    x = dml.TensorDesc(x.data_type, sizes)
    if kind is dml.SpaceToDepthOperatorDesc:
        x = dml.TensorDesc(x.data_type, [1, sizes[2], 2, sizes[3] * 2])
        out = [1, sizes[2] * 4, 1, sizes[3]]
    else:
        out = [1, 1, sizes[2] * 2, sizes[3] * 2]
    return kind(x, _tensor(rng, x.data_type, out), 2), [end]


def random_buffers(rng, desc):
    """Bytes for the graph's inputs, whose indices are near what exists."""
    buffers = []
    for k, (_, tensor) in enumerate(desc.inputs):
        buffer = rng.integers(0, 256, tensor.size_in_bytes, np.uint8)
        for edge in desc.input_edges:
            if edge.graph_input_index == k:
                name, bound_tensor = desc.nodes[edge.to_node_index].inputs[edge.to_node_input_index]
                size = bound_tensor.data_type.itemsize
                if name in ("IndicesTensor", "SequenceLengthsTensor") or bound_tensor.data_type in INDEX_TYPES:
                    numbers = np.zeros(-(-buffer.size // size), bound_tensor.data_type.dtype)
                    fill_indices(rng, [("IndicesTensor", numbers)])
                    buffer = numbers.view(np.uint8)[: tensor.size_in_bytes].copy()
        buffers.append(buffer)
    return buffers


def node_by_node(desc, buffers, device="reference"):
    """The bytes of the graph's outputs, by its nodes one after the other; what nobody wrote is 0."""
    device = dml.Device(device)
    held, waiting = {}, [*range(len(desc.nodes))]
    feeds = {(e.to_node_index, e.to_node_input_index): e for e in desc.intermediate_edges}
    graph_inputs = {(e.to_node_index, e.to_node_input_index): e.graph_input_index for e in desc.input_edges}
    while waiting:
        number = waiting.pop(0)
        node = desc.nodes[number]
        if isinstance(node, dml.ConstantDataGraphNodeDesc):
            held[number, 0] = np.frombuffer(node.data, np.uint8)
            continue
        ends = [(number, k) for k in range(len(node.inputs))]
        sources = [
            (feeds[end].from_node_index, feeds[end].from_node_output_index) if end in feeds else None for end in ends
        ]
        if any(source is not None and source not in held for source in sources):
            waiting.append(number)
            continue
        inputs = [buffers[graph_inputs[end]] if s is None else held[s] for end, s in zip(ends, sources, strict=True)]
        outputs = [np.zeros(tensor.size_in_bytes, np.uint8) for _, tensor in node.outputs]
        device.compile_operator(node.operator).bind(inputs, outputs).dispatch()
        held.update({(number, k): output for k, output in enumerate(outputs)})
    edges = sorted(desc.output_edges, key=lambda e: e.graph_output_index)
    return [held[e.from_node_index, e.from_node_output_index] for e in edges]
