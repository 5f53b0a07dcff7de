"""What Slice and Split take of a tensor."""

from __future__ import annotations

from anydml.slim.following import Following
from anydml.slim.graph import Op

Window = list[tuple[int, int, int]]
"""For each axis where it begins, how many elements it takes, and how far apart they are."""


def windows(following: Following, op: Op) -> list[Window] | None:
    """What each output of a Slice or Split takes along each axis; None of others, and if that is not known."""
    sizes = following.values[op.inputs[0]].sizes
    whole: Window = [(0, size, 1) for size in sizes]
    if op.kind == "Split":
        axis, found, first = op.integer("axis", 0) % len(sizes), list[Window](), 0
        for name in op.outputs:
            if not name:
                return None
            count = following.values[name].sizes[axis]
            found.append([*whole[:axis], (first, count, 1), *whole[axis + 1 :]])
            first += count
        return found
    tensors = [following.values[name].tensor if name else None for name in op.inputs[1:]]
    arrays = [None if tensor is None else tensor.array for tensor in tensors]
    if op.kind != "Slice" or any(a is None and name for a, name in zip(arrays, op.inputs[1:], strict=True)):
        return None
    starts, ends, axes, steps = (None if a is None else a.tolist() for a in (*arrays, None, None)[:4])
    for k, (start, end) in enumerate(zip(starts or (), ends or (), strict=True)):
        axis = axes[k] if axes else k
        first, stop, by = slice(start, end, steps[k] if steps else 1).indices(sizes[axis])
        if by < 0:
            return None
        whole[axis] = (first, len(range(first, stop, by)), by)
    return [whole]


def within(outer: Window, inner: Window) -> Window:
    """The window of a tensor that takes the second window of what the first one takes."""
    return [(a + c * by, n, by * step) for (a, _, by), (c, n, step) in zip(outer, inner, strict=True)]
