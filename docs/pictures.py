"""Draws the pictures of what moves where, from the moves themselves: ``python docs/pictures.py``.

Each picture is one example. Its operator is lowered and simplified as any other; every line in the picture is one run
of bytes that a move names, and every number in an output is read through that line. The result is compared with what
the reference device answers, so that a picture cannot show what does not happen.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import anydml as dml
from anydml import dxdispatch
from anydml.moves import Access, Lookup, Move, resolve, simplify

ROOT = Path(__file__).parents[1]
PICTURES = Path(__file__).parent / "pictures"
EXAMPLES = (
    "split",
    "split_axis3",
    "join",
    "slice",
    "slice1",
    "slice1_negative",
    "gather_1",
    "gather_2",
    "gather_3",
    "gather_4",
    "gather_5",
    "split_training",
    "concat_training",
)

FILLS = ("#bee3f8", "#fed7aa", "#c6f6d5", "#e9d8fd", "#fef08a", "#fecaca")
LINES = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#a16207", "#c53030")
WIDTH, HEIGHT, GAP, LABEL, MARGIN, MIDDLE, SMALL = 40, 26, 10, 22, 16, 150, 16


@dataclass(frozen=True)
class Run:
    """One run of bytes: its colour, and which elements of which operands, by their number in memory."""

    key: int
    source: int
    source_cells: range
    destination: int
    destination_cells: range
    indices: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Grid:
    """A tensor on paper: blocks of rows of columns, one below the other."""

    label: str
    values: np.ndarray[Any, Any]
    x: int
    y: int

    @property
    def _shape(self) -> tuple[int, int, int]:
        *blocks, rows, columns = self.values.shape if self.values.ndim > 1 else (self.values.size, 1)
        return int(np.prod(blocks, dtype=int)), rows, columns

    @property
    def width(self) -> int:
        """Pixels from side to side, the label included."""
        return max(self._shape[2] * WIDTH, 7 * len(self.label))

    @property
    def bottom(self) -> int:
        """The first pixel below."""
        blocks, rows, _ = self._shape
        return self.y + LABEL + blocks * rows * HEIGHT + (blocks - 1) * GAP

    def corner(self, cell: int) -> tuple[int, int]:
        """Where an element's box begins."""
        _, rows, columns = self._shape
        block, rest = divmod(cell, rows * columns)
        row, column = divmod(rest, columns)
        return self.x + column * WIDTH, self.y + LABEL + (block * rows + row) * HEIGHT + block * GAP

    def box(self, cells: range) -> tuple[int, int, int]:
        """Left, right and height of a run of elements; single ones of a row differ in height, so that lines do too."""
        corners = [self.corner(cell) for cell in cells]
        xs, ys = zip(*corners, strict=True)
        columns = self._shape[2]
        aside = 0 if len(cells) >= columns else round(14 * ((cells[0] % columns + 0.5) / columns - 0.5))
        return min(xs), max(xs) + WIDTH, (min(ys) + max(ys) + HEIGHT) // 2 + aside


def address(access: Access | Lookup, at: Sequence[int]) -> int:
    """The byte that an access, or a lookup, names for a coordinate: its own formula, word for word."""
    return access.offset + sum(c * stride for c, stride in zip(at, access.strides, strict=True))


def runs(desc: dml.OperatorDesc, moves: Sequence[Move], operands: Sequence[np.ndarray[Any, Any]]) -> Iterator[Run]:
    """Every run of bytes that the moves of a desc copy."""
    for number, move in enumerate(moves):
        for at in itertools.product(*map(range, move.sizes)):
            cells = []
            read = []
            for access in (move.destination, move.source):
                byte = address(access, at)
                for lookup in access.lookups:
                    indices = operands[lookup.operand].reshape(-1)
                    read.append((lookup.operand, address(lookup, at) // indices.itemsize))
                    byte += lookup.stride * int(resolve(indices[read[-1][1] :][:1], lookup.size)[0])
                size = operands[access.operand].itemsize
                cells.append(range(byte // size, (byte + move.element_size) // size))
            to, source = cells
            key = number
            if len(moves) == 1:
                shape = operands[0].shape
                axis = getattr(desc, "axis", max(len(shape) - 2, 0))
                key = int(np.unravel_index(source[0], shape)[axis])
            yield Run(key, move.source.operand, source, move.destination.operand, to, tuple(read))


def picture(desc: dml.OperatorDesc, inputs: Sequence[np.ndarray[Any, Any]]) -> str:
    """An SVG of an operator at work."""
    outputs = [np.empty(tensor.sizes, tensor.data_type.dtype) for _, tensor in desc.outputs]
    operator = dml.Device("reference").compile_operator(desc)
    operator.bind(inputs=list(inputs), outputs=outputs).dispatch()
    operands = [*inputs, *outputs, *desc.constants]
    moves = simplify(desc.moves())
    copied = list(runs(desc, moves, operands))
    reached = {k: np.zeros(array.size, bool) for k, array in enumerate(operands)}
    for run in copied:
        source, to = operands[run.source].reshape(-1), operands[run.destination].reshape(-1)
        np.testing.assert_array_equal(to[run.destination_cells], source[run.source_cells])
        reached[run.destination][list(run.destination_cells)] = True
    first = len(inputs)
    for k in range(first, first + len(outputs)):
        assert reached[k].all(), f"no move writes all of operand {k}"

    names = [f"{name} {list(tensor.sizes)}" for name, tensor in (*desc.inputs, *desc.outputs)]
    names += ["lengths, known from the desc"] * len(desc.constants)
    on_left = [*range(first), *range(first + len(outputs), len(operands))]
    left = _stack(on_left, operands, names, MARGIN)
    middle = max(grid.x + grid.width for grid in left.values()) + MIDDLE
    right = _stack(range(first, first + len(outputs)), operands, names, middle)
    grids = left | right
    return _svg(grids, copied, [f"#{k}: {name}" for k, name in enumerate(names)], moves)


def _stack(
    numbers: Sequence[int], operands: Sequence[np.ndarray[Any, Any]], names: Sequence[str], x: int
) -> dict[int, Grid]:
    grids: dict[int, Grid] = {}
    y = MARGIN
    for k in numbers:
        grids[k] = Grid(names[k], operands[k], x, y)
        y = grids[k].bottom + MARGIN
    return grids


def _svg(grids: dict[int, Grid], copied: Sequence[Run], legend: Sequence[str], moves: Sequence[Move]) -> str:
    colours: dict[tuple[int, int], int] = {}
    for run in copied:
        cells = [(run.source, cell) for cell in run.source_cells] + [*run.indices]
        cells += [(run.destination, cell) for cell in run.destination_cells]
        colours |= dict.fromkeys(cells, run.key % len(FILLS))
    text = [str(move) for move in moves]
    foot = max(grid.bottom for grid in grids.values()) + MARGIN
    width = max(*(grid.x + grid.width for grid in grids.values()), *(int(6.7 * len(line)) for line in text)) + MARGIN
    height = foot + SMALL * len(text) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f"<title>{'; '.join(legend)}</title>",
        f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
    ]
    numbers = []
    for k, grid in grids.items():
        parts.append(f'<text x="{grid.x}" y="{grid.y + 14}" font-size="12" fill="#4a5568">{grid.label}</text>')
        for cell, value in enumerate(grid.values.reshape(-1).tolist()):
            x, y = grid.corner(cell)
            colour = colours.get((k, cell))
            fill = "#ffffff" if colour is None else FILLS[colour]
            parts.append(f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" fill="{fill}" stroke="#718096"/>')
            ink = "#a0aec0" if colour is None else "#1a202c"
            numbers.append(
                f'<text x="{x + WIDTH // 2}" y="{y + 18}" text-anchor="middle" fill="{ink}" stroke="{fill}" '
                f'stroke-width="3" paint-order="stroke">{value:g}</text>'
            )
    for run in copied:
        _, x, y = grids[run.source].box(run.source_cells)
        end, _, to = grids[run.destination].box(run.destination_cells)
        bend = (end - x) // 2
        line = LINES[run.key % len(LINES)]
        parts.append(
            f'<path d="M{x} {y}C{x + bend} {y} {end - bend} {to} {end - 5} {to}" fill="none" stroke="{line}" '
            'stroke-width="1.6" stroke-opacity="0.75"/>'
            f'<path d="M{end} {to}l-7 -4v8z" fill="{line}"/>'
        )
    for i, line in enumerate(text):
        y = foot + SMALL * i + 10
        parts.append(f'<text x="{MARGIN}" y="{y}" font-family="monospace" font-size="11" fill="#4a5568">{line}</text>')
    return "\n".join([*parts, *numbers, "</svg>\n"])


def example(name: str) -> str:
    """The picture of ``examples/<name>.json``."""
    model = dxdispatch.load(ROOT / "examples" / f"{name}.json")
    contents = dxdispatch.run(model, device="reference", log=lambda line: None)
    command = next(command for command in model.commands if hasattr(command, "dispatchable"))
    desc = command.dispatchable.desc
    bound = [binding for field in desc.INPUTS for binding in command.bindings[field.title().replace("_", "")]]
    inputs = []
    for binding, (_, tensor) in zip(bound, desc.inputs, strict=True):
        dtype, values = tensor.data_type.dtype, np.asarray(contents[binding.resource.name])
        start = binding.offset_in_bytes // dtype.itemsize
        count = int(np.prod(tensor.sizes))
        inputs.append(values.reshape(-1)[start : start + count].astype(dtype).reshape(tensor.sizes))
    return picture(desc, inputs)


def gather_outside() -> str:
    """Indices below 0, and beyond the end."""
    desc = dml.GatherOperatorDesc(
        input_tensor=dml.TensorDesc("FLOAT32", [3]),
        indices_tensor=dml.TensorDesc("INT64", [5]),
        output_tensor=dml.TensorDesc("FLOAT32", [5]),
        axis=0,
        index_dimensions=1,
    )
    return picture(desc, [np.array([10, 11, 12], np.float32), np.array([0, -1, 2, 99, -99], np.int64)])


def pictures() -> dict[str, str]:
    """Every picture, by the name of its file."""
    drawn = {f"{name}.svg": example(name) for name in EXAMPLES}
    return drawn | {"gather_outside.svg": gather_outside()}


if __name__ == "__main__":
    PICTURES.mkdir(exist_ok=True)
    for file, text in pictures().items():
        (PICTURES / file).write_text(text, encoding="utf-8")
        print(file)
