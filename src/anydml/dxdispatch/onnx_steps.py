"""Schedule dispatches of ONNX models, and track the contents of deferred resources."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from anydml.dxdispatch.model import Binding, Dispatch, Resource
from anydml.dxdispatch.onnx_models import GraphTensor, OnnxModel, Sizes, input_shape, output_shape
from anydml.dxdispatch.steps import BoundTensor, Contents, OnnxStep, Range
from anydml.files.location import Location, show
from anydml.tensor import DataType
from anydml.text import count_noun


def contents_of(resource: Resource, written: Mapping[Resource, Contents], location: Location) -> Contents:
    """Return the contents of a deferred resource.

    Raises:
        ModelError: no dispatch has written it yet.
    """
    if resource not in written:
        raise location.error(f"{show(resource.name)} is deferred, and no dispatch has written it yet")
    return written[resource]


def size_of(binding: Binding, written: Mapping[Resource, Contents]) -> int:
    """Return the size in bytes of a binding's resource.

    Raises:
        ModelError: the resource is deferred, and is not written yet or its size is only known at run time.
    """
    resource = binding.resource
    if resource.initializer:
        return resource.size_in_bytes
    contents = contents_of(resource, written, binding.location)
    if contents.size is None:
        name = show(resource.name)
        raise binding.location.error(f"the size of {name} is known only once it is written; bind it there with a shape")
    return contents.total


def check_known(binding: Binding, written: Mapping[Resource, Contents], is_known: bool) -> None:
    """Check that the size of a deferred resource is known in advance for all dispatches that write it, or for none.

    Raises:
        ModelError: an earlier dispatch differs.
    """
    contents = written.get(binding.resource)
    if contents is not None and (contents.size is not None) != is_known:
        message = f"{show(binding.resource.name)} is written with a shape that is known, and with one that is not"
        raise binding.location.error(f"{message}; bind another resource")


def check_dimensions(location: Location, resource: Resource, dimensions: Sizes, data_type: DataType, stop: int) -> None:
    """Check that a resource of `stop` bytes holds an array of these dimensions.

    Raises:
        ModelError: the array is larger.
    """
    tensor_bytes = math.prod(dimensions) * data_type.itemsize
    if tensor_bytes > stop:
        size_text = f"{list(dimensions)} of {data_type} are {tensor_bytes} bytes"
        raise location.error(f"{size_text}, but {show(resource.name)} has {stop}")


def onnx_step(
    command: Dispatch, run: OnnxModel, sizes: dict[Resource, int], written: dict[Resource, Contents]
) -> OnnxStep:
    """Schedule a dispatch of an ONNX model.

    Args:
        command: the dispatch.
        run: the model of the command.
        sizes: sizes of resources in bytes; updated with the deferred resources that the dispatch writes.
        written: contents of deferred resources; updated in the same way.

    Raises:
        ModelError: a binding does not match its tensor.
    """
    inputs = tuple(_inputs(command, run, written))
    return OnnxStep(command.location, run, inputs, tuple(_outputs(command, run, sizes, written)))


def _inputs(command: Dispatch, run: OnnxModel, written: Mapping[Resource, Contents]) -> Iterator[BoundTensor]:
    for name, tensor in run.inputs.items():
        binding = _binding(command, tensor)
        location = binding.location if binding else command.location / "bindings" / name
        shape = input_shape(tensor, binding.shape if binding else (), location)
        if binding is None:
            yield BoundTensor(tensor, shape, None)
            continue
        tensor_bytes, size = tensor.bytes_of(shape), size_of(binding, written)
        _check_room(binding, tensor, shape, size)
        yield BoundTensor(tensor, shape, Range(binding.location, name, binding.resource, 0, tensor_bytes))


def _outputs(
    command: Dispatch, run: OnnxModel, sizes: dict[Resource, int], written: dict[Resource, Contents]
) -> Iterator[BoundTensor]:
    for name, tensor in run.outputs.items():
        binding = _binding(command, tensor)
        if binding is None:
            continue
        shape, resource = output_shape(tensor, binding.shape), binding.resource
        tensor_bytes = 0 if shape is None else tensor.bytes_of(shape)
        if resource.initializer:
            if shape is None:
                message = f"output {show(name)} has no static shape"
                raise binding.location.error(
                    f"{message}; bind it with a shape, or to a resource whose values are deferred"
                )
            _check_room(binding, tensor, shape, resource.size_in_bytes)
        else:
            check_known(binding, written, shape is not None)
            written[resource] = Contents(
                tensor.data_type, None if shape is None else tensor_bytes, shape or (), tensor_bytes
            )
            if shape is not None:
                sizes[resource] = max(sizes.get(resource, 0), tensor_bytes)
        yield BoundTensor(tensor, shape, Range(binding.location, name, resource, 0, tensor_bytes))


def _binding(command: Dispatch, tensor: GraphTensor) -> Binding | None:
    """Return the binding of a tensor, which must be one whole resource; None if it is unbound."""
    bindings = command.bindings.get(tensor.name)
    if bindings is None:
        return None
    location = command.location / "bindings" / tensor.name
    if len(bindings) != 1:
        raise location.error(
            f"{count_noun(len(bindings), 'resource')} bound, but a tensor of an ONNX model must have one"
        )
    (binding,) = bindings
    if binding.offset_in_bytes:
        raise binding.location.error("elementOffset is not 0, but an ONNX model's tensor begins with its resource")
    if tensor.data_type is None:
        raise binding.location.error(f"{show(tensor.name)} is {tensor.kind}, which resources do not hold")
    return binding


def _check_room(binding: Binding, tensor: GraphTensor, shape: Sizes, size: int) -> None:
    tensor_bytes = tensor.bytes_of(shape)
    if tensor_bytes > size:
        available = f"{show(binding.resource.name)} has {size} bytes"
        raise binding.location.error(
            f"{available}, but {show(tensor.name)} of shape {list(shape)} needs {tensor_bytes}"
        )
