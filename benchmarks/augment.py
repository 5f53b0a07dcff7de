"""Random crops and flips in a DataLoader against NumPy, PyTorch and torchvision: ``python -m benchmarks.augment``.

256 images of 64 to 96 rows and columns, in batches of 32: each cropped to 48 by 48 at a random place, mirrored by
chance, its channels moved to the front. Milliseconds a batch, whole epochs, medians of rounds in which everybody takes
turns: in the main process, and by workers.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, default_collate

import anydml as dml
from benchmarks.measure import machine

IMAGES, BATCH, SIDE = 256, 32, 48

Collate = Callable[[list[Any]], Any]


def augment(samples: list[tuple[np.ndarray[Any, Any], int, int, int]]) -> np.ndarray[Any, Any]:
    """Crop at given places, mirror by a step of −1, and stack planes."""
    crops = [image[top : top + SIDE, left : left + SIDE] for image, top, left, _ in samples]
    mirrored = [crop[:, ::step] for crop, (_, _, _, step) in zip(crops, samples, strict=True)]
    return np.stack([crop.transpose(2, 0, 1) for crop in mirrored])


fused = dml.fuse(augment)


def by_anydml(samples: list[Any]) -> torch.Tensor:
    """Return the batch of a fused function."""
    return torch.from_numpy(fused(samples))


def by_numpy(samples: list[Any]) -> torch.Tensor:
    """Return the same by NumPy, contiguous."""
    return torch.from_numpy(np.ascontiguousarray(augment(samples)))


def by_torch(samples: list[Any]) -> torch.Tensor:
    """Return the same by PyTorch."""
    crops = []
    for image, top, left, step in samples:
        crop = torch.from_numpy(image)[top : top + SIDE, left : left + SIDE].permute(2, 0, 1)
        crops.append(crop.flip(2) if step < 0 else crop)
    return torch.stack(crops)


class Images(Dataset[Any]):
    """Images, and where to crop them, or what a transform makes of them.

    Args:
        transform: a transform of torchvision; by default numbers are drawn, and nothing is transformed.
    """

    def __init__(self, transform: Callable[[torch.Tensor], torch.Tensor] | None = None) -> None:
        draw = np.random.default_rng(1)
        self.images = [draw.integers(0, 255, (*draw.integers(64, 97, 2), 3), np.uint8) for _ in range(IMAGES)]
        self.transform = transform

    def __len__(self) -> int:
        return IMAGES

    def __getitem__(self, k: int) -> Any:
        image = self.images[k]
        if self.transform is not None:
            return self.transform(torch.from_numpy(image).permute(2, 0, 1))
        top, left = (random.randint(0, size - SIDE) for size in image.shape[:2])
        return image, top, left, random.choice((-1, 1))


def pipelines() -> dict[str, tuple[Images, Collate]]:
    """Return everybody's dataset and what makes a batch of its samples."""
    images = Images()
    found: dict[str, tuple[Images, Collate]] = {
        "anydml": (images, by_anydml),
        "numpy": (images, by_numpy),
        "torch": (images, by_torch),
    }
    if importlib.util.find_spec("torchvision"):
        from torchvision.transforms import v2

        found["torchvision"] = Images(v2.Compose([v2.RandomCrop(SIDE), v2.RandomHorizontalFlip()])), default_collate
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.augment", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    samples = [Images()[k] for k in range(BATCH)]
    if not (by_anydml(samples).equal(by_numpy(samples)) and by_anydml(samples).equal(by_torch(samples))):
        raise SystemExit("the results differ")
    torch.set_num_threads(dml.get_num_threads())
    for workers in (0, given.workers):
        loaders = {
            who: DataLoader(
                images, BATCH, True, collate_fn=collate, num_workers=workers, persistent_workers=workers > 0
            )
            for who, (images, collate) in pipelines().items()
        }
        seconds: dict[str, list[float]] = {who: [] for who in loaders}
        for number in range(given.rounds + 1):
            for who, loader in loaders.items():
                start = time.perf_counter()
                batches = sum(1 for _ in loader)
                if number:
                    seconds[who].append((time.perf_counter() - start) / batches)
        print(f"{workers} workers, ms a batch: ", end="")
        print(", ".join(f"{who} {1e3 * statistics.median(each):.3f}" for who, each in seconds.items()))
    print(machine())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
