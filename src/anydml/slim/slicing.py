"""Slices: what they take of a tensor, of the whole at once, and several that are one Split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anydml.slim.costs import SHAPES
from anydml.slim.regions import Region, Regions
from anydml.slim.sizes import StandIns
from anydml.slim.steps import Step, Steps, every
from anydml.slim.windows import Window, windows, within


def sliced_at_once(regions: Regions, region: Region, stand_ins: StandIns) -> dict[str, Step]:
    """The results of a region by its own nodes, but for Slices of Slices and Reshapes of Reshapes.

    What is a result itself is there anyway, and parts of it are taken from it.
    """
    found: dict[str, Step] = {}
    parts: dict[str, tuple[Step, Window]] = {}
    unshaped: dict[str, Step] = {}
    values = regions.following.values
    for op in region.ops:
        taken = windows(regions.following, op)
        for k, name in enumerate(op.outputs):
            if not name:
                continue
            data = values[name].data
            given = {each: found.get(each) or regions.kept(each, {}) for each in data}
            if taken is None:
                found[name] = regions.kept(name, given)
                if op.kind in SHAPES:
                    source = unshaped[name] = unshaped.get(data[0], given[data[0]])
                    if data[0] in unshaped and stand_ins.shape(source.sizes, values[name].sizes) is not None:
                        found[name] = regions.steps.reshape(source, values[name].sizes)
                continue
            whole, inner = parts.get(data[0], (given[data[0]], None))
            window = taken[k] if inner is None else within(inner, taken[k])
            found[name] = regions.steps.slice(whole, window, values[name].width)
            if name not in region.results:
                parts[name] = whole, window
    return {name: found[name] for name in region.results}


def with_splits(steps: Steps, results: Mapping[str, Step]) -> dict[str, Step]:
    """The same results, with a Split in the place of Slices that lie side by side."""
    new: dict[int, Step] = {}
    for group, axis in _groups(results):
        source, lengths = group[0].inputs[0], [step.sizes[axis] for step in group]
        width = group[0].cost.moved // (2 * group[0].count)
        for step, part in zip(group, steps.split(source, axis, lengths, width), strict=True):
            new[id(step)] = part
    if not new:
        return dict(results)
    for step in every(results.values()):
        if id(step) in new:
            # What it is a part of may have been made anew, too.
            part = new[id(step)]
            (node,) = part.inputs
            fresh = steps.with_inputs(node, [new.get(id(each), each) for each in node.inputs])
            new[id(step)] = steps.with_inputs(part, [fresh])
        else:
            new[id(step)] = steps.with_inputs(step, [new.get(id(each), each) for each in step.inputs])
    return {name: new[id(step)] for name, step in results.items()}


def _groups(results: Mapping[str, Step]) -> Iterator[tuple[list[Step], int]]:
    """Slices of one tensor that follow each other along one axis, from its beginning to its end."""
    found: dict[tuple[int, int], list[Step]] = {}
    for step in every(results.values()):
        if step.kind == "Slice":
            sizes = step.inputs[0].sizes
            cut = [k for k, (size, part) in enumerate(zip(sizes, step.numbers, strict=True)) if part != (0, size, 1)]
            if len(cut) == 1 and step.numbers[cut[0]][2] == 1:
                found.setdefault((id(step.inputs[0]), cut[0]), []).append(step)
    for (_, axis), group in found.items():
        group.sort(key=lambda step: int(step.numbers[axis][0]))
        ends = [0, *(step.numbers[axis][0] + step.numbers[axis][1] for step in group)]
        starts = [step.numbers[axis][0] for step in group]
        if len(group) > 1 and starts == ends[:-1] and ends[-1] == group[0].inputs[0].sizes[axis]:
            yield group, axis
