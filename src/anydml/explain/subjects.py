"""What each kind of thing comes to: sections, each with one program."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anydml.arrays.receive import as_numpy
from anydml.binding import bind_tensors
from anydml.engines import open_engine
from anydml.explain.section import MOST_VALUES, Array, Section, Shape, section
from anydml.moves import Program
from anydml.operators.base import OperatorDesc
from anydml.tensor import Layout
from anydml.text import counted

if TYPE_CHECKING:
    from anydml.dxdispatch.model import Model
    from anydml.dxdispatch.schedule import Schedule
    from anydml.dxdispatch.steps import Range
    from anydml.tracing.fused import Fused

MOST_SECTIONS = 100
"""Operators of one model that are explained."""


def of_desc(desc: OperatorDesc, arrays: Sequence[Any], device: str, compiled: str = "") -> Section:
    """A desc, with the values of its first inputs where these are given.

    Raises:
        DescError: it breaks a rule.
        ValueError: there are more arrays than inputs, or one has another shape.
    """
    desc.check()
    if len(arrays) > len(desc.inputs):
        raise ValueError(
            f"{desc.OPERATOR} has {counted(len(desc.inputs), 'input')}, but got {counted(len(arrays), 'array')}"
        )
    values: dict[int, Array] = {}
    for number, ((name, tensor), array) in enumerate(zip(desc.inputs, arrays, strict=False)):
        given = np.asarray(array, tensor.data_type.dtype)
        if given.shape != tensor.sizes:
            raise ValueError(f"{desc.OPERATOR}: {name} is {list(tensor.sizes)}, but the array is {list(given.shape)}")
        if tensor.size_in_bytes <= MOST_VALUES:
            # As the desc lays them out: elements that share memory have one value.
            values[number] = _view(np.zeros(tensor.size_in_bytes, np.uint8), tensor.layout, given.dtype)
            values[number][...] = given
    return _operator(repr(desc), desc, desc.layouts(), values, device, compiled)


def of_bound(desc: OperatorDesc, operands: Sequence[Array], compiled: object) -> Section:
    """A bound operator: as its buffers lie, with their values."""
    count = len(desc.inputs)
    if not all(type(operand) is np.ndarray for operand in operands):
        # On a GPU; what is there is not fetched.
        return _operator(repr(desc), desc, desc.layouts(), {}, compiled=str(compiled))
    views, layouts = bind_tensors(desc, operands[:count], operands[count:])
    values = {
        number: _view(view, layout, tensor.data_type.dtype)
        for number, (view, layout, (_, tensor)) in enumerate(zip(views, layouts, desc.inputs, strict=False))
    }
    return _operator(repr(desc), desc, layouts, values, compiled=str(compiled))


def of_program(program: Program, arrays: Sequence[Any], device: str) -> Section:
    """A program, with arrays for its first operands where these are given."""
    values = {k: as_numpy(program.name, f"operand {k}", array) for k, array in enumerate(arrays)}
    return _program(
        program.name, program, {k: (a.shape, a.strides, a.dtype) for k, a in values.items()}, values, device
    )


def of_plan(plan: Any) -> Section:
    """A plan over files: its program between arrays as files hold them; what it reads and writes in words."""
    from anydml.stores.planning.grid_program import strides_of

    shapes: dict[int, Shape] = {}
    for k, array in enumerate([*plan.inputs, *plan.outputs]):
        shapes[k] = array.shape, strides_of(array), array.dtype
    return _program(plan.name, plan.program, shapes, {}, "", str(plan))


def of_fused(fused: Fused, arguments: Any, keywords: dict[str, Any]) -> Section:
    """A fused function, called with these arguments."""
    program, inputs, results = fused.lowered(*arguments, **keywords)
    shapes = {k: (array.shape, array.strides, array.dtype) for k, array in enumerate(inputs)}
    for k, (sizes, dtype) in enumerate(results, len(inputs)):
        shapes[k] = sizes, Layout.packed(sizes, dtype.itemsize).strides, dtype
    values = {k: array for k, array in enumerate(inputs) if type(array) is np.ndarray}
    return _program(program.name, program, shapes, values, "cpu" if len(values) == len(inputs) else "")


def of_model(model: Model, device: str) -> Iterator[Section | str]:
    """The dispatches of a model whose descs break no rule, in order; nothing is run.

    Raises:
        ModelError: a rule is broken, or a binding does not fit.
    """
    from anydml.dxdispatch.schedule import schedule
    from anydml.dxdispatch.steps import DispatchStep, OnnxStep

    for where, problem in model.problems():
        raise where.error(str(problem), problem.operator, problem.rule)
    todo = schedule(model)
    contents = _first_contents(todo)
    for step in todo.steps:
        if isinstance(step, DispatchStep):
            desc = step.dispatchable.desc
            values = {}
            for number, (bound, (_, tensor)) in enumerate(zip(step.inputs, desc.inputs, strict=True)):
                if (buffer := contents.get(bound.resource)) is not None:
                    values[number] = _view(buffer[bound.start : bound.stop], tensor.layout, tensor.data_type.dtype)
            yield _operator(f"{step.dispatchable.name}: {desc!r}", desc, desc.layouts(), values, device)
            _dispatch(desc, step.inputs, step.outputs, contents)
        elif isinstance(step, OnnxStep):
            yield f"{step.dispatchable.name}: an ONNX model, which is explained by itself"
            for output in step.outputs:
                if output.at is not None:
                    contents.pop(output.at.resource, None)


def of_onnx(model: Any, device: str, sizes: Mapping[str, int]) -> Iterator[Section | str]:
    """What the nodes of an ONNX model amount to; then, as text, what DirectML has no tensors of, and what is left out.

    Raises:
        ModelError: the model is not valid, or no size of an input has a name.
    """
    from anydml.onnx.descs import describe
    from anydml.onnx.scope import left_out, out_of_scope

    findings = list(describe(model, sizes))
    for found in findings:
        if (desc := found.desc) is not None:
            yield _operator(f"{found.node}: {desc!r}", desc, desc.layouts(), {}, device)
    yield from (str(found.error) for found in findings if found.error is not None)
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
    """The elements of an operand, as they lie."""
    if buffer.dtype == dtype and buffer.shape == layout.sizes and buffer.strides == layout.strides:
        return buffer
    return np.ndarray(layout.sizes, dtype, buffer, 0, layout.strides)


def _first_contents(todo: Schedule) -> dict[Any, Array]:
    """The resources that are so small that they may be shown, before the first dispatch."""
    contents: dict[Any, Array] = {}
    for resource, size in todo.sizes.items():
        if size <= MOST_VALUES and len(contents) < MOST_SECTIONS:
            buffer = np.zeros(size, np.uint8)
            if resource.initializer is not None:
                try:
                    resource.initializer.fill(buffer[: resource.initializer.byte_count])
                except OSError as error:
                    raise resource.place.error(f"cannot be read: {error.strerror}") from None
            contents[resource] = buffer
    return contents


def _dispatch(
    desc: OperatorDesc, inputs: Sequence[Range], outputs: Sequence[Range], contents: dict[Any, Array]
) -> None:
    """What small resources hold afterwards; those whose contents are not known are forgotten."""
    from anydml.device import Device
    from anydml.errors import BindingError

    every = [*inputs, *outputs]
    if all(bound.resource in contents for bound in every):
        first, second = ([contents[b.resource][b.start : b.stop] for b in some] for some in (inputs, outputs))
        try:
            Device("numpy").compile_operator(desc).bind(first, second).dispatch()
            return
        except BindingError:
            # Values on the host that disagree with the desc: running the model says so.
            pass
    for bound in outputs:
        contents.pop(bound.resource, None)


def some(found: Iterator[Section | str]) -> tuple[list[Section], list[str]]:
    """The first sections, and what is said beside them."""
    sections: list[Section] = []
    notes: list[str] = []
    for each in found:
        if isinstance(each, str):
            notes.append(each)
        elif len(sections) < MOST_SECTIONS:
            sections.append(each)
        else:
            return sections, [f"The first {MOST_SECTIONS} operators are explained.", *notes]
    return sections, notes
