"""The cases of the family's benchmark: what each function is called with, and how NumPy, PyTorch and ONNX write it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import anydml as dml
from benchmarks import family_making
from benchmarks.family_calls import Array, Calls, Node, floats, integers, rows_of, torch_module


def split(size: int) -> Calls:
    """rows of 768 into 3 × 256"""
    x = floats(rows_of(size, 768), 768)
    return Calls(
        [x],
        lambda x: dml.split(x, 3, 1),
        lambda x: [part.copy() for part in np.split(x, 3, 1)],
        lambda x: torch_module().split_with_sizes_copy(x, [256] * 3, 1),
        Node("Split", [np.array([256] * 3)], {"axis": 1}, outputs=3),
    )


def join(size: int) -> Calls:
    """four arrays along the last axis"""
    arrays = [floats(rows_of(size, 1024), 256) for _ in range(4)]
    return Calls(
        arrays,
        lambda *each: dml.join(each, 1),
        lambda *each: np.concatenate(each, 1),
        lambda *each: torch_module().cat(each, 1),
        Node("Concat", attributes={"axis": 1}),
    )


def slice_(size: int) -> Calls:
    """every second column"""
    x = floats(rows_of(size, 512), 1024)
    return Calls(
        [x],
        lambda x: dml.slice(x, [0, 0], [len(x), 512], [1, 2]),
        lambda x: x[:, ::2].copy(),
        lambda x: x[:, ::2].contiguous(),
        Node("Slice", [np.array([0]), np.array([1024]), np.array([1]), np.array([2])]),
    )


def slice1(size: int) -> Calls:
    """a window, its last axis backwards"""
    x = floats(rows_of(size, 512), 640)
    return Calls(
        [x],
        lambda x: dml.slice1(x, [0, 64], [len(x), 512], [1, -1]),
        lambda x: x[:, 64:576][:, ::-1].copy(),
        lambda x: x[:, 64:576].flip(1),
        Node("Slice", [np.array([575]), np.array([63]), np.array([1]), np.array([-1])]),
    )


def gather(size: int) -> Calls:
    """rows of 64 by random indices"""
    x, i = floats(30_000, 64), integers(30_000, rows_of(size, 64))
    return Calls([x, i], dml.gather, lambda x, i: x[i], lambda x, i: x.index_select(0, i), Node("Gather"))


def tile(size: int) -> Calls:
    """2 × 3 times"""
    x = floats(rows_of(size // 6, 192), 192)
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
        x, name = floats(1, 16, side, side), {"edge": "replicate", "reflect": "reflect"}.get(mode, mode)

        def ours(x: Array) -> Array:
            return dml.pad(x, [0, 0, 1, 1, 0, 0, 1, 1], mode)

        return Calls(
            [x],
            ours,
            lambda x: np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)], mode),
            None if mode == "symmetric" else lambda x: torch_module().nn.functional.pad(x, (1, 1, 1, 1), name),
            None if mode == "symmetric" else Node("Pad", [np.array([0, 0, 1, 1] * 2)], {"mode": mode}),
        )

    make.__doc__ = f"one pixel around images, {mode}"
    return make


def _along(axis: int) -> Callable[[int], Calls]:
    def make(size: int) -> Calls:
        rows = rows_of(size, 256)
        x, i = floats(rows, 256), integers(256 if axis else rows, rows, 256)
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
    x, i = floats(256, 256, 16), integers(256, rows_of(size, 16), 2)
    return Calls(
        [x, i],
        dml.gather_nd,
        lambda x, i: x[i[:, 0], i[:, 1]],
        lambda x, i: x[i[:, 0], i[:, 1]],
        Node("GatherND"),
    )


def _scatter(axis: int) -> Callable[[int], Calls]:
    def make(size: int) -> Calls:
        rows, rng = rows_of(size, 256), np.random.default_rng(3)
        x, u = floats(rows, 256), floats(rows // 4, 256) + 1
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
    rows = rows_of(size, 16)
    x, u = floats(rows, 16), floats(rows // 2, 16) + 1
    i = np.random.default_rng(3).permutation(rows)[: rows // 2, None]

    def numpy(x: Array, i: Array, u: Array) -> Array:
        y = x.copy()
        y[i[:, 0]] = u
        return y

    return Calls([x, i, u], dml.scatter_nd, numpy, lambda x, i, u: x.index_put((i[:, 0],), u), Node("ScatterND"))


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
    "slice_grad": family_making.slice_grad,
    "space_to_depth": family_making.space_to_depth,
    "depth_to_space": family_making.depth_to_space,
    "diagonal_matrix": family_making.diagonal_matrix,
    "one_hot": family_making.one_hot,
    "where": family_making.where("elements"),
    "where rows": family_making.where("rows"),
    "reverse_subsequences": family_making.reverse_subsequences,
    "fill": family_making.fill,
    "sequence": family_making.sequence,
    "nonzero_coordinates": family_making.nonzero_coordinates,
    "repeat": family_making.repeat,
    "upsample": family_making.upsample,
    "unfold": family_making.unfold,
    "permute_dims": family_making.permute_dims,
    "flip": family_making.flip,
    "roll": family_making.roll,
    "tril": family_making.triangle("tril"),
    "triu": family_making.triangle("triu"),
    "broadcast_to": family_making.broadcast_to,
    "stack": family_making.stack,
    "copy": family_making.copy,
    "copy channels": family_making.channels,
}
"""By the function's name, and what tells several of its cases apart: bytes of the results, about, to the calls."""

SAME_AS = {"split_training": "split", "concat_training": "join"}
"""Functions that move what another one does."""
