"""Trace a graph under `anydml.fuse`, so that it is composed once for all sizes that its shape arithmetic permits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.errors import BindingError, DescError
from anydml.memory import limits
from anydml.moves.composer import SCRATCH
from anydml.moves.move import Access, all_lookups
from anydml.moves.value import Value
from anydml.onnx.folding import fold
from anydml.onnx.graph import Node
from anydml.onnx.graph_values import INT64, Array, EmptyOptional, GraphValue, Tensor, TensorSequence
from anydml.onnx.lowering import MAX_FACTORS, MAX_WORK, LoweringContext, UnknownElementsError
from anydml.tracing.refusing import refusal
from anydml.tracing.trace import Trace, TracedArray


class TracingContext(LoweringContext):
    """Lowers nodes on traced tensors, and on tensors whose elements follow from sizes and the model.

    Args:
        trace: records the graph.
    """

    # A FuseError tells `fuse` that the graph cannot be traced.
    REWORDED = (DescError, BindingError, IndexError, UnicodeDecodeError)

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace.composer, trace=trace)
        self._work = 0

    def run(self, node: Node, inputs: Sequence[GraphValue | None]) -> tuple[GraphValue, ...]:
        """Fold or lower a node; return its results.

        Raises:
            ModelError: the node refuses its inputs.
            UnknownElementsError: a result depends on elements in ways that moves cannot express.
        """
        results = fold(node, inputs)
        return self.lower(node, inputs) if results is None else results

    def traced_output(self, value: GraphValue) -> Any:
        """Convert a value to an output of the fused function."""
        if isinstance(value, EmptyOptional):
            return None
        if isinstance(value, TensorSequence):
            return [self.traced_output(tensor) for tensor in value]
        composed = self._value_of(value)
        self._count(composed)
        return self.trace.new_array(self.composer.without_sequences(composed), value.dtype)

    def check_memory(self, results: Sequence[TracedArray]) -> None:
        """Check that there is memory for the results and scratch; the comparison becomes a guard of the trace.

        Raises:
            MemoryError: there is not enough memory.
        """
        available = limits.available_memory()
        need = self.composer.total_scratch_bytes() + sum(result.nbytes for result in results)
        if available is not None and need > available:
            raise MemoryError

    def fetch(self, *tensors: Tensor) -> bool:
        """See `LoweringContext.fetch`."""
        if any(tensor.array is None for tensor in tensors):
            raise UnknownElementsError("elements")
        return True

    def fetch_optional(self, *tensors: Tensor) -> bool:
        """See `LoweringContext.fetch_optional`."""
        return all(tensor.array is not None for tensor in tensors)

    def values(self, *tensors: Tensor, times: int = 1) -> list[Value]:
        """See `LoweringContext.values`."""
        values = super().values(*tensors)
        if self._count(*values, times=times) > MAX_FACTORS:
            return [self.composer.store(value, "many pieces are composed") for value in values]
        return values

    def _count(self, *values: Value, times: int = 1) -> int:
        """Count the factors that are composed of values.

        Raises:
            FuseError: there are too many nodes for one graph.
        """
        work = times * sum([len(value.pieces) * (1 + len(value.sizes)) for value in values])
        self._work += work
        if self._work > MAX_WORK:
            raise refusal("a graph of so many pieces", "its regions are composed one after the other")
        return work

    def source(self, array: Array) -> Value:
        """See `LoweringContext.source`."""
        if array.dtype.hasobject:
            raise UnknownElementsError("strings")
        return self.composer.constant("a constant", array)

    def pattern(self, element: Array) -> bytes:
        """See `LoweringContext.pattern`."""
        if element.dtype.hasobject:
            raise UnknownElementsError("strings")
        return element.tobytes()

    def _record_result(self, node: Node, value: Value, dtype: np.dtype[Any]) -> Tensor:
        sources = [piece.source for piece in value.pieces if isinstance(piece.source, Access)]
        lookups = [lookup for source in sources for lookup in all_lookups(source.lookups)]
        if any(lookup.outside == "error" and lookup.operand >= SCRATCH for lookup in lookups):
            # Indices are checked before anything moves.
            raise UnknownElementsError("whether indices are in range")
        return Tensor(dtype, value.sizes, value=value, maker=node.label)

    def counted_result(
        self, node: Node, start: Any, count: int, step: Any, dtype: np.dtype[Any], make: Callable[[], Array]
    ) -> Tensor:
        """See `LoweringContext.counted_result`."""
        if dtype != INT64:
            return self.computed_result(node, (count,), dtype, make)
        return Tensor(dtype, (count,), value=self.composer.arithmetic_sequence(start, count, step), maker=node.label)
