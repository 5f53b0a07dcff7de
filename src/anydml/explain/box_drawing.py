"""Pictures of large programs: tensors, and the parts that moves access, as boxes to scale."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from anydml.explain.columns import Column, arrange
from anydml.explain.section import Section, Tensor
from anydml.explain.solids import DEPTH, grid, sides
from anydml.explain.stripes import AccessedArea, Rectangle, divide_into_stripes
from anydml.explain.svg import COLOURS, LINE, arrow, escape, shorten, svg
from anydml.moves.move import Access, Move
from anydml.text import count_noun

WIDTH = 220
"""Pixels of the longest horizontal axis."""

HEIGHT = 180
"""Pixels of the longest vertical axis."""

MIN_PART = 6
"""Minimum pixels of a part of a tensor, which is then not to scale."""

MIN_TENSOR = 28
"""Minimum pixels of a tensor, which is then not to scale."""

MAX_TENSORS = 40
"""Maximum number of tensors in a picture; the tables of a page have the rest."""

MAX_MOVES = 64
"""Maximum number of moves in a picture; the tables of a page have the rest."""

Range = tuple[int, int]


@dataclass(frozen=True)
class TensorBox:
    """The box of a tensor: its last axis is horizontal, some or all of the others are vertical.

    In a block, whose depth is not 0, only the second last axis is vertical; earlier axes run into the depth.
    """

    tensor: Tensor
    down: tuple[int, ...]
    x: int
    y: int
    width: int
    height: int
    depth: int

    @property
    def front(self) -> Rectangle:
        """x, y, width and height of the front face."""
        return self.x, self.y, self.width, self.height

    def back(self, ranges: Sequence[Range]) -> Range:
        """Return the first and the last pixel that a range of coordinates goes back."""
        count, first, last = _flat(self.tensor, range(len(ranges) - 2), ranges)
        start = self.depth * first // count
        return start, max(self.depth * (last + 1) // count, start + 1)

    def part(self, ranges: Sequence[Range]) -> Rectangle:
        """Return x, y, width and height of a range of coordinates, at least a few pixels each."""
        rows, top, bottom = _flat(self.tensor, self.down, ranges)
        columns, left, right = _flat(self.tensor, range(len(ranges))[-1:], ranges)
        x, y = self.width * left // columns, self.height * top // rows
        width = max(self.width * (right + 1) // columns - x, MIN_PART)
        height = max(self.height * (bottom + 1) // rows - y, MIN_PART)
        depth_offset = self.back(ranges)[0] if self.depth else 0
        return (
            self.x + x + depth_offset,
            self.y + y - depth_offset,
            min(width, self.width - x),
            min(height, self.height - y),
        )


def picture(section: Section, operand_number: int = 0, is_alone: bool = True) -> str:
    """Draw the boxes that the moves of a section access, as SVG."""
    sheets, columns = _sheets(section)
    moves = section.moves
    touches = [_find_touches(section, sheets, move) for move in moves[:MAX_MOVES]]
    drawn_moves, are_striped = divide_into_stripes(touches)
    parts: list[str] = []
    lines: list[str] = []
    for column in columns:
        sheet_svg: list[str] = []
        for k in column.members:
            sheet_svg += _sheet(k, sheets[k])
            drawn = [
                (n, rectangle, touch.back)
                for n, places in enumerate(drawn_moves)
                for touch, (operand, stripes) in zip(touches[n], places, strict=True)
                if operand == k
                for rectangle in stripes
            ]
            if sheets[k].depth:
                # Cells in front, above or to the right hide other cells, and so are drawn last.
                drawn.sort(key=lambda rectangle: (-rectangle[2][0], -rectangle[1][1], rectangle[1][0]))
            for n, rectangle, (start, end) in drawn:
                sheet_svg += _part(moves[n], n % COLOURS, rectangle, end - start if sheets[k].depth else 0)
            sheet_svg += _grid(sheets[k])
        parts += column.group(sheet_svg)
    for n, places in enumerate(drawn_moves):
        lines += _arrows(moves[n], n % COLOURS, places, touches[n])
    text = []
    if any(not sheet.tensor.is_packed for sheet in sheets.values()):
        text.append("* is not contiguous")
    if are_striped:
        text.append("moves that share a part alternate in stripes")
    if len(section.tensors) > len(sheets):
        text.append(f"and {count_noun(len(section.tensors) - len(sheets), 'more tensor')}")
    if len(moves) > MAX_MOVES:
        text.append(f"and {count_noun(len(moves) - MAX_MOVES, 'more move')}")
    description = "; ".join(f"#{k}: {sheet.tensor}" for k, sheet in sheets.items())
    return svg(section.title, description, columns, [*parts, *lines], operand_number, is_alone, text=text)


def _sheet(operand_number: int, sheet: TensorBox) -> Iterator[str]:
    tensor = sheet.tensor
    lines = _label(operand_number, tensor)
    for i, line in enumerate(lines, 1):
        y = sheet.y - sheet.depth - 7 - LINE * (len(lines) - i)
        yield f'<text class="head" x="{sheet.x}" y="{y}">{escape(line)}</text>'
    yield (
        f'<rect class="cell" x="{sheet.x}" y="{sheet.y}" width="{sheet.width}" height="{sheet.height}">'
        f"<title>{escape(tensor)}</title></rect>"
    )
    if sheet.depth:
        yield f'<path class="cell" d="{"".join(sides(sheet.front, sheet.depth))}"/>'


def _grid(sheet: TensorBox) -> Iterator[str]:
    if sheet.tensor.chunks:
        lines = "".join(grid(sheet.tensor.sizes, sheet.tensor.chunks, sheet.front, sheet.depth))
        yield f'<path class="cut" d="{lines}"/>'


def _sheets(section: Section) -> tuple[dict[int, TensorBox], list[Column]]:
    tensors = section.tensors
    # The chunks of three axes and more cannot be seen in a flat picture.
    are_blocks = any(len(tensor.chunks) > 2 for tensor in tensors)
    depths = [DEPTH if are_blocks and len(tensor.sizes) > 2 else 0 for tensor in tensors]
    down = [
        (len(tensor.sizes) - 2,) if depth else axes
        for tensor, depth, axes in zip(tensors, depths, _axes_down(section), strict=True)
    ]
    drawn = [k for k, tensor in enumerate(tensors) if tensor.count][:MAX_TENSORS]
    shapes = {k: _rows_and_columns(tensors[k], down[k]) for k in drawn}
    rows = max((shape[0] for shape in shapes.values()), default=1)
    columns = max((shape[1] for shape in shapes.values()), default=1)
    sizes = {
        k: (max(WIDTH * wide // columns, MIN_TENSOR), max(HEIGHT * high // rows, MIN_TENSOR))
        for k, (high, wide) in shapes.items()
    }
    labels = {k: _label(k, tensors[k]) for k in drawn}
    above = {k: 4 + LINE * len(labels[k]) + depths[k] for k in drawn}
    positions, places = arrange(
        tensors,
        {
            k: (max(wide + depths[k], 7 * max(map(len, labels[k]))), above[k] + high)
            for k, (wide, high) in sizes.items()
        },
    )
    sheets = {
        k: TensorBox(tensors[k], down[k], x, y + above[k], *sizes[k], depths[k]) for k, (x, y) in sorted(places.items())
    }
    return sheets, positions


def _label(operand_number: int, tensor: Tensor) -> list[str]:
    """Return the lines above a tensor."""
    size = f"{tensor.type_name} {list(tensor.sizes)}, {tensor.bytes_spanned:,} B" + ("" if tensor.is_packed else " *")
    chunks = [f"chunks {list(tensor.chunks)}"] if tensor.chunks else []
    return [f"#{operand_number} {shorten(tensor.name, 40)}", size, *chunks]


def _flat(tensor: Tensor, axes: Sequence[int], ranges: Sequence[Range]) -> tuple[int, int, int]:
    """Return the number of coordinates along axes that share a direction, and the first and the last of a range."""
    count, first, last = 1, 0, 0
    for axis in axes:
        size = tensor.sizes[axis]
        count, first, last = count * size, first * size + ranges[axis][0], last * size + ranges[axis][1]
    return count, first, last


def _rows_and_columns(tensor: Tensor, down: Sequence[int]) -> tuple[int, int]:
    return math.prod(tensor.sizes[axis] for axis in down), tensor.sizes[-1] if tensor.sizes else 1


def _axes_down(section: Section) -> list[tuple[int, ...]]:
    """Return the vertical axes of the tensors of each rank: the axes that any move cuts, or else all but the last."""
    cut: dict[int, set[int]] = {}
    for move in section.moves[:MAX_MOVES]:
        for end in (move.source, move.destination):
            if isinstance(end, Access):
                sizes = section.tensors[end.operand].sizes
                ranges = touched_range(section, end, move)
                axes = {k for k, (size, span) in enumerate(zip(sizes, ranges, strict=True)) if span != (0, size - 1)}
                cut.setdefault(len(sizes), set()).update(axes)
    axes_down = []
    for tensor in section.tensors:
        rank = len(tensor.sizes)
        all_axes = range(rank - 1)
        axes_down.append(tuple(axis for axis in all_axes if axis in cut.get(rank, ())) or tuple(all_axes))
    return axes_down


def _find_touches(section: Section, sheets: Mapping[int, TensorBox], move: Move) -> list[AccessedArea]:
    """Return the boxes that a move accesses in its destination, source and indices, if they are drawn."""
    ends = [move.destination, *([move.source] if isinstance(move.source, Access) else [])]
    ends += [Access(lookup.operand, lookup.offset, lookup.strides, lookup.lookups) for lookup in move.all_lookups()]
    touches = []
    for end in ends:
        if end.operand in sheets:
            sheet, ranges = sheets[end.operand], touched_range(section, end, move)
            _, *columns = _flat(sheet.tensor, range(len(ranges))[-1:], ranges)
            _, *rows = _flat(sheet.tensor, sheet.down, ranges)
            row_bytes = sheet.tensor.element_size * (columns[1] - columns[0] + 1)
            # A box that is written whole is drawn below later ones.
            is_under = end is move.destination and move.bytes_written >= row_bytes * (rows[1] - rows[0] + 1)
            has_whole_rows = _run_bytes(end, move) >= row_bytes
            back = sheet.back(ranges) if sheet.depth else (0, 1)
            touches.append(AccessedArea(end.operand, sheet.part(ranges), is_under, has_whole_rows, back))
    return touches


def _run_bytes(end: Access, move: Move) -> int:
    """Return the length of the contiguous runs of one end of a move, in bytes."""
    run = move.element_size if end in (move.destination, move.source) else 1
    for size, stride in sorted(zip(move.sizes, map(abs, end.strides), strict=True), key=lambda extent: extent[1]):
        if 0 < stride <= run:
            run += (size - 1) * stride
    return run


def _part(move: Move, colour: int, rectangle: Rectangle, depth: int) -> Iterator[str]:
    x, y, width, height = rectangle
    title = f"<title>{escape(move)}</title>"
    if depth:
        yield f'<path class="cell f{colour}" d="{"".join(sides(rectangle, depth))}">{title}</path>'
    yield (
        f'<rect class="cell f{colour}" fill-opacity="{1 if depth else 0.7}" x="{x}" y="{y}" '
        f'width="{width}" height="{height}">{title}</rect>'
    )


def _arrows(
    move: Move, colour: int, rectangles: Sequence[tuple[int, Sequence[Rectangle]]], touches: Sequence[AccessedArea]
) -> Iterator[str]:
    if rectangles and rectangles[0][0] == move.destination.operand:
        (_, ((left, top, _, high), *_)), *other_rectangles = rectangles
        start, end = touches[0].back
        # Layers further back are drawn further up and to the right.
        to = (left + (end - start) // 2, top - (end - start) // 2) if start else (left, top + high // 2)
        for _, (*_, (x, y, width, height)) in other_rectangles:
            yield from arrow((x + width, y + height // 2), to, colour, f"{move.bytes_written:,} B: {move}")


def touched_range(section: Section, access: Access, move: Move) -> list[Range]:
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
        # If an outer axis advances, all axes after it are covered whole.
        wraps = any(low[k] != high[k] for k in range(axis)) and any(
            _continues_on_axis(tensor, axis, size, stride) for size, stride in varying
        )
        ranges.append((0, tensor.sizes[axis] - 1) if wraps else (min(a, b), max(a, b)))
    return ranges


def _continues_on_axis(tensor: Tensor, axis: int, size: int, stride: int) -> bool:
    """Whether one dimension of a move continues beyond the end of an axis."""
    axis_stride = abs(tensor.strides[axis])
    return (
        axis_stride > 0
        and 0 < abs(stride) < axis_stride * tensor.sizes[axis]
        and (size - 1) * abs(stride) >= axis_stride * tensor.sizes[axis]
    )


def _coordinates(tensor: Tensor, byte: int) -> list[int]:
    """Return the coordinates of the element at a byte offset; along negative strides, they decrease."""
    coordinates = [0] * len(tensor.sizes)
    distance = byte
    for axis, (size, stride) in enumerate(zip(tensor.sizes, tensor.strides, strict=True)):
        if stride < 0:
            distance -= (size - 1) * stride
            coordinates[axis] = size - 1
    for axis in sorted(range(len(tensor.sizes)), key=lambda k: -abs(tensor.strides[k])):
        size, stride = tensor.sizes[axis], abs(tensor.strides[axis])
        steps = min(distance // stride, size - 1) if stride and size > 1 else 0
        steps = max(steps, 0)
        distance -= steps * stride
        coordinates[axis] = coordinates[axis] - steps if tensor.strides[axis] < 0 else steps
    return coordinates
