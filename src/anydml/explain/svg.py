"""Parts of every picture: escaped text, light and dark colours, arrows, and the SVG document."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from anydml.explain.columns import MARGIN, Column
from anydml.text import escape_controls

LINE = 16
"""Height of a line of text, in pixels."""

LETTER = 6.7
"""Width of a letter of the text below a picture, in pixels."""

NARROW = 358
"""Width in pixels of the widest picture that fits on a phone."""

MAX_NAME = 60
"""Maximum number of characters of a name."""

COLOURS = 6
"""Number of colours, which repeat."""

_LIGHT = {
    "paper": "#ffffff",
    "ink": "#1a202c",
    "faint": "#a0aec0",
    "text": "#4a5568",
    "edge": "#718096",
    "fills": ("#bee3f8", "#fed7aa", "#c6f6d5", "#e9d8fd", "#fef08a", "#fecaca"),
    "lines": ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#a16207", "#c53030"),
}
_DARK = {
    "paper": "#1a202c",
    "ink": "#f7fafc",
    "faint": "#718096",
    "text": "#cbd5e0",
    "edge": "#718096",
    "fills": ("#2a4365", "#652b19", "#22543d", "#44337a", "#5c4a0c", "#63171b"),
    "lines": ("#63b3ed", "#f6ad55", "#68d391", "#b794f4", "#ecc94b", "#fc8181"),
}


def escape(text: object) -> str:
    """Escape text from a file, an array or a caller for HTML and XML: markup, control and bidirectional characters."""
    return html.escape(escape_controls(str(text)), quote=True)


def shorten(text: str, max_length: int = MAX_NAME) -> str:
    """Replace the middle of a long name by an ellipsis."""
    return text if len(text) <= max_length else f"{text[: max_length // 2]}…{text[1 - max_length // 2 :]}"


def _rules(colours: Mapping[str, Sequence[str]]) -> str:
    rules = [
        f".adm .paper{{fill:{colours['paper']}}}",
        f".adm .cell{{fill:{colours['paper']};stroke:{colours['edge']}}}",
        f".adm .cut{{stroke:{colours['edge']}}}",
        f".adm .head{{fill:{colours['text']}}}",
        f".adm .value{{fill:{colours['ink']};stroke:{colours['paper']}}}",
        f".adm .still{{fill:{colours['faint']}}}",
    ]
    for k, (fill, line) in enumerate(zip(colours["fills"], colours["lines"], strict=True)):
        rules.append(f".adm .f{k}{{fill:{fill}}}.adm .v{k}{{stroke:{fill}}}")
        rules.append(f".adm .l{k}{{stroke:{line}}}.adm .a{k}{{fill:{line}}}")
    return "".join(rules)


STYLE = (
    ".adm{font-family:sans-serif;font-size:13px}"
    ".adm .head{font-size:12px}.adm .move{font-family:monospace;font-size:11px}"
    ".adm .value{text-anchor:middle;stroke-width:3;paint-order:stroke;pointer-events:none}"
    ".adm .cut{fill:none;stroke-width:.7;pointer-events:none}.adm .line{fill:none;stroke-width:1.6;stroke-opacity:.75}"
    ".adm .line:hover,.adm .run:hover .line,.adm .on{stroke-width:4;stroke-opacity:1}"
    ".adm .cell.on{stroke-width:3}.adm .off{opacity:.15}"
    ".adm.quiet .line,.adm.quiet .tip{visibility:hidden}"
    ".adm.quiet .run:hover .line,.adm.quiet .run:hover .tip,.adm.quiet .on{visibility:visible}"
    "@media(max-width:600px){.adm.stacks{width:var(--w);height:var(--h)}"
    ".adm.stacks .part{transform:translate(var(--x),var(--y))}.adm.stacks .line,.adm.stacks .tip{display:none}}"
    f"{_rules(_LIGHT)}@media(prefers-color-scheme:dark){{{_rules(_DARK)}}}"
)
"""The style sheet of pictures, alone or within a page."""


def svg(
    title: str,
    about: str,
    columns: Sequence[Column],
    parts: Sequence[str],
    number: int = 0,
    is_alone: bool = True,
    is_quiet: bool = False,
    text: Sequence[str] = (),
) -> str:
    """Return an SVG document.

    Args:
        title: the title, for screen readers.
        about: the description, for screen readers.
        columns: the columns of tensors.
        parts: SVG elements.
        number: number of the picture on its page, for unique element ids.
        is_alone: whether the picture is a document of its own, which can be scaled; on a page, its columns can be
            stacked instead.
        is_quiet: whether lines are shown only under the pointer.
        text: lines below the picture.
    """
    foot = max((column.bottom for column in columns), default=0) + MARGIN
    text_width = max((int(LETTER * len(line)) for line in text), default=0)
    width = max([column.x + column.width for column in columns] + [MARGIN + text_width]) + MARGIN
    height = foot + LINE * len(text) + MARGIN
    stacked_width = max([column.width for column in columns] + [text_width]) + 2 * MARGIN
    # Distance by which stacked columns move the text down.
    shift = max((column.above + column.bottom for column in columns), default=0) + MARGIN - foot
    lines = (
        f'<text class="head move" x="{MARGIN}" y="{foot + LINE * k + 10}">{escape(line)}</text>'
        for k, line in enumerate(text)
    )
    css_class = "adm quiet" if is_quiet else "adm"
    size = f'width="{width}" height="{height}"'
    if is_alone:
        size += f' viewBox="0 0 {width} {height}"'
    elif width > NARROW:
        css_class += " stacks"
        size += f' style="--w:{stacked_width}px;--h:{height + shift}px"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{css_class}" {size} role="img" '
            f'aria-labelledby="adm-t{number} adm-d{number}">',
            f'<title id="adm-t{number}">{escape(title)}</title>',
            f'<desc id="adm-d{number}">{escape(about)}</desc>',
            f"<style>{STYLE}</style>",
            '<rect class="paper" width="100%" height="100%" rx="8"/>',
            *parts,
            f'<g class="part" style="--x:0px;--y:{shift}px">',
            *lines,
            "</g>",
            "</svg>\n",
        ]
    )


def arrow(
    start: Sequence[int],
    end: Sequence[int],
    colour: int,
    about: str,
    attributes: str = "",
    sides: tuple[int, int] | None = None,
) -> list[str]:
    """Return the SVG elements of a curved arrow.

    Args:
        start: x and y of its tail.
        end: x and y of its tip.
        colour: number of the colour, below `COLOURS`.
        about: the tooltip.
        attributes: further attributes of the elements.
        sides: x where the curve begins and ends, with straight lines before and after it; by default, at the ends.
    """
    (x, y), (right, bottom) = start, end
    leaves, enters = sides or (x, right)
    bend = max(abs(enters - leaves) // 2, 20)
    bent = f"C{leaves + bend} {y} {enters - bend} {bottom} {enters - 5} {bottom}"
    path = f"M{x} {y}" + (f"H{leaves}" if leaves != x else "") + bent + (f"H{right - 5}" if enters != right else "")
    return [
        f'<path class="line l{colour}" d="{path}"{attributes}><title>{escape(about)}</title></path>',
        f'<path class="tip a{colour}" d="M{right} {bottom}l-7 -4v8z"{attributes}/>',
    ]
