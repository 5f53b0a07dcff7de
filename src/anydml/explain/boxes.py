"""The picture of a large program: tensors and what moves touch of them as boxes to scale."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anydml.explain.section import Section, Tensor
from anydml.explain.svg import COLOURS, arrow, escaped, shortened, svg
from anydml.moves.move import Access, Move

WIDTH, HEIGHT, LEAST, LEAST_TENSOR = 220, 180, 6, 28
"""Pixels of the longest axes, and of the shortest parts and tensors: so much is not to scale."""

LABEL, LINE, MARGIN, MIDDLE = 36, 16, 16, 150
MOST_TENSORS, MOST_MOVES = 40, 64
"""What one picture shows; a page says the rest in its tables."""

Range = tuple[int, int]


@dataclass(frozen=True)
class Sheet:
    """A tensor on paper: its last axis across, some or all of the others down."""

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

    def part(self, ranges: Sequence[Range]) -> tuple[int, int, int, int]:
        """Where a box of coordinates lies: x, y, width and height, at least a few pixels each."""
        rows, columns = _rows_and_columns(self.tensor, self.down)
        left, right = ranges[-1] if ranges else (0, 0)
        top = bottom = 0
        for axis in self.down:
            size = self.tensor.sizes[axis]
            top, bottom = top * size + ranges[axis][0], bottom * size + ranges[axis][1]
        x = self.x + self.width * left // columns
        y = self.y + LABEL + self.height * top // rows
        width = max(self.width * (right - left + 1) // columns, LEAST)
        height = max(self.height * (bottom - top + 1) // rows, LEAST)
        return x, y, min(width, self.x + self.width - x), min(height, self.bottom - y)


def picture(section: Section, number: int = 0) -> str:
    """An SVG of the boxes that a section's moves touch."""
    sheets = _sheets(section)
    parts, over = [], []
    for k, sheet in sheets.items():
        tensor = sheet.tensor
        lines = (
            f"#{k} {shortened(tensor.name, 40)}",
            f"{tensor.type_name} {list(tensor.sizes)}, {tensor.bytes_spanned:,} B" + ("" if tensor.is_packed else " *"),
        )
        for i, line in enumerate(lines):
            parts.append(f'<text class="head" x="{sheet.x}" y="{sheet.y + 13 + LINE * i}">{escaped(line)}</text>')
        parts.append(
            f'<rect class="cell" x="{sheet.x}" y="{sheet.y + LABEL}" width="{sheet.width}" height="{sheet.height}">'
            f"<title>{escaped(tensor)}</title></rect>"
        )
    moves = section.moves
    drawn = [_places(section, sheets, move) for move in moves[:MOST_MOVES]]
    striped = _striped(drawn)
    for n, (move, places) in enumerate(zip(moves, striped, strict=False)):
        over += [*_move(sheets, move, places, n % COLOURS)]
    foot = max((sheet.bottom for sheet in sheets.values()), default=MARGIN) + MARGIN
    text = []
    if any(not sheet.tensor.is_packed for sheet in sheets.values()):
        text.append("* has strides of its own")
    if len(section.tensors) > len(sheets):
        text.append(f"and {len(section.tensors) - len(sheets)} more tensors")
    if len(moves) > MOST_MOVES:
        text.append(f"and {len(moves) - MOST_MOVES} more moves")
    for i, line in enumerate(text):
        parts.append(f'<text class="head" x="{MARGIN}" y="{foot + LINE * i + 10}">{escaped(line)}</text>')
    width = max((sheet.x + _label_width(sheet) for sheet in sheets.values()), default=WIDTH) + MARGIN
    about = "; ".join(f"#{k}: {sheet.tensor}" for k, sheet in sheets.items())
    return svg(section.title, about, width, foot + LINE * len(text) + MARGIN, [*parts, *over], number)


def _sheets(section: Section) -> dict[int, Sheet]:
    tensors = section.tensors
    down = _axes_down(section)
    shown = [k for k, tensor in enumerate(tensors) if tensor.count][:MOST_TENSORS]
    shapes = {k: _rows_and_columns(tensors[k], down[k]) for k in shown}
    rows = max((shape[0] for shape in shapes.values()), default=1)
    columns = max((shape[1] for shape in shapes.values()), default=1)
    sheets: dict[int, Sheet] = {}
    x = MARGIN
    for roles in (("input", "constant"), ("scratch",), ("output",)):
        chosen = [k for k in shown if tensors[k].role in roles]
        y = MARGIN
        for k in chosen:
            high, wide = shapes[k]
            size = max(WIDTH * wide // columns, LEAST_TENSOR), max(HEIGHT * high // rows, LEAST_TENSOR)
            sheets[k] = Sheet(tensors[k], down[k], x, y, *size)
            y = sheets[k].bottom + MARGIN
        if chosen:
            x = max(sheets[k].x + _label_width(sheets[k]) for k in chosen) + MIDDLE
    return dict(sorted(sheets.items()))


def _label_width(sheet: Sheet) -> int:
    name = min(len(sheet.tensor.name), 40) + 4
    sizes = len(f"{sheet.tensor.type_name} {list(sheet.tensor.sizes)}, {sheet.tensor.bytes_spanned:,} B *")
    return max(sheet.width, 7 * max(name, sizes))


def _rows_and_columns(tensor: Tensor, down: Sequence[int]) -> tuple[int, int]:
    return math.prod(tensor.sizes[axis] for axis in down), tensor.sizes[-1] if tensor.sizes else 1


def _axes_down(section: Section) -> list[tuple[int, ...]]:
    """The axes that are drawn downwards: of tensors of one rank those that moves cut, or all but the last."""
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


Place = tuple[int, int, int, int]
"""x, y, width and height."""


def _places(section: Section, sheets: dict[int, Sheet], move: Move) -> list[Place]:
    """The boxes that a move touches: of its destination, its source and its indices, where they are drawn."""
    ends = [move.destination, *([move.source] if isinstance(move.source, Access) else [])]
    ends += [Access(each.operand, each.offset, each.strides, each.lookups) for each in move.every_lookup()]
    return [sheets[end.operand].part(touched(section, end, move)) for end in ends if end.operand in sheets]


def _striped(drawn: Sequence[Sequence[Place]]) -> Iterator[list[Place]]:
    """The same boxes, but for those that several moves share: each of these gets a stripe of it."""
    shared = Counter(place for places in drawn for place in set(places))
    taken: Counter[Place] = Counter()
    for places in drawn:
        found = []
        for x, y, width, height in places:
            count, k = shared[x, y, width, height], taken[x, y, width, height]
            left, right = width * k // count, width * (k + 1) // count
            found.append((x + min(left, width - 1), y, max(right - left, 1), height))
        taken.update(set(places))
        yield found


def _move(sheets: dict[int, Sheet], move: Move, places: Sequence[Place], colour: int) -> Iterator[str]:
    for x, y, width, height in places:
        yield (
            f'<rect class="cell f{colour}" fill-opacity="0.7" x="{x}" y="{y}" width="{width}" height="{height}">'
            f"<title>{escaped(move)}</title></rect>"
        )
    if move.destination.operand in sheets:
        to, *others = places
        for x, y, width, height in others:
            about = f"{move.bytes_written:,} B: {move}"
            yield from arrow((x + width, y + height // 2), (to[0], to[1] + to[3] // 2), colour, about)


def touched(section: Section, access: Access, move: Move) -> list[Range]:
    """The coordinates that an access can touch of a tensor: the first and the last along each axis.

    Lookups count with their whole axis.
    """
    tensor = section.tensors[access.operand]
    varying = [*zip(move.sizes, access.strides, strict=True)]
    varying += [(lookup.size, lookup.stride) for lookup in access.lookups]
    # An index is one element, whatever its move copies.
    is_end = access in (move.destination, move.source)
    varying.append((move.element_size // tensor.element_size or 1 if is_end else 1, tensor.element_size))
    first = last = access.offset
    for size, stride in varying:
        reach = (size - 1) * stride
        first, last = first + min(reach, 0), last + max(reach, 0)
    low, high = _coordinates(tensor, first), _coordinates(tensor, last)
    ranges: list[Range] = []
    for axis, (a, b) in enumerate(zip(low, high, strict=True)):
        # Where an axis further out moves on, those inside it are run through whole.
        wraps = any(low[k] != high[k] for k in range(axis)) and any(
            _runs_on(tensor, axis, size, stride) for size, stride in varying
        )
        ranges.append((0, tensor.sizes[axis] - 1) if wraps else (min(a, b), max(a, b)))
    return ranges


def _runs_on(tensor: Tensor, axis: int, size: int, stride: int) -> bool:
    """Whether one dimension of a move crosses from one line along an axis into the next."""
    own = abs(tensor.strides[axis])
    return (
        own > 0 and 0 < abs(stride) < own * tensor.sizes[axis] and (size - 1) * abs(stride) >= own * tensor.sizes[axis]
    )


def _coordinates(tensor: Tensor, byte: int) -> list[int]:
    """The coordinates of the element at a byte; negative strides count from the far end."""
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
