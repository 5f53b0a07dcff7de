"""The choice of expressions for the results of regions: those of the graph's own nodes, or cheaper ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from anydml.slim.analyses import Analyses
from anydml.slim.costs import SHAPE_OPERATORS, Cost
from anydml.slim.equivalence import EquivalenceChecker
from anydml.slim.expressions import Expr, cost, in_order, operators_of, with_splits
from anydml.slim.graph import Op
from anydml.slim.regions import Key, Region, Regions, merge_slices
from anydml.slim.search import Search
from anydml.slim.sizes import StandIns

MAX_SHARING = 1 << 14
"""Maximum number of expressions that are tried in a region so that its results share more nodes."""

OPSET_OF_SPLIT = 13
"""First opset in which Split takes its lengths as an input."""

MAX_PIECES = 1000
"""Maximum number of pieces, beyond one per node, that the search for expressions handles in all."""

FOLDED_BYTES = 1 << 16
"""Largest size of a new constant, in bytes, that is larger than the constants that it is moved from."""


class Plan:
    """Chooses the cheapest expression for each value of a graph.

    Args:
        analyses: the analyses of the graph.
        stand_ins: the sizes of the first analysis.
        known_costs: costs of regions that have been planned before.
        checker: tells which values are constant for all sizes, and which regions must stay.

    Attributes:
        analysis: the first analysis.
        builder: builds expressions.
        regions: all regions in order.
        chosen: expressions of the results of regions that change, by name.
        before: cost of all movement.
        after: cost of all movement with the plan.
    """

    def __init__(
        self, analyses: Analyses, stand_ins: StandIns, known_costs: Mapping[Key, Cost], checker: EquivalenceChecker
    ) -> None:
        self.analysis, self._analyses, self._checker = analyses.first, analyses, checker
        self._stand_ins = stand_ins
        self._regions = Regions(self.analysis, stand_ins)
        self.builder, self.regions = self._regions.builder, self._regions.all
        self.chosen: dict[str, Expr] = {}
        self._best: dict[str, Expr] = {}
        self._ways: dict[str, list[Expr]] = {}
        self._folded: dict[str, bool] = {}
        self._constant_sources: dict[str, frozenset[str]] = {}
        self._left = MAX_PIECES + len(self.analysis.graph.ops)
        for region in self.regions:
            if region.key in known_costs:
                region.before = region.after = known_costs[region.key]
            else:
                self._choose(region)
        self.before = Cost.sum(region.before for region in self.regions)
        self.after = Cost.sum(region.after for region in self.regions)

    def replaces(self, op: Op) -> bool:
        """Whether a node is removed, because its region changes."""
        region = self._regions.region_of(next((name for name in op.outputs if name), ""))
        return region is not None and region.after != region.before

    def changes(self, names: Iterable[str]) -> bool:
        """Whether the nodes of one of the values change."""
        return any(name in self.chosen or self._folded.get(name) for name in names)

    def expr(self, name: str) -> Expr:
        """Return the expression of a value."""
        region = self._regions.region_of(name)
        return self.chosen.get(name) or (self._expr(name) if region is None else self._exprs(region)[name])

    def is_folded(self, name: str) -> bool:
        """Whether a value becomes a constant, because its elements are known and do not depend on symbolic sizes."""
        if name not in self._folded:
            self._folded[name] = name not in self._checker.refused and self._is_known(name)
        return self._folded[name]

    def _is_known(self, name: str) -> bool:
        value = self.analysis.values.get(name)
        if value is None or value.is_constant or value.array is None:
            return False
        if (is_constant := self._checker.is_constant(self.analysis.graph, name)) is not None:
            return is_constant
        arrays = [analysis.values[name].array for analysis in self._analyses.all[1:]]
        return all(array is not None and np.array_equal(array, value.array) for array in arrays)

    def _choose(self, region: Region) -> None:
        old = self._regions.originals(region)
        region.before = region.after = cost(*old.values())
        if not self._checker.refused.isdisjoint(region.results):
            region.refused = "it could not be proved"
            return
        if len(region.ops) == 1 and self._is_needed(region.ops[0]):
            return
        names = [n for n in region.results if not self.is_folded(n) or n in self.analysis.graph.outputs]
        exprs = self._exprs(region)
        candidates = [exprs, merge_slices(self._regions, region) if len(region.ops) > 1 else old]
        if len(names) > 1:
            # Nodes that several results share may pay off although they are not the cheapest for any single result.
            originals = {name: self._ways.get(name, ())[1:] for name in names}
            candidates.append(
                {name: min(originals[name], key=self.builder.cost, default=exprs[name]) for name in names}
            )
        starts = [{name: exprs_of[name] for name in names} for exprs_of in candidates]
        if self.analysis.graph.opset >= OPSET_OF_SPLIT:
            starts = [with_splits(self.builder, start) for start in starts]
        if len(names) > 1:
            starts = [self._sharing_more(old, start) for start in starts]
        new = min(starts, key=lambda start: cost(*start.values()))
        best = cost(*new.values())
        if best.bytes_moved <= region.before.bytes_moved and best < region.before:
            region.after = best
            region.kinds_before, region.kinds_after = operators_of(old.values()), operators_of(new.values())
            self.chosen.update(new)

    def _is_needed(self, op: Op) -> bool:
        """Whether a node reshapes a variable to another, constant shape, in which case no node is cheaper."""
        if op.op_type not in SHAPE_OPERATORS:
            return False
        values = self.analysis.values
        before, after, *shape = (values[name] for name in (op.inputs[0], op.outputs[0], *op.inputs[1:]) if name)
        is_reshaped = before.sizes != after.sizes and not before.is_constant and not self.is_folded(op.outputs[0])
        return is_reshaped and all(value.is_constant for value in shape)

    def _sharing_more(self, old: Mapping[str, Expr], exprs: Mapping[str, Expr]) -> dict[str, Expr]:
        """Try all expressions of each result together with the chosen ones of the other results."""
        shared, best = dict(exprs), cost(*exprs.values())
        size = sum(1 for _ in in_order(exprs.values()))
        if size * sum(1 + len(self._ways.get(name, ())) for name in exprs) > MAX_SHARING:
            return shared
        for name in exprs:
            for candidate in (old[name], *self._ways.get(name, ())):
                if candidate is not shared[name]:
                    price = cost(*{**shared, name: candidate}.values())
                    if price < best:
                        shared[name], best = candidate, price
        return shared

    def _exprs(self, region: Region) -> Mapping[str, Expr]:
        """Return the cheapest expressions of a region's values, in order, so that recursion stays shallow."""
        for op in region.ops:
            for name in filter(None, op.outputs):
                self._expr(name)
        return self._best

    def _expr(self, name: str) -> Expr:
        if name not in self._best:
            self._best[name] = self._cheapest(name)
        return self._best[name]

    def _cheapest(self, name: str) -> Expr:
        analysis = self.analysis
        value = analysis.values[name]
        if value.op is None:
            return self._regions.original(name, {})
        if self._is_foldable(name):
            return self.builder.constant(name, value.sizes)
        candidates = self._ways[name] = [self._regions.original(name, {data: self._expr(data) for data in value.data})]
        for pieces in value.pieces:
            if pieces is None or (len(pieces) > 1 and self._left < 0):
                continue
            self._left -= len(pieces) if len(pieces) > 1 else 0
            assert value.tensor is not None, "it has been composed"
            names = {piece.source: analysis.names[piece.source] for piece in pieces if piece.source >= 0}
            if name in names.values():
                continue
            sources = {input_number: self._expr(name) for input_number, name in names.items()}
            search = Search(self.builder, self._stand_ins, sources.__getitem__, value.tensor.dtype)
            expr = search.cheapest(pieces, value.sizes)
            if expr is not None:
                candidates.append(expr)
        return min(candidates, key=self.builder.cost)

    def _is_foldable(self, name: str) -> bool:
        """Whether a value is moved from constants alone and is not much larger than these."""
        values = self.analysis.values
        sources, size = self._constants(name), values[name].bytes
        return (
            bool(sources)
            and self._stand_ins.is_constant(*values[name].sizes)
            and (size <= FOLDED_BYTES or size <= sum(values[source].bytes for source in sources))
        )

    def _constants(self, name: str) -> frozenset[str]:
        """Return the names of the constants that a value is moved from; none if other values are among its sources."""
        if name not in self._constant_sources:
            value = self.analysis.values[name]
            if value.op is None:
                constants = frozenset([name] if value.is_constant else [])
            else:
                constants_of = [self._constants(data) for data in value.data]
                constants = frozenset().union(*constants_of) if all(constants_of) else frozenset()
            self._constant_sources[name] = constants
        return self._constant_sources[name]
