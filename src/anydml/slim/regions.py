"""Regions: connected nodes that only move elements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anydml.files.location import show
from anydml.slim.analysis import MOVEMENT, Analysis
from anydml.slim.costs import INDEX_ARITHMETIC, NO_COST, SHAPE_OPERATORS, Cost, movement
from anydml.slim.expressions import Builder, Expr, cost
from anydml.slim.graph import Op
from anydml.slim.operators import permutation, windows
from anydml.slim.pieces import Window
from anydml.slim.sizes import StandIns
from anydml.text import count_noun

Key = tuple[frozenset[Op], tuple[str, ...]]


@dataclass
class Region:
    """Movement nodes that are connected or read the same value.

    Attributes:
        ops: the nodes, in order.
        results: names of its values that are read outside.
        before: the cost in the model.
        after: the cost after composition.
        refused: why the nodes must stay; empty if they need not.
        kinds_before: the operators of its nodes.
        kinds_after: the operators of the nodes that replace them.
    """

    ops: list[Op]
    results: list[str] = field(default_factory=list)
    before: Cost = NO_COST
    after: Cost = NO_COST
    refused: str = ""
    kinds_before: list[str] = field(default_factory=list)
    kinds_after: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The name of the region in messages: the name of its first result."""
        rest_text = f" and {len(self.results) - 1} more" if len(self.results) > 1 else ""
        return f"{self.results[0]}{rest_text}"

    @property
    def key(self) -> Key:
        """Equal for regions with the same nodes and results."""
        return frozenset(self.ops), tuple(self.results)


class Regions:
    """The regions of a graph, and the expressions of their nodes.

    Attributes:
        analysis: the analysis of the graph.
        builder: builds expressions.
        all: all regions that have results, in order.
    """

    def __init__(self, analysis: Analysis, stand_ins: StandIns) -> None:
        self.analysis, self._stand_ins = analysis, stand_ins
        self.builder = Builder(stand_ins, analysis.graph.opset)
        self._costs: dict[Op, Cost] = {}
        self._of: dict[Op, Region] = {}
        self.all = self._find_regions()

    def region_of(self, name: str) -> Region | None:
        """Return the region whose nodes make a value; None if no movement makes it."""
        value = self.analysis.values.get(name)
        return None if value is None or value.op is None else self._of[value.op]

    def originals(self, region: Region) -> dict[str, Expr]:
        """Return the results of a region as expressions of its own nodes."""
        exprs: dict[str, Expr] = {}
        for op in region.ops:
            for name in filter(None, op.outputs):
                data = self.analysis.values[name].data
                exprs[name] = self.original(name, {name: exprs.get(name) or self.original(name, {}) for name in data})
        return {name: exprs[name] for name in region.results}

    def windows(self, op: Op) -> list[Window] | None:
        """Return the window of each output of a Slice or Split; None for other nodes, or if one depends on sizes."""
        windows_of = windows(op, self.analysis)
        sizes = self.analysis.values[op.inputs[0]].sizes
        parts = [
            part for window in windows_of or () for part, n in zip(window, sizes, strict=True) if part != (0, n, 1)
        ]
        return windows_of if all(self._stand_ins.is_constant(*part) for part in parts) else None

    def cost(self, region: Region) -> Cost:
        """Return the cost of a region's own nodes."""
        return cost(*self.originals(region).values())

    def original(self, name: str, data: Mapping[str, Expr]) -> Expr:
        """Return the expression of a value as its original node computes it from `data`.

        A value that no movement node makes is returned as it is.
        """
        value = self.analysis.values[name]
        op = value.op
        if op is None:
            return self.builder.value(name, value.sizes if value.tensor is not None else ())
        if op not in self._costs:
            self._costs[op] = self._cost(op, value.data)
        inputs = [data[name] for name in value.data]
        return self.builder.output(op, value.output, inputs, value.sizes, self._costs[op])

    def _cost(self, op: Op, data: Sequence[str]) -> Cost:
        values = self.analysis.values
        results = [values[name] for name in op.outputs if name]
        shapes = ([values[name].sizes for name in data], [result.sizes for result in results])
        cost = movement(op.op_type, *shapes, results[0].width, self._detail(op))
        is_computed = any(not values[name].is_constant for name in op.inputs[len(data) :] if name)
        return cost._replace(weight=cost.weight + INDEX_ARITHMETIC) if is_computed else cost

    def _detail(self, op: Op) -> Any:
        """See `movement`."""
        rank = len(self.analysis.values[op.inputs[0]].sizes)
        if op.op_type == "Transpose":
            return permutation(op, rank)
        if op.op_type in ("Slice", "Split"):
            detail_windows = windows(op, self.analysis)
            return [1] * rank if detail_windows is None else [step for _, _, step in detail_windows[0]]
        return op.get("axis", 0) % max(1, rank)

    def _find_regions(self) -> list[Region]:
        values = self.analysis.values
        readers: dict[str, Op] = {}
        for op in self.analysis.graph.ops:
            if not self.analysis.moves(op):
                continue
            op_region = self._of[op] = Region([op])
            value = next(values[name] for name in op.outputs if name)
            for name in value.data:
                before = values[name].op
                if before is not None:
                    op_region = self._unite(self._of[before], op_region)
                elif not values[name].is_constant:
                    # Two nodes may have the same result.
                    op_region = self._unite(self._of[readers.setdefault(name, op)], op_region)
        for name in dict.fromkeys(self._read_outside()):
            region = self.region_of(name)
            if region is not None:
                region.results.append(name)
        regions = {id(region): region for region in self._of.values()}
        for region in regions.values():
            region.ops.clear()
        for op in self.analysis.graph.ops:
            if op in self._of:
                self._of[op].ops.append(op)
        return [region for region in regions.values() if region.results]

    def _unite(self, first: Region, second: Region) -> Region:
        if first is second:
            return first
        if len(first.ops) < len(second.ops):
            first, second = second, first
        first.ops += second.ops
        for op in second.ops:
            self._of[op] = first
        return first

    def _read_outside(self) -> Iterable[str]:
        """Yield the names that nodes that compute, subgraphs and the caller read."""
        for op in self.analysis.graph.ops:
            if op not in self._of:
                yield from op.inputs
            yield from op.captured
        yield from self.analysis.graph.outputs


def merge_slices(regions: Regions, region: Region) -> dict[str, Expr]:
    """Return the results of a region by its own nodes, with consecutive Slices merged, and Reshapes as well.

    Slices of a result of the region are not merged with it, because the result is needed anyway.
    """
    exprs: dict[str, Expr] = {}
    sliced: dict[str, tuple[Expr, Window]] = {}
    unshaped: dict[str, Expr] = {}
    values = regions.analysis.values
    for op in region.ops:
        window_lists = regions.windows(op)
        for k, name in enumerate(op.outputs):
            if not name:
                continue
            data = values[name].data
            sources = {name: exprs.get(name) or regions.original(name, {}) for name in data}
            if window_lists is None:
                exprs[name] = regions.original(name, sources)
                if op.op_type in SHAPE_OPERATORS:
                    source = unshaped[name] = unshaped.get(data[0], sources[data[0]])
                    if data[0] in unshaped:
                        exprs[name] = regions.builder.reshape(source, values[name].sizes) or exprs[name]
                continue
            unsliced, outer = sliced.get(data[0], (sources[data[0]], None))
            window = window_lists[k] if outer is None else _compose_windows(outer, window_lists[k])
            exprs[name] = regions.builder.slice(unsliced, window, values[name].width)
            if name not in region.results:
                sliced[name] = unsliced, window
    return {name: exprs[name] for name in region.results}


def _compose_windows(outer: Window, inner: Window) -> Window:
    """Return a window of a window as one window of the tensor."""
    return [(a + c * by, n, by * step) for (a, _, by), (c, n, step) in zip(outer, inner, strict=True)]


def uncounted(analysis: Analysis) -> list[str]:
    """Return a note on the movement nodes whose sizes are not known, if there are any."""
    names = [
        name
        for op in analysis.graph.ops
        if op.op_type in MOVEMENT
        for name in list(filter(None, op.outputs))[:1]
        if analysis.values[name].tensor is None
    ]
    if not names:
        return []
    are = "is not counted, because its size is" if len(names) == 1 else "are not counted, because their sizes are"
    advice = "shapes in value_info may declare them"
    return [f"{count_noun(len(names), 'movement node')} {are} not known, from {show(names[0])} on; {advice}"]
