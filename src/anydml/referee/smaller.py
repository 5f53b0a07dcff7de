"""Smaller cases of ONNX: nodes with fewer attributes, inputs and sizes, and simpler numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from anydml.errors import ModelError
from anydml.referee.cases import Case, operator_named, same, valid_case
from anydml.referee.folders import Stored
from anydml.referee.nodes import Array, Node
from anydml.referee.texts import schema
from anydml.referee.verdicts import as_array


def node_of(stored: Stored) -> Node:
    """The node of a stored case, with its inputs.

    Raises:
        ModelError: the model has not one node.
    """
    model = onnx.load(stored.model)
    graph = model.graph
    if len(graph.node) != 1 or graph.node[0].domain:
        raise ModelError(f"{stored.model} has {len(graph.node)} nodes", rule="a case has one node of ONNX")
    made = graph.node[0]
    values: dict[str, Any] = {each.name: as_array(numpy_helper.to_array(each)) for each in graph.initializer}
    values |= dict(zip((each.name for each in graph.input), stored.inputs(), strict=True))
    constants = {each.name for each in graph.initializer}
    constant = frozenset(k for k, name in enumerate(made.input) if name in constants)
    inputs = tuple(values[name] if name else None for name in made.input)
    attributes = {each.name: _value(each) for each in made.attribute}
    opset = next(each.version for each in model.opset_import if not each.domain)
    return Node(made.op_type, opset, inputs, attributes, len(made.output), constant)


def _value(attribute: AttributeProto) -> Any:
    value = helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, bytes):
        return value.decode()
    return list(value) if attribute.ints or attribute.floats else value


def case_of(stored: Stored) -> Case:
    """The case of a folder."""
    return valid_case(operator_named(stored.operator), node_of(stored), stored.name)


def smaller(case: Case) -> Iterator[Case | None]:
    """Cases that are a little smaller than one; None for a node that is not valid, or ambiguous."""
    for node in _smaller(case.node):
        made = _valid(case.name, node)
        yield None if made is None or made.alternatives else made


def _valid(name: str, node: Node) -> Case | None:
    """The case of a node, if the rules allow it, and anydml, which checks it too, agrees."""
    from anydml.onnx import backend
    from anydml.referee.folders import model_of

    operator = operator_named(node.operator)
    try:
        if not operator.is_case(node):
            return None
        case = valid_case(operator, node, name)
        model = model_of(node, [(value.dtype, value.shape) for value in case.outputs])
        given = [value for k, value in enumerate(node.inputs) if value is not None and k not in node.constant]
        found = [*map(as_array, backend.prepare(model).run(given))]
        if len(case.outputs) != node.outputs or not _agree(found, case.outputs):
            return None
        # Last: onnx's checker ends the process where sizes of Split are fewer than outputs.
        onnx.checker.check_model(model, full_check=True)
    # A node that is no longer valid fails in many ways.
    except Exception:
        return None
    return case


def _agree(found: Sequence[Array], expected: Sequence[Array]) -> bool:
    return len(found) == len(expected) and all(map(same, found, expected))


def _smaller(node: Node) -> Iterator[Node]:
    """Nodes that are a little smaller than one."""
    for name in node.attributes:
        yield node._replace(attributes={key: value for key, value in node.attributes.items() if key != name})
    if len(node.inputs) > 1 and node.outputs == 1:
        yield node._replace(inputs=node.inputs[:-1], constant=node.constant - {len(node.inputs) - 1})
    for k in range(1, len(node.inputs)):
        if node.inputs[k] is not None:
            yield node.with_input(k, None)
    yield from _of_fewer_sizes(node)
    yield from _of_simpler_numbers(node)
    for k, value in enumerate(node.inputs):
        if value is not None and k and k not in node.constant:
            yield node._replace(constant=node.constant | {k})
    lowest = schema(node.operator, node.opset).since_version
    if lowest >= 11 and lowest != node.opset:
        yield node._replace(opset=lowest)


def _of_fewer_sizes(node: Node) -> Iterator[Node]:
    """One axis less, or shorter: of all inputs that have it, or of one."""
    for cut in cuts(node.inputs):
        yield node._replace(inputs=tuple(cut.arrays))


class Cut(NamedTuple):
    """Arrays of which some are shorter along an axis, or have not got it.

    Attributes:
        axis: the axis.
        old: its size.
        new: its new size; None if the axis is gone.
        arrays: all arrays.
    """

    axis: int
    old: int
    new: int | None
    arrays: list[Array | None]


def cuts(arrays: Sequence[Array | None]) -> Iterator[Cut]:
    """One axis less, or shorter: of all arrays that have it, or of one."""
    there = [value for value in arrays if value is not None]
    for axis in range(max((value.ndim for value in there), default=0)):
        for old in sorted({value.shape[axis] for value in there if value.ndim > axis}):
            lengths: list[int | None] = [None] if old == 1 else [*dict.fromkeys((1, old // 2, old - 1))] if old else []
            chosen = [k for k, v in enumerate(arrays) if v is not None and v.shape[axis : axis + 1] == (old,)]
            for new in lengths:
                for group in (chosen, *([[k] for k in chosen] if len(chosen) > 1 else [])):
                    # What tells may be at the beginning or at the end.
                    for part in (0,) if new is None else (slice(0, new), slice(old - new, old)):
                        index = (*[slice(None)] * axis, part)
                        parts = [kept(v[index], v) if v is not None and k in group else v for k, v in enumerate(arrays)]
                        yield Cut(axis, old, new, parts)


def kept(found: Any, like: Any) -> Any:
    """A part of an array, as an array of the same dtype."""
    made = np.empty(np.shape(found), like.dtype)
    made[...] = found
    return made


def _of_simpler_numbers(node: Node) -> Iterator[Node]:
    """Numbers nearer to 0, and common types."""
    for k, value in enumerate(node.inputs):
        if value is None or not k or value.dtype.kind not in "iu":
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
    first = node.array(0) if node.inputs else None
    if first is not None and first.dtype != np.float32 and first.dtype.kind in "fiuc":
        alike = [k for k, value in enumerate(node.inputs) if value is not None and value.dtype == first.dtype]
        for some in (alike, [0]):
            plain = np.float32 if node.operator != "Shape" else first.dtype
            yield node._replace(
                inputs=tuple(
                    np.arange(1, value.size + 1).astype(plain).reshape(value.shape)
                    if k in some and value is not None
                    else value
                    for k, value in enumerate(node.inputs)
                )
            )


def lines_of(case: Case) -> Iterator[str]:
    """A case as lines to paste."""
    node = case.node
    yield f"{node.operator}, opset {node.opset}, attributes {dict(node.attributes) or 'none'}"
    names = [each.name for each in schema(node.operator, node.opset).inputs]
    for k, value in enumerate(node.inputs):
        if value is not None:
            kind = "initializer" if k in node.constant else "input"
            yield f"{names[min(k, len(names) - 1)]} ({kind}): {shown(value)}"


def shown(value: Any) -> str:
    """An array as one line."""
    return f"{value.dtype if not value.dtype.hasobject else 'string'} {[*value.shape]} {value.tolist()}"
