"""The table of `anydml ops`, generated from the operators' support tables."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from anydml.dxdispatch.json_descs import parse_operator_type
from anydml.feature_level import Support
from anydml.files.location import Location
from anydml.operators import REGISTRY, OperatorDesc
from anydml.operators.problem import camel, dimension_text
from anydml.tensor import MAX_DIMENSIONS, DataType

WIDTH = 60
"""Characters per line."""

HEADINGS = ("at", "tensors", "dim", "data types")

Row = tuple[str, str, str, str]


def find_operators(names: Sequence[str]) -> dict[str, type[OperatorDesc]]:
    """Return the desc classes of operators by type; all operators if no name is given.

    Args:
        names: operators as in model files, in any case, with or without ``DML_OPERATOR_``.

    Raises:
        ModelError: there is no such operator.
    """
    types = [parse_operator_type(name.upper(), Location("ops")) for name in names] or REGISTRY.values()
    return {name: desc_class for name, desc_class in sorted(REGISTRY.items()) if desc_class in types}


def operator_table(operators: Mapping[str, type[OperatorDesc]], colour: bool) -> str:
    """Return a table of feature levels, tensors, dimension counts and data types, 60 columns wide.

    Args:
        operators: the desc classes by operator type.
        colour: whether to emit escape sequences for bold text.
    """
    sections = {name: list(_rows(desc_class)) for name, desc_class in operators.items()}
    table_rows = [HEADINGS, *(row for rows in sections.values() for row in rows)]
    widths = [max(len(line) for row in table_rows for line in row[k].splitlines()) for k in range(len(HEADINGS))]
    text = io.StringIO()
    console = Console(file=text, width=WIDTH, force_terminal=colour, highlight=False, legacy_windows=False)
    console.print("type in a model file", style="bold")
    console.print(_table([HEADINGS], widths))
    for name, rows in sections.items():
        console.print()
        console.print(name, style="bold")
        console.print(_table(rows, widths))
    # Rich pads lines with spaces.
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def rows_of_operators(operators: Mapping[str, type[OperatorDesc]]) -> dict[str, list[dict[str, object]]]:
    """Return what each operator supports, for JSON: lists of `tensors`, `dimensions` and `data_types` at a level."""
    return {name: [_row_as_json(row) for row in _rows(desc_class)] for name, desc_class in operators.items()}


def _row_as_json(row: Row) -> dict[str, object]:
    level, tensors, dimensions, types = row
    return {"level": level, "tensors": tensors.split("\n"), "dimensions": dimensions, "data_types": types.split("\n")}


def _table(rows: Iterable[Row], widths: Sequence[int]) -> Padding:
    table = Table.grid(padding=(0, 2, 0, 0))
    for width in widths:
        table.add_column(width=width, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return Padding.indent(table, 2)


def _rows(desc_class: type[OperatorDesc]) -> Iterator[Row]:
    """Yield level, tensors, dimension counts and data types; tensors with equal support share a row."""
    if not desc_class.SUPPORT:
        yield (
            "any",
            "\n".join(camel(field) for field in (*desc_class.INPUTS, *desc_class.OUTPUTS)),
            f"1-{MAX_DIMENSIONS}",
            "any",
        )
    for row in desc_class.SUPPORT:
        names_by_support: dict[Support, list[str]] = {}
        for tensor, support in row.tensors.items():
            names_by_support.setdefault(support, []).append(tensor)
        for i, (support, tensors) in enumerate(names_by_support.items()):
            dimensions = dimension_text(support.min_dimensions, support.max_dimensions).replace(" to ", "-")
            yield "" if i else row.level.short, "\n".join(tensors), dimensions, _type_text(support.data_types)


def _type_text(types: Iterable[DataType]) -> str:
    """Format data types, one line per kind: ``FLOAT 64 32 16``."""
    widths: dict[str, list[int]] = {}
    for data_type in types:
        type_family = data_type.name.rstrip("0123456789")
        widths.setdefault(type_family, []).append(data_type.itemsize * 8)
    lines = (f"{type_family} {' '.join(map(str, sorted(bits, reverse=True)))}" for type_family, bits in widths.items())
    return "\n".join(lines)
