"""Slimming a model: follow, plan, write, and compare what was written with what was there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from onnx import ModelProto

from anydml.files.folder import Folder
from anydml.onnx.checks import check
from anydml.onnx.graph import opsets_of
from anydml.slim.constants import Constants
from anydml.slim.following import Following, size_names
from anydml.slim.planning import Plan, Region
from anydml.slim.proving import differing
from anydml.slim.sizes import StandIns
from anydml.slim.writing import Writer
from anydml.text import bytes_text, counted

OLDEST = 11
"""Opset from which on Slice and Pad take numbers as inputs."""

OLDEST_IR = 4
"""From which on initializers need not be inputs."""


@dataclass
class Slimmed:
    """What became of a model.

    Attributes:
        model: the new one; the old one where nothing could be better.
        regions: of movement nodes, with what they cost before and after.
        notes: what was left alone, and why.
        before: the model as it was followed.
    """

    model: ModelProto
    regions: list[Region] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    before: Following | None = None

    @property
    def changed(self) -> list[Region]:
        """The regions that are cheaper."""
        return [region for region in self.regions if region.after != region.before]


def slim(model: ModelProto, folder: Folder | None = None) -> Slimmed:
    """Compose a model's movement, and write it again as fewer and cheaper standard nodes.

    Args:
        model: any model, valid in itself. It is not changed.
        folder: where its external data lies, of which only what moves is read; None where it is loaded, or has none.

    Returns:
        A model of the same opsets, inputs and outputs, with the same nodes but for those that move: what computes is
        the same, in the same order.

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
    followings = [Following(model, each.sizes) for each in several]
    constants = Constants(folder, model)
    kept: set[str] = set()
    for _ in range(3):
        plan = Plan(followings[0], followings[1:], several[0], kept)
        if all(region.after == region.before for region in plan.regions):
            return Slimmed(model, plan.regions, [], followings[0])
        written = Writer(model, plan, several[0], constants).written()
        wrong = _wrong(written, followings, several, constants)
        if not wrong:
            return Slimmed(written, plan.regions, [], followings[0])
        kept |= wrong
    return Slimmed(model, plan.regions, ["nothing is changed: it could not be proved"], followings[0])


def total(slimmed: Slimmed) -> str:
    """Bytes and nodes of a model's movement, before and after."""
    before = sum(region.before.moved for region in slimmed.regions)
    after = sum(region.after.moved for region in slimmed.regions)
    nodes = [sum(getattr(region, when).whole for region in slimmed.regions) for when in ("before", "after")]
    return f"{bytes_text(before)} moved by {counted(nodes[0], 'node')} before, {bytes_text(after)} by {nodes[1]} after"


def listed(kinds: list[str]) -> str:
    """Operators, and how often each."""
    counts = Counter(kinds)
    return ", ".join(f"{kind} × {count}" if count > 1 else kind for kind, count in counts.items()) or "no node"


def _wrong(
    written: ModelProto, followings: Sequence[Following], several: Sequence[StandIns], constants: Constants
) -> set[str]:
    """Names of values that are others in the new model."""
    constants.add(written)
    return {
        name
        for before, stand_ins in zip(followings, several, strict=True)
        for name in differing(before, Following(written, stand_ins.sizes), constants.read)
    }


def _constants(model: ModelProto) -> list[int]:
    """Sizes that the model says."""
    found = [size for tensor in model.graph.initializer for size in tensor.dims]
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        found += [dim.dim_value for dim in value.type.tensor_type.shape.dim]
    return found
