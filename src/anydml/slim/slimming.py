"""Slimming a model: follow, plan, write, and compare what was written with what was there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from onnx import ModelProto

from anydml.files.folder import Folder
from anydml.onnx.checks import check
from anydml.onnx.graph import opsets_of
from anydml.slim.alike import are_alike
from anydml.slim.constants import Constants
from anydml.slim.cutting import Cutting
from anydml.slim.following import Following, size_names
from anydml.slim.laying import Laying
from anydml.slim.planning import NOTHING, Plan, Region
from anydml.slim.proving import differing
from anydml.slim.pushing import Pushing
from anydml.slim.reshaping import Reshaping
from anydml.slim.resizing import without_resizing
from anydml.slim.sharing import Sharing
from anydml.slim.signs import Signs
from anydml.slim.sizes import StandIns
from anydml.slim.steps import Cost
from anydml.slim.walking import with_nodes
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
    """A step from one model to the next.

    Attributes:
        before: the model that was there.
        after: the one that was made of it.
        what: is done to nodes that compute; empty where they stay as they are.
        cost: of all movement, before and after.
        is_exact: whether nodes that compute get their numbers in the same shapes, so that results are the same bit for
            bit; else dot products are the same, and a runtime may add them up in other blocks.
    """

    before: ModelProto
    after: ModelProto
    what: str
    cost: tuple[Cost, Cost]
    is_exact: bool = True

    def __str__(self) -> str:
        """What is done, and what it saves."""
        before, after = (f"{bytes_text(cost.moved)} by {counted(cost.whole, 'node')}" for cost in self.cost)
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
        found: the new model as it was followed, for all stand-ins of sizes.
    """

    model: ModelProto
    regions: list[Region] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    before: Following | None = None
    stages: list[Stage] = field(default_factory=list)
    after: Cost = NOTHING
    found: list[Following] = field(default_factory=list)

    @property
    def changed(self) -> list[Region]:
        """The regions that are cheaper."""
        return [region for region in self.regions if region.after != region.before]

    @property
    def is_exact(self) -> bool:
        """Whether results are the same bit for bit."""
        return all(stage.is_exact for stage in self.stages)


Rewriting = Callable[[ModelProto, Following, StandIns, Constants], ModelProto | None]

REWRITINGS: Sequence[tuple[str, bool, Rewriting]] = (
    ("Resize to the same size is nothing", True, lambda model, found, *_: without_resizing(model, found)),
    ("what repeats is broadcast", True, lambda model, found, sizes, _: Sharing(model, found, sizes).shared()),
    (
        "products are cut where their results are",
        False,
        lambda model, found, _, constants: Cutting(model, found, constants).cut(),
    ),
    (
        "transposes move through nodes",
        True,
        lambda model, found, _, constants: Pushing(model, found, constants).pushed(),
    ),
    ("signs move into constants", True, lambda model, found, _, constants: Signs(model, found, constants).moved()),
    (
        "products are computed as they are read",
        False,
        lambda model, found, sizes, constants: Laying(model, found, sizes, constants).laid(),
    ),
    (
        "Reshapes move through nodes",
        True,
        lambda model, found, sizes, constants: Reshaping(model, found, sizes, constants).reshaped(),
    ),
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
    result = _composed(model, folder, several)
    if names and result.stages:
        # Values that were there for their sizes alone are needed no more.
        again = _composed(result.model, folder, several)
        if again.after.moved < result.after.moved:
            result.stages += again.stages
            result.model, result.after, result.found = again.model, again.after, again.found
    stages, last = _rewritten(result, folder, several, exact, lambda *_: True)
    if stages and not _are_alike(result, last, folder, names):
        # One that is not the same is left out.
        stages, last = _rewritten(result, folder, several, exact, lambda a, b: _are_alike(a, b, folder, names))
    result.stages += stages
    result.model, result.after, result.found = last.model, last.after, last.found
    return result


def _rewritten(
    first: Slimmed,
    folder: Folder | None,
    several: Sequence[StandIns],
    exact: bool,
    is_kept: Callable[[Slimmed, Slimmed], bool],
) -> tuple[list[Stage], Slimmed]:
    """A model in which nodes that compute are rewritten, where that is cheaper and is kept, and the stages to it."""
    stages, current = list[Stage](), first
    for what, is_exact, rewriting in REWRITINGS:
        if exact and not is_exact:
            continue
        rewritten = rewriting(current.model, current.found[0], several[0], Constants(folder, current.model))
        if rewritten is None:
            continue
        found = _composed(with_nodes(rewritten, rewritten.graph.node), folder, several, is_compared=False)
        before, after = current.after, found.after
        if after.moved <= before.moved and after.weight < before.weight and is_kept(current, found):
            stages.append(Stage(current.model, found.model, what, (before, after), is_exact))
            current = found
    return stages, current


def _composed(
    model: ModelProto, folder: Folder | None, several: Sequence[StandIns], is_compared: bool = True
) -> Slimmed:
    """A model whose movement alone is written again; what others compare later need not be compared."""
    followings = [Following(model, each.sizes) for each in several]
    constants = Constants(folder, model)
    kept: set[str] = set()
    for _ in range(MOST_TRIES):
        plan = Plan(followings[0], followings[1:], several[0], kept)
        before, after = _sum(each.before for each in plan.regions), _sum(each.after for each in plan.regions)
        if after == before:
            return Slimmed(model, plan.regions, [], followings[0], [], after, followings)
        written = Writer(model, plan, several[0], constants).written()
        constants.add(written)
        found = [Following(written, each.sizes) for each in several]
        pairs = zip(followings, found, strict=True)
        wrong = {name for old, new in pairs if is_compared for name in differing(old, new, constants.read)}
        if not wrong:
            stage = Stage(model, written, "", (before, after))
            return Slimmed(written, plan.regions, [], followings[0], [stage], after, found)
        kept |= wrong
    note = "nothing is changed: it could not be proved"
    return Slimmed(model, plan.regions, [note], followings[0], [], before, followings)


def _are_alike(before: Slimmed, after: Slimmed, folder: Folder | None, names: Sequence[str]) -> bool:
    """Whether two models compute the same, for small sizes where sizes only have names."""
    pairs = None if names else [(before.found[0], after.found[0])]
    return are_alike(before.model, after.model, folder, pairs)


def _sum(costs: Iterable[Cost]) -> Cost:
    """Of all."""
    return Cost(*map(sum, zip(NOTHING, *costs, strict=True)))


def total(slimmed: Slimmed) -> str:
    """Bytes and nodes of a model's movement, before and after."""
    before, after = _sum(region.before for region in slimmed.regions), slimmed.after
    first = f"{bytes_text(before.moved)} moved by {counted(before.whole, 'node')} before"
    return f"{first}, {bytes_text(after.moved)} by {after.whole} after"


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
