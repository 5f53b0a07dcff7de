"""Folding by proofs: values that are constant, or equal an earlier one bit for bit, are not computed."""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction

import numpy as np
import onnx.defs

from anydml.onnx.graph_values import Array
from anydml.onnx.tensor_protos import bits_of
from anydml.proving.elementwise import permutation_of
from anydml.proving.folding import EXACT_OPERATORS
from anydml.proving.operator_calls import OperatorCall
from anydml.proving.terms import Term
from anydml.slim.analysis import MOVEMENT
from anydml.slim.graph import Graph, Op

MAX_GROWTH = 1 << 16
"""Maximum size in bytes of a folded constant that is larger than the constants that it is computed from."""

MAX_POWERS = 64
"""Maximum number of powers that are checked to be exact."""

MAX_EXPONENT = 64
"""Largest exponent of powers that are checked to be exact."""


class Folding:
    """Replaces values of a graph by constants, and by earlier values that equal them bit for bit.

    Values are equal if they are results of equal nodes with equal inputs, integers that are the same sizes, or results
    of nodes that return their input, or undo the node before. Sums stay, since terms may be added in another order.

    Args:
        graph: the graph.
        terms: the terms of its values, by name.
        with_sizes: whether computed shapes are folded, too; movement that is still to be composed needs its own.
    """

    def __init__(self, graph: Graph, terms: dict[str, Term | None], with_sizes: bool) -> None:
        self._graph, self._terms, self._with_sizes = graph, terms, with_sizes
        self._names: dict[str, str] = {}
        self._first: dict[int, str] = {}
        self._nodes: dict[Hashable, tuple[str, ...]] = {}
        self._exact: set[str] = set()
        self._fixed = {*graph.outputs, *(name for op in graph.ops for name in op.captured)}

    def remaining_nodes(self) -> list[Op] | None:
        """Return the remaining nodes; None if nothing changes."""
        graph, ops = self._graph, list[Op]()
        for name, term in self._terms.items():
            if name in graph.constants and name not in graph.makers and term is not None:
                self._note(name, term)
        for op in graph.ops:
            constants = self._kept_node(op)
            if constants is not None:
                ops.append(constants)
        return None if ops == graph.ops else ops

    def _note(self, name: str, term: Term) -> None:
        """Note a constant, unless it equals an earlier one."""
        self._exact.add(name)
        if name not in self._fixed and term.number in self._first:
            self._names[name] = self._first[term.number]
        else:
            self._first.setdefault(term.number, name)

    def _kept_node(self, op: Op) -> Op | None:
        """Return a node with its new inputs; None if no output is needed any more."""
        if op.op_type == "Constant":
            if (term := self._terms.get(op.outputs[0])) is not None:
                self._note(op.outputs[0], term)
            return None if op.outputs[0] in self._names else op
        op = op.copy_with([self._names.get(name, name) for name in op.inputs])
        if op.captured or ":" in op.op_type:
            return op
        is_exact = op.op_type in EXACT_OPERATORS or (op.op_type == "Pow" and self._is_exact_power(op))
        if op.op_type in ("Shape", "Size") or (is_exact and all(name in self._exact for name in op.inputs if name)):
            self._exact.update(op.outputs)
        call = OperatorCall(op.proto, {"": self._graph.opset}, [])
        twins = self._nodes.setdefault((op.op_type, call.attributes(), op.inputs, len(op.outputs)), op.outputs)
        is_needed = False
        for name, twin in zip(op.outputs, twins, strict=True):
            term = self._terms.get(name)
            constant = None if term is None or name in self._fixed else self._equal_value(op, name, term, twin)
            if constant is not None:
                self._names[name] = constant
            elif name:
                is_needed = True
                if term is not None and name in self._exact:
                    self._first.setdefault(term.number, name)
        return op if is_needed else None

    def _is_exact_power(self, op: Op) -> bool:
        """Whether a Pow has few and exact results, such as 64 to the power of ½, which no runtime has to round."""
        terms = [self._terms.get(name) for name in (*op.inputs, *op.outputs)]
        arrays = [term.array for term in terms if term is not None and term.is_constant and term.array is not None]
        if len(arrays) != len(terms) or any(array.size > MAX_POWERS for array in arrays):
            return False
        numbers = (array.reshape(-1).tolist() for array in np.broadcast_arrays(*arrays))
        return all(map(_is_exact_power, *numbers))

    def _equal_value(self, op: Op, name: str, term: Term, twin: str) -> str | None:
        """Return the name of an earlier value that equals an output of a node bit for bit; None if there is none."""
        if term.kind == "sizes" and not self._with_sizes:
            return None
        if op.op_type in MOVEMENT:
            # Movement is composed later; here, only equal sizes are found.
            return self._first.get(term.number) if name in self._exact and term.kind == "sizes" else None
        input_names: list[str] = [] if self._is_scale(op) else [name for name in op.inputs if name]
        makers = [self._graph.maker(name) for name in input_names] if op.op_type in EXACT_OPERATORS else []
        input_names += [
            name
            for maker in makers
            if maker is not None and maker.op_type in EXACT_OPERATORS
            for name in maker.inputs
            if name
        ]
        for candidate in (twin, *input_names):
            if candidate != name and self._terms.get(candidate) is term:
                return self._names.get(candidate, candidate)
        if name not in self._exact:
            return None
        if term.number in self._first:
            return self._first[term.number]
        return self._constant(op, name, term.array) if term.is_constant and term.array is not None else None

    def _is_scale(self, op: Op) -> bool:
        """Whether a Mul is the scale of a normalization: runtimes need it to recognize the pattern."""
        if op.op_type != "Mul" or not any(
            term and term.is_constant and term.shape for term in map(self._terms.get, op.inputs)
        ):
            return False
        scaled = [maker for name in op.inputs if (maker := self._graph.maker(name)) and maker.op_type in ("Div", "Mul")]
        factors = [self._graph.maker(name) for maker in scaled for name in maker.inputs if maker.op_type == "Mul"]
        divided = [maker for maker in (*scaled, *factors) if maker and maker.op_type in ("Div", "Reciprocal")]
        roots = [self._graph.maker(maker.inputs[-1]) for maker in divided]
        return any(root is not None and root.op_type == "Sqrt" for root in roots)

    def _constant(self, op: Op, name: str, array: Array) -> str | None:
        """Return the name of a new constant; None if the constant would be too large, or ONNX packs its elements."""
        input_terms = (self._terms.get(name) for name in op.inputs)
        input_bytes = sum(term.array.nbytes for term in input_terms if term is not None and term.array is not None)
        if array.dtype.hasobject or bits_of(array.dtype) != 8 * array.itemsize:
            return None
        if array.nbytes > max(MAX_GROWTH, input_bytes):
            return None
        constant = self._graph.constant(name, np.asarray(array))
        term = self._terms[name]
        assert term is not None, "it is a constant"
        self._terms[constant] = term
        self._first[term.number] = constant
        self._exact.add(constant)
        return constant


def _is_exact_power(base: float, exponent: float, power: float) -> bool:
    if not all(map(math.isfinite, (base, exponent, power))) or not 0 <= exponent <= MAX_EXPONENT:
        return False
    twice = 2 * Fraction(exponent)
    return twice.denominator == 1 and Fraction(power) ** 2 == Fraction(base) ** int(twice)


def plain(graph: Graph) -> Graph:
    """Return a graph without unused optional outputs, and with Transposes in place of Einsums that only transpose."""
    ops = [_transpose(_trim(op, graph)) for op in graph.ops]
    return graph if ops == graph.ops else graph.with_ops(ops)


def _trim(op: Op, graph: Graph) -> Op:
    if ":" in op.op_type or len(op.outputs) == 1 or all(name in graph.readers for name in op.outputs):
        return op
    # In old opsets, these outputs mean that a BatchNormalization is for training.
    if op.op_type == "BatchNormalization" or not onnx.defs.has(op.op_type):
        return op
    options = [
        str(formal.option).rpartition(".")[2] for formal in onnx.defs.get_schema(op.op_type, graph.opset).outputs
    ]
    outputs = [
        "" if k < len(options) and options[k] == "Optional" and name not in graph.readers else name
        for k, name in enumerate(op.outputs)
    ]
    while not outputs[-1] and len(outputs) > 1:
        outputs.pop()
    return op.copy_with(outputs=outputs)


def _transpose(op: Op) -> Op:
    """Return the Transpose that an Einsum equals; other nodes are returned unchanged."""
    perm = permutation_of(op.get("equation").decode()) if op.op_type == "Einsum" and len(op.inputs) == 1 else None
    return op if perm is None else Op.make("Transpose", op.inputs, op.outputs, op.proto.name, perm=perm)
