"""Removal of sums with 0, such as biases of zeros, if that only changes signs of zeros.

x + 0 equals x, except that −0 becomes 0. Both are equal in comparisons, and so are results computed from them, unless a
node divides by them or reads bits: a sum that such a node may read stays.
"""

from __future__ import annotations

from collections.abc import Mapping

from anydml.onnx.graph_values import Array
from anydml.onnx.tensor_protos import numpy_type
from anydml.proving.movement_terms import filled
from anydml.proving.terms import Term
from anydml.slim.analysis import MOVEMENT
from anydml.slim.graph import OUTSIDE_GRAPH, Graph, Op

_SIGN_CARRYING_OPERATORS = """
    Add Asin Asinh Atan Atanh Attention AveragePool Ceil Celu Clip Conv ConvTranspose CumSum Einsum Elu Erf Floor Gelu
    Gemm GlobalAveragePool GlobalMaxPool HardSigmoid HardSwish InstanceNormalization LayerNormalization LeakyRelu
    LogSoftmax MatMul Max Mean Min Mish Mul Neg RMSNormalization ReduceL1 ReduceMax ReduceMean ReduceMin ReduceSum Relu
    Resize Round Selu Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Sub Sum Tan Tanh ThresholdedRelu
"""

SIGN_CARRYING_OPERATORS = frozenset(_SIGN_CARRYING_OPERATORS.split()) | MOVEMENT
"""Operators whose results for 0 and for −0, as any input, are equal, but may be zeros of either sign."""

_SIGN_IGNORING_OPERATORS = """
    Abs Cos Cosh Equal Exp Greater GreaterOrEqual IsInf IsNaN Less LessOrEqual ReduceL2 ReduceSumSquare Shape Size
"""

SIGN_IGNORING_OPERATORS = frozenset(_SIGN_IGNORING_OPERATORS.split())
"""Operators whose results for 0 and for −0 are identical."""


class ZeroSums:
    """Finds sums with zeros in a graph.

    Args:
        graph: the graph.
        terms: the terms of its values, by name.
    """

    def __init__(self, graph: Graph, terms: Mapping[str, Term | None]) -> None:
        self._graph, self._terms = graph, terms
        self._is_sign_visible: dict[str, bool] = {}

    def remaining_nodes(self) -> list[Op] | None:
        """Return the remaining nodes; None if nothing changes."""
        graph, names, ops = self._graph, dict[str, str](), list[Op]()
        captured = {name for op in graph.ops for name in op.captured}
        for op in reversed(graph.ops):
            for name in op.outputs:
                readers = (
                    graph.ops[node_number]
                    for node_number in graph.readers.get(name, ())
                    if node_number != OUTSIDE_GRAPH
                )
                self._is_sign_visible[name] = name in captured or any(
                    self._shows_sign(reader, name) for reader in readers
                )
        for op in graph.ops:
            summand = self._summand_left(op)
            if summand is None:
                ops.append(op.copy_with([names.get(name, name) for name in op.inputs]))
            else:
                names[op.outputs[0]] = names.get(summand, summand)
        return ops if names else None

    def _summand_left(self, op: Op) -> str | None:
        """Return the value that a node adds 0 to, if the sum can be left out."""
        if (
            op.op_type != "Add"
            or self._is_sign_visible[op.outputs[0]]
            or OUTSIDE_GRAPH in self._graph.readers.get(op.outputs[0], ())
        ):
            return None
        result = self._terms.get(op.outputs[0])
        for name, zeros_name in zip(op.inputs, op.inputs[::-1], strict=True):
            term, zeros = self._terms.get(name), self._terms.get(zeros_name)
            if term is None or zeros is None or result is None or term.is_constant or term.shape is None:
                continue
            element = filled(zeros)
            is_zero = element is not None and element.dtype.kind == "f" and not element
            if is_zero and term.shape == result.shape:
                return str(name)
        return None

    def _shows_sign(self, op: Op, name: str) -> bool:
        """Whether any results that depend on a value may differ for 0 and −0."""
        if op.op_type in SIGN_IGNORING_OPERATORS or (op.op_type == "QuantizeLinear" and name not in op.inputs[1:]):
            return False
        carries = op.op_type in SIGN_CARRYING_OPERATORS
        if op.op_type == "Cast":
            dtype = numpy_type(op.get("to"))
            if dtype is not None and dtype.kind in "iub":
                return False
            carries = dtype is not None and dtype.kind == "f"
        elif op.op_type == "MaxPool":
            carries = len(op.outputs) == 1
        elif op.op_type == "BatchNormalization":
            carries = len(op.outputs) == 1 and name not in op.inputs[4:]
        elif op.op_type == "Where":
            carries = name != op.inputs[0]
        elif op.op_type == "Div":
            carries = name not in op.inputs[1:]
        elif op.op_type == "Pow":
            exponent = None if name in op.inputs[1:] else self._number(op.inputs[1])
            if exponent is None or not float(exponent) > 0:
                return True
            carries = True
        elif op.op_type == "Add" and any(self._is_not_zero(operand) for operand in op.inputs if operand != name):
            # In a sum with a number other than 0, signs of zeros are lost.
            return False
        return not carries or any(self._is_sign_visible[output] for output in op.outputs if output)

    def _number(self, name: str) -> Array | None:
        term = self._terms.get(name)
        return None if term is None else filled(term)

    def _is_not_zero(self, name: str) -> bool:
        """Whether a value is a constant of floats without zeros."""
        term = self._terms.get(name)
        array = None if term is None or not term.is_constant else term.array
        return array is not None and array.dtype.kind == "f" and bool(array.all())
