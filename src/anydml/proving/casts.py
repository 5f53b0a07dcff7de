"""Casts: to a value's own type, to more digits and back, and to the type of another value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from onnx import NodeProto, helper

from anydml.onnx.tensor_protos import numpy_type
from anydml.proving.movement_terms import Mover
from anydml.proving.operator_calls import OperatorCall
from anydml.proving.terms import Term


def as_cast(call: OperatorCall) -> OperatorCall:
    """Return a CastLike as the Cast to the type of its second input; other nodes are returned unchanged."""
    like = call.term(1)
    if call.domain or call.operator != "CastLike" or like is None or like.dtype is None:
        return call
    proto = NodeProto()
    proto.CopyFrom(call.proto)
    proto.op_type = "Cast"
    del proto.input[1:]
    proto.attribute.append(helper.make_attribute("to", helper.np_dtype_to_tensor_dtype(like.dtype)))
    return OperatorCall(proto, call.opsets, call.inputs[:1])


def cast_rule(mover: Mover, call: OperatorCall) -> Sequence[Term] | None:
    """Return the input of a Cast that changes nothing: to its own type, or back from a type with more digits."""
    term, dtype = call.term(0), numpy_type(call.get("to"))
    if term is not None and term.dtype == dtype:
        return [term]
    if term is None or term.shape is None:
        return None
    source, order = mover.source(term)
    before = source.inputs[0] if source.kind == "Cast@" else None
    if before is None or before.dtype != dtype or source.dtype is None or not _holds(source.dtype, before.dtype):
        return None
    return [mover.view(before, order.factors, order.entries(), term.sizes)]


def _holds(dtype: np.dtype[Any], values: np.dtype[Any] | None) -> bool:
    """Whether a dtype of integers or floats has all values of another one."""
    if values is None or values.kind not in "iubf":
        return False
    if dtype.kind == values.kind:
        return dtype.itemsize >= values.itemsize
    digits = {"b": 1, "i": 8 * values.itemsize - 1, "u": 8 * values.itemsize}.get(values.kind)
    if digits is None:
        return False
    if dtype.kind == "f":
        return values.itemsize < dtype.itemsize and digits <= int(ml_dtypes.finfo(dtype).nmant) + 1  # type: ignore[no-untyped-call]
    return (dtype.kind == "u" and values.kind == "b") or (dtype.kind == "i" and digits < 8 * dtype.itemsize)
