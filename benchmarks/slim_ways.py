"""What tools leave of models that are exported in four ways, and which of their results `anydml prove` proves.

The ways are those of PyTorch's two exporters, with and without open sizes. For each model and tool: bytes moved when
ONNX Runtime runs the file as it is, all nodes, processor seconds, how far results are off, the verdict, and, with
`--latency`, ONNX Runtime's time with all its optimizations by that of the exported file, on one thread. All files run
in random turns, and so do the exported file's nodes that compute, without the others: what removing movement can save.

Needs torch, transformers, onnxscript, onnxslim and onnxsim.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime

from anydml.proving import prove
from anydml.slim import slim
from benchmarks.slim import (
    Contender,
    Feeds,
    anydml_slim,
    mean,
    movement,
    onnx_simplifier,
    onnx_slim,
    options,
    quiet,
    ratios,
    runner,
)
from benchmarks.slim_limits import compute_alone

NAMES = (
    "GPT-2", "Llama", "Qwen3", "Phi", "BERT", "CLIP text", "Whisper encoder", "ViT", "DINOv2", "SegFormer", "ConvNeXt",
    "Swin V2", "MobileViT", "U-Net",
)  # fmt: skip

OPEN_IMAGES = frozenset(("SegFormer", "ConvNeXt", "U-Net"))
"""Models of images of any size."""

SIZES = (2, 16, 64, 64)
"""Values of open sizes by axis: a batch, tokens, and an image's."""


def onnx_script(source: Path, target: Path) -> None:
    import onnxscript.optimizer

    onnx.save(onnxscript.optimizer.optimize(onnx.load(source)), target)


def ort_extended(source: Path, target: Path) -> None:
    given = options(onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED)
    given.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(str(source), given, providers=["CPUExecutionProvider"])


def both(source: Path, target: Path) -> None:
    onnx_slim(source, target)
    anydml_slim(target, target)


def anydml_merging(source: Path, target: Path) -> None:
    onnx.save(slim(onnx.load(source), merge_scales=True).model, target)


TOOLS: dict[str, Contender] = {
    "anydml": anydml_slim,
    "anydml --merge-scales": anydml_merging,
    "onnxslim": onnx_slim,
    "onnxsim": onnx_simplifier,
    "onnxscript": onnx_script,
    "ORT extended": ort_extended,
    "onnxslim, anydml": both,
}


def export(name: str, folder: Path) -> None:
    """Write the files of a model."""
    import torch

    from benchmarks.slim_models import MODELS
    from benchmarks.slim_more import MORE

    for exporter in ("dynamo", "script"):
        for is_open in (False, True):
            path = folder / f"{name.replace(' ', '_')}.{exporter}.{'dynamic' if is_open else 'static'}.onnx"
            if path.exists():
                continue
            torch.manual_seed(0)
            module, inputs = {**MODELS, **MORE}[name]()
            for each in module.modules():
                config = getattr(each, "config", None)
                if exporter == "script" and hasattr(config, "_attn_implementation"):
                    config._attn_implementation = "eager"
            if is_open:
                inputs = tuple(torch.cat([each, each]) for each in inputs)
            axes = [_axes(name, each.ndim) if is_open else {} for each in inputs]
            dynamic: dict[str, Any]
            try:
                if exporter == "dynamo":
                    shapes = tuple(dict.fromkeys(each, torch.export.Dim.DYNAMIC) for each in axes)
                    dynamic = {"dynamic_shapes": (shapes,)} if is_open else {}
                    opset = {"opset_version": 18, "dynamo": True, "verbose": False}
                else:
                    names = [f"x{k}" for k in range(len(inputs))]
                    dynamic = {"input_names": names, "dynamic_axes": dict(zip(names, axes, strict=True))}
                    opset = {"opset_version": 17, "dynamo": False}
                torch.onnx.export(module.eval(), inputs, str(path), external_data=False, **opset, **dynamic)
            except Exception as error:
                print(f"{path.name}: cannot be exported: {str(error).splitlines()[0][:120]}", file=sys.stderr)


def _axes(name: str, rank: int) -> dict[int, str]:
    if rank == 4:
        return {0: "N", 2: "H", 3: "W"} if name in OPEN_IMAGES else {0: "N"}
    return {0: "N", 1: "S"} if rank == 2 else {0: "N"}


def feeds(model: onnx.ModelProto) -> Feeds:
    random, found = np.random.default_rng(0), {}
    for value in model.graph.input:
        sizes = [dim.dim_value or SIZES[axis] for axis, dim in enumerate(value.type.tensor_type.shape.dim)]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        is_index = dtype.kind in "iu"
        found[value.name] = (random.integers(0, 500, sizes) if is_index else random.standard_normal(sizes)).astype(
            dtype
        )
    return found


def row(path: Path, latency: float, tools: Sequence[str], known: dict[str, Any], made: Path) -> dict[str, Any]:
    """What each of these tools makes of a model.

    Args:
        path: the model.
        latency: seconds for which each file is timed; 0 for none.
        tools: names of tools.
        known: what was measured of files that are there, which are not made again.
        made: the folder of what tools make.
    """
    model, found = onnx.load(path), dict(known)
    given = feeds(model)
    targets = {tool: made / f"{path.stem}.{tool}.onnx" for tool in tools}
    with tempfile.TemporaryDirectory() as folder:
        moved, _, expected = movement(path, given, Path(folder))
        found["exported"] = {**found.get("exported", {}), "bytes": moved, "nodes": len(model.graph.node)}
        for tool, target in targets.items():
            if target.exists() and tool in known:
                continue
            try:
                start = time.process_time()
                with quiet():
                    TOOLS[tool](path, target)
                taken = time.process_time() - start
                moved, _, results = movement(target, given, Path(folder))
            except Exception as error:
                found[tool] = {"error": f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"}
                continue
            written = onnx.load(target)
            start = time.process_time()
            proof = prove(model, written, runs=False)
            found[tool] = {
                "bytes": moved,
                "nodes": len(written.graph.node),
                "seconds": round(taken, 3),
                "off": max(float(np.max(np.abs(a - b), initial=0)) for a, b in zip(expected, results, strict=True)),
                "verdict": "samples" if proof.samples else proof.verdict,
                "proving": round(time.process_time() - start, 3),
                "why": [
                    *proof.reasons,
                    *([str(proof.first_difference.nodes)] if proof.first_difference else []),
                ][:2],
            }
        if latency:
            made_by = [tool for tool in tools if "error" not in found[tool]]
            runs = [runner(file, given) for file in (path, *(targets[tool] for tool in made_by))]
            alone, *times = ratios([runs[0], compute_alone(path, given, Path(folder)), *runs[1:]], latency)
            found["exported"]["compute alone"] = alone
            for tool, time_by in zip(made_by, times, strict=True):
                found[tool]["latency"] = time_by
    return found


def table(rows: dict[str, dict[str, Any]]) -> str:
    """As Markdown: geometric means of what is left, for known and for open sizes."""
    lines = [
        "| | bytes | nodes | latency | s per 1,000 nodes | proved | rounded | not | failed |",
        f"|---|{'--:|' * 8}",
    ]
    for tool in (tool for tool in TOOLS if all(tool in each for each in rows.values())):
        cells: list[list[str]] = [[] for _ in range(8)]
        for way in ("static", "dynamic"):
            own = [(each["exported"], each[tool]) for name, each in rows.items() if name.endswith(way)]
            done = [(a, b) for a, b in own if "error" not in b]
            verdicts = Counter(b["verdict"] for _, b in done)
            for k, key in enumerate(("bytes", "nodes")):
                cells[k].append(f"{mean([(b[key] + 1) / (a[key] + 1) for a, b in done]):.2f}")
            cells[2].append(f"{mean([b['latency'] for _, b in done if 'latency' in b]):.3f}")
            cells[3].append(
                f"{1000 * sum(b['seconds'] for _, b in done) / max(1, sum(a['nodes'] for a, _ in done)):.2f}"
            )
            proved = verdicts.pop("proved", 0), verdicts.pop("rounded", 0)
            for k, count in enumerate((*proved, sum(verdicts.values()), len(own) - len(done)), 4):
                cells[k].append(str(count))
        lines.append(f"| {tool} | {' | '.join(' / '.join(each) for each in cells)} |")
    alone = [
        [
            each["exported"]["compute alone"]
            for name, each in rows.items()
            if name.endswith(way) and "compute alone" in each["exported"]
        ]
        for way in ("static", "dynamic")
    ]
    lines.append(f"Nodes that compute alone: {' / '.join(f'{mean(each):.3f}' for each in alone)} of the time")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("build/slim-ways"), help="where the models are kept")
    parser.add_argument("--only", nargs="*", default=NAMES, help="names of models")
    parser.add_argument(
        "--latency",
        type=float,
        nargs="?",
        default=0.0,
        const=1.0,
        metavar="SECONDS",
        help="time ONNX Runtime, too, for so many seconds a file; 1 by default",
    )
    parser.add_argument("--tools", nargs="*", default=[*TOOLS], choices=[*TOOLS], help="names of tools")
    parser.add_argument("--json", type=Path, help="a file for the figures, which keeps those of other tools")
    parser.add_argument(
        "--again",
        action="store_true",
        help="export nothing, and take figures of files that tools have made from --json",
    )
    parser.add_argument("--export", help=argparse.SUPPRESS)
    parser.add_argument("--row", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    (given.folder / "made").mkdir(parents=True, exist_ok=True)
    if given.export:
        export(given.export, given.folder)
        return
    if given.row:
        known = json.loads(sys.stdin.read())
        print(json.dumps(row(given.row, given.latency, given.tools, known, given.folder / "made")))
        return
    rows: dict[str, dict[str, Any]] = {}
    known = json.loads(given.json.read_text(encoding="utf-8")) if given.json and given.json.exists() else {}
    for name in given.only:
        # Each in a process of its own, so that none is in another's memory, or ends the others.
        if not given.again:
            subprocess.run([*_self(given), "--export", name], check=False)
        for path in sorted(given.folder.glob(f"{name.replace(' ', '_')}.*.onnx")):
            done = subprocess.run(
                [*_self(given), "--row", str(path), "--tools", *given.tools, "--latency", str(given.latency)],
                check=False,
                capture_output=True,
                text=True,
                input=json.dumps(known.get("rows", {}).get(path.stem, {}) if given.again else {}),
            )
            if done.returncode:
                print(f"{path.stem}: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
                continue
            rows[path.stem] = {**known.get("rows", {}).get(path.stem, {}), **json.loads(done.stdout.splitlines()[-1])}
            shown = {tool: each.get("verdict", each.get("error")) for tool, each in rows[path.stem].items()}
            print(f"{path.stem}: {shown}", file=sys.stderr, flush=True)
    print(table(rows))
    if given.json:
        now = {"date": time.strftime("%Y-%m-%d"), "load": os.getloadavg()[0], "machine": platform.processor()}
        measured = {**known.get("measured", {}), **dict.fromkeys(given.tools, now)}
        rows = {**known.get("rows", {}), **rows}
        given.json.write_text(json.dumps({"measured": measured, "rows": rows}, indent=1) + "\n", encoding="utf-8")


def _self(given: argparse.Namespace) -> list[str]:
    return [sys.executable, "-m", "benchmarks.slim_ways", "--folder", str(given.folder)]


if __name__ == "__main__":
    main()
