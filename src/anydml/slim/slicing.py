"""Slices of what others have sliced or split, taken from the whole at once."""

from __future__ import annotations

from anydml.slim.costs import SHAPES
from anydml.slim.regions import Region, Regions
from anydml.slim.sizes import StandIns
from anydml.slim.steps import Step
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
