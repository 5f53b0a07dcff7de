"""Pictures of large programs: tensors, and the parts that moves access, as boxes to scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from anydml.explain.columns import Column, arrange
from anydml.explain.section import Section, Tensor
from anydml.explain.stripes import Place, Touch, striped
from anydml.explain.svg import COLOURS, LINE, arrow, escaped, shortened, svg
from anydml.moves.move import Access, Move

WIDTH, HEIGHT, LEAST, LEAST_TENSOR = 220, 180, 6, 28
"""Pixels of the longest axes, and the least pixels of parts and tensors, which are then not to scale."""

LABEL = 36
MOST_TENSORS, MOST_MOVES = 40, 64
"""Tensors and moves that one picture shows at most; a page has the rest in its tables."""

Range = tuple[int, int]


@dataclass(frozen=True)
class Sheet:
    """The box of a tensor: its last axis is horizontal, some or all of the others are vertical."""

    tensor: Tensor
    down: tuple[int, ...]
    x: int
    y: int
    width: int
    height: int

    @property
    def bottom(self) -> int:
        """The first pixel below."""
        return self.y + LABEL + self.height

    def span(self, ranges: Sequence[Range]) -> tuple[Range, Range]:
        """Return the first and last row, and the first and last column, of a range of coordinates."""
        top = bottom = 0
        for axis in self.down:
            size = self.tensor.sizes[axis]
            top, bottom = top * size + ranges[axis][0], bottom * size + ranges[axis][1]
        return (top, bottom), ranges[-1] if ranges else (0, 0)

    def part(self, ranges: Sequence[Range]) -> Place:
        """Return x, y, width and height of a range of coordinates, at least a few pixels each."""
        rows, columns = _rows_and_columns(self.tensor, self.down)
        (top, bottom), (left, right) = self.span(ranges)
        x = self.x + self.width * left // columns
        y = self.y + LABEL + self.height * top // rows
        width = max(self.x + self.width * (right + 1) // columns - x, LEAST)
        height = max(self.y + LABEL + self.height * (bottom + 1) // rows - y, LEAST)
        return x, y, min(width, self.x + self.width - x), min(height, self.bottom - y)


def picture(section: Section, number: int = 0, is_alone: bool = True) -> str:
    """Draw the boxes that the moves of a section access, as SVG."""
    sheets, columns = _sheets(section)
    moves = section.moves
    touches = [_touches(section, sheets, move) for move in moves[:MOST_MOVES]]
    placed, are_striped = striped(touches)
    parts: list[str] = []
    lines: list[str] = []
    for column in columns:
        found: list[str] = []
        for k in column.members:
            found += _sheet(k, sheets[k])
            for n, places in enumerate(placed):
                drawn = (place for operand, stripes in places if operand == k for place in stripes)
                found += [_part(moves[n], n % COLOURS, place) for place in drawn]
        parts += column.group(found)
    for n, places in enumerate(placed):
        lines += _arrows(moves[n], n % COLOURS, places)
    text = []
    if any(not sheet.tensor.is_packed for sheet in sheets.values()):
        text.append("* is not packed")
    if are_striped:
        text.append("moves that share a part alternate in stripes")
    if len(section.tensors) > len(sheets):
        text.append(f"and {len(section.tensors) - len(sheets)} more tensors")
    if len(moves) > MOST_MOVES:
        text.append(f"and {len(moves) - MOST_MOVES} more moves")
    about = "; ".join(f"#{k}: {sheet.tensor}" for k, sheet in sheets.items())
    return svg(section.title, about, columns, [*parts, *lines], text, number, is_alone)


def _sheet(number: int, sheet: Sheet) -> Iterator[str]:
    tensor = sheet.tensor
    lines = (
        f"#{number} {shortened(tensor.name, 40)}",
        f"{tensor.type_name} {list(tensor.sizes)}, {tensor.bytes_spanned:,} B" + ("" if tensor.is_packed else " *"),
    )
    for i, line in enumerate(lines):
        yield f'<text class="head" x="{sheet.x}" y="{sheet.y + 13 + LINE * i}">{escaped(line)}</text>'
    yield (
        f'<rect class="cell" x="{sheet.x}" y="{sheet.y + LABEL}" width="{sheet.width}" height="{sheet.height}">'
        f"<title>{escaped(tensor)}</title></rect>"
    )


def _sheets(section: Section) -> tuple[dict[int, Sheet], list[Column]]:
    tensors = section.tensors
    down = _axes_down(section)
    shown = [k for k, tensor in enumerate(tensors) if tensor.count][:MOST_TENSORS]
    shapes = {k: _rows_and_columns(tensors[k], down[k]) for k in shown}
    rows = max((shape[0] for shape in shapes.values()), default=1)
    columns = max((shape[1] for shape in shapes.values()), default=1)
    sizes = {
        k: (max(WIDTH * wide // columns, LEAST_TENSOR), max(HEIGHT * high // rows, LEAST_TENSOR))
        for k, (high, wide) in shapes.items()
    }
    found, places = arrange(
        tensors, {k: (max(wide, _label_width(tensors[k])), LABEL + high) for k, (wide, high) in sizes.items()}
    )
    return {k: Sheet(tensors[k], down[k], *places[k], *sizes[k]) for k in sorted(places)}, found


def _label_width(tensor: Tensor) -> int:
    name = min(len(tensor.name), 40) + 4
    sizes = len(f"{tensor.type_name} {list(tensor.sizes)}, {tensor.bytes_spanned:,} B *")
    return 7 * max(name, sizes)


def _rows_and_columns(tensor: Tensor, down: Sequence[int]) -> tuple[int, int]:
    return math.prod(tensor.sizes[axis] for axis in down), tensor.sizes[-1] if tensor.sizes else 1


def _axes_down(section: Section) -> list[tuple[int, ...]]:
    """Return the vertical axes: for all tensors of a rank, those that any move cuts, else all but the last."""
    cut: dict[int, set[int]] = {}
    for move in section.moves[:MOST_MOVES]:
        for end in (move.source, move.destination):
            if isinstance(end, Access):
                sizes = section.tensors[end.operand].sizes
                ranges = touched(section, end, move)
                axes = {k for k, (size, each) in enumerate(zip(sizes, ranges, strict=True)) if each != (0, size - 1)}
                cut.setdefault(len(sizes), set()).update(axes)
    found = []
    for tensor in section.tensors:
        rank = len(tensor.sizes)
        every = range(rank - 1)
        found.append(tuple(axis for axis in every if axis in cut.get(rank, ())) or tuple(every))
    return found


def _touches(section: Section, sheets: Mapping[int, Sheet], move: Move) -> list[Touch]:
    """Return the boxes that a move accesses in its destination, source and indices, if they are drawn."""
    ends = [move.destination, *([move.source] if isinstance(move.source, Access) else [])]
    ends += [Access(each.operand, each.offset, each.strides, each.lookups) for each in move.every_lookup()]
    found = []
    for end in ends:
        if end.operand in sheets:
            sheet, ranges = sheets[end.operand], touched(section, end, move)
            rows, columns = (last - first + 1 for first, last in sheet.span(ranges))
            row_bytes = sheet.tensor.element_size * columns
            # A box that is written whole is drawn below later ones.
            is_under = end is move.destination and move.bytes_written >= row_bytes * rows
            found.append(Touch(end.operand, sheet.part(ranges), is_under, _run_bytes(end, move) >= row_bytes))
    return found


def _run_bytes(end: Access, move: Move) -> int:
    """Return the length of the contiguous runs of one end of a move, in bytes."""
    run = move.element_size if end in (move.destination, move.source) else 1
    for size, stride in sorted(zip(move.sizes, map(abs, end.strides), strict=True), key=lambda each: each[1]):
        if 0 < stride <= run:
            run += (size - 1) * stride
    return run


def _part(move: Move, colour: int, place: Place) -> str:
    x, y, width, height = place
    return (
        f'<rect class="cell f{colour}" fill-opacity="0.7" x="{x}" y="{y}" width="{width}" height="{height}">'
        f"<title>{escaped(move)}</title></rect>"
    )


def _arrows(move: Move, colour: int, places: Sequence[tuple[int, Sequence[Place]]]) -> Iterator[str]:
    if places and places[0][0] == move.destination.operand:
        (_, (to, *_)), *others = places
        for _, (*_, (x, y, width, height)) in others:
            about = f"{move.bytes_written:,} B: {move}"
            yield from arrow((x + width, y + height // 2), (to[0], to[1] + to[3] // 2), colour, about)


def touched(section: Section, access: Access, move: Move) -> list[Range]:
    """Return the first and last coordinates along each axis that an access can reach in a tensor.

    A lookup can reach its whole axis.
    """
    tensor = section.tensors[access.operand]
    varying = [*zip(move.sizes, access.strides, strict=True)]
    varying += [(lookup.size, lookup.stride) for lookup in access.lookups]
    # An index is one element, regardless of its move's element size.
    is_end = access in (move.destination, move.source)
    varying.append((move.element_size // tensor.element_size or 1 if is_end else 1, tensor.element_size))
    first = last = access.offset
    for size, stride in varying:
        reach = (size - 1) * stride
        first, last = first + min(reach, 0), last + max(reach, 0)
    low, high = _coordinates(tensor, first), _coordinates(tensor, last)
    ranges: list[Range] = []
    for axis, (a, b) in enumerate(zip(low, high, strict=True)):
        # If an outer axis advances, the axes inside it are covered whole.
        wraps = any(low[k] != high[k] for k in range(axis)) and any(
            _runs_on(tensor, axis, size, stride) for size, stride in varying
        )
        ranges.append((0, tensor.sizes[axis] - 1) if wraps else (min(a, b), max(a, b)))
    return ranges


def _runs_on(tensor: Tensor, axis: int, size: int, stride: int) -> bool:
    """Whether one dimension of a move continues beyond the end of an axis."""
    own = abs(tensor.strides[axis])
    return (
        own > 0 and 0 < abs(stride) < own * tensor.sizes[axis] and (size - 1) * abs(stride) >= own * tensor.sizes[axis]
    )


def _coordinates(tensor: Tensor, byte: int) -> list[int]:
    """Return the coordinates of the element at a byte offset; along negative strides, they decrease."""
    found = [0] * len(tensor.sizes)
    rest = byte
    for axis, (size, stride) in enumerate(zip(tensor.sizes, tensor.strides, strict=True)):
        if stride < 0:
            rest -= (size - 1) * stride
            found[axis] = size - 1
    for axis in sorted(range(len(tensor.sizes)), key=lambda k: -abs(tensor.strides[k])):
        size, stride = tensor.sizes[axis], abs(tensor.strides[axis])
        steps = min(rest // stride, size - 1) if stride and size > 1 else 0
        steps = max(steps, 0)
        rest -= steps * stride
        found[axis] = found[axis] - steps if tensor.strides[axis] < 0 else steps
    return found
