"""The small cases: what a call costs when there is hardly anything to move, and what it costs to plan one."""

from __future__ import annotations

import statistics
import time
import timeit
from collections.abc import Mapping
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.measure import Run
from benchmarks.report import Result

CALLS = 5000
PLANNED = 200
"""Calls of a round: of small work, and with sizes that are new."""


def small_results(rounds: int) -> list[Result]:
    """SPLIT example 1 and GATHER example 2, bound dispatch and one call of the function; and the planning of T1."""
    return [*_split(rounds), *_gather(rounds), _planning(rounds)]


def _per_call(runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(timeit.timeit(run, number=CALLS) / CALLS)
    return {name: statistics.median(values) for name, values in times.items()}


def _split(rounds: int) -> list[Result]:
    x = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 6, 2)
    sizes = [2, 1, 3]
    outputs = [np.empty((1, 1, size, 2), np.float32) for size in sizes]
    parts = [dml.TensorDesc(dml.DataType.FLOAT32, output.shape) for output in outputs]
    desc = dml.SplitOperatorDesc(dml.TensorDesc(dml.DataType.FLOAT32, x.shape), parts, 2)
    bound = dml.Device("cpu").compile_operator(desc).bind(inputs=[x], outputs=outputs)
    views = [x[:, :, 0:2], x[:, :, 2:3], x[:, :, 3:6]]

    def numpy_copies() -> None:
        for output, view in zip(outputs, views, strict=True):
            np.copyto(output, view)

    bound_runs: dict[str, Run] = {"anydml": bound.dispatch, "numpy copyto": numpy_copies}
    call_runs: dict[str, Run] = {
        "anydml": lambda: dml.split(x, sizes, 2),
        "numpy split": lambda: [part.copy() for part in np.split(x, [2, 3], 2)],
    }
    try:
        import torch

        tensor, tensors = torch.from_numpy(x), [torch.from_numpy(output) for output in outputs]
        bound_runs["torch out"] = lambda: torch.split_with_sizes_copy(tensor, sizes, 2, out=tensors)
        call_runs["torch split"] = lambda: torch.split_with_sizes_copy(tensor, sizes, 2)
    except ImportError:
        pass
    return [
        Result("small", "SPLIT example 1, bound dispatch", 96, _per_call(bound_runs, rounds), None),
        Result("small", "SPLIT example 1, function", 96, _per_call(call_runs, rounds), None),
    ]


def _gather(rounds: int) -> list[Result]:
    x = np.arange(1, 7, dtype=np.float32).reshape(3, 2)
    indices = np.array([[0, 1, 1, 2]], np.uint32)
    output = np.empty((4, 2), np.float32)
    kind = dml.DataType.FLOAT32
    desc = dml.GatherOperatorDesc(
        dml.TensorDesc(kind, [3, 2]), dml.TensorDesc("UINT32", [1, 4]), dml.TensorDesc(kind, [4, 2]), 0, 1
    )
    bound = dml.Device("cpu").compile_operator(desc).bind(inputs=[x, indices], outputs=[output])
    flat, wide = indices[0], indices[0].astype(np.int64)
    bound_runs: dict[str, Run] = {
        "anydml": bound.dispatch,
        "numpy take": lambda: np.take(x, flat, 0, out=output, mode="clip"),
    }
    call_runs: dict[str, Run] = {
        "anydml": lambda: dml.gather(x, flat),
        "numpy take": lambda: np.take(x, flat, 0, mode="clip"),
    }
    try:
        import torch

        tensor, order, result = torch.from_numpy(x), torch.from_numpy(wide), torch.from_numpy(output)
        bound_runs["torch out"] = lambda: torch.index_select(tensor, 0, order, out=result)
        call_runs["torch index_select"] = lambda: torch.index_select(tensor, 0, order)
    except ImportError:
        pass
    return [
        Result("small", "GATHER example 2, bound dispatch", 80, _per_call(bound_runs, rounds), None),
        Result("small", "GATHER example 2, function", 80, _per_call(call_runs, rounds), None),
    ]


def _planning(rounds: int) -> Result:
    """SplitTraining: a call with new sizes, less the same call again, on so few rows of T1 that moving takes little."""
    rng = np.random.default_rng(0)
    x = np.ones((16, 3072), np.float32)
    block = np.empty(x.size, np.float32)

    def drawn() -> tuple[Any, list[Any]]:
        cuts = np.sort(rng.choice(np.arange(1, x.shape[1]), 2, replace=False))
        parts = np.split(block, cuts * len(x))
        return np.diff(cuts, prepend=0, append=x.shape[1]), [part.reshape(len(x), -1) for part in parts]

    def seconds(sizes: Any, out: list[Any]) -> float:
        begin = time.perf_counter()
        dml.split_training(x, sizes, 1, out=out)
        return time.perf_counter() - begin

    differences = []
    before = drawn()
    for _ in range(rounds * PLANNED):
        new = drawn()
        times = []
        for _ in range(2):
            # The same to come from, for both.
            seconds(*before)
            times.append(seconds(*new))
        differences.append(times[0] - times[1])
        before = new
    return Result("small", "T1, planning of new sizes", 2 * x.nbytes, {"anydml": statistics.median(differences)}, None)
