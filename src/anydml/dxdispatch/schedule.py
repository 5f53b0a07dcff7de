"""Schedule a model's commands as steps over byte ranges of resources, and check all that can be checked in advance.

The type and sizes of a deferred resource follow from the dispatch that last writes it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from anydml.dxdispatch.model import Binding, Bindings, Dispatch, Dispatchable, Model, Print, Resource, WriteFile
from anydml.dxdispatch.onnx_models import OnnxModel
from anydml.dxdispatch.onnx_steps import check_dimensions, check_known, contents_of, onnx_step, size_of
from anydml.dxdispatch.printing import MAX_TEXT, MAX_VERBOSE_TEXT
from anydml.dxdispatch.steps import BoundTensor, Contents, DispatchStep, OnnxStep, PrintStep, Range, Step, WriteStep
from anydml.files.folder import extension
from anydml.files.location import Location, names, show
from anydml.tensor import DataType, TensorDesc, TensorFlags
from anydml.text import count_noun

MAX_BOUND = 250_000
"""Largest total of tensors that commands bind: a command of 60 bytes can bind as many as its dispatchable has."""


Written = tuple[DataType | None, tuple[int, ...]]
"""The data type and sizes of a tensor that fills a resource; no sizes if they are unknown."""


@dataclass(frozen=True)
class Schedule:
    """The steps of a model.

    Attributes:
        sizes: sizes in bytes of all resources whose sizes are known in advance.
        contents: their contents after the last step.
        written: the resources that dispatches write.
    """

    steps: tuple[Step, ...]
    sizes: Mapping[Resource, int]
    contents: Mapping[Resource, Contents]
    written: frozenset[Resource]

    @property
    def bytes_needed(self) -> int:
        """Peak memory in bytes, including copies of initial contents and the longest printed text."""
        copies = {
            (step.dispatchable.name, bound.resource): self.sizes[bound.resource]
            for step in self.steps
            if isinstance(step, DispatchStep)
            for bound in step.inputs
            if bound.initial and bound.resource in self.written
        }
        # A text exists twice while it is printed.
        texts = [
            2 * (step.count or 0) * (MAX_VERBOSE_TEXT if step.verbose else MAX_TEXT)
            for step in self.steps
            if isinstance(step, PrintStep)
        ]
        return sum(self.sizes.values()) + sum(copies.values()) + max(texts, default=0)


def schedule(model: Model) -> Schedule:
    """Schedule the commands of a model whose descs are valid.

    Raises:
        ModelError: a bind point has no binding or the wrong number of bindings, a resource is too small, an output
            overlaps another tensor, a deferred resource is used before it is written, or a resource cannot be printed
            or written as requested.
    """
    sizes = {resource: resource.size_in_bytes for resource in model.resources.values() if resource.initializer}
    written: dict[Resource, Contents] = {}
    shapes: dict[Resource, Written] = {}
    steps: list[Step] = []
    bound_tensors = 0
    for command in model.commands:
        if isinstance(command, Dispatch):
            run = command.dispatchable
            bound_tensors += run.tensor_count if isinstance(run, OnnxModel) else run.desc.tensor_count
            if bound_tensors > MAX_BOUND:
                reason = f"with this one the commands bind more than {MAX_BOUND} tensors; split the model"
                raise command.location.error(reason)
            if isinstance(run, OnnxModel):
                steps.append(onnx_step(command, run, sizes, written))
            else:
                steps.append(_dispatch(command, run, sizes, written))
            shapes.update(_shapes_written(steps[-1]))
        elif isinstance(command, Print):
            steps.append(_print(command, written, shapes))
        else:
            steps.append(_write(command, written))
    ranges = [
        (step, _ranges(step.inputs), _ranges(step.outputs))
        for step in steps
        if isinstance(step, (DispatchStep, OnnxStep))
    ]
    written_resources = frozenset(bound.resource for _, _, outputs in ranges for bound in outputs)
    for step, inputs, outputs in ranges:
        operator = "ONNX" if isinstance(step, OnnxStep) else step.dispatchable.desc.OPERATOR
        check_overlap(operator, inputs, outputs, written_resources)
    contents = {
        resource: _contents(resource, written, resource.location) for resource in dict.fromkeys((*sizes, *written))
    }
    return Schedule(tuple(steps), sizes, contents, written_resources)


def _ranges(bound: Sequence[Range | BoundTensor]) -> list[Range]:
    ranges = [tensor.at if isinstance(tensor, BoundTensor) else tensor for tensor in bound]
    return [extent for extent in ranges if extent is not None]


def _dispatch(
    command: Dispatch, run: Dispatchable, sizes: dict[Resource, int], written: dict[Resource, Contents]
) -> DispatchStep:
    inputs = tuple(_bind_ranges(command, run, run.desc.inputs, written, None))
    outputs = tuple(_bind_ranges(command, run, run.desc.outputs, written, sizes))
    return DispatchStep(command.location, run, inputs, outputs)


def _bind_ranges(
    command: Dispatch,
    run: Dispatchable,
    tensors: Sequence[tuple[str, TensorDesc]],
    written: dict[Resource, Contents],
    sizes: dict[Resource, int] | None,
) -> list[Range]:
    """Return the ranges of the inputs, or of the outputs if `sizes` is given, which is then updated."""
    points: dict[str, list[TensorDesc]] = {}
    for name, tensor in tensors:
        points.setdefault(name.partition("[")[0], []).append(tensor)
    ranges = []
    for point, point_tensors in points.items():
        bindings, initial = _bindings_of_point(command, run, point, point_tensors)
        for i, (tensor, binding) in enumerate(zip(point_tensors, bindings, strict=True)):
            name = f"{point}[{i}]" if len(point_tensors) > 1 else point
            resource, start, tensor_bytes = binding.resource, binding.offset_in_bytes, tensor.size_in_bytes
            if sizes is not None and not resource.initializer:
                # A packed tensor is written to a file with its sizes, a strided one as the 1-D span that it occupies.
                packed = tensor.sizes if tensor.strides is None else ()
                check_known(binding, written, is_known=True)
                written[resource] = Contents(tensor.data_type, tensor.span_in_bytes, packed, tensor_bytes)
                size = sizes[resource] = max(sizes.get(resource, 0), start + tensor_bytes)
            else:
                size = size_of(binding, written)
            if start + tensor_bytes > size:
                after = f" from byte {start} on" if start else ""
                raise binding.location.error(
                    f"{show(resource.name)} has {max(size - start, 0)} bytes{after}, but {name} needs {tensor_bytes}"
                )
            ranges.append(Range(binding.location, name, resource, start, start + tensor_bytes, initial))
    return ranges


def check_overlap(
    operator: str, inputs: Sequence[Range], outputs: Sequence[Range], written: frozenset[Resource]
) -> None:
    """Check that no output shares a byte with an input or another output, as `bind` requires.

    Inputs bound at initialization are copied if a dispatch overwrites them, and do not count.

    Raises:
        ModelError: two ranges overlap.
    """
    by_resource: dict[Resource, list[tuple[int, bool, Range]]] = {}
    for is_output, ranges in ((False, inputs), (True, outputs)):
        for bound in ranges:
            if is_output or not (bound.initial and bound.resource in written):
                by_resource.setdefault(bound.resource, []).append((bound.start, is_output, bound))
    for resource, entries in by_resource.items():
        # Sweep by start, tracking the range and the output with the highest stop.
        furthest: Range | None = None
        output: Range | None = None
        for start, is_output, bound in sorted(entries, key=lambda entry: entry[:2]):
            overlapped = furthest if is_output else output
            if overlapped and overlapped.stop > start:
                first, second = (bound, overlapped) if overlapped is output and not is_output else (overlapped, bound)
                raise second.location.error(
                    f"{operator}: {second.name} overlaps {first.name}: both are bound to byte {start} of "
                    f"{show(resource.name)}; bind another resource",
                    operator,
                    "an output must overlap no input and no other output",
                )
            furthest = bound if furthest is None or bound.stop > furthest.stop else furthest
            if is_output:
                output = bound if output is None or bound.stop > output.stop else output


def _bindings_of_point(
    command: Dispatch, run: Dispatchable, point: str, tensors: list[TensorDesc]
) -> tuple[tuple[Binding, ...], bool]:
    """Return the bindings of a bind point, and whether they were made at initialization rather than by the command."""
    initial = run.bindings
    owned = any(tensor.flags & TensorFlags.OWNED_BY_DML for tensor in tensors)
    bindings_location = command.location / "bindings"
    if owned and point in initial and point in command.bindings:
        raise (bindings_location / point).error("is OWNED_BY_DML and already bound by its dispatchable; bind it once")
    chosen: Bindings = command.bindings if point in command.bindings else initial
    if point not in chosen:
        desc = run.desc
        points = dict.fromkeys(name.partition("[")[0] for name, _ in (*desc.inputs, *desc.outputs))
        unknown = [name for name in command.bindings if name not in points]
        hint = f"; there is no {names(unknown)} to bind, only {names(points)}" if unknown else ""
        raise (bindings_location / point).error(f"has no resource, and {show(run.name)} needs one{hint}")
    bindings = chosen[point]
    if len(bindings) != len(tensors):
        location = (
            bindings_location / point
            if chosen is command.bindings
            else bindings[0].location
            if bindings
            else bindings_location
        )
        bound = f"{count_noun(len(bindings), 'resource')} bound to {point}"
        raise location.error(f"{bound}, but it has {count_noun(len(tensors), 'tensor')} in {show(run.name)}")
    return bindings, chosen is initial


def _shapes_written(step: Step) -> Iterator[tuple[Resource, Written]]:
    """Yield the data types and sizes of the packed tensors that a dispatch writes at the start of a resource."""
    if isinstance(step, DispatchStep):
        for (_, tensor), written in zip(step.dispatchable.desc.outputs, step.outputs, strict=True):
            is_whole = written.start == 0 and tensor.strides is None
            yield written.resource, (tensor.data_type, tensor.sizes if is_whole else ())
    elif isinstance(step, OnnxStep):
        for output in step.outputs:
            if output.at is not None:
                yield output.at.resource, (output.tensor.data_type, output.shape or ())


def _print(command: Print, written: Mapping[Resource, Contents], shapes: Mapping[Resource, Written]) -> PrintStep:
    resource = command.resource
    data_type, size, *_ = _contents(resource, written, command.location / "resource")
    if data_type is None:
        raise (command.location / "resource").error(
            f"{show(resource.name)} has values of several types: write it to a file"
        )
    # Padding is not printed.
    count = None if size is None else size // data_type.itemsize
    written_type, sizes = shapes.get(resource, (data_type, ()))
    is_known = count is not None and written_type == data_type and math.prod(sizes) == count
    return PrintStep(resource, data_type, count, command.verbose, sizes if is_known else ())


def _write(command: WriteFile, written: Mapping[Resource, Contents]) -> WriteStep:
    resource, location = command.resource, command.location
    data_type, size, sizes, _ = _contents(resource, written, location / "resource")
    stop = resource.size_in_bytes or size
    if extension(command.target.name) != ".npy":
        return WriteStep(location / "targetPath", resource, command.target, stop)
    if data_type is None:
        raise (location / "resource").error(f"{show(resource.name)} has values of several types: write a .bin file")
    if stop is None:
        return WriteStep(location / "targetPath", resource, command.target, stop, data_type, command.dimensions)
    dimensions = command.dimensions or sizes or (stop // data_type.itemsize,)
    check_dimensions(location / "dimensions", resource, dimensions, data_type, stop)
    return WriteStep(location / "targetPath", resource, command.target, stop, data_type, dimensions)


def _contents(resource: Resource, written: Mapping[Resource, Contents], location: Location) -> Contents:
    if resource.initializer:
        return Contents(resource.data_type, resource.initializer.byte_count)
    return contents_of(resource, written, location)
