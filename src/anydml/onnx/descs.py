"""Translate the nodes of a graph to DirectML descs.

Sizes, and the small integer tensors that they depend on (split sizes, starts, ends …), are propagated through the
graph; no other tensor is read or evaluated. Tensors are padded with leading 1s to 4 dimensions, which older feature
levels require, as in ONNX Runtime's DirectML provider.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

from anydml.errors import ModelError
from anydml.files.json_path import names, show
from anydml.onnx.budget import Budget
from anydml.onnx.checks import check, inlined
from anydml.onnx.control import unrolled
from anydml.onnx.directml.described import Described, NoTypeError
from anydml.onnx.directml.following import FOLLOWED, Names, Unknown, can_be_followed, known_tensor, value_of
from anydml.onnx.directml.inference import inferred
from anydml.onnx.graph import ComputesError, Node, Opsets, decisive, label, last_use, opsets_of, plain_domain
from anydml.onnx.lowering import ShapeContext, UnknownElementsError
from anydml.onnx.nodes.computing import ARITHMETIC
from anydml.onnx.operators import run_node
from anydml.onnx.read import named, read_node
from anydml.onnx.tensors import numpy_type, sizes_text, tensor_shape, tensor_type, to_array, type_name
from anydml.onnx.values import GraphValue, Tensor, TensorSequence
from anydml.operators import OperatorDesc
from anydml.text import printable

DESCS_HAVE_SIZES = "descs must have known sizes"


@dataclass(frozen=True)
class Finding:
    """The result of translating a node: a desc, an error, or a reason why it was not checked.

    Attributes:
        node: name of the node.
        desc: the equivalent desc, not checked against any feature level.
        error: the reason why DirectML has no equivalent.
        unchecked: the reason why the node was not checked.
        sizes: symbolic sizes that must be given to check it.
        computes: whether the node is out of scope because it computes.
        operator: name of the operator, with its domain.
    """

    node: str
    desc: OperatorDesc | None = None
    error: ModelError | None = None
    unchecked: str | None = None
    sizes: tuple[str, ...] = ()
    computes: bool = False
    operator: str = ""


def to_descs(model: ModelProto, *, min_dimensions: int = 4) -> dict[str, OperatorDesc]:
    """Translate a graph to DirectML descs, by node name in the order of the graph.

    Split and SplitTraining become SPLIT, Concat and ConcatTraining JOIN, Slice SLICE1, and Gather GATHER (which clamps
    indices that ONNX refuses); the page on ONNX lists all. Nodes without an operator in DirectML, such as Reshape, and
    nodes whose operator anydml has no desc for, such as Cast, are left out.

    Args:
        model: a model of operators that anydml implements, with known input sizes; it may contain functions.
        min_dimensions: smaller ranks are padded with leading 1s.

    Returns:
        The descs, not checked against any feature level.

    Raises:
        ModelError: the model is not valid or has another operator, a size or a value that determines one is unknown, or
            DirectML does not support an element type.

    Examples:
        >>> from onnx import TensorProto, helper
        >>> import anydml.onnx
        >>> x, y, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [k]) for n, k in zip("xyz", (4, 2, 2)))
        >>> graph = helper.make_graph([helper.make_node("Split", ["x"], ["y", "z"], "halves")], "g", [x], [y, z])
        >>> model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        >>> anydml.onnx.to_descs(model, min_dimensions=1)
        {'halves': SplitOperatorDesc(FLOAT32 [4] → 2 × FLOAT32, axis 0)}
    """
    descs: dict[str, OperatorDesc] = {}
    for finding in _Descriptions(model, min_dimensions, {}, is_strict=True).findings():
        if finding.error is not None:
            raise finding.error
        if finding.desc is not None:
            descs[finding.node] = finding.desc
    return descs


def describe(model: ModelProto, sizes: Mapping[str, int] | None = None, min_dimensions: int = 4) -> Iterator[Finding]:
    """Yield a finding per node; nodes without an equivalent in DirectML are left out.

    Args:
        model: any valid model. Nodes that depend on unknown operators or sizes are reported as unchecked, and nodes
            whose tensors are empty are skipped.
        sizes: values of the inputs' symbolic sizes.
        min_dimensions: as for `to_descs`.

    Raises:
        ModelError: the model is not valid, `sizes` has an unknown name, or there is not enough memory.
    """
    known = _size_names(model)
    wrong = next((name for name in sizes or () if name not in known), None)
    if wrong is not None:
        raise ModelError(f"no size of an input is called {wrong}; there are {names(sorted(known))}", field=wrong)
    return _Descriptions(model, min_dimensions, sizes or {}, is_strict=False).findings()


def _size_names(model: ModelProto) -> list[str]:
    """Return the names of the inputs' symbolic sizes, in order."""
    dims = (dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim)
    return list(dict.fromkeys(dim.dim_param for dim in dims if dim.dim_param))


class _Descriptions:
    """Translates the nodes of a model in order."""

    def __init__(self, model: ModelProto, dimensions: int, sizes: Mapping[str, int], *, is_strict: bool) -> None:
        check(model)
        self._model = unrolled(inlined(model))
        self._opsets: Opsets = opsets_of(model.opset_import)
        self._dimensions = dimensions
        self._sizes = sizes
        self._is_strict = is_strict
        self._missing = tuple(name for name in _size_names(model) if name not in sizes)
        self._budget = Budget()
        self._declared = {value.name: value for value in (*model.graph.value_info, *model.graph.output)}

    def findings(self) -> Iterator[Finding]:
        """Yield the findings."""
        protos = [*named(self._model)]
        nodes = [self._read(proto, name) for name, proto in protos]
        ours = [node for node in nodes if isinstance(node, Node)]
        needed = decisive(ours)
        values: dict[str, GraphValue | Unknown] = {
            tensor.name: self._initializer(tensor, needed) for tensor in self._model.graph.initializer
        }
        values.update((value.name, self._input(value)) for value in self._model.graph.input)
        drops = last_use([Names(proto) for _, proto in protos], ())
        for i, ((name, proto), node) in enumerate(zip(protos, nodes, strict=True)):
            domain = plain_domain(proto.domain)
            operator = printable(f"{domain}:" * bool(domain) + proto.op_type)
            for finding in self._of_node(name, proto, node, values, needed):
                yield replace(finding, operator=operator)
            for dropped in drops.get(i, ()):
                values.pop(dropped, None)

    def _of_node(
        self, name: str, proto: NodeProto, node: Node | str, values: dict[str, GraphValue | Unknown], needed: Set[str]
    ) -> Iterator[Finding]:
        if isinstance(node, str):
            self._foreign(proto, values)
            yield Finding(name, unchecked=node, computes=True)
            return
        try:
            yield from self._ours(node, values, needed)
        except ComputesError as error:
            if self._is_strict:
                raise
            self._foreign(proto, values)
            yield Finding(name, unchecked=str(error).removeprefix(f"{node.label}: "), computes=True)

    def _read(self, proto: NodeProto, name: str) -> Node | str:
        try:
            return read_node(proto, self._opsets, name)
        except ModelError as error:
            if self._is_strict:
                raise
            domain = plain_domain(proto.domain)
            why = str(error).removeprefix(f"{label(name, domain, proto.op_type)}: ")
            return printable(f"{f'{domain}:' * bool(domain)}{proto.op_type}: {why}")

    def _initializer(self, tensor: TensorProto, needed: Set[str]) -> GraphValue | Unknown:
        dtype, shape = numpy_type(tensor.data_type), tensor_shape(tensor)
        if dtype is None:
            return Unknown(f"{show(tensor.name)}, which has {type_name(tensor.data_type)}")
        found = Tensor(dtype, shape)
        is_here = tensor.data_location != TensorProto.EXTERNAL
        if tensor.name in needed and is_here and math.prod(shape) <= FOLLOWED and not dtype.hasobject:
            return known_tensor(found, to_array(tensor, self._budget), self._budget)
        return found

    def _input(self, value: ValueInfoProto) -> GraphValue | Unknown:
        if value.type.WhichOneof("value") == "sequence_type" and not self._is_strict:
            return Unknown(f"input {show(value.name)}, a sequence")
        elem_type, sizes = tensor_type(value)
        sizes = None if sizes is None else [self._sizes.get(n, n) if isinstance(n, str) else n for n in sizes]
        shape = tuple(size for size in sizes or () if isinstance(size, int))
        dtype = numpy_type(elem_type)
        if sizes is None or len(shape) != len(sizes) or min((*shape, 0)) < 0:
            has = "no shape" if sizes is None else f"sizes {sizes_text(sizes)}"
            if self._is_strict:
                message = f"input {show(value.name)} has {has}; give it fixed sizes"
                raise ModelError(message, field=value.name, rule=DESCS_HAVE_SIZES)
            is_named = any(isinstance(size, str) for size in sizes or ())
            return Unknown(f"input {show(value.name)}, which has {has}", self._missing if is_named else ())
        if dtype is None:
            raise ModelError(f"input {show(value.name)} has {type_name(elem_type)}", field=value.name)
        return Tensor(dtype, shape)

    def _ours(self, node: Node, values: dict[str, GraphValue | Unknown], needed: Set[str]) -> Iterator[Finding]:
        inputs = [value_of(values, node, name) for name in node.inputs]
        unknown = next((value for value in inputs if isinstance(value, Unknown)), None)
        known = [value for value in inputs if not isinstance(value, Unknown)]
        if unknown is not None:
            self._forget(node, values, unknown)
            if node.entry.describe is not None or node.operator in ARITHMETIC:
                computes = node.operator in ARITHMETIC
                why = f"its sizes depend on {unknown.why}"
                yield Finding(node.name, unchecked=why, sizes=unknown.sizes, computes=computes)
            return
        ctx = ShapeContext()
        try:
            outputs = self._outputs(node, ctx, known, needed)
        except UnknownElementsError as missing:
            message = f"{missing} is known only when the graph runs"
            if self._is_strict:
                message += f"; descs need it as a constant of at most {FOLLOWED} integers"
                raise node.error(message, str(missing), DESCS_HAVE_SIZES) from None
            self._forget(node, values, Unknown(f"{node.label}, of which {message}"))
            yield self._by_inputs(Described(node, node.checked(known), (), self._dimensions, ctx, True), message)
            return
        except ComputesError:
            raise
        except ModelError as error:
            if self._is_strict:
                raise
            self._forget(node, values, Unknown(f"{node.label}, which breaks a rule"))
            yield Finding(node.name, error=error)
            return
        values.update((name, value) for name, value in zip(node.outputs, outputs, strict=False) if name)
        given = node.checked(known)
        yield from self._described(Described(node, given, outputs, self._dimensions, ctx, not self._is_strict), needed)

    def _described(self, known: Described, needed: Set[str]) -> Iterator[Finding]:
        node = known.node
        if node.entry.describe is None:
            return
        outputs = [each for each in known.outputs if isinstance(each, Tensor)]
        # As ONNX Runtime's provider does, leave shape arithmetic on the CPU and skip empty tensors.
        if not self._is_strict and (
            all(not each.size for each in outputs) or all(e.array is not None for e in outputs)
        ):
            return
        try:
            desc = node.entry.describe(known)
        except NoTypeError as error:
            yield Finding(node.name, error=error)
        except UnknownElementsError as reason:
            if needed.isdisjoint(node.outputs):
                yield Finding(node.name, unchecked=str(reason), computes=True)
        else:
            if desc is not None:
                yield Finding(node.name, desc)

    def _by_inputs(self, known: Described, missing: str) -> Finding:
        """Describe a node whose result sizes are only known at run time, if its inputs suffice."""
        node = known.node
        try:
            desc = node.entry.describe(known) if node.entry.describe else None
        except NoTypeError as error:
            return Finding(node.name, error=error)
        except (UnknownElementsError, IndexError):
            desc = None
        return Finding(node.name, desc) if desc else Finding(node.name, unchecked=missing)

    def _outputs(
        self, node: Node, ctx: ShapeContext, inputs: Sequence[GraphValue | None], needed: Set[str]
    ) -> list[GraphValue]:
        outputs = [*ctx.lower(node, inputs)]
        if needed.isdisjoint(node.outputs) or not can_be_followed(node, inputs, outputs):
            return outputs
        arrays = [
            None if tensor is None else tensor.array for tensor in inputs if not isinstance(tensor, TensorSequence)
        ]
        found = run_node(node, arrays, self._budget)
        return [
            known_tensor(tensor, array, self._budget) if isinstance(tensor, Tensor) and tensor.array is None else tensor
            for tensor, array in zip(outputs, found, strict=True)
        ]

    def _foreign(self, proto: NodeProto, values: dict[str, GraphValue | Unknown]) -> None:
        inputs = [values.get(name) for name in proto.input]
        unknown = next((value for value in inputs if isinstance(value, Unknown)), None)
        known = [None if isinstance(value, Unknown) else value for value in inputs]
        for name, tensor in zip(proto.output, inferred(proto, self._opsets, known), strict=True):
            if name:
                found: GraphValue | Unknown | None = tensor or self._as_declared(name)
                values[name] = found or unknown or Unknown(f"{show(name)}, whose sizes the model does not say")

    def _as_declared(self, name: str) -> GraphValue | None:
        value = self._declared.get(name)
        if value is None or value.type.WhichOneof("value") != "tensor_type":
            return None
        found = self._input(value)
        return None if isinstance(found, Unknown) else found

    def _forget(self, node: Node, values: dict[str, GraphValue | Unknown], unknown: Unknown) -> None:
        for name in filter(None, node.outputs):
            values[name] = self._as_declared(name) or unknown
