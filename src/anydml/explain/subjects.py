"""Sections for each kind of object that can be explained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.receive import as_numpy
from anydml.binding import bind_tensors
from anydml.engines import open_engine
from anydml.explain.section import MAX_VALUES, Array, Section, Shape, section
from anydml.moves import Program
from anydml.operators.base import OperatorDesc
from anydml.tensor import Layout
from anydml.text import bytes_text, count_noun

if TYPE_CHECKING:
    from anydml.dxdispatch.model import Model
    from anydml.dxdispatch.schedule import Schedule
    from anydml.dxdispatch.steps import Range
    from anydml.tracing.fused import Fused

MAX_SECTIONS = 100
"""Operators of one model that are explained, at most."""


def of_desc(desc: OperatorDesc, arrays: Sequence[Any], device: str, compiled: str = "") -> Section:
    """Return the section of a desc, with the values of its first inputs if given.

    Raises:
        DescError: the desc breaks a rule.
        ValueError: there are more arrays than inputs, one has a mask, a shape differs, or integers do not fit.
    """
    desc.check()
    if len(arrays) > len(desc.inputs):
        raise ValueError(
            f"{desc.OPERATOR} has {count_noun(len(desc.inputs), 'input')}, but got {count_noun(len(arrays), 'array')}"
        )
    values: dict[int, Array] = {}
    for operand_number, ((name, tensor), array) in enumerate(zip(desc.inputs, arrays, strict=False)):
        given_array = as_numpy("explain", name, array)
        if given_array.dtype.kind not in "biufcV" or given_array.dtype.type is np.void:
            raise ValueError(f"{desc.OPERATOR}: {name} is {tensor.data_type}, but the array holds {given_array.dtype}")
        with np.errstate(all="ignore"):
            converted = given_array.real.astype(tensor.data_type.dtype)
        if given_array.dtype.kind == "c" or (
            converted.dtype.kind in "iu" and not np.array_equal(converted, given_array)
        ):
            raise ValueError(f"{desc.OPERATOR}: {name} is {tensor.data_type}, which lacks some values of the array")
        if converted.shape != tensor.sizes:
            raise ValueError(
                f"{desc.OPERATOR}: {name} is {list(tensor.sizes)}, but the array is {list(converted.shape)}"
            )
        if tensor.size_in_bytes <= MAX_VALUES:
            # In the layout of the desc, where elements that share memory have one value.
            values[operand_number] = _view(np.zeros(tensor.size_in_bytes, np.uint8), tensor.layout, converted.dtype)
            values[operand_number][...] = converted
    return _operator(repr(desc), desc, desc.layouts(), values, device, compiled)


def of_bound(desc: OperatorDesc, operands: Sequence[Array], compiled: object) -> Section:
    """Return the section of a bound operator, with the layouts and values of its buffers."""
    count = len(desc.inputs)
    if not all(type(operand) is np.ndarray for operand in operands):
        # On a GPU, whose memory is not copied.
        return _operator(repr(desc), desc, desc.layouts(), {}, compiled=str(compiled))
    views, layouts = bind_tensors(desc, operands[:count], operands[count:])
    values = {
        operand_number: _view(view, layout, tensor.data_type.dtype)
        for operand_number, (view, layout, (_, tensor)) in enumerate(zip(views, layouts, desc.inputs, strict=False))
    }
    return _operator(repr(desc), desc, layouts, values, compiled=str(compiled))


def of_program(program: Program, arrays: Sequence[Any], device: str) -> Section:
    """Return the section of a program, with arrays for its first operands if given."""
    values = {k: as_numpy(program.name, f"operand {k}", array) for k, array in enumerate(arrays)}
    return _program(
        program.name, program, {k: (a.shape, a.strides, a.dtype) for k, a in values.items()}, values, device
    )


def of_plan(plan: Any) -> Section:
    """Return the section of a plan over files: its program between stored arrays, and the plan as text."""
    arrays = dict(enumerate([*plan.inputs, *plan.outputs]))
    shapes = {k: (array.shape, array.strides, array.dtype) for k, array in arrays.items()}
    chunks = {k: array.chunks for k, array in arrays.items() if hasattr(array, "chunks")}
    return section(plan.name, plan.program, shapes, {}, str(plan), chunks)


def of_fused(fused: Fused[..., Any], arguments: Any, keywords: dict[str, Any]) -> Section:
    """Return the section of a fused function, called with these arguments."""
    program, inputs, results = fused.lower_call(*arguments, **keywords)
    shapes = {k: (array.shape, array.strides, array.dtype) for k, array in enumerate(inputs)}
    for k, (sizes, dtype) in enumerate(results, len(inputs)):
        shapes[k] = sizes, Layout.packed(sizes, dtype.itemsize).strides, dtype
    values = {k: array for k, array in enumerate(inputs) if type(array) is np.ndarray}
    return _program(program.name, program, shapes, values, "cpu" if len(values) == len(inputs) else "")


def of_model(model: Model, device: str) -> Iterator[Section | str]:
    """Yield the sections of a model's dispatches in order, without running them.

    Raises:
        ModelError: a desc breaks a rule, or a binding does not fit.
    """
    from anydml.dxdispatch.schedule import schedule
    from anydml.dxdispatch.steps import DispatchStep, OnnxStep

    for location, problem in model.problems():
        raise location.error(str(problem), problem.operator, problem.rule)
    scheduled = schedule(model)
    contents = _first_contents(scheduled)
    for step in scheduled.steps:
        if isinstance(step, DispatchStep):
            desc = step.dispatchable.desc
            values = {}
            for operand_number, (bound, (_, tensor)) in enumerate(zip(step.inputs, desc.inputs, strict=True)):
                if (buffer := contents.get(bound.resource)) is not None:
                    values[operand_number] = _view(
                        buffer[bound.start : bound.stop], tensor.layout, tensor.data_type.dtype
                    )
            yield _operator(f"{step.dispatchable.name}: {desc!r}", desc, desc.layouts(), values, device)
            _dispatch(desc, step.inputs, step.outputs, contents)
        elif isinstance(step, OnnxStep):
            yield f"{step.dispatchable.name}: an ONNX model, which must be explained separately"
            for output in step.outputs:
                if output.at is not None:
                    contents.pop(output.at.resource, None)


def of_onnx(model: Any, device: str, sizes: Mapping[str, int]) -> Iterator[Section | str]:
    """Yield the sections of the nodes of an ONNX model that write most, in order; and, as text, what is left out.

    Raises:
        ModelError: the model is not valid, or `sizes` names an unknown dimension.
    """
    from anydml.onnx.node_checks import refuse_invalid
    from anydml.onnx.node_descs import describe
    from anydml.onnx.unchecked_summary import left_out, out_of_scope

    findings = list(describe(model, sizes))
    refuse_invalid(findings)
    costs: dict[int, int] = {}
    for finding_number, finding in enumerate(findings):
        if (desc := finding.desc) is None:
            continue
        # ONNX has indices of types that no engine reads as indices.
        wrong = next((problem for problem in desc.problems() if problem.field == "IndicesTensor.DataType"), None)
        if wrong is None:
            costs[finding_number] = sum(move.bytes_written for move in desc.program(tuple(desc.layouts())).moves)
        else:
            yield f"{finding.node}: {wrong}"
    by_cost = sorted(costs, key=lambda finding_number: -costs[finding_number])
    for finding_number in sorted(by_cost[:MAX_SECTIONS]):
        desc = findings[finding_number].desc
        assert desc is not None, "it has a cost"
        yield _operator(f"{findings[finding_number].node}: {desc!r}", desc, desc.layouts(), {}, device)
    if unexplained := by_cost[MAX_SECTIONS:]:
        written = bytes_text(sum(costs[finding_number] for finding_number in unexplained))
        yield f"The {MAX_SECTIONS} operators that write most are explained; {len(unexplained)} more write {written}."
    yield from (str(finding.error) for finding in findings if finding.error is not None)
    yield from left_out(findings)
    if text := out_of_scope(findings):
        yield text


def _operator(
    title: str,
    desc: OperatorDesc,
    layouts: Sequence[Layout],
    values: Mapping[int, Array],
    device: str = "",
    compiled: str = "",
) -> Section:
    program = desc.program(tuple(layouts))
    shapes: dict[int, Shape] = {}
    if program.formula is not None:
        shapes = dict(enumerate(program.formula.tensors))
    return _program(title, program, shapes, values, device, compiled)


def _program(
    title: str,
    program: Program,
    shapes: Mapping[int, Shape],
    values: Mapping[int, Array],
    device: str,
    compiled: str = "",
) -> Section:
    if device and program.moves and not compiled:
        compiled = str(open_engine(device).compile(program))
    return section(title, program, shapes, values, compiled)


def _view(buffer: Array, layout: Layout, dtype: np.dtype[Any]) -> Array:
    """Return a view of a buffer with a layout."""
    if buffer.dtype == dtype and buffer.shape == layout.sizes and buffer.strides == layout.strides:
        return buffer
    return np.ndarray(layout.sizes, dtype, buffer, 0, layout.strides)


def _first_contents(scheduled: Schedule) -> dict[Any, Array]:
    """Return the contents of small resources before the first dispatch."""
    contents: dict[Any, Array] = {}
    for resource, size in scheduled.sizes.items():
        if size <= MAX_VALUES and len(contents) < MAX_SECTIONS:
            buffer = np.zeros(size, np.uint8)
            if resource.initializer is not None:
                try:
                    resource.initializer.fill(buffer[: resource.initializer.byte_count])
                except OSError as error:
                    raise resource.location.error(f"cannot be read: {error.strerror}") from None
            contents[resource] = buffer
    return contents


def _dispatch(
    desc: OperatorDesc, inputs: Sequence[Range], outputs: Sequence[Range], contents: dict[Any, Array]
) -> None:
    """Update the contents of small resources; those that become unknown are removed."""
    from anydml.device import Device
    from anydml.errors import BindingError

    bound_tensors = [*inputs, *outputs]
    if all(bound.resource in contents for bound in bound_tensors):
        first, second = ([contents[b.resource][b.start : b.stop] for b in bindings] for bindings in (inputs, outputs))
        try:
            Device("numpy").compile_operator(desc).bind(first, second).dispatch()
            return
        except BindingError:
            # Values on the host contradict the desc; running the model reports this.
            pass
    for bound in outputs:
        contents.pop(bound.resource, None)


def first_sections(items: Iterator[Section | str]) -> tuple[list[Section], list[str]]:
    """Return the first sections, and the notes."""
    sections: list[Section] = []
    notes: list[str] = []
    for item in items:
        if isinstance(item, str):
            notes.append(item)
        elif len(sections) < MAX_SECTIONS:
            sections.append(item)
        else:
            return sections, [f"The first {MAX_SECTIONS} operators are explained.", *notes]
    return sections, notes
