"""Tensors that a plan makes: values over tensors of a checkpoint, which are described and not read.

Tensors that are alike, such as those of layers and experts, share one value, so that each operation composes it once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from anydml.files.json_path import JsonPath, show
from anydml.moves import Access, simplify
from anydml.moves.compose import CONSTANT, INPUT, OUTPUT, Composer
from anydml.moves.move import Lookup
from anydml.moves.numbers import renumbered
from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value
from anydml.stores.formats.columns import FileTensors, ShapeAndDtype, TensorNames, bytes_of
from anydml.stores.formats.store import Numbers, Store, StoredArray, StoredPiece
from anydml.stores.planning.alike import AlikeMoves, AlikeProgram
from anydml.stores.planning.copies import MAX_SINGLE_COPIES
from anydml.tensor import Layout


# Neither frozen nor compared, because a checkpoint may have a hundred thousand.
@dataclass(slots=True, eq=False)
class ComposedTensor:
    """A tensor that a plan makes.

    Attributes:
        value: over inputs, of which number k is the k-th source.
        dtype: the dtype of the elements.
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
"""Tensors by name; a store is a tensor of one piece."""


def described(tensors: StoredTensors) -> ComposedTensors:
    """The tensors of a checkpoint; those that are alike share a value."""
    composed: ComposedTensors = {}
    values: dict[Hashable, Value] = {}
    for name, tensor in tensors.items():
        shape, dtype = tensor.shape, tensor.dtype
        if isinstance(tensor, Store):
            sources: tuple[Store, ...] = (tensor,)
            key: Hashable = shape, dtype, tensor.order
        else:
            stores = {id(piece.store): piece.store for piece in tensor.pieces}
            numbers = {store: k for k, store in enumerate(stores)}
            sources = tuple(stores.values())
            key = (shape, dtype, tuple((source.shape, source.order) for source in sources),
                   tuple((numbers[id(piece.store)], *piece[1:]) for piece in tensor.pieces))  # fmt: skip
        value = values.get(key)
        if value is None:
            value = values[key] = _value_of(tensor, sources)
        composed[name] = ComposedTensor(value, dtype, sources)
    return composed


def _value_of(tensor: ShardedTensor | Store, sources: Sequence[Store]) -> Value:
    size, pieces = tensor.dtype.itemsize, []
    as_parts = {id(store): Value.stored(INPUT + k, store.shape, store.strides, size) for k, store in enumerate(sources)}
    for piece in tensor.pieces:
        value = as_parts[id(piece.store)].slice(piece.inside, piece.shape, [1] * len(piece.shape))
        # A box of an input begins at zeros.
        pieces += [part._replace(start=piece.start) for part in value.pieces]
    return Value(tensor.shape, size, tuple(pieces))


def together(tensors: Sequence[ComposedTensor]) -> tuple[list[Value], tuple[Any, ...]]:
    """The values of several tensors over the sources of all, one after the other."""
    values, sources = list[Value](), list[Any]()
    for tensor in tensors:
        numbers = range(len(sources), len(sources) + len(tensor.sources))
        values.append(_over(tensor.value, numbers) if sources else tensor.value)
        sources += tensor.sources
    return values, tuple(sources)


def apart(value: Value, dtype: np.dtype[Any], sources: Sequence[Any]) -> ComposedTensor:
    """A tensor over those of the sources that its value needs."""
    used = list[int]()

    def look(end: Access | Lookup) -> None:
        if end.operand < OUTPUT and end.operand not in used:
            used.append(end.operand)
        for lookup in end.lookups:
            look(lookup)

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

    pieces = [piece._replace(source=at(piece.source)) if isinstance(piece.source, Access) else piece
              for piece in value.pieces]  # fmt: skip
    return value.of(pieces)


class WholeTensors:
    """Tensors that a plan makes, and the values of their parts, of which few differ.

    Args:
        tensors: whole tensors by name.

    Attributes:
        names: the names of tensors.
        tensors: the tensors in the order of their names.
        values: the values of parts.
        kinds: their shapes and dtypes.
    """

    def __init__(self, tensors: Sequence[tuple[str, ComposedTensor]]) -> None:
        self.names = TensorNames([name for name, _ in tensors])
        self.tensors = [tensor for _, tensor in tensors]
        self.values: list[Value] = []
        self.kinds: list[ShapeAndDtype] = []
        self._known: dict[tuple[int, int], int] = {}

    def number(self, value: Value, dtype: np.dtype[Any]) -> int:
        """The number of the value of a part."""
        key = id(value), id(dtype)
        if (number := self._known.get(key)) is None:
            number = self._known[key] = len(self.values)
            self.values.append(value)
            self.kinds.append((value.sizes, dtype))
        return number

    @cached_property
    def as_parts(self) -> Parts:
        """All tensors by name."""
        number = self.number
        value = np.array([number(tensor.value, tensor.dtype) for tensor in self.tensors], np.int32)
        return Parts(self, np.arange(value.size, dtype=np.int32), value)


class Parts(NamedTuple):
    """Parts of tensors, such as those that a file gets, in columns: a plan may have a million.

    Attributes:
        whole_tensors: the tensors, whole.
        tensor: which of them each is of.
        value: the number of its value.
    """

    whole_tensors: WholeTensors
    tensor: Numbers
    value: Numbers

    @property
    def in_file(self) -> FileTensors:
        """The same parts, as what a file has."""
        return FileTensors(self.whole_tensors.names, self.tensor, self.whole_tensors.kinds, self.value)

    @property
    def sizes(self) -> Numbers:
        """Bytes of each."""
        sizes_in_bytes: Numbers = bytes_of(self.whole_tensors.kinds)[self.value]
        return sizes_in_bytes

    def subset(self, numbers: slice | Numbers) -> Parts:
        """Some of them, in another order perhaps."""
        return Parts(self.whole_tensors, self.tensor[numbers], self.value[numbers])


def program_of(composer: Composer, files: Sequence[Parts]) -> tuple[AlikeProgram, list[Store]]:
    """The program that makes parts of tensors, which are its outputs, and its inputs."""
    tensors = files[0].whole_tensors
    tensor, value = (np.concatenate([getattr(file, name) for file in files]) for name in ("tensor", "value"))
    stores: dict[Store, int] = {}
    are_used = np.zeros(len(tensors.tensors), bool)
    are_used[tensor] = True
    sources = [
        composed.sources if is_used else ()
        for composed, is_used in zip(tensors.tensors, are_used.tolist(), strict=True)
    ]
    number = stores.setdefault
    inputs = np.array([number(store, len(stores)) for used in sources for store in used], np.int32)
    ends = np.cumsum(np.array([*map(len, sources)], np.int64))
    order = np.argsort(value, kind="stable").astype(np.int32)
    kinds = list[AlikeMoves]()
    for outputs in np.split(order, np.flatnonzero(np.diff(value[order])) + 1) if order.size else ():
        first = tensors.tensors[tensor[outputs[0]]]
        count = len(first.sources)
        inputs_of = inputs[ends[tensor[outputs], None] - np.arange(count, 0, -1)]
        moves = _moves(tensors.values[value[outputs[0]]], count)
        kinds.append(AlikeMoves(moves, np.hstack([inputs_of, outputs[:, None] + np.int32(len(stores))])))
    return AlikeProgram(composer.name, kinds, composer.program()), [*stores]


def _moves(value: Value, sources: int) -> tuple[Any, ...]:
    """The moves of a value to the operand after its sources; constants follow."""
    strides = Layout.packed(value.sizes, value.element_size).strides

    class Numbers(dict[int, int]):
        def __missing__(self, operand: int) -> int:
            return operand - CONSTANT + sources + 1 if operand >= CONSTANT else operand

    return simplify(renumbered(move, Numbers()) for move in value.moves(sources, 0, strides))


def put(tensors: ComposedTensors, name: str, tensor: ComposedTensor, place: JsonPath) -> None:
    """Add a tensor.

    Raises:
        ModelError: another one has this name.
    """
    if name in tensors:
        raise place.error(f"makes a second tensor of the name {show(name)}: give it another name, or drop one")
    tensors[name] = tensor


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
        name: the name of the indices.
        value: to pick from.
        axis: the axis of the value.
        indices: not negative; at least one.
    """
    numbers = np.array(indices, np.int64)
    ends = np.flatnonzero(np.append(np.diff(numbers) != 1, True)) + 1
    if len(ends) > MAX_SINGLE_COPIES and _can_be_looked_up(value, axis, len(numbers)):
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
