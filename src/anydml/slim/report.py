"""A page about a slimmed model: the bytes and a picture of each region, before and after."""

from __future__ import annotations

from anydml.explain import Explanation
from anydml.explain.section import Section, Shape, section
from anydml.moves.composer import Composer
from anydml.moves.move import Access
from anydml.moves.value import Value
from anydml.slim.analysis import Analysis
from anydml.slim.pipeline import format_counts
from anydml.slim.regions import Region
from anydml.slim.slimmed_model import SlimmedModel
from anydml.tensor import Layout
from anydml.text import bytes_text, count_noun

MAX_REGIONS = 100
"""Maximum number of regions that are drawn."""


def report(title: str, slimmed: SlimmedModel) -> Explanation:
    """Return the page of a model."""
    changed_regions, analysis = slimmed.changed, slimmed.original_analysis
    drawn = [] if analysis is None else [_section(analysis, region) for region in changed_regions[:MAX_REGIONS]]
    notes = [*slimmed.notes, *(f"{region.title}: {region.refused}" for region in slimmed.regions if region.refused)]
    notes += [str(stage) for stage in slimmed.stages if stage.title]
    unchanged = len(slimmed.regions) - len(changed_regions)
    stays = "stays as it is" if unchanged == 1 else "stay as they are"
    notes.append(f"{unchanged} of {count_noun(len(slimmed.regions), 'region')} {stays}")
    if (hidden_count := len(changed_regions) - MAX_REGIONS) > 0:
        notes.append(f"{hidden_count} more {'is' if hidden_count == 1 else 'are'} not drawn")
    return Explanation(
        f"{title}: {slimmed.summary}", [explanation for explanation in drawn if explanation is not None], notes
    )


def _section(analysis: Analysis, region: Region) -> Section | None:
    """Return the picture of a region's results; None if a result was not composed."""
    composer = Composer(region.title)
    numbers: dict[int, int] = {}
    inputs: list[Shape] = []
    outputs: list[Shape] = []
    for name in region.results:
        value = analysis.values[name]
        if not value.compositions:
            return None
        pieces = []
        for piece in value.compositions[0].pieces:
            source = piece.source
            if isinstance(source, Access):
                if source.operand not in numbers:
                    numbers[source.operand] = len(numbers)
                    inputs.append(_shape(analysis, analysis.names[source.operand]))
                    composer.input(analysis.names[source.operand], *inputs[-1][:2], inputs[-1][2].itemsize)
                source = source._replace(operand=numbers[source.operand])
            pieces.append(piece._replace(source=source))
        composer.output(name, Value(value.sizes, value.width, tuple(pieces)))
        outputs.append(_shape(analysis, name))
    before, after = (
        f"{bytes_text(cost.bytes_moved)} by {format_counts(kinds)}"
        for cost, kinds in ((region.before, region.kinds_before), (region.after, region.kinds_after))
    )
    shapes = dict(enumerate([*inputs, *outputs]))
    return section(f"{region.title}: {before}; now {after}", composer.program(), shapes, {})


def _shape(analysis: Analysis, name: str) -> Shape:
    value = analysis.values[name]
    assert value.tensor is not None, "it is moved"
    return value.sizes, Layout.packed(value.sizes, value.width).strides, value.tensor.dtype
