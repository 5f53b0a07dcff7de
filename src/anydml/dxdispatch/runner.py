"""Run a model: allocate, initialize and execute, with output in DxDispatch's format."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from anydml.binding import has_host_values
from anydml.dxdispatch.json_numbers import Array
from anydml.dxdispatch.model import Dispatchable, Model, Resource
from anydml.dxdispatch.onnx_models import OnnxModel, check_result
from anydml.dxdispatch.onnx_steps import check_dimensions
from anydml.dxdispatch.out_of_range_indices import find_out_of_range_indices
from anydml.dxdispatch.printing import format_elements, format_verbose
from anydml.dxdispatch.schedule import Schedule, schedule
from anydml.dxdispatch.steps import DispatchStep, OnnxStep, PrintStep, Range, WriteStep
from anydml.dxdispatch.timing import Timing, measure, report
from anydml.errors import BindingError
from anydml.feature_level import FeatureLevel
from anydml.files import npy
from anydml.files.folder import write_whole
from anydml.memory import limits
from anydml.text import bytes_text, escape_controls

if TYPE_CHECKING:
    from anydml.device import BoundOperator, CompiledOperator, Device

_Contents = dict[Resource, Array]
_Initial = dict[tuple[str, Resource], Array]


def run(
    model: Model,
    *,
    device: str = "cpu",
    feature_level: FeatureLevel | str = FeatureLevel.LATEST,
    timing: Timing | None = None,
    explain: bool = False,
    log: Callable[[str], object] = print,
    warn: Callable[[str], object] = warnings.warn,
    progress: bool | Callable[[int], None] = False,
    timed: Callable[[str, list[float]], object] = lambda name, samples: None,
) -> Mapping[str, Array]:
    """Run a model's commands in order.

    Operators' rules, bindings and memory are checked before the first command runs. Only values that an earlier command
    writes, such as the `SplitTensor` of a SplitTraining, are checked when they are used.

    Args:
        model: a model from `load`.
        device: name of an `anydml.Device`, for example ``"cpu"`` or ``"reference"``.
        feature_level: the level that the dispatchables are checked against.
        timing: number of dispatches, and verbosity of the timing report.
        explain: whether to log the program that each dispatchable was compiled to.
        log: called with each line of output, without a line break and with unprintable characters escaped.
        warn: called with each of the model's warnings before anything runs.
        progress: whether to show the progress of long dispatches on stderr; or a function that is called with the
            number of samples taken since the last call, or of milliseconds if `timing` limits these.
        timed: called with the name of each dispatchable and its samples in milliseconds, for each command that
            dispatches it.

    Returns:
        The contents of the resources after the last command, by name: 1-D arrays of their values without padding, in
        the data type of their initial values, or bytes if that is UNKNOWN. Deferred resources that were never written
        are left out.

    Raises:
        ModelError: a rule is violated, a binding does not fit, a file cannot be read or written, or there is not enough
            memory; the message has the JSON path.
        ValueError: there is no such device or feature level.

    Examples:
        >>> from anydml import dxdispatch
        >>> results = dxdispatch.run(dxdispatch.load("split.json"), log=lambda line: None)
        >>> results["Out3"]
        array([ 7.,  8.,  9., 10., 11., 12.], dtype=float32)
    """
    from anydml.device import Device

    if isinstance(model, str | os.PathLike):
        raise TypeError(f"run takes a model: anydml.dxdispatch.load({str(model)!r}) reads one")
    if not isinstance(model, Model):
        raise TypeError(f"run takes a model from anydml.dxdispatch.load, not {type(model).__name__}")
    for line in model.warnings:
        warn(line)
    timing = timing or Timing()
    opened_device = Device(device, feature_level)
    for problem_location, problem in model.problems(opened_device.feature_level):
        raise problem_location.error(str(problem), problem.operator, problem.rule)
    scheduled = schedule(model)
    _check_memory(model, scheduled)
    log(f"Running on '{opened_device.name}'")
    contents = {resource: allocate(resource, size) for resource, size in scheduled.sizes.items()}
    operators = _compile_operators(model, opened_device, timing, explain, log)
    for location, line in find_out_of_range_indices(scheduled, contents.__getitem__):
        warn(f"{location}: {line}")
    initial = _initial(scheduled, contents)
    _try_bindings(scheduled, operators, contents, initial)
    for step in scheduled.steps:
        if isinstance(step, PrintStep):
            _print(step, contents[step.resource], log)
        elif isinstance(step, WriteStep):
            _write(step, contents[step.resource], log)
        else:
            name = escape_controls(step.dispatchable.name)
            if isinstance(step, OnnxStep):
                dispatch: Callable[[], object] = partial(_run_graph, step, contents, log if explain else None)
            else:
                dispatch = _bind(step, operators[step.dispatchable], contents, initial).dispatch
            samples = measure(dispatch, timing, progress)
            timed(step.dispatchable.name, samples)
            for line in report(name, samples, timing):
                log(line)
    return _results(scheduled, contents)


def _compile_operators(
    model: Model, opened_device: Device, timing: Timing, explain: bool, log: Callable[[str], object]
) -> dict[Dispatchable, CompiledOperator]:
    """Compile the operators of a model; ONNX graphs were compiled when they were loaded."""
    operators: dict[Dispatchable, CompiledOperator] = {}
    for name, dispatchable in model.dispatchables.items():
        if isinstance(dispatchable, OnnxModel):
            if opened_device.name.startswith("cuda"):
                raise dispatchable.location.error("ONNX models run on the CPU: choose the device 'cpu'")
            continue
        start = time.perf_counter()
        operators[dispatchable] = opened_device.compile_operator(dispatchable.desc)
        if timing.verbosity >= 1:
            log(f"Initialize '{escape_controls(name)}': {(time.perf_counter() - start) * 1000:.4f} ms")
        if explain:
            log(f"{escape_controls(name)}: {operators[dispatchable]}")
    return operators


def _check_memory(model: Model, scheduled: Schedule) -> None:
    run_bytes, available = scheduled.bytes_needed, limits.available_memory()
    if available is not None and run_bytes > available:
        amounts = f"{bytes_text(run_bytes)}, but {bytes_text(available)} are available"
        largest = max(scheduled.sizes, key=lambda resource: scheduled.sizes[resource])
        share = bytes_text(scheduled.sizes[largest])
        raise largest.location.error(f"the model's resources need {amounts}; this one needs {share}")


def allocate(resource: Resource, size: int) -> Array:
    """Return the initial bytes of a resource.

    Raises:
        ModelError: its file cannot be read, or there is not enough memory.
    """
    try:
        buffer = np.zeros(size, np.uint8)
    except (MemoryError, ValueError):
        raise resource.location.error(f"{bytes_text(size)} cannot be allocated") from None
    if resource.initializer:
        try:
            resource.initializer.fill(buffer[: resource.initializer.byte_count])
        except OSError as error:
            raise resource.location.error(f"cannot be read: {error.strerror}") from None
    return buffer


def _initial(scheduled: Schedule, contents: _Contents) -> _Initial:
    """Copy the resources bound at initialization that a command overwrites."""
    return {
        (step.dispatchable.name, bound.resource): contents[bound.resource].copy()
        for step in scheduled.steps
        if isinstance(step, DispatchStep)
        for bound in step.inputs
        if bound.initial and bound.resource in scheduled.written
    }


def _try_bindings(
    scheduled: Schedule, operators: Mapping[Dispatchable, CompiledOperator], contents: _Contents, initial: _Initial
) -> None:
    """Bind every dispatch once before the first runs, so that binding errors surface before anything is written."""
    written: set[Resource] = set()
    for step in scheduled.steps:
        if isinstance(step, DispatchStep):
            reads_values = has_host_values(step.dispatchable.desc)
            if not (reads_values and any(bound.resource in written for bound in step.inputs)):
                _bind(step, operators[step.dispatchable], contents, initial)
            written.update(bound.resource for bound in step.outputs)


def _bind(step: DispatchStep, operator: CompiledOperator, contents: _Contents, initial: _Initial) -> BoundOperator:
    def read(bound: Range) -> Array:
        copy = initial.get((step.dispatchable.name, bound.resource)) if bound.initial else None
        return (contents[bound.resource] if copy is None else copy)[bound.start : bound.stop]

    try:
        outputs = [contents[bound.resource][bound.start : bound.stop] for bound in step.outputs]
        return operator.bind(inputs=[read(bound) for bound in step.inputs], outputs=outputs)
    except BindingError as error:
        raise (step.location / "bindings").error(str(error), error.operator, error.rule) from None


def _run_graph(step: OnnxStep, contents: _Contents, log: Callable[[str], object] | None) -> None:
    """Run a graph on its bound resources; unbound inputs are zeros."""
    arrays = {}
    for bound in step.inputs:
        shape = bound.shape or ()
        if bound.at is None:
            arrays[bound.tensor.name] = np.zeros(shape, bound.tensor.dtype)
        else:
            part = contents[bound.at.resource][: bound.at.stop]
            arrays[bound.tensor.name] = part.view(bound.tensor.dtype).reshape(shape)
    name = escape_controls(step.dispatchable.name)
    say = None if log is None else lambda text: [log(f"{name}: {escape_controls(line)}") for line in text.splitlines()]
    results = step.dispatchable.run(arrays, step.location, say)
    for bound in step.outputs:
        if bound.at is None:
            continue
        result = np.ascontiguousarray(results[bound.tensor.name]).reshape(results[bound.tensor.name].shape)
        check_result(bound.tensor, result, bound.shape, bound.at.location)
        flat = result.reshape(-1).view(np.uint8)
        if bound.shape is None:
            contents[bound.at.resource] = flat
        else:
            contents[bound.at.resource][: flat.size] = flat


def _print(step: PrintStep, buffer: Array, log: Callable[[str], object]) -> None:
    stop = len(buffer) if step.count is None else step.count * step.data_type.itemsize
    elements = buffer[:stop].view(step.data_type.dtype)
    shape = [*step.sizes] or [len(elements)]
    name = f"Resource '{escape_controls(step.resource.name)}' ({elements.dtype} {shape})"
    log(f"{name}:\n{format_verbose(elements)}" if step.verbose else f"{name}: {format_elements(elements)}")


def _write(step: WriteStep, buffer: Array, log: Callable[[str], object]) -> None:
    if step.data_type is None:
        raw = buffer[: step.stop]
        write_whole(step.target, lambda file: file.write(raw.data), step.location)
    else:
        dimensions = step.dimensions
        if step.stop is None:
            dimensions = dimensions or (len(buffer) // step.data_type.itemsize,)
            check_dimensions(step.location, step.resource, dimensions, step.data_type, len(buffer))
        count = math.prod(dimensions)
        elements = buffer[: count * step.data_type.itemsize].view(step.data_type.dtype).reshape(dimensions)
        write_whole(step.target, lambda file: npy.write(file, elements), step.location)
    log(f"Resource '{escape_controls(step.resource.name)}' written to '{escape_controls(str(step.target))}'")


def _results(scheduled: Schedule, contents: _Contents) -> Mapping[str, Array]:
    results = {}
    for resource, (data_type, known_size, *_) in scheduled.contents.items():
        dtype = data_type.dtype if data_type else np.dtype(np.uint8)
        size = len(contents[resource]) if known_size is None else known_size
        results[resource.name] = contents[resource][: size // dtype.itemsize * dtype.itemsize].view(dtype)
    return results
