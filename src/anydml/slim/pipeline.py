"""Slimming of a model: its graph is analysed, planned, rewritten, and compared with the original."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from onnx import ModelProto

from anydml.errors import ModelError
from anydml.files.folder import Folder
from anydml.onnx.checks import check, check_is_model
from anydml.onnx.graph import opsets_of
from anydml.onnx.node_checks import check_nodes
from anydml.proving.names import refuse_unknown_sizes, show_size, size_names
from anydml.slim.analyses import Analyses
from anydml.slim.analysis import Analysis
from anydml.slim.costs import CALL_BYTES, NO_COST, SKIP_BYTES, Cost
from anydml.slim.equivalence import EquivalenceChecker
from anydml.slim.graph import Graph
from anydml.slim.halves import HALVES_TITLE
from anydml.slim.planning import Plan
from anydml.slim.products import FUSED_AXES, fused_products, normalized_sums
from anydml.slim.regions import Key, Region, Regions, uncounted
from anydml.slim.rewrites import REWRITES
from anydml.slim.roots import DIVISIONS_TITLE
from anydml.slim.scales import SCALES_TITLE
from anydml.slim.sizes import StandIns, with_sizes
from anydml.slim.slimmed_model import SlimmedModel, Stage
from anydml.slim.writing import Writer
from anydml.text import count_noun

OLDEST_OPSET = 11
"""First opset in which Slice and Pad take numbers as inputs."""

OLDEST_IR = 4
"""First IR version in which initializers need not be inputs."""

MAX_TRIES = 3
"""Maximum number of plans for a graph; each leaves out the regions in which the last one was not proved."""

BODIES_TITLE = "movement in bodies of nodes is composed"
"""The effect of a stage on the bodies of nodes."""

FOLDING_TITLE = "nodes with constant, equal or unused results are removed"
"""The effect of a stage that removes nodes without composing any."""

SUMS_DIFFER = "the last bits of sums may differ"
SIGNS_DIFFER = "zeros may differ in their signs"
WEIGHTS_DIFFER = "weights are rounded again"
SUBNORMALS_DIFFER = "numbers below 10⁻³⁷ may be rounded differently"
"""How a stage may change results."""


@dataclass
class _Composition:
    """A graph whose movement is composed.

    Attributes:
        analyses: the analyses of the graph.
        regions: the regions of the graph before.
        known_costs: costs of its own regions.
        before: cost of all movement before.
        after: cost of all movement after.
        is_proved: whether the graph was proved equal to the one before; otherwise it is the one before.
    """

    analyses: Analyses
    regions: list[Region]
    known_costs: dict[Key, Cost]
    before: Cost
    after: Cost
    is_proved: bool = True

    @property
    def graph(self) -> Graph:
        return self.analyses.graph

    def stage(self, title: str = "", before: Cost | None = None, is_exact: bool = True) -> Stage:
        return Stage(self.graph, title, (before or self.before, self.after), "" if is_exact else SUMS_DIFFER)


# Constants may have NaN of all kinds, and numbers that overflow.
@np.errstate(all="ignore")
def slim(
    model: ModelProto,
    folder: Folder | None = None,
    exact: bool = False,
    keep_signs: bool = False,
    sizes: Mapping[str, int] | None = None,
    merge_scales: bool = False,
) -> SlimmedModel:
    """Compose a model's movement, and rewrite it as fewer and cheaper standard nodes.

    Args:
        model: a valid model, which is not changed.
        folder: folder of its external data, of which only what moves is read; None if it has none or it is loaded.
        exact: whether to keep the shapes of matrix products, so that runtimes add their terms in the same order, and
            the signs of zeros.
        keep_signs: whether to keep sums with 0, which turn −0 into 0.
        sizes: sizes of dimensions by name; the new model takes inputs of these sizes only.
        merge_scales: whether to merge factors and biases of channels into weights, which rounds these again.

    Returns:
        A model with the same opsets, inputs and outputs, which computes the same numbers.

    Raises:
        ModelError: the model is not valid, has no size of a given name, or cannot have a given size.
        TypeError: `model` is not a ModelProto.
        ValueError: both `exact` and `merge_scales` are given.
    """
    check_is_model("slim", model)
    if exact and merge_scales:
        raise ValueError("exact keeps every bit, and merge_scales rounds weights: leave one of them out")
    if sizes:
        refuse_unknown_sizes(sizes, model, "the model")
        for key, size in sizes.items():
            if type(size) is not int or not 0 <= size < 1 << 63:
                raise ModelError(f"size {show_size(key)} is {size!r}: it must be an integer, 0 to 2⁶³ − 1", field=key)
        model = with_sizes(model, sizes)
    check_nodes(model)
    return _slim(model, folder, exact, keep_signs or exact, exact, merge_scales)


def _slim(
    model: ModelProto,
    folder: Folder | None,
    exact: bool,
    keep_signs: bool,
    keep_halves: bool,
    merge_scales: bool = False,
) -> SlimmedModel:
    """Slim a checked model; bodies keep their scales and halves."""
    opset = opsets_of(model.opset_import).get("", 0)
    if opset < OLDEST_OPSET or model.ir_version < OLDEST_IR:
        return SlimmedModel(model, [], [f"nothing is changed before opset {OLDEST_OPSET} and IR version {OLDEST_IR}"])
    names, graph = size_names(model), Graph.of(model, folder)
    checker, stages, cost_before = EquivalenceChecker(graph, names), list[Stage](), None
    bodies = checker.with_bodies(graph, partial(_slim_body, folder, exact))
    if bodies is not graph:
        graph = bodies
        stages.append(Stage(graph, BODIES_TITLE, (NO_COST, NO_COST)))
    folded = checker.without_folded(graph, with_sizes=False)
    all_stand_ins = StandIns.several(model, checker.sizes(graph if folded is None else folded), checker.limits())
    if not all_stand_ins:
        return SlimmedModel(
            model,
            [],
            [f"nothing is changed: {count_noun(len(names), 'size')} {'is' if len(names) == 1 else 'are'} not known"],
        )
    stand_ins = all_stand_ins[0]
    analyses = original = Analyses(graph, all_stand_ins)
    if folded is not None:
        folded_analyses = analyses.of(folded)
        cost_before, after_folding = (
            _movement(graph_analyses.first, stand_ins) for graph_analyses in (analyses, folded_analyses)
        )
        # Folding may make sizes known, with which the movement before it can be counted, too.
        cost_before = max(cost_before, after_folding, key=lambda cost: cost.bytes_moved)
        stages.append(Stage(folded, _folding_title(graph, folded), (cost_before, after_folding)))
        graph, analyses = folded, folded_analyses
    for stage in _simplify(graph, checker, keep_signs, keep_halves, merge_scales):
        stages.append(stage)
        graph, analyses = stage.graph, analyses.of(stage.graph)
    first = last = _compose(analyses, stand_ins, {}, checker)
    if first.graph is not graph:
        stages.append(first.stage())
    if names and first.graph is not graph:
        # Values that were used only for their shapes are unused now.
        second = _compose(first.analyses, stand_ins, {}, checker)
        if second.after.bytes_moved < first.after.bytes_moved:
            stages.append(second.stage())
            last = second

    rewrite = partial(_apply_rewrites, last, stand_ins, checker, exact, first.before.nodes)
    rewritten, final = rewrite(False)
    if rewritten and not checker.are_equal(last.graph, final.graph):
        rewritten, final = rewrite(True)
    stages += rewritten
    after = final.after
    if names and (folded := checker.without_folded(final.graph, with_sizes=True)) is not None:
        after = _movement(final.analyses.of(folded).first, stand_ins)
        stages.append(Stage(folded, _folding_title(final.graph, folded), (final.after, after)))
    last_graph = stages[-1].graph if stages else graph
    if last_graph.initial:
        title = f"constants are initializers ({count_noun(last_graph.initial, 'node')})"
        stages.append(Stage(last_graph, title, (NO_COST, NO_COST)))
    notes = [] if first.is_proved else ["nothing is changed: it could not be proved"]
    notes += uncounted(original.first)
    return SlimmedModel(model, first.regions, notes, original.first, stages, after, cost_before)


def _simplify(
    graph: Graph, checker: EquivalenceChecker, keep_signs: bool, keep_halves: bool, merge_scales: bool
) -> Iterator[Stage]:
    """Yield the stages that remove or rewrite computing nodes regardless of movement: zeros, scales, halves, roots."""
    if not keep_signs and (summed := checker.without_zeros(graph)) is not None:
        yield Stage(summed, _zeros_title(graph, summed), (NO_COST, NO_COST), SIGNS_DIFFER)
        graph = summed
    if merge_scales and (merged := checker.with_scales(graph)) is not None:
        title = f"{SCALES_TITLE} ({count_noun(len(graph.ops) - len(merged.ops), 'node')})"
        yield Stage(merged, title, (NO_COST, NO_COST), WEIGHTS_DIFFER)
        graph = merged
    if not keep_halves and (halved := checker.with_halves(graph)) is not None:
        yield Stage(halved, HALVES_TITLE, (NO_COST, NO_COST), SUBNORMALS_DIFFER)
        graph = halved
    if (divided := checker.with_divisions(graph)) is not None:
        yield Stage(divided, DIVISIONS_TITLE, (NO_COST, NO_COST))


def _slim_body(folder: Folder | None, exact: bool, body: ModelProto) -> ModelProto:
    """Return a slimmed body, whose outputs nodes outside the body may read."""
    check(body)
    return _slim(body, folder, exact, keep_signs=True, keep_halves=True).model


def _zeros_title(before: Graph, after: Graph) -> str:
    """Return the title of a stage that leaves out sums."""
    first, last = (sum(op.op_type == "Add" for op in graph.ops) for graph in (before, after))
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
    return Cost(count * CALL_BYTES + elements * SKIP_BYTES, 0, 0, count)


def _folding_title(before: Graph, after: Graph) -> str:
    """Return the title of a stage that removes nodes because their results are constant, unused, or equal to others."""
    count = len(before.ops) - len(after.ops)
    return f"{FOLDING_TITLE} ({count_noun(count, 'node')})" if count else FOLDING_TITLE


def _apply_rewrites(
    first: _Composition,
    stand_ins: StandIns,
    checker: EquivalenceChecker,
    exact: bool,
    max_nodes: int,
    is_checked: bool,
) -> tuple[list[Stage], _Composition]:
    """Apply the rewrites that save bytes or nodes and are proved; return the stages and the last graph.

    Args:
        first: the graph.
        stand_ins: the sizes of its first analysis.
        checker: checks whether graphs are equal.
        exact: whether to leave out rewrites that are not exact.
        max_nodes: maximum number of movement nodes after rewrites.
        is_checked: whether each graph must be proved equal to the one before.
    """
    stages, current = list[Stage](), first
    for rewrite in REWRITES:
        if exact and not rewrite.is_exact:
            continue
        ops = rewrite(current.analyses.first, stand_ins, max_nodes - current.after.nodes).new_nodes()
        if ops is None:
            continue
        graph = current.graph.with_ops(ops)
        analyses = current.analyses.of(graph)
        composed = _compose(analyses, stand_ins, current.known_costs, checker, is_compared=False)
        before, after = current.after, composed.after
        is_cheaper = after.bytes_moved <= before.bytes_moved and after.weight < before.weight
        if is_cheaper and (not is_checked or checker.are_equal(current.graph, composed.graph)):
            stages.append(composed.stage(rewrite.title, before, rewrite.is_exact))
            current = composed
    return stages, current


def _compose(
    analyses: Analyses,
    stand_ins: StandIns,
    known_costs: dict[Key, Cost],
    checker: EquivalenceChecker,
    is_compared: bool = True,
) -> _Composition:
    """Compose the movement of a graph, and compare the result unless the caller does."""
    fused = _fusion_cost(analyses.first)
    for _ in range(MAX_TRIES):
        plan = Plan(analyses, stand_ins, known_costs, checker)
        before, after = (Cost.sum([cost, fused]) for cost in (plan.before, plan.after))
        if plan.after == plan.before:
            costs = {region.key: region.after for region in plan.regions}
            return _Composition(analyses, plan.regions, costs, before, before)
        graph = Writer(plan).write()
        written = analyses.of(graph)
        wrong = checker.unequal_values(analyses, written, is_compared)
        if not wrong:
            regions = Regions(written.first, stand_ins)
            known_costs = {**known_costs, **{region.key: region.before for region in plan.regions}}
            costs = {region.key: known_costs.get(region.key) or regions.cost(region) for region in regions.all}
            return _Composition(written, plan.regions, costs, before, after)
        checker.refused |= wrong
        if not plan.changes(wrong):
            # No region to leave out is known, so the next plan would be the same.
            break
    return _Composition(analyses, plan.regions, {}, before, before, False)


def format_counts(kinds: list[str]) -> str:
    """Format operators with their counts."""
    counts = Counter(kinds)
    return ", ".join(f"{op_type} × {count}" if count > 1 else op_type for op_type, count in counts.items()) or "no node"
