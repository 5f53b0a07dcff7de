"""A page of what became of a model's movement: bytes before and after, region by region, with pictures."""

from __future__ import annotations

from collections.abc import Iterator

from anydml.explain import Explanation
from anydml.explain.section import Section, Shape, section
from anydml.moves.compose import Composer
from anydml.moves.move import Access
from anydml.moves.value import Value
from anydml.slim.following import Following
from anydml.slim.regions import Region
from anydml.slim.slimming import Slimmed, listed, total
from anydml.tensor import Layout
from anydml.text import bytes_text

MOST_REGIONS = 100
"""That are drawn."""


def report(title: str, slimmed: Slimmed) -> Explanation:
    """The page of a model."""
    found = sorted(slimmed.changed, key=lambda region: region.after.moved - region.before.moved)
    sections = []
    for region in found[:MOST_REGIONS]:
        if slimmed.before is not None:
            sections += [*_section(slimmed.before, region)]
    notes = [*slimmed.notes, *(f"{region.title}: {region.refused}" for region in slimmed.regions if region.refused)]
    notes += [str(stage) for stage in slimmed.stages if stage.what]
    left = len(slimmed.regions) - len(found)
    notes.append(f"{left} regions of {len(slimmed.regions)} stay as they are")
    if len(found) > MOST_REGIONS:
        notes.append(f"{len(found) - MOST_REGIONS} more are not drawn")
    return Explanation(f"{title}: {total(slimmed)}", sections, notes)


def _section(following: Following, region: Region) -> Iterator[Section]:
    """What a region does, whatever its nodes."""
    composer = Composer(region.title)
    numbers: dict[int, int] = {}
    shapes: dict[int, Shape] = {}
    outputs: list[Shape] = []
    for name in region.results:
        value = following.values[name]
        if not value.forms or value.tensor is None:
            return
        pieces = []
        for piece in value.forms[0].pieces:
            source = piece.source
            if isinstance(source, Access):
                if source.operand not in numbers:
                    own = following.values[following.names[source.operand]]
                    strides = Layout.packed(own.sizes, own.width).strides
                    composer.input(following.names[source.operand], own.sizes, strides, own.width)
                    assert own.tensor is not None, "it is read"
                    shapes[len(numbers)] = own.sizes, strides, own.tensor.dtype
                    numbers[source.operand] = len(numbers)
                source = source._replace(operand=numbers[source.operand])
            pieces.append(piece._replace(source=source))
        composer.output(name, Value(value.sizes, value.width, tuple(pieces)))
        outputs.append((value.sizes, Layout.packed(value.sizes, value.width).strides, value.tensor.dtype))
    for k, shape in enumerate(outputs):
        shapes[len(numbers) + k] = shape
    before, after = (
        f"{bytes_text(cost.moved)} by {listed(kinds)}"
        for cost, kinds in ((region.before, region.kinds_before), (region.after, region.kinds_after))
    )
    yield section(f"{region.title}: {before}; now {after}", composer.program(), shapes, {})
