"""Cases of the family's benchmark that lay out, fill, choose or reorder what they are given."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import anydml as dml
from benchmarks.family_calls import Array, Calls, Node, floats, integers, rows_of, torch_module


def slice_grad(size: int) -> Calls:
    """every second row and column of zeros"""
    rows = rows_of(size, 1024) // 2 * 2
    x = floats(rows // 2, 512)

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
        [floats(1, 16, side, side)],
        lambda x: dml.space_to_depth(x, 2, "column_row_depth"),
        numpy,
        lambda x: torch_module().nn.functional.pixel_unshuffle(x, 2),
    )


def depth_to_space(size: int) -> Calls:
    """channels to 2 × 2 pixels"""
    side = _images(size, 16)

    def numpy(x: Array) -> Array:
        apart = x.reshape(1, 16, 2, 2, side // 2, side // 2).transpose(0, 1, 4, 2, 5, 3)
        return np.ascontiguousarray(apart).reshape(1, 16, side, side)

    return Calls(
        [floats(1, 64, side // 2, side // 2)],
        lambda x: dml.depth_to_space(x, 2, "column_row_depth"),
        numpy,
        lambda x: torch_module().nn.functional.pixel_shuffle(x, 2),
        Node("DepthToSpace", attributes={"blocksize": 2, "mode": "CRD"}),
    )


def diagonal_matrix(size: int) -> Calls:
    """the upper triangle"""
    side = math.isqrt(size // 4)
    lowest = -(2**31)
    return Calls(
        [floats(side, side)],
        lambda x: dml.diagonal_matrix(x, 0, lowest, 0),
        np.triu,
        lambda x: x.triu(),
        Node("Trilu", attributes={"upper": 1}),
    )


def one_hot(size: int) -> Calls:
    """256 classes"""
    i, values = integers(256, rows_of(size, 256)), np.array([0, 1], np.float32)

    def numpy(i: Array, values: Array) -> Array:
        y = np.full((len(i), 256), values[0])
        y[np.arange(len(i)), i] = values[1]
        return y

    def torch(i: Any, values: Any) -> Any:
        return torch_module().zeros((len(i), 256)).scatter_(1, i[:, None], 1.0)

    return Calls(
        [i, values],
        lambda i, v: dml.one_hot(i, v, 256),
        numpy,
        torch,
        Node("OneHot", [np.array([256])], {}, (0, -1, 1)),
    )


def where(kind: str) -> Callable[[int], Calls]:
    """A case by what the condition is of: elements, or rows."""

    def make(size: int) -> Calls:
        rows = rows_of(size, 256)
        condition = np.random.default_rng(4).random((rows, 256)) < 0.5
        if kind == "rows":
            condition = np.ascontiguousarray(condition[:, :1])
        x, y = floats(rows, 256), floats(rows, 256) + 1
        return Calls(
            [condition, x, y], dml.where, np.where, lambda c, x, y: torch_module().where(c, x, y), Node("Where")
        )

    make.__doc__ = f"a random condition for each of the {kind}"
    return make


def reverse_subsequences(size: int) -> Calls:
    """rows of 256, turned to random lengths"""
    rows = rows_of(size, 256)
    x, lengths = floats(rows, 256), integers(257, rows, 1)

    def numpy(x: Array, lengths: Array) -> Array:
        k = np.arange(256)
        return np.take_along_axis(x, np.where(k < lengths, lengths - 1 - k, k), 1)

    def torch(x: Any, lengths: Any) -> Any:
        k = torch_module().arange(256)
        return x.gather(1, torch_module().where(k < lengths, lengths - 1 - k, k))

    return Calls([x, lengths], dml.reverse_subsequences, numpy, torch)


def fill(size: int) -> Calls:
    """one value"""
    x = floats(size // 4)
    return Calls([x], lambda x: dml.fill(x, 7), lambda x: np.full_like(x, 7), lambda x: torch_module().full_like(x, 7))


def sequence(size: int) -> Calls:
    """0, 2, 4 …"""
    x = np.empty(size // 8, np.int64)
    return Calls(
        [x],
        lambda x: dml.sequence(x, 0, 2),
        lambda x: np.arange(0, 2 * len(x), 2),
        lambda x: torch_module().arange(0, 2 * len(x), 2),
    )


def nonzero_coordinates(size: int) -> Calls:
    """half of all elements"""
    x = np.random.default_rng(4).integers(0, 2, (rows_of(size, 64) // 4, 64)).astype(np.float32)
    return Calls([x], dml.nonzero_coordinates, np.argwhere, lambda x: x.nonzero())


def repeat(size: int) -> Calls:
    """each element of the last axis 3 times"""
    x = floats(rows_of(size, 768), 256)
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
        [floats(1, 16, side, side)],
        lambda x: dml.upsample(x, [1, 1, 2, 2]),
        lambda x: x.repeat(2, 2).repeat(2, 3),
        lambda x: torch_module().nn.functional.interpolate(x, scale_factor=2, mode="nearest"),
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
        [floats(1, 16, side, side)],
        lambda x: dml.unfold(x, [3, 3], pads=[1, 1, 1, 1]),
        numpy,
        lambda x: torch_module().nn.functional.unfold(x, 3, padding=1),
    )


def permute_dims(size: int) -> Calls:
    """(b, s, h, 64) to (b, h, s, 64)"""
    x = floats(1, rows_of(size, 512), 8, 64)
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
    x = floats(rows_of(size, 1024), 1024)
    return Calls([x], dml.flip, lambda x: np.flip(x).copy(), lambda x: x.flip(0, 1))


def roll(size: int) -> Calls:
    """both axes"""
    x = floats(rows_of(size, 1024), 1024)
    return Calls(
        [x],
        lambda x: dml.roll(x, [5, 7], [0, 1]),
        lambda x: np.roll(x, (5, 7), (0, 1)),
        lambda x: x.roll((5, 7), (0, 1)),
    )


def triangle(which: str) -> Callable[[int], Calls]:
    """Return the case of the lower or the upper triangle."""

    def case(size: int) -> Calls:
        """a square"""
        side = math.isqrt(max(4, size // 4))
        return Calls(
            [floats(side, side)],
            getattr(dml, which),
            getattr(np, which),
            lambda x: getattr(x, which)(),
            Node("Trilu", attributes={"upper": int(which == "triu")}),
        )

    return case


def broadcast_to(size: int) -> Calls:
    """a row to many"""
    shape = (rows_of(size, 1024), 1024)
    return Calls(
        [floats(1024)],
        lambda x: dml.broadcast_to(x, shape),
        lambda x: np.broadcast_to(x, shape).copy(),
        lambda x: x.expand(shape).contiguous(),
        Node("Expand", [np.array(shape)]),
    )


def stack(size: int) -> Calls:
    """four arrays as the last axis"""
    arrays = [floats(size // 16) for _ in range(4)]
    return Calls(
        arrays,
        lambda *each: dml.stack(each, 1),
        lambda *each: np.stack(each, 1),
        lambda *each: torch_module().stack(each, 1),
    )


def copy(size: int) -> Calls:
    """a transposed square"""
    side = math.isqrt(size // 4)
    return Calls(
        [floats(side, side)],
        lambda x: dml.copy(x.T),
        lambda x: x.T.copy(),
        lambda x: x.T.contiguous(),
        Node("Transpose", attributes={"perm": (1, 0)}),
    )


def channels(size: int) -> Calls:
    """pictures of bytes, RGB to BGR"""
    side = math.isqrt(size // 3)
    return Calls(
        [integers(256, side, side, 3).astype(np.uint8)],
        lambda x: dml.copy(x[..., ::-1]),
        lambda x: x[..., ::-1].copy(),
        lambda x: x.flip(-1),
    )
