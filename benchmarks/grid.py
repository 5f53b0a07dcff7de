"""The cases that speed is judged on: what is moved, as data. Engines and peers are made from it elsewhere.

Sizes are decimal (16M is 16,000,000); elements are float32 unless said. The GPU's grid is the same list with the first
dimension times 8.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

K, M = 1000, 1_000_000

Kind = Literal["split", "join", "slice1", "gather"]


@dataclass(frozen=True)
class Case:
    """One line of the grid.

    Attributes:
        name: ``"S2"``.
        kind: the operator.
        shape: of the input (of the output, for joins).
        about: what a person would say it is.
        dtype: of the elements.
        axis: of splits, joins and gathers.
        parts: sizes along the axis, of splits and joins.
        window: offsets, sizes and strides, of slices.
        indices: shape of the index array, of gathers.
        order: how indices are drawn: random, a permutation, sorted, or random with half of them negative.
        index_dtype: of the indices.
        fresh: new sizes on every call (SplitTraining).
        runtime: sizes are data (SplitTraining).
    """

    name: str
    kind: Kind
    shape: tuple[int, ...]
    about: str
    dtype: str = "float32"
    axis: int = 0
    parts: tuple[int, ...] = ()
    window: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] = ((), (), ())
    indices: tuple[int, ...] = ()
    order: Literal["random", "permutation", "sorted", "signed"] = "random"
    index_dtype: str = "int64"
    fresh: bool = False
    runtime: bool = False

    @property
    def output_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the results."""
        before, after = self.shape[: self.axis], self.shape[self.axis + 1 :]
        if self.kind == "split":
            return [(*before, part, *after) for part in self.parts]
        if self.kind == "gather":
            return [(*before, *self.indices, *after)]
        if self.kind == "slice1":
            _, sizes, strides = self.window
            return [tuple(1 + (size - 1) // abs(stride) for size, stride in zip(sizes, strides, strict=True))]
        return [self.shape]

    @property
    def bytes(self) -> int:
        """Bytes that must be read and bytes that must be written."""
        written = sum(int(np.prod(shape)) for shape in self.output_shapes) * np.dtype(self.dtype).itemsize
        indices = int(np.prod(self.indices)) * np.dtype(self.index_dtype).itemsize if self.kind == "gather" else 0
        return 2 * written + indices

    @property
    def window_slices(self) -> tuple[slice, ...]:
        """The window as Python slices."""
        slices = []
        for offset, size, stride in zip(*self.window, strict=True):
            end = offset + size
            if stride > 0:
                slices.append(slice(offset, end, stride))
            else:
                slices.append(slice(end - 1, offset - 1 if offset else None, stride))
        return tuple(slices)

    def smaller(self, factor: int) -> Case:
        """The same work with its first dimension divided, for a quick look."""
        from dataclasses import replace

        if self.kind == "gather" and self.axis == 0:
            return replace(self, indices=(max(1, self.indices[0] // factor), *self.indices[1:]))
        shape = (max(1, self.shape[0] // factor), *self.shape[1:])
        if self.axis == 0 and self.kind in ("split", "join"):
            return self
        offsets, sizes, strides = self.window
        return replace(self, shape=shape, window=(offsets, (shape[0], *sizes[1:]), strides) if sizes else self.window)

    def draw_indices(self, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        """Indices as the case wants them."""
        size = self.shape[self.axis]
        if self.order == "permutation":
            values = rng.permutation(size)
        else:
            values = rng.integers(-size if self.order == "signed" else 0, size, self.indices)
        if self.order == "sorted":
            values = np.sort(values)
        return values.astype(self.index_dtype).reshape(self.indices)


def _whole(shape: tuple[int, ...], *strides: int) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return (0,) * len(shape), shape, strides


def _uneven(total: int, count: int) -> tuple[int, ...]:
    cuts = np.sort(np.random.default_rng(7).choice(np.arange(1, total), count - 1, replace=False))
    return tuple(np.diff(np.concatenate(([0], cuts, [total]))).tolist())


GRID: tuple[Case, ...] = (
    Case("S1", "split", (64, M), "axis 0 into 4", parts=(16,) * 4),
    Case("S2", "split", (16384, 3072), "axis 1 into 3×1024 (QKV)", axis=1, parts=(1024,) * 3),
    Case("S3", "split", (16384, 6144), "axis 1 into 4096, 1024, 1024", axis=1, parts=(4096, 1024, 1024)),
    Case("S4", "split", (16 * M, 3), "colour planes", axis=1, parts=(1,) * 3),
    Case("S5", "split", (4 * M, 12), "axis 1 into 3×4", axis=1, parts=(4,) * 3),
    Case("S6", "split", (4096, 65536), "axis 1 into 1024×64", axis=1, parts=(64,) * 1024),
    Case("S7", "split", (64, 1080, 1920, 3), "uint8 colour planes", dtype="uint8", axis=3, parts=(1,) * 3),
    Case("S8", "split", (8 * M, 6), "axis 1 into 2, 1, 3", axis=1, parts=(2, 1, 3)),
    Case("J1", "join", (16384, 3072), "S2 backwards", axis=1, parts=(1024,) * 3),
    Case("J2", "join", (16 * M, 3), "S4 backwards", axis=1, parts=(1,) * 3),
    Case(
        "L1",
        "slice1",
        (64, 3, 512, 512),
        "crop to the middle 384×384",
        window=((0, 0, 64, 64), (64, 3, 384, 384), (1,) * 4),
    ),
    Case("L2", "slice1", (4096, 8192), "reverse the last axis", window=_whole((4096, 8192), 1, -1)),
    Case("L3", "slice1", (4096, 8192), "every second of the last axis", window=_whole((4096, 8192), 1, 2)),
    Case("L4", "slice1", (4096, 8192), "reverse axis 0", window=_whole((4096, 8192), -1, 1)),
    Case(
        "L5",
        "slice1",
        (64, 512, 512, 3),
        "mirror uint8 pictures",
        dtype="uint8",
        window=_whole((64, 512, 512, 3), 1, 1, -1, 1),
    ),
    Case("L6", "slice1", (4096, 16384), "float16, stride 4", dtype="float16", window=_whole((4096, 16384), 1, 4)),
    Case("G1", "gather", (500 * K, 64), "1M random rows of 256 B", indices=(M,)),
    Case("G2", "gather", (50 * K, 4096), "16k random rows of 8 KiB, float16", dtype="float16", indices=(16 * K,)),
    Case("G3", "gather", (20 * M,), "10M random scalars", indices=(10 * M,)),
    Case("G4", "gather", (4096, 4096), "permute axis 1", axis=1, indices=(4096,), order="permutation"),
    Case(
        "G5",
        "gather",
        (256, 4096, 32),
        "axis 1 by int32 (64, 64), half negative",
        axis=1,
        indices=(64, 64),
        order="signed",
        index_dtype="int32",
    ),
    Case("G6", "gather", (500 * K, 64), "1M sorted rows of 256 B", indices=(M,), order="sorted"),
    Case("T1", "split", (16384, 3072), "SplitTraining, new sizes on every call", axis=1, parts=(1024,) * 3, fresh=True),
    Case("T2", "split", (8, M), "SplitTraining into 1024 unequal parts", axis=1, parts=_uneven(M, 1024), runtime=True),
)
