"""Sizes that only have names: each stands in for a prime, by which it is found again in sizes that are made of it.

What is made of sizes by multiplying them is read back from its primes. What is made in another way, as by adding 1, is
not: it is read as a number, and found out where the same is done with other primes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from onnx import ModelProto

PRIMES = (211, 223, 227, 229, 233, 239, 241, 251, 257, 263, 269, 271, 277, 281, 283, 293, 307, 311, 313, 317, 331, 337)


class StandIns:
    """Primes for the names of sizes.

    Attributes:
        sizes: the primes, by name.
    """

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self._primes = frozenset(sizes.values())

    @classmethod
    def several(cls, names: Sequence[str], constants: Iterable[int]) -> list[StandIns]:
        """Different ones for the same names, which divide none of the `constants`; none if there are too few."""
        known = {*constants} - {0}
        free = [prime for prime in PRIMES if all(size % prime for size in known)]
        count = len(names)
        if not count:
            return [cls({})]
        if count > len(free) // 2:
            return []
        return [cls(dict(zip(names, free[k * count :], strict=False))) for k in range(len(free) // count)][:3]

    def is_constant(self, *sizes: int) -> bool:
        """Whether numbers are the same for all sizes."""
        return not (self._primes and any(size % prime == 0 for size in sizes if size for prime in self._primes))

    def shape(self, old: Sequence[int], new: Sequence[int]) -> tuple[int, ...] | None:
        """What makes Reshape give a tensor another shape: 0 keeps a size, −1 is what is left; None if nothing does."""
        if not self._primes:
            return tuple(new)
        found = []
        for k, size in enumerate(new):
            if self.is_constant(size):
                found.append(size)
            else:
                found.append(0 if k < len(old) and old[k] == size else -1)
        return tuple(found) if found.count(-1) <= 1 else None


def free_name(value: str, axis: int) -> str:
    """What a size is called that has no name: no name in a model has a line break."""
    return f"{value}\n{axis}"


def size_names(model: ModelProto) -> list[str]:
    """Names of the sizes of inputs, those without one included, in order."""
    found: dict[str, None] = {}
    constants = {tensor.name for tensor in model.graph.initializer}
    for value in model.graph.input:
        if value.type.WhichOneof("value") != "tensor_type" or value.name in constants:
            continue
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value"):
                found[dim.dim_param or free_name(value.name, axis)] = None
    return [*found]
