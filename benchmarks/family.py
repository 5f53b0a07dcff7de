"""Every operator against NumPy, PyTorch and ONNX Runtime: ``python -m benchmarks.family [--case tile] [--size 64M]``.

Everybody makes new results, which are compared with NumPy's, bit for bit, before anybody is timed. All runs of a cell
take turns in an order drawn anew for each round; a ratio is the median over the rounds of a peer's time by ours. Kept
results are added to with ``--json FILE``: cells that are measured again replace those of the file.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.family_calls import Calls, Node
from benchmarks.family_cases import CASES
from benchmarks.measure import machine
from benchmarks.report import geometric_mean
from benchmarks.sizes import measured, size_text

SIZES = (256 << 10, 64 << 20)
ROUNDS = 11

Run = Callable[[], object]


@dataclass(frozen=True)
class Cell:
    """What was measured of a case at a size.

    Attributes:
        case: its name.
        about: what it does.
        size: bytes of the results, about.
        seconds: medians of a call, by name.
        ratios: of each peer's time by ours, medians over the rounds.
    """

    case: str
    about: str
    size: int
    seconds: dict[str, float]
    ratios: dict[str, float]

    @property
    def ratio(self) -> float:
        """The fastest peer's."""
        return min(self.ratios.values())


def runs_of(calls: Calls) -> dict[str, Run]:
    """What everybody does; peers that are not installed are left out."""
    arrays = calls.arrays
    runs: dict[str, Run] = {"anydml": lambda: calls.ours(*arrays), "numpy": lambda: calls.numpy(*arrays)}
    if (torch := calls.torch) is not None:
        try:
            from torch import from_numpy
        except ImportError:
            pass
        else:
            tensors = [*map(from_numpy, arrays)]
            runs["torch"] = lambda: torch(*tensors)
    if calls.onnx is not None:
        with contextlib.suppress(ImportError):
            runs["onnxruntime"] = _session(calls.onnx, arrays)
    return runs


def _session(node: Node, arrays: list[Any]) -> Run:
    import onnxruntime
    from onnx import helper, numpy_helper

    def kind(array: Any) -> int:
        return helper.np_dtype_to_tensor_dtype(array.dtype)

    names = [f"x{k}" for k in range(len(arrays))]
    constants = [f"c{k}" for k in range(len(node.constants))]
    inputs = [*names, *constants]
    if node.order is not None:
        inputs = [inputs[k] for k in node.order]
    outputs = [f"y{k}" for k in range(node.outputs)]
    data = next(array for array in arrays if array.dtype == np.float32)
    graph = helper.make_graph(
        [helper.make_node(node.kind, inputs, outputs, **node.attributes)],
        "case",
        [helper.make_tensor_value_info(n, kind(a), a.shape) for n, a in zip(names, arrays, strict=True)],
        [helper.make_tensor_value_info(n, kind(data), None) for n in outputs],
        [numpy_helper.from_array(np.asarray(c), n) for n, c in zip(constants, node.constants, strict=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = dml.get_num_threads()
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in zip(names, arrays, strict=True):
        binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(array))

    def run() -> Any:
        for name in outputs:
            binding.bind_output(name)
        session.run_with_iobinding(binding)
        return binding.get_outputs()

    return run


def check(case: str, runs: dict[str, Run]) -> None:
    """Everybody's results are NumPy's, bit for bit.

    Raises:
        SystemExit: somebody's are not.
    """
    right = [np.ascontiguousarray(each) for each in _listed(runs["numpy"]())]
    for name, run in runs.items():
        found = [np.asarray(each.numpy() if hasattr(each, "numpy") else each) for each in _listed(run())]
        same = len(found) == len(right) and all(
            a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
            for a, b in zip(found, right, strict=True)
        )
        if not same:
            raise SystemExit(f"{case}: the result of {name} differs from NumPy's")


def _listed(results: Any) -> list[Any]:
    return [*results] if isinstance(results, (list, tuple)) else [results]


def cell_of(case: str, size: int, rounds: int) -> Cell:
    """Check and time one cell."""
    runs = runs_of(CASES[case](size))
    check(case, runs)
    gc.collect()
    gc.disable()
    try:
        times = measured(runs, rounds, False)
    finally:
        gc.enable()
    ours = times.pop("anydml")
    ratios = {
        name: statistics.median([peer / own for peer, own in zip(others, ours, strict=True)])
        for name, others in times.items()
    }
    medians = {name: statistics.median(values) for name, values in {"anydml": ours, **times}.items()}
    return Cell(case, CASES[case].__doc__ or "", size, medians, ratios)


def table(cells: list[Cell]) -> str:
    """A row a cell: ours in µs, every peer's time by ours, and the means."""
    peers = list(dict.fromkeys(name for cell in cells for name in cell.ratios))
    lines = [f"{'case':24}{'size':>6}{'µs':>11}" + "".join(f"{name:>13}" for name in peers)]
    for cell in cells:
        texts = (f"{cell.ratios[name]:.2f}" if name in cell.ratios else "–" for name in peers)
        row = "".join(f"{text:>13}" for text in texts)
        lines.append(f"{cell.case:24}{size_text(cell.size):>6}{cell.seconds['anydml'] * 1e6:>11.1f}{row}")
    for size in sorted({cell.size for cell in cells}):
        some = [cell for cell in cells if cell.size == size]
        least, slowest = (min(some, key=key) for key in (lambda cell: cell.ratio, lambda cell: cell.ratios["numpy"]))
        mean = geometric_mean([cell.ratio for cell in some])
        lines.append(
            f"{size_text(size)}: {mean:.2f} of the fastest peer (geometric mean of {len(some)}), "
            f"least {least.ratio:.2f} ({least.case}); least of NumPy's {slowest.ratios['numpy']:.2f} ({slowest.case})"
        )
    return "\n".join(lines)


def kept_cells(file: Path) -> list[Cell]:
    """The cells of a file, none where there is no file."""
    return [Cell(**cell) for cell in json.loads(file.read_text("utf-8"))["cells"]] if file.exists() else []


def main(arguments: list[str] | None = None) -> int:
    """Measure the cells, print them, and keep them where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.family", description=__doc__)
    parser.add_argument("--case", action="append", choices=[*CASES], help="only this case (may be repeated)")
    parser.add_argument("--size", action="append", choices=[*map(size_text, SIZES)], help="only this size")
    parser.add_argument("--part", metavar="K/N", help="only every N-th cell, from the K-th on")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"rounds a cell (default {ROUNDS})")
    parser.add_argument("--json", type=Path, help="keep what was measured in this file, beside what it has")
    parser.add_argument("--show", type=Path, metavar="FILE", help="print what a file has, and measure nothing")
    given = parser.parse_args(arguments)
    if given.show:
        print(table(kept_cells(given.show)))
        return 0
    try:
        import torch

        torch.set_num_threads(dml.get_num_threads())
    except ImportError:
        pass
    sizes = [size for size in SIZES if not given.size or size_text(size) in given.size]
    works = [(case, size) for size in sizes for case in given.case or CASES]
    if given.part:
        first, count = map(int, given.part.split("/"))
        works = works[first - 1 :: count]
    about = machine()
    print(", ".join(f"{key} {value}" for key, value in about.items()), flush=True)
    cells: list[Cell] = []
    for case, size in works:
        cells.append(cell_of(case, size, given.rounds))
        print(table(cells[-1:]).split("\n")[1], flush=True)
        if given.json:
            # After every cell, so that a run that is cut short keeps what it has.
            keep(given.json, cells[-1], {"machine": about, "date": date.today().isoformat(), "rounds": given.rounds})
    print(table(cells))
    return 0


def keep(file: Path, cell: Cell, about: dict[str, Any]) -> None:
    """Put a cell into a file, in place of what it had of that case at that size."""
    others = [each for each in kept_cells(file) if (each.case, each.size) != (cell.case, cell.size)]
    kept = sorted([*others, cell], key=lambda each: (each.size, [*CASES].index(each.case)))
    whole = {**about, "cells": [asdict(each) for each in kept]}
    file.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
