"""Elements beyond the ends of a line that continues with its edge, its mirror image, or itself."""

from __future__ import annotations

Run = tuple[int, int, int, int, int, int]
"""Start and length; start and step in the source; repeats and their period."""


def runs(mode: str, n: int, first: int, end: int) -> list[Run]:
    """Return runs for places `first` to `end` − 1, counted from the line's first element.

    Args:
        mode: ``"edge"``, ``"reflect"`` (without the edge), ``"symmetric"`` (with it) or ``"wrap"``.
        n: length of the line, at least 1.
        first: the first place, outside the line.
        end: the place after the last.
    """
    if end <= first:
        return []
    if mode == "edge" or (mode == "reflect" and n == 1):
        return [(first, end - first, 0 if first < 0 else n - 1, 0, 1, 0)]
    is_reflected = mode == "reflect"
    if mode != "wrap" and first >= is_reflected - n and end <= 2 * n - is_reflected:
        # Within one mirror image, as usual.
        return [
            (first, end - first, is_reflected - 1 - first if first < 0 else 2 * n - 1 - is_reflected - first, -1, 1, 0)
        ]
    pieces = [(0, n, 0, 1)]
    if mode == "reflect":
        pieces.append((n, n - 2, n - 2, -1))
    elif mode == "symmetric":
        pieces.append((n, n, n - 1, -1))
    period = sum([piece[1] for piece in pieces])
    found = []
    for begin, count, source, step in pieces:
        # Whole pieces, from the k-th period on, and the part of one at either end.
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
