"""Symbolic sizes: each is represented by a prime, so that it is recognised in products of sizes.

Sizes that are derived in another way, such as N + 1, are treated as numbers. They are recognised as variable because
the analysis is repeated with other primes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onnx import ModelProto

from anydml.proving.names import size_names

PRIMES = (211, 223, 227, 229, 233, 239, 241, 251, 257, 263, 269, 271, 277, 281, 283, 293, 307, 311, 313, 317, 331, 337)

MOST_SETS = 3
"""Largest number of sets of primes for which a model is analysed."""


class StandIns:
    """Primes that stand for symbolic sizes.

    Attributes:
        sizes: the primes by the names of the sizes.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self._primes = frozenset(sizes.values())

    @classmethod
    def several(cls, model: ModelProto) -> list[StandIns]:
        """Return disjoint sets of primes, none of which divides a size in the model; none if there are too few."""
        names, known = size_names(model), {*_known_sizes(model)} - {0}
        if not names:
            return [cls({})]
        free = [prime for prime in PRIMES if all(size % prime for size in known)]
        count = min(MOST_SETS, len(free) // len(names))
        sets = [cls(dict(zip(names, free[k * len(names) :], strict=False))) for k in range(count)]
        return sets if count > 1 else []

    def is_constant(self, *sizes: int) -> bool:
        """Whether none of the numbers is a multiple of a symbolic size."""
        return not (self._primes and any(size % prime == 0 for size in sizes if size for prime in self._primes))

    def shape(self, old: Sequence[int], new: Sequence[int]) -> tuple[int, ...] | None:
        """Return the input of Reshape that changes one shape to another (0 keeps a size, −1 is inferred), if any."""
        if not self._primes:
            return tuple(new)
        found = []
        for k, size in enumerate(new):
            is_kept = k < len(old) and old[k] == size
            found.append(size if self.is_constant(size) else 0 if is_kept else -1)
        # Where a size that is kept may be 0, none can be inferred.
        return tuple(found) if found.count(-1) <= (0 not in found) else None


def _known_sizes(model: ModelProto) -> Iterable[int]:
    for tensor in model.graph.initializer:
        yield from tensor.dims
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        yield from (dim.dim_value for dim in value.type.tensor_type.shape.dim)
