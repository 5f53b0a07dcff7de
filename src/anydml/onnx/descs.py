"""What a graph amounts to in DirectML: descs, by node.

Sizes and the small integer tensors that decide them (split sizes, starts, ends …) are followed through the graph; no
other tensor is read, and nothing else is evaluated. Shorter tensors get leading 1s up to 4 dimensions, which the older
feature levels need; ONNX Runtime's DirectML provider does the same.
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
from anydml.onnx.moving import Looking, NotKnownError
from anydml.onnx.nodes.computing import ARITHMETIC
from anydml.onnx.operators import run_node
from anydml.onnx.read import named, read_node
from anydml.onnx.tensors import numpy_type, sizes_text, tensor_shape, tensor_type, to_array, type_name
from anydml.onnx.values import Flowing, Tensor, Tensors
from anydml.operators import OperatorDesc
from anydml.text import printable

DESCS_HAVE_SIZES = "descs must have known sizes"


@dataclass(frozen=True)
class Finding:
    """What there is to say of a node.

    Attributes:
        node: its name.
        desc: what it is in DirectML, not yet checked against any feature level.
        error: why it can be nothing there.
        unchecked: why nothing can be said.
        sizes: names of sizes that would have to be given for that.
        computes: whether it is out of scope: anydml moves elements.
        operator: the node's, as models write it.
    """

    node: str
    desc: OperatorDesc | None = None
    error: ModelError | None = None
    unchecked: str | None = None
    sizes: tuple[str, ...] = ()
    computes: bool = False
    operator: str = ""


def to_descs(model: ModelProto, *, min_dimensions: int = 4) -> dict[str, OperatorDesc]:
    """The DirectML descs of a graph, by node name, in order.

    Split and SplitTraining amount to SPLIT, Concat and ConcatTraining to JOIN, Slice to SLICE1, Gather to GATHER (which
    clamps an index that ONNX refuses); the page on ONNX has all of them. Nodes that amount to nothing there, as Reshape
    does, and those that amount to an operator that anydml has no desc of, as Cast does, are left out.

    Args:
        model: a model of nodes that anydml has, functions included, whose inputs have known sizes.
        min_dimensions: tensors of fewer get leading 1s.

    Returns:
        The descs, not yet checked against any feature level.

    Raises:
        ModelError: the model is not valid, or has another operator; a size, or a value that decides one, is not known;
            DirectML has no tensors of a type.

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
    """What there is to say of each node; nodes of which there is nothing to say are left out.

    Args:
        model: any model that is valid. What depends on operators that anydml does not have, or on sizes that are not
            known, is not checked, and nodes whose tensors have no elements are skipped.
        sizes: of the names that inputs' sizes have.
        min_dimensions: as `to_descs`.

    Raises:
        ModelError: the model is not valid, no size of an input has a name, or there is not enough memory.
    """
    known = _size_names(model)
    wrong = next((name for name in sizes or () if name not in known), None)
    if wrong is not None:
        raise ModelError(f"no size of an input is called {wrong}; there are {names(sorted(known))}", field=wrong)
    return _Descriptions(model, min_dimensions, sizes or {}, is_strict=False).findings()


def _size_names(model: ModelProto) -> list[str]:
    """Names that sizes of inputs have, in order."""
    dims = (dim for value in model.graph.input for dim in value.type.tensor_type.shape.dim)
    return list(dict.fromkeys(dim.dim_param for dim in dims if dim.dim_param))


class _Descriptions:
    """The nodes of a model, one after the other."""

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
        """What there is to say."""
        protos = [*named(self._model)]
        nodes = [self._read(proto, name) for name, proto in protos]
        ours = [node for node in nodes if isinstance(node, Node)]
        needed = decisive(ours)
        values: dict[str, Flowing | Unknown] = {
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
        self, name: str, proto: NodeProto, node: Node | str, values: dict[str, Flowing | Unknown], needed: Set[str]
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

    def _initializer(self, tensor: TensorProto, needed: Set[str]) -> Flowing | Unknown:
        dtype, shape = numpy_type(tensor.data_type), tensor_shape(tensor)
        if dtype is None:
            return Unknown(f"{show(tensor.name)}, which has {type_name(tensor.data_type)}")
        found = Tensor(dtype, shape)
        is_here = tensor.data_location != TensorProto.EXTERNAL
        if tensor.name in needed and is_here and math.prod(shape) <= FOLLOWED and not dtype.hasobject:
            return known_tensor(found, to_array(tensor, self._budget), self._budget)
        return found

    def _input(self, value: ValueInfoProto) -> Flowing | Unknown:
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

    def _ours(self, node: Node, values: dict[str, Flowing | Unknown], needed: Set[str]) -> Iterator[Finding]:
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
        at = Looking()
        try:
            outputs = self._outputs(node, at, known, needed)
        except NotKnownError as missing:
            message = f"{missing} is known only when the graph runs"
            if self._is_strict:
                message += f"; descs need it as a constant of at most {FOLLOWED} integers"
                raise node.error(message, str(missing), DESCS_HAVE_SIZES) from None
            self._forget(node, values, Unknown(f"{node.label}, of which {message}"))
            yield self._by_inputs(Described(node, known, (), self._dimensions, at, True), message)
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
        yield from self._described(Described(node, known, outputs, self._dimensions, at, not self._is_strict), needed)

    def _described(self, known: Described, needed: Set[str]) -> Iterator[Finding]:
        node = known.node
        if node.entry.describe is None:
            return
        outputs = [each for each in known.outputs if isinstance(each, Tensor)]
        # What sizes are made of stays on the CPU, and what is empty is skipped, as ONNX Runtime's provider has it.
        if not self._is_strict and (
            all(not each.size for each in outputs) or all(e.array is not None for e in outputs)
        ):
            return
        try:
            desc = node.entry.describe(known)
        except NoTypeError as error:
            yield Finding(node.name, error=error)
        except NotKnownError as reason:
            if needed.isdisjoint(node.outputs):
                yield Finding(node.name, unchecked=str(reason), computes=True)
        else:
            if desc is not None:
                yield Finding(node.name, desc)

    def _by_inputs(self, known: Described, missing: str) -> Finding:
        """A node whose results have sizes that only a run knows: a desc if its inputs are enough for one."""
        node = known.node
        try:
            desc = node.entry.describe(known) if node.entry.describe else None
        except NoTypeError as error:
            return Finding(node.name, error=error)
        except (NotKnownError, IndexError):
            desc = None
        return Finding(node.name, desc) if desc else Finding(node.name, unchecked=missing)

    def _outputs(self, node: Node, at: Looking, inputs: Sequence[Flowing | None], needed: Set[str]) -> list[Flowing]:
        outputs = [*at.results(node, inputs)]
        if needed.isdisjoint(node.outputs) or not can_be_followed(node, inputs, outputs):
            return outputs
        arrays = [None if tensor is None else tensor.array for tensor in inputs if not isinstance(tensor, Tensors)]
        found = run_node(node, arrays, self._budget)
        return [
            known_tensor(tensor, array, self._budget) if isinstance(tensor, Tensor) and tensor.array is None else tensor
            for tensor, array in zip(outputs, found, strict=True)
        ]

    def _foreign(self, proto: NodeProto, values: dict[str, Flowing | Unknown]) -> None:
        inputs = [values.get(name) for name in proto.input]
        unknown = next((value for value in inputs if isinstance(value, Unknown)), None)
        known = [None if isinstance(value, Unknown) else value for value in inputs]
        for name, tensor in zip(proto.output, inferred(proto, self._opsets, known), strict=True):
            if name:
                found: Flowing | Unknown | None = tensor or self._as_declared(name)
                values[name] = found or unknown or Unknown(f"{show(name)}, whose sizes the model does not say")

    def _as_declared(self, name: str) -> Flowing | None:
        value = self._declared.get(name)
        if value is None or value.type.WhichOneof("value") != "tensor_type":
            return None
        found = self._input(value)
        return None if isinstance(found, Unknown) else found

    def _forget(self, node: Node, values: dict[str, Flowing | Unknown], unknown: Unknown) -> None:
        for name in filter(None, node.outputs):
            values[name] = self._as_declared(name) or unknown
