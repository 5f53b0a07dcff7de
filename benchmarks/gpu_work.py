"""A case of the grid on a device: inputs, our ways and PyTorch's, each checked against what PyTorch's views say.

Every way has several sets of inputs and outputs, and takes the next on every call, so that no cache holds them.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

import anydml as dml
from anydml.memory.device_array import as_array
from benchmarks.grid import Case

Run = Callable[[int], object]
"""A way: does the case's work on the set with this number."""

DEVICE = "cuda"
"""Where PyTorch's tensors lie; tests without a GPU say ``"cpu"``, where kernels are interpreted."""

SPLITS = 512
"""Different splits that a case with new sizes on every call goes through: more than are remembered."""

WARM = 64
"""Of these, how many are done before any is timed: their kernels, of which there are few, are compiled then."""


def scaled(case: Case, factor: int) -> Case:
    """The case with its first dimension times `factor`: the GPU's grid has 8."""
    first = case.shape[0] * factor
    changes: dict[str, Any] = {"shape": (first, *case.shape[1:])}
    if case.kind in ("split", "join") and case.axis == 0:
        changes["parts"] = tuple(part * factor for part in case.parts)
    if case.kind == "slice1":
        offsets, sizes, strides = case.window
        changes["window"] = (offsets, (first, *sizes[1:]), strides)
    if case.kind == "gather" and case.axis == 0:
        changes["indices"] = (case.indices[0] * factor, *case.indices[1:])
    return dataclasses.replace(case, **changes)


def describe(case: Case) -> dml.OperatorDesc:
    """The case as an operator desc."""

    def tensor(shape: Sequence[int], dtype: str = case.dtype) -> dml.TensorDesc:
        return dml.TensorDesc(dtype.upper(), shape)

    outputs = case.output_shapes
    if case.runtime:
        sizes = tensor((len(case.parts),), "int64")
        return dml.SplitTrainingOperatorDesc(tensor(case.shape), sizes, [tensor(s) for s in outputs], case.axis)
    if case.kind == "split":
        return dml.SplitOperatorDesc(tensor(case.shape), [tensor(s) for s in outputs], case.axis)
    if case.kind == "join":
        parts = [tensor(s) for s in part_shapes(case)]
        return dml.JoinOperatorDesc(parts, tensor(case.shape), case.axis)
    if case.kind == "slice1":
        return dml.Slice1OperatorDesc(tensor(case.shape), tensor(outputs[0]), *case.window)
    rank = max(len(outputs[0]), len(case.shape))
    axis = case.axis + rank - len(case.shape)
    indices = tensor(padded(case.indices, rank), case.index_dtype)
    return dml.GatherOperatorDesc(
        tensor(padded(case.shape, rank)), indices, tensor(padded(outputs[0], rank)), axis, len(case.indices)
    )


def part_shapes(case: Case) -> list[tuple[int, ...]]:
    """Shapes of the parts of a join."""
    return [(*case.shape[: case.axis], n, *case.shape[case.axis + 1 :]) for n in case.parts]


def padded(shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """A shape with leading 1s."""
    return (1,) * (rank - len(shape)) + tuple(shape)


def split_training(x: torch.Tensor, sizes: Sequence[int], axis: int) -> Any:
    """The function, or what it calls on a GPU, where the package is missing that tells the function whose x is."""
    if importlib.util.find_spec("array_api_compat") is not None:
        return dml.split_training(x, sizes, axis)
    from anydml.functions.call_plans import call
    from anydml.operators.registry import FUNCTIONS

    return call("SplitTraining", FUNCTIONS["split"], (as_array(x),), (tuple(sizes), axis), None, None)


class Work:
    """A case's memory and ways.

    Args:
        case: what to do.
        sets: how many sets of inputs and outputs.
    """

    def __init__(self, case: Case, sets: int) -> None:
        self.case, self.device, self.sets = case, DEVICE, sets
        rng = np.random.default_rng(1)
        self.indices = [self._indices(rng) for _ in range(sets)] if case.kind == "gather" else []
        shapes = part_shapes(case) if case.kind == "join" else [case.shape]
        self.inputs = [[self._random(shape) for shape in shapes] for _ in range(sets)]
        self.outputs = [[self._empty(shape) for shape in case.output_shapes] for _ in range(sets)]
        cuts = [np.sort(rng.choice(np.arange(1, case.shape[-1]), 2, replace=False)) for _ in range(SPLITS * case.fresh)]
        self._fresh = [np.diff([0, *cut, case.shape[-1]]).tolist() for cut in cuts]

    def _random(self, shape: Sequence[int]) -> torch.Tensor:
        # Random bits would hold NaNs, which are not equal to themselves.
        if self.case.dtype == "uint8":
            return torch.randint(0, 256, tuple(shape), dtype=torch.uint8, device=self.device)
        return torch.rand(tuple(shape), device=self.device, dtype=getattr(torch, self.case.dtype))

    def _empty(self, shape: Sequence[int]) -> torch.Tensor:
        return torch.empty(tuple(shape), dtype=getattr(torch, self.case.dtype), device=self.device)

    def _indices(self, rng: np.random.Generator) -> torch.Tensor:
        return torch.from_numpy(self.case.draw_indices(rng)).to(self.device)

    def _wrapped(self, k: int) -> torch.Tensor:
        """Indices from 0, in one dimension: PyTorch's `index_select` takes no others."""
        size = self.case.shape[self.case.axis]
        return torch.where(self.indices[k] < 0, self.indices[k] + size, self.indices[k]).reshape(-1)

    def fresh_sizes(self, call: int) -> list[int]:
        """The sizes of one call of a case with new sizes on every call."""
        return list(self._fresh[call % len(self._fresh)])

    def expected(self, k: int) -> list[torch.Tensor]:
        """What PyTorch's views and indexing say of set `k`."""
        case = self.case
        x, *_ = self.inputs[k]
        if case.kind == "split":
            return list(x.split(list(self.fresh_sizes(k) if case.fresh else case.parts), case.axis))
        if case.kind == "join":
            return [torch.cat(self.inputs[k], case.axis)]
        if case.kind == "slice1":
            return [self._window(x, flips=True)]
        return [x.index_select(case.axis, self._wrapped(k)).reshape(case.output_shapes[0])]

    def _window(self, x: torch.Tensor, *, flips: bool) -> torch.Tensor:
        """The window; where strides are negative, from its other end, unless it `flips`."""
        spots, backwards = [], []
        for d, (offset, size, stride) in enumerate(zip(*self.case.window, strict=True)):
            first = offset + (size - 1) % -stride if stride < 0 else offset
            spots.append(slice(first, offset + size, abs(stride)))
            if stride < 0:
                backwards.append(d)
        view = x[tuple(spots)]
        return view.flip(backwards) if flips and backwards else view

    def ours(self) -> Run:
        """A bound dispatch; a call of the function where sizes are new on every call."""
        if self.case.fresh:
            calls = itertools.count()
            return lambda k: split_training(self.inputs[k][0], self.fresh_sizes(next(calls)), self.case.axis)
        operator = dml.Device("cuda").compile_operator(describe(self.case))
        dispatches = [operator.bind(*self._bindings(k)).dispatch for k in range(self.sets)]
        return lambda k: dispatches[k]()

    def _bindings(self, k: int) -> tuple[list[Any], list[Any]]:
        inputs: list[Any] = list(self.inputs[k])
        outputs: list[Any] = list(self.outputs[k])
        if self.case.runtime:
            inputs.append(np.array(self.case.parts, np.int64))
        if self.case.kind == "gather":
            rank = max(len(self.case.shape), outputs[0].dim())
            inputs = [t.reshape(padded(t.shape, rank)) for t in (inputs[0], self.indices[k])]
            outputs = [outputs[0].reshape(padded(outputs[0].shape, rank))]
        return inputs, outputs

    def peers(self) -> Iterator[tuple[str, Run]]:
        """PyTorch's ways."""
        case, x, y = self.case, self.inputs, self.outputs
        if case.fresh:
            calls = itertools.count()
            yield (
                "split_with_sizes_copy",
                lambda k: torch.split_with_sizes_copy(x[k][0], self.fresh_sizes(next(calls)), case.axis),
            )
        elif case.kind == "split":
            sizes = list(case.parts)
            yield "split_with_sizes_copy", lambda k: torch.split_with_sizes_copy(x[k][0], sizes, case.axis, out=y[k])
            if len(sizes) <= 64:
                yield (
                    "copy_ each",
                    lambda k: [to.copy_(part) for to, part in zip(y[k], x[k][0].split(sizes, case.axis), strict=True)],
                )
        elif case.kind == "join":
            yield "cat", lambda k: torch.cat(x[k], case.axis, out=y[k][0])
        elif case.kind == "slice1":
            yield from self._slice_peers()
        else:
            wrapped = [self._wrapped(k) for k in range(self.sets)]
            shape = (*case.shape[: case.axis], -1, *case.shape[case.axis + 1 :])
            yield (
                "index_select",
                lambda k: torch.index_select(x[k][0], case.axis, wrapped[k], out=y[k][0].reshape(shape)),
            )
            spread = [-1 if d == case.axis else 1 for d in range(len(case.shape))]
            every = [w.long().view(spread).expand(y[k][0].reshape(shape).shape) for k, w in enumerate(wrapped)]
            yield "gather", lambda k: torch.gather(x[k][0], case.axis, every[k], out=y[k][0].reshape(shape))
            if case.axis == 0:
                yield "x[indices]", lambda k: x[k][0][wrapped[k]]
            if case.axis == 0 and len(case.shape) == 2:
                yield "embedding", lambda k: torch.nn.functional.embedding(wrapped[k], x[k][0])

    def _slice_peers(self) -> Iterator[tuple[str, Run]]:
        strides = self.case.window[2]
        backwards = [d for d, stride in enumerate(strides) if stride < 0]
        if not backwards:
            yield "copy_", lambda k: self.outputs[k][0].copy_(self._window(self.inputs[k][0], flips=False))
            return
        yield "flip", lambda k: torch.flip(self._window(self.inputs[k][0], flips=False), backwards)
        (d,) = backwards
        order = torch.arange(self.case.shape[d] - 1, -1, -1, device=self.device)
        yield "index_select", lambda k: torch.index_select(self.inputs[k][0], d, order, out=self.outputs[k][0])

    def warm(self, run: Run) -> None:
        """Have a way do what is done once for many calls. Its results were checked, so that it ran once already."""
        for _ in range(WARM * self.case.fresh):
            run(0)

    def check(self, name: str, run: Run) -> None:
        """Run a way once on every set and compare its results with what PyTorch's views say.

        Raises:
            AssertionError: they differ.
        """
        for k in range(self.sets):
            for output in self.outputs[k]:
                output.zero_()
            returned = run(k)
            results = self.outputs[k]
            if self.case.fresh or name in ("flip", "embedding", "x[indices]"):
                results = list(returned) if isinstance(returned, (list, tuple)) else [returned]
            for result, expected in zip(results, self.expected(k), strict=True):
                same = torch.equal(torch.as_tensor(result).reshape(expected.shape), expected)
                assert same, f"{self.case.name}: {name} is wrong"
