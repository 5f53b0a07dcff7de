"""Smaller cases of ONNX: nodes with fewer attributes, inputs and sizes, and simpler numbers."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from anydml.errors import ModelError
from anydml.referee.case_folders import StoredCase
from anydml.referee.cases import Case, are_equal, engine_value, operator_named, valid_case
from anydml.referee.fewer_axes import of_fewer_entries, shifted_axes
from anydml.referee.nodes import Array, Node, OptionalValue, TensorList, Value, tensors_of, with_tensors
from anydml.referee.schema_texts import schema
from anydml.referee.verdicts import as_array


def node_of(stored: StoredCase) -> Node:
    """Return the node of a stored case, with its inputs.

    Raises:
        ModelError: the model does not have exactly one node.
    """
    model = onnx.load(stored.model)
    graph = model.graph
    if len(graph.node) != 1 or graph.node[0].domain:
        raise ModelError(f"{stored.model} has {len(graph.node)} nodes", rule="a case has one node of ONNX")
    proto = graph.node[0]
    values: dict[str, Any] = {
        initializer.name: as_array(numpy_helper.to_array(initializer)) for initializer in graph.initializer
    }
    values |= {
        value_info.name: as_kind(value_info.type, value)
        for value_info, value in zip(graph.input, map(as_array, stored.inputs()), strict=True)
    }
    constants = {initializer.name for initializer in graph.initializer}
    constant = frozenset(k for k, name in enumerate(proto.input) if name in constants)
    inputs = tuple(values[name] if name else None for name in proto.input)
    attributes = {attribute.name: _value(attribute) for attribute in proto.attribute}
    opset = next(opset.version for opset in model.opset_import if not opset.domain)
    return Node(proto.op_type, opset, inputs, attributes, len(proto.output), constant)


def as_kind(type_proto: onnx.TypeProto, value: Any) -> Any:
    """Convert a value from a file to a type."""
    form = type_proto.WhichOneof("value")
    if form == "optional_type":
        inner = type_proto.optional_type.elem_type
        element = None if value is None else as_kind(inner, value)
        return OptionalValue(_dtype(inner), inner.HasField("sequence_type"), element)
    return TensorList(_dtype(type_proto), tuple(value)) if form == "sequence_type" else value


def _dtype(type_proto: onnx.TypeProto) -> np.dtype[Any]:
    tensor = (type_proto.sequence_type.elem_type if type_proto.HasField("sequence_type") else type_proto).tensor_type
    return np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))


def _value(attribute: AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        return as_array(numpy_helper.to_array(value))
    if isinstance(value, bytes):
        return value.decode()
    if attribute.type in (AttributeProto.INTS, AttributeProto.FLOATS, AttributeProto.STRINGS):
        return [item.decode() if isinstance(item, bytes) else item for item in value]
    return value


def case_of(stored: StoredCase) -> Case:
    """Return the case of a folder."""
    return valid_case(operator_named(stored.operator), node_of(stored), stored.name)


def smaller_cases(case: Case) -> Iterator[Case | None]:
    """Yield slightly smaller cases; None for an invalid node, or for an ambiguous node of an unambiguous case."""
    for node in _smaller_nodes(case.node):
        valid = _valid(case.name, node)
        yield None if valid is None or (valid.alternatives and not case.alternatives) else valid


def _valid(name: str, node: Node) -> Case | None:
    """Return the case of a node, if the rules allow it, and anydml, which checks it too, agrees."""
    from anydml.onnx import backend
    from anydml.referee.protos import model_of

    operator = operator_named(node.operator)
    try:
        if not operator.is_case(node):
            return None
        case = valid_case(operator, node, name)
        model = model_of(node, case.outputs)
        outputs = [*map(as_array, backend.prepare(model).run([*map(engine_value, node.run_inputs)]))]
        if len(case.outputs) != node.outputs or not _are_equal(outputs, case.outputs):
            return None
        # Last: onnx's checker ends the process where sizes of Split are fewer than outputs.
        onnx.checker.check_model(model, full_check=True)
    # A node that is no longer valid fails in many ways.
    except Exception:
        return None
    return case


def _are_equal(outputs: Sequence[Any], expected: Sequence[Any]) -> bool:
    return len(outputs) == len(expected) and all(map(are_equal, outputs, expected))


def _smaller_nodes(node: Node) -> Iterator[Node]:
    """Yield nodes that are a little smaller than one."""
    for name in node.attributes:
        yield node._replace(attributes={key: value for key, value in node.attributes.items() if key != name})
    if len(node.inputs) > 1 and node.outputs == 1:
        yield node._replace(inputs=node.inputs[:-1], constant=node.constant - {len(node.inputs) - 1})
    for k in range(1, len(node.inputs)):
        if node.inputs[k] is not None:
            yield node.with_input(k, None)
    for name, value in node.attributes.items():
        for cut in cuts([value]) if isinstance(value, np.ndarray) else ():
            yield node._replace(attributes={**node.attributes, name: cut.arrays[0]})
    if node.operator == "Compress" and "axis" not in node.attributes and node.array(0).ndim > 1:
        # The data is flattened, so that condition and data become shorter together.
        yield node.with_input(0, node.array(0).reshape(-1))
    yield from of_fewer_entries(node)
    yield from _of_fewer_sizes(node)
    yield from _of_simpler_numbers(node)
    for k, value in enumerate(node.inputs):
        if isinstance(value, np.ndarray) and k and k not in node.constant:
            yield node._replace(constant=node.constant | {k})
    lowest = schema(node.operator, node.opset).since_version
    if lowest >= 11 and lowest != node.opset:
        yield node._replace(opset=lowest)


def _of_fewer_sizes(node: Node) -> Iterator[Node]:
    """Yield nodes with one axis less, or a shorter axis, in all inputs that have the axis, or in one."""
    tensors = [tensor for value in node.inputs for tensor in tensors_of(value)]
    rank = max((tensor.ndim for tensor in tensors), default=0)
    for cut in cuts(tensors):
        remaining = iter([array for array in cut.arrays if array is not None])
        inputs = tuple(with_tensors(value, tuple(islice(remaining, len(tensors_of(value))))) for value in node.inputs)
        yield node._replace(inputs=inputs)
        if cut.new is None:
            yield shifted_axes(node._replace(inputs=inputs), cut.axis, rank)


class Cut(NamedTuple):
    """Arrays of which some are shorter along an axis, or lack the axis.

    Attributes:
        axis: the axis.
        old: the size of the axis.
        new: the new size; None if the axis is removed.
        arrays: all arrays.
    """

    axis: int
    old: int
    new: int | None
    arrays: list[Array | None]


def cuts(arrays: Sequence[Array | None]) -> Iterator[Cut]:
    """Yield cuts of an axis, or of a part of an axis, in all arrays that have the axis, or in one array."""
    ranks = [0 if value is None else value.ndim for value in arrays]
    rank = max(ranks, default=0)
    for axis in range(rank):
        sizes = {k: value.shape[axis] for k, value in enumerate(arrays) if value is not None and axis < ranks[k]}
        for old in sorted({*sizes.values()}):
            chosen = [k for k, size in sizes.items() if size == old]
            for group in (chosen, *([[k] for k in chosen] if len(chosen) > 1 else [])):
                yield from _cuts(arrays, axis, old, dict.fromkeys(group, axis))
    for back in range(1, rank + 1):
        sizes = {k: value.shape[-back] for k, value in enumerate(arrays) if value is not None and back <= ranks[k]}
        for old in sorted({*sizes.values()}):
            places = {k: ranks[k] - back for k, size in sizes.items() if size == old}
            if len({*places.values()}) > 1:
                yield from _cuts(arrays, rank - back, old, places)


def _cuts(arrays: Sequence[Array | None], axis: int, old: int, places: Mapping[int, int]) -> Iterator[Cut]:
    """Cut some of the arrays along the axes of equal size that `places` has for their numbers."""
    lengths: list[int | None] = [None] if old == 1 else [*dict.fromkeys((1, old // 2, old - 1))] if old else []
    for new in lengths:
        # The element that shows the failure may be at either end.
        for part in (0,) if new is None else (slice(0, new), slice(old - new, old)):
            yield Cut(
                axis,
                old,
                new,
                [
                    part_of(value[(*[slice(None)] * places[k], part)], value)
                    if value is not None and k in places
                    else value
                    for k, value in enumerate(arrays)
                ],
            )


def part_of(array: Any, like: Any) -> Any:
    """Return a part of an array, as an array of the same dtype."""
    elements = np.empty(np.shape(array), like.dtype)
    elements[...] = array
    return elements


def _of_simpler_numbers(node: Node) -> Iterator[Node]:
    """Yield numbers nearer to 0, and common types."""
    for k, value in enumerate(node.inputs):
        if not isinstance(value, np.ndarray) or not k or value.dtype.kind not in "iu":
            continue
        for at in np.ndindex(*value.shape):
            number = int(value[at])
            for simpler in (0, 1, -1, number // 2):
                if abs(simpler) < abs(number) and (simpler >= 0 or value.dtype.kind == "i"):
                    changed = value.copy()
                    changed[at] = simpler
                    yield node.with_input(k, changed)
    for name, value in node.attributes.items():
        if isinstance(value, int) and abs(value) > 1:
            yield node._replace(attributes={**node.attributes, name: 1 if value > 0 else -1})
    yield from _of_plain_elements(node)


def _of_plain_elements(node: Node) -> Iterator[Node]:
    """Yield nodes with FLOAT elements that count up, in all inputs of the first one's type, or in the first alone."""
    first = node.inputs[0] if node.inputs else None
    if first is None or first.dtype == np.float32 or first.dtype.kind not in "fiuc":
        return
    same_type = [k for k, value in enumerate(node.inputs) if value is not None and value.dtype == first.dtype]
    for simplified in (same_type, [0]):
        yield node._replace(
            inputs=tuple(_simplify_value(value) if k in simplified else value for k, value in enumerate(node.inputs)),
            attributes={**node.attributes, **({"to": TensorProto.FLOAT} if node.operator == "Cast" else {})},
        )


def _simplify_value(value: Value | None) -> Value | None:
    """Return the value with elements 1, 2, 3 and so on, of FLOAT."""
    tensors = tuple(
        np.arange(1, tensor.size + 1, dtype=np.float32).reshape(tensor.shape) for tensor in tensors_of(value)
    )
    replaced: Value | None = with_tensors(value, tensors)
    return (
        replaced
        if replaced is None or isinstance(replaced, np.ndarray)
        else dataclasses.replace(replaced, dtype=np.dtype(np.float32))
    )


def lines_of(case: Case) -> Iterator[str]:
    """Yield a case as lines to paste."""
    node = case.node
    attributes = {name: describe_attribute(value) for name, value in node.attributes.items()}
    yield f"{node.operator}, opset {node.opset}, attributes {attributes or 'none'}"
    names = [formal.name for formal in schema(node.operator, node.opset).inputs]
    for k, value in enumerate(node.inputs):
        if value is not None:
            noun = "initializer" if k in node.constant else "input"
            yield f"{names[min(k, len(names) - 1)]} ({noun}): {as_text(value)}"


def describe_attribute(value: Any) -> Any:
    """Return an attribute as one line."""
    if isinstance(value, np.ndarray):
        return as_text(value)
    return " ".join(str(value).split()) if isinstance(value, onnx.TypeProto) else value


def as_text(value: Any) -> str:
    """Return a value as one line."""
    if isinstance(value, OptionalValue):
        return f"optional: {'nothing' if value.element is None else as_text(value.element)}"
    if isinstance(value, TensorList):
        return f"sequence of {len(value.tensors)}: " + "; ".join(map(as_text, value.tensors))
    return f"{value.dtype if not value.dtype.hasobject else 'string'} {[*value.shape]} {value.tolist()}"
