"""Lower bounds of sizes that follow from nodes, since a node refuses smaller ones."""

from __future__ import annotations

from collections.abc import Iterable

from anydml.proving.sizes import Size, lower_bound, lower_bound_of, name, products_of


class Bounds:
    """Lower bounds of sizes. The names of dimensions are at least 1 anyway."""

    def __init__(self) -> None:
        self._least: dict[Size, int] = {}

    def note(self, sizes: Iterable[Size]) -> None:
        """Note that sizes are at least 0."""
        for size in sizes:
            number = dict(products_of(size)).get((), 0)
            variable_part = size - number
            self._least[variable_part] = max(self._least.get(variable_part, -number), -number)

    def is_positive(self, size: Size) -> bool:
        """Whether a size is at least 1 for all values of its names."""
        parts = products_of(size)
        if len(parts) == 1 and parts[0][1] > 0:
            return all((lower_bound_of(part) or 0) > 0 or self.is_natural(name(part) - 1) for part in parts[0][0])
        return self.is_natural(size - 1)

    def is_natural(self, size: Size) -> bool:
        """Whether a size is at least 0 for all values of its names."""
        low = lower_bound(size)
        if low is None or low < 0:
            number = dict(products_of(size)).get((), 0)
            low = self._least.get(size - number)
            low = None if low is None else low + number
        return low is not None and low >= 0
