"""Checks that rewrites preserve a graph's results: finds values of the new graph that are not proved equal."""

from __future__ import annotations

from collections.abc import Sequence

from anydml.errors import ModelError
from anydml.onnx.checks import inline_functions
from anydml.proving.orders import as_integers
from anydml.proving.rewrites import Proofs
from anydml.proving.sizes import Size
from anydml.slim.analyses import Analyses
from anydml.slim.analysis import Analysis
from anydml.slim.bodies import Slim, with_slimmed_bodies
from anydml.slim.comparing import analyses_at_sizes, differing
from anydml.slim.folding import Folding, plain
from anydml.slim.graph import Graph
from anydml.slim.halves import with_halves
from anydml.slim.roots import with_divisions
from anydml.slim.scales import ScaleMerging
from anydml.slim.zeros import ZeroSums


class EquivalenceChecker:
    """Compares successive graphs of one model; terms of one graph are reused for the next.

    Args:
        graph: the graph of the model.
        names: names of symbolic sizes.

    Attributes:
        refused: names of composed values that were not proved equal; later graphs would compose them in the same way.
    """

    def __init__(self, graph: Graph, names: Sequence[str]) -> None:
        self._names = names
        self.refused: set[str] = set()
        self._proofs = Proofs(graph.constants, names, bool(names)) if _is_inlined(graph) else None
        self._graph: Graph | None = None
        self._others: list[Analysis] = []

    def without_folded(self, graph: Graph, with_sizes: bool) -> Graph | None:
        """Return a graph without nodes whose results are constant, equal to others, or unused; None if nothing changes.

        Args:
            graph: the graph.
            with_sizes: see `Folding`.
        """
        if self._proofs is None:
            return None
        folded_graph = plain(graph)
        ops = Folding(folded_graph, {**self._proofs.terms(folded_graph.bare)}, with_sizes).remaining_nodes()
        folded_graph = folded_graph if ops is None else folded_graph.with_ops(ops)
        return (
            folded_graph
            if folded_graph is not graph and self._proofs.are_proved(graph.bare, folded_graph.bare)
            else None
        )

    def without_zeros(self, graph: Graph) -> Graph | None:
        """Return a graph without sums with 0, if that only changes signs of zeros; None if there are none."""
        ops = None if self._proofs is None else ZeroSums(graph, self._proofs.terms(graph.bare)).remaining_nodes()
        return None if ops is None else graph.with_ops(ops)

    def with_scales(self, graph: Graph) -> Graph | None:
        """Return a graph with factors and biases merged into weights, if it is equal for real numbers; or None."""
        ops = None if self._proofs is None else ScaleMerging(graph, self._proofs.terms(graph.bare)).remaining_nodes()
        if ops is None:
            return None
        merged = graph.with_ops(ops)
        proofs = Proofs(graph.constants, self._names, form="merged")
        return merged if proofs.are_proved(graph.bare, merged.bare) else None

    def with_halves(self, graph: Graph) -> Graph | None:
        """Return a graph with the inputs of Gelus halved, which differs for subnormal numbers alone; or None."""
        if self._proofs is None or not any(op.op_type == "Erf" for op in graph.ops):
            return None
        ops = with_halves(graph, self._proofs.terms(graph.bare))
        return None if ops is None else graph.with_ops(ops)

    def with_divisions(self, graph: Graph) -> Graph | None:
        """Return a graph with Div for reciprocals of roots; None if there are none."""
        if self._proofs is None or not any(op.op_type == "Reciprocal" for op in graph.ops):
            return None
        ops = with_divisions(graph, self._proofs.terms(graph.bare))
        if ops is None:
            return None
        divided = graph.with_ops(ops)
        return divided if self._proofs.are_proved(graph.bare, divided.bare) else None

    def sizes(self, graph: Graph) -> list[Size]:
        """Return the sizes of all values in a graph that are known as polynomials."""
        if self._proofs is None or not self._names:
            return []
        terms = {term.number: term for term in self._proofs.terms(graph.bare).values() if term is not None}
        return [*dict.fromkeys(size for term in terms.values() for size in term.shape or ())]

    def limits(self) -> dict[str, int]:
        """Return numbers that sizes may not exceed in graphs that were read, as far as these are known, by name."""
        return {} if self._proofs is None else self._proofs.limits()

    def with_bodies(self, graph: Graph, slim: Slim) -> Graph:
        """Return a graph with slimmed and proved bodies; the graph itself if no body can be improved."""
        if self._proofs is None or not any(op.captured for op in graph.ops):
            return graph
        result = with_slimmed_bodies(graph, self._proofs.inner(graph.bare), slim)
        return result if result is not graph and self._proofs.are_proved(graph.bare, result.bare) else graph

    def is_constant(self, graph: Graph, name: str) -> bool | None:
        """Whether a value of a graph is the same constant for all sizes; None if unknown."""
        if self._proofs is None or not self._names:
            return None
        term = self._proofs.terms(graph.bare).get(name)
        if term is None or term.kind in ("constant", "sizes"):
            return None if term is None else term.is_constant
        return False if term.shape is not None and as_integers(term.shape) is None else None

    def unequal_values(self, before: Analyses, after: Analyses, is_compared: bool = True) -> set[str]:
        """Return the names of values that are not known to be equal.

        Args:
            before: the analyses of a graph.
            after: the analyses of another graph, which has the same nodes that compute.
            is_compared: whether to compare them also at the sizes of these analyses.
        """
        if self._names and self.are_equal(before.graph, after.graph):
            return set()
        pairs = zip(before.all, after.all, strict=True) if is_compared else ()
        wrong = {name for old, new in pairs for name in differing(old, new)}
        # Values that differ at these sizes are rewritten, and the result is compared at other sizes.
        return wrong or self._unequal_at_other_sizes(before.graph, after.graph)

    def are_equal(self, before: Graph, after: Graph) -> bool:
        """Whether two graphs are proved to have the same results."""
        return self._proofs is not None and self._proofs.are_proved(before.bare, after.bare)

    def _unequal_at_other_sizes(self, before: Graph, after: Graph) -> set[str]:
        """Return the names of values that differ for small sizes, large ones, and sizes in another order.

        Values that are unknown in the first graph, or too large to be compared one by one, are judged by their shapes.
        """
        if self._graph is None:
            self._others = [*analyses_at_sizes(before, self._names)]
        elif self._graph is not before:
            self._others = [Analysis(before, analysis.sizes, analysis) for analysis in self._others]
        self._graph = before
        wrong, written = set[str](), list[Analysis]()
        for analysis_of_sizes in self._others:
            written.append(Analysis(after, analysis_of_sizes.sizes, analysis_of_sizes))
            wrong.update(differing(analysis_of_sizes, written[-1], by_shape=True))
        if not wrong:
            self._graph, self._others = after, written
        return wrong


def _is_inlined(graph: Graph) -> bool:
    """Whether proofs can read a graph: they do not support functions."""
    try:
        inline_functions(graph.bare)
    except ModelError:
        return False
    return True
