"""The table that `anydml ops` prints, made from the operators' own support tables."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table

from anydml.feature_level import Support
from anydml.operators import REGISTRY, OperatorDesc
from anydml.operators.base import camel, dimension_text
from anydml.tensor import MAX_DIMENSIONS, DataType

WIDTH = 80


def operator_table(colour: bool = False) -> str:
    """Operators × feature levels × tensors × dimension counts × data types, in 80 columns.

    Args:
        colour: whether the output is a terminal that can show headings in bold.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("type in a model file", "at", "tensors", "dim", "data types"):
        table.add_column(heading, no_wrap=True)
    for name, kind in sorted(REGISTRY.items()):
        table.add_row()
        for i, (level, tensors, dimensions, types) in enumerate(_rows(kind)):
            table.add_row("" if i else name, level, "\n".join(tensors), dimensions, types)
    text = io.StringIO()
    console = Console(file=text, width=WIDTH, force_terminal=colour, highlight=False, legacy_windows=False)
    console.print(table)
    # Rich fills lines up with spaces, which only get in the way of whatever reads them next.
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def _rows(kind: type[OperatorDesc]) -> Iterator[tuple[str, list[str], str, str]]:
    """Level, tensors, dimension counts and data types; tensors that may be the same share a row."""
    if not kind.SUPPORT:
        yield "any", [camel(field) for field in (*kind.INPUTS, *kind.OUTPUTS)], f"1-{MAX_DIMENSIONS}", "any"
    for row in kind.SUPPORT:
        alike: dict[Support, list[str]] = {}
        for tensor, support in row.tensors.items():
            alike.setdefault(support, []).append(tensor)
        for i, (support, tensors) in enumerate(alike.items()):
            dimensions = dimension_text(support.min_dimensions, support.max_dimensions).replace(" to ", "-")
            yield "" if i else row.level.short, tensors, dimensions, _type_text(support.data_types)


def _type_text(types: Iterable[DataType]) -> str:
    """One line a kind: ``FLOAT 64 32 16``."""
    widths: dict[str, list[int]] = {}
    for data_type in types:
        kind = data_type.name.rstrip("0123456789")
        widths.setdefault(kind, []).append(data_type.itemsize * 8)
    lines = (f"{kind} {' '.join(map(str, sorted(bits, reverse=True)))}" for kind, bits in widths.items())
    return "\n".join(lines)
