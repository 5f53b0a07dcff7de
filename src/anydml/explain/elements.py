"""The picture of a small program: every element a box, coloured by where it comes from, with a line for every run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from anydml.explain.journeys import Cell, Journeys, Run
from anydml.explain.section import Section, Tensor
from anydml.explain.svg import COLOURS, arrow, escaped, shortened, svg
from anydml.moves.move import Access, Move
from anydml.text import counted

WIDTH, HEIGHT, GAP, LABEL, MARGIN, MIDDLE, SMALL = 40, 26, 10, 22, 16, 150, 16
MOST_MOVES = 24
"""Moves that are written below the picture; a page has all of them in its table."""


@dataclass(frozen=True)
class Grid:
    """A tensor on paper: blocks of rows of columns, one below the other."""

    tensor: Tensor
    x: int
    y: int
    cell: int

    @property
    def label(self) -> str:
        """Name and sizes."""
        return f"{shortened(self.tensor.name)} {list(self.tensor.sizes)}"

    @property
    def _shape(self) -> tuple[int, int, int]:
        sizes = self.tensor.sizes
        *blocks, rows, columns = sizes if len(sizes) > 1 else (math.prod(sizes), 1)
        return math.prod(blocks), rows, columns

    @property
    def width(self) -> int:
        """Pixels from side to side, the label included."""
        return max(self._shape[2] * self.cell, 7 * len(self.label))

    @property
    def bottom(self) -> int:
        """The first pixel below."""
        blocks, rows, _ = self._shape
        return self.y + LABEL + blocks * rows * HEIGHT + max(blocks - 1, 0) * GAP

    def corner(self, cell: int) -> tuple[int, int]:
        """Where an element's box begins."""
        _, rows, columns = self._shape
        block, rest = divmod(cell, rows * columns)
        row, column = divmod(rest, columns)
        return self.x + column * self.cell, self.y + LABEL + (block * rows + row) * HEIGHT + block * GAP

    def box(self, cells: Sequence[int]) -> tuple[int, int, int]:
        """Left, right and height of a run of elements; single ones of a row differ in height, so that lines do too."""
        corners = [self.corner(cell) for cell in cells]
        xs, ys = zip(*corners, strict=True)
        columns = self._shape[2]
        aside = 0 if len(cells) >= columns else round(14 * ((cells[0] % columns + 0.5) / columns - 0.5))
        return min(xs), max(xs) + self.cell, (min(ys) + max(ys) + HEIGHT) // 2 + aside


def picture(section: Section, journeys: Journeys, number: int = 0) -> str:
    """An SVG of every element of a small section."""
    moves, colours = section.moves, _colours(section, journeys.runs)
    longest = max(map(len, journeys.labels.values()), default=1)
    grids = _grids(section.tensors, max(WIDTH, 8 * longest + 8))
    parts, values = [], []
    coloured: dict[Cell, int] = {}
    for run, colour in zip(journeys.runs, colours, strict=True):
        coloured |= dict.fromkeys((*run.source, *run.indices, *run.destination), colour)
    came = sources(section, journeys)
    for k, grid in enumerate(grids):
        parts.append(f'<text class="head" x="{grid.x}" y="{grid.y + 14}">{escaped(grid.label)}</text>')
        for cell in range(grid.tensor.count):
            x, y = grid.corner(cell)
            own, about = coloured.get((k, cell)), f"{element(section, (k, cell))}{came.get((k, cell), '')}"
            fill = "" if own is None else f" f{own}"
            parts.append(
                f'<rect class="cell{fill}" x="{x}" y="{y}" width="{grid.cell}" height="{HEIGHT}" data-c="{k}-{cell}">'
                f"<title>{escaped(about)}</title></rect>"
            )
            kind = "value still" if own is None else f"value v{own}"
            label = journeys.labels.get((k, cell), "")
            values.append(f'<text class="{kind}" x="{x + grid.cell // 2}" y="{y + 18}">{escaped(label)}</text>')
    for run, colour in zip(journeys.runs, colours, strict=True):
        parts += _lines(section, grids, run, colour)
    text = [str(move) for move in moves[:MOST_MOVES]]
    if len(moves) > MOST_MOVES:
        text.append(f"and {len(moves) - MOST_MOVES} more moves")
    foot = max((grid.bottom for grid in grids), default=MARGIN) + MARGIN
    width = max([grid.x + grid.width for grid in grids] + [MARGIN + int(6.7 * len(line)) for line in text]) + MARGIN
    for i, line in enumerate(text):
        y = foot + SMALL * i + 10
        parts.append(f'<text class="head move" x="{MARGIN}" y="{y}">{escaped(line)}</text>')
    about = "; ".join(f"#{k}: {tensor}" for k, tensor in enumerate(section.tensors))
    return svg(section.title, about, width, foot + SMALL * len(text) + MARGIN, [*parts, *values], number)


def element(section: Section, cell: Cell) -> str:
    """An element's name: ``InputTensor[0, 3]``."""
    tensor = section.tensors[cell[0]]
    at = [int(c) for c in np.unravel_index(cell[1], tensor.sizes)] if tensor.sizes else []
    return f"{shortened(tensor.name)}{at}"


def sources(section: Section, journeys: Journeys) -> dict[Cell, str]:
    """What is said of every element that is written: where it comes from."""
    said: dict[Cell, str] = {}
    for run in journeys.runs:
        by = "".join(f", by {element(section, index)}" for index in run.indices)
        for k, cell in enumerate(run.destination):
            if run.fill is not None:
                said[cell] = f" = fill {run.fill[:16].hex(' ')}{by}"
            elif len(run.source) == len(run.destination):
                said[cell] = f" = {element(section, run.source[k])}{by}"
            elif run.source:
                said[cell] = f" = part of {element(section, run.source[0])}…{by}"
            else:
                said[cell] = f" = an element that an index decides{by}"
    return said


def _grids(tensors: Sequence[Tensor], cell: int) -> list[Grid]:
    """Inputs and constants on the left, scratch in the middle, outputs on the right."""
    grids: dict[int, Grid] = {}
    x = MARGIN
    for roles in (("input", "constant"), ("scratch",), ("output",)):
        chosen = [k for k, tensor in enumerate(tensors) if tensor.role in roles]
        y = MARGIN
        for k in chosen:
            grids[k] = Grid(tensors[k], x, y, cell)
            y = grids[k].bottom + MARGIN
        if chosen:
            x = max(grids[k].x + grids[k].width for k in chosen) + MIDDLE
    return [grids[k] for k in range(len(tensors))]


def _lines(section: Section, grids: Sequence[Grid], run: Run, colour: int) -> Iterator[str]:
    if not run.destination or not run.source:
        # What an index decides that is not known: a line from the index.
        ends = run.destination or run.source
        pairs: list[tuple[tuple[Cell, ...], tuple[Cell, ...]]] = [((index,), ends) for index in run.indices[:1]]
    else:
        pairs = [(run.source, run.destination)]
    for source, destination in pairs:
        if not destination:
            continue
        (k, _), (to, _) = source[0], destination[0]
        _, x, y = grids[k].box([cell for _, cell in source])
        end, _, height = grids[to].box([cell for _, cell in destination])
        names = [" ".join(f"{operand}-{cell}" for operand, cell in cells) for cells in (source, destination)]
        by = " ".join(f"{operand}-{cell}" for operand, cell in run.indices)
        attributes = f' data-f="{names[0]}" data-t="{names[1]}"' + (f' data-i="{by}"' if by else "")
        about = f"{element(section, source[0])} → {element(section, destination[0])}"
        if len(destination) > 1:
            about += f", {counted(len(destination), 'element')}"
        yield from arrow((x, y), (end, height), colour, about, attributes)


def _colours(section: Section, runs: Sequence[Run]) -> list[int]:
    """A colour for each run: by move; where there is one move, by the place in the source that tells runs apart."""
    moves = section.moves
    if len(moves) == 1:
        axis = _axis(section, moves[0], runs)
        keys = [_coordinate(section, run.source[0], axis) if run.source else k for k, run in enumerate(runs)]
    elif len(moves) > COLOURS and len({run.source[0][0] for run in runs if run.source}) > 1:
        keys = [run.source[0][0] if run.source else run.move for run in runs]
    else:
        keys = [run.move for run in runs]
    return [key % COLOURS for key in keys]


def _axis(section: Section, move: Move, runs: Sequence[Run]) -> int:
    """The axis that is looked up, or the first along which the sources of runs differ."""
    if not isinstance(move.source, Access):
        return 0
    tensor = section.tensors[move.source.operand]
    for lookup in move.source.lookups:
        for axis, (size, stride) in enumerate(zip(tensor.sizes, tensor.strides, strict=True)):
            if size > 1 and stride == lookup.stride:
                return axis
    starts = [run.source[0] for run in runs if run.source]
    for axis in range(len(tensor.sizes)):
        if len({_coordinate(section, start, axis) for start in starts}) > 1:
            return axis
    return 0


def _coordinate(section: Section, cell: Cell, axis: int) -> int:
    sizes = section.tensors[cell[0]].sizes
    return int(np.unravel_index(cell[1], sizes)[axis]) if sizes else 0
