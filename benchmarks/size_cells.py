"""Cells of the grid of sizes: what was measured, tables of it, and files that keep it, slice by slice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.report import geometric_mean
from benchmarks.size_cases import WAYS

LIMIT = 0.01
"""Ratios that differ from 1 by less count as 1."""

ALONE = "anydml, one thread"
"""What our own time with one thread is called."""

STATES = {
    "hot": "calls in a loop",
    "idle": "each call after 5 ms of idleness",
    "taken": "one core taken by another process",
}
"""In which state of the machine calls are timed."""

CLASSES = (("below 4K", 0, 4 << 10), ("4K to 16K", 4 << 10, 64 << 10), ("64K and more", 64 << 10, 1 << 40))
"""Names of classes of sizes, the least size, and the one above the last."""


@dataclass(frozen=True)
class Cell:
    """What was measured of a case, a size, a way and a state.

    Attributes:
        case: its name.
        about: what it does.
        size: bytes of its input.
        way: one of `WAYS`.
        seconds: medians of a call, by name.
        ratio: the fastest peer's time by ours.
        state: one of `STATES`.
        rounds: how many a median is taken of.
        alone: our time by our time with one thread, where that was asked for.
    """

    case: str
    about: str
    size: int
    way: str
    seconds: dict[str, float]
    ratio: float
    state: str = "hot"
    rounds: int = 0
    alone: float | None = None

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What tells it from others; cells are shown in this order."""
        return key_of(self.state, self.case, self.way, self.size)

    @property
    def is_below(self) -> bool:
        """Whether a peer is faster."""
        return self.ratio < 1 - LIMIT


def key_of(state: str, case: str, way: str, size: int) -> tuple[str, str, str, int]:
    """What tells a cell from others, in the order in which they are shown."""
    return state, f"{case:>4}", f"{WAYS.index(way)}", size


def size_text(size: int) -> str:
    """``"4K"``, ``"16M"``."""
    for unit, letter in ((1 << 20, "M"), (1 << 10, "K")):
        if size >= unit:
            return f"{size // unit}{letter}"
    return str(size)


def table(cells: Sequence[Cell]) -> str:
    """Ratios, a row a case and way, a column a size; those below 1 are in brackets."""
    sizes = sorted({cell.size for cell in cells})
    found = {(cell.case, cell.way, cell.size): cell for cell in cells}
    lines = [f"{'case':6}{'way':8}" + "".join(f"{size_text(size):>8}" for size in sizes)]
    for case, way in dict.fromkeys((cell.case, cell.way) for cell in cells):
        row = ""
        for size in sizes:
            cell = found.get((case, way, size))
            text = "" if cell is None else f"{cell.ratio:.2f}"
            row += f"{f'({text})' if cell and cell.is_below else text:>8}"
        lines.append(f"{case:6}{way:8}{row}")
    return "\n".join(lines)


def summary(cells: Sequence[Cell]) -> str:
    """Means and least ratios by way and class of sizes, and every cell that is below 1."""
    lines = []
    for way in WAYS:
        for name, low, high in CLASSES:
            some = [cell for cell in cells if cell.way == way and low <= cell.size < high]
            if some:
                least = min(some, key=lambda cell: cell.ratio)
                slowest = max(cell.seconds["anydml"] for cell in some) * 1e6
                mean = geometric_mean([cell.ratio for cell in some])
                where = f"{least.case} {size_text(least.size)}"
                near = sum(cell.ratio >= 0.95 for cell in some) / len(some)
                text = f"geometric mean {mean:.2f}, least {least.ratio:.2f} ({where}), {near:.0%} at 0.95 or more"
                lines.append(f"{way:8}{name:14}{text}, longest call {slowest:.2f} µs")
    with_alone = [(cell.alone, cell.case, size_text(cell.size), cell.way) for cell in cells if cell.alone]
    if with_alone:
        most = max(with_alone)
        lines.append(f"ours by ours with one thread: at most {most[0]:.2f} ({' '.join(most[1:])})")
    below = sorted((cell for cell in cells if cell.is_below), key=lambda cell: cell.ratio)
    lines.append(f"\n{len(below)} of {len(cells)} cells are below 1:" if below else "\nno cell is below 1")
    for cell in below:
        fastest = min((seconds, name) for name, seconds in cell.seconds.items() if not name.startswith("anydml"))
        ours = cell.seconds["anydml"] * 1e6
        times = f"ours {ours:.2f} µs, {fastest[1]} {fastest[0] * 1e6:.2f} µs"
        lines.append(f"  {cell.case} {size_text(cell.size):>5} {cell.way:7}{cell.ratio:.2f}  {times}  {cell.about}")
    return "\n".join(lines)


@dataclass(frozen=True)
class Kept:
    """What a results file holds.

    Attributes:
        machine: on which all of it was measured.
        runs: date and command of each run that added to it.
        cells: in the order in which they are shown.
    """

    machine: dict[str, Any]
    runs: list[dict[str, str]]
    cells: list[Cell]

    @classmethod
    def read(cls, path: Path) -> Kept:
        """What a file holds."""
        found = json.loads(path.read_text(encoding="utf-8"))
        return cls(found["machine"], found["runs"], [Cell(**cell) for cell in found["cells"]])

    def and_also(self, other: Kept) -> Kept:
        """Both, the other's cells in place of ours where both have one.

        Raises:
            SystemExit: they are of two machines.
        """
        if self.machine != other.machine:
            keys = {*self.machine, *other.machine}
            differ = sorted(key for key in keys if self.machine.get(key) != other.machine.get(key))
            raise SystemExit(f"the file is of another machine ({', '.join(differ)} differ): name another file")
        cells = {cell.key: cell for cell in (*self.cells, *other.cells)}
        runs = [run for run in self.runs if run not in other.runs] + other.runs
        return Kept(self.machine, runs, [cells[key] for key in sorted(cells)])

    def write(self, path: Path) -> None:
        """Keep it in a file."""
        cells = ",\n".join(f"  {json.dumps(asdict(cell), ensure_ascii=False)}" for cell in self.cells)
        rest = json.dumps({"machine": self.machine, "runs": self.runs}, indent=1, ensure_ascii=False)
        path.write_text(f'{rest[:-2]},\n "cells": [\n{cells}\n ]\n}}\n', encoding="utf-8")
