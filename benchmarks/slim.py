"""What `anydml slim` leaves of models' movement, beside onnxslim, onnxsim and ONNX Runtime's own optimization.

Bytes and nodes are those that ONNX Runtime reports when it runs the files as they are. Latencies are those of sessions
with all its optimizations, divided by that of the exported file; "noise" is the same for the exported file twice.

A file with an attention operator of com.microsoft is marked with a star. What that operator moves inside is not
reported, and other runtimes do not have it, so the means are given with and without these files.

Needs torch, transformers, onnxscript, onnxslim and onnxsim.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from operator import gt, truediv
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime

from anydml.slim import slim
from benchmarks.slim_models import MODELS
from benchmarks.slim_more import MORE, UNSEEN

FREE = frozenset(["Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze"])
GROWING = frozenset(["CenterCropPad", "Expand", "Pad", "Tile", "ReorderInput", "ReorderOutput"])
PICKING = frozenset(
    ["Concat", "DepthToSpace", "Gather", "Slice", "SpaceToDepth", "Split", "Transpose", "TransposeBatchNormalization"]
)

ATTENTION = frozenset(["Attention", "MultiHeadAttention", "QAttention", "PackedAttention", "GroupQueryAttention"])
"""Operators of com.microsoft that split their input into heads, transpose these and merge them, unreported."""

Feeds = dict[str, Any]
Run = Callable[[], Any]
Contender = Callable[[Path, Path], None]


def anydml_slim(source: Path, target: Path) -> None:
    onnx.save(slim(onnx.load(source)).model, target)


def onnx_slim(source: Path, target: Path) -> None:
    import onnxslim

    onnx.save(onnxslim.slim(onnx.load(source)), target)


def onnx_simplifier(source: Path, target: Path) -> None:
    import onnxsim

    onnx.save(onnxsim.simplify(onnx.load(source))[0], target)


def ort_saved(source: Path, target: Path) -> None:
    chosen = options(onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    chosen.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(source), chosen, providers=["CPUExecutionProvider"])


def anydml_exact(source: Path, target: Path) -> None:
    onnx.save(slim(onnx.load(source), exact=True).model, target)


CONTENDERS: dict[str, Contender] = {
    "anydml": anydml_slim,
    "exact": anydml_exact,
    "onnxslim": onnx_slim,
    "onnxsim": onnx_simplifier,
    "ORT": ort_saved,
}

OWN = ("anydml", "exact")


def options(level: Any) -> Any:
    """ONNX Runtime on one thread, without what it prints."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return options


def seconds(source: Path, target: Path) -> tuple[float, float]:
    """What slimming a model takes: processor time once all is imported, and time of the command."""
    model, taken = onnx.load(source), []
    for _ in range(3):
        start = time.process_time()
        slim(model)
        taken.append(time.process_time() - start)
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "anydml", "slim", source, "-o", target], check=True, capture_output=True)
    return min(taken), time.perf_counter() - start


def feeds(path: Path) -> Feeds:
    """Random inputs, as large as the file says; 2 where it does not."""
    random, found = np.random.default_rng(0), {}
    for value in onnx.load(path).graph.input:
        sizes = [dim.dim_value or 2 for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if dtype.kind in "iub":
            found[value.name] = random.integers(0, 2, sizes).astype(dtype)
        else:
            found[value.name] = random.standard_normal(sizes).astype(dtype)
    return found


def movement(path: Path, given: Feeds, folder: Path) -> tuple[int, int, list[Any]]:
    """Bytes that a model's movement nodes read and write when it runs as it is, how many they are, and its results."""
    chosen = options(onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL)
    chosen.enable_profiling = True
    chosen.profile_file_prefix = str(folder / "profile")
    # Products by constants that are packed are added up in other blocks than products by what is moved first.
    chosen.add_session_config_entry("session.disable_prepacking", "1")
    session = onnxruntime.InferenceSession(str(path), chosen, providers=["CPUExecutionProvider"])
    results = session.run(None, given)
    log = Path(session.end_profiling())
    moved = nodes = 0
    for event in json.loads(log.read_text()):
        name = event.get("args", {}).get("op_name", "")
        if not event.get("name", "").endswith("_kernel_time") or name not in FREE | GROWING | PICKING:
            continue
        nodes += 1
        if name in FREE:
            continue
        outputs = sum(map(_bytes, event["args"]["output_type_shape"]))
        moved += 2 * outputs if name in PICKING else outputs + _bytes(event["args"]["input_type_shape"][0])
    log.unlink()
    return moved, nodes, results


def _bytes(tensor: dict[str, list[int]]) -> int:
    ((kind, sizes),) = tensor.items()
    width = {"bool": 8, "float": 32, "double": 64, "float16": 16}.get(kind) or int(re.sub(r"\D", "", kind) or 8)
    return math.prod(sizes) * width // 8


def runner(path: Path, given: Feeds) -> Run:
    """Return a function that runs a model with all optimizations."""
    chosen = options(onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)
    session = onnxruntime.InferenceSession(str(path), chosen, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, given)


def ratios(runs: Sequence[Run], seconds: float = 1) -> list[float]:
    """Times of runs by that of the first: medians of rounds in which each comes once, in random order.

    Each runs once more before it is timed, so that its weights are in the caches whichever came before.
    """
    for run in runs:
        run()
    order, rounds, times = Random(0), list[list[float]](), [0.0] * len(runs)
    end = time.perf_counter() + seconds * len(runs)
    while time.perf_counter() < end or len(rounds) < 11:
        for k in order.sample(range(len(runs)), len(runs)):
            runs[k]()
            start = time.thread_time()
            runs[k]()
            times[k] = time.thread_time() - start
        rounds.append([each / times[0] for each in times])
    return [round(statistics.median(column), 3) for column in [*zip(*rounds, strict=True)][1:]]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without what others print."""
    with open(os.devnull, "w", encoding="utf-8") as nothing, contextlib.redirect_stdout(nothing):
        yield


def measured(path: Path, folder: Path, timed: bool) -> dict[str, Any]:
    """What each leaves of a model."""
    given = feeds(path)
    moved, nodes, expected = movement(path, given, folder)
    row: dict[str, Any] = {"model": [moved, nodes], "nodes": len(onnx.load(path).graph.node)}
    for name, contender in CONTENDERS.items():
        target = folder / f"{path.stem}.{name}.onnx"
        try:
            with quiet():
                contender(path, target)
            moved, nodes, results = movement(target, given, folder)
        except Exception as error:
            row[name] = type(error).__name__
            continue
        written = onnx.load(target)
        hides = any(node.domain == "com.microsoft" and node.op_type in ATTENTION for node in written.graph.node)
        row[name] = [moved, nodes, hides]
        if name in OWN:
            onnx.checker.check_model(written, full_check=True)
            row[f"{name} equal"] = all(map(functools.partial(np.array_equal, equal_nan=True), expected, results))
            row[f"{name} far"] = max(
                float(np.max(np.abs(a - b), initial=0)) for a, b in zip(expected, results, strict=True)
            )
        if name == "anydml" and timed:
            row["seconds"], row["command"] = seconds(path, folder / "command.onnx")
            before, after, again = (runner(file, given) for file in (path, target, path))
            row["time"], row["noise"] = ratios([before, after, again])
    return row


def table(rows: dict[str, dict[str, Any]]) -> str:
    """As Markdown, with the geometric means of what is left beside the best of the others."""
    lines = [
        f"| model | as exported | {' | '.join(CONTENDERS)} | latency | noise | s per 1,000 nodes | s of the command |",
        f"|---|{'--:|' * (len(CONTENDERS) + 5)}",
    ]
    for name, row in rows.items():
        cells = [_cell(row.get(each)) for each in ("model", *CONTENDERS)]
        cells += [f"{row.get(each, '')}" for each in ("time", "noise")]
        if "seconds" in row:
            cells += [f"{1000 * row['seconds'] / row['nodes']:.2f}", f"{row['command']:.2f}"]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines.append("")
    for own in OWN:
        for title, also in (("all files", True), ("files without a star", False)):
            pairs = [(row[own], best) for row in rows.values() if (best := _best(row, also)) is not None]
            means = [mean([(found[k] + 1) / (best[k] + 1) for found, best in pairs]) for k in (0, 1)]
            more = [n for n, row in rows.items() if (best := _best(row, also)) and any(map(gt, row[own], best))]
            lines.append(f"{own}, of the best of {title}: bytes {means[0]:.2f}, nodes {means[1]:.2f}, more: {more}")
        differ = [name for name, row in rows.items() if not row.get(f"{own} equal")]
        lines.append(f"{own}, not the same bit for bit: {differ}")
    known = [row for row in rows.values() if "seconds" in row]
    if known:
        taken, nodes = [row["seconds"] for row in known], [row["nodes"] for row in known]
        most = 1000 * max(map(truediv, taken, nodes))
        lines.append(f"anydml, s per 1,000 nodes: {1000 * sum(taken) / sum(nodes):.2f} in all, at most {most:.2f}")
    return "\n".join(lines)


def _best(row: dict[str, Any], also_starred: bool) -> list[int] | None:
    """The fewest bytes and nodes that others leave."""
    others = [row[name] for name in CONTENDERS if name not in OWN and isinstance(row.get(name), list)]
    known = [each[:2] for each in others if also_starred or not each[2]]
    return [min(column) for column in zip(*known, strict=True)] or None


def _cell(found: Any) -> str:
    if not isinstance(found, list):
        return str(found or "")
    return f"{found[0] // 1024}, {found[1]}{'*' if any(found[2:]) else ''}"


def mean(ratios: list[float]) -> float:
    """Geometric mean; NaN of none."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/slim"), help="where the models are kept")
    parser.add_argument("--only", nargs="*", help="names of models")
    parser.add_argument("--more", action="store_true", help="other models")
    parser.add_argument("--unseen", action="store_true", help="models that no rule was chosen by")
    parser.add_argument("--no-times", action="store_true", help="compare bytes and nodes only")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    rows = {}
    for name in given.only or (UNSEEN if given.unseen else MORE if given.more else MODELS):
        path = given.folder / f"{name.replace(' ', '_')}.onnx"
        if not path.exists():
            # Each in a process of its own, so that one's trace is not in another's memory.
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.slim_more", name, str(path)],
                check=False,
                capture_output=True,
                text=True,
            )
            if done.returncode:
                print(f"{name}: cannot be exported: {done.stderr.strip().splitlines()[-1][:200]}", file=sys.stderr)
                continue
        rows[name] = measured(path, given.folder, not given.no_times)
        print(f"{name}: {rows[name]}", file=sys.stderr, flush=True)
    print(table(rows))
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
