"""Slimming of a model: its graph is analysed, planned, rewritten, and compared with the original."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property, partial

from onnx import ModelProto

from anydml.files.folder import Folder
from anydml.onnx.checks import check, check_is_model
from anydml.onnx.declared_types import check_types
from anydml.onnx.graph import opsets_of
from anydml.proving.names import show_size, size_names
from anydml.slim.analyses import Analyses
from anydml.slim.analysis import Analysis
from anydml.slim.costs import CALL, NOTHING, SKIP, Cost
from anydml.slim.equivalence import Judge
from anydml.slim.graph import Graph
from anydml.slim.planning import Plan
from anydml.slim.products import FUSED_AXES, fused_products, normalized_sums
from anydml.slim.regions import Key, Region, Regions, uncounted
from anydml.slim.rewrites import REWRITES
from anydml.slim.roots import DIVISIONS
from anydml.slim.sizes import StandIns
from anydml.slim.writing import Writer
from anydml.text import bytes_text, count_noun

OLDEST = 11
"""First opset in which Slice and Pad take numbers as inputs."""

OLDEST_IR = 4
"""First IR version in which initializers need not be inputs."""

MAX_TRIES = 3
"""Maximum number of plans for a graph; each leaves out the regions in which the last one was not proved."""


BODIES = "movement in bodies of nodes is composed"
"""The effect of a stage on the bodies of nodes."""

FOLDING = "nodes with constant, equal or unused results are removed"
"""The effect of a stage that removes nodes without composing any."""

SUMS = "the last bits of sums may differ"
SIGNS = "zeros may differ in their signs"
"""How a stage may change results."""


@dataclass(frozen=True)
class Stage:
    """A step from one graph to the next.

    Attributes:
        graph: the new graph.
        title: the change of nodes that compute; empty if only movement changes.
        cost: cost of all movement, before and after.
        differs: how results may differ; empty if every bit stays.
    """

    graph: Graph
    title: str
    cost: tuple[Cost, Cost]
    differs: str = ""

    def __str__(self) -> str:
        """A text with the rewrites and their savings."""
        differs = f", {self.differs}" if self.differs else ""
        if self.cost[0] == self.cost[1]:
            return f"{self.title}{differs}"
        changes_products = self.cost[0].products != self.cost[1].products
        before, after = (
            f"{bytes_text(cost.moved)} by {count_noun(cost.nodes, 'node')}"
            + (f" and {count_noun(cost.products, 'product')} reshaped" if changes_products else "")
            for cost in self.cost
        )
        return f"{self.title}: {before} → {after}{differs}"


@dataclass
class Slimmed:
    """A slimmed model.

    Attributes:
        original: the model that was given.
        regions: the movement nodes that are composed, with their costs before and after composition.
        notes: the parts that were left alone, and why.
        before: the analysis of the original.
        stages: the steps from the original to the new model.
        after: cost of all movement in the new model.
        moved: cost of all movement in the original, if nodes were removed before composition.
    """

    original: ModelProto
    regions: list[Region] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    before: Analysis | None = None
    stages: list[Stage] = field(default_factory=list)
    after: Cost = NOTHING
    moved: Cost | None = None

    @cached_property
    def model(self) -> ModelProto:
        """The new model; the original if nothing could be improved."""
        return self.stages[-1].graph.to_model() if self.stages else self.original

    @property
    def changed(self) -> list[Region]:
        """The regions that became cheaper, by descending savings."""
        changed = [region for region in self.regions if region.after != region.before]
        return sorted(changed, key=lambda region: region.after.moved - region.before.moved)

    @property
    def is_exact(self) -> bool:
        """Whether results are equal bit for bit."""
        return not any(stage.differs for stage in self.stages)


@dataclass
class _Composed:
    """A graph whose movement is composed.

    Attributes:
        analyses: the analyses of the graph.
        regions: the regions of the graph before.
        settled: costs of its own regions.
        before: cost of all movement before.
        after: cost of all movement after.
        is_proved: whether it was proved equal to the graph before; if not, it is that graph.
    """

    analyses: Analyses
    regions: list[Region]
    settled: dict[Key, Cost]
    before: Cost
    after: Cost
    is_proved: bool = True

    @property
    def graph(self) -> Graph:
        return self.analyses.graph

    def stage(self, title: str = "", before: Cost | None = None, is_exact: bool = True) -> Stage:
        return Stage(self.graph, title, (before or self.before, self.after), "" if is_exact else SUMS)


def slim(model: ModelProto, folder: Folder | None = None, exact: bool = False, keeps_signs: bool = False) -> Slimmed:
    """Compose a model's movement, and rewrite it as fewer and cheaper standard nodes.

    Args:
        model: a valid model, which is not changed.
        folder: folder of its external data, of which only what moves is read; None if it has none or it is loaded.
        exact: whether to keep the shapes of matrix products, so that runtimes add their terms in the same order, and
            the signs of zeros.
        keeps_signs: whether to keep sums with 0, which turn −0 into 0.

    Returns:
        A model with the same opsets, inputs and outputs, which computes the same numbers.

    Raises:
        ModelError: the model is not valid.
        TypeError: `model` is not a ModelProto.
    """
    check_is_model("slim", model)
    check(model)
    check_types(model)
    return _slim(model, folder, exact, keeps_signs or exact)


def _slim(model: ModelProto, folder: Folder | None, exact: bool, keeps_signs: bool) -> Slimmed:
    """Slim a model, with the signs of zeros or without."""
    opset = opsets_of(model.opset_import).get("", 0)
    if opset < OLDEST or model.ir_version < OLDEST_IR:
        return Slimmed(model, [], [f"nothing is changed before opset {OLDEST} and IR version {OLDEST_IR}"])
    names, graph = size_names(model), Graph.of(model, folder)
    judge, stages, moved = Judge(graph, names), list[Stage](), None
    bodies = judge.with_bodies(graph, partial(_slim_body, folder, exact))
    if bodies is not graph:
        graph = bodies
        stages.append(Stage(graph, BODIES, (NOTHING, NOTHING)))
    folded = judge.folded(graph, with_sizes=False)
    several = StandIns.several(model, judge.sizes(graph if folded is None else folded))
    if not several:
        return Slimmed(
            model,
            [],
            [f"nothing is changed: {count_noun(len(names), 'size')} {'is' if len(names) == 1 else 'are'} not known"],
        )
    stand_ins = several[0]
    analyses = original = Analyses(graph, several)
    if folded is not None:
        folded_analyses = analyses.of(folded)
        moved, after_folding = (
            _movement(graph_analyses.first, stand_ins) for graph_analyses in (analyses, folded_analyses)
        )
        # Sizes that are known from now on also apply to the movement before.
        moved = max(moved, after_folding, key=lambda cost: cost.moved)
        stages.append(Stage(folded, _folding(graph, folded), (moved, after_folding)))
        graph, analyses = folded, folded_analyses
    if not keeps_signs and (summed := judge.without_zeros(graph)) is not None:
        stages.append(Stage(summed, _zeros(graph, summed), (NOTHING, NOTHING), SIGNS))
        graph, analyses = summed, analyses.of(summed)
    if (divided := judge.with_divisions(graph)) is not None:
        stages.append(Stage(divided, DIVISIONS, (NOTHING, NOTHING)))
        graph, analyses = divided, analyses.of(divided)
    first = last = _compose(analyses, stand_ins, {}, judge)
    if first.graph is not graph:
        stages.append(first.stage())
    if names and first.graph is not graph:
        # Values that were used only for their shapes are unused now.
        second = _compose(first.analyses, stand_ins, {}, judge)
        if second.after.moved < first.after.moved:
            stages.append(second.stage())
            last = second

    rewrite = partial(_rewritten, last, stand_ins, judge, exact, first.before.nodes)
    rewritten, final = rewrite(False)
    if rewritten and not judge.are_equal(last.analyses.first, final.analyses.first):
        rewritten, final = rewrite(True)
    stages += rewritten
    after = final.after
    if names and (folded := judge.folded(final.graph, with_sizes=True)) is not None:
        after = _movement(final.analyses.of(folded).first, stand_ins)
        stages.append(Stage(folded, _folding(final.graph, folded), (final.after, after)))
    last_graph = stages[-1].graph if stages else graph
    if last_graph.initial:
        title = f"constants are initializers ({count_noun(last_graph.initial, 'node')})"
        stages.append(Stage(last_graph, title, (NOTHING, NOTHING)))
    notes = [] if first.is_proved else ["nothing is changed: it could not be proved"]
    notes += uncounted(original.first)
    return Slimmed(model, first.regions, notes, original.first, stages, after, moved)


def _slim_body(folder: Folder | None, exact: bool, body: ModelProto) -> ModelProto:
    """Return a slimmed body; nodes outside it may read its outputs."""
    check(body)
    return _slim(body, folder, exact, keeps_signs=True).model


def _zeros(before: Graph, after: Graph) -> str:
    """Return a text on the sums that are left out."""
    first, last = (sum(op.kind == "Add" for op in graph.ops) for graph in (before, after))
    return f"sums with 0, such as biases of zeros, are left out ({count_noun(first - last, 'node')})"


def _movement(analysis: Analysis, stand_ins: StandIns) -> Cost:
    """Return the cost of all movement in a graph."""
    regions = Regions(analysis, stand_ins)
    return Cost.sum([*(regions.cost(region) for region in regions.all), _fusion_cost(analysis)])


def _fusion_cost(analysis: Analysis) -> Cost:
    """Return the cost of products that runtimes must reshape, and of sums that they fuse."""
    count = sum(len(product.leading) > 1 for product in fused_products(analysis))
    sums = normalized_sums(analysis).values()
    elements = sum(math.prod(sizes) for sizes in sums if len(sizes) == FUSED_AXES)
    return Cost(count * CALL + elements * SKIP, 0, 0, count)


def _folding(before: Graph, after: Graph) -> str:
    """Return a text on nodes that were removed because their results are constant, unused, or equal to others."""
    count = len(before.ops) - len(after.ops)
    return f"{FOLDING} ({count_noun(count, 'node')})" if count else FOLDING


def _rewritten(
    first: _Composed,
    stand_ins: StandIns,
    judge: Judge,
    exact: bool,
    max_nodes: int,
    is_judged: bool,
) -> tuple[list[Stage], _Composed]:
    """Apply the rewrites that save bytes or nodes and are proved; return the stages and the last graph.

    Args:
        first: the graph.
        stand_ins: the sizes of its first analysis.
        judge: judges graphs.
        exact: whether to leave out rewrites that are not exact.
        max_nodes: maximum number of movement nodes after rewrites.
        is_judged: whether each graph must be proved equal to the one before.
    """
    stages, current = list[Stage](), first
    for rewrite in REWRITES:
        if exact and not rewrite.is_exact:
            continue
        ops = rewrite(current.analyses.first, stand_ins, max_nodes - current.after.nodes).rewritten()
        if ops is None:
            continue
        graph = current.graph.with_ops(ops)
        analyses = current.analyses.of(graph)
        composed = _compose(analyses, stand_ins, current.settled, judge, is_compared=False)
        before, after = current.after, composed.after
        is_cheaper = after.moved <= before.moved and after.weight < before.weight
        if is_cheaper and (not is_judged or judge.are_equal(current.analyses.first, composed.analyses.first)):
            stages.append(composed.stage(rewrite.title, before, rewrite.is_exact))
            current = composed
    return stages, current


def _compose(
    analyses: Analyses,
    stand_ins: StandIns,
    settled: dict[Key, Cost],
    judge: Judge,
    is_compared: bool = True,
) -> _Composed:
    """Compose the movement of a graph, and compare the result unless the caller does."""
    fused = _fusion_cost(analyses.first)
    for _ in range(MAX_TRIES):
        plan = Plan(analyses, stand_ins, settled, judge)
        before, after = (Cost.sum([cost, fused]) for cost in (plan.before, plan.after))
        if plan.after == plan.before:
            costs = {region.key: region.after for region in plan.regions}
            return _Composed(analyses, plan.regions, costs, before, before)
        graph = Writer(plan).written()
        written = analyses.of(graph)
        wrong = judge.wrong(analyses, written, is_compared)
        if not wrong:
            regions = Regions(written.first, stand_ins)
            known_costs = {**settled, **{region.key: region.before for region in plan.regions}}
            costs = {region.key: known_costs.get(region.key) or regions.cost(region) for region in regions.all}
            return _Composed(written, plan.regions, costs, before, after)
        judge.refused |= wrong
        if not plan.changes(wrong):
            # No region to leave out is known, so the next plan would be the same.
            break
    return _Composed(analyses, plan.regions, {}, before, before, False)


def movement_of(slimmed: Slimmed) -> tuple[Cost, Cost]:
    """Return the cost of a model's movement, before and after."""
    return slimmed.moved or Cost.sum(region.before for region in slimmed.regions), slimmed.after


def total(slimmed: Slimmed) -> str:
    """Return the bytes and nodes of a model's movement, before and after, and for which sizes, as a text."""
    before, after = movement_of(slimmed)
    first = f"{bytes_text(before.moved)} moved by {count_noun(before.nodes, 'node')} before"
    sizes = {} if slimmed.before is None else slimmed.before.sizes
    counted_at = ", ".join(f"{show_size(name)} = {size}" for name, size in sizes.items())
    where = f", counted where {counted_at}" if sizes else ""
    return f"{first}, {bytes_text(after.moved)} by {after.nodes} after{where}"


def format_counts(kinds: list[str]) -> str:
    """Return a text of operators with their counts."""
    counts = Counter(kinds)
    return ", ".join(f"{kind} × {count}" if count > 1 else kind for kind, count in counts.items()) or "no node"
