"""Constant folding of shape arithmetic: evaluate nodes on few known elements, which may be open sizes.

Exporters compute sizes in the graph by Shape, Gather, Mul, Concat … While a graph is traced, these sizes are open (see
`anydml.tracing.open_sizes`), and are stored in arrays of objects rather than of machine integers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from onnx import TensorProto

from anydml.engines.reference.literal import SKIPPED, address
from anydml.moves.composer import INPUT, OUTPUT
from anydml.moves.move import Fill, Move
from anydml.moves.value import Value
from anydml.onnx.budget import Budget
from anydml.onnx.graph import Node
from anydml.onnx.graph_values import MAX_SHAPE_ELEMENTS, Array, GraphValue, Sizes, Tensor, constant_array
from anydml.onnx.lowering import LoweringContext, ShapeContext, UnknownElementsError
from anydml.tracing.open_sizes import is_open


class FoldingContext(ShapeContext):
    """Evaluates nodes with known inputs, element by element.

    Args:
        max_elements: largest number of elements of a result.
        budget: checked before each allocation.
    """

    runs = True

    def __init__(self, max_elements: int, budget: Budget | None) -> None:
        super().__init__(budget)
        self._most = max_elements
        self._elements: dict[int, list[Any]] = {}
        self._arrays: dict[int, tuple[Array, np.dtype[Any]]] = {}

    def fetch(self, *tensors: Tensor) -> bool:
        """See `LoweringContext.fetch`."""
        return True

    def values(self, *tensors: Tensor, times: int = 1) -> list[Value]:
        """See `LoweringContext.values`."""
        return [self._value(tensor.array, tensor.dtype) for tensor in tensors if tensor.array is not None]

    def source(self, array: Array) -> Value:
        """See `LoweringContext.source`."""
        return self._value(array, array.dtype)

    def _value(self, array: Array, dtype: np.dtype[Any]) -> Value:
        flat = array.reshape(-1)
        self._arrays[INPUT + len(self._elements)] = flat, dtype
        self._elements[INPUT + len(self._elements)] = flat.tolist()
        return self._input(array.shape, dtype)

    def pattern(self, element: Array) -> bytes:
        """See `LoweringContext.pattern`."""
        return element.tobytes()

    def _record_result(self, node: Node, value: Value, dtype: np.dtype[Any]) -> Tensor:
        count = math.prod(value.sizes)
        if is_open(value.sizes) or count > self._most:
            raise UnknownElementsError(node.label)
        if self.composer.total_scratch_bytes() > dtype.itemsize * self._most:
            raise UnknownElementsError(node.label)
        elements = self._run_moves(self.composer.moves_to_store(value), dtype)
        array = constant_array([elements[k] for k in range(count)], dtype, value.sizes)
        return Tensor(dtype, value.sizes, array, maker=node.label)

    def _run_moves(self, moves: Sequence[Move], dtype: np.dtype[Any]) -> Mapping[int, Any]:
        """Run moves; return the elements of the output, by number."""
        memory: dict[int, Any] = {**self._elements, OUTPUT: {}}

        def read(operand: int, offset: int, size: int) -> bytes:
            if operand not in memory:
                return np.asarray(self.composer.operand(operand).value)[offset : offset + size].tobytes()
            index = int(memory[operand][offset // size])
            return index.to_bytes(size, sys.byteorder, signed=index < 0)

        for sizes, destination, source, size in moves:
            for at in product(*map(range, sizes)):
                to = address(destination, at, read)
                start = 0 if isinstance(source, Fill) else address(source, at, read)
                if SKIPPED in (to, start):
                    continue
                if isinstance(source, Fill):
                    element = np.frombuffer(source.pattern, dtype)[0].item()
                elif source.operand in memory:
                    element = self._element(memory, source.operand, start // size, dtype)
                else:
                    element = np.frombuffer(read(source.operand, start, size), dtype)[0].item()
                memory.setdefault(destination.operand, {})[to // size] = element
        elements: Mapping[int, Any] = memory[OUTPUT]
        return elements

    def _element(self, memory: Mapping[int, Any], operand: int, k: int, dtype: np.dtype[Any]) -> Any:
        """Return an element of an operand; if the operand has another dtype, the bits are reinterpreted."""
        array, own_dtype = self._arrays.get(operand, (None, dtype))
        if array is None or own_dtype == dtype:
            return memory[operand][k]
        if array.dtype != own_dtype:
            raise UnknownElementsError(f"bits of {memory[operand][k]}")
        return array[k : k + 1].view(dtype)[0].item()

    def computed_result(
        self, node: Node, shape: Sizes, dtype: np.dtype[Any], make: Callable[[], Array], working_bytes: int = 0
    ) -> Tensor:
        """See `LoweringContext.computed_result`."""
        if is_open(shape) or math.prod(shape) > self._most:
            raise UnknownElementsError(node.label)
        array = make()
        return Tensor(dtype, shape, constant_array(array.reshape(-1).tolist(), dtype, shape), maker=node.label)

    def constant_result(self, node: Node, tensor: Tensor, make: Callable[[Budget], Array], cost: int) -> Tensor:
        """See `LoweringContext.constant_result`."""
        is_external = any(attribute.t.data_location == TensorProto.EXTERNAL for attribute in node.attributes.values())
        if tensor.dtype.hasobject or tensor.size > self._most or is_external:
            raise UnknownElementsError(node.label)
        return LoweringContext.constant_result(self, node, tensor, make, cost)


def fold(
    node: Node,
    inputs: Sequence[GraphValue | None],
    max_elements: int = MAX_SHAPE_ELEMENTS,
    budget: Budget | None = None,
) -> tuple[GraphValue, ...] | None:
    """Evaluate a node whose inputs and results have few, known elements; return None for any other node.

    Args:
        node: the node.
        inputs: one per name in ``node.inputs``, None for empty names.
        max_elements: largest number of elements of an input or result.
        budget: checked before each allocation.

    Raises:
        ModelError: the node refuses its inputs.
    """
    for value in inputs:
        is_few = isinstance(value, Tensor) and value.array is not None and value.size <= max_elements
        if value is not None and not (is_few and not value.dtype.hasobject):  # type: ignore[union-attr]  # a tensor
            return None
    try:
        return FoldingContext(max_elements, budget).lower(node, inputs)
    except UnknownElementsError:
        return None
