"""A self-contained HTML page with pictures, tables and compiled programs."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from anydml.explain import box_drawing, elements
from anydml.explain.journeys import Journeys, follow, is_small
from anydml.explain.section import Section
from anydml.explain.svg import escape, shorten
from anydml.explain.terminal import notation
from anydml.text import bytes_text

MAX_ROWS = 1000
"""Rows of a table, at most."""

MAX_COSTS = 20
"""Sections that the table of costs lists, at most."""

MAX_TITLE = 100
"""Characters of a title in that table, at most."""

MAX_COMPILED = 200
"""Lines of a compiled program, at most."""

_CSS = """
:root{color-scheme:light dark}
body{font-family:system-ui,sans-serif;line-height:1.5;margin:0 auto;max-width:72rem;padding:1rem}
h1{font-size:1.4rem;overflow-wrap:anywhere}h2{font-size:1.15rem;margin-top:2rem;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin:.5rem 0}
.scroll svg{display:block}
table{border-collapse:collapse;font-size:.85rem}
caption{text-align:left;white-space:nowrap;font-weight:600;padding:.3rem 0}
th,td{border:1px solid #8888;padding:.15rem .5rem;text-align:left;vertical-align:top}
th,td{white-space:nowrap}tr[data-row] td{white-space:normal}
td.n{text-align:right;font-variant-numeric:tabular-nums}
code,pre,td{font-family:ui-monospace,monospace}
pre{white-space:pre-wrap;overflow-wrap:anywhere;padding:.5rem;border:1px solid #8888}
summary{cursor:pointer;font-weight:600}
:focus-visible{outline:2px solid #4c8bf5;outline-offset:2px}
tr:target,tr:focus,tr.on{background:#8883}
@media (max-width:600px){body{padding:.5rem}}
"""

_SCRIPT = """
for (const figure of document.querySelectorAll('section')) {
  const lines = [...figure.querySelectorAll('[data-t]')];
  const cells = new Map([...figure.querySelectorAll('[data-c]')].map(cell => [cell.dataset.c, cell]));
  const touches = (line, cell) => ['f', 't', 'i'].some(end => (line.dataset[end] || '').split(' ').includes(cell));
  const show = chosen => {
    for (const cell of cells.values()) cell.classList.remove('on');
    for (const line of lines) {
      const on = chosen && touches(line, chosen);
      line.classList.toggle('on', Boolean(on));
      line.classList.toggle('off', Boolean(chosen) && !on);
      if (on) for (const end of ['f', 't', 'i'])
        for (const cell of (line.dataset[end] || '').split(' ')) cells.get(cell)?.classList.add('on');
    }
    if (chosen) cells.get(chosen)?.classList.add('on');
  };
  for (const [name, cell] of cells) {
    cell.addEventListener('pointerenter', () => show(name));
    cell.addEventListener('pointerleave', () => show(null));
  }
  for (const row of figure.querySelectorAll('tr[data-row]')) {
    for (const event of ['focus', 'pointerenter']) row.addEventListener(event, () => show(row.dataset.row));
    for (const event of ['blur', 'pointerleave']) row.addEventListener(event, () => show(null));
    row.addEventListener('keydown', event => {
      const next = {ArrowDown: row.nextElementSibling, ArrowUp: row.previousElementSibling}[event.key];
      if (next) { next.focus(); event.preventDefault(); }
    });
  }
}
"""


def page(title: str, sections: Sequence[Section], notes: Sequence[str]) -> str:
    """Return a self-contained HTML page of sections, with the notes before them."""
    return "\n".join(
        [
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
            "script-src 'unsafe-inline'\">",
            f"<title>{escape(shorten(title))} – anydml</title>",
            f"<style>{_CSS}</style>\n</head>\n<body>\n<main>",
            f"<h1>{escape(title)}</h1>",
            *(_costs(sections) if len(sections) > 1 else ()),
            *(
                line
                for section_number, section in enumerate(sections)
                for line in _section(section, section_number, title)
            ),
            *([f"<p>{escape(notation(sections))}</p>"] if sections else []),
            *(f"<p>{escape(note)}</p>" for note in notes),
            f"</main>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n",
        ]
    )


class Link(NamedTuple):
    """A label in a table that leads to a section.

    Attributes:
        text: the label.
        section: the section's number.
    """

    text: str
    section: int


def _costs(sections: Sequence[Section]) -> Iterator[str]:
    """Yield a table of the sections that write most bytes."""
    written = [sum(move.bytes_written for move in section.moves) for section in sections]
    total = sum(written)
    by_cost = sorted(range(len(sections)), key=lambda k: -written[k])
    rows = (
        (None, (Link(sections[k].title, k), written[k], f"{written[k] / max(1, total):.0%}", len(sections[k].moves)))
        for k in by_cost[:MAX_COSTS]
    )
    yield from _table(f"What costs most of {bytes_text(total)} written", ("what", "bytes", "of all", "moves"), rows)
    if len(by_cost) > MAX_COSTS:
        other_bytes = bytes_text(sum(written[k] for k in by_cost[MAX_COSTS:]))
        yield f"<p>and {len(by_cost) - MAX_COSTS} more, which write {other_bytes}</p>"


def fragment(sections: Sequence[Section], notes: Sequence[str]) -> str:
    """Return HTML for a notebook: pictures and notes, without a script."""
    # IDs must differ between the pictures of a notebook.
    start = zlib.crc32("".join(section.title for section in sections).encode("utf-8", "surrogatepass"))
    return "\n".join(
        [
            "<div>",
            *(
                line
                for section_number, section in enumerate(sections)
                for line in _section(section, section_number + start, None)
            ),
            *(f"<p>{escape(note)}</p>" for note in notes),
            "</div>",
        ]
    )


def drawing(section: Section, section_number: int = 0) -> str:
    """Draw a section: every element if it is small, else boxes to scale."""
    if is_small(section):
        return elements.picture(section, follow(section), section_number)
    return box_drawing.picture(section, section_number)


def _section(section: Section, section_number: int, title: str | None) -> Iterator[str]:
    """Yield the HTML of a section, in a page with this title, or in a fragment for None."""
    journeys = follow(section) if is_small(section) else None
    if journeys is None:
        drawn = box_drawing.picture(section, section_number, is_alone=False)
    else:
        drawn = elements.picture(section, journeys, section_number, is_alone=False)
    name = escape(shorten(section.title))
    yield f'<section id="section-{section_number}" aria-label="{name}">'
    if title not in (None, section.title):
        yield f"<h2>{escape(section.title)}</h2>"
    region = f'class="scroll" style="overflow-x:auto" tabindex="0" role="region" aria-label="picture of {name}"'
    yield f"<div {region}>{drawn}</div>"
    if title is None:
        yield "</section>"
        return
    if journeys is not None:
        head = ("element", "value", "source", "by index")[: 4 if _has_indices(journeys) else 3]
        rows = ((row, texts[: len(head)]) for row, texts in _element_rows(section, journeys))
        yield from _table("Where every element comes from", head, rows, _count_written(journeys))
    yield from _table("Tensors", ("#", "role", "name", "type", "sizes", "layout", "bytes"), _tensor_rows(section))
    yield from _table("Moves", ("#", "bytes", "move"), _move_rows(section), len(section.moves))
    if section.compiled:
        yield f"<details open><summary>What runs</summary><pre>{escaped_lines(section.compiled)}</pre></details>"
    yield "</section>"


def escaped_lines(text: str) -> str:
    """Escape text, and keep the first lines only."""
    lines = text.splitlines()
    escaped = [escape(line) for line in lines[:MAX_COMPILED]]
    if len(lines) > MAX_COMPILED:
        escaped.append(f"and {len(lines) - MAX_COMPILED} more lines")
    return "\n".join(escaped)


def _table(
    caption: str, head: Sequence[str], rows: Iterator[tuple[str | None, Sequence[object]]], count: int | None = None
) -> Iterator[str]:
    yield f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
    yield f"<caption>{escape(caption)}</caption>"
    heads = "".join(f'<th scope="col">{escape(title)}</th>' for title in head)
    yield f"<thead><tr>{heads}</tr></thead><tbody>"
    for shown, (row, texts) in enumerate(rows):
        if shown == MAX_ROWS:
            yield f'<tr><td colspan="{len(head)}">and {(count or shown) - shown} more</td></tr>'
            break
        opened = "<tr>" if row is None else f'<tr data-row="{escape(row)}" tabindex="{-1 if shown else 0}">'
        yield f"{opened}{''.join(map(_cell, texts))}</tr>"
    yield "</tbody></table></div>"


def _cell(content: object) -> str:
    if isinstance(content, Link):
        return f'<td><a href="#section-{content.section}">{escape(shorten(content.text, MAX_TITLE))}</a></td>'
    return f'<td class="n">{content:,}</td>' if isinstance(content, int) else f"<td>{escape(str(content))}</td>"


def _count_written(journeys: Journeys) -> int:
    return sum(len(run.destination) for run in journeys.runs)


def _has_indices(journeys: Journeys) -> bool:
    return any(run.indices for run in journeys.runs)


def _element_rows(section: Section, journeys: Journeys) -> Iterator[tuple[str | None, Sequence[object]]]:
    for run in journeys.runs:
        by = ", ".join(elements.element(section, index) for index in run.indices)
        for k, cell in enumerate(run.destination):
            if run.fill is not None:
                source = f"fill {run.fill[:16].hex(' ')}"
            elif len(run.source) == len(run.destination):
                source = elements.element(section, run.source[k])
            else:
                source = elements.element(section, run.source[0]) + "…" if run.source else "depends on the index"
            yield (
                f"{cell[0]}-{cell[1]}",
                (elements.element(section, cell), journeys.labels.get(cell, ""), source, by),
            )


def _tensor_rows(section: Section) -> Iterator[tuple[str | None, Sequence[object]]]:
    for k, tensor in enumerate(section.tensors):
        layout = "packed" if tensor.is_packed else f"strides {list(tensor.strides)} bytes"
        if tensor.chunks:
            layout = f"chunks {list(tensor.chunks)}"
        name = shorten(tensor.name)
        yield (
            None,
            (str(k), tensor.role, name, tensor.type_name, str(list(tensor.sizes)), layout, tensor.bytes_spanned),
        )


def _move_rows(section: Section) -> Iterator[tuple[str | None, Sequence[object]]]:
    for n, move in enumerate(section.moves):
        yield None, (str(n), move.bytes_written, str(move))
