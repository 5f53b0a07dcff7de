"""The steps of a schedule, over byte ranges of resources."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from anydml.dxdispatch.model import Dispatchable, Resource
from anydml.dxdispatch.onnx_models import GraphTensor, OnnxModel
from anydml.files.location import Location
from anydml.tensor import DataType


class Contents(NamedTuple):
    """The contents of a resource.

    Attributes:
        data_type: type of its elements; None if there are several types.
        size: size of its values in bytes, without padding; None if only known at run time.
        sizes: sizes of the tensor; empty if unknown.
        total: size of the tensor in bytes, with padding.
    """

    data_type: DataType | None
    size: int | None
    sizes: tuple[int, ...] = ()
    total: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """The bytes of a resource that a tensor is bound to.

    Attributes:
        name: name of the tensor, such as ``"OutputTensors[1]"``.
        initial: whether the bytes are bound at initialization, so that later writes do not change what is read.
    """

    location: Location
    name: str
    resource: Resource
    start: int
    stop: int
    initial: bool = False


@dataclass(frozen=True)
class DispatchStep:
    """Dispatch an operator, its tensors bound to these ranges in the order of the desc."""

    location: Location
    dispatchable: Dispatchable
    inputs: tuple[Range, ...]
    outputs: tuple[Range, ...]


@dataclass(frozen=True)
class PrintStep:
    """Print the first `count` elements of a resource, a tensor of `sizes`; all elements if `count` is None."""

    resource: Resource
    data_type: DataType
    count: int | None
    verbose: bool
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True)
class WriteStep:
    """Write a file: raw bytes up to `stop`, or a .npy file of `data_type` and `dimensions`.

    If `stop` is None, the size of the resource at that time applies.
    """

    location: Location
    resource: Resource
    target: Path
    stop: int | None
    data_type: DataType | None = None
    dimensions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BoundTensor:
    """An input or output of a graph, and its binding.

    Attributes:
        shape: the shape; None for an output whose shape is only known at run time.
        at: the bytes; None if unbound. For an output without a shape, only the resource applies.
    """

    tensor: GraphTensor
    shape: tuple[int, ...] | None
    at: Range | None


@dataclass(frozen=True)
class OnnxStep:
    """Run a graph, its inputs and outputs bound by name."""

    location: Location
    dispatchable: OnnxModel
    inputs: tuple[BoundTensor, ...]
    outputs: tuple[BoundTensor, ...]


Step = DispatchStep | OnnxStep | PrintStep | WriteStep
