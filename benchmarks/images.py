"""Images against OpenCV, torchvision, PyTorch and NumPy: ``python -m benchmarks.images [--case flip] [--size 224]``.

Colours reordered, channels moved, crops, flips, turns and borders, of one image and of a batch. Results are new each
time, and equal NumPy's bit for bit before anybody is timed; inputs are read once more before each call. OpenCV takes
one image at a time, and writes those of a batch into one new array. Everybody has as many threads as anydml.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.image_cases import CASES, Case
from benchmarks.measure import machine
from benchmarks.report import Result, geometric_mean, keep
from benchmarks.streams import timed

SIZES = {"224": (224, 224), "1080p": (1080, 1920), "32x224": (32, 224, 224)}
"""Of images, and of a batch of them; channels come last."""

ROUNDS, QUICK_ROUNDS = 101, 11
PEERS = {"cv2": "OpenCV", "torchvision": "torchvision", "torch": "PyTorch", "numpy": "NumPy"}

Run = Callable[[], Any]
Array = np.ndarray[Any, Any]


def runs_of(case: Case, batch: Array) -> dict[str, Run]:
    """What everybody does with some images."""
    runs: dict[str, Run] = {
        "anydml": lambda: case.ours(batch),
        "numpy": lambda: np.ascontiguousarray(case.numpy(batch)),
    }
    if importlib.util.find_spec("torch"):
        import torch

        tensor = torch.from_numpy(batch)
        if case.torch is not None:
            of_torch = case.torch
            runs["torch"] = lambda: of_torch(tensor).contiguous()
        if case.torchvision is not None and importlib.util.find_spec("torchvision"):
            of_torchvision = case.torchvision
            # Its functions take channels before rows, wherever they lie in memory.
            runs["torchvision"] = lambda: of_torchvision(tensor.movedim(-1, -3)).movedim(-3, -1).contiguous()
    if importlib.util.find_spec("cv2"):
        runs["cv2"] = _of_opencv(case, batch)
    return runs


def _of_opencv(case: Case, batch: Array) -> Run:
    import cv2

    cv2.setNumThreads(dml.get_num_threads())
    work, shape = case.cv2, case.numpy(batch).shape
    if batch.ndim == 3:
        return lambda: work(batch, None)

    def each() -> Array:
        out = np.empty(shape, batch.dtype)
        for image, to in zip(batch, out, strict=True):
            work(image, to)
        return out

    return each


def check(label: str, runs: dict[str, Run]) -> None:
    """See that everybody's results are NumPy's.

    Raises:
        SystemExit: somebody's are not.
    """
    right = runs["numpy"]()
    for name, run in runs.items():
        if not np.array_equal(np.asarray(run()), right):
            raise SystemExit(f"{label}: the result of {name} differs from NumPy's")


def run_case(case: Case, size: str, rounds: int) -> Result:
    """Check everybody's results, then time everybody."""
    rng = np.random.default_rng(1)
    images = rng.integers(0, 256, (*SIZES[size], case.channels), np.uint8)
    batch = np.ascontiguousarray(np.moveaxis(images, -1, -3)) if case.has_planes else images
    runs = runs_of(case, batch)
    label = f"{case.name} {size}"
    check(label, runs)
    total = batch.nbytes + runs["numpy"]().nbytes
    return Result(label, case.about, total, timed([(runs, [batch])] * rounds), None)


def line(result: Result) -> str:
    """A case's line: microseconds, and OpenCV's and the fastest's time over ours."""
    cells = [result.seconds.get(name) for name in ("anydml", *PEERS)]
    times = "".join(f"{'–' if each is None else f'{each * 1e6:.1f}':>13}" for each in cells)
    opencv = result.seconds.get("cv2")
    against = "–" if opencv is None else f"{opencv / result.ours:.2f}"
    return f"{result.name:20}{result.about:38}{times}{against:>9}{result.ratio:>11.2f}"


def main(arguments: list[str] | None = None) -> int:
    """Run the cases, print them, and keep them where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.images", description=__doc__)
    parser.add_argument("--case", action="append", help="only this case (may be repeated)")
    parser.add_argument("--size", action="append", choices=SIZES, help="only this size (may be repeated)")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--rounds", type=int, help=f"calls of everybody (default {ROUNDS})")
    parser.add_argument("--json", type=Path, help="add what was measured to what this file keeps")
    given = parser.parse_args(arguments)
    if unknown := {*(given.case or ())} - {case.name for case in CASES}:
        parser.error(f"no case {', '.join(sorted(unknown))}: one of {', '.join(case.name for case in CASES)}")
    rounds = given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS)
    about = machine("opencv-python-headless", "torchvision")
    print(", ".join(f"{key} {value}" for key, value in about.items()))
    print("microseconds a call; medians, interleaved; results are new each time\n")
    print(f"{'case':20}{'work':38}{'anydml':>13}" + "".join(f"{each:>13}" for each in PEERS.values())
          + f"{'× OpenCV':>9}{'× fastest':>11}")  # fmt: skip
    results = []
    for size in given.size or SIZES:
        for case in CASES:
            if not given.case or case.name in given.case:
                results.append(run_case(case, size, rounds))
                print(line(results[-1]), flush=True)
    ratios = [result.ratio for result in results if result.ratio]
    print(f"\ngeometric mean against the fastest peer: {geometric_mean(ratios):.2f}, least {min(ratios):.2f}")
    for name, library in PEERS.items():
        if not importlib.util.find_spec(name):
            print(f"{library} took no part: it is not installed")
    if given.json:
        command = f"python -m benchmarks.images --rounds {rounds}"
        order = [f"{case.name} {size}" for size in SIZES for case in CASES]
        keep(given.json, results, about, order, date=date.today().isoformat(), command=command)
        print(f"kept in {given.json}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
