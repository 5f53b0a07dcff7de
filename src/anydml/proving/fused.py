"""ONNX Runtime's fused operators, each defined by several operators of ONNX, for real numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from onnx import ModelProto

from anydml.proving.operator_calls import OperatorCall
from anydml.proving.sizes import Size
from anydml.proving.terms import Term, Terms

DOMAIN = "com.microsoft"

MISPLACED_OPERATORS = frozenset(("SimplifiedLayerNormalization",))
"""Operators that ONNX Runtime saves in ONNX's domain, although ONNX does not define them."""


def in_own_domains(model: ModelProto) -> ModelProto:
    """Return a model with each operator in the domain that defines it; the model itself if nothing changes."""
    wrong = [k for k, node in enumerate(model.graph.node) if not node.domain and node.op_type in MISPLACED_OPERATORS]
    if not wrong:
        return model
    copied = ModelProto()
    copied.CopyFrom(model)
    for k in wrong:
        copied.graph.node[k].domain = DOMAIN
    if all(opset.domain != DOMAIN for opset in copied.opset_import):
        copied.opset_import.add(domain=DOMAIN, version=1)
    return copied


class Apply(Protocol):
    """Returns the first result of an operator in ONNX's domain."""

    def __call__(self, operator: str, *inputs: Term | None, **attributes: Any) -> Term:
        """Apply the operator; inputs that are left out are None."""


Definition = Callable[[Apply, Terms, OperatorCall], Sequence[Term] | None]
"""Returns the terms of a node's outputs; None if an attribute or a shape is unknown."""


def defined(apply: Apply, terms: Terms, call: OperatorCall) -> Sequence[Term] | None:
    """Return a node's results by its operator's definition; None if no definition is known."""
    definition = {DOMAIN: DEFINITIONS, "": OWN_DEFINITIONS}.get(call.domain, {}).get(call.operator)
    first = call.term(0)
    if definition is None or first is None or first.shape is None or first.dtype is None:
        return None
    return definition(apply, terms, call)


def _number(terms: Terms, like: Term | None, number: float) -> Term:
    assert like is not None, "its type is known"
    return terms.constant(np.array(number, like.dtype))


def _get(call: OperatorCall, name: str, default: Any) -> Any:
    value = call.get(name)
    return default if value is None else value


def _matmul(apply: Apply, terms: Terms, call: OperatorCall) -> Sequence[Term] | None:
    """Return alpha·A·B, each factor perhaps transposed in its last two axes; attributes for batches are unsupported."""
    factors = list[Term]()
    for k, flag in enumerate(("transA", "transB")):
        term = call.term(k)
        if term is None or term.shape is None or _get(call, flag.replace("trans", "transBatch"), 0):
            return None
        rank = len(term.shape)
        is_swapped = _get(call, flag, 0) and rank > 1
        factors.append(apply("Transpose", term, perm=[*range(rank - 2), rank - 1, rank - 2]) if is_swapped else term)
    product = apply("MatMul", *factors)
    alpha = _get(call, "alpha", 1.0)
    return [product if alpha == 1 else apply("Mul", product, _number(terms, factors[0], alpha))]


def _gelu(apply: Apply, terms: Terms, call: OperatorCall) -> Sequence[Term] | None:
    x = _bias(apply, call)
    if x is None:
        return None
    inner = apply("Erf", apply("Mul", x, _number(terms, x, math.sqrt(0.5))))
    return [_half(apply, terms, x, inner)]


def _fast_gelu(apply: Apply, terms: Terms, call: OperatorCall) -> Sequence[Term] | None:
    x = _bias(apply, call)
    if x is None:
        return None
    cube = apply("Mul", apply("Pow", x, _number(terms, x, 3.0)), _number(terms, x, 0.044715))
    inner = apply("Tanh", apply("Mul", apply("Add", x, cube), _number(terms, x, math.sqrt(2 / math.pi))))
    return [_half(apply, terms, x, inner)]


def _bias(apply: Apply, call: OperatorCall) -> Term | None:
    x, bias = call.term(0), call.term(1)
    assert x is not None, "it is given"
    if not _are_rows(x, bias):
        return None
    return x if bias is None else apply("Add", x, bias)


def _are_rows(x: Term, *terms: Term | None) -> bool:
    """Whether terms have only one axis, the last one of x; runtimes refuse other shapes, even if these broadcast."""
    return all(term is None or term.shape == x.sizes[-1:] for term in terms)


def _half(apply: Apply, terms: Terms, x: Term, inner: Term) -> Term:
    """Return x/2 · (1 + inner)."""
    return apply("Mul", apply("Mul", x, _number(terms, x, 0.5)), apply("Add", inner, _number(terms, x, 1.0)))


def _quick_gelu(apply: Apply, terms: Terms, call: OperatorCall) -> Sequence[Term] | None:
    x = call.term(0)
    alpha = _number(terms, x, _get(call, "alpha", 1.702))
    return [apply("Mul", x, apply("Sigmoid", apply("Mul", x, alpha)))]


def _skip_normalized(apply: Apply, terms: Terms, call: OperatorCall) -> Sequence[Term] | None:
    """Return the normalized sum of both inputs and a bias, None for mean and deviation, and the sum itself."""
    x, skip, scale, shift, bias = (call.term(k) for k in range(5))
    assert x is not None, "it is given"
    if skip is None or scale is None or any(call.proto.output[1:3]) or not _are_rows(x, scale, shift, bias):
        return None
    if skip.shape not in (x.sizes, x.sizes[1:], (1, *x.sizes[1:])):
        return None
    total = apply("Add", x, skip if bias is None else apply("Add", skip, bias))
    epsilon = _get(call, "epsilon", 1e-12)
    normalized = apply("LayerNormalization", total, scale, shift, axis=-1, epsilon=epsilon)
    return [normalized, total, total, total][: max(1, len(call.proto.output))]


def _simply_normalized(apply: Apply, terms: Terms, call: OperatorCall) -> Sequence[Term] | None:
    """Return x · scale / √(mean of squares along the last axis + epsilon)."""
    x, scale = call.term(0), call.term(1)
    assert x is not None, "it is given"
    if scale is None or any(call.proto.output[1:]) or _get(call, "axis", -1) not in (-1, len(x.sizes) - 1):
        return None
    if not _are_rows(x, scale):
        return None
    square = apply("Pow", x, _number(terms, x, 2.0))
    has_input = call.opsets.get("", 0) >= _AXES_ARE_INPUTS
    mean = (
        apply("ReduceMean", square, terms.constant(np.array([-1])))
        if has_input
        else apply("ReduceMean", square, axes=[-1])
    )
    root = apply("Sqrt", apply("Add", mean, _number(terms, x, _get(call, "epsilon", 1e-5))))
    return [apply("Mul", apply("Mul", x, apply("Div", _number(terms, x, 1.0), root)), scale)]


_AXES_ARE_INPUTS = 18
"""First opset in which ReduceMean takes its axes as an input."""


def _attention(apply: Apply, terms: Terms, call: OperatorCall) -> Sequence[Term] | None:
    """Return the results of attention heads side by side; None with masks, caches, rotations or additions."""
    x, weights, bias = (call.term(k) for k in range(3))
    count = _get(call, "num_heads", 0)
    is_plain = not any(_get(call, name, 0) for name in ("unidirectional", "do_rotary", "past_present_share_buffer"))
    if not is_plain or len(call.inputs) > _ATTENTION_INPUTS or any(call.proto.output[1:]):
        return None
    if x is None or x.shape is None or len(x.shape) != _ATTENTION_RANK or weights is None or weights.shape is None:
        return None
    arrays = [None if term is None or not term.is_constant else term.array for term in (weights, bias)]
    width, head_count = weights.shape[-1], len(_HEADS)
    if arrays[0] is None or not isinstance(width, int) or not count or width % (head_count * count):
        return None
    if bias is not None and arrays[1] is None:
        return None
    size = width // head_count
    if _get(call, "qkv_hidden_sizes", []) not in ([], [size] * head_count):
        return None
    heads = list[Term]()
    for k, perm in enumerate(_HEADS):
        part = slice(k * size, (k + 1) * size)
        value = apply("MatMul", x, terms.constant(arrays[0][:, part]))
        value = value if arrays[1] is None else apply("Add", value, terms.constant(arrays[1][part]))
        split = _sizes(terms, [*x.shape[:2], count, size // count])
        heads.append(apply("Transpose", apply("Reshape", value, split), perm=perm))
    scale = _number(terms, x, _get(call, "scale", 0.0) or 1 / math.sqrt(size // count))
    scores = apply("Softmax", apply("Mul", apply("MatMul", heads[0], heads[1]), scale), axis=-1)
    result = apply("Transpose", apply("MatMul", scores, heads[2]), perm=[0, 2, 1, 3])
    return [apply("Reshape", result, _sizes(terms, [*x.shape[:2], size]))]


_ATTENTION_INPUTS = 3
"""Inputs of an Attention without masks: an input, weights and a bias."""

_ATTENTION_RANK = 3
"""Axes of the input: batch, sequence and hidden size."""

_HEADS = [0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]
"""The orders of the axes batch, head, place and element of queries, keys and values."""


def _sizes(terms: Terms, sizes: Sequence[Size]) -> Term:
    elements = np.empty(len(sizes), object)
    elements[:] = sizes
    return terms.integers(elements, np.dtype(np.int64))


_ACTIVATIONS: Mapping[str, Sequence[str]] = {
    "HardSigmoid": ("alpha", "beta"), "LeakyRelu": ("alpha",), "Relu": (), "Sigmoid": (), "Tanh": ()
}  # fmt: skip
"""Activations of FusedConv, with the names of their parameters in its order."""


def _conv(apply: Apply, terms: Terms, call: OperatorCall) -> Sequence[Term] | None:
    x, weight, bias, added = (call.term(k) for k in range(4))
    own_attributes = {"activation", "activation_params"}
    name = _get(call, "activation", b"").decode()
    numbers = _get(call, "activation_params", [])
    if name and (name not in _ACTIVATIONS or len(numbers) != len(_ACTIVATIONS[name])):
        return None
    attributes = {
        attribute.name: call.get(attribute.name)
        for attribute in call.proto.attribute
        if attribute.name not in own_attributes
    }
    result = apply("Conv", x, weight, bias, **attributes)
    result = result if added is None else apply("Add", result, added)
    return [apply(name, result, **dict(zip(_ACTIVATIONS[name], numbers, strict=True))) if name else result]


DEFINITIONS: Mapping[str, Definition] = {
    "Attention": _attention, "BiasGelu": _gelu, "FastGelu": _fast_gelu, "FusedConv": _conv, "FusedMatMul": _matmul,
    "Gelu": _gelu, "QuickGelu": _quick_gelu, "SimplifiedLayerNormalization": _simply_normalized,
    "SkipLayerNormalization": _skip_normalized, "TransposeMatMul": _matmul,
}  # fmt: skip
"""Definitions of ONNX Runtime's operators, by operator."""

OWN_DEFINITIONS: Mapping[str, Definition] = {"RMSNormalization": _simply_normalized}
"""Definitions of ONNX's own operators, by operator."""
