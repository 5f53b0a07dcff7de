"""Where the elements of a tensor come from, whatever its shape: a few boxes of element numbers, in a normal form.

Elements are counted in row-major order, so that Reshape changes nothing. A part says that element
``at + Σ digit·step`` is element ``offset + Σ digit·stride`` of a source, or a fill.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from anydml.moves.move import Fill
from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value

MOST_JOINED = 256
"""Parts of a tensor among which neighbours are looked for."""

NEIGHBOURS = 8
"""Parts before a part to which it may belong."""


class Run(NamedTuple):
    """One digit of a part: how many there are, and how far apart they are in the tensor and in the source."""

    size: int
    step: int
    stride: int


class Part(NamedTuple):
    """A box of elements.

    Attributes:
        source: the number of what is read; −1 where it is a fill.
        at: the first element in the tensor.
        offset: the first element in the source.
        runs: by falling steps; none has size 1, and no two are one.
        fill: the bytes of an element where it is a fill.
    """

    source: int
    at: int
    offset: int
    runs: tuple[Run, ...]
    fill: bytes = b""

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(run.size for run in self.runs)


Parts = tuple[Part, ...]


def row_major(sizes: Sequence[int]) -> list[int]:
    """How far apart neighbours along each axis are."""
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * size)
    return strides[::-1] if sizes else []


def parts_of(value: Value) -> Parts:
    """The parts of a value whose sources are stored without gaps.

    Raises:
        NotComposableError: some elements are found by looking up others.
    """
    steps, width = row_major(value.sizes), value.element_size
    found = []
    for start, factors, source in value.pieces:
        at = sum(first * step for first, step in zip(start, steps, strict=True))
        if isinstance(source, Fill):
            runs = [Run(size, step * steps[axis], 0) for axis, size, step in factors]
            pattern = source.pattern * (width // len(source.pattern))
            found.append(Part(-1, at, 0, tidy(runs), pattern))
            continue
        if source.lookups:
            raise NotComposableError("elements are looked up")
        runs = [
            Run(factor.size, factor.step * steps[factor.axis], stride // width)
            for factor, stride in zip(factors, source.strides, strict=True)
        ]
        found.append(Part(source.operand, at, source.offset // width, tidy(runs)))
    return joined(found)


def tidy(runs: Iterable[Run]) -> tuple[Run, ...]:
    """Runs by falling steps, those that follow each other as one."""
    found: list[Run] = []
    for run in sorted((run for run in runs if run.size != 1), key=lambda run: -run.step):
        if found:
            size, step, stride = found[-1]
            if step == run.size * run.step and stride == run.size * run.stride:
                found[-1] = Run(size * run.size, run.step, run.stride)
                continue
        found.append(run)
    return tuple(found)


def joined(parts: Sequence[Part]) -> Parts:
    """The same elements in fewer parts, by where they begin."""
    found = sorted(parts, key=lambda part: part.at)
    while 1 < len(found) <= MOST_JOINED:
        fewer = _in_rows(found)
        fewer = _in_rows(_end_to_end(sorted(fewer, key=lambda part: part.at)))
        if len(fewer) == len(found):
            break
        found = sorted(fewer, key=lambda part: part.at)
    return tuple(found)


def _end_to_end(parts: Sequence[Part]) -> list[Part]:
    """Parts one of which goes on where the other ends, along one run."""
    found: list[Part] = []
    for part in parts:
        for k in range(max(0, len(found) - NEIGHBOURS), len(found)):
            one = _followed(found[k], part)
            if one is not None:
                found[k] = one
                break
        else:
            found.append(part)
    return found


def _followed(part: Part, then: Part) -> Part | None:
    """Two parts as one, the second behind the first."""
    if (part.source, part.fill) != (then.source, then.fill):
        return None
    step, stride = then.at - part.at, then.offset - part.offset
    for runs, others in ((part.runs, then.runs), (then.runs, part.runs)):
        for k, run in enumerate(runs):
            rest = (*runs[:k], *runs[k + 1 :])
            if rest == others:
                # The other has a single digit here.
                first, total = (run.size, run.size + 1) if runs is part.runs else (1, run.size + 1)
            elif len(runs) == len(others) and rest == (*others[:k], *others[k + 1 :]) and run[1:] == others[k][1:]:
                first, total = part.runs[k].size, run.size + others[k].size
            else:
                continue
            if step == first * run.step and stride == first * run.stride:
                return part._replace(runs=tidy([*rest, Run(total, run.step, run.stride)]))
    return None


def _in_rows(parts: Sequence[Part]) -> list[Part]:
    """Parts of one form, equally far apart, as one with another run."""
    groups: dict[tuple[object, ...], list[Part]] = {}
    for part in parts:
        groups.setdefault((part.source, part.fill, part.runs), []).append(part)
    found: list[Part] = []
    for group in groups.values():
        first = 0
        while first < len(group):
            end = first + 1
            if end < len(group):
                gap = group[end].at - group[first].at, group[end].offset - group[first].offset
                while (
                    end < len(group)
                    and (
                        group[end].at - group[end - 1].at,
                        group[end].offset - group[end - 1].offset,
                    )
                    == gap
                ):
                    end += 1
            if end - first > 1:
                runs = tidy([*group[first].runs, Run(end - first, *gap)])
                found.append(group[first]._replace(runs=runs))
            else:
                found.append(group[first])
            first = end
    return found


Numbers = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


def places(part: Part) -> tuple[Numbers, Numbers]:
    """The elements of a part, and which of the source they are."""
    to, there = np.array([part.at]), np.array([part.offset])
    for size, step, stride in part.runs:
        digits = np.arange(size)
        to = (to[:, None] + digits * step).reshape(-1)
        there = (there[:, None] + digits * stride).reshape(-1)
    return to, there


class Box(NamedTuple):
    """A part of a tensor of some shape: where it begins along each axis, and its runs by axes."""

    start: tuple[int, ...]
    runs: tuple[tuple[int, Run], ...]

    def ends(self) -> list[int]:
        """Behind its last element, along each axis."""
        found = [first + 1 for first in self.start]
        for axis, run in self.runs:
            found[axis] += (run.size - 1) * run.step
        return found


def boxed(part: Part, sizes: Sequence[int]) -> Box | None:
    """A part along the axes of a shape, steps counted along them; None where it is no box there."""
    strides, start, rest = row_major(sizes), [], part.at
    for stride in strides:
        start.append(rest // stride)
        rest %= stride
    runs: list[tuple[int, Run]] = []
    for size, step, stride in part.runs:
        left, own, there = size, step, stride
        # From the innermost axis on: a run may go on over several.
        for axis in reversed(range(len(sizes))):
            unit = strides[axis]
            if left == 1 or own >= unit * sizes[axis]:
                continue
            if own < unit or own % unit:
                return None
            room = sizes[axis] * unit // own
            if left > room and (sizes[axis] * unit) % own:
                return None
            taken = left if left <= room else room
            if left % taken:
                return None
            if taken > 1:
                runs.append((axis, Run(taken, own // unit, there)))
            left, own, there = left // taken, own * taken, there * taken
        if left > 1:
            return None
    box = Box(tuple(start), tuple(runs))
    return box if all(end <= size for end, size in zip(box.ends(), sizes, strict=True)) else None


def cropped(part: Part, box: Box, axis: int, first: int, sizes: Sequence[int]) -> Part:
    """A part as one of a tensor of other sizes, which begins at `first` along an axis of the old one."""
    strides = row_major(sizes)
    at = sum((start - first * (k == axis)) * strides[k] for k, start in enumerate(box.start))
    return part._replace(at=at, runs=tidy(Run(run.size, run.step * strides[k], run.stride) for k, run in box.runs))
