"""The public names that are imported when the first of them is used: devices, graphs, and more."""

from anydml.device import BoundOperator, CompiledGraph, CompiledOperator, Device
from anydml.functions.nonzero_functions import compress, nonzero_coordinates
from anydml.graph.desc import GraphDesc
from anydml.graph.structs import (
    ConstantDataGraphNodeDesc,
    ExecutionFlags,
    InputGraphEdgeDesc,
    IntermediateGraphEdgeDesc,
    OperatorGraphNodeDesc,
    OutputGraphEdgeDesc,
)

__all__ = [
    "BoundOperator",
    "CompiledGraph",
    "CompiledOperator",
    "ConstantDataGraphNodeDesc",
    "Device",
    "ExecutionFlags",
    "GraphDesc",
    "InputGraphEdgeDesc",
    "IntermediateGraphEdgeDesc",
    "OperatorGraphNodeDesc",
    "OutputGraphEdgeDesc",
    "compress",
    "nonzero_coordinates",
]
