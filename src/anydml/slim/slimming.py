"""Slimming a model: follow, plan, write, and compare what was written with what was there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from onnx import ModelProto

from anydml.files.folder import Folder
from anydml.onnx.checks import check
from anydml.onnx.graph import opsets_of
from anydml.slim.costs import CALL, NOTHING, Cost
from anydml.slim.cutting import Cutting
from anydml.slim.following import Following
from anydml.slim.graph import Graph
from anydml.slim.laying import Laying
from anydml.slim.planning import Plan
from anydml.slim.products import fusing
from anydml.slim.proving import are_alike, differing
from anydml.slim.pushing import Pushing
from anydml.slim.regions import Key, Region, Regions
from anydml.slim.reshaping import Reshaping
from anydml.slim.resizing import Resizing
from anydml.slim.rewriting import Rewriting
from anydml.slim.sharing import Sharing
from anydml.slim.signs import Signs
from anydml.slim.sizes import StandIns, size_names
from anydml.slim.writing import Writer
from anydml.text import bytes_text, counted

OLDEST = 11
"""Opset from which on Slice and Pad take numbers as inputs."""

MOST_TRIES = 3
"""Plans that are compared with the model, each without the regions that were wrong in the one before."""

OLDEST_IR = 4
"""From which on initializers need not be inputs."""


@dataclass(frozen=True)
class Stage:
    """A step from one graph to the next.

    Attributes:
        graph: the one that was made.
        what: is done to nodes that compute; empty where they stay as they are.
        cost: of all movement, before and after.
        is_exact: whether nodes that compute get their numbers in the same shapes, so that results are the same bit for
            bit; else dot products are the same, and a runtime may add them up in other blocks.
    """

    graph: Graph
    what: str
    cost: tuple[Cost, Cost]
    is_exact: bool = True

    def __str__(self) -> str:
        """What is done, and what it saves."""
        more = [
            f" and {counted(cost.products, 'product')} reshaped" if cost.products != self.cost[1 - k].products else ""
            for k, cost in enumerate(self.cost)
        ]
        before, after = (
            f"{bytes_text(cost.moved)} by {counted(cost.nodes, 'node')}{also}"
            for cost, also in zip(self.cost, more, strict=True)
        )
        return f"{self.what}: {before} → {after}{'' if self.is_exact else ', the last bits of sums may differ'}"


@dataclass
class Slimmed:
    """What became of a model.

    Attributes:
        model: the new one; the old one where nothing could be better.
        regions: of movement nodes, with what they cost before, and once they are composed.
        notes: what was left alone, and why.
        before: the model as it was followed.
        stages: from the model to the new one.
        after: what all movement costs in the end.
    """

    model: ModelProto
    regions: list[Region] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    before: Following | None = None
    stages: list[Stage] = field(default_factory=list)
    after: Cost = NOTHING

    @property
    def changed(self) -> list[Region]:
        """The regions that are cheaper."""
        return [region for region in self.regions if region.after != region.before]

    @property
    def is_exact(self) -> bool:
        """Whether results are the same bit for bit."""
        return all(stage.is_exact for stage in self.stages)


@dataclass
class _Composed:
    """A graph whose movement is composed.

    Attributes:
        found: the graph, followed for all stand-ins of sizes.
        regions: those that it was made of.
        settled: its own regions, and what each costs.
        before: what all movement cost, and products that runtimes reshape.
        after: what they cost.
        is_proved: whether it is right; else it is the graph that was there.
    """

    found: list[Following]
    regions: list[Region]
    settled: dict[Key, Cost]
    before: Cost
    after: Cost
    is_proved: bool = True

    @property
    def graph(self) -> Graph:
        return self.found[0].graph


REWRITINGS: Sequence[tuple[str, bool, type[Rewriting]]] = (
    ("Resize to the same size is nothing", True, Resizing),
    ("what repeats is broadcast", True, Sharing),
    ("products are cut where their results are", False, Cutting),
    ("transposes move through nodes", True, Pushing),
    ("signs move into constants", True, Signs),
    ("products are computed as they are read", False, Laying),
    ("Reshapes move through nodes", True, Reshaping),
    # Of axes that have gone more may.
    ("Reshapes move again", True, Reshaping),
)
"""What is done to nodes that compute, and whether each computes with the same shapes as before."""


def slim(model: ModelProto, folder: Folder | None = None, exact: bool = False) -> Slimmed:
    """Compose a model's movement, and write it again as fewer and cheaper standard nodes.

    Args:
        model: any model, valid in itself. It is not changed.
        folder: where its external data lies, of which only what moves is read; None where it is loaded, or has none.
        exact: leave products in the shapes that they have, in which runtimes add their terms up in one order.

    Returns:
        A model of the same opsets, inputs and outputs, which computes the same numbers.

    Raises:
        ModelError: the model is not valid.
    """
    check(model)
    opset = opsets_of(model.opset_import).get("", 0)
    if opset < OLDEST or model.ir_version < OLDEST_IR:
        return Slimmed(model, [], [f"nothing is changed before opset {OLDEST} and IR version {OLDEST_IR}"])
    names = size_names(model)
    several = StandIns.several(names, _constants(model))
    if not several:
        return Slimmed(model, [], [f"nothing is changed: {len(names)} sizes are not known"])
    graph = Graph.of(model, folder)
    followings = [Following(graph, each.sizes) for each in several]
    first = _composed(followings, several[0], {})
    stages = [Stage(first.graph, "", (first.before, first.after))] if first.graph is not graph else []
    if names and stages:
        # Values that were there for their sizes alone are needed no more.
        again = _composed(first.found, several[0], {})
        if again.after.moved < first.after.moved:
            stages.append(Stage(again.graph, "", (again.before, again.after)))
            first.found, first.settled, first.after = again.found, again.settled, again.after
    rewritten, last = _rewritten(first, several[0], exact, lambda *_: True)
    if rewritten and not are_alike(first.found[0], last.found[0], names):
        # One that is not the same is left out.
        rewritten, last = _rewritten(first, several[0], exact, lambda a, b: are_alike(a.found[0], b.found[0], names))
    stages += rewritten
    notes = [] if first.is_proved else ["nothing is changed: it could not be proved"]
    result = last.graph.written() if stages else model
    return Slimmed(result, first.regions, notes, followings[0], stages, last.after)


def _rewritten(
    first: _Composed, stand_ins: StandIns, exact: bool, is_kept: Callable[[_Composed, _Composed], bool]
) -> tuple[list[Stage], _Composed]:
    """A graph in which nodes that compute are rewritten, where that is cheaper and is kept, and the stages to it."""
    stages, current = list[Stage](), first
    for what, is_exact, rewriting in REWRITINGS:
        if exact and not is_exact:
            continue
        ops = rewriting(current.found[0], stand_ins, first.before.nodes - current.after.nodes).rewritten()
        if ops is None:
            continue
        graph = current.graph.with_ops(ops)
        found = [Following(graph, each.sizes, each) for each in current.found]
        made = _composed(found, stand_ins, current.settled, is_compared=False)
        before, after = current.after, made.after
        if after.moved <= before.moved and after.weight < before.weight and is_kept(current, made):
            stages.append(Stage(made.graph, what, (before, after), is_exact))
            current = made
    return stages, current


def _composed(
    found: list[Following], stand_ins: StandIns, settled: dict[Key, Cost], is_compared: bool = True
) -> _Composed:
    """A graph whose movement alone is written again; what others compare later need not be compared."""
    kept: set[str] = set()
    count = sum(not product.is_of_matrices for product in fusing(found[0]))
    reshaped = Cost(count * CALL, 0, 0, count)
    for _ in range(MOST_TRIES):
        plan = Plan(found, stand_ins, settled, kept)
        before, after = (Cost.sum([cost, reshaped]) for cost in (plan.before, plan.after))
        if plan.after == plan.before:
            costs = {region.key: region.after for region in plan.regions}
            return _Composed(found, plan.regions, costs, before, before)
        graph = Writer(plan, stand_ins).written()
        written = [Following(graph, each.sizes, each) for each in found]
        pairs = zip(found, written, strict=True) if is_compared else ()
        wrong = {name for old, new in pairs for name in differing(old, new)}
        if not wrong:
            regions = Regions(written[0])
            known = {**settled, **{region.key: region.before for region in plan.regions}}
            costs = {each.key: known.get(each.key) or regions.cost(each) for each in regions.every}
            return _Composed(written, plan.regions, costs, before, after)
        kept |= wrong
    return _Composed(found, plan.regions, {}, before, before, False)


def total(slimmed: Slimmed) -> str:
    """Bytes and nodes of a model's movement, before and after."""
    before, after = Cost.sum(region.before for region in slimmed.regions), slimmed.after
    first = f"{bytes_text(before.moved)} moved by {counted(before.nodes, 'node')} before"
    return f"{first}, {bytes_text(after.moved)} by {after.nodes} after"


def listed(kinds: list[str]) -> str:
    """Operators, and how often each."""
    counts = Counter(kinds)
    return ", ".join(f"{kind} × {count}" if count > 1 else kind for kind, count in counts.items()) or "no node"


def _constants(model: ModelProto) -> list[int]:
    """Sizes that the model says."""
    found = [size for tensor in model.graph.initializer for size in tensor.dims]
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        found += [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    return found
