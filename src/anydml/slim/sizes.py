"""Symbolic sizes: each is represented by a prime, so that it is recognized in products of sizes.

Derived sizes that proofs know, such as N + 1 or (N + 3) // 4, are recognized by a prime factor of their value. All
other sizes are treated as constants; those that vary are found by repeating the analysis with other primes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from onnx import GraphProto, ModelProto

from anydml.onnx.walk import bodies
from anydml.proving.names import size_names, unnamed_size
from anydml.proving.sizes import Size, evaluate, name, names_of, variables

MIN_PRIME = 211
"""No prime is smaller."""

PRIMES_END = 1 << 14
"""All primes are smaller."""

MIN_FACTOR = 29
"""Smallest prime factor by which a derived size is recognized: smaller ones divide many numbers."""

MAX_SETS = 3
"""Largest number of sets of primes for which a model is analysed."""


def with_sizes(model: ModelProto, sizes: Mapping[str, int]) -> ModelProto:
    """Return a model in which names of sizes are numbers."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for body in bodies([copy.graph]):
        assert isinstance(body, GraphProto), "functions are left out"
        for value in (*body.input, *body.output, *body.value_info):
            dims = value.type.tensor_type.shape.dim if value.type.HasField("tensor_type") else ()
            for axis, dim in enumerate(dims):
                size_name = dim.dim_param or unnamed_size(value.name, axis)
                if size_name in sizes and not dim.HasField("dim_value"):
                    dim.dim_value = sizes[size_name]
    return copy


class StandIns:
    """Primes that stand for symbolic sizes.

    Attributes:
        sizes: the primes by the names of the sizes.
    """

    def __init__(self, sizes: Mapping[str, int], factors: Iterable[int] = ()) -> None:
        self.sizes = sizes
        self._product = math.prod({*sizes.values(), *factors})

    @classmethod
    def several(
        cls, model: ModelProto, derived: Collection[Size] = (), limits: Mapping[str, int] | None = None
    ) -> list[StandIns]:
        """Return disjoint sets of primes that divide no size in the model; none if there are too few.

        Args:
            model: the model.
            derived: derived sizes of its values.
            limits: by name, numbers that primes exceed only if there are too few below.
        """
        names = size_names(model)
        if not names:
            return [cls({})]
        known_sizes = {*_known_sizes(model), *(size for size in derived if isinstance(size, int))} - {0}
        sizes_by_name = dict.fromkeys(
            factor for size in derived for factor in variables(size) if names_of(factor) <= {*names}
        )
        for key in names:
            sizes_by_name.pop(name(key), None)
        choice, sets = _Choice(names, sizes_by_name, known_sizes, limits or {}), list[StandIns]()
        while len(sets) < MAX_SETS and (chosen := choice.next()) is not None:
            sets.append(cls(*chosen))
        return sets if len(sets) > 1 else []

    def is_constant(self, *sizes: int) -> bool:
        """Whether none of the numbers is a multiple of a symbolic size."""
        return all(not size or math.gcd(size, self._product) == 1 for size in sizes)

    def shape(self, old: Sequence[int], new: Sequence[int]) -> tuple[int, ...] | None:
        """Return the input of Reshape that changes one shape to another (0 keeps a size, −1 is inferred), if any."""
        if not self.sizes:
            return tuple(new)
        sizes = []
        for k, size in enumerate(new):
            is_kept = k < len(old) and old[k] == size
            sizes.append(size if self.is_constant(size) else 0 if is_kept else -1)
        # If a kept size may be 0, no size can be inferred.
        return tuple(sizes) if sizes.count(-1) <= (0 not in sizes) else None

    def can_reshape(self, *shapes: Sequence[int]) -> bool:
        """Whether a Reshape from each shape to each other one can be written."""
        return all(self.shape(a, b) is not None for a in shapes for b in shapes)


class _Choice:
    """Chooses primes for names, so that the value of each derived size has a prime factor of its own.

    Args:
        names: the names.
        derived: the sizes.
        known_sizes: numbers that none of the primes may divide.
        limits: by name, numbers that primes should not exceed.
    """

    def __init__(
        self, names: Sequence[str], derived: Iterable[Size], known_sizes: Collection[int], limits: Mapping[str, int]
    ) -> None:
        self._names, self._known, self._limits = names, known_sizes, limits
        self._taken = set[int]()
        self._derived: dict[str, list[Size]] = {key: [] for key in names}
        for size in derived:
            names_in_size = names_of(size)
            # A derived size has a value as soon as all of its names have values.
            self._derived[max(names_in_size, key=[*names].index)].append(size)

    def next(self) -> tuple[dict[str, int], set[int]] | None:
        """Return primes by name, and the prime factors of derived sizes; None if there are too few primes."""
        chosen, factors = dict[str, int](), set[int]()
        for key in self._names:
            best: tuple[int, set[int]] | None = None
            low = _primes(MIN_FACTOR, min(MIN_PRIME, self._limits.get(key, 0) + 1))
            for prime in filter(self._is_free, itertools.chain(low, _primes(MIN_PRIME, PRIMES_END))):
                factors_of = self._factors(self._derived[key], {**chosen, key: prime})
                factors_of_sizes = {*factors_of.values()} - {0}
                if best is None or len(factors_of_sizes) > len(best[1]):
                    best = prime, factors_of_sizes
                if all(factors_of.values()):
                    break
            if best is None:
                return None
            chosen[key], new_factors = best
            factors |= new_factors
            self._taken |= {chosen[key], *new_factors}
        return chosen, factors

    def _is_free(self, prime: int) -> bool:
        return prime not in self._taken and all(size % prime for size in self._known)

    def _factors(self, sizes: Sequence[Size], values: Mapping[str, int]) -> dict[int, int]:
        """Return a prime factor for each size, by its value; the first size without one gets 0, and ends the search."""
        stand_ins = dict[int, int]()
        for size in sizes:
            value = evaluate(size, values) or 0
            if value in stand_ins:
                continue
            used = {*stand_ins.values(), *values.values()}
            free = [p for p in _prime_factors(value) if p >= MIN_FACTOR and p not in used and self._is_free(p)]
            stand_ins[value] = max(free, default=0)
            if not free:
                break
        return stand_ins


def _primes(first: int, end: int) -> Iterator[int]:
    return (k for k in range(first | 1, end, 2) if all(k % d for d in range(3, math.isqrt(k) + 1, 2)))


def _prime_factors(value: int) -> Iterator[int]:
    for k in itertools.count(2):
        if k * k > value:
            break
        if value % k == 0:
            yield k
            while value % k == 0:
                value //= k
    if value > 1:
        yield value


def _known_sizes(model: ModelProto) -> Iterable[int]:
    for tensor in model.graph.initializer:
        yield from tensor.dims
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        yield from (dim.dim_value for dim in value.type.tensor_type.shape.dim)
