"""DepthToSpace and SpaceToDepth, where they make a tensor."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from anydml.slim.layouts import Layout
from anydml.slim.parts import Part
from anydml.slim.steps import Step, Steps


def in_blocks(steps: Steps, part: Part, source: Step, sizes: tuple[int, ...], width: int) -> Iterator[Step]:
    """DepthToSpace, and SpaceToDepth whose channels may be in another order."""
    (n, depth, high, wide), (_, channels, rows, _) = source.sizes, sizes
    if rows > high and rows % high == 0:
        b = rows // high
        for mode, cut, perm in (
            ("CRD", (n, channels, b, b, high, wide), (0, 1, 4, 2, 5, 3)),
            ("DCR", (n, b, b, channels, high, wide), (0, 3, 4, 1, 5, 2)),
        ):
            if Layout(cut, perm).transposed == (n, channels, high, b, wide, b) and Layout(cut, perm).is_of(part):
                yield steps.blocks("DepthToSpace", source, sizes, b, mode, width)
    if rows < high and high % rows == 0:
        b = high // rows
        cut = n, depth, rows, b, wide // b, b
        made = steps.blocks("SpaceToDepth", source, sizes, b, "", width)
        numbers = np.arange(channels).reshape(b, b, depth) if channels == b * b * depth else np.arange(0)
        for order in itertools.permutations((3, 5, 1)) if numbers.size and wide % b == 0 else ():
            if Layout(cut, (0, *order, 2, 4)).is_of(part):
                picked = numbers.transpose([(3, 5, 1).index(axis) for axis in order]).reshape(-1).tolist()
                is_same = order == (3, 5, 1)
                yield made if is_same else steps.picked(made, 1, picked, width)
