"""Tensors that a plan makes: values over tensors of a checkpoint, which are described and not read.

Tensors that are alike, such as those of layers and experts, share one value, so that each operation composes it once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anydml.files.json_path import JsonPath, show
from anydml.moves import Access, simplify
from anydml.moves.compose import CONSTANT, INPUT, OUTPUT, Composer
from anydml.moves.move import Lookup
from anydml.moves.pieces import NotComposableError
from anydml.moves.program import renumbered
from anydml.moves.value import Value
from anydml.stores.formats.store import Store, StoredArray, StoredPiece
from anydml.stores.planning.alike import AlikeMoves, AlikeProgram
from anydml.stores.planning.copies import FEW
from anydml.tensor import Layout


# Neither frozen nor compared, because a checkpoint may have a hundred thousand.
@dataclass(slots=True, eq=False)
class ComposedTensor:
    """A tensor that a plan makes.

    Attributes:
        value: over inputs, of which number k is the k-th source.
        dtype: of the elements.
        sources: stores, or their numbers.
    """

    value: Value
    dtype: np.dtype[Any]
    sources: tuple[Any, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, by dimension."""
        return self.value.sizes

    def changed(self, value: Value) -> ComposedTensor:
        """Another value over the same sources."""
        return self if value is self.value else ComposedTensor(value, self.dtype, self.sources)


ComposedTensors = dict[str, ComposedTensor]


@dataclass(frozen=True, slots=True)
class ShardedTensor(StoredArray):
    """A tensor in pieces that partition it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    pieces: tuple[StoredPiece, ...]


StoredTensors = Mapping[str, ShardedTensor | Store]
"""By name; a store is a tensor of one piece."""


def described(tensors: StoredTensors) -> ComposedTensors:
    """The tensors of a checkpoint; those that are alike share a value."""
    made: ComposedTensors = {}
    known: dict[Hashable, Value] = {}
    for name, tensor in tensors.items():
        shape, dtype = tensor.shape, tensor.dtype
        if isinstance(tensor, Store):
            sources: tuple[Store, ...] = (tensor,)
            key: Hashable = shape, dtype, tensor.order
        else:
            every = {id(piece.store): piece.store for piece in tensor.pieces}
            numbers = {store: k for k, store in enumerate(every)}
            sources = tuple(every.values())
            key = (shape, dtype, tuple((each.shape, each.order) for each in sources),
                   tuple((numbers[id(each.store)], *each[1:]) for each in tensor.pieces))  # fmt: skip
        value = known.get(key)
        if value is None:
            value = known[key] = _value_of(tensor, sources)
        made[name] = ComposedTensor(value, dtype, sources)
    return made


def _value_of(tensor: ShardedTensor | Store, sources: Sequence[Store]) -> Value:
    size, pieces = tensor.dtype.itemsize, []
    wholes = {id(store): Value.stored(INPUT + k, store.shape, store.strides, size) for k, store in enumerate(sources)}
    for piece in tensor.pieces:
        value = wholes[id(piece.store)].slice(piece.inside, piece.shape, [1] * len(piece.shape))
        # A box of an input begins at zeros.
        pieces += [each._replace(start=piece.start) for each in value.pieces]
    return Value(tensor.shape, size, tuple(pieces))


def together(tensors: Sequence[ComposedTensor]) -> tuple[list[Value], tuple[Any, ...]]:
    """The values of several tensors over the sources of all, one after the other."""
    values, sources = list[Value](), list[Any]()
    for each in tensors:
        numbers = range(len(sources), len(sources) + len(each.sources))
        values.append(_over(each.value, numbers) if sources else each.value)
        sources += each.sources
    return values, tuple(sources)


def apart(value: Value, dtype: np.dtype[Any], sources: Sequence[Any]) -> ComposedTensor:
    """A tensor over those of the sources that its value needs."""
    used = list[int]()

    def look(end: Access | Lookup) -> None:
        if end.operand < OUTPUT and end.operand not in used:
            used.append(end.operand)
        for each in end.lookups:
            look(each)

    for piece in value.pieces:
        if isinstance(piece.source, Access):
            look(piece.source)
    numbers = {operand: INPUT + k for k, operand in enumerate(used)}
    return ComposedTensor(_over(value, numbers), dtype, tuple(sources[operand - INPUT] for operand in used))


def _over(value: Value, numbers: Mapping[int, int] | Sequence[int]) -> Value:
    """A value with other numbers of inputs."""

    def at(end: Any) -> Any:
        operand = numbers[end.operand] if end.operand < OUTPUT else end.operand
        return end._replace(operand=operand, lookups=tuple(map(at, end.lookups)))

    pieces = [each._replace(source=at(each.source)) if isinstance(each.source, Access) else each
              for each in value.pieces]  # fmt: skip
    return value.of(pieces)


def program_of(composer: Composer, made: Sequence[ComposedTensor]) -> tuple[AlikeProgram, list[Store]]:
    """The program that makes tensors, which are its outputs, and its inputs."""
    stores: dict[Store, int] = {}
    numbers = [stores.setdefault(store, len(stores)) for each in made for store in each.sources]
    inputs, ends = np.array(numbers, np.int64), np.cumsum([len(each.sources) for each in made], dtype=np.int64)
    alike = defaultdict[int, list[int]](list)
    for number, tensor in enumerate(made):
        alike[id(tensor.value)].append(number)
    kinds = list[AlikeMoves]()
    for own in alike.values():
        first, outputs = made[own[0]], np.array(own)[:, None]
        sources = inputs[ends[outputs] - np.arange(len(first.sources), 0, -1)]
        kinds.append(AlikeMoves(_moves(first.value, len(first.sources)), np.hstack([sources, outputs + len(stores)])))
    return AlikeProgram(composer.name, kinds, composer.program()), [*stores]


def _moves(value: Value, sources: int) -> tuple[Any, ...]:
    """The moves of a value to the operand after its sources; constants follow."""
    strides = Layout.packed(value.sizes, value.element_size).strides

    class Numbers(dict[int, int]):
        def __missing__(self, operand: int) -> int:
            return operand - CONSTANT + sources + 1 if operand >= CONSTANT else operand

    return simplify(renumbered(move, Numbers()) for move in value.moves(sources, 0, strides))


def put(made: ComposedTensors, name: str, tensor: ComposedTensor, place: JsonPath) -> None:
    """Add a tensor.

    Raises:
        ModelError: another one has this name.
    """
    if name in made:
        raise place.error(f"makes a second tensor of the name {show(name)}")
    made[name] = tensor


def sliced(composer: Composer, value: Value, axis: int, start: int, size: int, step: int = 1) -> Value:
    """Elements along an axis, from `start` on; all elements of the other axes."""
    rank = len(value.sizes)
    starts, sizes, steps = [0] * rank, [*value.sizes], [1] * rank
    starts[axis], sizes[axis], steps[axis] = start, size, step
    return composer.slice(value, starts, sizes, steps)


def picked(composer: Composer, name: str, value: Value, axis: int, indices: Sequence[int]) -> Value:
    """The elements of a value at indices of an axis: joined slices of runs, or a lookup where runs are many.

    Args:
        composer: that made the value.
        name: of the indices.
        value: to pick from.
        axis: of the value.
        indices: not negative; at least one.
    """
    numbers = np.array(indices, np.int64)
    ends = np.flatnonzero(np.append(np.diff(numbers) != 1, True)) + 1
    if len(ends) > FEW and _can_be_looked_up(value, axis, len(numbers)):
        return composer.pick(value, composer.constant(name, numbers), "int64", axis)
    parts, start = [], 0
    for end in ends.tolist():
        parts.append(sliced(composer, value, axis, int(numbers[start]), end - start))
        start = end
    return composer.join(parts, axis)


def _can_be_looked_up(value: Value, axis: int, count: int) -> bool:
    """Whether a lookup needs no scratch, and does not depend on another lookup."""
    if any(isinstance(piece.source, Access) and piece.source.lookups for piece in value.pieces):
        return False
    try:
        value.pick(Value.stored(0, (count,), (8,), 8), "int64", axis)
    except NotComposableError:
        return False
    return True
