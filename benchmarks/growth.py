"""How the cost grows: with bytes, with the number of outputs, with threads. One kind of work each, ours alone."""

from __future__ import annotations

from typing import Any

import numpy as np

import anydml as dml
from benchmarks.blocks import Block
from benchmarks.measure import CopyLimit, medians

FLOAT32 = dml.DataType.FLOAT32


def growth_tables(rounds: int, *, quick: bool) -> dict[str, list[dict[str, Any]]]:
    """Print the tables and give their rows."""
    tables = {
        "bytes": _by_bytes(rounds, 26 if quick else 30),
        "outputs": _by_outputs(rounds, 1 << (24 if quick else 28)),
        "threads": _by_threads(rounds, 1 << (24 if quick else 28)),
    }
    for name, rows in tables.items():
        print(f"\nhow the cost of a split grows with {name}")
        for row in rows:
            print("  " + "  ".join(f"{key} {value}" for key, value in row.items()))
    return tables


def _split(rows: int, columns: int, parts: int) -> tuple[Any, CopyLimit]:
    """A bound dispatch, and copies in the same memory."""
    whole, part, kind = (rows, columns), (rows, columns // parts), np.dtype(np.float32)
    source, destination = Block([(whole, kind)], 0), Block([(part, kind)] * parts, 4 * rows * columns)
    desc = dml.SplitOperatorDesc(dml.TensorDesc(FLOAT32, whole), [dml.TensorDesc(FLOAT32, part)] * parts, 1)
    bound = dml.Device("cpu").compile_operator(desc).bind(inputs=source.arrays, outputs=destination.arrays)
    return bound.dispatch, CopyLimit(source.bytes, destination.bytes)


def _row(label: str, value: Any, total: int, seconds: float, copy: float | None = None) -> dict[str, Any]:
    row = {label: value, "µs": round(seconds * 1e6, 2), "GB/s": round(total / seconds / 1e9, 1)}
    return row if copy is None else {**row, "of copy": f"{copy / seconds:.0%}"}


def _by_bytes(rounds: int, most: int) -> list[dict[str, Any]]:
    rows = []
    for power in range(10, most + 1, 2):
        size = 1 << power
        columns = min(1024, size // 16)
        dispatch, limit = _split(size // 4 // columns, columns, 4)
        repeats = max(1, (1 << 22) // size)

        def run(dispatch: Any = dispatch, repeats: int = repeats) -> None:
            for _ in range(repeats):
                dispatch()

        run()
        copies = limit.runs(2 * size) if power >= 24 else {}
        times = medians({"ours": run, **copies}, rounds)
        seconds = times.pop("ours") / repeats
        rows.append(_row("bytes", size, 2 * size, seconds, min(times.values(), default=None)))
    return rows


def _by_outputs(rounds: int, size: int) -> list[dict[str, Any]]:
    rows = []
    for parts in (1, 2, 3, 4, 8, 16, 32, 64, 256, 1024, 4096):
        height, width = size // 4 // 65536, 65536 // parts * parts
        total = 2 * 4 * height * width
        dispatch, limit = _split(height, width, parts)
        dispatch()
        times = medians({"ours": dispatch, **limit.runs(total)}, rounds)
        seconds = times.pop("ours")
        rows.append(_row("outputs", parts, total, seconds, min(times.values())))
    return rows


def _by_threads(rounds: int, size: int) -> list[dict[str, Any]]:
    rows = []
    before = dml.get_num_threads()
    dispatch, _ = _split(size // 4 // 3072, 3072, 3)
    try:
        for threads in range(1, before + 1):
            dml.set_num_threads(threads)
            dispatch()
            rows.append(_row("threads", threads, 2 * size, medians({"ours": dispatch}, rounds)["ours"]))
    finally:
        dml.set_num_threads(before)
    return rows
