"""The same as `loader_steps`, as people write it with PyTorch; what they write alike is imported from there."""

from __future__ import annotations

import importlib.util
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .loader_steps import (
    Collate,
    Step,
    apart,
    axes_merged,
    by_a_comparison,
    by_arithmetic,
    by_none,
    channels_permuted,
    cropped,
    cropped_from_the_end,
    cut_to_a_square,
    last_rows,
    rearranged,
)


def narrowed(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x.narrow(0, k, 2) if x.shape[0] > 7 else x


def without_a_column(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return torch.narrow(x, 1, 1, x.shape[1] - 1) if x.shape[1] else x


def flipped(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x.flip(1) if flag else x


def flipped_either_way(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return torch.flip(x, (0, 1)) if flag else torch.flipud(x)


def rotated(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return torch.rot90(x, int(k), (0, 1))


def rolled(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return torch.roll(x, int(k), 1)


def rolled_twice(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x.roll((1, int(k) - 2), (0, 1))


def _padded(x: Tensor, before: tuple[Any, Any], after: tuple[Any, Any], value: float = 0) -> Tensor:
    return functional.pad(x, (0, 0) * (x.ndim - 2) + (before[1], after[1], before[0], after[0]), value=value)


def padded(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return _padded(x, (2, 1), (1, 2))[k : k + 4]


def padded_by_k(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return _padded(x, (1, int(k)), (int(k), 0), 3)


def to_a_square(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    side = max(x.shape[:2])
    return _padded(x, (0, 0), (side - x.shape[0], side - x.shape[1]))


def transposed(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x.transpose(0, 1)


def transposed_by_a_flag(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x.transpose(0, 1) if flag else x


def upright(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x if x.size(0) > x.size(1) else x.transpose(0, 1)


def permuted(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x.permute(1, 0, *range(2, x.ndim)).contiguous()


def moved(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x.movedim(0, 1)


def doubled(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return torch.cat([x, x[:k]])


def mirrored(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return torch.hstack([x, x.flip(1)])


def halves_swapped(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return torch.cat(x.chunk(2)[::-1]) if len(x) else x


def parts_reversed(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return torch.cat(torch.tensor_split(x, 3)[::-1])


def columns_stacked_again(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return torch.stack(x.unbind(1), 0) if x.shape[1] else x


def cut_out(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return torch.cat([x[:k], torch.zeros_like(x[k : k + 2]), x[k + 2 :]])


def hole_in_a_copy(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    y = x.clone()
    y[k : k + 2, 1:3] = 0
    return y


def filled_into_zeros(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    y = torch.zeros((len(x) + 2, *x.shape[1:]), dtype=x.dtype)
    y[1 : 1 + len(x)] = x
    return y


def filled_into_new_zeros(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    y = x.new_zeros((x.shape[0], x.shape[1] + 1, *x.shape[2:]))
    y[:, : x.shape[1]] = x
    return y


def enlarged(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x.repeat_interleave(2, 0)


def tiled(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x.repeat(2, *(1,) * (x.ndim - 1))


def resized(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    height, width = x.shape[:2]
    return x[(torch.arange(5) * height // 5)[:, None], torch.arange(4) * width // 4] if height and width else x


def selected(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x.index_select(0, chosen) if len(x) > 7 else x


def indexed(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x[chosen] if len(x) > 7 else x


def channels_reversed(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x.flip(-1)


def one_row_everywhere(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x[:1].expand(3, *x.shape[1:]) if len(x) else x


def axis_added_and_taken_away(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x.unsqueeze(0).squeeze(0)


def first_of_windows(x: Tensor, k: Any, flag: Any, chosen: Tensor) -> Tensor:
    return x.unfold(0, 2, 1)[..., 0] if len(x) > 1 else x


STEPS: tuple[Step, ...] = (
    *(cropped, cropped_from_the_end, last_rows, narrowed, without_a_column, flipped, flipped_either_way, rotated),
    *(rolled, rolled_twice, padded, padded_by_k, to_a_square, cut_to_a_square, transposed, transposed_by_a_flag),
    *(upright, permuted, moved, doubled, mirrored, halves_swapped, parts_reversed, columns_stacked_again, cut_out),
    *(hole_in_a_copy, filled_into_zeros, filled_into_new_zeros, enlarged, tiled, resized, selected, indexed),
    *(channels_reversed, channels_permuted, one_row_everywhere, axes_merged, axis_added_and_taken_away),
    *(first_of_windows, by_none, by_a_comparison, by_arithmetic),
    *((rearranged,) if importlib.util.find_spec("einops") else ()),
)


def to_the_longest(parts: list[Tensor]) -> Tensor:
    height, width = max(len(part) for part in parts), max(part.shape[1] for part in parts)
    return torch.stack([_padded(p, (0, 0), (height - len(p), width - p.shape[1])) for p in parts])


def filled_into_a_batch(parts: list[Tensor]) -> Tensor:
    height, width = max(map(len, parts)), max(part.shape[1] for part in parts)
    batch = torch.zeros((len(parts), height, width, *parts[0].shape[2:]), dtype=parts[0].dtype)
    for number, part in enumerate(parts):
        batch[number, : len(part), : part.shape[1]] = part
    return batch


def to_a_size(parts: list[Tensor]) -> Tensor:
    return torch.stack([_padded(p[:5, :5], (0, 0), (max(0, 5 - len(p)), max(0, 5 - p.shape[1]))) for p in parts])


def channels_first(parts: list[Tensor]) -> Tensor:
    batch = to_a_size(parts)
    return batch.permute(0, 3, 1, 2) if batch.ndim == 4 else batch


def in_a_row(parts: list[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


def mosaic(parts: list[Tensor]) -> Tensor:
    a, b = parts[0], parts[-1]
    above = torch.cat([a[:2, :2], b[:2, -2:]], 1)
    return torch.cat([above, torch.cat([b[-2:, :2], a[-2:, -2:]], 1)], 0)


def columns_stacked(parts: list[Tensor]) -> Tensor:
    return torch.vstack([part[:, :2] for part in parts])


COLLATES: tuple[Collate, ...] = (
    *(to_the_longest, filled_into_a_batch, to_a_size, channels_first, in_a_row, apart, mosaic, columns_stacked),
)
