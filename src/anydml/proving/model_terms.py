"""Models read as terms, which say what each output is computed from."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, ValueInfoProto, helper

from anydml.files.location import show
from anydml.onnx.budget import Budget
from anydml.onnx.checks import inline_functions
from anydml.onnx.graph import opsets_of
from anydml.onnx.tensor_protos import numpy_type, tensor_type, to_array
from anydml.onnx.walk import bodies, subgraphs
from anydml.proving.arithmetic import COMMUTATIVE_OPERATORS, arithmetic, computed_again
from anydml.proving.bodies import Rounds, types_of
from anydml.proving.casts import as_cast
from anydml.proving.constants import Constants
from anydml.proving.convolving import nonnegative_sizes, result_types, with_explicit_pads, without_zero_bias
from anydml.proving.decomposition import decompose
from anydml.proving.folding import MAX_CONSTANT_ELEMENTS, Evaluator
from anydml.proving.fused import defined
from anydml.proving.movement_terms import REAL_FORMS, Form, Mover
from anydml.proving.names import unnamed_size
from anydml.proving.node_order import order_by_need
from anydml.proving.operator_calls import UNKNOWN, OperatorCall, Type
from anydml.proving.operator_terms import RULES
from anydml.proving.orders import as_integers
from anydml.proving.reassociation import SIGNS
from anydml.proving.refusing import never_fits, refuses
from anydml.proving.sizes import Size, Sizes, name
from anydml.proving.terms import Term, Terms, Weights
from anydml.text import count_noun

RANDOM_OPERATORS = frozenset(
    ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
)
"""Operators whose results are random."""


Path = tuple[tuple[str, int], ...]
"""The bodies around a node, from the outermost: the name of each one's attribute, and a term that decides on runs."""


KnownTypes = tuple[Mapping[int, Sizes], Mapping[int, np.dtype[Any]]]
"""The known shapes and dtypes of a body's inputs, by their numbers."""


@dataclass
class Read:
    """A model that has been read.

    Attributes:
        terms: the terms of all models that are compared.
        outputs: terms by name, in order.
        values: terms of all values outside bodies by name; None for what is left out.
        nodes: the operators and names of the nodes that compute a term, by its number.
        refusing: terms whose nodes may reject inputs: body path → term number → term.
        inner: terms in the bodies of nodes: first output of the node → a mapping from value name to term per body.
    """

    terms: Terms
    outputs: dict[str, Term] = field(default_factory=dict)
    values: dict[str, Term | None] = field(default_factory=dict)
    nodes: dict[int, list[tuple[str, str]]] = field(default_factory=dict)
    refusing: dict[Path, dict[int, Term]] = field(default_factory=dict)
    inner: dict[str, list[dict[str, Term | None]]] = field(default_factory=dict)

    def node(self, term: Term) -> str:
        """Return the name in messages of the first node that computes a term; empty if there is none."""
        return next((f"{operator} {show(label)}" for operator, label in self.nodes.get(term.number, ())), "")

    def refuses_all(self) -> bool:
        """Whether the model refuses all inputs, because sizes that the outputs depend on never fit."""
        left, seen_numbers = [*self.outputs.values()], set[int]()
        while left:
            term = left.pop()
            if term.number not in seen_numbers:
                seen_numbers.add(term.number)
                if term.number in self.refusing.get((), ()) and never_fits(term):
                    return True
                left += [term_input for term_input in term.inputs if term_input is not None]
        return False


class Reader:
    """Reads models as terms that are compared with each other.

    Args:
        form: the form, which determines what counts as equal.
        reads_files: whether to read constants in other files; if not, those of equal names are equal.
        weights: how constants are compared.

    Attributes:
        terms: the terms of all models.
        own: operators that ONNX does not define.
    """

    def __init__(self, form: Form = "floats", reads_files: bool = True, weights: Weights = "bits") -> None:
        self._reads_files = reads_files
        self.terms = Terms(weights, form in REAL_FORMS)
        self.mover = Mover(self.terms, form, computed_again)
        self.evaluator = Evaluator(self.terms)
        self.own: set[str] = set()
        self._constants: dict[tuple[Constants, str], Term] = {}
        self._called: dict[Hashable, tuple[Sequence[Term], Sequence[Term]]] = {}
        self._applied_within: list[Term] = []
        self._is_first = True

    def read(self, model: ModelProto, constants: Constants, sizes: Mapping[str, Size]) -> Read:
        """Read a model.

        Args:
            model: a valid model.
            constants: the model's constants; only those that nodes need are read.
            sizes: the sizes that the names of its dimensions stand for.

        Raises:
            ModelError: its constants cannot be read.
        """
        model = inline_functions(model)
        read = Read(self.terms)
        values = read.values
        for value in model.graph.input:
            values[value.name] = self._input(value, sizes, constants if value.name in constants else None)
        opsets = opsets_of(model.opset_import)
        graphs = [*bodies([model.graph])]
        needed = {name for body in graphs for node in body.node for name in node.input}
        needed |= {output if isinstance(output, str) else output.name for body in graphs for output in body.output}
        results = {name for node in model.graph.node for name in node.output}
        for missing in sorted(needed - values.keys() - results):
            if missing in constants:
                values[missing] = self._constant_of(constants, missing)
        self._body(model.graph, values, opsets, read, 0)
        self._is_first = False
        for output in model.graph.output:
            term = values[output.name]
            assert term is not None, "the model is valid"
            read.outputs[output.name] = term
        return read

    def rounding(self) -> Iterator[str]:
        """Yield a sentence for each assumed equality that rounding in a runtime may break."""
        yield from sorted(self.mover.rounded)
        if self.terms.off:
            constants = count_noun(len(self.terms.off), "computed constant")
            amount = f"{math.ceil(max(self.terms.off))} units in the last place of their largest numbers"
            yield f"{constants} off by up to {amount}"

    def _constant_of(self, constants: Constants, name: str) -> Term:
        # Constants may have gigabytes, so a constant that several graphs share is hashed once.
        key = constants, name
        if key not in self._constants:
            if not self._reads_files and (stored := constants.external_type(name)) is not None:
                return self.terms.make("stored", (), name, *stored)
            self._constants[key] = self.terms.stored(constants.read(name))
        return self._constants[key]

    def _input(self, value: ValueInfoProto, sizes: Mapping[str, Size], default: Constants | None) -> Term:
        inputs = [] if default is None else [self.terms.constant(default.read(value.name))]
        if value.type.WhichOneof("value") != "tensor_type":
            type_bytes = value.type.SerializeToString(deterministic=True)
            return self.terms.make("input", inputs, (value.name, type_bytes))
        elem_type, declared = tensor_type(value)
        shape = None if declared is None else tuple(
            size if isinstance(size, int) else _size(size or unnamed_size(value.name, axis), sizes)
            for axis, size in enumerate(declared)
        )  # fmt: skip
        return self.terms.make("input", inputs, (value.name, elem_type, shape), numpy_type(elem_type), shape)

    def _body(
        self, graph: GraphProto, values: dict[str, Term | None], opsets: Mapping[str, int], read: Read, level: int
    ) -> None:
        """Add the results of a graph's nodes to its values."""
        for sparse in graph.sparse_initializer:
            content = sparse.SerializeToString(deterministic=True)
            dtype = numpy_type(sparse.values.data_type)
            values[sparse.values.name] = self.terms.make("sparse", (), content, dtype, tuple(sparse.dims))
        versions = tuple(sorted(opsets.items()))
        nodes, live = (graph.node, 0) if level else order_by_need(graph)
        for node_number, node in enumerate(nodes):
            inputs = [values[name] if name else None for name in node.input]
            # Graphs of successive rewrites have most nodes in common.
            numbers = tuple([None if term is None else term.number for term in inputs])
            key = node.SerializeToString(deterministic=True), numbers, versions
            called = self._called.get(key)
            if called is None:
                call, self._applied_within = OperatorCall(node, opsets, inputs), []
                called = self._terms(call, values, read, level), self._applied_within
                if self._is_function(call):
                    self._called[key] = called
                if self._is_first and node_number < live:
                    # For inputs that the first model refuses, the second may compute anything.
                    self.terms.bounds.note(nonnegative_sizes(call))
            terms, within = called
            refusing = read.refusing.setdefault((), {})
            refusing.update((term.number, term) for term in within if refuses(term))
            label = node.name or next((name for name in node.output if name), "")
            for k, output in enumerate(node.output):
                term = terms[k] if k < len(terms) else self.terms.unique(call.kind, *UNKNOWN)
                if output:
                    values[output] = term
                # A node may refuse inputs even if this output is left out.
                for part in (term, *term.inputs) if term.kind == "moved" else (term,):
                    if part is not None and part.kind not in ("constant", "input"):
                        read.nodes.setdefault(part.number, []).append((node.op_type, label))
                        if refuses(part):
                            refusing[part.number] = part

    def _is_function(self, call: OperatorCall) -> bool:
        """Whether a node's results depend on its inputs alone."""
        return not (_is_random(call) or any(subgraphs(call.proto)))

    def _terms(self, call: OperatorCall, values: Mapping[str, Term | None], read: Read, level: int) -> Sequence[Term]:
        if call.operator == "Constant" and not call.domain:
            return [self._constant(call)]
        graphs = [*subgraphs(call.proto)]
        if graphs:
            return self._with_bodies(call, graphs, values, read, level)
        if _is_random(call):
            return [self.terms.unique(call.kind, *kind) for kind in call.types()]
        return self._node_terms(call)

    def _node_terms(self, call: OperatorCall) -> Sequence[Term]:
        """Return the terms of a node without subgraphs, which depend on its inputs alone."""
        call = with_explicit_pads(as_cast(call))
        if not self.mover.has_signs and (plain := without_zero_bias(call)) is not call:
            self.mover.rounded.add(SIGNS)
            call = plain
        apply = partial(self._apply, call.opsets)
        if self.mover.is_real and (fused := defined(apply, self.terms, call)) is not None:
            self.mover.rounded.add(f"{call.operator} of {call.domain or 'ONNX'} is taken for its definition")
            return fused
        if self.mover.merges and (apart := decompose(apply, self.mover, call)) is not None:
            return apart
        if not call.is_defined:
            return self._outputs(call, call.inputs, call.attributes(), [UNKNOWN] * len(call.proto.output))
        rule = RULES.get((call.domain, call.operator))
        terms = None if rule is None else rule(self.mover, call)
        terms = arithmetic(self.mover, call) if terms is None else terms
        if terms is not None:
            return terms
        types = result_types(call, call.types())
        if all(term is None or term.is_constant for term in call.inputs):
            known_shapes = [
                None if shape is None else as_integers([-1 if n is None else n for n in shape]) for _, shape in types
            ]
            if all(call.proto.output) and all(
                shape is not None and min(shape, default=0) >= 0 for shape in known_shapes
            ):
                max_elements = sum(math.prod(shape or ()) for shape in known_shapes)
                folded = (
                    self.evaluator.compute(call.proto, call.opsets, call.inputs, max_elements)
                    if max_elements <= MAX_CONSTANT_ELEMENTS
                    else None
                )
                if folded is not None:
                    return folded
        if call.schema is None:
            self.own.add(call.kind)
        return self._outputs(call, call.inputs, call.attributes(), types)

    def _apply(self, opsets: Mapping[str, int], operator: str, *inputs: Term | None, **attributes: Any) -> Term:
        """Return the first result of an operator."""
        names = ["" if term is None else f"i{k}" for k, term in enumerate(inputs)]
        result = self._node_terms(OperatorCall(helper.make_node(operator, names, ["o"], **attributes), opsets, inputs))[
            0
        ]
        self._applied_within.append(result)
        return result

    def _outputs(
        self, call: OperatorCall, inputs: Sequence[Term | None], detail: object, types: Sequence[Type]
    ) -> list[Term]:
        """Return the terms of a node to which no rule applies."""
        is_variadic = call.schema is None or (
            bool(call.schema.outputs) and "Variadic" in str(call.schema.outputs[-1].option)
        )
        # In old opsets, BatchNormalization is for training if it has several outputs.
        count = len(call.proto.output) if is_variadic or call.operator == "BatchNormalization" else None
        if call.operator in COMMUTATIVE_OPERATORS and not call.domain and call.version >= _BROADCASTING:
            inputs = sorted(inputs, key=lambda term: -1 if term is None else term.number)
        kinds = [*types] or [UNKNOWN]
        first = self.terms.make(call.kind, inputs, (detail, count), *kinds[0])
        other_outputs = [
            self.terms.make("output", [first], k, *kind)
            for k, kind in enumerate(kinds) if k
        ]  # fmt: skip
        return [first, *other_outputs]

    def _constant(self, call: OperatorCall) -> Term:
        for attribute in call.proto.attribute:
            if attribute.HasField("t"):
                return self.terms.stored(np.asarray(to_array(attribute.t, Budget())))
            if attribute.name in ("value_float", "value_floats"):
                return self.terms.stored(np.array(helper.get_attribute_value(attribute), np.float32))
            if attribute.name in ("value_int", "value_ints"):
                return self.terms.stored(np.array(helper.get_attribute_value(attribute), np.int64))
        return self.terms.make("Constant", (), call.attributes())

    def _with_bodies(
        self,
        call: OperatorCall,
        graphs: Sequence[GraphProto],
        values: Mapping[str, Term | None],
        read: Read,
        level: int,
    ) -> Sequence[Term]:
        """Return the terms of a node with subgraphs, whose results become functions of the subgraphs' inputs."""
        repeats = call.operator in ("Loop", "Scan") and not call.domain
        shapes, dtypes = (Rounds(call).shapes(), Rounds(call).dtypes()) if repeats else ({}, {})
        while True:
            insides = [Read(self.terms) for _ in graphs]
            results = [
                self._results(call, body, values, (shapes, dtypes), inside, level)
                for body, inside in zip(graphs, insides, strict=True)
            ]
            stable_shapes = {k: shape for k, shape in shapes.items() if Rounds(call).holds(k, shape, results[0])}
            if stable_shapes == shapes:
                break
            # A round changes the shape, so that the shapes in later rounds are unknown.
            shapes = stable_shapes
        read.inner[next(filter(None, call.proto.output), "")] = [named for _, named in results]
        names = tuple(
            attribute.name for attribute in call.proto.attribute if attribute.HasField("g") or attribute.graphs
        )
        # Tools may write attributes in another order.
        order = sorted(range(len(graphs)), key=lambda k: names[k : k + 1])
        counts = tuple((len(graphs[k].input), len(graphs[k].output)) for k in order)
        detail = call.attributes(), tuple(sorted(names)), counts, len(call.inputs)
        body_terms = [term for k in order for term in results[k][0]]
        outputs = self._outputs(
            call, [*call.inputs, *body_terms], detail, types_of(call, [terms for terms, _ in results], shapes)
        )
        taken_branch = _branch_taken(call)
        for k, inside in enumerate(insides):
            name_of_body = names[k] if k < len(names) else ""
            for term_number, nodes in inside.nodes.items():
                read.nodes.setdefault(term_number, []).extend(nodes)
            # A branch of an If runs under the condition of the If; other bodies run as often as those of equal nodes.
            runs = call.inputs[0] if call.operator == "If" and call.inputs else outputs[0]
            step = name_of_body, -1 if runs is None else runs.number
            for path, terms in inside.refusing.items():
                if taken_branch in (None, name_of_body):
                    read.refusing.setdefault(path if taken_branch else (step, *path), {}).update(terms)
        if taken_branch in names:
            branch = [term for term in results[names.index(taken_branch)][0] if term is not None]
            return branch if len(branch) == len(call.proto.output) else outputs
        return outputs

    def _results(
        self, call: OperatorCall, body: GraphProto, values: Mapping[str, Term | None], types: KnownTypes,
        read: Read, level: int,
    ) -> tuple[list[Term | None], dict[str, Term | None]]:  # fmt: skip
        """Return the results of a body, and all values of the body by name, for inputs of known or unknown types."""
        inner, (shapes, dtypes) = dict(values), types
        for k, value in enumerate(body.input):
            elem_type, shape = value.type.tensor_type.elem_type, shapes.get(k)
            dtype = numpy_type(elem_type) if elem_type else dtypes.get(k)
            detail = level, k, elem_type if dtype is None else dtype.name, shape
            inner[value.name] = self.terms.make("bound", (), detail, dtype, shape)
        for tensor in body.initializer:
            inner[tensor.name] = self.terms.stored(np.asarray(to_array(tensor, Budget())))
        self._body(body, inner, call.opsets, read, level + 1)
        return [inner[output.name] for output in body.output], inner


def _branch_taken(call: OperatorCall) -> str | None:
    """Return the name of the only branch of an If that ever runs, by its constant condition; None for other nodes."""
    condition = call.term(0)
    if call.domain or call.operator != "If" or condition is None or not condition.is_constant:
        return None
    array = condition.array
    return None if array is None or array.size != 1 else "then_branch" if array.item() else "else_branch"


_BROADCASTING = 7
"""The first opset in which operators of two inputs broadcast either one."""


def _is_random(call: OperatorCall) -> bool:
    """Whether a node's results are random, or it may drop elements at random."""
    if call.domain or call.operator in RANDOM_OPERATORS:
        return not call.domain
    if call.operator != "Dropout":
        return False
    return call.version < 7 or (call.version >= 12 and call.term(2) is not None and call.numbers_of(2) is not False)


def _size(text: str, sizes: Mapping[str, Size]) -> Size:
    return sizes.get(text, name(text))
