"""The analyses of one graph for several sets of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from anydml.slim.analysis import Analysis
from anydml.slim.graph import Graph
from anydml.slim.sizes import StandIns


class Analyses:
    """The analyses of a graph.

    Args:
        graph: the graph.
        stand_ins: sets of numbers that stand for symbolic sizes; the first is planned for.
        before: the analyses of another graph of this model.

    Attributes:
        graph: the graph.
        first: the analysis for the first set.
    """

    def __init__(self, graph: Graph, stand_ins: Sequence[StandIns], before: Analyses | None = None) -> None:
        self.graph, self._stand_ins, self._before = graph, stand_ins, before
        self.first: Analysis = Analysis(graph, stand_ins[0].sizes, None if before is None else before.first)

    @cached_property
    def all(self) -> list[Analysis]:
        """The analyses for all sets; made only if a graph cannot be proved for all sizes."""
        before = None if self._before is None else self._before.__dict__.get("all")
        numbered = enumerate(self._stand_ins[1:], 1)
        return [self.first, *(Analysis(self.graph, analysis.sizes, before and before[k]) for k, analysis in numbered)]

    def of(self, graph: Graph) -> Analyses:
        """Return the analyses of another graph of this model."""
        return Analyses(graph, self._stand_ins, self)
