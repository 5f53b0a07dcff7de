"""Shrink a case that an engine fails to the smallest that it fails in the same way."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from anydml.errors import ModelError
from anydml.referee.cases import Case, deciding, operator_named, same, valid_case
from anydml.referee.causes import Cause, causes_of
from anydml.referee.finding import find_cases
from anydml.referee.folders import Stored, write_case
from anydml.referee.judging import MEMORY, SECONDS, Judged, Worker
from anydml.referee.nodes import Node
from anydml.referee.texts import schema
from anydml.referee.verdicts import ACCEPTS, AGREES, NOT_RUN, Verdict, as_array

MOST_PROBES = 400
"""Cases that are tried for one cause, at most."""


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


def shrunk(stored: Stored, fails: Callable[[Case], bool], progress: Callable[[Case], None] = lambda case: None) -> Case:
    """The smallest case found that still fails.

    Args:
        stored: a valid case that fails.
        fails: whether a case fails in the same way.
        progress: told of each smaller case.
    """
    operator = operator_named(stored.operator)
    best = valid_case(operator, node_of(stored), stored.name)
    left = MOST_PROBES
    while True:
        for node in _smaller(best.node):
            if left == 0:
                return best
            case = _valid(stored.name, node)
            if case is None or case.alternatives:
                continue
            left -= 1
            if fails(case):
                best = case
                progress(case)
                break
        else:
            return best


def _valid(name: str, node: Node) -> Case | None:
    """The case of a node, if the rules allow it, and anydml, which checks it too, agrees."""
    from anydml.onnx import backend
    from anydml.referee.folders import model_of

    operator = operator_named(node.operator)
    try:
        if not all(rule.holds(node) for rule in operator.rules):
            return None
        case = valid_case(operator, node, name)
        model = model_of(node, [(value.dtype, value.shape) for value in case.outputs])
        onnx.checker.check_model(model, full_check=True)
        given = [value for k, value in enumerate(node.inputs) if value is not None and k not in node.constant]
        found = backend.prepare(model).run(given)
    # A node that is no longer valid fails in many ways.
    except Exception:
        return None
    return case if all(map(same, map(as_array, found), case.outputs)) else None


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
    arrays = [value for value in node.inputs if value is not None]
    for axis in range(max((value.ndim for value in arrays), default=0)):
        for size in sorted({value.shape[axis] for value in arrays if value.ndim > axis}):
            cuts: list[Any] = (
                [0] if size == 1 else [slice(0, 1), slice(0, size // 2), slice(0, size - 1)] if size else []
            )
            chosen = [k for k, v in enumerate(node.inputs) if v is not None and v.shape[axis : axis + 1] == (size,)]
            for cut in cuts:
                index = (*[slice(None)] * axis, cut)
                for group in (chosen, *([[k] for k in chosen] if len(chosen) > 1 else [])):
                    parts = {k: _kept(node.array(k)[index], node.array(k)) for k in group}
                    yield node._replace(inputs=tuple(parts.get(k, v) for k, v in enumerate(node.inputs)))


def _kept(found: Any, like: Any) -> Any:
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


def shrink_all(
    judged: Judged, engine: str, folder: Path, seconds: float = SECONDS, memory: int = MEMORY
) -> Iterator[str]:
    """Shrink the smallest case of each cause but refusals, and write them to a new folder, each with lines to paste.

    Args:
        judged: the verdicts of an engine.
        engine: the engine's name.
        folder: where to.
        seconds: the limit of a case.
        memory: the limit of a case, in bytes.

    Yields:
        A line per cause.

    Raises:
        ModelError: the folder has something in it.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ModelError(f"{folder} exists and is not empty", rule="cases are written to a new folder")
    worker: Worker | None = None
    for cause in causes_of(judged):
        if cause.verdict in (ACCEPTS, NOT_RUN) or not cause.example.about or not cause.example.is_valid:
            continue
        if cause.verdict == "refuses":
            continue
        found: dict[str, Verdict] = {}

        def fails(case: Case, cause: Cause = cause, found: dict[str, Verdict] = found) -> bool:
            nonlocal worker
            with tempfile.TemporaryDirectory() as scratch:
                write_case(case, Path(scratch))
                worker = worker if worker is not None and worker.is_alive() else Worker(engine, memory)
                verdict = worker.answer(find_cases(Path(scratch))[0], seconds)
            if (verdict.verdict, verdict.kind) != (cause.verdict, cause.kind):
                return False
            found["last"] = verdict
            return True

        case = shrunk(cause.example, fails)
        verdict = found.get("last") or next(each for each in cause.verdicts if each.case == cause.example.name)
        write_case(case, folder)
        (folder / case.name / "paste.txt").write_text(as_lines(case, judged.engine, verdict), encoding="utf-8")
        yield f"{cause.operator} {cause.verdict}: {folder / case.name}: {' '.join(verdict.detail.split())[:200]}"
    if worker is not None:
        worker.close()


def as_lines(case: Case, engine: str, verdict: Verdict) -> str:
    """A case as lines to paste into an issue."""
    node = case.node
    lines = [f"{node.operator}, opset {node.opset}, attributes {dict(node.attributes) or 'none'}"]
    names = [each.name for each in schema(node.operator, node.opset).inputs]
    for k, value in enumerate(node.inputs):
        if value is not None:
            kind = "initializer" if k in node.constant else "input"
            lines.append(f"{names[min(k, len(names) - 1)]} ({kind}): {shown(value)}")
    lines += [f"expected: {shown(value)}" for value in case.outputs]
    lines.append(f"{engine} {verdict.verdict}: {' '.join(verdict.detail.split())[:300]}")
    lines.append(f"{case.document}: {deciding(operator_named(node.operator), node)}")
    return "\n".join(lines) + "\n"


def shown(value: Any) -> str:
    """An array as one line."""
    return f"{value.dtype if not value.dtype.hasobject else 'string'} {[*value.shape]} {value.tolist()}"


__all__ = ["AGREES", "as_lines", "node_of", "shrink_all", "shrunk"]
