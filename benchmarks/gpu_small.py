"""The small cases on a GPU: what a call costs the host when there is hardly anything to move."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Mapping
from functools import partial

import torch

import anydml as dml
from benchmarks import gpu_work
from benchmarks.gpu_measure import GpuResult, host_seconds
from benchmarks.gpu_work import Run

NEEDED = "array_api_compat"
"""What the functions on arrays ask whose an array is."""


def results(left_out: dict[str, str]) -> list[GpuResult]:
    """Seconds of the host for SPLIT example 1 and GATHER example 2, bound and as functions, and for sizes that are new.

    Args:
        left_out: gets what cannot be measured here, and why.
    """
    runs = ways(gpu_work.DEVICE)
    if importlib.util.find_spec(NEEDED) is None:
        for name in [name for name in runs if name.endswith("function")]:
            del runs[name]
            left_out[name] = f"{NEEDED.replace('_', '-')} is not installed"
    found = []
    for about, (moved, each) in runs.items():
        seconds = {name: host_seconds(partial(run, 0)) for name, run in each.items()}
        found.append(GpuResult("small", about, moved, seconds, None))
    return found


Ways = dict[str, tuple[int, Mapping[str, Run]]]


def ways(device: str) -> Ways:
    """By what is done: the bytes it reads and writes, and the ways to do it, ours and PyTorch's."""
    return {**_split(device), **_gather(device), **_new_sizes(device)}


def _split(device: str) -> Ways:
    x = torch.arange(1, 13, dtype=torch.float32, device=device).reshape(1, 1, 6, 2)
    sizes = [2, 1, 3]
    outputs = [torch.empty(1, 1, n, 2, device=device) for n in sizes]
    tensors = [dml.TensorDesc("FLOAT32", output.shape) for output in outputs]
    desc = dml.SplitOperatorDesc(dml.TensorDesc("FLOAT32", x.shape), tensors, 2)
    dispatch = dml.Device("cuda").compile_operator(desc).bind([x], outputs).dispatch
    bound: dict[str, Run] = {
        "anydml": lambda k: dispatch(),
        "split_with_sizes_copy": lambda k: torch.split_with_sizes_copy(x, sizes, 2, out=outputs),
    }
    called: dict[str, Run] = {
        "anydml": lambda k: dml.split(x, sizes, 2),
        "split_with_sizes_copy": lambda k: torch.split_with_sizes_copy(x, sizes, 2),
    }
    return {"SPLIT example 1, bound dispatch": (96, bound), "SPLIT example 1, function": (96, called)}


def _gather(device: str) -> Ways:
    x = torch.arange(1, 7, dtype=torch.float32, device=device).reshape(3, 2)
    indices = torch.tensor([0, 1, 1, 2], device=device)
    output = torch.empty(4, 2, device=device)
    desc = dml.GatherOperatorDesc(
        dml.TensorDesc("FLOAT32", [3, 2]),
        dml.TensorDesc("INT64", [1, 4]),
        dml.TensorDesc("FLOAT32", [4, 2]),
        axis=0,
        index_dimensions=1,
    )
    dispatch = dml.Device("cuda").compile_operator(desc).bind([x, indices.reshape(1, 4)], [output]).dispatch
    bound: dict[str, Run] = {
        "anydml": lambda k: dispatch(),
        "index_select": lambda k: torch.index_select(x, 0, indices, out=output),
    }
    called: dict[str, Run] = {
        "anydml": lambda k: dml.gather(x, indices),
        "index_select": lambda k: torch.index_select(x, 0, indices),
    }
    return {"GATHER example 2, bound dispatch": (80, bound), "GATHER example 2, function": (80, called)}


def _new_sizes(device: str) -> Ways:
    x = torch.rand(16, 3072, device=device)
    sizes = itertools.cycle([[k, 3072 - 2 * k, k] for k in range(4, 1536, 4)])
    called: dict[str, Run] = {
        "anydml": lambda k: dml.split_training(x, next(sizes), 1),
        "split_with_sizes_copy": lambda k: torch.split_with_sizes_copy(x, next(sizes), 1),
    }
    return {"SplitTraining with new sizes, function": (2 * x.nbytes, called)}
