"""What all rewritings of nodes that compute do: read a graph's nodes in order, and write others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anydml.slim.following import Following
from anydml.slim.graph import Op
from anydml.slim.sizes import StandIns


class Rewriting:
    """A way to write the nodes of a graph.

    Args:
        following: the graph's values.
        stand_ins: the sizes of `following`.
        spare: how many more nodes that move there may be than now.
    """

    def __init__(self, following: Following, stand_ins: StandIns, spare: int = 0) -> None:
        self._following, self._graph, self._values = following, following.graph, following.values
        self._stand_ins, self._spare = stand_ins, spare
        self._ops: list[Op] = []

    def rewritten(self) -> list[Op] | None:
        """The new nodes; None where nothing is to be rewritten."""
        raise NotImplementedError

    def _integers(self, base: str, numbers: Sequence[int]) -> str:
        return self._graph.constant(base, np.array(numbers, np.int64))

    def _reshape(self, name: str, shape: Sequence[int], output: str) -> str:
        return self._add("Reshape", [name, self._integers(name, shape)], output)

    def _add(self, kind: str, inputs: Sequence[str], output: str, label: str = "", **attributes: Any) -> str:
        """Write a node; return what it makes, which has a new name if `output` is empty."""
        output = output or self._graph.new_name(label or inputs[0], kind.lower())
        self._ops.append(Op.make(kind, inputs, [output], label or self._graph.new_name(output, kind), **attributes))
        return output
