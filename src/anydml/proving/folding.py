"""Constants that nodes compute from constants: moves by anydml, all else by onnx's reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from anydml.errors import BindingError, DescError, ModelError
from anydml.onnx.budget import Budget
from anydml.onnx.graph_values import Array
from anydml.onnx.read import read_node
from anydml.onnx.run_node import run_node
from anydml.onnx.table import NODES
from anydml.onnx.walk import plain_domain
from anydml.proving.elementwise import ELEMENTWISE_OPERATORS
from anydml.proving.rows import SOFTMAX_OF_ONE_AXIS
from anydml.proving.terms import Term, Terms

MAX_CONSTANT_ELEMENTS = 1 << 24
"""Maximum number of elements of a constant that is computed."""

_EXACT = """
    Abs Add And BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Clip Compress Concat ConstantOfShape
    DepthToSpace Div Equal Expand EyeLike Flatten Floor Gather GatherElements GatherND Greater GreaterOrEqual
    Identity IsInf IsNaN Less LessOrEqual Max Min Mul Neg NonZero Not OneHot Or Pad Range ReduceMax ReduceMin Relu
    Reshape Round ScatterElements ScatterND Shape Sign Size Slice SpaceToDepth Split Sqrt Squeeze Sub Tile Transpose
    Trilu Unsqueeze Where Xor
"""

EXACT_OPERATORS = frozenset(_EXACT.split())
"""Operators whose results are the same in every runtime, bit for bit, for all inputs for which they are computed."""

_DISPUTED_OPERATORS = frozenset(("Clip", "ReduceMax", "ReduceMin", "Relu", "Sign"))
"""Operators whose results for −0, infinities and NaN depend on the runtime."""

_OTHERS = """
    ArgMax ArgMin CumSum Einsum Gemm MatMul ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMean ReduceProd
    ReduceSum ReduceSumSquare
"""

_FIRST_VERSIONS = {
    **dict.fromkeys(EXACT_OPERATORS | ELEMENTWISE_OPERATORS | {*_OTHERS.split()}, 1),
    **dict.fromkeys(("Softmax", "LogSoftmax"), SOFTMAX_OF_ONE_AXIS),
}
"""The first opset from which onnx's evaluator computes each operator as runtimes do; it treats older ones like that."""


class Evaluator:
    """Computes constants.

    Args:
        terms: makes terms.
    """

    def __init__(self, terms: Terms) -> None:
        self._terms = terms

    def compute(
        self, node: NodeProto, opsets: Mapping[str, int], inputs: Sequence[Term | None], max_elements: int
    ) -> list[Term] | None:
        """Return the results of a node for constant inputs; None if they are not computed.

        Args:
            node: the node, without subgraphs.
            opsets: versions of domains.
            inputs: constants; None for those that are left out.
            max_elements: the number of elements of all results.
        """
        arrays = [
            None if term is None or term.array is None else term.array.astype(term.dtype, copy=False) for term in inputs
        ]
        size = sum(array.size for array in arrays if array is not None)
        if max(max_elements, size) > MAX_CONSTANT_ELEMENTS or any(
            term is not None and not term.is_constant for term in inputs
        ):
            return None
        if node.op_type in _DISPUTED_OPERATORS and not all(map(_is_undisputed, arrays)):
            return None
        results = _run_movement(node, opsets, arrays) or _run(node, opsets, arrays)
        if results is None:
            return None
        is_exact = node.op_type in EXACT_OPERATORS and not node.domain
        is_exact &= all(term is None or term.number not in self._terms.rounded for term in inputs)
        is_float = any(array.dtype.kind not in "iub" for array in results)
        terms = [self._terms.constant(array) for array in results]
        return [self._terms.settle(term, is_float and not is_exact) for term in terms]


def _is_undisputed(array: Array | None) -> bool:
    """Whether an input has no −0, infinity or NaN."""
    if array is None or array.dtype.kind in "iub":
        return True
    return bool((np.isfinite(array) & ((array != 0) | ~np.signbit(array))).all())


def _run_movement(node: NodeProto, opsets: Mapping[str, int], arrays: Sequence[Array | None]) -> list[Array] | None:
    """Return the results of a node that moves elements; None if the node computes, or is refused."""
    if (plain_domain(node.domain), node.op_type) not in NODES:
        return None
    try:
        read = read_node(node, opsets, node.name)
        results = run_node(read, [*arrays, *[None] * (len(read.inputs) - len(arrays))], Budget())
    except (ModelError, DescError, BindingError, IndexError, ValueError):
        return None
    return (
        [np.asarray(result) for result in results]
        if all(isinstance(result, np.ndarray) for result in results)
        else None
    )


def _run(node: NodeProto, opsets: Mapping[str, int], arrays: Sequence[Array | None]) -> list[Array] | None:
    is_plain = not plain_domain(node.domain) and node.op_type in _FIRST_VERSIONS
    if not is_plain or opsets.get("", 0) < _FIRST_VERSIONS[node.op_type]:
        return None
    graph = GraphProto(name="constants")
    copy = graph.node.add()
    copy.CopyFrom(node)
    copy.name = ""
    feeds = {}
    for k, array in enumerate(arrays):
        copy.input[k] = "" if array is None else f"i{k}"
        if array is not None:
            feeds[f"i{k}"] = array
            graph.input.append(helper.make_tensor_value_info(f"i{k}", TensorProto.UNDEFINED, None))
    for k, name in enumerate(copy.output):
        copy.output[k] = f"o{k}" if name else ""
        if name:
            graph.output.append(helper.make_tensor_value_info(f"o{k}", TensorProto.UNDEFINED, None))
    imports = [OperatorSetIdProto(domain=domain, version=version) for domain, version in opsets.items()]
    try:
        with np.errstate(all="ignore"):
            results = ReferenceEvaluator(ModelProto(graph=graph, ir_version=10, opset_import=imports)).run(None, feeds)
    except Exception:  # the evaluator raises errors of many types for unsupported nodes
        return None
    return (
        [np.asarray(result) for result in results]
        if all(isinstance(result, np.ndarray | np.generic) for result in results)
        else None
    )
