"""Streams of calls as data loaders make them: a function of arrays, and arguments that are new in every call."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Arrays = list[Array]


class Draw:
    """Random arguments.

    Args:
        seed: what they are drawn from.
    """

    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)

    def images(self, count: int, side: int | None = None) -> Arrays:
        """Draw images of 64 to 96 rows and columns, or squares."""

        def size() -> int:
            return side or self.random.randint(64, 96)

        return [self.numpy.integers(0, 255, (size(), size(), 3), dtype=np.uint8) for _ in range(count)]

    def numbers(self, count: int, low: int, high: int, kind: Callable[[int], Any] = int) -> list[Any]:
        """Draw integers of a type."""
        return [kind(self.random.randint(low, high)) for _ in range(count)]

    def flags(self, count: int) -> list[bool]:
        """Draw booleans."""
        return [self.random.random() < 0.5 for _ in range(count)]

    def rows(self, count: int, low: int, high: int) -> Arrays:
        """Draw rows of different lengths."""
        return [self.numpy.integers(0, 9, self.random.randint(low, high)) for _ in range(count)]

    def crops(self, count: int, low: int, high: int, kind: Callable[[int], Any] = int) -> tuple[Any, ...]:
        """Draw images, and where crops of 48 by 48 begin, as far as they fit."""
        images = self.images(count)
        sides = [[min(high, image.shape[k] - 48) for image in images] for k in (0, 1)]
        return images, *([kind(self.random.randint(low, most)) for most in each] for each in sides)


def crop(images: Arrays, ys: list[Any], xs: list[Any]) -> Array:
    return np.stack([im[y : y + 48, x : x + 48].transpose(2, 0, 1) for im, y, x in zip(images, ys, xs, strict=True)])


def crop_at(images: Arrays, places: list[tuple[int, int]]) -> Array:
    return np.stack([im[y : y + 48, x : x + 48] for im, (y, x) in zip(images, places, strict=True)])


def crop_flat(images: Arrays, ys: list[int], xs: list[int]) -> Array:
    return np.stack([im[y : y + 48, x : x + 48].reshape(-1) for im, y, x in zip(images, ys, xs, strict=True)])


def crop_by_ends(images: Arrays, ys: list[int], xs: list[int]) -> Array:
    return np.stack([im[y:, x:][:48, :48] for im, y, x in zip(images, ys, xs, strict=True)])


def centre(images: Arrays) -> Array:
    places = [((len(im) - 48) // 2, (im.shape[1] - 48) // 2) for im in images]
    return np.stack([im[y : y + 48, x : x + 48] for im, (y, x) in zip(images, places, strict=True)])


def channels_first(images: Arrays) -> Array:
    return np.stack([im.transpose(2, 0, 1) for im in images])


def channels_first_flat(images: Arrays) -> Array:
    return np.concatenate([im[None].reshape(1, -1, 3).swapaxes(1, 2) for im in images])


def flip(images: Arrays, flags: list[Any]) -> Array:
    return np.stack([(im[:, ::-1] if f else im).transpose(2, 0, 1) for im, f in zip(images, flags, strict=True)])


def step(images: Arrays, steps: list[int]) -> Array:
    return np.stack([im[:, ::s].transpose(2, 0, 1) for im, s in zip(images, steps, strict=True)])


def swap(images: Arrays, flags: list[bool]) -> Array:
    return np.stack([im[..., ::-1] if f else im for im, f in zip(images, flags, strict=True)])


def rotate(images: Arrays, quarters: list[int]) -> Array:
    return np.stack([np.rot90(im, k) for im, k in zip(images, quarters, strict=True)])


def fill_rows(rows: Arrays) -> Array:
    batch = np.zeros((len(rows), max(map(len, rows))), rows[0].dtype)
    for k, row in enumerate(rows):
        batch[k, : len(row)] = row
    return batch


def fill_centred(images: Arrays) -> Array:
    height, width = max(len(im) for im in images), max(im.shape[1] for im in images)
    batch = np.full((len(images), height, width, 3), 114, np.uint8)
    for k, im in enumerate(images):
        y, x = (height - len(im)) // 2, (width - im.shape[1]) // 2
        batch[k, y : y + len(im), x : x + im.shape[1]] = im
    return batch


def cut_holes(images: Arrays, ys: list[int], xs: list[int]) -> Array:
    copies = [np.array(im) for im in images]
    for copy, y, x in zip(copies, ys, xs, strict=True):
        copy[y : y + 16, x : x + 16] = 0
    return np.ascontiguousarray(np.stack(copies).transpose(0, 3, 1, 2))


def mosaic(a: Array, b: Array, c: Array, d: Array, y: int, x: int) -> Array:
    upper, lower = np.concatenate([a[:y, :x], b[:y, x:]], 1), np.concatenate([c[y:, :x], d[y:, x:]], 1)
    return np.concatenate([upper, lower], 0)


def pad_and_crop(images: Arrays, ys: list[int], xs: list[int]) -> Array:
    padded = [np.pad(im, ((4, 4), (4, 4), (0, 0))) for im in images]
    return np.stack([im[y : y + 64, x : x + 64] for im, y, x in zip(padded, ys, xs, strict=True)])


def reflect_and_crop(images: Arrays, ys: list[int], xs: list[int]) -> Array:
    padded = [np.pad(im, ((4, 4), (4, 4), (0, 0)), "reflect") for im in images]
    return np.stack([im[y : y + 64, x : x + 64] for im, y, x in zip(padded, ys, xs, strict=True)])


def cut_out(images: Arrays, ys: list[int]) -> Array:
    parts = [(im[:y], np.zeros_like(im[y : y + 8]), im[y + 8 :]) for im, y in zip(images, ys, strict=True)]
    return np.stack([np.concatenate(each) for each in parts])


def resize(images: Arrays, ys: Arrays, xs: Arrays) -> Array:
    return np.stack([im[y[:, None], x] for im, y, x in zip(images, ys, xs, strict=True)])


def resize_by_take(images: Arrays, ys: Arrays, xs: Arrays) -> Array:
    return np.stack([im.take(y, 0).take(x, 1) for im, y, x in zip(images, ys, xs, strict=True)])


def enlarge(images: Arrays, times: int) -> Array:
    return np.stack([np.repeat(np.repeat(im, times, 0), times, 1) for im in images])


def tile(images: Arrays, times: int) -> Array:
    return np.stack([np.tile(im, (times, 1, 1)) for im in images])


def pad_rows(rows: Arrays) -> Array:
    longest = max(map(len, rows))
    return np.stack([np.pad(row, (0, longest - len(row))) for row in rows])


def pad_rows_left(rows: Arrays) -> Array:
    longest = max(len(row) for row in rows)
    return np.stack([np.pad(row, (longest - len(row), 0), constant_values=-1) for row in rows])


def pad_images(images: Arrays) -> Array:
    height, width = max(len(im) for im in images), max(im.shape[1] for im in images)
    return np.stack([np.pad(im, ((0, height - len(im)), (0, width - im.shape[1]), (0, 0))) for im in images])


def to_a_length(rows: Arrays, length: int) -> Array:
    return np.stack([np.pad(row[:length], (0, max(0, length - len(row)))) for row in rows])


def stack_fields(batch: dict[str, Arrays]) -> dict[str, Array]:
    return {name: np.stack(arrays) for name, arrays in batch.items()}


def pairs(samples: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    return np.stack([im[2:50, 3:51] for im, _ in samples]), np.stack([mask[2:50, 3:51] for _, mask in samples])


def join(rows: Arrays) -> Array:
    return np.concatenate(rows)


def window(x: Array, start: int, size: int) -> Array:
    return x[start : start + size]


def windows(x: Array, starts: list[int]) -> Array:
    return np.stack([x[start : start + 128] for start in starts])


def roll(x: Array, shifts: list[int]) -> Array:
    return np.stack([np.roll(row, shift) for row, shift in zip(x, shifts, strict=True)])


class Stream(NamedTuple):
    """A function, and what draws the arguments of a call."""

    name: str
    function: Callable[..., Any]
    make: Callable[[Draw], tuple[Any, ...]]


def _some(draw: Draw, images: Arrays, change: Callable[[Array], Array]) -> tuple[Arrays]:
    return ([change(image) if flag else image for image, flag in zip(images, draw.flags(len(images)), strict=True)],)


def _cropped(draw: Draw) -> tuple[Arrays]:
    images, ys, xs = draw.crops(32, 0, 99)
    return ([im[y : y + 48, x : x + 48] for im, y, x in zip(images, ys, xs, strict=True)],)


def _resizing(draw: Draw) -> tuple[Any, ...]:
    images = draw.images(16)
    return images, *([np.arange(32) * im.shape[k] // 32 for im in images] for k in (0, 1))


STREAMS = [
    Stream("crops, offsets anywhere", crop, lambda d: d.crops(32, 0, 99)),
    Stream("crops, offsets 1 to 15", crop, lambda d: d.crops(32, 1, 15)),
    Stream("crops, offsets of int64", crop, lambda d: d.crops(32, 0, 99, np.int64)),
    Stream("crops, offsets of int32", crop, lambda d: d.crops(32, 0, 99, np.int32)),
    Stream("crops, offsets of uint8", crop, lambda d: d.crops(32, 0, 99, np.uint8)),
    Stream("crops of 3 images", crop, lambda d: d.crops(3, 0, 99)),
    Stream("crops of 256 images", crop, lambda d: d.crops(256, 0, 99)),
    Stream("crops, offsets as pairs", crop_at, lambda d: (d.images(32), [(y, 16 - y) for y in d.numbers(32, 0, 16)])),
    Stream("crops, flattened", crop_flat, lambda d: d.crops(16, 0, 99)),
    Stream("crops by their ends", crop_by_ends, lambda d: d.crops(16, 0, 16)),
    Stream("crops of the centre", centre, lambda d: (d.images(32),)),
    Stream("flips as bools", flip, lambda d: (d.images(32, 64), d.flags(32))),
    Stream("flips as NumPy's bools", flip, lambda d: (d.images(32, 64), [np.bool_(f) for f in d.flags(32)])),
    Stream("flips as steps of ±1", step, lambda d: (d.images(32, 64), [1 - 2 * f for f in d.flags(32)])),
    Stream("channels reversed by bools", swap, lambda d: (d.images(16, 64), d.flags(16))),
    Stream("rotations by 90°", rotate, lambda d: (d.images(16, 64), d.numbers(16, 0, 3))),
    Stream("views, half flipped", channels_first, lambda d: _some(d, d.images(32, 64), lambda x: x[:, ::-1])),
    Stream("views, half transposed", channels_first, lambda d: _some(d, d.images(32, 64), lambda x: x.swapaxes(0, 1))),
    Stream(
        *("views, half broadcast", channels_first),
        lambda d: _some(d, d.images(32, 64), lambda x: np.broadcast_to(x[:1], x.shape)),
    ),
    Stream("views, crops", channels_first, _cropped),
    Stream("channels first by reshape", channels_first_flat, lambda d: (d.images(16, 64),)),
    Stream("mosaic", mosaic, lambda d: (*d.images(4, 64), *d.numbers(2, 0, 64))),
    Stream(
        "padded, then cropped", pad_and_crop, lambda d: (d.images(16, 64), d.numbers(16, 0, 8), d.numbers(16, 0, 8))
    ),
    Stream(
        *("reflected, then cropped", reflect_and_crop),
        lambda d: (d.images(16, 64), d.numbers(16, 0, 8), d.numbers(16, 0, 8)),
    ),
    Stream("rows cut out", cut_out, lambda d: (d.images(16, 64), d.numbers(16, 0, 60))),
    Stream("resized by indices", resize, _resizing),
    Stream("resized by take", resize_by_take, _resizing),
    Stream("enlarged", enlarge, lambda d: (d.images(8, 64), *d.numbers(1, 1, 3))),
    Stream("tiled", tile, lambda d: (d.images(8, 64), *d.numbers(1, 1, 3))),
    Stream("images padded to the largest", pad_images, lambda d: (d.images(16),)),
    Stream("rows padded, one of 32 empty", pad_rows, lambda d: ([*d.rows(31, 1, 99), np.arange(0)],)),
    Stream("rows padded, of 0 to 3", pad_rows, lambda d: (d.rows(32, 0, 3),)),
    Stream("rows padded, of 1 to 3", pad_rows, lambda d: (d.rows(32, 1, 3),)),
    Stream("rows filled into zeros", fill_rows, lambda d: (d.rows(32, 0, 99),)),
    Stream("images filled into a batch", fill_centred, lambda d: (d.images(16),)),
    Stream(
        "holes cut into copies", cut_holes, lambda d: (d.images(16, 64), d.numbers(16, 0, 63), d.numbers(16, 0, 63))
    ),
    Stream("rows padded in front", pad_rows_left, lambda d: (d.rows(32, 0, 99),)),
    Stream("rows padded, 1 to 40 of them", pad_rows, lambda d: (d.rows(d.random.randint(1, 40), 0, 50),)),
    Stream("rows of a length", to_a_length, lambda d: (d.rows(32, 0, 99), d.random.choice([32, 50, 64]))),
    Stream("fields of a dict", stack_fields, lambda d: ({name: d.rows(16, 7, 7) for name in "ab"},)),
    Stream("images and masks", pairs, lambda d: ([*zip(d.images(16), d.images(16), strict=True)],)),
    Stream("rows joined", join, lambda d: (d.rows(32, 0, 50),)),
    Stream("rows joined, 1 to 40 of them", join, lambda d: (d.rows(d.random.randint(1, 40), 0, 50),)),
    Stream("a window", window, lambda d: (d.numpy.random(1000), *d.numbers(1, 0, 900), *d.numbers(1, 0, 100))),
    Stream("windows", windows, lambda d: (d.numpy.random(1000), d.numbers(16, 0, 872))),
    Stream("rolls", roll, lambda d: (d.numpy.random((16, 50)), d.numbers(16, -60, 60))),
]
