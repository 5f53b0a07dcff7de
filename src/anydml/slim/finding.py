"""Which standard nodes make a tensor that is known by its parts: the cheapest that are found."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anydml.slim.axes import split, with_ones, with_ones_of
from anydml.slim.layouts import Layout
from anydml.slim.parts import Box, Part, Parts, Run, boxed, cropped, joined, places, row_major, tidy
from anydml.slim.sizes import StandIns
from anydml.slim.steps import Step, Steps

MOST_INDICES = 1 << 16
"""Of a Gather."""

LEAST_ROW = 32
"""Bytes of the rows that a Gather picks, at least: a copy for each index is slow."""

MOST_PARTS = 16
"""Parts of a tensor for which joins are looked for."""

MOST_SHAPES = 4
"""Parts of a tensor for which joins are looked for in the shapes of sources, too."""

DEEPEST = 3
"""Joins of joins."""

Split = tuple[int, ...]


class Finder:
    """Finds the steps of one tensor."""

    def __init__(self, steps: Steps, stand_ins: StandIns, step_of: Callable[[int], Step], dtype: np.dtype[Any]) -> None:
        self._steps, self._stand_ins, self._step_of, self._dtype = steps, stand_ins, step_of, dtype
        self._width = dtype.itemsize

    def find(self, parts: Parts, sizes: Sequence[int], depth: int = 0) -> Step | None:
        """The cheapest steps that make a tensor; None where none are found."""
        found = [*self._found(parts, tuple(sizes), depth)]
        return min(found, key=self._steps.cost, default=None)

    def _found(self, parts: Parts, sizes: tuple[int, ...], depth: int) -> Iterator[Step]:
        if len(parts) == 1 and parts[0].source >= 0:
            yield from self._of_one(parts[0], sizes)
        sources = {part.source for part in parts}
        if (len(parts) > 1 and len(sources) == 1 and -1 not in sources) or (
            len(parts) == 1 and any(run.stride < 0 for run in parts[0].runs)
        ):
            yield from self._picked(parts, sizes)
        if 1 < len(parts) <= MOST_PARTS and depth < DEEPEST:
            yield from self._padded(parts, sizes, depth)
            yield from self._concatenated(parts, sizes, depth)

    def _reshaped(self, step: Step, sizes: Sequence[int]) -> Step | None:
        """In another shape, if that can be written down."""
        made = self._steps.reshape(step, sizes)
        if made.kind == "Reshape" and self._stand_ins.shape(made.inputs[0].sizes, sizes) is None:
            return None
        return made

    def _of_one(self, part: Part, sizes: tuple[int, ...]) -> Iterator[Step]:
        """Slice, Transpose and Expand, with shapes around them."""
        source = self._step_of(part.source)
        if any(run.stride < 0 for run in part.runs) or part.at or part.size != math.prod(sizes):
            return
        # What comes from the same places again is put where it is at the end.
        moving = [run for run in part.runs if run.stride]
        if len(moving) < len(part.runs):
            once, kept = 1, []
            for run in reversed(part.runs):
                if run.stride:
                    kept.append(Run(run.size, once, run.stride))
                    once *= run.size
            small = [run.size if run.stride else 1 for run in part.runs]
            inner = part._replace(runs=tidy(kept))
            for step in self._of_one(inner, tuple(small)):
                wide = self._steps.expand(step, [run.size for run in part.runs], self._width)
                constant = all(run.stride or self._stand_ins.is_constant(run.size) for run in part.runs)
                if constant and (made := self._reshaped(wide, sizes)) is not None:
                    yield made
            return
        if len(source.sizes) == len(sizes) == 4 and self._stand_ins.is_constant(*source.sizes[1:], *sizes[1:]):
            yield from self._in_blocks(part, source, sizes)
        # On axes split where the source's, or the result's, are.
        ours = split(part.runs, row_major(source.sizes), lambda run: run.stride)
        units = row_major(sizes)
        cuts = (
            split(ours, units, lambda run: run.step),
            ours,
            split(part.runs, units, lambda run: run.step),
            part.runs,
        )
        for runs in dict.fromkeys(map(tuple, cuts)):
            transposed = self._cut_and_transposed(part, runs, source, sizes)
            if transposed is not None:
                yield transposed

    def _in_blocks(self, part: Part, source: Step, sizes: tuple[int, ...]) -> Iterator[Step]:
        """DepthToSpace, and SpaceToDepth whose channels may be in another order."""
        (n, depth, high, wide), (_, channels, rows, _) = source.sizes, sizes
        if rows > high and rows % high == 0:
            b = rows // high
            for mode, cut, perm in (
                ("CRD", (n, channels, b, b, high, wide), (0, 1, 4, 2, 5, 3)),
                ("DCR", (n, b, b, channels, high, wide), (0, 3, 4, 1, 5, 2)),
            ):
                if Layout(cut, perm).transposed == (n, channels, high, b, wide, b) and Layout(cut, perm).is_of(part):
                    yield self._steps.blocks("DepthToSpace", source, sizes, b, mode, self._width)
        if rows < high and high % rows == 0:
            b = high // rows
            cut = n, depth, rows, b, wide // b, b
            made = self._steps.blocks("SpaceToDepth", source, sizes, b, "", self._width)
            numbers = np.arange(channels).reshape(b, b, depth) if channels == b * b * depth else np.arange(0)
            for order in itertools.permutations((3, 5, 1)) if numbers.size and wide % b == 0 else ():
                if Layout(cut, (0, *order, 2, 4)).is_of(part):
                    picked = numbers.transpose([(3, 5, 1).index(axis) for axis in order]).reshape(-1).tolist()
                    is_same = order == (3, 5, 1)
                    yield made if is_same else self._steps.picked(made, 1, picked, self._width)

    def _cut_and_transposed(self, part: Part, runs: Sequence[Run], source: Step, sizes: tuple[int, ...]) -> Step | None:
        """One Slice and one Transpose."""
        order = sorted(range(len(runs)), key=lambda k: -runs[k].stride)
        bound, rest = source.count, part.offset
        axes: list[int] = []
        taken: list[tuple[int, int, int]] = []
        place: dict[int, int] = {}
        for k in order:
            size, _, stride = runs[k]
            if bound % stride:
                return None
            first, rest = rest // stride, rest % stride
            if first + size > bound // stride:
                return None
            place[k] = len(axes)
            axes.append(bound // stride)
            taken.append((first, size, 1))
            bound = stride
        if bound > 1:
            axes.append(bound)
            taken.append((rest, 1, 1))
        known = [(a, n, s) for total, (a, n, s) in zip(axes, taken, strict=True) if (a, n, s) != (0, total, 1)]
        if not all(self._stand_ins.is_constant(*each) for each in known):
            return None
        perm = [place[k] for k in range(len(runs))]
        if bound > 1:
            perm.append(len(axes) - 1)
        placed = with_ones(axes, taken, perm, source.sizes, sizes)
        if placed is not None:
            axes, taken, perm = placed
        elif (ordered := with_ones_of(sizes, taken, perm)) is not None and tuple(axes) != source.sizes:
            # The source needs another shape anyway.
            ones = len(ordered) - len(perm)
            axes, taken, perm = [1] * ones + axes, [(0, 1, 1)] * ones + taken, ordered
        step = self._reshaped(source, axes)
        if step is None:
            return None
        step = self._steps.slice(step, taken, self._width)
        # With axes of 1 where they are, a single one may move.
        moving = iter([axis for axis in perm if step.sizes[axis] != 1])
        still = [k if size == 1 else next(moving) for k, size in enumerate(step.sizes)]
        ways = [
            self._reshaped(self._steps.transpose(step, each, self._width), sizes)
            for each in dict.fromkeys((tuple(perm), tuple(still)))
        ]
        return min(filter(None, ways), key=self._steps.cost, default=None)

    def _picked(self, parts: Parts, sizes: tuple[int, ...]) -> Iterator[Step]:
        """Rows of a source in another order, the same for each of the outermost."""
        source = self._step_of(parts[0].source)
        count, total = math.prod(sizes), source.count
        row, outer = 0, 0
        for part in parts:
            runs = [*part.runs]
            last = runs.pop() if runs and runs[-1][1:] == (1, 1) else Run(1, 1, 1)
            row = math.gcd(row, last.size, part.at, part.offset, *(n for run in runs for n in run[1:]))
            first = part.runs[0] if part.runs else Run(1, 1, 1)
            whole = first.step * first.size == count and first.stride * first.size == total
            outer = math.gcd(outer, first.size if whole else 1)
        row = math.gcd(row, count // outer, total // outer)
        picked, there = count // outer // row, total // outer // row
        if row * self._width < LEAST_ROW or picked > MOST_INDICES or not self._stand_ins.is_constant(picked, there):
            return
        indices = np.full(picked, -1, np.int64)
        for part in parts:
            runs = [*part.runs]
            if outer > 1:
                size, step, stride = runs.pop(0)
                runs.insert(0, Run(size // outer, step, stride))
            rows = [
                Run(size // row, 1, 1) if (step, stride) == (1, 1) else Run(size, step // row, stride // row)
                for size, step, stride in runs
            ]
            to, at = places(Part(0, part.at // row, part.offset // row, tuple(rows)))
            indices[to] = at
        if indices.min() < 0 or indices.max() >= there:
            return
        table = self._reshaped(source, [n for n in (outer, there, row) if n > 1] or [1])
        if table is not None:
            picked_rows = self._steps.picked(table, int(outer > 1), indices.tolist(), self._width)
            made = self._reshaped(picked_rows, sizes)
            if made is not None:
                yield made

    def _padded(self, parts: Parts, sizes: tuple[int, ...], depth: int) -> Iterator[Step]:
        """A box with one fill around it."""
        fills, others = {part.fill for part in parts if part.source < 0}, [part for part in parts if part.source >= 0]
        if len(fills) != 1 or not others:
            return
        boxes = [boxed(part, sizes) for part in others]
        if not all(boxes):
            return
        known = [box for box in boxes if box is not None]
        first = [min(box.start[k] for box in known) for k in range(len(sizes))]
        end = [max(box.ends()[k] for box in known) for k in range(len(sizes))]
        inner = tuple(b - a for a, b in zip(first, end, strict=True))
        after = [size - b for size, b in zip(sizes, end, strict=True)]
        if math.prod(inner) != sum(part.size for part in others) or not self._stand_ins.is_constant(*first, *after):
            return
        small = []
        for part, box in zip(others, known, strict=True):
            start = tuple(a - b for a, b in zip(box.start, first, strict=True))
            small.append(cropped(part, box._replace(start=start), 0, 0, inner))
        step = self.find(joined(small), inner, depth + 1)
        if step is not None:
            yield self._steps.pad(step, first, after, fills.pop(), self._dtype)

    def _concatenated(self, parts: Parts, sizes: tuple[int, ...], depth: int) -> Iterator[Step]:
        """What stands one after the other along an axis, of the tensor's shape or that of a source."""
        shapes = {sizes: None}
        sources = {part.source: self._step_of(part.source) for part in parts if part.source >= 0}
        # Where sources are woven whole, their rows are joined: none need have another shape.
        if len(parts) == len(sources) <= MOST_SHAPES and sum(step.count for step in sources.values()) == math.prod(
            sizes
        ):
            for own in (step.sizes for step in sources.values()):
                times = math.prod(sizes) // math.prod(own)
                shapes.update({(*own[:k], size * times, *own[k + 1 :]): None for k, size in enumerate(own)})
        for shape in shapes:
            boxes = [boxed(part, shape) for part in parts]
            if math.prod(shape) != math.prod(sizes) or not all(boxes):
                continue
            known = [(part, box) for part, box in zip(parts, boxes, strict=True) if box is not None]
            for axis in range(len(shape)):
                made = self._joined(known, axis, shape, depth)
                if made is not None and (found := self._reshaped(made, sizes)) is not None:
                    yield found

    def _joined(self, known: Sequence[tuple[Part, Box]], axis: int, sizes: tuple[int, ...], depth: int) -> Step | None:
        """Boxes one after the other along one axis; None where they are not, or are not found."""
        groups: list[tuple[int, int, list[int]]] = []
        spans = sorted((box.start[axis], box.ends()[axis], k) for k, (_, box) in enumerate(known))
        for start, end, k in spans:
            if groups and start < groups[-1][1]:
                groups[-1] = (groups[-1][0], max(end, groups[-1][1]), [*groups[-1][2], k])
            else:
                groups.append((start, end, [k]))
        made: list[Step] = []
        for start, end, members in groups if len(groups) > 1 else ():
            inner = (*sizes[:axis], end - start, *sizes[axis + 1 :])
            small = [cropped(known[k][0], known[k][1], axis, start, inner) for k in members]
            step = self.find(joined(small), inner, depth + 1)
            if step is None:
                return None
            made.append(step)
        return self._steps.concat(made, axis, self._width) if made else None
