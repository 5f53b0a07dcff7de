"""The cases of the streams: work on arrays of n rows and c columns, where n is another one in every call.

Each gives arrays, and what anydml, NumPy and PyTorch do with them; anydml does the same with tensors. None where a
library has nothing like it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import anydml as dml
from benchmarks.family_calls import floats, integers, torch_module


class Work(NamedTuple):
    """A call.

    Attributes:
        arrays: what everybody is given.
        ours: makes new results of them, of NumPy's arrays and of tensors.
        numpy: likewise; its results are the right ones.
        torch: likewise, of tensors.
    """

    arrays: list[Any]
    ours: Callable[..., Any]
    numpy: Callable[..., Any]
    torch: Callable[..., Any] | None


def _x(n: int, c: int) -> Any:
    return floats(n, c)


def _parts(n: int, c: int) -> list[int]:
    return [c // 2, c // 4, c - c // 2 - c // 4]


def _ragged(n: int, c: int) -> list[Any]:
    return [floats(1 + k % 7, c) for k in range(n)]


def _padded(x: Any) -> Any:
    found = np.zeros((len(x) + 3, x.shape[1] + 4), x.dtype)
    found[1:-2, 2:-2] = x
    return found


def _unfolded(x: Any) -> Any:
    return np.ascontiguousarray(np.lib.stride_tricks.sliding_window_view(x, 3)[None].transpose(0, 2, 1))


def _scattered(x: Any, i: Any, u: Any) -> Any:
    found = x.copy()
    found[i[:, 0]] = u
    return found


def _one_hot(i: Any, v: Any) -> Any:
    return np.where(np.arange(8) == i[:, None], v[1], v[0])


T = torch_module

CASES: dict[str, Callable[[int, int], Work]] = {
    "copy": lambda n, c: Work([_x(n, c).T], dml.copy, np.ascontiguousarray, lambda x: x.contiguous()),
    "split": lambda n, c: Work(
        [_x(n, c)],
        lambda x: dml.split(x, _parts(n, c), 1),
        lambda x: [part.copy() for part in np.split(x, np.cumsum(_parts(n, c))[:-1], 1)],
        lambda x: T().split_with_sizes_copy(x, _parts(n, c), 1),
    ),
    "join": lambda n, c: Work(
        [_x(n, c), _x(n, c)],
        lambda *x: dml.join(x, 1),
        lambda *x: np.concatenate(x, 1),
        lambda *x: T().cat(x, 1),
    ),
    "stack": lambda n, c: Work(
        [_x(n, c), _x(n, c)], lambda *x: dml.stack(x), lambda *x: np.stack(x), lambda *x: T().stack(x)
    ),
    "slice": lambda n, c: Work(
        [_x(n, c)],
        lambda x: dml.slice(x, [1, 1], [n - 2, c - 2]),
        lambda x: x[1 : n - 1, 1 : c - 1].copy(),
        lambda x: x[1 : n - 1, 1 : c - 1].clone(memory_format=T().contiguous_format),
    ),
    "slice1": lambda n, c: Work(
        [_x(n, c)],
        lambda x: dml.slice1(x, [0, 0], [n, c], [1, -1]),
        lambda x: x[:, ::-1].copy(),
        lambda x: x.flip(1),
    ),
    "flip": lambda n, c: Work([_x(n, c)], lambda x: dml.flip(x, 0), lambda x: x[::-1].copy(), lambda x: x.flip(0)),
    "roll": lambda n, c: Work(
        [_x(n, c)], lambda x: dml.roll(x, 3, 0), lambda x: np.roll(x, 3, 0), lambda x: x.roll(3, 0)
    ),
    "permute_dims": lambda n, c: Work(
        [floats(n, 4, c // 4)],
        lambda x: dml.permute_dims(x, [1, 0, 2]),
        lambda x: x.transpose(1, 0, 2).copy(),
        lambda x: x.permute(1, 0, 2).contiguous(),
    ),
    "broadcast_to": lambda n, c: Work(
        [floats(1, c)],
        lambda x: dml.broadcast_to(x, [n, c]),
        lambda x: np.broadcast_to(x, (n, c)).copy(),
        lambda x: x.expand(n, c).contiguous(),
    ),
    "tile": lambda n, c: Work(
        [_x(max(n // 4, 1), c)], lambda x: dml.tile(x, [2, 2]), lambda x: np.tile(x, [2, 2]), lambda x: x.tile(2, 2)
    ),
    "repeat": lambda n, c: Work(
        [_x(max(n // 2, 1), c)],
        lambda x: dml.repeat(x, 2, 0),
        lambda x: np.repeat(x, 2, 0),
        lambda x: x.repeat_interleave(2, 0),
    ),
    "upsample": lambda n, c: Work(
        [_x(max(n // 2, 1), c // 2)],
        lambda x: dml.upsample(x, [2, 2]),
        lambda x: x.repeat(2, 0).repeat(2, 1),
        lambda x: T().nn.functional.interpolate(x[None, None], scale_factor=2)[0, 0],
    ),
    "pad": lambda n, c: Work(
        [_x(n, c)],
        lambda x: dml.pad(x, [1, 2, 2, 2]),
        _padded,
        lambda x: T().nn.functional.pad(x, (2, 2, 1, 2)),
    ),
    "pad edge": lambda n, c: Work(
        [_x(n, c)],
        lambda x: dml.pad(x, [1, 1, 1, 1], "edge"),
        lambda x: np.pad(x, 1, "edge"),
        lambda x: T().nn.functional.pad(x[None], (1, 1, 1, 1), "replicate")[0],
    ),
    "gather": lambda n, c: Work(
        [floats(1000, c), integers(1000, n)],
        dml.gather,
        lambda x, i: x[i],
        lambda x, i: x.index_select(0, i),
    ),
    "gather_elements": lambda n, c: Work(
        [_x(n, c), integers(n, n, c)],
        dml.gather_elements,
        lambda x, i: np.take_along_axis(x, i, 0),
        lambda x, i: x.gather(0, i),
    ),
    "gather_nd": lambda n, c: Work(
        [floats(64, 64, c), integers(64, n, 2)],
        dml.gather_nd,
        lambda x, i: x[i[:, 0], i[:, 1]],
        lambda x, i: x[i[:, 0], i[:, 1]],
    ),
    "scatter_nd": lambda n, c: Work(
        [_x(n, c), integers(n, 4, 1), floats(4, c)],
        dml.scatter_nd,
        _scattered,
        lambda x, i, u: x.index_put((i[:, 0],), u),
    ),
    "where": lambda n, c: Work(
        [_x(n, c) > 0.5, _x(n, c), -_x(n, c)], dml.where, np.where, lambda m, x, y: T().where(m, x, y)
    ),
    "one_hot": lambda n, c: Work(
        [integers(8, n), np.array([0.0, 1.0])], lambda i, v: dml.one_hot(i, v, 8), _one_hot, None
    ),
    "fill": lambda n, c: Work(
        [_x(n, c)], lambda x: dml.fill(x, 3), lambda x: np.full_like(x, 3), lambda x: x.new_full(x.shape, 3)
    ),
    "unfold": lambda n, c: Work(
        [floats(n * c // 3)],
        lambda x: dml.unfold(x.reshape(1, 1, -1), [3]),
        _unfolded,
        lambda x: x.unfold(0, 3, 1).T[None].contiguous(),
    ),
    "depth_to_space": lambda n, c: Work(
        [floats(1, 4, n, c // 4)],
        lambda x: dml.depth_to_space(x, 2, "column_row_depth"),
        lambda x: x.reshape(1, 1, 2, 2, n, c // 4).transpose(0, 1, 4, 2, 5, 3).reshape(1, 1, 2 * n, c // 2),
        lambda x: T().nn.functional.pixel_shuffle(x, 2),
    ),
    "cache append": lambda n, c: Work(
        [floats(1, 4, n, c // 4), floats(1, 4, 1, c // 4)],
        lambda *x: dml.join(x, 2),
        lambda *x: np.concatenate(x, 2),
        lambda *x: T().cat(x, 2),
    ),
    "beam reorder": lambda n, c: Work(
        [floats(4, n, c // 4), np.array([2, 0, 1, 2])], dml.gather, lambda x, i: x[i], lambda x, i: x.index_select(0, i)
    ),
    "ragged pack": lambda n, c: Work(
        _ragged(max(n // 4, 2), c), lambda *x: dml.join(x), lambda *x: np.concatenate(x), lambda *x: T().cat(x)
    ),
    "image to planes": lambda n, c: Work(
        [floats(n, c // 3, 3)],
        lambda x: dml.permute_dims(x, [2, 0, 1]),
        lambda x: x.transpose(2, 0, 1).copy(),
        lambda x: x.permute(2, 0, 1).contiguous(),
    ),
}
"""By what they are called."""
