"""A node that is being read: its operator, its attributes other than defaults, its inputs as terms, and its types."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx.defs
import onnx.shape_inference
from onnx import AttributeProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from anydml.onnx.budget import Budget
from anydml.onnx.inference import is_inferred_wrongly
from anydml.onnx.tensor_protos import numpy_type, to_array
from anydml.onnx.walk import plain_domain
from anydml.proving.sizes import Size
from anydml.proving.terms import MAX_FOLLOWED_ELEMENTS, Term
from anydml.proving.versions import meaning_of

Type = tuple[np.dtype[Any] | None, tuple[Size | None, ...] | None]
"""A dtype and a shape, as far as they are known."""

UNKNOWN: Type = None, None

FLAG_ATTRIBUTES = frozenset(
    (
        "align_corners", "allowzero", "antialias", "ceil_mode", "center_point_box", "count_include_pad",
        "detect_negative", "detect_positive", "exclude_outside", "exclusive", "fmod", "input_forget", "interleaved",
        "inverse", "is_causal", "is_case_sensitive", "keepdims", "largest", "layout", "linear_before_reset", "new_axis",
        "noop_with_empty_axes", "onesided", "periodic", "reverse", "saturate", "select_last_index", "sorted",
        "storage_order", "training_mode", "transA", "transB", "upper",
    )
)  # fmt: skip
"""Attributes that are 0 or 1."""

LIST_INPUTS: Mapping[str, Sequence[int]] = {
    "CenterCropPad": (1,), "ConstantOfShape": (0,), "Expand": (1,), "Pad": (1, 3), "Reduce": (1,), "Reshape": (1,),
    "Slice": (1, 2, 3, 4), "Split": (1,), "Squeeze": (1,), "Tile": (1,),
}  # fmt: skip
"""Numbers of inputs that must be lists: onnx's evaluator accepts other shapes in place of them, but few runtimes do."""

SCALAR_INPUTS: Mapping[str, Sequence[int]] = {"Dropout": (1, 2)}
"""Numbers of inputs that must be scalars: onnx's evaluator accepts other shapes, too."""

VARIADIC = frozenset(("Concat", "Max", "Mean", "Min", "Sum"))
"""Operators of any number of inputs, none of which can be left out: ONNX Runtime ends the process."""

OTHER_DEFAULTS = frozenset((("Clip", 6), ("Selu", 1)))
"""Versions of element-wise operators whose defaults are not those of later versions."""

_AXIS_OF_FIRST = frozenset(
    (
        "ArgMax", "ArgMin", "Compress", "Concat", "DequantizeLinear", "Gather", "GatherElements", "Hardmax",
        "LayerNormalization", "LogSoftmax", "LpNormalization", "QuantizeLinear", "RMSNormalization", "ScatterElements",
        "Softmax", "Split", "SplitToSequence", "TopK", "Unique",
    )
)  # fmt: skip
"""Operators whose axis may be counted from the end of the first input's axes."""

_AXES_FROM_THE_END = 11
"""First opset in which all operators may count axes from the end."""

_CONVOLUTIONS = frozenset(("Conv", "ConvInteger", "ConvTranspose", "QLinearConv"))
_OF_WINDOWS = _CONVOLUTIONS | {"AveragePool", "LpPool", "MaxPool"}
_DEFAULTS_OF_WINDOWS = 11
"""First version in which the documents of the older operators define the defaults of strides and dilations."""

_MOD_OF_FLOATS = 28
"""First version of Mod that defines it for floating-point numbers without `fmod`."""

OPEN_ENDS = (2**31 - 1, 2**63 - 1)
"""Ends of a Slice that ONNX Runtime takes for the first element, which it includes, if the step is negative."""


class OperatorCall:
    """A node and its inputs.

    Attributes:
        proto: the node.
        domain: the operator's domain.
        operator: the operator's name.
        opsets: opset versions by domain.
        inputs: terms; None for those that are left out, except at the end.
        schema: onnx's schema of the operator; None if it has none.
        version: the opset that introduced this version of the operator; if unknown, that of the domain.
    """

    def __init__(self, proto: NodeProto, opsets: Mapping[str, int], inputs: Sequence[Term | None]) -> None:
        self.proto, self.opsets = proto, opsets
        self.domain, self.operator = plain_domain(proto.domain), proto.op_type
        terms = [*inputs]
        while terms and terms[-1] is None:
            terms.pop()
        self.inputs = terms
        version = opsets.get(self.domain, 0)
        self.schema: Any = None
        if onnx.defs.has(self.operator, self.domain):
            try:
                self.schema = onnx.defs.get_schema(self.operator, version, self.domain)
            except onnx.defs.SchemaError:
                self.schema = None
        self.version = version if self.schema is None else self.schema.since_version

    @property
    def kind(self) -> str:
        """The operator, and the first of its versions with the same meaning."""
        if self.domain:
            return f"{self.domain}:{self.operator}@{self.version}"
        return f"{self.operator}@{meaning_of(self.operator, self.version, self.opsets.get('', 0))}"

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute, the operator's default, or `default`; strings are bytes."""
        attribute = self._attributes.get(name)
        if attribute is None and self.schema is not None and name in self.schema.attributes:
            attribute = self.schema.attributes[name].default_value
            attribute = attribute if attribute.name else None
        return default if attribute is None else helper.get_attribute_value(attribute)

    @cached_property
    def _attributes(self) -> dict[str, AttributeProto]:
        return {attribute.name: attribute for attribute in self.proto.attribute}

    @property
    def is_defined(self) -> bool:
        """Whether runtimes agree on the results.

        Flags are 0 or 1, lists of sizes and axes have one dimension, scalars have none, no Slice ends backwards at
        a large number, no input is left out of any number of them, a Split has as many outputs as it says, and only a
        Cast to 8-bit floats may say how it saturates and rounds: ONNX Runtime refuses others. Before opset 28, Mod
        takes floating-point numbers only with `fmod`.
        """
        if self.domain:
            return True
        if self.operator in VARIADIC and not all(self.proto.input):
            return False
        count = len(self.proto.output)
        if self.operator == "Split" and self.get("num_outputs", count) != count:
            return False
        if self.operator == "Cast" and self.attributes(("to",)):
            dtype = numpy_type(self.get("to"))
            if dtype is None or not dtype.name.startswith("float8"):
                return False
        if self.operator == "Mod" and self.version < _MOD_OF_FLOATS and not self.get("fmod"):
            x = self.term(0)
            if x is None or x.dtype is None or x.dtype.kind not in "iu":
                return False
        lists = [
            self.term(k) for k in LIST_INPUTS.get("Reduce" if self.operator.startswith("Reduce") else self.operator, ())
        ]
        scalars = [self.term(k) for k in SCALAR_INPUTS.get(self.operator, ())]
        if any(term is not None and term.shape is not None and len(term.shape) != 1 for term in lists):
            return False
        if any(term is not None and term.shape != () for term in scalars):
            return False
        if self.operator == "Slice" and any(
            end in OPEN_ENDS and step < 0
            for end, step in zip(self.numbers_of(2) or (), self.numbers_of(4) or (), strict=False)
        ):
            return False
        return all(attribute.i in (0, 1) for name, attribute in self._attributes.items() if name in FLAG_ATTRIBUTES)

    def attributes(self, without: Sequence[str] = ()) -> Hashable:
        """Return all attributes that differ from the operator's defaults, without subgraphs."""
        attributes: list[Hashable] = []
        if (self.operator, self.version) in OTHER_DEFAULTS and not self.domain:
            attributes.append(self.version)
        for name, attribute in sorted(self._attributes.items()):
            if name in without or attribute.HasField("g") or attribute.graphs or self._is_implied(name):
                continue
            default = self.schema.attributes.get(name) if self.schema is not None else None
            content = self._content(attribute)
            if default is not None and default.default_value.name and self._content(default.default_value) == content:
                continue
            attributes.append((name, content))
        return tuple(attributes)

    def _content(self, attribute: AttributeProto) -> Hashable:
        """Return the value of an attribute in a hashable form; axes of the first input are counted from 0."""
        first = self.term(0)
        if attribute.name == "axis" and self.operator in _AXIS_OF_FIRST and not self.domain and first is not None:
            rank = 0 if first.shape is None else len(first.shape)
            if self.opsets.get("", 0) >= _AXES_FROM_THE_END and -rank <= attribute.i < 0:
                return _content(helper.make_attribute("axis", attribute.i + rank))
        return _content(attribute)

    def _is_implied(self, name: str) -> bool:
        """Whether an attribute of a convolution or pool has its default value."""
        if self.domain or self.operator not in _OF_WINDOWS:
            return False
        if self.version < _DEFAULTS_OF_WINDOWS and self.operator not in ("ConvInteger", "QLinearConv"):
            return False
        image, weights = self.term(0), self.term(3 if self.operator == "QLinearConv" else 1)
        if image is None or image.shape is None or self.get("auto_pad", b"NOTSET") != b"NOTSET":
            return False
        values, rank = self.get(name), len(image.shape) - 2
        if name == "kernel_shape" and self.operator in _CONVOLUTIONS:
            return weights is not None and weights.shape is not None and values == [*weights.shape[2:]]
        implied = {"strides": [1] * rank, "dilations": [1] * rank, "pads": [0] * 2 * rank, "output_padding": [0] * rank}
        return name in implied and values == implied[name]

    def term(self, k: int) -> Term | None:
        """Return an input; None if it is left out."""
        return self.inputs[k] if k < len(self.inputs) else None

    def numbers_of(self, k: int) -> Any:
        """Return the numbers of a constant input, as a list or number; None for other inputs."""
        term = self.term(k)
        return term.array.tolist() if term is not None and term.is_constant and term.array is not None else None

    def axes(self, k: int) -> list[int] | None:
        """Return the axes in the attribute or input k; None if they are unknown, or neither a list nor a number."""
        listed = self.get("axes") if self.get("axes") is not None else self.numbers_of(k)
        axes = listed if isinstance(listed, list) else [listed]
        return axes if all(type(axis) is int for axis in axes) else None

    def types(self) -> list[Type]:
        """Return the types of the outputs, as onnx infers them for all sizes."""
        if self.schema is None or any(
            attribute.HasField("g") or attribute.graphs for attribute in self.proto.attribute
        ):
            return [UNKNOWN] * len(self.proto.output)
        shapes = [None if term is None else term.shape for term in self.inputs]
        if not self.domain and is_inferred_wrongly(self.proto, self.version, shapes):
            return [UNKNOWN] * len(self.proto.output)
        node, types, data, sizes = NodeProto(), dict[str, TypeProto](), dict[str, TensorProto](), dict[str, Size]()
        node.CopyFrom(self.proto)
        del node.input[:]
        for k, term in enumerate(self.inputs):
            name = "" if term is None else f"i{k}"
            node.input.append(name)
            if term is None:
                continue
            if term.dtype is None:
                return [UNKNOWN] * len(self.proto.output)
            sizes.update((str(size), size) for size in term.shape or ())
            shape = (
                None if term.shape is None else [size if isinstance(size, int) else str(size) for size in term.shape]
            )
            types[name] = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(term.dtype), shape)
            if (
                term.is_constant
                and term.array is not None
                and term.array.size <= MAX_FOLLOWED_ELEMENTS
                and not term.dtype.hasobject
            ):
                data[name] = numpy_helper.from_array(np.ascontiguousarray(term.array).reshape(term.array.shape), name)
        imports = [helper.make_opsetid(key, version) for key, version in self.opsets.items()]
        try:
            inferred = onnx.shape_inference.infer_node_outputs(
                self.schema, node, types, input_data=data, opset_imports=imports
            )
        except Exception:  # onnx raises errors of many types if inference fails
            return [UNKNOWN] * len(self.proto.output)
        return [_type(inferred[name], sizes) if name in inferred else UNKNOWN for name in self.proto.output]


def _type(inferred: TypeProto, sizes: Mapping[str, Size]) -> Type:
    if inferred.WhichOneof("value") != "tensor_type":
        return UNKNOWN
    tensor = inferred.tensor_type
    dtype = numpy_type(tensor.elem_type)
    if not tensor.HasField("shape"):
        return dtype, None
    return dtype, tuple(
        # For inputs that a runtime refuses, onnx may infer negative sizes.
        (dimension.dim_value if dimension.dim_value >= 0 else None)
        if dimension.HasField("dim_value")
        else sizes.get(dimension.dim_param)
        for dimension in tensor.shape.dim
    )


def attributes_in(detail: object) -> dict[str, AttributeProto]:
    """Return the attributes without tensors, from the detail of a term."""
    if not isinstance(detail, tuple):
        return {}
    if len(detail) == 2 and isinstance(detail[0], str) and isinstance(detail[1], bytes):
        return {detail[0]: AttributeProto.FromString(detail[1])}
    return {name: attribute for part in detail for name, attribute in attributes_in(part).items()}


def _content(attribute: AttributeProto) -> Hashable:
    """Return the value of an attribute in a hashable form."""
    if attribute.HasField("t") and attribute.t.data_location != TensorProto.EXTERNAL:
        array = to_array(attribute.t, Budget())
        return array.dtype.name, array.shape, str(array.tolist()) if array.dtype.hasobject else array.tobytes()
    copy = AttributeProto()
    copy.CopyFrom(attribute)
    copy.doc_string = ""
    return bytes(copy.SerializeToString(deterministic=True))
