"""Chains of moves that models are full of, as people write them with NumPy and with PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """A chain.

    Attributes:
        name: which.
        about: in words.
        make: gives its arguments: arrays and lists of them, `scale` times as many along their first axis as in a
            quick run.
        numpy: the chain of NumPy's arrays.
        torch: the same of PyTorch's tensors; it may be a view.
    """

    name: str
    about: str
    make: Callable[[int], tuple[Any, ...]]
    numpy: Callable[..., Any]
    torch: Callable[..., Any]


def _numbers(shape: tuple[int, ...], dtype: str) -> Array:
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    # Bytes below 64, of which no two in a row of elements make a NaN.
    return np.random.default_rng(1).integers(0, 64, count, np.uint8).view(dtype).reshape(shape)


def heads(x: Any) -> Any:
    """Queries, keys and values of 16 heads."""
    parts = np.split(x, 3, axis=-1)
    return tuple(part.reshape(*part.shape[:2], 16, 64).transpose(0, 2, 1, 3) for part in parts)


def torch_heads(x: Any) -> Any:
    """The same."""
    return tuple(part.unflatten(-1, (16, 64)).permute(0, 2, 1, 3) for part in x.split(16 * 64, dim=-1))


def halves(x: Any) -> Any:
    """Second half first; and even elements before odd ones."""
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([second, first], axis=-1), np.concatenate([x[..., ::2], x[..., 1::2]], axis=-1)


def torch_halves(x: Any) -> Any:
    """The same."""
    import torch

    first, second = x.chunk(2, dim=-1)
    return torch.cat([second, first], dim=-1), torch.cat([x[..., ::2], x[..., 1::2]], dim=-1)


def windows(x: Any) -> Any:
    """Swin's windows of 7 by 7, shifted by 3."""
    rolled = np.roll(x, (-3, -3), axis=(1, 2))
    apart = rolled.reshape(x.shape[0], 8, 7, 8, 7, 96).transpose(0, 1, 3, 2, 4, 5)
    return apart.reshape(-1, 49, 96)


def torch_windows(x: Any) -> Any:
    """The same."""
    import torch

    rolled = torch.roll(x, (-3, -3), (1, 2))
    return rolled.view(x.shape[0], 8, 7, 8, 7, 96).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, 96)


def crops(images: Any, places: Any) -> Any:
    """Crops of images, every second mirrored, channels first."""
    cut = [image[y : y + 448, x : x + 448] for image, (y, x) in zip(images, places, strict=True)]
    return np.stack([each[:, ::-1] if k % 2 else each for k, each in enumerate(cut)]).transpose(0, 3, 1, 2)


def torch_crops(images: Any, places: Any) -> Any:
    """The same."""
    import torch

    cut = [image[y : y + 448, x : x + 448] for image, (y, x) in zip(images, places, strict=True)]
    return torch.stack([each.flip(1) if k % 2 else each for k, each in enumerate(cut)]).permute(0, 3, 1, 2)


def focus(x: Any) -> Any:
    """YOLO's focus: four strided slices joined."""
    return np.concatenate([x[..., a::2, b::2] for b in (0, 1) for a in (0, 1)], axis=1)


def torch_focus(x: Any) -> Any:
    """The same."""
    import torch

    return torch.cat([x[..., a::2, b::2] for b in (0, 1) for a in (0, 1)], dim=1)


def columns(x: Any) -> Any:
    """im2col of 3 by 3, padded by 1."""
    batch, channels, height, width = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    taps = [padded[:, :, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    return np.stack(taps, axis=2).reshape(batch, channels * 9, height * width)


def torch_columns(x: Any) -> Any:
    """The same."""
    import torch

    return torch.nn.functional.unfold(x, 3, padding=1)


def shuffled(x: Any) -> Any:
    """Pixel shuffle by 4, cropped by 8, mirrored."""
    batch, channels, height, width = x.shape
    apart = x.reshape(batch, channels // 16, 4, 4, height, width).transpose(0, 1, 4, 2, 5, 3)
    return apart.reshape(batch, channels // 16, height * 4, width * 4)[..., 8:-8, 8:-8][..., ::-1]


def torch_shuffled(x: Any) -> Any:
    """The same."""
    import torch

    return torch.nn.functional.pixel_shuffle(x, 4)[..., 8:-8, 8:-8].flip(-1)


def embedded(table: Any, ids: Any, positions: Any) -> Any:
    """Rows of a table beside their positions."""
    rows = table[ids]
    return np.concatenate([rows, np.broadcast_to(positions, rows.shape)], axis=-1)


def torch_embedded(table: Any, ids: Any, positions: Any) -> Any:
    """The same."""
    import torch

    rows = torch.nn.functional.embedding(ids, table)
    return torch.cat([rows, positions.expand(rows.shape)], dim=-1)


def pages(cache: Any, table: Any) -> Any:
    """Pages of keys, heads first."""
    found = cache[table].transpose(2, 0, 1, 3)
    return found.reshape(found.shape[0], -1, found.shape[3])


def torch_pages(cache: Any, table: Any) -> Any:
    """The same."""
    return cache[table].permute(2, 0, 1, 3).flatten(1, 2)


def _crops(scale: int) -> tuple[Any, ...]:
    images = [_numbers((512, 512, 3), "uint8") for _ in range(8 * scale)]
    places = np.random.default_rng(2).integers(0, 65, (8 * scale, 2))
    return images, tuple((int(y), int(x)) for y, x in places)


def _embedding(scale: int) -> tuple[Any, ...]:
    ids = np.random.default_rng(3).integers(0, 50_000, (8 * scale, 512))
    return _numbers((50_000, 768), "float32"), ids, _numbers((512, 768), "float32")


def _pages(scale: int) -> tuple[Any, ...]:
    table = np.random.default_rng(4).permutation(64 * scale)
    return _numbers((64 * scale, 16, 8, 128), "float16"), table


CASES = (
    Case(
        "F1", "queries, keys, values of 16 heads", lambda n: (_numbers((n, 2048, 3072), "float32"),), heads, torch_heads
    ),
    Case(
        "F2",
        "rotary halves; even before odd",
        lambda n: (_numbers((n, 16, 2048, 64), "float32"),),
        halves,
        torch_halves,
    ),
    Case(
        "F3", "shifted windows of 7 by 7", lambda n: (_numbers((2 * n, 56, 56, 96), "float32"),), windows, torch_windows
    ),
    Case("F4", "crops of images, half of them mirrored", _crops, crops, torch_crops),
    Case(
        "F5",
        "focus: four strided slices joined",
        lambda n: (_numbers((2 * n, 3, 640, 640), "float32"),),
        focus,
        torch_focus,
    ),
    Case(
        "F6", "im2col, 3 by 3, padded by 1", lambda n: (_numbers((n, 64, 56, 56), "float32"),), columns, torch_columns
    ),
    Case(
        "F7",
        "pixel shuffle, crop, mirror",
        lambda n: (_numbers((n, 64, 256, 256), "float32"),),
        shuffled,
        torch_shuffled,
    ),
    Case("F8", "embedding beside positions", _embedding, embedded, torch_embedded),
    Case("F9", "pages of keys, heads first", _pages, pages, torch_pages),
)
"""As people write them. At scale 8 they have the sizes that they are judged by."""
