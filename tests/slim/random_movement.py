"""Random graphs of movement, with a few nodes in between that compute."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

KINDS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64}


class Drawing:
    """A graph in the making.

    Args:
        number: gives an integer from a first to a last one.
        is_open: whether the first size of the inputs has a name only.
    """

    def __init__(self, number, is_open=False):
        self.number, self.is_open = number, is_open
        self.nodes, self.tensors, self.values, self.inputs = [], [], [], []
        self.used = set()

    def choice(self, options):
        return options[self.number(0, len(options) - 1)]

    def input(self):
        rank = self.number(1, 4)
        sizes = [self.number(1, 4) for _ in range(rank)]
        if self.is_open and self.inputs:
            sizes[0] = self.inputs[0][1][0]
        name = f"x{len(self.inputs)}"
        shown = ["N", *sizes[1:]] if self.is_open else sizes
        self.inputs.append((helper.make_tensor_value_info(name, TensorProto.FLOAT, shown), sizes))
        self.values.append((name, tuple(sizes)))

    def constant(self, array, kind=None):
        name = f"c{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(array, kind or np.int64), name))
        return name

    def weights(self):
        sizes = [self.number(1, 4) for _ in range(self.number(1, 3))]
        array = np.arange(math.prod(sizes), dtype=np.float32).reshape(sizes) + 1000
        self.values.append((self.constant(array, np.float32), tuple(sizes)))

    def add(self, kind, inputs, *shapes, **attributes):
        names = [f"v{len(self.nodes)}_{k}" for k in range(len(shapes))]
        self.nodes.append(helper.make_node(kind, inputs, names, f"node {len(self.nodes)}", **attributes))
        self.used.update(inputs)
        self.values += zip(names, map(tuple, shapes), strict=True)

    def step(self):
        name, sizes = self.choice(self.values[-4:])
        rank = len(sizes)
        axis = self.number(0, rank - 1) if rank else None
        kinds = ["Unsqueeze", "Identity", "Relu", "Reshape", "Add"]
        if rank:
            kinds += ["Softmax", "Sum", "MatMul"] if rank > 1 else []
            kinds += ["Transpose"] * 3 + ["Slice"] * 2 + ["Concat"] * 2 + ["Split", "Gather", "Pad", "Tile", "Flatten"]
            kinds += ["Reverse"]
        if 1 in sizes:
            kinds += ["Squeeze", "Expand"]
        if self.is_open:
            kinds = ["Relu", "Transpose", "Transpose", "Identity", "Unsqueeze", "Slice", "Concat", "Flatten", "Add"]
            kinds = [*kinds, "Reverse", "Gather", "Pad"] if rank else ["Relu"]
        getattr(self, f"add_{self.choice(kinds).lower()}")(name, sizes, axis)

    def add_identity(self, name, sizes, _):
        self.add("Identity", [name], sizes)

    def add_relu(self, name, sizes, _):
        self.add("Relu", [name], sizes)

    def add_add(self, name, sizes, axis):
        others = [n for n, s in self.values if s == sizes]
        if self.number(0, 1) and not self.is_open:
            shape = [1 if k != axis else n for k, n in enumerate(sizes)]
            other = self.constant(np.arange(math.prod(shape)).reshape(shape) + 100, np.float32)
        else:
            other = self.choice(others)
        self.add("Add", [name, other], sizes)

    def add_softmax(self, name, sizes, axis):
        self.add("Softmax", [name], sizes, axis=axis)

    def add_sum(self, name, sizes, axis):
        keeps = self.number(0, 1)
        shape = [*sizes[:axis], *[1] * keeps, *sizes[axis + 1 :]]
        self.add("ReduceSum", [name, self.constant([axis])], shape, keepdims=keeps)

    def add_matmul(self, name, sizes, _):
        others = [(n, s) for n, s in self.values if len(s) > 1 and s[-2] == sizes[-1] and s[:-2] == sizes[:-2]]
        if others and self.number(0, 1):
            other, (*_, columns) = self.choice(others)
        else:
            columns = self.number(1, 4)
            other = self.constant(np.eye(sizes[-1], columns), np.float32)
        self.add("MatMul", [name, other], [*sizes[:-1], columns])

    def add_transpose(self, name, sizes, _):
        left, perm = [*range(len(sizes))], []
        while left:
            perm.append(left.pop(self.number(0, len(left) - 1)))
        self.add("Transpose", [name], [sizes[k] for k in perm], perm=perm)

    def add_reshape(self, name, sizes, _):
        left, shape = math.prod(sizes), []
        while left > 1:
            size = self.choice([n for n in range(2, left + 1) if left % n == 0])
            shape.append(size)
            left //= size
        for _ in range(self.number(0, 1)):
            shape.insert(self.number(0, len(shape)), 1)
        self.add("Reshape", [name, self.constant(shape)], shape)

    def add_flatten(self, name, sizes, axis):
        self.add("Flatten", [name], [math.prod(sizes[:axis]), math.prod(sizes[axis:])], axis=axis)

    def add_unsqueeze(self, name, sizes, _):
        if len(sizes) < 6:
            axis = self.number(0, len(sizes))
            shape = [*sizes[:axis], 1, *sizes[axis:]]
            self.add("Unsqueeze", [name, self.constant([axis])], shape)

    def add_squeeze(self, name, sizes, _):
        axis = sizes.index(1)
        self.add("Squeeze", [name, self.constant([axis])], [*sizes[:axis], *sizes[axis + 1 :]])

    def add_expand(self, name, sizes, _):
        shape = [self.number(2, 3) if size == 1 else size for size in sizes]
        if math.prod(shape) < 2000:
            self.add("Expand", [name, self.constant(shape)], shape)

    def add_slice(self, name, sizes, axis):
        step = self.choice([1, 1, 1, 2, -1, -2])
        first, end = self.number(0, sizes[axis] - 1), self.number(0, sizes[axis])
        if step < 0:
            # Before the first element, which no end from 0 on can name.
            end = -sizes[axis] - 1 if self.number(0, 1) else min(end, first)
        taken = range(sizes[axis])[first : None if end < 0 else end : step]
        if not len(taken):
            first, end, taken = 0, sizes[axis], range(0, sizes[axis], abs(step))
            step = abs(step)
        shape = [*sizes[:axis], len(taken), *sizes[axis + 1 :]]
        if self.is_open:
            first, end, step, shape = 0, 2**31, 1, sizes
        elif self.number(0, 1):
            axis -= len(sizes)
        numbers = [self.constant([n]) for n in (first, end, axis, step)]
        self.add("Slice", [name, *numbers], shape)

    def add_reverse(self, name, sizes, axis):
        axes = sorted({axis, self.number(0, len(sizes) - 1)})
        numbers = [self.constant([n] * len(axes)) for n in (2**31, -(2**31))]
        self.add("Slice", [name, *numbers, self.constant(axes), self.constant([-1] * len(axes))], sizes)

    def add_concat(self, name, sizes, axis):
        others = [n for n, s in self.values if len(s) == len(sizes) and all(
            k == axis or a == b for k, (a, b) in enumerate(zip(s, sizes, strict=True)))]  # fmt: skip
        if self.is_open:
            others = [name]
            axis = len(sizes) - 1
        names = [name, *(self.choice(others) for _ in range(self.number(1, 2)))]
        known = dict(self.values)
        total = sum(known[n][axis] for n in names)
        if math.prod(sizes) * total < 4000:
            self.add("Concat", names, [*sizes[:axis], total, *sizes[axis + 1 :]], axis=axis)

    def add_split(self, name, sizes, axis):
        cut = self.number(1, sizes[axis])
        lengths = [cut, sizes[axis] - cut] if cut < sizes[axis] else [cut]
        shapes = [[*sizes[:axis], n, *sizes[axis + 1 :]] for n in lengths]
        self.add("Split", [name, self.constant(lengths)], *shapes, axis=axis)

    def add_gather(self, name, sizes, axis):
        shape = [self.number(1, 4) for _ in range(self.number(0, 1))]
        last = 1 if self.is_open else sizes[axis]
        indices = [self.number(-last, last - 1) for _ in range(math.prod(shape))]
        given = self.constant(np.array(indices).reshape(shape))
        self.add("Gather", [name, given], [*sizes[:axis], *shape, *sizes[axis + 1 :]], axis=axis)

    def add_pad(self, name, sizes, axis):
        mode = self.choice(["constant", "constant", "constant", "edge", "reflect"])
        lower_bound = -1 if mode == "constant" and self.number(0, 3) == 0 and not self.is_open else 0
        counts = [self.number(lower_bound, 0 if mode == "reflect" and sizes[k % len(sizes)] < 2 else 1)
                  for k in range(2 * len(sizes))]  # fmt: skip
        shape = [n + a + b for n, a, b in zip(sizes, counts, counts[len(sizes) :], strict=False)]
        if min(shape) > 0 and math.prod(shape) < 2000:
            value = [self.constant(7.0, np.float32)] * (mode == "constant")
            self.add("Pad", [name, self.constant(counts), *value], shape, mode=mode)

    def add_tile(self, name, sizes, axis):
        times = [self.number(1, 2) if k == axis else 1 for k in range(len(sizes))]
        shape = [n * t for n, t in zip(sizes, times, strict=True)]
        if math.prod(shape) < 2000:
            self.add("Tile", [name, self.constant(times)], shape)

    def model(self):
        """The model, and arrays for its inputs."""
        made = {name for node in self.nodes for name in node.output}
        ends = [(name, sizes) for name, sizes in self.values if name in made and name not in self.used]
        more = [value for value in self.values if value[0] in made and self.number(0, 7) == 0]
        outputs = []
        for name, sizes in dict([*ends, *more]).items():
            shown = [None] * len(sizes) if self.is_open else sizes
            outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shown))
        inputs = [value for value, _ in self.inputs]
        graph = helper.make_graph(self.nodes, "random", inputs, outputs, self.tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        first = 0
        given = {}
        for value, sizes in self.inputs:
            given[value.name] = np.arange(first, first + math.prod(sizes), dtype=np.float32).reshape(sizes)
            first += math.prod(sizes)
        return model, given


def drawn(number, is_open=False):
    """A random model, and arrays for its inputs; None where nothing moves.

    Args:
        number: gives an integer from a first to a last one.
        is_open: whether the first size of the inputs has a name only.
    """
    drawing = Drawing(number, is_open)
    for _ in range(number(1, 2)):
        drawing.input()
    if number(0, 3) == 0 and not is_open:
        drawing.weights()
    for _ in range(number(1, 14)):
        drawing.step()
    if not drawing.nodes:
        drawing.add_identity(*drawing.values[0], 0)
    model, given = drawing.model()
    onnx.checker.check_model(model)
    return model, given
