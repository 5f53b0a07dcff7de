"""Translate the nodes of a graph to DirectML descs.

Sizes, and the small integer tensors that they depend on (split sizes, starts, ends …), are propagated through the
graph; no other tensor is read or evaluated. Tensors are padded with leading 1s to 4 dimensions, which older feature
levels require, as in ONNX Runtime's DirectML provider.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto

from anydml.errors import ModelError
from anydml.files.location import names, show
from anydml.onnx.budget import Budget
from anydml.onnx.checks import check, check_is_model, inline_functions
from anydml.onnx.control import unroll
from anydml.onnx.declared_types import check_types
from anydml.onnx.directml.described import Described, NoTypeError
from anydml.onnx.directml.index_descs import INDEXED, MAX_INDICES, indices_of, outside_index_error
from anydml.onnx.folding import fold
from anydml.onnx.graph import (
    ComputesError,
    Node,
    Opsets,
    UnenforcedRuleError,
    label,
    last_use,
    opsets_of,
    read_as_data,
    size_determining,
)
from anydml.onnx.graph_values import GraphValue, Reservation, Tensor
from anydml.onnx.inference import FOLLOWED, Unknown, declared_tensor, infer_outputs, initial
from anydml.onnx.lowering import ShapeContext, UnknownElementsError
from anydml.onnx.nodes.computed_nodes import ARITHMETIC
from anydml.onnx.read import iter_named_nodes, read_node
from anydml.onnx.tensor_protos import numpy_type, sizes_text, tensor_type, type_name
from anydml.onnx.translation_findings import MOVING, NO_ELEMENTS, ON_THE_CPU, Finding, host_finding, movement_in
from anydml.onnx.walk import plain_domain
from anydml.operators import OperatorDesc
from anydml.text import escape_controls

DESCS_HAVE_SIZES = "descs must have known sizes"


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
        TypeError: `model` is not a ModelProto.

    Examples:
        >>> from onnx import TensorProto, helper
        >>> import anydml.onnx
        >>> x, y, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [k]) for n, k in zip("xyz", (4, 2, 2)))
        >>> graph = helper.make_graph([helper.make_node("Split", ["x"], ["y", "z"], "halves")], "g", [x], [y, z])
        >>> model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        >>> anydml.onnx.to_descs(model, min_dimensions=1)
        {'halves': SplitOperatorDesc(FLOAT32 [4] → 2 × FLOAT32, axis 0)}
    """
    check_is_model("to_descs", model)
    check(model)
    check_types(model)
    descs: dict[str, OperatorDesc] = {}
    descriptions = Descriptions(model, min_dimensions, {}, skips_empty=False)
    descriptions.check_inputs()
    for finding in descriptions.findings():
        error = finding.error or finding.cause
        if error is not None:
            raise error
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
    size_names = input_sizes(model)
    wrong = next((name for name in sizes or () if name not in size_names), None)
    if wrong is not None:
        known = f"the names are {names(sorted(size_names))}" if size_names else "all sizes of inputs are numbers"
        raise ModelError(f"no size of an input is named {show(wrong)}: {known}", field=wrong)
    check(model)
    check_types(model)
    return Descriptions(model, min_dimensions, sizes or {}, skips_empty=True).findings()


def input_sizes(model: ModelProto) -> list[str]:
    """Return the names of the inputs' symbolic sizes, in order."""
    dims = (dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim)
    return list(dict.fromkeys(dim.dim_param for dim in dims if dim.dim_param))


class Descriptions:
    """Translates the nodes of a model in order.

    Args:
        model: the model.
        dimensions: minimum rank of descs.
        sizes: values of symbolic sizes.
        skips_empty: whether to leave out tensors without elements, and shape arithmetic, as ONNX Runtime does.
    """

    def __init__(self, model: ModelProto, dimensions: int, sizes: Mapping[str, int], *, skips_empty: bool) -> None:
        self._model = unroll(inline_functions(model))
        self._opsets: Opsets = opsets_of(model.opset_import)
        self._dimensions = dimensions
        self._sizes = sizes
        self._skips_empty = skips_empty
        self._missing = tuple(name for name in input_sizes(model) if name not in sizes)
        self._budget = Budget()
        self._declared = {value.name: value for value in (*model.graph.value_info, *model.graph.output)}
        self._needed: Set[str] = frozenset()
        self._known: Set[str] = frozenset()
        self._unread: set[str] = set()
        self._values: dict[str, GraphValue | Unknown] = {}
        # What elements depend on, of values whose sizes the model declares.
        self._unknown_elements: dict[str, Unknown] = {}

    def check_inputs(self) -> None:
        """Check that the types and sizes of all inputs are known.

        Raises:
            ModelError: an input is not a tensor, or has unknown sizes.
        """
        for value in self._model.graph.input:
            _, sizes = tensor_type(value)
            if isinstance(self._input(value), Unknown):
                message = (
                    f"input {show(value.name)} has {_sizes(sizes)}; give it fixed sizes (onnx.tools.update_model_dims)"
                )
                raise ModelError(message, field=value.name, rule=DESCS_HAVE_SIZES)

    def findings(self) -> Iterator[Finding]:
        """Yield the findings."""
        protos = [*iter_named_nodes(self._model)]
        nodes = [self._read(proto, name) for name, proto in protos]
        self._needed = size_determining([node for node in nodes if isinstance(node, Node)])
        graph = self._model.graph
        data = read_as_data([*zip((proto for _, proto in protos), nodes, strict=True)], graph)
        self._known = {*self._needed, *indices_of(node for node in nodes if isinstance(node, Node))}
        self._values.update((tensor.name, self._initializer(tensor)) for tensor in graph.initializer)
        self._values.update((value.name, self._input(value)) for value in graph.input)
        drops = last_use([(proto.input, proto.output) for _, proto in protos], ())
        for i, ((name, proto), node) in enumerate(zip(protos, nodes, strict=True)):
            finding = (
                self._describe_other(proto, name, node)
                if isinstance(node, ModelError)
                else self._describe_movement(proto, node)
            )
            if finding is not None:
                on_host = data.isdisjoint(proto.output) and not self._needed.isdisjoint(proto.output)
                if on_host and self._skips_empty and isinstance(finding.error, NoTypeError):
                    finding = replace(finding, error=None, unchecked=str(finding.error))
                yield replace(finding, operator=_operator(proto), on_host=on_host)
            for dropped in drops.get(i, ()):
                self._values.pop(dropped, None)

    def _read(self, proto: NodeProto, name: str) -> Node | ModelError:
        try:
            return read_node(proto, self._opsets, name)
        except ModelError as error:
            return error

    def _initializer(self, tensor: TensorProto) -> GraphValue | Unknown:
        # Indices are compared with their axis; other elements determine sizes.
        max_elements = FOLLOWED if tensor.name in self._needed else MAX_INDICES if tensor.name in self._known else -1
        tensor_value = initial(tensor, max_elements, self._budget)
        if tensor_value is not None and tensor_value.array is None and tensor_value.size:
            self._unread.add(tensor.name)
        return tensor_value or Unknown(f"{show(tensor.name)}, which has {type_name(tensor.data_type)}")

    def _input(self, value: ValueInfoProto) -> GraphValue | Unknown:
        if value.type.WhichOneof("value") == "sequence_type":
            return Unknown(f"input {show(value.name)}, a sequence")
        described = declared_tensor(value, lambda _, name: self._sizes.get(name or ""))
        if described is not None:
            return described
        elem_type, sizes = tensor_type(value)
        if numpy_type(elem_type) is None:
            raise ModelError(f"input {show(value.name)} has {type_name(elem_type)}", field=value.name)
        sizes = None if sizes is None else [self._sizes.get(n, n) if isinstance(n, str) else n for n in sizes]
        is_named = any(isinstance(size, str) for size in sizes or ())
        return Unknown(f"input {show(value.name)}, which has {_sizes(sizes)}", self._missing if is_named else ())

    def _describe_movement(self, proto: NodeProto, node: Node) -> Finding | None:
        """Translate a node of an operator that anydml implements; note its results."""
        inputs = node.inputs_in(self._values)
        unknown = next((value for value in inputs if isinstance(value, Unknown)), None)
        known_inputs = [value for value in inputs if not isinstance(value, Unknown)]
        if unknown is not None:
            self._forget(node.outputs, unknown)
            computes = node.operator in ARITHMETIC
            if node.entry.describe is None and not computes:
                return host_finding(node.name, ON_THE_CPU) if node.operator in MOVING and self._skips_empty else None
            why = f"its sizes depend on {unknown.why}"
            return Finding(node.name, unchecked=why, sizes=unknown.sizes, computes=computes)
        ctx = ShapeContext()
        try:
            outputs = self._outputs(node, ctx, known_inputs)
        except UnknownElementsError as missing:
            message = f"{missing} is known only when the graph runs"
            unknown = self._cause(node) or Unknown(f"{node.label}, of which {message}")
            self._forget(node.outputs, unknown)
            finding = self._by_inputs(Described(node, (), self._dimensions, ctx, True), known_inputs, message)
            if finding.unchecked != message or not unknown.sizes:
                return finding
            return replace(finding, unchecked=f"its sizes depend on {unknown.why}", sizes=unknown.sizes)
        except ComputesError as error:
            return self._describe_other(proto, node.name, error)
        except ModelError as error:
            self._forget(node.outputs, Unknown(f"{node.label}, which breaks a rule"))
            return Finding(node.name, error=error, is_invalid=not isinstance(error, UnenforcedRuleError))
        self._values.update((name, value) for name, value in zip(node.outputs, outputs, strict=False) if name)
        if (cause := self._cause(node)) is not None:
            self._unknown_elements.update(dict.fromkeys(node.outputs, cause))
        return self._finding_of(Described(node, outputs, self._dimensions, ctx, self._skips_empty), known_inputs)

    def _finding_of(self, described: Described, inputs: Sequence[GraphValue | None]) -> Finding | None:
        node = described.node
        outputs = [output for output in described.outputs if isinstance(output, Tensor)]
        is_skipped = all(not output.size for output in outputs) or all(output.array is not None for output in outputs)
        if node.entry.describe is None:
            return host_finding(node.name, ON_THE_CPU) if node.operator in MOVING and self._skips_empty else None
        if self._skips_empty and is_skipped:
            return (
                None if any(output.size for output in outputs) or not outputs else host_finding(node.name, NO_ELEMENTS)
            )
        if (error := outside_index_error(node, inputs)) is not None:
            return Finding(node.name, error=error, is_invalid=True)
        try:
            desc = node.entry.describe(described, *node.checked(inputs))
        except ModelError as error:
            return Finding(node.name, error=error)
        except UnknownElementsError as reason:
            is_needed = not self._needed.isdisjoint(node.outputs)
            return None if is_needed else Finding(node.name, unchecked=str(reason), computes=True)
        if desc is not None and node.operator in INDEXED and node.inputs[1] in self._unread:
            unread_reason = (
                f"the constant indices {show(node.inputs[1])} were not read, and DirectML does not refuse others"
            )
            return Finding(node.name, desc, unchecked=unread_reason)
        return Finding(node.name, desc) if desc else None

    def _by_inputs(self, described: Described, inputs: Sequence[GraphValue | None], missing: str) -> Finding:
        """Describe a node whose result sizes are only known at run time, if its inputs suffice."""
        node = described.node
        message = f"{missing}; descs need it as a constant of at most {FOLLOWED} integers"
        cause = node.error(message, missing.partition(" ")[0], DESCS_HAVE_SIZES)
        if node.operator in MOVING and self._skips_empty:
            return replace(host_finding(node.name, ON_THE_CPU), cause=cause)
        try:
            desc = node.entry.describe(described, *node.checked(inputs)) if node.entry.describe else None
        except ModelError as error:
            return Finding(node.name, error=error, cause=cause)
        except (UnknownElementsError, IndexError):
            desc = None
        return Finding(node.name, desc, unchecked=None if desc else missing, cause=cause)

    def _outputs(self, node: Node, ctx: ShapeContext, inputs: Sequence[GraphValue | None]) -> Sequence[GraphValue]:
        """Return the results of a node, with their elements if these are few and determine sizes."""
        names = self._known if node.operator == "Constant" else self._needed
        is_needed = not names.isdisjoint(node.outputs)
        results = fold(node, inputs, FOLLOWED, self._budget) if is_needed else None
        if results is None:
            return ctx.lower(node, inputs)
        for tensor in results:
            if isinstance(tensor, Tensor) and tensor.array is not None:
                tensor.reservation = Reservation(self._budget, tensor.array)
        return results

    def _describe_other(self, proto: NodeProto, name: str, error: ModelError) -> Finding:
        """Note the results of a node that anydml does not implement, as far as onnx can infer them."""
        inputs = [self._values.get(name) for name in proto.input]
        unknown = next((value for value in inputs if isinstance(value, Unknown)), None)
        known_inputs = [None if isinstance(value, Unknown) else value for value in inputs]
        for output, tensor in zip(proto.output, infer_outputs(proto, self._opsets, known_inputs), strict=True):
            self._forget([output], unknown or Unknown(f"{show(output)}, whose sizes the model does not say"))
            if output and tensor is not None:
                self._values[output] = tensor
        reason = str(error).removeprefix(f"{label(name, plain_domain(proto.domain), proto.op_type)}: ")
        if not isinstance(error, ComputesError):
            reason = f"{_operator(proto)}: {escape_controls(reason)}"
        if inner_movement := movement_in(proto):
            return Finding(name, unchecked=f"its bodies were not checked, which have {inner_movement}", cause=error)
        return Finding(name, unchecked=reason, computes=True, cause=error)

    def _forget(self, outputs: Iterable[str], unknown: Unknown) -> None:
        """Note that results are unknown, unless the model declares their types and sizes."""
        for name in filter(None, outputs):
            value = self._declared.get(name)
            is_tensor = value is not None and value.type.WhichOneof("value") == "tensor_type"
            described = self._input(value) if value is not None and is_tensor else unknown
            self._values[name] = unknown if isinstance(described, Unknown) else described
            self._unknown_elements[name] = unknown

    def _cause(self, node: Node) -> Unknown | None:
        """Return what the elements of a node's inputs depend on, if symbolic sizes are among it."""
        causes = (self._unknown_elements.get(name) for name in node.inputs)
        return next((cause for cause in causes if cause is not None and cause.sizes), None)


def _operator(proto: NodeProto) -> str:
    domain = plain_domain(proto.domain)
    return escape_controls(f"{domain}:" * bool(domain) + proto.op_type)


def _sizes(sizes: Sequence[int | str | None] | None) -> str:
    return "no shape" if sizes is None else f"sizes {sizes_text(sizes)}"
