"""The base of all rewrites: they read a graph's nodes in order, and write others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from anydml.slim.analysis import Analysis
from anydml.slim.graph import Op
from anydml.slim.sizes import StandIns


class Rewrite:
    """A way to rewrite nodes that compute.

    Args:
        analysis: the analysis of the graph.
        stand_ins: the sizes of `analysis`.
        spare: the number of movement nodes that may be added.

    Attributes:
        title: the name of the rewrite, for messages.
        is_exact: whether results stay the same bit for bit; otherwise products have other shapes, and runtimes may add
            their terms in another order.
    """

    title: ClassVar[str]
    is_exact: ClassVar[bool] = True

    def __init__(self, analysis: Analysis, stand_ins: StandIns, spare: int) -> None:
        self._analysis, self._graph, self._values = analysis, analysis.graph, analysis.values
        self._stand_ins, self._spare = stand_ins, spare
        self._ops: list[Op] = []

    def new_nodes(self) -> list[Op] | None:
        """Return the new nodes; None if there is nothing to rewrite."""
        raise NotImplementedError

    def _are_known(self, *names: str) -> bool:
        """Whether the shapes of values are known; empty names are ignored."""
        values = (self._values.get(name) for name in names if name)
        return all(value is not None and value.tensor is not None for value in values)

    def _is_single(self, name: str) -> bool:
        """Whether a value is known to have one element."""
        value = self._values.get(name)
        return value is not None and value.tensor is not None and value.tensor.size == 1

    def _integers(self, base: str, numbers: Sequence[int]) -> str:
        return self._graph.constant(base, np.array(numbers, np.int64))

    def _reshape(self, name: str, shape: Sequence[int], output: str) -> str:
        return self._add("Reshape", [name, self._integers(name, shape)], output)

    def _add(self, op_type: str, inputs: Sequence[str], output: str, label: str = "", **attributes: Any) -> str:
        """Write a node; return the name of its output: `output`, or a new name if that is empty."""
        output = output or self._graph.new_name(label or inputs[0], op_type.lower())
        self._ops.append(
            Op.make(op_type, inputs, [output], label or self._graph.new_name(output, op_type), **attributes)
        )
        return output
