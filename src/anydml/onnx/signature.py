"""Signatures of operators: inputs and attributes with their types and defaults, as onnx's schemas declare them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import onnx.defs
from onnx import AttributeProto, TensorProto, helper

_OPTIONAL = onnx.defs.OpSchema.FormalParameterOption.Optional
_VARIADIC = onnx.defs.OpSchema.FormalParameterOption.Variadic


class Formal(NamedTuple):
    """An input of an operator.

    Attributes:
        name: the name.
        is_required: whether it must be given.
        is_variadic: whether the input stands for one or more inputs.
        kind: ``"tensor"``, ``"sequence"`` or ``"any"``.
        dtypes: ONNX's names of the valid dtypes; empty if all are.
        group: the group of inputs of one dtype that the input belongs to; empty if none.
    """

    name: str
    is_required: bool = True
    is_variadic: bool = False
    kind: str = "tensor"
    dtypes: Mapping[np.dtype[Any], str] = {}
    group: str = ""


class Attribute(NamedTuple):
    """An attribute of an operator.

    Attributes:
        types: the valid types, numbers of `AttributeProto.AttributeType`.
        is_required: whether it must be given.
        default: the value of an omitted attribute; None if there is no default.
    """

    types: tuple[int, ...]
    is_required: bool = False
    default: Any = None


class Signature(NamedTuple):
    """The inputs of an operator in order, and its attributes by name."""

    inputs: tuple[Formal, ...]
    attributes: Mapping[str, Attribute]

    def formals(self, count: int) -> tuple[Formal, ...]:
        """Return the inputs of a node that has `count` inputs: one or more in place of a variadic one."""
        if not self.inputs or not self.inputs[-1].is_variadic:
            return self.inputs
        *first, last = self.inputs
        return (*first, *(last._replace(name=f"{last.name}[{k}]") for k in range(max(1, count - len(first)))))


FEW_TYPES = 4
"""An input that lists more element types than this takes every type, also those of later versions."""

INT64 = {np.dtype(np.int64): "INT64"}

CONCAT_TRAINING = Signature(
    (Formal("inputs", is_variadic=True, group="T"),), {"axis": Attribute((AttributeProto.INT,), is_required=True)}
)
SPLIT_TRAINING = Signature(
    (Formal("input"), Formal("split", is_required=False, dtypes=INT64)),
    {"axis": Attribute((AttributeProto.INT,), default=0)},
)
"""Operators of com.microsoft, whose schemas onnx does not have."""


@lru_cache(1024)
def onnx_signature(operator: str, opset: int) -> tuple[int, Signature] | None:
    """Return version and signature of an operator of ONNX's own domain; None if the opset does not have it."""
    try:
        schema = onnx.defs.get_schema(operator, opset, "")
    except onnx.defs.SchemaError:
        return None
    attributes = {name: _attribute(attribute) for name, attribute in schema.attributes.items()}
    uses, output_types = (
        Counter(formal.type_str for formal in schema.inputs),
        {formal.type_str for formal in schema.outputs},
    )
    return schema.since_version, Signature(
        tuple(_formal(formal, uses, output_types) for formal in schema.inputs), attributes
    )


def _attribute(declared: Any) -> Attribute:
    default = declared.default_value
    return Attribute((declared.type.value,), declared.required, value_of(default) if default.type else None)


def _formal(parameter: Any, uses: Mapping[str, int], output_types: Set[str]) -> Formal:
    kinds = {text.partition("(")[0] for text in parameter.types}
    type_name = {"tensor": "tensor", "seq": "sequence"}.get("".join(kinds), "any")
    is_variadic = parameter.option == _VARIADIC
    dtypes = {}
    if type_name == "tensor" and parameter.type_str not in output_types and len(parameter.types) <= FEW_TYPES:
        names = sorted(text[7:-1].upper() for text in parameter.types)
        dtypes = {np.dtype(helper.tensor_dtype_to_np_dtype(TensorProto.DataType.Value(name))): name for name in names}
    is_alike = type_name == "tensor" and (uses[parameter.type_str] > 1 or (is_variadic and parameter.is_homogeneous))
    group = parameter.type_str if is_alike else ""
    return Formal(parameter.name, parameter.option != _OPTIONAL, is_variadic, type_name, dtypes, group)


def value_of(attribute: AttributeProto) -> Any:
    """Return the value of an attribute: a number, a string, a protobuf message, or a list of these.

    Raises:
        UnicodeDecodeError: a string is not UTF-8.
    """
    attribute_type = attribute.type
    if attribute_type == AttributeProto.INT:
        return attribute.i
    if attribute_type == AttributeProto.INTS:
        return [*attribute.ints]
    if attribute_type == AttributeProto.STRING:
        return attribute.s.decode()
    if attribute_type == AttributeProto.STRINGS:
        return [text.decode() for text in attribute.strings]
    return helper.get_attribute_value(attribute)
