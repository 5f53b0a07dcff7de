"""Charts of results: ``python -m benchmarks.chart FILE.json`` draws what a file keeps, beside it, and measures nothing.

What is not a bar or a cell is drawn in the colour of the text around it, on no ground: it can be read on light pages,
on dark ones, and in grey.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from xml.sax.saxutils import escape

from benchmarks.report import Result

LETTER = 6.8
"""Pixels of a letter of 12 pixels' height, about and at most."""

SCALE, ROW, EDGE = 420, 30, 12
"""Pixels of the axis, of a case, and of the margin."""

TITLES = {
    "cpu": "Speed as a share of a plain copy",
    "fused": "Fused chains, results new each time: speed as a share of a plain copy of the results",
    "permutations": "Permuted copies: speed as a share of a plain copy",
}

STYLE = (
    ".chart{color:#222222;font-family:sans-serif;font-size:12px}"
    "@media(prefers-color-scheme:dark){.chart{color:#dddddd}}"
    ".chart text{fill:currentColor}.chart .ours{fill:#3b7dc4}.chart .peer{fill:none;stroke:currentColor}"
    ".chart .tick{stroke:currentColor;stroke-opacity:.25}.chart .copy{stroke:currentColor;stroke-dasharray:4 3}"
)


def opened(width: int, height: int, title: str, about: str) -> list[str]:
    """The beginning of a picture: its size in pixels, its colours, and what it is for those who do not see it."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<desc>{escape(about)}</desc>",
        f"<style>{STYLE}</style>",
    ]


def words(x: float, y: float, text: str, anchor: str = "start", more: str = "") -> str:
    """A line of text, ``more`` are attributes."""
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def title_and_note(title: str, note: str) -> list[str]:
    """What a picture is headed with."""
    return [words(EDGE, 22, title, more=' font-size="15" font-weight="bold"'), words(EDGE, 42, note)]


def head_width(title: str, note: str) -> int:
    """The pixels that title and note need at most, with margins."""
    return math.ceil(max(len(title) * LETTER * 15 / 12, len(note) * LETTER)) + 2 * EDGE


def write_chart(path: Path, results: Sequence[Result], title: str, note: str) -> None:
    """An SVG chart: a pair of bars a case, ours and the fastest peer's speed as a share of a plain copy's.

    Cases that are too small for a plain copy are left out.
    """
    shown = [(result, *_shares(result)) for result in results if result.copy_seconds is not None]
    most = max([1.0, *(share for _, *shares in shown for share in shares)])
    labels = [f"{result.name}  {result.about}" for result, *_ in shown]
    ratios = [_ratio_text(result) for result, *_ in shown]
    left = math.ceil(max(map(len, labels), default=0) * LETTER) + EDGE + 8
    right = left + SCALE + math.ceil(max(map(len, ratios), default=0) * LETTER) + 10 + EDGE
    width, top = max(right, head_width(title, note), left + SCALE), 112
    bottom = top + ROW * len(shown)
    axis = "speed as a share of a plain copy of as many bytes"
    parts = opened(width, bottom + 48, title, f"{note}. Bars of {len(shown)} cases: {axis}.")
    parts += [*title_and_note(title, note), *_legend(left)]
    for k in range(int(most * 4) + 1):
        x = left + SCALE * k / 4 / most
        parts.append(f'<path class="{"copy" if k == 4 else "tick"}" d="M{x:.1f} {top - 8}V{bottom}"/>')
        parts.append(words(round(x, 1), bottom + 16, f"{25 * k}%", "middle"))
    parts.append(words(round(left + SCALE / most, 1), top - 14, "plain copy", "middle"))
    parts.append(words(left + SCALE / 2, bottom + 38, axis, "middle"))
    for i, ((_, ours, peer), label, ratio) in enumerate(zip(shown, labels, ratios, strict=True)):
        y = top + ROW * i
        parts += [
            words(left - 8, y + 17, label, "end"),
            f'<rect class="ours" x="{left}" y="{y + 3}" width="{ours * SCALE / most:.1f}" height="11"/>',
            f'<rect class="peer" x="{left}" y="{y + 15}" width="{peer * SCALE / most:.1f}" height="8"/>',
            words(left + SCALE + 10, y + 17, ratio),
        ]
    path.write_text("\n".join([*parts, "</svg>\n"]), encoding="utf-8")


def _shares(result: Result) -> tuple[float, float]:
    """Speeds as shares of a plain copy's, ours and the fastest peer's, 0 where there is none."""
    copy = result.copy_seconds or 0
    return copy / result.ours, copy / result.fastest_peer[1] if result.fastest_peer else 0.0


def _ratio_text(result: Result) -> str:
    return f"{result.ratio:.2f} × {result.fastest_peer[0]}" if result.fastest_peer else ""


def _legend(x: int) -> list[str]:
    beside = x + 18 + int(len("anydml") * LETTER) + 16
    return [
        f'<rect class="ours" x="{x}" y="58" width="14" height="11"/>',
        words(x + 18, 68, "anydml"),
        f'<rect class="peer" x="{beside}" y="59" width="14" height="8"/>',
        words(beside + 18, 68, "the fastest peer, and how many times as fast anydml is"),
    ]


def draw(path: Path) -> Path:
    """Draw what a file of results keeps, beside it."""
    kept = json.loads(path.read_text(encoding="utf-8"))
    names = [field.name for field in fields(Result)]
    results = [Result(**{name: case[name] for name in names}) for case in kept["cases"]]
    note = f"{kept['machine']['processor']}, {kept['machine']['threads']} threads, {kept['date']}, {kept['command']}"
    picture = path.with_suffix(".svg")
    write_chart(picture, results, TITLES.get(path.stem, TITLES["cpu"]), note)
    return picture


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw the files that are named."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.chart", description=__doc__)
    parser.add_argument("file", nargs="+", type=Path, help="what --json kept, or a file of benchmarks/results")
    for path in parser.parse_args(arguments).file:
        print(f"drawn in {draw(path)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
