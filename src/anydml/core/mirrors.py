"""What stands beyond the ends of a line of elements that goes on as its edge, its mirror image, or itself again."""

from __future__ import annotations

Run = tuple[int, int, int, int, int, int]
"""A start; a length; where the elements come from, and by which step; how many times; and how far apart."""


def runs(mode: str, n: int, first: int, end: int) -> list[Run]:
    """What stands from one place to another, counted from the line's first element.

    Args:
        mode: ``"edge"``, ``"reflect"`` (without the edge), ``"symmetric"`` (with it) or ``"wrap"``.
        n: elements of the line, at least 1.
        first: where it begins, outside the line.
        end: the place behind the last.
    """
    if end <= first:
        return []
    if mode == "edge" or (mode == "reflect" and n == 1):
        return [(first, end - first, 0 if first < 0 else n - 1, 0, 1, 0)]
    pieces = [(0, n, 0, 1)]
    if mode == "reflect":
        pieces.append((n, n - 2, n - 2, -1))
    elif mode == "symmetric":
        pieces.append((n, n, n - 1, -1))
    period = sum([piece[1] for piece in pieces])
    found = []
    for begin, count, source, step in pieces:
        # The piece in whole, from the k-th period on, and what is cut off it at either end.
        k = -((begin - first) // period)
        whole = (end - begin - count) // period - k + 1
        if whole > 0 and count:
            found.append((begin + k * period, count, source, step, whole, period))
        for cut in sorted({k - 1, k + max(whole, 0)}) if count else ():
            at = begin + cut * period
            low, high = max(at, first), min(at + count, end)
            if low < high:
                found.append((low, high - low, source + (low - at) * step, step, 1, 0))
    return found
