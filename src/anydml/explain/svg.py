"""What all pictures share: escaped text, colours in light and dark, and one way to put an SVG together."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence

from anydml.text import printable

MOST_NAME = 60
"""Characters of a name."""

COLOURS = 6
"""Colours that tell moves apart, in turn."""

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


def escaped(text: object) -> str:
    """Text of a file, an array or a caller, for HTML and XML: nothing in it is markup, nor turns what follows round."""
    return html.escape(printable(str(text)), quote=True)


def shortened(text: str, most: int = MOST_NAME) -> str:
    """A long name's beginning and end."""
    return text if len(text) <= most else f"{text[: most // 2]}…{text[1 - most // 2 :]}"


def _rules(colours: Mapping[str, Sequence[str]]) -> str:
    rules = [
        f".adm .paper{{fill:{colours['paper']}}}",
        f".adm .cell{{fill:{colours['paper']};stroke:{colours['edge']}}}",
        f".adm .box{{fill:none;stroke:{colours['edge']}}}",
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
    ".adm .line{fill:none;stroke-width:1.6;stroke-opacity:.75}"
    ".adm .line:hover,.adm .on{stroke-width:4;stroke-opacity:1}"
    ".adm .cell.on{stroke-width:3}.adm .off{opacity:.15}"
    f"{_rules(_LIGHT)}@media(prefers-color-scheme:dark){{{_rules(_DARK)}}}"
)
"""The rules of pictures; they hold for a picture that stands alone, and within a page."""


def svg(title: str, about: str, width: int, height: int, parts: Sequence[str], number: int = 0) -> str:
    """A picture.

    Args:
        title: what it is, for those who do not see it.
        about: what it shows, for them, too.
        width: pixels.
        height: pixels.
        parts: elements of SVG.
        number: tells pictures of one page apart.
    """
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="adm" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-labelledby="adm-t{number} adm-d{number}">',
            f'<title id="adm-t{number}">{escaped(title)}</title>',
            f'<desc id="adm-d{number}">{escaped(about)}</desc>',
            f"<style>{STYLE}</style>",
            f'<rect class="paper" width="{width}" height="{height}" rx="8"/>',
            *parts,
            "</svg>\n",
        ]
    )


def arrow(start: tuple[int, int], end: tuple[int, int], colour: int, about: str, attributes: str = "") -> list[str]:
    """A bent line with a head, which says what it is about where a pointer rests on it."""
    (x, y), (right, to) = start, end
    bend = max(abs(right - x) // 2, 20)
    path = f"M{x} {y}C{x + bend} {y} {right - bend} {to} {right - 5} {to}"
    return [
        f'<path class="line l{colour}" d="{path}"{attributes}><title>{escaped(about)}</title></path>',
        f'<path class="a{colour}" d="M{right} {to}l-7 -4v8z"{attributes}/>',
    ]
