"""Random models of operators of all opsets: with attributes, defaults, and axes of either sign."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSETS = 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 23
"""Versions, of which those are listed in which an operator below changed."""

DTYPES = {"f": np.float32, "i": np.int64, "b": np.bool_, "u": np.uint8}


class Drawing:
    """A model in the making, in which each node is kept whose types onnx can infer.

    Args:
        random: a generator of NumPy.
        is_open: whether the first size of the inputs has a name only.
    """

    def __init__(self, random, is_open):
        self.random, self.is_open = random, is_open
        self.opset = int(random.choice(OPSETS))
        self.graph = helper.make_graph([], "random", [], [])
        self.functions, self.shapes, self.count = [], {}, 0
        for k in range(2):
            sizes = ["N" if is_open else 2, 4, 6, 6][: 4 if k else self.number(2, 4)]
            self.graph.input.append(helper.make_tensor_value_info(f"x{k}", TensorProto.FLOAT, sizes))
            self.shapes[f"x{k}"] = sizes

    def number(self, first, last):
        return int(self.random.integers(first, last + 1))

    def choice(self, options):
        return options[self.number(0, len(options) - 1)]

    def maybe(self, **attributes):
        return {key: value for key, value in attributes.items() if self.number(0, 1)}

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def constant(self, array, kind="i"):
        tensor = numpy_helper.from_array(np.asarray(array, DTYPES[kind]), f"c{self.name()}")
        self.graph.initializer.append(tensor)
        return tensor.name

    def weights(self, *sizes):
        return self.constant(np.round(self.random.standard_normal(sizes), 2), "f")

    def axis(self, shape):
        return self.number(-len(shape), len(shape) - 1)

    def has(self, operator, attribute):
        return attribute in onnx.defs.get_schema(operator, self.opset, "").attributes

    def node(self, operator, inputs, count=1, domain="", **attributes):
        """Add a node; return its first result."""
        names = [self.name() for _ in range(count)]
        self.graph.node.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        return names[0]

    def of_axes(self, operator, x, axes, **attributes):
        """Add a node with axes, which are an attribute or an input."""
        if axes is None:
            return self.node(operator, [x], **attributes)
        if self.has(operator, "axes"):
            return self.node(operator, [x], axes=axes, **attributes)
        return self.node(operator, [x, self.constant(axes)], **attributes)

    def floats(self, x):
        return self.node("Cast", [x], to=TensorProto.FLOAT)

    def model(self):
        imports = [helper.make_opsetid("", self.opset), helper.make_opsetid("own", 1)]
        return helper.make_model(
            self.graph, opset_imports=imports, functions=self.functions, ir_version=8 if self.opset < 19 else 10
        )

    def step(self, makers):
        """Add nodes of one operator, and forget them if their types are not known."""
        before = type(self.graph)()
        before.CopyFrom(self.graph)
        functions = [*self.functions]
        x = self.choice([*self.shapes][-3:])
        try:
            result = self.choice(makers)(self, x, self.shapes[x])
            inferred = onnx.shape_inference.infer_shapes(self.model(), strict_mode=True, data_prop=True).graph
            types = {value.name: value.type.tensor_type for value in inferred.value_info}
            kind = types[result]
            shape = [dim.dim_value or dim.dim_param or None for dim in kind.shape.dim]
            if kind.elem_type != TensorProto.FLOAT or not kind.HasField("shape") or None in shape or len(shape) > 5:
                raise ValueError(result)
        except Exception:  # onnx and NumPy raise errors of several types for what does not fit
            self.graph, self.functions = before, functions
            return
        self.shapes[result] = shape


def _along(d, x, shape):
    return d.node(d.choice(["Softmax", "LogSoftmax", "Hardmax", "Flatten"]), [x], **d.maybe(axis=d.axis(shape)))


def _reduced(d, x, shape):
    kinds = ["Sum", "Mean", "Max", "Min", "L1", "L2", "SumSquare", "LogSumExp", "Prod"]
    axes = d.choice([None, [d.axis(shape)], [0, -1], []])
    name = f"Reduce{d.choice(kinds)}"
    attributes = d.maybe(keepdims=d.number(0, 1))
    if d.has(name, "noop_with_empty_axes"):
        attributes |= d.maybe(noop_with_empty_axes=d.number(0, 1))
    return d.of_axes(name, x, axes, **attributes)


def _sought(d, x, shape):
    attributes = d.maybe(axis=d.axis(shape), keepdims=d.number(0, 1))
    if d.opset >= 12:
        attributes |= d.maybe(select_last_index=d.number(0, 1))
    return d.floats(d.node(d.choice(["ArgMax", "ArgMin"]), [x], **attributes))


def _squeezed(d, x, shape):
    axes = d.choice([[d.number(-len(shape) - 1, len(shape))], [0, -1]])
    wide = d.of_axes("Unsqueeze", x, axes)
    back = d.choice([None, [0], [-1], axes])
    return d.of_axes("Squeeze", wide, back) if d.number(0, 1) else wide


def _unary(d, x, shape):
    kinds = "Relu Neg Abs Sigmoid Tanh Exp Ceil Floor Reciprocal Softplus Softsign Sign Erf Identity Round Sin"
    more = ["Elu", "LeakyRelu", "Selu", "HardSigmoid", "ThresholdedRelu", "Celu"]
    kind = d.choice([*kinds.split(), *more])
    attributes = d.maybe(alpha=d.choice([1.0, 0.01, 0.2, 0.5])) if kind in more else {}
    if kind == "Selu" and attributes:
        attributes |= d.maybe(gamma=1.25)
    if kind == "HardSigmoid":
        attributes |= d.maybe(beta=d.choice([0.5, 0.25]))
    return d.node(kind, [x], **attributes)


def _clipped(d, x, shape):
    if d.has("Clip", "min"):
        return d.node("Clip", [x], **d.maybe(min=-0.5, max=0.5))
    bounds = [d.choice(["", d.constant(value, "f")]) for value in (-0.5, 0.5)]
    return d.node("Clip", [x, *bounds])


def _binary(d, x, shape):
    kind = d.choice(["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "PRelu", "Mod", "Mean", "Sum"])
    axis = d.axis(shape)
    thin = [size if k in (axis, axis + len(shape)) and isinstance(size, int) else 1 for k, size in enumerate(shape)]
    sizes = d.choice([[], [1], thin, thin[-1:]])
    other = d.choice([d.weights(*sizes), *(name for name, known in d.shapes.items() if known == shape)])
    pair = [x, other] if d.number(0, 1) else [other, x]
    return d.node(kind, pair, **({"fmod": 1} if kind == "Mod" else {}))


def _cast(d, x, shape):
    kinds = [TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8, TensorProto.BOOL, TensorProto.FLOAT16]
    return d.floats(d.node("Cast", [x], to=d.choice([*kinds, TensorProto.DOUBLE, TensorProto.INT8])))


def _reshaped(d, x, shape):
    targets = [[0, -1], [-1, 0], [-1], [0, 0, -1], [*[0] * len(shape), 1], [1, *[0] * (len(shape) - 1), -1]]
    total = math.prod(size for size in shape if isinstance(size, int))
    targets += [[-1, 2], [2, -1], [total, -1], [-1, total]]
    attributes = d.maybe(allowzero=0) if d.opset >= 14 else {}
    return d.node("Reshape", [x, d.constant(d.choice(targets))], **attributes)


def _picked(d, x, shape):
    axis = d.axis(shape)
    match d.number(0, 5):
        case 0:
            return d.node("Gather", [x, d.constant(d.choice([0, [0], [-1, 0], [[0, -1]]]))], **d.maybe(axis=axis))
        case 1:
            other = d.constant(np.zeros([1] * len(shape)) - d.number(0, 1))
            return d.node("GatherElements", [x, other], **d.maybe(axis=axis))
        case 2:
            return d.node("GatherND", [x, d.constant(d.choice([[[0]], [[-1]], [[0, 1], [1, 0]]]))])
        case 3:
            kinds = d.maybe(largest=d.number(0, 1), sorted=1) if d.opset >= 11 else {}
            return d.node("TopK", [x, d.constant([1])], 2, **d.maybe(axis=axis), **kinds)
        case 4:
            lengths = [1, shape[axis] - 1] if isinstance(shape[axis], int) and shape[axis] > 1 else [1]
            if d.has("Split", "split"):
                return d.node("Split", [x], len(lengths), split=lengths, **d.maybe(axis=axis))
            return d.node("Split", [x, d.constant(lengths)], len(lengths), **d.maybe(axis=axis))
        case _:
            numbers = [d.constant([n]) for n in (d.choice([0, 1, -1, -2]), d.choice([99, -99, 2, -1]), axis)]
            step = [d.constant([d.choice([1, 2, -1, -2])])] * d.number(0, 1)
            return d.node("Slice", [x, *numbers, *step])


def _scanned(d, x, shape):
    match d.number(0, 2):
        case 0:
            axis = d.constant(d.axis(shape))
            return d.node("CumSum", [x, axis], **d.maybe(exclusive=d.number(0, 1), reverse=d.number(0, 1)))
        case 1:
            k = [d.constant(d.number(-1, 1))] * d.number(0, 1)
            return d.node("Trilu", [x, *k], **d.maybe(upper=d.number(0, 1)))
        case _:
            return d.node("Pad", [x, d.constant([d.number(0, 1) for _ in range(2 * len(shape))])],
                          **d.maybe(mode=d.choice(["constant", "edge", "reflect"])))  # fmt: skip


def _normalized(d, x, shape):
    count = shape[1]
    eps = d.maybe(epsilon=d.choice([1e-5, 1e-3]))
    match d.number(0, 5):
        case 0:
            axis = d.axis(shape)
            scale = d.weights(*shape[axis:])
            more = [d.weights(*shape[axis:])] * d.number(0, 1)
            return d.node("LayerNormalization", [x, scale, *more], **eps, **d.maybe(axis=axis))
        case 1:
            numbers = [d.weights(count), d.weights(count), d.weights(count), d.constant(np.ones(count), "f")]
            return d.node("BatchNormalization", [x, *numbers], **eps, **d.maybe(momentum=0.9))
        case 2:
            return d.node("InstanceNormalization", [x, d.weights(count), d.weights(count)], **eps)
        case 3:
            attributes = d.maybe(alpha=d.choice([1e-4, 1e-2]), beta=0.75, bias=d.choice([1.0, 2.0]))
            return d.node("LRN", [x], size=d.choice([1, 3]), **attributes)
        case 4:
            return d.node("LpNormalization", [x], **d.maybe(axis=d.axis(shape), p=d.number(1, 2)))
        case _:
            return d.node("MeanVarianceNormalization", [x], **d.maybe(axes=d.choice([[0, 2, 3], [1], [0, 1]])))


def _quantized(d, x, shape):
    axis = d.axis(shape)
    count = shape[axis] if isinstance(shape[axis], int) and d.opset >= 13 and d.number(0, 1) else None
    sizes = () if count is None else (count,)
    scale = d.constant(np.full(sizes, 0.25) + np.arange(count or 1).reshape(sizes) / 8, "f")
    zero = [d.constant(np.full(sizes, d.number(0, 3)), "u")] * d.number(0, 1)
    attributes = d.maybe(axis=axis) if d.opset >= 13 else {}
    low = d.node("QuantizeLinear", [x, scale, *zero], **attributes)
    return d.node("DequantizeLinear", [low, scale, *zero], **(attributes if d.number(0, 3) else {}))


def _windowed(d, x, shape):
    rank = len(shape) - 2
    attributes = d.maybe(strides=[d.number(1, 2)] * rank)
    pads = {"pads": [d.number(0, 1) for _ in range(2 * rank)]}
    attributes |= d.choice(
        [{}, pads, *({"auto_pad": mode} for mode in ("VALID", "SAME_UPPER", "SAME_LOWER", "NOTSET"))]
    )
    if d.number(0, 1):
        group = d.choice([1, 2])
        given = {"dilations": [d.number(1, 2)] * rank, "kernel_shape": [3] * rank}
        attributes |= d.maybe(group=group, **given)
        transposes = d.number(0, 3) == 0
        divided = attributes.get("group", 1)
        sizes = [shape[1], 4 // divided] if transposes else [4, shape[1] // divided]
        bias = [d.weights(4)] * d.number(0, 1)
        return d.node(
            "ConvTranspose" if transposes else "Conv", [x, d.weights(*sizes, *[3] * rank), *bias], **attributes
        )
    kind = d.choice(["MaxPool", "AveragePool", "LpPool"])
    if kind == "LpPool":
        attributes |= d.maybe(p=d.number(1, 2))
    elif d.opset >= 10:
        attributes |= d.maybe(ceil_mode=d.number(0, 1))
    if kind == "AveragePool":
        attributes |= d.maybe(count_include_pad=d.number(0, 1))
    return d.node(kind, [x], kernel_shape=[d.number(1, 3)] * rank, **attributes)


def _blocks(d, x, shape):
    if d.number(0, 1):
        modes = d.maybe(mode=d.choice(["DCR", "CRD"])) if d.opset >= 11 else {}
        return d.node("DepthToSpace", [x], blocksize=2, **modes)
    return d.node("SpaceToDepth", [x], blocksize=2)


def _multiplied(d, x, shape):
    width = shape[-1]
    if len(shape) == 2 and d.number(0, 1):
        flags = d.maybe(transB=d.number(0, 1), alpha=d.choice([1.0, 0.5]), beta=d.choice([1.0, 2.0]))
        sizes = [3, width] if flags.get("transB") else [width, 3]
        bias = [d.weights(*d.choice([[], [1], [3], [1, 3]]))] * d.number(0, 1)
        return d.node("Gemm", [x, d.weights(*sizes), *bias], **flags)
    if d.opset >= 12 and len(shape) == 3 and d.number(0, 1):
        return d.node("Einsum", [x], equation=d.choice(["abc->cab", "abc->ab", "cab", "abc->bc", "cab->abc", "aBc"]))
    return d.node("MatMul", [x, d.weights(*d.choice([[width], [width, 3], [1, width, 3]]))])


def _repeated(d, x, shape):
    match d.number(0, 3):
        case 0:
            return d.node("Tile", [x, d.constant([d.number(1, 2) for _ in shape])])
        case 1:
            return d.node("Expand", [x, d.constant(d.choice([[1], [2, *[1] * len(shape)], [1] * len(shape)]))])
        case 2:
            return d.node("Concat", [x, x], axis=d.axis(shape))
        case _:
            perm = d.random.permutation(len(shape)).tolist()
            return d.node("Transpose", [x], **d.maybe(perm=perm))


def _resized(d, x, shape):
    scales = d.constant([1.0, 1.0, d.choice([1.0, 2.0]), d.choice([1.0, 2.0, 0.5])], "f")
    modes = d.maybe(mode=d.choice(["nearest", "linear"]))
    if d.opset < 11:
        return d.node("Resize" if d.opset == 10 else "Upsample", [x, scales], **modes)
    kinds = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    modes |= d.maybe(coordinate_transformation_mode=d.choice(kinds), nearest_mode=d.choice(["floor", "ceil"]))
    return d.node("Resize", [x, d.constant([], "f") if d.opset < 13 else "", scales], **modes)


def _branched(d, x, shape):
    """An If whose branches read what is outside of them, and whose condition is a constant."""
    name, results = d.name(), [d.name(), d.name()]
    bodies = [
        helper.make_graph(
            [helper.make_node(d.choice(["Relu", "Neg", "Abs"]), [d.choice([*d.shapes])], [result])],
            "body", [], [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)],
        )
        for result in results
    ]  # fmt: skip
    condition = d.constant(bool(d.number(0, 1)), "b")
    d.graph.node.append(helper.make_node("If", [condition], [name], then_branch=bodies[0], else_branch=bodies[1]))
    return name


def _called(d, x, shape):
    """A function of the model, with an attribute that its nodes refer to."""
    name = f"F{d.name()}"
    nodes = [
        helper.make_node("Softmax" if d.opset >= 13 else "Hardmax", ["a"], ["b"]),
        helper.make_node("LeakyRelu", ["b"], ["c"]),
    ]
    for node, attribute, kind in ((nodes[0], "axis", 2), (nodes[1], "alpha", 1)):
        node.attribute.append(onnx.AttributeProto(name=attribute, ref_attr_name=attribute, type=kind))
    imports = [helper.make_opsetid("", d.opset)]
    defaults = [helper.make_attribute("alpha", 0.01)]
    d.functions.append(helper.make_function("own", name, ["a"], ["c"], nodes, imports, ["axis"], defaults))
    return d.node(name, [x], domain="own", axis=d.axis(shape), **d.maybe(alpha=0.5))


MAKERS = [
    _along, _reduced, _sought, _squeezed, _unary, _unary, _clipped, _binary, _binary, _cast, _reshaped, _reshaped,
    _picked, _picked, _scanned, _normalized, _quantized, _windowed, _windowed, _blocks, _multiplied, _repeated,
    _repeated, _resized, _branched, _called,
]  # fmt: skip


def drawn(random, is_open, makers=MAKERS):
    """A random model of one output, or several; None if onnx refuses it.

    Args:
        random: a generator of NumPy.
        is_open: whether the first size of the inputs has a name only.
        makers: functions, each of which adds nodes.
    """
    drawing = Drawing(random, is_open)
    for _ in range(drawing.number(2, 9)):
        drawing.step(makers)
    graph = drawing.graph
    read = {name for node in graph.node for name in node.input}
    ends = [name for name in drawing.shapes if name not in read and not name.startswith("x")]
    for name in ends:
        graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * len(drawing.shapes[name])))
    used = {name for node in graph.node for name in node.input}
    for k in reversed(range(len(graph.initializer))):
        if graph.initializer[k].name not in used:
            del graph.initializer[k]
    model = drawing.model()
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception:  # the checker raises errors of several types
        return None
    return model if ends else None
