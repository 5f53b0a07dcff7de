"""The result of slimming a model: the new model, and the stages and regions by which it was changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from onnx import ModelProto

from anydml.proving.names import show_size
from anydml.slim.analysis import Analysis
from anydml.slim.costs import NO_COST, Cost
from anydml.slim.graph import Graph
from anydml.slim.regions import Region
from anydml.text import bytes_text, count_noun


@dataclass(frozen=True)
class Stage:
    """A step from one graph to the next.

    Attributes:
        graph: the new graph.
        title: the change of nodes that compute; empty if only movement changes.
        cost: cost of all movement, before and after.
        differs: how results may differ; empty if they are the same, bit for bit.
    """

    graph: Graph
    title: str
    cost: tuple[Cost, Cost]
    differs: str = ""

    def __str__(self) -> str:
        """The rewrites and their savings."""
        differs = f", {self.differs}" if self.differs else ""
        if self.cost[0] == self.cost[1]:
            return f"{self.title}{differs}"
        changes_products = self.cost[0].products != self.cost[1].products
        before, after = (
            f"{bytes_text(cost.bytes_moved)} by {count_noun(cost.nodes, 'node')}"
            + (f" and {count_noun(cost.products, 'product')} reshaped" if changes_products else "")
            for cost in self.cost
        )
        return f"{self.title}: {before} → {after}{differs}"


@dataclass
class SlimmedModel:
    """A slimmed model, and what was changed.

    Attributes:
        original: the model that was given.
        regions: the movement nodes that are composed, with their costs before and after composition.
        notes: the parts that were left alone, and why.
        original_analysis: the analysis of the original.
        stages: the steps from the original to the new model.
        cost_after: cost of all movement in the new model.
        cost_before: cost of all movement in the original, if nodes were removed before composition.
    """

    original: ModelProto
    regions: list[Region] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    original_analysis: Analysis | None = None
    stages: list[Stage] = field(default_factory=list)
    cost_after: Cost = NO_COST
    cost_before: Cost | None = None

    @cached_property
    def model(self) -> ModelProto:
        """The new model; the original if nothing could be improved.

        Raises:
            ModelError: a new constant has 2 GiB or more.
        """
        return self.stages[-1].graph.to_model() if self.stages else self.original

    @property
    def changed(self) -> list[Region]:
        """The regions that became cheaper, by descending savings."""
        changed = [region for region in self.regions if region.after != region.before]
        return sorted(changed, key=lambda region: region.after.bytes_moved - region.before.bytes_moved)

    @property
    def is_exact(self) -> bool:
        """Whether results are equal bit for bit."""
        return not any(stage.differs for stage in self.stages)

    @property
    def movement(self) -> tuple[Cost, Cost]:
        """The cost of all movement, before and after: bytes and nodes."""
        return self.cost_before or Cost.sum(region.before for region in self.regions), self.cost_after

    @property
    def summary(self) -> str:
        """The bytes and nodes of all movement, before and after, with the sizes that they hold for, in one line."""
        before, after = self.movement
        first = f"{bytes_text(before.bytes_moved)} moved by {count_noun(before.nodes, 'node')} before"
        sizes = {} if self.original_analysis is None else self.original_analysis.sizes
        counted_at = ", ".join(f"{show_size(name)} = {size}" for name, size in sizes.items())
        where = f", counted where {counted_at}" if sizes else ""
        return f"{first}, {bytes_text(after.bytes_moved)} by {after.nodes} after{where}"
