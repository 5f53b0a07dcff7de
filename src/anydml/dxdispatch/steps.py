"""The steps that a model's commands become: which bytes of which resources, in which order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from anydml.dxdispatch.model import Dispatchable, Resource
from anydml.dxdispatch.onnx_models import GraphTensor, OnnxModel
from anydml.files.json_path import JsonPath
from anydml.tensor import DataType


class Contents(NamedTuple):
    """What a resource holds.

    Attributes:
        data_type: of its elements; None where there are several types.
        size: bytes of values without padding; None where that is known only once it is written.
        sizes: of the tensor, where they are known.
        total: bytes of the tensor with its padding.
    """

    data_type: DataType | None
    size: int | None
    sizes: tuple[int, ...] = ()
    total: int = 0


@dataclass(frozen=True, slots=True)
class Range:
    """The bytes of a resource that a tensor is bound to.

    Attributes:
        name: the tensor's, ``"OutputTensors[1]"``.
        initial: whether they are read as they were when the operator was initialised, whatever is written later.
    """

    place: JsonPath
    name: str
    resource: Resource
    start: int
    stop: int
    initial: bool = False


@dataclass(frozen=True)
class DispatchStep:
    """Dispatch an operator, its tensors bound to these ranges, in the desc's order."""

    place: JsonPath
    dispatchable: Dispatchable
    inputs: tuple[Range, ...]
    outputs: tuple[Range, ...]


@dataclass(frozen=True)
class PrintStep:
    """Print the first `count` elements of a resource; None where they are those that it then has."""

    resource: Resource
    data_type: DataType
    count: int | None
    verbose: bool


@dataclass(frozen=True)
class WriteStep:
    """Write a file: raw bytes up to `stop`, or a .npy file of `data_type` and `dimensions`.

    Where `stop` is None, both are what the resource then has.
    """

    place: JsonPath
    resource: Resource
    target: Path
    stop: int | None
    data_type: DataType | None = None
    dimensions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """An input or output of a graph, and what is bound to it.

    Attributes:
        shape: None for an output whose shape is known only once it is there.
        at: the bytes; None where nothing is bound. Of an output without a shape, the resource alone counts.
    """

    tensor: GraphTensor
    shape: tuple[int, ...] | None
    at: Range | None


@dataclass(frozen=True)
class OnnxStep:
    """Run a graph, its inputs and outputs bound by name."""

    place: JsonPath
    dispatchable: OnnxModel
    inputs: tuple[Bound, ...]
    outputs: tuple[Bound, ...]


Step = DispatchStep | OnnxStep | PrintStep | WriteStep
