"""The grid of sizes as a picture: a row a case and way, a column a size, a number and a shade a cell.

Shades grow lighter with the ratio, so they say the same in grey; numbers and frames say it without any.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.chart import LETTER, head_width, opened, title_and_note, words
from benchmarks.size_cases import WAYS
from benchmarks.size_cells import Cell, size_text

SHADES = (
    (0.50, "#5b1a18", "#ffffff"),
    (0.85, "#9c3a22", "#ffffff"),
    (0.95, "#d9793b", "#000000"),
    (0.99, "#f0b878", "#000000"),
    (1.50, "#d3e2ef", "#000000"),
    (3.00, "#e3edf6", "#000000"),
    (float("inf"), "#f4f8fc", "#000000"),
)
"""Ratios below which cells have this ground and this ink."""

NAMES = {
    "bound": "A bound dispatch",
    "out": "A function with out",
    "new": "A function with new results",
    "tensor": "A function on PyTorch's tensors",
    "ops": "torch.ops.anydml",
}

WIDTH, HEIGHT = 50, 20
"""Pixels of a cell."""


def write_heat_map(path: Path, cells: Sequence[Cell], title: str, note: str) -> None:
    """Draw cells of one state."""
    sizes = sorted({cell.size for cell in cells})
    found = {(cell.case, cell.way, cell.size): cell for cell in cells}
    about = {cell.case: f"{cell.case}  {cell.about}" for cell in cells}
    left = int(max(len(text) for text in about.values()) * LETTER) + 24
    legend, end = _legend()
    width = max(left + WIDTH * len(sizes) + 12, end, head_width(title, note))
    parts: list[str] = []
    y = 84
    for way in [way for way in WAYS if any(cell.way == way for cell in cells)]:
        parts.append(words(12, y + 14, f"{NAMES[way]}, bytes:", more=' font-weight="bold"'))
        parts += [
            words(left + WIDTH * k + WIDTH // 2, y + 14, size_text(size), "middle") for k, size in enumerate(sizes)
        ]
        y += HEIGHT + 2
        for case in sorted(about, key=lambda name: (len(name), name)):
            row = [found.get((case, way, size)) for size in sizes]
            if not any(row):
                continue
            parts.append(words(left - 10, y + 14, about[case], "end"))
            for k, cell in enumerate(row):
                parts += (
                    _cell(left + WIDTH * k, y, cell)
                    if cell
                    else [words(left + WIDTH * k + WIDTH // 2, y + 14, "–", "middle")]
                )
            y += HEIGHT
        y += 10
    head = [*opened(width, y, title, f"{note}. Rows are cases, columns sizes in bytes."), *title_and_note(title, note)]
    path.write_text("\n".join([*head, *legend, *parts, "</svg>\n"]), encoding="utf-8")


def _cell(x: int, y: int, cell: Cell) -> list[str]:
    _, ground, ink = next(shade for shade in SHADES if cell.ratio < shade[0])
    number = f"{cell.ratio:.2f}" if cell.ratio < 9.995 else f"{cell.ratio:.0f}"
    frame = ' stroke="currentColor" stroke-width="2.5"' if cell.is_below else ""
    weight = ' font-weight="bold"' if cell.is_below else ""
    return [
        f'<rect x="{x + 1}" y="{y + 1}" width="{WIDTH - 2}" height="{HEIGHT - 2}" fill="{ground}"{frame}/>',
        words(x + WIDTH // 2, y + 14, number, "middle", _ink(ink) + weight),
    ]


def _legend() -> tuple[list[str], int]:
    """What shades mean, and where that ends."""
    parts, x, low = [], 12, "0"
    for limit, ground, ink in SHADES:
        text = f"{low} to {limit:g}" if limit != float("inf") else f"{low} and more"
        width = int(len(text) * LETTER) + 16
        parts.append(f'<rect x="{x}" y="54" width="{width}" height="18" fill="{ground}"/>')
        parts.append(words(x + width // 2, 67, text, "middle", _ink(ink)))
        x, low = x + width + 4, f"{limit:g}"
    framed = "framed: a peer is faster; –: not measured"
    return [*parts, words(x + 6, 67, framed)], x + 18 + int(len(framed) * LETTER)


def _ink(colour: str) -> str:
    """On a cell the ground's ink, not the page's."""
    return f' style="fill:{colour}"'
