"""Run nodes eagerly: their moves are composed region by region, and each region runs as one program."""

from __future__ import annotations

import textwrap
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.memory.results import empty
from anydml.moves.move import Access, Fill
from anydml.moves.value import Value
from anydml.onnx.budget import UNQUERIED_GROWTH, Budget
from anydml.onnx.folding import fold
from anydml.onnx.graph import Node
from anydml.onnx.graph_values import Array, GraphValue, Reservation, Sizes, Tensor, TensorSequence
from anydml.onnx.lowering import MAX_FACTORS, MAX_WORK, POSITION, LoweringContext, moved_type
from anydml.onnx.region import Region
from anydml.tracing.trace import TracedArray

MAX_NODES = 256
"""Largest number of nodes in a region."""

MAX_PIECES = 8192
"""Largest number of pieces in a region, each of which takes time to compose."""


class RunningContext(LoweringContext):
    """A run of a graph.

    Args:
        budget: checked before each allocation; holds the results.
        is_fused: whether to compose nodes to regions; otherwise each node is a region.
        log: called with a description of every program.

    Attributes:
        programs: the number of programs that have run.
    """

    composer: Region

    def __init__(self, budget: Budget, is_fused: bool = True, log: Callable[[str], object] | None = None) -> None:
        super().__init__(Region(), budget)
        self.programs = 0
        self._is_fused = is_fused
        self._log = log
        self._is_composing = False

    def run(self, node: Node, inputs: Sequence[GraphValue | None], decides: bool = False) -> tuple[GraphValue, ...]:
        """Lower a node, and run the region if it is full.

        Args:
            node: the node.
            inputs: one per name in ``node.inputs``, None for empty names.
            decides: whether sizes may depend on its results.

        Returns:
            One value per output; inputs are never modified.

        Raises:
            ModelError: the node refuses its inputs, or results do not fit into memory.
        """
        results = fold(node, inputs) if decides else None
        if results is not None:
            if self._log:
                self._log(f"Alone, because sizes depend on it: {node.label}")
            return results
        try:
            results = self.lower(node, inputs)
        finally:
            self._is_composing = False
        region = self.composer
        if (
            not self._is_fused
            or len(region.nodes) >= MAX_NODES
            or region.work > MAX_WORK
            or region.pieces > MAX_PIECES
            or region.total_scratch_bytes() > UNQUERIED_GROWTH
        ):
            self.flush()
        return results

    def known_elements(self, node: Node, tensor: Tensor, name: str) -> Array:
        """See `LoweringContext.known_elements`."""
        self.fetch(tensor)
        assert tensor.array is not None, "it is fetched"
        return tensor.array

    def fetch(self, *tensors: Tensor) -> bool:
        """See `LoweringContext.fetch`."""
        if any(tensor.array is None for tensor in tensors):
            self.flush()
        return True

    def resolve_lookups(self, tensor: Tensor) -> None:
        """See `LoweringContext.resolve_lookups`."""
        if tensor.value is not None and any(_is_looked_up(piece.source) for piece in tensor.value.pieces):
            self.flush()

    def values(self, *tensors: Tensor, times: int = 1) -> list[Value]:
        """See `LoweringContext.values`."""
        work = times * sum(map(_factors, tensors))
        if work > MAX_FACTORS:
            self.flush()
        else:
            self.composer.work += work
        # The positions of strings take further memory.
        size = sum(tensor.size for tensor in tensors if tensor.dtype.hasobject and tensor.array is not None)
        if size:
            self.budget.ask("strings", "their positions", size * POSITION.itemsize)
        self._is_composing = True
        return super().values(*tensors)

    def constant(self, array: Array) -> TracedArray:
        """See `LoweringContext.constant`."""
        self.composer.reservations.append(Reservation(self.budget, array))
        return super().constant(array)

    def source(self, array: Array) -> Value:
        """See `LoweringContext.source`."""
        return self.composer.source(array)

    def pattern(self, element: Array) -> bytes:
        """See `LoweringContext.pattern`."""
        scalar = element.reshape(1)
        return (self.composer.positions_of(scalar) if scalar.dtype.hasobject else scalar).tobytes()

    def _record_result(self, node: Node, value: Value, dtype: np.dtype[Any]) -> Tensor:
        region = self.composer
        tensor = Tensor(dtype, value.sizes, value=value, maker=node.label)
        region.references.append(weakref.ref(tensor))
        region.pieces += len(value.pieces)
        if not region.nodes or region.nodes[-1] != node.label:
            region.nodes.append(node.label)
        return tensor

    def computed_result(
        self, node: Node, shape: Sizes, dtype: np.dtype[Any], make: Callable[[], Array], working_bytes: int = 0
    ) -> Tensor:
        """See `LoweringContext.computed_result`."""
        tensor = super().computed_result(node, shape, dtype, make, working_bytes)
        if self._log:
            self._log(f"Alone, because NumPy makes it: {node.label}")
        return tensor

    def flush(self) -> None:
        """Run the program of the region, which stores all live results, and begin a new region.

        Raises:
            ModelError: the results do not fit into memory.
        """
        assert not self._is_composing, "a node must request elements before it composes values"
        # The budget reserves the memory of the region's inputs until the region has run.
        region, reads = self.composer, self._sources
        self.composer = Region()
        results = region.results()
        if not results:
            return
        try:
            self._store(region, results)
        except BaseException:
            self.composer, self._sources = region, reads
            raise

    def _store(self, region: Region, results: Sequence[Tensor]) -> None:
        targets: list[Array] = []
        reservations: list[Reservation] = []
        for tensor in results:
            text_bytes = tensor.size * POSITION.itemsize + 2 * 8 * sum(map(len, region.texts)) if region.texts else 0
            self._require_result(tensor, text_bytes)
            dtype = moved_type(tensor.dtype)
            targets.append(empty(tensor.shape, dtype))
            reservations.append(Reservation(self.budget, targets[-1]))
        for tensor in results:
            assert tensor.value is not None, "it is described in the region"
            region.output(tensor.maker, tensor.value)
        compiled = region.compiled()
        if compiled.own_bytes:
            self.budget.ask(results[0].maker, "scratch memory", compiled.own_bytes)
        if compiled.program is not None:
            compiled.program.run((*region.sources, *targets))
            self.programs += 1
        for tensor, target, reservation in zip(results, targets, reservations, strict=True):
            tensor.array, tensor.reservation, tensor.value = target, reservation, None
            if tensor.dtype.hasobject:
                texts = np.concatenate([*region.texts, np.empty(0, object)])
                # A 0-d index array would return a string rather than an array.
                tensor.array = texts[target.reshape(-1)].reshape(target.shape)
                tensor.reservation = Reservation(self.budget, tensor.array)
        if self._log and compiled.program is not None:
            self._log(f"Program of {', '.join(region.nodes)}:\n{textwrap.indent(str(region.whole_program()), '    ')}")


def _is_looked_up(source: Access | Fill) -> bool:
    return isinstance(source, Access) and bool(source.lookups)


def _factors(tensor: Tensor) -> int:
    """Return the approximate number of factors of a composed tensor; 0 for a stored one."""
    return 0 if tensor.value is None else len(tensor.value.pieces) * (1 + len(tensor.shape))


def tensors_in(values: Sequence[GraphValue]) -> list[Tensor]:
    """Return all tensors, including those in sequences."""
    return [tensor for value in values for tensor in (value if isinstance(value, TensorSequence) else (value,))]
