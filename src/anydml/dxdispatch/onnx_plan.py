"""Dispatches of ONNX models as steps, and what is known of resources that a dispatch makes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from anydml.dxdispatch.model import Binding, Dispatch, Resource
from anydml.dxdispatch.onnx_models import GraphTensor, OnnxModel, Sizes, input_shape, output_shape
from anydml.dxdispatch.steps import Bound, Contents, OnnxStep, Range
from anydml.files.json_path import JsonPath, show
from anydml.tensor import DataType


def made_by(resource: Resource, made: Mapping[Resource, Contents], place: JsonPath) -> Contents:
    """What a deferred resource holds.

    Raises:
        ModelError: nothing has written it yet.
    """
    if resource not in made:
        raise place.error(f"{show(resource.name)} is deferred, and no dispatch has written it yet")
    return made[resource]


def size_of(binding: Binding, made: Mapping[Resource, Contents]) -> int:
    """Bytes that a binding's resource has.

    Raises:
        ModelError: it is deferred, and nothing has written it yet, or nobody knows how much.
    """
    resource = binding.resource
    if resource.initializer:
        return resource.size_in_bytes
    found = made_by(resource, made, binding.place)
    if found.size is None:
        name = show(resource.name)
        raise binding.place.error(f"the size of {name} is known only once it is written; bind it there with a shape")
    return found.total


def check_known(binding: Binding, made: Mapping[Resource, Contents], is_known: bool) -> None:
    """What a deferred resource holds has a size that is known beforehand every time, or never.

    Raises:
        ModelError: it was written otherwise before.
    """
    found = made.get(binding.resource)
    if found is not None and (found.size is not None) != is_known:
        what = f"{show(binding.resource.name)} is written with a shape that is known, and with one that is not"
        raise binding.place.error(f"{what}; bind another resource")


def check_dimensions(place: JsonPath, resource: Resource, dimensions: Sizes, data_type: DataType, stop: int) -> None:
    """The dimensions of a file are no more than a resource has.

    Raises:
        ModelError: they are more.
    """
    needed = math.prod(dimensions) * data_type.itemsize
    if needed > stop:
        many = f"{list(dimensions)} of {data_type} are {needed} bytes"
        raise place.error(f"{many}, but {show(resource.name)} has {stop}")


def onnx_step(
    command: Dispatch, run: OnnxModel, sizes: dict[Resource, int], made: dict[Resource, Contents]
) -> OnnxStep:
    """A dispatch of an ONNX model.

    Args:
        command: the dispatch.
        run: its model.
        sizes: bytes of resources, to which those come that it makes.
        made: what deferred resources hold, likewise.

    Raises:
        ModelError: a binding does not fit.
    """
    inputs = tuple(_inputs(command, run, made))
    return OnnxStep(command.place, run, inputs, tuple(_outputs(command, run, sizes, made)))


def _inputs(command: Dispatch, run: OnnxModel, made: Mapping[Resource, Contents]) -> Iterator[Bound]:
    for name, tensor in run.inputs.items():
        binding = _binding(command, tensor)
        place = binding.place if binding else command.place / "bindings" / name
        shape = input_shape(tensor, binding.shape if binding else (), place)
        if binding is None:
            yield Bound(tensor, shape, None)
            continue
        needed, size = tensor.bytes_of(shape), size_of(binding, made)
        _check_room(binding, tensor, shape, size)
        yield Bound(tensor, shape, Range(binding.place, name, binding.resource, 0, needed))


def _outputs(
    command: Dispatch, run: OnnxModel, sizes: dict[Resource, int], made: dict[Resource, Contents]
) -> Iterator[Bound]:
    for name, tensor in run.outputs.items():
        binding = _binding(command, tensor)
        if binding is None:
            continue
        shape, resource = output_shape(tensor, binding.shape), binding.resource
        needed = 0 if shape is None else tensor.bytes_of(shape)
        if resource.initializer:
            if shape is None:
                what = f"output {show(name)} has no static shape"
                raise binding.place.error(f"{what}; bind it with a shape, or to a resource whose values are deferred")
            _check_room(binding, tensor, shape, resource.size_in_bytes)
        else:
            check_known(binding, made, shape is not None)
            made[resource] = Contents(tensor.data_type, None if shape is None else needed, shape or (), needed)
            if shape is not None:
                sizes[resource] = max(sizes.get(resource, 0), needed)
        yield Bound(tensor, shape, Range(binding.place, name, resource, 0, needed))


def _binding(command: Dispatch, tensor: GraphTensor) -> Binding | None:
    """What is bound to a tensor, if anything is: one resource from its first byte on."""
    bindings = command.bindings.get(tensor.name)
    if bindings is None:
        return None
    place = command.place / "bindings" / tensor.name
    if len(bindings) != 1:
        raise place.error(f"{len(bindings)} resources are bound, but an ONNX model's tensor has one")
    (binding,) = bindings
    if binding.offset_in_bytes:
        raise binding.place.error("elementOffset is not 0, but an ONNX model's tensor begins with its resource")
    if tensor.data_type is None:
        raise binding.place.error(f"{show(tensor.name)} is {tensor.kind}, which resources do not hold")
    return binding


def _check_room(binding: Binding, tensor: GraphTensor, shape: Sizes, size: int) -> None:
    needed = tensor.bytes_of(shape)
    if needed > size:
        what = f"{show(binding.resource.name)} has {size} bytes"
        raise binding.place.error(f"{what}, but {show(tensor.name)} of shape {list(shape)} needs {needed}")
