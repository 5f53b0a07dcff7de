"""Pictures of small programs: one box per element, coloured by its origin, and one line per run.

Many lines would hide the values, so then only those of the element under the pointer are shown.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from anydml.explain.columns import Column, arrange
from anydml.explain.journeys import Cell, Journeys, Run
from anydml.explain.section import Section, Tensor
from anydml.explain.svg import COLOURS, arrow, escape, shorten, svg
from anydml.moves.move import Access, Move
from anydml.text import count_noun

WIDTH = 40
"""Width of an element's box, in pixels."""

HEIGHT = 26
"""Height of an element's box, in pixels."""

GAP = 10
"""Height of the gap between the matrices of a tensor, in pixels."""

LABEL = 22
"""Height of a tensor's label, in pixels."""

MAX_ARROWED = 30
"""Maximum number of elements for which all lines are always shown."""

MAX_ARROWS = 12
"""Maximum number of lines that are all shown always."""


@dataclass(frozen=True)
class Grid:
    """The drawing of a tensor: its matrices, one below the other.

    Attributes:
        tensor: the tensor.
        x, y: position of the top left corner in pixels.
        cell: width of an element's box in pixels.
    """

    tensor: Tensor
    x: int
    y: int
    cell: int

    @property
    def label(self) -> str:
        """The tensor's name and sizes."""
        return f"{shorten(self.tensor.name)} {list(self.tensor.sizes)}"

    @property
    def _shape(self) -> tuple[int, int, int]:
        """Number of matrices, and their rows and columns."""
        sizes = self.tensor.sizes
        *blocks, rows, columns = sizes if len(sizes) > 1 else (math.prod(sizes), 1)
        return math.prod(blocks), rows, columns

    @property
    def width(self) -> int:
        """Width in pixels, including the label."""
        return max(self._shape[2] * self.cell, 7 * len(self.label))

    @property
    def height(self) -> int:
        """Height in pixels, including the label."""
        blocks, rows, _ = self._shape
        return LABEL + blocks * rows * HEIGHT + max(blocks - 1, 0) * GAP

    def corner(self, cell: int) -> tuple[int, int]:
        """Return the top left corner of an element's box."""
        _, rows, columns = self._shape
        block, cell_in_block = divmod(cell, rows * columns)
        row, column = divmod(cell_in_block, columns)
        return self.x + column * self.cell, self.y + LABEL + (block * rows + row) * HEIGHT + block * GAP

    def end(self, cells: Sequence[int], is_source: bool) -> tuple[int, int, int]:
        """Return where a line meets a run of elements (x and y), and the x of the tensor's side that it crosses.

        Within the tensor, the line passes above or below the values of its row.
        """
        xs, ys = zip(*map(self.corner, cells), strict=True)
        columns = self._shape[2]
        x, side = (max(xs) + self.cell, self.x + columns * self.cell) if is_source else (min(xs), self.x)
        if x == side:
            return x, (min(ys) + max(ys) + HEIGHT) // 2, side
        share = 2 * (cells[0] % columns) / columns
        return x, min(ys) + round(3 + 3 * share if share < 1 else HEIGHT - 3 - 3 * (2 - share)), side


def picture(section: Section, journeys: Journeys, operand_number: int = 0, is_alone: bool = True) -> str:
    """Draw every element of a small section, as SVG.

    Args:
        section: the section to draw.
        journeys: the origin of each element.
        operand_number: as for `svg`.
        is_alone: as for `svg`.
    """
    longest = max(map(len, journeys.labels.values()), default=1)
    grids, columns = _grids(section.tensors, max(WIDTH, 8 * longest + 8))
    colours = _colours(section, journeys.runs)
    lines = [[*_lines(section, grids, run, colour)] for run, colour in zip(journeys.runs, colours, strict=True)]
    line_count = sum(map(bool, lines))
    painted, writers = _paint(journeys.runs, colours)
    origins = sources(section, journeys)
    parts = []
    for column in columns:
        below, values = [], []
        for k in column.members:
            grid = grids[k]
            below.append(f'<text class="head" x="{grid.x}" y="{grid.y + 14}">{escape(grid.label)}</text>')
            written = [writers.get((k, cell)) for cell in range(grid.tensor.count)]
            for writer, cells in itertools.groupby(range(grid.tensor.count), written.__getitem__):
                drawn: list[str] = []
                for cell in cells:
                    description = f"{element(section, (k, cell))}{origins.get((k, cell), '')}"
                    drawn += _box(grid, (k, cell), painted[k, cell], description)
                    values.append(_value(grid, cell, painted[k, cell], journeys.labels.get((k, cell), "")))
                if writer is not None and lines[writer]:
                    # Elements are grouped with their line, which is shown when the pointer is over them.
                    drawn = ['<g class="run">', *drawn, *lines[writer], "</g>"]
                    lines[writer] = []
                below += drawn
        parts.append((column, below, values))
    overwritten = itertools.chain(*lines)
    drawing = [line for column, below, _ in parts for line in column.group(below)]
    drawing += [*overwritten, *(line for column, _, values in parts for line in column.group(values))]
    description = "; ".join(f"#{k}: {tensor}" for k, tensor in enumerate(section.tensors))
    is_quiet = sum(tensor.count for tensor in section.tensors) > MAX_ARROWED or line_count > MAX_ARROWS
    return svg(section.title, description, columns, drawing, operand_number, is_alone, is_quiet)


def _box(grid: Grid, cell: Cell, colours: Sequence[int], description: str) -> Iterator[str]:
    """Draw an element's box, with a stripe for each further colour of a move that accesses it."""
    x, y = grid.corner(cell[1])
    fill = f" f{colours[0]}" if colours else ""
    yield (
        f'<rect class="cell{fill}" x="{x}" y="{y}" width="{grid.cell}" height="{HEIGHT}" '
        f'data-c="{cell[0]}-{cell[1]}"><title>{escape(description)}</title></rect>'
    )
    for n, colour in enumerate(colours[1:], 1):
        left, right = (grid.cell * k // len(colours) for k in (n, n + 1))
        yield (
            f'<rect class="stripe f{colour}" x="{x + left}" y="{y + 1}" width="{right - left - 1}" '
            f'height="{HEIGHT - 2}"/>'
        )


def _value(grid: Grid, cell: int, colours: Sequence[int], label: str) -> str:
    x, y = grid.corner(cell)
    css_class = {0: "value still", 1: f"value v{colours[0] if colours else 0}"}.get(len(colours), "value")
    return f'<text class="{css_class}" x="{x + grid.cell // 2}" y="{y + 18}">{escape(label)}</text>'


def _paint(runs: Sequence[Run], colours: Sequence[int]) -> tuple[dict[Cell, list[int]], dict[Cell, int]]:
    """Return the colours of every element, its writer's first, and the number of the run that wrote it."""
    writers = {cell: n for n, run in enumerate(runs) for cell in run.destination}
    painted: dict[Cell, list[int]] = defaultdict(list)
    for cell, writer in writers.items():
        painted[cell].append(colours[writer])
    for run, colour in zip(runs, colours, strict=True):
        for cell in (*run.source, *run.indices):
            if colour not in painted[cell]:
                painted[cell].append(colour)
    return painted, writers


def element(section: Section, cell: Cell) -> str:
    """Return the name of an element: ``InputTensor[0, 3]``."""
    tensor = section.tensors[cell[0]]
    coordinates = [int(c) for c in np.unravel_index(cell[1], tensor.sizes)] if tensor.sizes else []
    return f"{shorten(tensor.name)}{coordinates}"


def sources(section: Section, journeys: Journeys) -> dict[Cell, str]:
    """Describe the origin of every element that is written."""
    texts: dict[Cell, str] = {}
    for run in journeys.runs:
        by = "".join(f", by {element(section, index)}" for index in run.indices)
        for k, cell in enumerate(run.destination):
            if run.fill is not None:
                texts[cell] = f" = fill {run.fill[:16].hex(' ')}{by}"
            elif len(run.source) == len(run.destination):
                texts[cell] = f" = {element(section, run.source[k])}{by}"
            elif run.source:
                texts[cell] = f" = part of {element(section, run.source[0])}…{by}"
            else:
                texts[cell] = f" = an element that depends on an index{by}"
    return texts


def _grids(tensors: Sequence[Tensor], cell: int) -> tuple[list[Grid], list[Column]]:
    grids = [Grid(tensor, 0, 0, cell) for tensor in tensors]
    columns, places = arrange(tensors, {k: (grid.width, grid.height) for k, grid in enumerate(grids)})
    return [Grid(tensor, *places[k], cell) for k, tensor in enumerate(tensors)], columns


def _lines(section: Section, grids: Sequence[Grid], run: Run, colour: int) -> Iterator[str]:
    if not run.destination or not run.source:
        # The other end depends on an unknown index: draw a line from the index instead.
        ends = run.destination or run.source
        pairs: list[tuple[tuple[Cell, ...], tuple[Cell, ...]]] = [((index,), ends) for index in run.indices[:1]]
    else:
        pairs = [(run.source, run.destination)]
    for source, destination in pairs:
        if not destination:
            continue
        (k, _), (to, _) = source[0], destination[0]
        *start, leaves = grids[k].end([cell for _, cell in source], is_source=True)
        *end, enters = grids[to].end([cell for _, cell in destination], is_source=False)
        names = [" ".join(f"{operand}-{cell}" for operand, cell in cells) for cells in (source, destination)]
        by = " ".join(f"{operand}-{cell}" for operand, cell in run.indices)
        attributes = f' data-f="{names[0]}" data-t="{names[1]}"' + (f' data-i="{by}"' if by else "")
        description = f"{element(section, source[0])} → {element(section, destination[0])}"
        if len(destination) > 1:
            description += f", {count_noun(len(destination), 'element')}"
        yield from arrow(start, end, colour, description, attributes, (leaves, enters))


def _colours(section: Section, runs: Sequence[Run]) -> list[int]:
    """Return a colour for each run: one per move, if there are several moves but no more than `COLOURS`.

    Otherwise, one per tensor from which elements come, or per coordinate in it if there is only one.
    """
    moves = section.moves
    starts = _starts(runs)
    tensors = {start[0] for start in starts if start}
    if len(moves) == 1 or (len(moves) > COLOURS and len(tensors) == 1):
        axis = _axis(section, moves, starts)
        keys = [_coordinate(section, start, axis) if start else k for k, start in enumerate(starts)]
    elif len(moves) > COLOURS and len(tensors) > 1:
        keys = [start[0] if start else run.move for run, start in zip(runs, starts, strict=True)]
    else:
        keys = [run.move for run in runs]
    return [key % COLOURS for key in keys]


def _starts(runs: Sequence[Run]) -> list[Cell | None]:
    """Return the element that each run's first element originally comes from, through all intermediate ones."""
    origins: dict[Cell, Cell] = {}
    starts = []
    for run in runs:
        starts.append(origins.get(run.source[0], run.source[0]) if run.source else None)
        firsts = [origins.get(cell, cell) for cell in run.source]
        origins.update(zip(run.destination, firsts, strict=False))
    return starts


def _axis(section: Section, moves: Sequence[Move], starts: Sequence[Cell | None]) -> int:
    """Return the axis that a single move looks up, or the first along which the starts differ."""
    known_starts = [start for start in starts if start]
    if not known_starts:
        return 0
    tensor = section.tensors[known_starts[0][0]]
    source = moves[0].source
    for lookup in source.lookups if len(moves) == 1 and isinstance(source, Access) else ():
        for axis, (size, stride) in enumerate(zip(tensor.sizes, tensor.strides, strict=True)):
            if size > 1 and stride == lookup.stride:
                return axis
    for axis in range(len(tensor.sizes)):
        if len({_coordinate(section, start, axis) for start in known_starts}) > 1:
            return axis
    return 0


def _coordinate(section: Section, cell: Cell, axis: int) -> int:
    sizes = section.tensors[cell[0]].sizes
    return int(np.unravel_index(cell[1], sizes)[axis]) if sizes else 0
