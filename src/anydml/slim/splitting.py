"""Slices that together are all of a tensor, as one Split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from anydml.slim.steps import Step, Steps, every


def with_splits(steps: Steps, results: Mapping[str, Step]) -> dict[str, Step]:
    """The same results, with a Split in the place of Slices that lie side by side.

    Args:
        steps: where steps are made.
        results: the steps of the results.
    """
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
