"""Running nodes: what they move is composed region by region, and each region is one program."""

from __future__ import annotations

import textwrap
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anydml.memory.results import empty
from anydml.moves.move import Access, Fill
from anydml.moves.value import Value
from anydml.onnx.budget import SMALL, Budget
from anydml.onnx.compiling import compiled_of
from anydml.onnx.folding import folded
from anydml.onnx.graph import Node
from anydml.onnx.moving import MOST_FACTORS, POSITION, Moving, Write, moved_type
from anydml.onnx.region import Region
from anydml.onnx.values import Array, Flowing, Held, Sizes, Tensor, Tensors

MOST_NODES = 256
"""Nodes of a region."""

MOST_PIECES = 8192
"""Pieces of all values that a region has made: composing takes time for each."""

MOST_WORK = 16 * MOST_FACTORS
"""Factors of the pieces that all nodes of a region compose."""


class Running(Moving):
    """A run of a graph.

    Args:
        budget: is asked before anything is allocated, and holds what is.
        is_fused: whether nodes become programs region by region; otherwise each is one by itself.
        log: is told of every program.

    Attributes:
        programs: how many have run.
    """

    def __init__(self, budget: Budget, is_fused: bool = True, log: Callable[[str], object] | None = None) -> None:
        self.runs = True
        self.budget = budget
        self.programs = 0
        self._is_fused = is_fused
        self._log = log
        self._region = Region()
        self._is_composing = False

    @property
    def composer(self) -> Region:
        """The region."""
        return self._region

    def run(self, node: Node, inputs: Sequence[Flowing | None], decides: bool = False) -> tuple[Flowing, ...]:
        """Run a node, as far as something needs its results now.

        Args:
            node: the node.
            inputs: one a name in ``node.inputs``, None where the name is empty.
            decides: whether sizes may depend on its results.

        Returns:
            One value an output, as many as the operator has for this node; inputs are never changed.

        Raises:
            ModelError: the inputs do not fit the operator, or its results do not fit into memory.
        """
        found = folded(node, inputs) if decides else None
        if found is not None:
            if self._log:
                self._log(f"Alone, because sizes depend on it: {node.label}")
            return found
        try:
            found = self.results(node, inputs)
        finally:
            self._is_composing = False
        region = self._region
        if (
            not self._is_fused
            or region.written
            or len(region.nodes) >= MOST_NODES
            or region.work > MOST_WORK
            or region.pieces > MOST_PIECES
            or region.scratch > SMALL
        ):
            self.flush()
        return found

    def known(self, node: Node, tensor: Tensor, name: str) -> Array:
        """As `Moving.known`."""
        self.stored(tensor)
        assert tensor.array is not None, "it is stored"
        return tensor.array

    def stored(self, *tensors: Tensor) -> bool:
        """As `Moving.stored`."""
        if any(tensor.array is None for tensor in tensors):
            self.flush()
        return True

    def look(self, *tensors: Tensor) -> bool:
        """As `Moving.look`."""
        return self.stored(*tensors)

    def ask(self, node: Node, size: int) -> None:
        """As `Moving.ask`."""
        self.budget.ask(node.label, "what it looks up", size)

    def direct(self, tensor: Tensor) -> None:
        """As `Moving.direct`."""
        if tensor.value is not None and any(_is_looked_up(piece.source) for piece in tensor.value.pieces):
            self.flush()

    def values(self, *tensors: Tensor, times: int = 1) -> list[Value]:
        """As `Moving.values`."""
        work = times * sum(map(_factors, tensors))
        if work > MOST_FACTORS:
            self.flush()
        else:
            self._region.work += work
        # Positions of strings take memory of their own.
        size = sum(tensor.size for tensor in tensors if tensor.dtype.hasobject and tensor.array is not None)
        if size:
            self.budget.ask("strings", "their positions", size * POSITION.itemsize)
        self._is_composing = True
        return [self._region.value_of(tensor) for tensor in tensors]

    def source(self, array: Array) -> Value:
        """As `Moving.source`."""
        self._region.held.append(Held(self.budget, array))
        return self._region.source(array)

    def pattern(self, element: Array) -> bytes:
        """As `Moving.pattern`."""
        one = element.reshape(1)
        return (self._region.positions_of(one) if one.dtype.hasobject else one).tobytes()

    def _kept(self, node: Node, value: Value, dtype: np.dtype[Any], write: Write | None) -> Tensor:
        region = self._region
        tensor = Tensor(dtype, value.sizes, value=value, maker=node.label)
        region.made.append(weakref.ref(tensor))
        region.pieces += len(value.pieces)
        if not region.nodes or region.nodes[-1] != node.label:
            region.nodes.append(node.label)
        if write is not None:
            region.overwrite(tensor, write)
        return tensor

    def computed(
        self, node: Node, shape: Sizes, dtype: np.dtype[Any], make: Callable[[], Array], more: int = 0
    ) -> Tensor:
        """As `Moving.computed`."""
        tensor = Tensor(dtype, shape, maker=node.label)
        self._ask(tensor, more)
        tensor.array = make()
        tensor.held = Held(self.budget, tensor.array)
        if self._log:
            self._log(f"Alone, because NumPy makes it: {node.label}")
        return tensor

    def constant(self, node: Node, tensor: Tensor, make: Callable[[Budget], Array], cost: int) -> Tensor:
        """As `Moving.constant`."""
        self.budget.ask(node.label, "reading its value", cost)
        return self.given(node, make(self.budget))

    def given(self, node: Node, array: Array) -> Tensor:
        """As `Moving.given`."""
        return Tensor(array.dtype, array.shape, array, maker=node.label, held=Held(self.budget, array))

    def _ask(self, tensor: Tensor, more: int = 0) -> None:
        size = tensor.size * max(1, tensor.dtype.itemsize) + more
        self.budget.ask(tensor.maker, f"the result of shape {list(tensor.shape)}", size)

    def flush(self) -> None:
        """Run the program of the region, and begin a new one: all results that are still needed are stored.

        Raises:
            ModelError: they do not fit into memory.
        """
        assert not self._is_composing, "a node that composes has asked for all that it needs before"
        region, self._region = self._region, Region()
        results = region.results()
        if not results:
            return
        try:
            self._store(region, results)
        except BaseException:
            self._region = region
            raise

    def _store(self, region: Region, results: Sequence[Tensor]) -> None:
        targets: list[Array] = []
        held: list[Held] = []
        for tensor in results:
            more = tensor.size * POSITION.itemsize + 2 * 8 * sum(map(len, region.texts)) if region.texts else 0
            self._ask(tensor, more)
            dtype = moved_type(tensor.dtype)
            targets.append(empty(tensor.shape, dtype))
            held.append(Held(self.budget, targets[-1]))
        for tensor in results[len(region.written) :]:
            assert tensor.value is not None, "it is described in the region"
            region.output(tensor.maker, tensor.value)
        made = compiled_of(region)
        if made.own_bytes:
            self.budget.ask(results[0].maker, "what is stored in between", made.own_bytes)
        if made.compiled is not None:
            made.compiled.run((*region.sources, *targets))
            self.programs += 1
        for tensor, target, hold in zip(results, targets, held, strict=True):
            tensor.array, tensor.held, tensor.value = target, hold, None
            if tensor.dtype.hasobject:
                texts = np.concatenate([*region.texts, np.empty(0, object)])
                # Of one place alone, NumPy makes no array, but what is there.
                tensor.array = texts[target.reshape(-1)].reshape(target.shape)
                tensor.held = Held(self.budget, tensor.array)
        if self._log and made.compiled is not None:
            self._log(f"Program of {', '.join(region.nodes)}:\n{textwrap.indent(str(region.program()), '    ')}")


def _is_looked_up(source: Access | Fill) -> bool:
    return isinstance(source, Access) and bool(source.lookups)


def _factors(tensor: Tensor) -> int:
    """Factors that a tensor is described by, about; 0 where it is stored."""
    return 0 if tensor.value is None else len(tensor.value.pieces) * (1 + len(tensor.shape))


def tensors_in(values: Sequence[Flowing]) -> list[Tensor]:
    """All tensors, those of sequences too."""
    return [tensor for each in values for tensor in (each if isinstance(each, Tensors) else (each,))]
