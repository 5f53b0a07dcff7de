"""The cases of the family's benchmark: what each function is called with, and how NumPy, PyTorch and ONNX write it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import anydml as dml

Array = np.ndarray[Any, Any]


class Node(NamedTuple):
    """An ONNX node: its type, constants that follow the arrays as inputs, attributes, and which arrays it takes."""

    kind: str
    constants: Sequence[Any] = ()
    attributes: Mapping[str, Any] = {}
    order: Sequence[int] | None = None
    outputs: int = 1


@dataclass
class Calls:
    """One case at one size.

    Attributes:
        arrays: what everybody is given.
        ours: makes new results of them.
        numpy: likewise; its results are the right ones.
        torch: likewise, of tensors over the same memory; None where PyTorch has nothing like it.
        onnx: the node; None where ONNX Runtime has none.
    """

    arrays: list[Array]
    ours: Callable[..., Any]
    numpy: Callable[..., Any]
    torch: Callable[..., Any] | None = None
    onnx: Node | None = field(default=None)


def _floats(*shape: int) -> Array:
    return np.random.default_rng(1).random(shape, np.float32)


def _integers(high: int, *shape: int) -> Array:
    return np.random.default_rng(2).integers(0, high, shape)


def _rows(size: int, columns: int) -> int:
    """Rows of FLOAT32 that take `size` bytes."""
    return max(1, size // (4 * columns))


def split(size: int) -> Calls:
    """rows of 768 into 3 × 256"""
    x = _floats(_rows(size, 768), 768)
    return Calls(
        [x],
        lambda x: dml.split(x, 3, 1),
        lambda x: [part.copy() for part in np.split(x, 3, 1)],
        lambda x: _torch().split_with_sizes_copy(x, [256] * 3, 1),
        Node("Split", [np.array([256] * 3)], {"axis": 1}, outputs=3),
    )


def join(size: int) -> Calls:
    """four arrays along the last axis"""
    arrays = [_floats(_rows(size, 1024), 256) for _ in range(4)]
    return Calls(
        arrays,
        lambda *each: dml.join(each, 1),
        lambda *each: np.concatenate(each, 1),
        lambda *each: _torch().cat(each, 1),
        Node("Concat", attributes={"axis": 1}),
    )


def slice_(size: int) -> Calls:
    """every second column"""
    x = _floats(_rows(size, 512), 1024)
    return Calls(
        [x],
        lambda x: dml.slice(x, [0, 0], [len(x), 512], [1, 2]),
        lambda x: x[:, ::2].copy(),
        lambda x: x[:, ::2].contiguous(),
        Node("Slice", [np.array([0]), np.array([1024]), np.array([1]), np.array([2])]),
    )


def slice1(size: int) -> Calls:
    """a window, its last axis backwards"""
    x = _floats(_rows(size, 512), 640)
    return Calls(
        [x],
        lambda x: dml.slice1(x, [0, 64], [len(x), 512], [1, -1]),
        lambda x: x[:, 64:576][:, ::-1].copy(),
        lambda x: x[:, 64:576].flip(1),
        Node("Slice", [np.array([575]), np.array([63]), np.array([1]), np.array([-1])]),
    )


def gather(size: int) -> Calls:
    """rows of 64 by random indices"""
    x, i = _floats(30_000, 64), _integers(30_000, _rows(size, 64))
    return Calls([x, i], dml.gather, lambda x, i: x[i], lambda x, i: x.index_select(0, i), Node("Gather"))


def tile(size: int) -> Calls:
    """2 × 3 times"""
    x = _floats(_rows(size // 6, 192), 192)
    return Calls(
        [x],
        lambda x: dml.tile(x, [2, 3]),
        lambda x: np.tile(x, (2, 3)),
        lambda x: x.tile(2, 3),
        Node("Tile", [np.array([2, 3])]),
    )


def _pad(mode: str) -> Callable[[int], Calls]:
    def make(size: int) -> Calls:
        side = max(8, math.isqrt(size // (4 * 16)) - 2)
        x, name = _floats(1, 16, side, side), {"edge": "replicate", "reflect": "reflect"}.get(mode, mode)

        def ours(x: Array) -> Array:
            return dml.pad(x, [0, 0, 1, 1, 0, 0, 1, 1], mode)

        return Calls(
            [x],
            ours,
            lambda x: np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], mode),
            None if mode == "symmetric" else lambda x: _torch().nn.functional.pad(x, (1, 1, 1, 1), name),
            None if mode == "symmetric" else Node("Pad", [np.array([0, 0, 1, 1] * 2)], {"mode": mode}),
        )

    make.__doc__ = f"one pixel around images, {mode}"
    return make


def _along(axis: int) -> Callable[[int], Calls]:
    def make(size: int) -> Calls:
        rows = _rows(size, 256)
        x, i = _floats(rows, 256), _integers(256 if axis else rows, rows, 256)
        return Calls(
            [x, i],
            lambda x, i: dml.gather_elements(x, i, axis),
            lambda x, i: np.take_along_axis(x, i, axis),
            lambda x, i: x.gather(axis, i),
            Node("GatherElements", attributes={"axis": axis}),
        )

    make.__doc__ = f"one index an element, along {'the last' if axis else 'the first'} of two axes"
    return make


def gather_nd(size: int) -> Calls:
    """rows of 16 by two coordinates"""
    x, i = _floats(256, 256, 16), _integers(256, _rows(size, 16), 2)
    return Calls(
        [x, i],
        dml.gather_nd,
        lambda x, i: x[i[:, 0], i[:, 1]],
        lambda x, i: x[i[:, 0], i[:, 1]],
        Node("GatherND"),
    )


def _scatter(axis: int) -> Callable[[int], Calls]:
    def make(size: int) -> Calls:
        rows, rng = _rows(size, 256), np.random.default_rng(3)
        x, u = _floats(rows, 256), _floats(rows // 4, 256) + 1
        # Each place once: which of several updates stays differs between libraries.
        few = rng.permuted(np.tile(np.arange(256), (rows // 4, 1)), axis=1)
        i = few if axis else rng.permutation(rows)[: rows // 4, None].repeat(256, 1)

        def numpy(x: Array, i: Array, u: Array) -> Array:
            y = x.copy()
            if axis:
                np.put_along_axis(y[: len(i)], i, u, 1)
            else:
                np.put_along_axis(y, i, u, 0)
            return y

        return Calls(
            [x, i, u],
            lambda x, i, u: dml.scatter(x, i, u, axis),
            numpy,
            lambda x, i, u: x.scatter(axis, i, u),
            Node("ScatterElements", attributes={"axis": axis}),
        )

    make.__doc__ = f"an update for every fourth element, along {'the last' if axis else 'the first'} of two axes"
    return make


def scatter_nd(size: int) -> Calls:
    """half of all rows of 16"""
    rows = _rows(size, 16)
    x, u = _floats(rows, 16), _floats(rows // 2, 16) + 1
    i = np.random.default_rng(3).permutation(rows)[: rows // 2, None]

    def numpy(x: Array, i: Array, u: Array) -> Array:
        y = x.copy()
        y[i[:, 0]] = u
        return y

    return Calls([x, i, u], dml.scatter_nd, numpy, lambda x, i, u: x.index_put((i[:, 0],), u), Node("ScatterND"))


def slice_grad(size: int) -> Calls:
    """every second row and column of zeros"""
    rows = _rows(size, 1024) // 2 * 2
    x = _floats(rows // 2, 512)

    def numpy(x: Array) -> Array:
        y = np.zeros((rows, 1024), np.float32)
        y[::2, ::2] = x
        return y

    def torch(x: Any) -> Any:
        y = x.new_zeros((rows, 1024))
        y[::2, ::2] = x
        return y

    return Calls([x], lambda x: dml.slice_grad(x, [rows, 1024], [0, 0], [rows, 1024], [2, 2]), numpy, torch)


def _images(size: int, channels: int) -> int:
    return max(2, math.isqrt(size // (4 * channels)) // 2 * 2)


def space_to_depth(size: int) -> Calls:
    """2 × 2 pixels to channels"""
    side = _images(size, 16)

    def numpy(x: Array) -> Array:
        apart = x.reshape(1, 16, side // 2, 2, side // 2, 2).transpose(0, 1, 3, 5, 2, 4)
        return np.ascontiguousarray(apart).reshape(1, 64, side // 2, side // 2)

    return Calls(
        [_floats(1, 16, side, side)],
        lambda x: dml.space_to_depth(x, 2, "column_row_depth"),
        numpy,
        lambda x: _torch().nn.functional.pixel_unshuffle(x, 2),
    )


def depth_to_space(size: int) -> Calls:
    """channels to 2 × 2 pixels"""
    side = _images(size, 16)

    def numpy(x: Array) -> Array:
        apart = x.reshape(1, 16, 2, 2, side // 2, side // 2).transpose(0, 1, 4, 2, 5, 3)
        return np.ascontiguousarray(apart).reshape(1, 16, side, side)

    return Calls(
        [_floats(1, 64, side // 2, side // 2)],
        lambda x: dml.depth_to_space(x, 2, "column_row_depth"),
        numpy,
        lambda x: _torch().nn.functional.pixel_shuffle(x, 2),
        Node("DepthToSpace", attributes={"blocksize": 2, "mode": "CRD"}),
    )


def diagonal_matrix(size: int) -> Calls:
    """the upper triangle"""
    side = math.isqrt(size // 4)
    lowest = -(2**31)
    return Calls(
        [_floats(side, side)],
        lambda x: dml.diagonal_matrix(x, 0, lowest, 0),
        np.triu,
        lambda x: x.triu(),
        Node("Trilu", attributes={"upper": 1}),
    )


def one_hot(size: int) -> Calls:
    """256 classes"""
    i, values = _integers(256, _rows(size, 256)), np.array([0, 1], np.float32)

    def numpy(i: Array, values: Array) -> Array:
        y = np.full((len(i), 256), values[0])
        y[np.arange(len(i)), i] = values[1]
        return y

    def torch(i: Any, values: Any) -> Any:
        return _torch().zeros((len(i), 256)).scatter_(1, i[:, None], 1.0)

    return Calls(
        [i, values],
        lambda i, v: dml.one_hot(i, v, 256),
        numpy,
        torch,
        Node("OneHot", [np.array([256])], {}, (0, -1, 1)),
    )


def _where(kind: str) -> Callable[[int], Calls]:
    def make(size: int) -> Calls:
        rows = _rows(size, 256)
        condition = np.random.default_rng(4).random((rows, 256)) < 0.5
        if kind == "rows":
            condition = np.ascontiguousarray(condition[:, :1])
        x, y = _floats(rows, 256), _floats(rows, 256) + 1
        return Calls([condition, x, y], dml.where, np.where, lambda c, x, y: _torch().where(c, x, y), Node("Where"))

    make.__doc__ = f"a random condition for each of the {kind}"
    return make


def reverse_subsequences(size: int) -> Calls:
    """rows of 256, turned to random lengths"""
    rows = _rows(size, 256)
    x, lengths = _floats(rows, 256), _integers(257, rows, 1)

    def numpy(x: Array, lengths: Array) -> Array:
        k = np.arange(256)
        return np.take_along_axis(x, np.where(k < lengths, lengths - 1 - k, k), 1)

    def torch(x: Any, lengths: Any) -> Any:
        k = _torch().arange(256)
        return x.gather(1, _torch().where(k < lengths, lengths - 1 - k, k))

    return Calls([x, lengths], dml.reverse_subsequences, numpy, torch)


def fill(size: int) -> Calls:
    """one value"""
    x = _floats(size // 4)
    return Calls([x], lambda x: dml.fill(x, 7), lambda x: np.full_like(x, 7), lambda x: _torch().full_like(x, 7))


def sequence(size: int) -> Calls:
    """0, 2, 4 …"""
    x = np.empty(size // 8, np.int64)
    return Calls(
        [x],
        lambda x: dml.sequence(x, 0, 2),
        lambda x: np.arange(0, 2 * len(x), 2),
        lambda x: _torch().arange(0, 2 * len(x), 2),
    )


def nonzero_coordinates(size: int) -> Calls:
    """half of all elements"""
    x = np.random.default_rng(4).integers(0, 2, (_rows(size, 64) // 4, 64)).astype(np.float32)
    return Calls([x], dml.nonzero_coordinates, np.argwhere, lambda x: x.nonzero())


def repeat(size: int) -> Calls:
    """each element of the last axis 3 times"""
    x = _floats(_rows(size, 768), 256)
    return Calls(
        [x],
        lambda x: dml.repeat(x, 3, 1),
        lambda x: np.repeat(x, 3, 1),
        lambda x: x.repeat_interleave(3, 1),
    )


def upsample(size: int) -> Calls:
    """images of twice the sides"""
    side = _images(size, 16) // 2
    return Calls(
        [_floats(1, 16, side, side)],
        lambda x: dml.upsample(x, [1, 1, 2, 2]),
        lambda x: x.repeat(2, 2).repeat(2, 3),
        lambda x: _torch().nn.functional.interpolate(x, scale_factor=2, mode="nearest"),
        Node(
            "Resize",
            [np.array([], np.float32), np.array([1, 1, 2, 2], np.float32)],
            {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
        ),
    )


def unfold(size: int) -> Calls:
    """3 × 3 windows, padded by 1"""
    side = max(4, math.isqrt(size // (4 * 9 * 16)))
    view = np.lib.stride_tricks.sliding_window_view

    def numpy(x: Array) -> Array:
        around = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
        columns = view(around, (3, 3), (2, 3)).transpose(0, 1, 4, 5, 2, 3)
        return np.ascontiguousarray(columns).reshape(1, 16 * 9, side * side)

    return Calls(
        [_floats(1, 16, side, side)],
        lambda x: dml.unfold(x, [3, 3], pads=[1, 1, 1, 1]),
        numpy,
        lambda x: _torch().nn.functional.unfold(x, 3, padding=1),
    )


def permute_dims(size: int) -> Calls:
    """(b, s, h, 64) to (b, h, s, 64)"""
    x = _floats(1, _rows(size, 512), 8, 64)
    order = (0, 2, 1, 3)
    return Calls(
        [x],
        lambda x: dml.permute_dims(x, order),
        lambda x: x.transpose(order).copy(),
        lambda x: x.permute(order).contiguous(),
        Node("Transpose", attributes={"perm": order}),
    )


def flip(size: int) -> Calls:
    """both axes"""
    x = _floats(_rows(size, 1024), 1024)
    return Calls([x], dml.flip, lambda x: np.flip(x).copy(), lambda x: x.flip(0, 1))


def roll(size: int) -> Calls:
    """both axes"""
    x = _floats(_rows(size, 1024), 1024)
    return Calls(
        [x],
        lambda x: dml.roll(x, [5, 7], [0, 1]),
        lambda x: np.roll(x, (5, 7), (0, 1)),
        lambda x: x.roll((5, 7), (0, 1)),
    )


def broadcast_to(size: int) -> Calls:
    """a row to many"""
    shape = (_rows(size, 1024), 1024)
    return Calls(
        [_floats(1024)],
        lambda x: dml.broadcast_to(x, shape),
        lambda x: np.broadcast_to(x, shape).copy(),
        lambda x: x.expand(shape).contiguous(),
        Node("Expand", [np.array(shape)]),
    )


def stack(size: int) -> Calls:
    """four arrays as the last axis"""
    arrays = [_floats(size // 16) for _ in range(4)]
    return Calls(
        arrays,
        lambda *each: dml.stack(each, 1),
        lambda *each: np.stack(each, 1),
        lambda *each: _torch().stack(each, 1),
    )


def copy(size: int) -> Calls:
    """a transposed square"""
    side = math.isqrt(size // 4)
    return Calls(
        [_floats(side, side)],
        lambda x: dml.copy(x.T),
        lambda x: x.T.copy(),
        lambda x: x.T.contiguous(),
        Node("Transpose", attributes={"perm": (1, 0)}),
    )


def _torch() -> Any:
    import torch

    return torch


CASES: dict[str, Callable[[int], Calls]] = {
    "split": split,
    "join": join,
    "slice": slice_,
    "slice1": slice1,
    "gather": gather,
    "tile": tile,
    **{f"pad {mode}": _pad(mode) for mode in ("constant", "edge", "reflect", "symmetric")},
    "gather_elements last": _along(1),
    "gather_elements first": _along(0),
    "gather_nd": gather_nd,
    "scatter last": _scatter(1),
    "scatter first": _scatter(0),
    "scatter_nd": scatter_nd,
    "slice_grad": slice_grad,
    "space_to_depth": space_to_depth,
    "depth_to_space": depth_to_space,
    "diagonal_matrix": diagonal_matrix,
    "one_hot": one_hot,
    "where": _where("elements"),
    "where rows": _where("rows"),
    "reverse_subsequences": reverse_subsequences,
    "fill": fill,
    "sequence": sequence,
    "nonzero_coordinates": nonzero_coordinates,
    "repeat": repeat,
    "upsample": upsample,
    "unfold": unfold,
    "permute_dims": permute_dims,
    "flip": flip,
    "roll": roll,
    "broadcast_to": broadcast_to,
    "stack": stack,
    "copy": copy,
}
"""By the function's name, and what tells several of its cases apart: bytes of the results, about, to the calls."""

SAME_AS = {"split_training": "split", "concat_training": "join"}
"""Functions that move what another one does."""
