"""What functions of data loaders do to one array, and how they collate a batch, as people write it with NumPy.

A step takes an array of 2 or 3 dimensions, a number, a flag, and an array of indices.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Step = Callable[[Any, Any, Any, Any], Any]
Collate = Callable[[list[Any]], Any]


def cropped(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[k : k + 3, k:]


def cropped_from_the_end(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[k:][:4, : len(x) - 1]


def last_rows(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[-k:]


def without_the_last_rows(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[: -k or None]


def centre(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    y, z = (x.shape[0] - 3) // 2, (x.shape[1] - 3) // 2
    return x[max(y, 0) : max(y, 0) + 3, max(z, 0) : max(z, 0) + 3]


def flipped(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[:, ::-1] if flag else x


def flipped_either_way(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.flip(x, 0) if flag else np.fliplr(x)


def stepped(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[:: (-1 if flag else 1)]


def every_kth(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[:: k + 1]


def rotated(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.rot90(x, int(k))


def rotated_by_a_sum(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.rot90(x, k + 0)


def rolled(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.roll(x, k, 1)


def rolled_twice(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.roll(x, (k, int(k) - 2), (0, 1))


def _widths(x: Array, rows: tuple[Any, Any], columns: tuple[Any, Any]) -> Any:
    return (rows, columns, *((0, 0),) * (x.ndim - 2))


def padded(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.pad(x, _widths(x, (2, 1), (1, 2)))[k : k + 4]


def padded_by_k(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.pad(x, _widths(x, (int(k), 1), (0, int(k))))


def edged(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.pad(x, _widths(x, (1, 2), (0, 1)), "edge")[:, k:] if x.size else x


def reflected(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.pad(x, _widths(x, (1, 1), (1, 1)), "reflect") if min(x.shape[:2]) > 1 else x


def wrapped(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.pad(x, _widths(x, (1, 1), (2, 0)), "wrap") if x.size else x


def to_a_square(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    side = max(x.shape[:2])
    return np.pad(x, _widths(x, (0, side - x.shape[0]), (0, side - x.shape[1])))


def cut_to_a_square(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    side = min(x.shape[:2])
    return x[:side, :side]


def transposed(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x.swapaxes(0, 1)


def transposed_by_a_flag(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x.swapaxes(0, 1) if flag else x


def upright(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x if x.shape[0] > x.shape[1] else x.swapaxes(0, 1)


def rearranged(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    import einops

    pattern = "h w c -> w h c" if x.ndim == 3 else "h w -> w h"
    return einops.rearrange(x, pattern)  # type: ignore[no-any-return]


def doubled(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.concatenate([x, x[:k]], 0)


def mirrored(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.concatenate([x, x[:, ::-1]], 1)


def halves_swapped(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.concatenate([x[len(x) // 2 :], x[: len(x) // 2]])


def parts_reversed(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.concatenate(np.array_split(x, 3)[::-1])


def in_blocks(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.block([[x[:k]], [x[k:]]]) if x.ndim == 2 else x


def cut_out(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.concatenate([x[:k], np.zeros_like(x[k : k + 2]), x[k + 2 :]])


def hole_in_a_copy(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    y = x.copy()
    y[k : k + 2, 1:3] = np.zeros((), x.dtype)
    return y


def filled_into_zeros(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    y = np.zeros((len(x) + 2, *x.shape[1:]), x.dtype)
    y[1 : 1 + len(x)] = x
    return y


def without_a_row(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.delete(x, 0, 0) if len(x) else x


def with_a_row(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.insert(x, 0, 0, axis=0) if x.dtype.kind in "iuf" else x


def rows_of_either(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    columns = np.arange(x.shape[1]).reshape((-1,) + (1,) * (x.ndim - 2))
    return np.where(columns % 2 == 0, x, x[::-1])


def repeated(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.repeat(x, int(k) % 3, 0)


def enlarged(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x.repeat(2, 0).repeat(2, 1)


def tiled(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.tile(x, (2, 1) + (1,) * (x.ndim - 2))


def resized(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    height, width = x.shape[:2]
    return x[(np.arange(5) * height // 5)[:, None], np.arange(4) * width // 4] if height and width else x


def taken(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x.take(chosen, 0) if len(x) > 7 else x


def channels_reversed(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[..., ::-1]


def channels_permuted(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[..., [2, 0, 1]] if x.shape[-1] > 2 else x


def one_row(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[k % len(x)][:, None] if len(x) and x.ndim == 2 else x


def one_row_everywhere(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return np.broadcast_to(x[:1], (3, *x.shape[1:])) if len(x) else x


def flattened(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[k:].reshape(-1)[None] if x.ndim == 2 else x


def axes_merged(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])[:, None][k:]


def by_none(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x if flag is None else x[1:]


def by_true(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[::-1] if flag is True else x


def by_a_comparison(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[k:] if k > 2 else x[:, k:]


def by_arithmetic(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[(k + 1) // 2 : k * 2 + 1]


def by_extremes(x: Array, k: Any, flag: Any, chosen: Array) -> Array:
    return x[min(k, len(x)) : max(k, 2)]


STEPS: tuple[Step, ...] = (
    *(cropped, cropped_from_the_end, last_rows, without_the_last_rows, centre, flipped, flipped_either_way, stepped),
    *(every_kth, rotated, rotated_by_a_sum, rolled, rolled_twice, padded, padded_by_k, edged, reflected, wrapped),
    *(to_a_square, cut_to_a_square, transposed, transposed_by_a_flag, upright, doubled, mirrored, halves_swapped),
    *(parts_reversed, in_blocks, cut_out, hole_in_a_copy, filled_into_zeros, without_a_row, with_a_row),
    *(rows_of_either, repeated, enlarged, tiled, resized, taken, channels_reversed, channels_permuted, one_row),
    *(one_row_everywhere, flattened, axes_merged, by_none, by_true, by_a_comparison, by_arithmetic, by_extremes),
    *((rearranged,) if importlib.util.find_spec("einops") else ()),
)


def to_the_longest(parts: list[Array]) -> Array:
    height, width = max(len(part) for part in parts), max(part.shape[1] for part in parts)
    return np.stack([np.pad(p, _widths(p, (0, height - len(p)), (0, width - p.shape[1]))) for p in parts])


def filled_into_a_batch(parts: list[Array]) -> Array:
    height, width = max(map(len, parts)), max(part.shape[1] for part in parts)
    batch = np.zeros((len(parts), height, width, *parts[0].shape[2:]), parts[0].dtype)
    for number, part in enumerate(parts):
        batch[number, : len(part), : part.shape[1]] = part
    return batch


def to_a_size(parts: list[Array]) -> Array:
    widths = [((0, max(0, 5 - len(part))), (0, max(0, 5 - part.shape[1]))) for part in parts]
    return np.stack([np.pad(p[:5, :5], _widths(p, *width)) for p, width in zip(parts, widths, strict=True)])


def channels_first(parts: list[Array]) -> Array:
    batch = to_a_size(parts)
    return batch.transpose(0, 3, 1, 2) if batch.ndim == 4 else batch


def in_a_row(parts: list[Array]) -> Array:
    return np.concatenate([part.reshape(-1) for part in parts])


def in_a_row_with_first_rows(parts: list[Array]) -> tuple[Array, tuple[Array, ...]]:
    return in_a_row(parts), tuple(part[:1] for part in parts)


def apart(parts: list[Array]) -> dict[str, Any]:
    return {"first": parts[0], "others": tuple(parts[1:])}


def listed(parts: list[Array]) -> list[Array]:
    return parts


def mosaic(parts: list[Array]) -> Array:
    a, b = parts[0], parts[-1]
    above = np.concatenate([a[:2, :2], b[:2, -2:]], 1)
    return np.concatenate([above, np.concatenate([b[-2:, :2], a[-2:, -2:]], 1)], 0)


def columns_stacked(parts: list[Array]) -> Array:
    return np.vstack([part[:, :2] for part in parts])


COLLATES: tuple[Collate, ...] = (
    *(to_the_longest, filled_into_a_batch, to_a_size, channels_first, in_a_row, in_a_row_with_first_rows, apart),
    *(listed, mosaic, columns_stacked),
)
