"""onnx's own checker and inliner, whose C++ is safe with valid models only: everything that uses it asks here first."""

from __future__ import annotations

import onnx.checker
import onnx.inliner
from onnx import ModelProto

from anydml.errors import ModelError
from anydml.onnx.external import external_tensors

MOST_BYTES = 2**31 - 1
"""The largest message that protobuf serialises."""


def check(model: ModelProto) -> None:
    """Hold a model against ONNX's own rules. What its external data holds is no part of that.

    Raises:
        ModelError: onnx's checker refuses it.
    """
    if model.ByteSize() > MOST_BYTES:
        # The checker reads serialised models only; those that are larger came here with their external data loaded.
        return
    try:
        onnx.checker.check_model(_without_external_data(model))
    except Exception as error:
        raise ModelError(f"the model breaks a rule of ONNX: {reason(error)}") from None


def inlined(model: ModelProto) -> ModelProto:
    """The model, checked before, without functions: each call replaced by the nodes of its body.

    Raises:
        ModelError: onnx cannot inline them.
    """
    if not model.functions:
        return model
    try:
        return onnx.inliner.inline_local_functions(model)
    except Exception as error:
        raise ModelError(f"the model's functions cannot be inlined: {reason(error)}") from None


def reason(error: Exception) -> str:
    """The first line of an error; onnx's own have many, and types that have nothing in common."""
    return (str(error).strip() or repr(error)).splitlines()[0]


def _without_external_data(model: ModelProto) -> ModelProto:
    """The model with empty tensors where data lies in other files, which the checker seeks in the current folder."""
    if not external_tensors(model):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in external_tensors(copy):
        for field in ("dims", "external_data", "data_location", "raw_data"):
            tensor.ClearField(field)
        tensor.dims.append(0)
    return copy
