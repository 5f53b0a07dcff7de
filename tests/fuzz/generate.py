"""Random cases: every operator, with sizes, strides, offsets and indices that few people would think of."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from .case import DATA_TYPES, FLAT, Case, How, Memory, Sizes
from .draw import Draw

OPERATORS = ("split", "join", "slice", "slice1", "gather", "split_training", "concat_training")
OTHER_TYPES = ("V3", "V12", "c16", "c8", "?", "S5", "V16", "V33", "V70")
INDEX_TYPES = ("i8", "i4", "u4", "u8")
LARGE = 300_000
"""Bytes of a large tensor; most are a few hundred."""


def random_case(draw: Draw, ways: Sequence[How], operator: str | None = None) -> Case:
    """A valid case, to be run in one of some ways."""
    how = draw.pick(ways)
    operator = operator or draw.pick(OPERATORS)
    interfaces = {"cpu": ("device", "device", "model", "function", "new"), "reference": ("device", "model")}
    interface = draw.pick(interfaces.get(how.engine, ("device",)))
    described = interface in ("device", "model")
    types = [t for t in DATA_TYPES if operator != "split" or t[1] != "8"] if described else OTHER_TYPES
    if not described and draw.integer(0, 1):
        types = list(DATA_TYPES)
    dtype = draw.pick(types)
    limit = 1000 if how.engine != "cpu" else draw.pick((200, 200, 8000, 8000, LARGE))
    sizes = random_sizes(draw, limit // np.dtype(dtype).itemsize, 6 if operator == "gather" else 8)
    if interface == "model" and draw.integer(0, 4) == 0:
        # A range of a resource is as long as an array of such a tensor.
        dtype, sizes = "u1", (4,)
    make = {"slice": _slice, "slice1": _slice, "gather": _gather}.get(operator, _parts)
    inputs, outputs, arguments = make(draw, operator, interface, sizes)
    index = draw.pick(INDEX_TYPES)
    return Case(
        operator,
        interface,
        tuple(random_memory(draw, s, index if k and operator == "gather" else dtype, interface, k) for k, s in inputs),
        tuple(random_memory(draw, s, dtype, interface, None) for s in outputs),
        arguments,
        how,
        draw.integer(0, 2**32 - 1),
    )


def random_sizes(draw: Draw, elements: int, most: int) -> Sizes:
    """Sizes of at most so many elements, often with one long dimension or a short last one."""
    rank = draw.integer(1, most) if draw.integer(0, 3) == 0 else draw.integer(1, 3)
    left = max(1, elements)
    sizes = [1] * rank
    long = draw.integer(0, rank - 1)
    for d in range(rank):
        if d != long:
            sizes[d] = min(left, draw.integer(1, 5) if draw.integer(0, 4) else draw.integer(1, 40))
            left //= sizes[d]
    sizes[long] = max(1, draw.integer(1, left) if draw.integer(0, 1) else left)
    return tuple(sizes)


def random_memory(draw: Draw, sizes: Sizes, dtype: str, interface: str, number: int | None) -> Memory:
    """Where a tensor lies; outputs (their number is None) have no two elements in one place."""
    item = np.dtype(dtype).itemsize
    flat = ""
    if interface == "model" or (interface == "device" and draw.integer(0, 1)):
        flat = "uint8" if interface == "model" else draw.pick(FLAT)
    unit = item if flat else 1
    style = draw.pick(("packed", "packed", "gaps", "permuted", "odd"))
    order = list(range(len(sizes)))[::-1]
    if style in ("permuted", "odd"):
        order = [order.pop(draw.integer(0, len(order) - 1)) for _ in sizes]
    strides, span = [0] * len(sizes), item
    for d in order:
        gap = 0 if style in ("packed", "permuted") else draw.integer(0, 3) * (item if style == "gaps" else unit)
        strides[d] = span + gap
        span += (sizes[d] - 1) * strides[d]
    if number is not None and draw.integer(0, 2 if flat else 5) == 0:
        # An input may repeat itself, and its elements may overlap.
        strides = [draw.pick((0, 0, s, s, item, item * draw.integer(0, 4))) for s in strides]
    if not flat:
        strides = [-s if draw.integer(0, 3) == 0 else s for s in strides]
    reach = [(n - 1) * s for n, s in zip(sizes, strides, strict=True)]
    first = -sum(r for r in reach if r < 0)
    end = first + sum(r for r in reach if r > 0) + item
    before, after = (draw.pick((0, 1, item, 7, 64)) for _ in range(2))
    desc = None
    if flat:
        needed = end + (-end) % 4
        after = needed - end + draw.pick((0, 3))
        if flat == "exact" and math.prod(sizes) * item >= needed:
            # As long as a packed tensor: what tells such an array from one with strides of its own is the desc.
            after = math.prod(sizes) * item - end
        if interface == "model":
            # A resource is bound from an element on.
            before -= before % item
    elif interface == "device" and draw.integer(0, 2) == 2 and not (len(sizes) == 1 and strides[0] == item):
        # The strides of the desc are not those of the array. (A packed array of one dimension would be flat.)
        scale = draw.integer(1, 3)
        desc = tuple(scale * math.prod(sizes[d + 1 :]) for d in range(len(sizes)))
        if number is not None and draw.integer(0, 1):
            desc = (0,) * len(sizes)
    return Memory(sizes, dtype, tuple(strides), before + first, before + end + after, flat, desc)


def _cuts(draw: Draw, size: int, smallest: int) -> Sizes:
    kind = draw.integer(0, 4)
    if kind == 4 and smallest <= 1 and size <= 600:
        return (1,) * size
    if kind == 1 and size % 3 == 0:
        return (size // 3,) * 3
    marks = sorted(draw.integer(0, size) for _ in range(draw.integer(0, min(size - 1, 6))))
    parts = tuple(int(n) for n in np.diff([0, *marks, size]))
    return tuple(n for n in parts if n >= smallest)


def _parts(draw, operator, interface, sizes):
    axis = draw.integer(0, len(sizes) - 1)
    lengths = _cuts(draw, sizes[axis], 1 if interface in ("device", "model") else 0)
    parts = [(*sizes[:axis], n, *sizes[axis + 1 :]) for n in lengths]
    arguments = {"axis": axis}
    if "training" in operator and draw.integer(0, 1):
        arguments["axis"] = axis - len(sizes)
    if "split" in operator:
        return [(0, sizes)], parts, {**arguments, "lengths": lengths}
    return list(enumerate(parts)), [sizes], arguments


def _slice(draw, operator, interface, sizes):
    offsets, windows, steps, taken = [], [], [], []
    for size in sizes:
        step = draw.pick((1, 1, 2, 3, size, draw.integer(1, size)))
        offset = draw.pick((0, draw.integer(0, size - 1)))
        window = draw.pick((size - offset, draw.integer(1, size - offset)))
        most = 1 + (window - 1) // step
        if operator == "slice1" and draw.integer(0, 1):
            step = -step if most > 1 else draw.pick((-step, -(2**31)))
        offsets.append(offset)
        windows.append(window)
        steps.append(step)
        taken.append(draw.pick((most, draw.integer(1, most))))
    arguments = {"offsets": tuple(offsets), "strides": tuple(steps), "sizes": tuple(taken)}
    if operator == "slice1":
        arguments["windows"] = tuple(windows)
    return [(0, sizes)], [tuple(taken)], arguments


def _gather(draw, operator, interface, sizes):
    axis = draw.integer(0, len(sizes) - 1)
    others = math.prod(sizes) // sizes[axis]
    left = max(1, 100_000 // others)
    index = tuple(draw.integer(1, 4) for _ in range(draw.integer(0, 2)))
    if draw.integer(0, 2):
        index = (*index, draw.integer(1, min(left, 3000)) if draw.integer(0, 1) else draw.integer(1, min(left, 40)))
    if interface not in ("device", "model"):
        return [(0, sizes), (1, index)], [(*sizes[:axis], *index, *sizes[axis + 1 :])], {"axis": axis}
    # A desc's tensors have one number of dimensions: 1s fill up from the left.
    extra, k = max(0, len(index) - 1), len(index)
    rank = len(sizes) + extra
    output = (*sizes[:axis], *index, *sizes[axis + 1 :])
    shapes = [(0, (1,) * extra + sizes), (1, (1,) * (rank - k) + index)]
    return shapes, [(1,) * (rank - len(output)) + output], {"axis": axis + extra, "index_dimensions": k}
