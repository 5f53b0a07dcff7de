"""The cases of the grid of sizes: what programs move all day, from 256 bytes to 64 MiB, and who else can do it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import anydml as dml

Array = np.ndarray[Any, Any]
Run = Callable[[], object]

WAYS = ("bound", "out", "new", "tensor", "ops")
"""A bound dispatch; a function with `out`; one with new results; one on PyTorch's tensors, with new results; the
operator in PyTorch's registry."""


@dataclass
class SizeWork:
    """One case at one size.

    Attributes:
        bytes: read and written.
        outputs: that all runs of the ways ``"bound"`` and ``"out"`` write to.
        expected: what must be in them.
        runs: by way, then by name; ours is ``"anydml"``.
    """

    bytes: int
    outputs: list[Array]
    expected: list[Array]
    runs: dict[str, dict[str, Run]] = field(default_factory=dict)


class _Maker:
    """Runs of ours and of all peers for a function on views."""

    def __init__(self, inputs: Sequence[Array], views: Sequence[Array], read: int) -> None:
        self.inputs = inputs
        self.expected = [np.ascontiguousarray(view) for view in views]
        self.outputs = [np.zeros_like(view) for view in self.expected]
        written = sum(output.nbytes for output in self.outputs)
        self.work = SizeWork(read + written, self.outputs, self.expected)

    def ours(self, desc: dml.OperatorDesc, call: Callable[..., Any], *arguments: Any, parts: bool = False) -> None:
        """The desc is bound to the inputs and outputs; the function is called with the inputs and these arguments."""
        out = self.outputs if parts else self.outputs[0]
        bound = dml.Device("cpu").compile_operator(desc).bind(inputs=self.inputs, outputs=self.outputs)
        runs = self.work.runs
        runs["bound"] = {"anydml": bound.dispatch}
        runs["out"] = {"anydml": partial(call, *arguments, out=out)}
        runs["new"] = {"anydml": partial(call, *arguments)}

    def numpy(self, out: Run, new: Run) -> None:
        """NumPy's ways: into the outputs, and with new results."""
        self._peer("numpy", out, new)

    def torch(self, out: Run, new: Run, ours: Run, registered: Run | None = None) -> None:
        """PyTorch's, ours on its tensors, and ours in its registry, where there is one."""
        self._peer("torch", out, new)
        self.work.runs["tensor"] = {"anydml": ours, "torch": new}
        if registered is not None:
            self.work.runs["ops"] = {"anydml": registered, "torch": new}

    def _peer(self, name: str, out: Run, new: Run) -> None:
        for way, run in (("bound", out), ("out", out), ("new", new)):
            self.work.runs[way][name] = run


def _torch() -> Any:
    try:
        import torch

        import anydml.torch  # noqa: F401  # registers the operators
    except ImportError:
        return None
    return torch


def _tensor(shape: Sequence[int], kind: str = "FLOAT32") -> dml.TensorDesc:
    return dml.TensorDesc(kind, shape)


def _filled(*shape: int) -> Array:
    return np.random.default_rng(1).random(shape, np.float32)


def _split(x: Array, parts: int) -> SizeWork:
    """Equal parts along the last axis."""
    width = x.shape[1] // parts
    views = [x[:, k * width : (k + 1) * width] for k in range(parts)]
    maker = _Maker([x], views, x.nbytes)
    kind = "UINT8" if x.dtype == np.uint8 else "FLOAT32"
    desc = dml.SplitOperatorDesc(_tensor(x.shape, kind), [_tensor(view.shape, kind) for view in views], 1)
    maker.ours(desc, dml.split, x, parts, 1, parts=True)
    outputs = maker.outputs

    def copies() -> None:
        for output, view in zip(outputs, views, strict=True):
            np.copyto(output, view)

    maker.numpy(copies, lambda: [view.copy() for view in views])
    if torch := _torch():
        tensor, targets, sizes = torch.from_numpy(x), [torch.from_numpy(output) for output in outputs], [width] * parts
        split = partial(torch.split_with_sizes_copy, tensor, sizes, 1)
        registered = partial(torch.ops.anydml.split, tensor, sizes, 1)
        maker.torch(partial(split, out=targets), split, partial(dml.split, tensor, parts, 1), registered)
    return maker.work


def _view(x: Array, view: Array, desc: dml.OperatorDesc, call: Callable[..., Any], *arguments: Any) -> SizeWork:
    """A window or a permuted view of an array; `call` takes x and these arguments."""
    is_copy = call is dml.copy
    maker = _Maker([view if is_copy else x], [view], view.nbytes)
    maker.ours(desc, call, view if is_copy else x, *arguments)
    output = maker.outputs[0]
    maker.numpy(partial(np.copyto, output, view), view.copy)
    if torch := _torch():
        tensor, target = torch.from_numpy(x), torch.from_numpy(output)
        if is_copy:
            order = np.argsort(np.argsort([-stride for stride in view.strides], kind="stable"), kind="stable")
            seen = tensor.permute([int(d) for d in order])
            assert tuple(seen.shape) == view.shape
            new = partial(seen.clone, memory_format=torch.contiguous_format)
            maker.torch(partial(target.copy_, seen), new, partial(dml.copy, seen))
        else:
            own, registered = partial(call, tensor, *arguments), partial(torch.ops.anydml.slice1, tensor, *arguments)
            if view.strides[-1] < 0:
                maker.torch(lambda: target.copy_(tensor.flip(1)), partial(tensor.flip, 1), own, registered)
            else:
                (start, *_), side = arguments[0][1:], view.shape[1]
                seen = tensor[:, start : start + side, start : start + side]
                new = partial(seen.clone, memory_format=torch.contiguous_format)
                maker.torch(partial(target.copy_, seen), new, own, registered)
    return maker.work


def z1(size: int) -> SizeWork:
    """Split rows of 768 into 3×256."""
    columns = min(768, size // 12 * 3)
    return _split(_filled(max(1, size // (4 * columns)), columns), 3)


def z2(size: int) -> SizeWork:
    """Reverse the last axis of (·, 1024)."""
    columns = min(1024, size // 4)
    x = _filled(max(1, size // (4 * columns)), columns)
    window = (0, 0), x.shape, (1, -1)
    desc = dml.Slice1OperatorDesc(_tensor(x.shape), _tensor(x.shape), *window)
    return _view(x, x[:, ::-1], desc, dml.slice1, *window)


def z3(size: int) -> SizeWork:
    """Crop (·, 64, 64) to its middle 48×48."""
    side = 64 if size >= 4 * 64 * 64 else math.isqrt(size // 4) // 8 * 8
    x = _filled(max(1, size // (4 * side * side)), side, side)
    start, left = side // 8, side - side // 4
    window = (0, start, start), (len(x), left, left), (1, 1, 1)
    view = x[:, start : start + left, start : start + left]
    desc = dml.Slice1OperatorDesc(_tensor(x.shape), _tensor(view.shape), *window)
    return _view(x, view, desc, dml.slice1, *window)


def z4(size: int) -> SizeWork:
    """Gather rows of 768 out of 30,000 by random INT64."""
    columns = min(768, size // 4)
    x, count = _filled(30_000, columns), max(1, size // (4 * columns))
    indices = np.random.default_rng(2).integers(0, len(x), count)
    maker = _Maker([x, indices.reshape(1, -1)], [x[indices]], size + indices.nbytes)
    output = maker.outputs[0]
    desc = dml.GatherOperatorDesc(_tensor(x.shape), _tensor((1, count), "INT64"), _tensor(output.shape), 0, 1)
    maker.ours(desc, dml.gather, x, indices)
    maker.numpy(partial(np.take, x, indices, 0, out=output, mode="clip"), partial(np.take, x, indices, 0, mode="clip"))
    if torch := _torch():
        tensor, places, target = map(torch.from_numpy, (x, indices, output))
        select = partial(torch.index_select, tensor, 0, places)
        registered = partial(torch.ops.anydml.gather, tensor, places)
        maker.torch(partial(select, out=target), select, partial(dml.gather, tensor, places), registered)
    return maker.work


def z5(size: int) -> SizeWork:
    """Join 4 × (·, 256) along axis 1."""
    columns = min(256, size // 16)
    parts = [_filled(max(1, size // (16 * columns)), columns) for _ in range(4)]
    maker = _Maker(parts, [np.concatenate(parts, 1)], size)
    output = maker.outputs[0]
    desc = dml.JoinOperatorDesc([_tensor(part.shape) for part in parts], _tensor(output.shape), 1)
    maker.ours(desc, dml.join, parts, 1)
    maker.numpy(partial(np.concatenate, parts, 1, out=output), partial(np.concatenate, parts, 1))
    if torch := _torch():
        tensors, target = [torch.from_numpy(part) for part in parts], torch.from_numpy(output)
        joined, registered = partial(torch.cat, tensors, 1), partial(torch.ops.anydml.join, tensors, 1)
        maker.torch(partial(joined, out=target), joined, partial(dml.join, tensors, 1), registered)
    return maker.work


def z6(size: int) -> SizeWork:
    """Split uint8 (·, 3) into planes."""
    return _split(np.random.default_rng(1).integers(0, 255, (size // 3, 3), np.uint8), 3)


def _permuted(x: Array, order: Sequence[int]) -> SizeWork:
    view = x.transpose(order)
    return _view(x, view, dml.ElementWiseIdentityOperatorDesc(_tensor(view.shape), _tensor(view.shape)), dml.copy)


def z7(size: int) -> SizeWork:
    """Copy of a transposed square."""
    side = math.isqrt(size // 4)
    return _permuted(_filled(side, side), (1, 0))


def z8(size: int) -> SizeWork:
    """Copy of NHWC as NCHW, 64 channels, 28×28."""
    width = max(2, min(28, math.isqrt(size // 256)))
    channels = 64 if size >= 1024 else 16
    images = max(1, size // (4 * channels * width * width))
    return _permuted(_filled(images, width, width, channels), (0, 3, 1, 2))


def z9(size: int) -> SizeWork:
    """Copy of (b, s, h, 64) as (b, h, s, 64)."""
    width, heads = (64, 8) if size >= 4096 else (8, 2)
    rows = max(2, size // (4 * width * heads))
    batch = 8 if rows >= 1024 else 1
    return _permuted(_filled(batch, rows // batch, heads, width), (0, 2, 1, 3))


def z10(size: int) -> SizeWork:
    """Copy of a transposed rectangle of odd sides."""
    height = math.isqrt(size // 2) | 1
    return _permuted(_filled(height, size // 4 // height | 1), (1, 0))


CASES: dict[str, Callable[[int], SizeWork]] = {
    "Z1": z1, "Z2": z2, "Z3": z3, "Z4": z4, "Z5": z5, "Z6": z6, "Z7": z7, "Z8": z8, "Z9": z9, "Z10": z10
}  # fmt: skip
"""Works by the bytes of their input; a case's docstring is its description."""

KIB, MIB = 1 << 10, 1 << 20
SIZES = (256, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 64 * MIB)
