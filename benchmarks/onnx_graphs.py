"""Graphs of movement against ONNX Runtime: ``python -m benchmarks.onnx_graphs [--case heads]``.

The graphs are written as PyTorch 2.13 exports such functions, with dynamic sizes. Lengths stay the same in every run
("steady"), or are new in each ("growing"), as a decoder's are. ONNX Runtime has as many threads as anydml, and is run
plainly and with its outputs bound, whichever is faster. Results are equal, bit for bit; figures are medians.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx.parser
import onnxruntime
from onnx import numpy_helper

import anydml as dml
from anydml.onnx import backend
from benchmarks.measure import machine
from benchmarks.report import geometric_mean

LENGTHS = (1, 8, 64, 256, 512)
CALLS = 60


class Graph(NamedTuple):
    """A graph.

    Attributes:
        text: as `onnx.parser` reads it.
        make: its inputs, for a length.
        known: its initializers.
    """

    text: str
    make: Callable[[int], list[Any]]
    known: dict[str, Any] = {}  # noqa: RUF012  # never changed


def _floats(*shape: int) -> Any:
    return np.random.default_rng(0).random(shape, np.float32)


def _ids(n: int) -> list[Any]:
    return [np.random.default_rng(n).integers(0, 1000, (2, n))]


GRAPHS = {
    "heads": Graph(
        """(float[B,S,192] x) => (float[B,4,S,16] q, float[B,4,S,16] k, float[B,4,S,16] v) {
        b = Shape <start = 0, end = 1> (x) s = Shape <start = 1, end = 2> (x)
        x0, x1, x2 = Split <axis = 2, num_outputs = 3> (x)
        sizes = Concat <axis = 0> (b, s, four, width)
        v0 = Reshape <allowzero = 1> (x0, sizes) q = Transpose <perm = [0, 2, 1, 3]> (v0)
        v1 = Reshape <allowzero = 1> (x1, sizes) k = Transpose <perm = [0, 2, 1, 3]> (v1)
        v2 = Reshape <allowzero = 1> (x2, sizes) v = Transpose <perm = [0, 2, 1, 3]> (v2) }""",
        lambda n: [_floats(1, n, 192)],
        {"four": [4], "width": [16]},
    ),
    "merged heads": Graph(
        """(float[B,4,S,16] x) => (float[B,S,64] y) {
        b = Shape <start = 0, end = 1> (x) s = Shape <start = 2, end = 3> (x)
        t = Transpose <perm = [0, 2, 1, 3]> (x) sizes = Concat <axis = 0> (b, s, width)
        y = Reshape <allowzero = 1> (t, sizes) }""",
        lambda n: [_floats(1, 4, n, 16)],
        {"width": [64]},
    ),
    "cache": Graph(
        "(float[B,4,P,16] past, float[B,4,S,16] new) => (float[B,4,T,16] y) { y = Concat <axis = 2> (past, new) }",
        lambda n: [_floats(1, 4, n, 16), _floats(1, 4, 1, 16)],
    ),
    "rotate half": Graph(
        """(float[B,4,S,16] x) => (float[B,4,S,16] y) {
        a, b = Split <axis = 3, num_outputs = 2> (x) y = Concat <axis = -1> (b, a) }""",
        lambda n: [_floats(1, 4, n, 16)],
    ),
    "repeated heads": Graph(
        """(float[B,4,S,16] x) => (float[B,16,S,16] y) {
        b = Shape <start = 0, end = 1> (x) s = Shape <start = 2, end = 3> (x)
        u = Unsqueeze (x, two) wide = Concat <axis = 0> (b, four, four, s, many)
        e = Expand (u, wide) sizes = Concat <axis = 0> (b, many, s, many) y = Reshape <allowzero = 1> (e, sizes) }""",
        lambda n: [_floats(2, 4, n, 16)],
        {"two": [2], "four": [4], "many": [16]},
    ),
    "embedding": Graph(
        """(int64[B,S] ids) => (float[B,S,64] words, float[A,S,64] places) {
        s = Shape <start = 1, end = 2> (ids) count = Squeeze (s) at = Range (nought, count, step)
        words = Gather <axis = 0> (table, ids) p = Gather <axis = 0> (positions, at)
        places = Unsqueeze (p, zero) }""",
        _ids,
        {"nought": 0, "step": 1, "zero": [0], "table": _floats(1000, 64), "positions": _floats(1024, 64)},
    ),
    "windows": Graph(
        """(float[B,H,W,32] x) => (float[A,49,32] y) {
        b = Shape <start = 0, end = 1> (x) h = Shape <start = 1, end = 2> (x) w = Shape <start = 2, end = 3> (x)
        h0 = Squeeze (h) w0 = Squeeze (w)
        m = Mod <fmod = 0> (three, h) u0 = Slice (x, zero, m, one) u1 = Slice (x, m, h, one)
        u = Concat <axis = 1> (u1, u0)
        n = Mod <fmod = 0> (three, w) r0 = Slice (u, zero, n, two) r1 = Slice (u, n, w, two)
        r = Concat <axis = 2> (r1, r0)
        hd = Div (h0, seven) wd = Div (w0, seven) hs = Reshape (hd, minus) ws = Reshape (wd, minus)
        sizes = Concat <axis = 0> (b, hs, sevens, ws, sevens, c) v = Reshape <allowzero = 1> (r, sizes)
        t = Transpose <perm = [0, 1, 3, 2, 4, 5]> (v) y = Reshape <allowzero = 1> (t, all) }""",
        lambda n: [_floats(1, 7 * n, 28, 32)],
        {"three": [3], "zero": [0], "one": [1], "two": [2], "seven": 7, "minus": [-1], "sevens": [7], "c": [32],
         "all": [-1, 49, 32]},
    ),
    "channel shuffle": Graph(
        """(float[B,32,H,W] x) => (float[B,32,H,W] y) {
        b = Shape <start = 0, end = 1> (x) h = Shape <start = 2, end = 3> (x) w = Shape <start = 3, end = 4> (x)
        apart = Concat <axis = 0> (b, two, rest, h, w) v = Reshape <allowzero = 1> (x, apart)
        t = Transpose <perm = [0, 2, 1, 3, 4]> (v) sizes = Concat <axis = 0> (b, all, h, w)
        y = Reshape <allowzero = 1> (t, sizes) }""",
        lambda n: [_floats(2, 32, 8, n)],
        {"two": [2], "rest": [16], "all": [32]},
    ),
    "pixel shuffle": Graph(
        """(float[B,32,H,W] x) => (float[B,8,I,J] y) { y = DepthToSpace <mode = "CRD", blocksize = 2> (x) }""",
        lambda n: [_floats(2, 32, 8, n)],
    ),
}  # fmt: skip
"""What decoders, Swin, ShuffleNet and super-resolution move."""


def model_of(graph: Graph) -> onnx.ModelProto:
    """A graph as a model."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 20]> g {graph.text}')
    model.graph.initializer.extend(
        numpy_helper.from_array(np.asarray(each), name) for name, each in graph.known.items()
    )
    return model


def runs_of(graph: Graph) -> dict[str, Callable[[list[Any]], Any]]:
    """What everybody does, by name."""
    model = model_of(graph)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = dml.get_num_threads()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [each.name for each in session.get_inputs()]
    outputs = [each.name for each in session.get_outputs()]

    def bound(arrays: list[Any]) -> Any:
        binding = session.io_binding()
        for name, array in zip(names, arrays, strict=True):
            binding.bind_cpu_input(name, array)
        for name in outputs:
            binding.bind_output(name)
        session.run_with_iobinding(binding)
        return binding.copy_outputs_to_cpu()

    return {
        "anydml": backend.prepare(model).run,
        "plain": lambda arrays: session.run(None, dict(zip(names, arrays, strict=True))),
        "bound": bound,
    }


def measured(runs: dict[str, Callable[[list[Any]], Any]], calls: list[list[Any]]) -> dict[str, float]:
    """Median seconds of a run, by name; the first runs are checked and not timed."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    order, names = random.Random(5), [*runs]
    for number, arrays in enumerate(calls):
        order.shuffle(names)
        found = {}
        for name in names:
            start = time.perf_counter()
            results = runs[name](arrays)
            times[name].append(time.perf_counter() - start)
            found[name] = results
        if number < 3:
            for name in names:
                if not all(map(np.array_equal, found[name], found["plain"])):
                    raise SystemExit(f"{name} differs from ONNX Runtime")
    return {name: statistics.median(values[3:]) for name, values in times.items()}


def main(arguments: list[str] | None = None) -> int:
    """Measure the graphs, print them, and keep them where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.onnx_graphs", description=__doc__)
    parser.add_argument("--case", action="append", choices=[*GRAPHS], help="only this graph (may be repeated)")
    parser.add_argument("--json", type=Path, help="keep what was measured in this file")
    given = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    for name in given.case or GRAPHS:
        graph = GRAPHS[name]
        for length in LENGTHS:
            for kind in ("steady", "growing"):
                calls = [graph.make(length + k * (kind == "growing")) for k in range(CALLS + 3)]
                seconds = measured(runs_of(graph), calls)
                ours = seconds.pop("anydml")
                rows.append({"graph": name, "length": length, "kind": kind, "anydml": ours, **seconds})
                ratio = min(seconds.values()) / ours
                print(f"{name:16}{length:>5} {kind:8}{ours * 1e6:>9.1f} µs {ratio:>6.2f} of ONNX Runtime", flush=True)
    for kind in ("steady", "growing"):
        some = [min(row["plain"], row["bound"]) / row["anydml"] for row in rows if row["kind"] == kind]
        print(f"{kind}: {geometric_mean(some):.2f} of ONNX Runtime (geometric mean), least {min(some):.2f}")
    if given.json:
        kept = {"date": str(date.today()), "machine": machine(), "graphs": rows}
        given.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
