"""Tensors that a plan makes: values over the tensors of a checkpoint, whose elements are not read.

Tensors of one kind, such as those of layers and experts, share a value, so that each operation composes it once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from anydml.files.location import Location, show
from anydml.moves import Access, simplify
from anydml.moves.composer import CONSTANT, INPUT, OUTPUT, Composer
from anydml.moves.move import Lookup
from anydml.moves.move_numbers import renumber_operands
from anydml.moves.pieces import NotComposableError
from anydml.moves.value import Value
from anydml.stores.formats.columns import FileTensors, ShapeAndDtype, TensorNames, bytes_of
from anydml.stores.formats.store import Numbers, Store, StoredArray, StoredPiece
from anydml.stores.planning.copies import MAX_SINGLE_COPIES
from anydml.stores.planning.repeated_moves import CompactProgram, RepeatedMoves
from anydml.tensor import Layout


# Neither frozen nor comparable, because a checkpoint may have a hundred thousand tensors.
@dataclass(slots=True, eq=False)
class ComposedTensor:
    """A tensor that a plan makes.

    Attributes:
        value: the value, whose input k is source k.
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

    def with_value(self, value: Value) -> ComposedTensor:
        """Return a tensor with another value over the same sources."""
        return self if value is self.value else ComposedTensor(value, self.dtype, self.sources)


ComposedTensors = dict[str, ComposedTensor]


@dataclass(frozen=True, slots=True)
class ShardedTensor(StoredArray):
    """A tensor of pieces that partition it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    pieces: tuple[StoredPiece, ...]


StoredTensors = Mapping[str, ShardedTensor | Store]
"""Tensors by name; a store is a tensor of one piece."""


def compose_stored(tensors: StoredTensors) -> ComposedTensors:
    """Return the tensors of a checkpoint; tensors of one shape and dtype share a value."""
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
    values = {
        id(store): Value.of_operand(INPUT + k, store.shape, store.strides, size) for k, store in enumerate(sources)
    }
    for piece in tensor.pieces:
        value = values[id(piece.store)].slice(piece.inside, piece.shape, [1] * len(piece.shape))
        # The box of an input begins at 0 along each axis.
        pieces += [part._replace(start=piece.start) for part in value.pieces]
    return Value(tensor.shape, size, tuple(pieces))


def together(tensors: Sequence[ComposedTensor]) -> tuple[list[Value], tuple[Any, ...]]:
    """Return the values of several tensors over the concatenation of their sources."""
    values, sources = list[Value](), list[Any]()
    for tensor in tensors:
        numbers = range(len(sources), len(sources) + len(tensor.sources))
        values.append(_over(tensor.value, numbers) if sources else tensor.value)
        sources += tensor.sources
    return values, tuple(sources)


def without_unread_sources(value: Value, dtype: np.dtype[Any], sources: Sequence[Any]) -> ComposedTensor:
    """Return a tensor without the sources that its value does not read."""
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
    """Return a value with its inputs renumbered."""

    def at(end: Any) -> Any:
        operand = numbers[end.operand] if end.operand < OUTPUT else end.operand
        return end._replace(operand=operand, lookups=tuple(map(at, end.lookups)))

    pieces = [piece._replace(source=at(piece.source)) if isinstance(piece.source, Access) else piece
              for piece in value.pieces]  # fmt: skip
    return value.with_pieces(pieces)


class WholeTensors:
    """The tensors that a plan makes, and the few distinct values of their parts.

    Args:
        tensors: whole tensors by name.

    Attributes:
        names: the names of tensors.
        tensors: the tensors in the order of their names.
        values: the values of parts.
        kinds: the shapes and dtypes of these values.
    """

    def __init__(self, tensors: Sequence[tuple[str, ComposedTensor]]) -> None:
        self.names = TensorNames([name for name, _ in tensors])
        self.tensors = [tensor for _, tensor in tensors]
        self.values: list[Value] = []
        self.kinds: list[ShapeAndDtype] = []
        self._number_of_value: dict[tuple[int, int], int] = {}

    def number(self, value: Value, dtype: np.dtype[Any]) -> int:
        """Return the number of the value of a part."""
        key = id(value), id(dtype)
        if (value_number := self._number_of_value.get(key)) is None:
            value_number = self._number_of_value[key] = len(self.values)
            self.values.append(value)
            self.kinds.append((value.sizes, dtype))
        return value_number

    @property
    def as_parts(self) -> Parts:
        """All tensors, each as a part."""
        number_of = self.number
        value = np.array([number_of(tensor.value, tensor.dtype) for tensor in self.tensors], np.int32)
        return Parts(self, np.arange(value.size, dtype=np.int32), value)


class Parts(NamedTuple):
    """Parts of tensors, such as those that a file gets, in columns: a plan may have a million.

    Attributes:
        whole_tensors: the tensors, whole.
        tensor: by part, the number of its tensor.
        value: by part, the number of its value.
    """

    whole_tensors: WholeTensors
    tensor: Numbers
    value: Numbers

    @property
    def file_tensors(self) -> FileTensors:
        """The parts as the content of a file."""
        return FileTensors(self.whole_tensors.names, self.tensor, self.whole_tensors.kinds, self.value)

    @property
    def sizes(self) -> Numbers:
        """The bytes of each part."""
        sizes_in_bytes: Numbers = bytes_of(self.whole_tensors.kinds)[self.value]
        return sizes_in_bytes

    def subset(self, numbers: slice | Numbers) -> Parts:
        """Return some of the parts, in any order; those of a slice share the memory of these."""
        return Parts(self.whole_tensors, self.tensor[numbers], self.value[numbers])


def joined(parts: Sequence[Parts]) -> tuple[Parts, list[Parts]]:
    """Return all parts of the same tensors, in order, and the given ones as parts of their memory."""
    tensor, value = (np.concatenate([getattr(some, name) for some in parts]) for name in ("tensor", "value"))
    ends = np.cumsum([some.tensor.size for some in parts]).tolist()
    all_parts = Parts(parts[0].whole_tensors, tensor, value)
    return all_parts, [all_parts.subset(slice(*bounds)) for bounds in pairwise([0, *ends])]


def program_of(composer: Composer, parts: Parts) -> tuple[CompactProgram, list[Store]]:
    """Return the program whose outputs are parts of tensors, and the stores that are its inputs."""
    tensors, tensor, value = parts
    stores: dict[Store, int] = {}
    are_used = np.zeros(len(tensors.tensors), bool)
    are_used[tensor] = True
    sources = [
        composed.sources if is_used else ()
        for composed, is_used in zip(tensors.tensors, are_used.tolist(), strict=True)
    ]
    number_of = stores.setdefault
    inputs = np.array([number_of(store, len(stores)) for used in sources for store in used], np.int32)
    ends = np.cumsum(np.array([*map(len, sources)], np.int64))
    order = np.argsort(value, kind="stable").astype(np.int32)
    kinds = list[RepeatedMoves]()
    for outputs in np.split(order, np.flatnonzero(np.diff(value[order])) + 1) if order.size else ():
        first = tensors.tensors[tensor[outputs[0]]]
        count = len(first.sources)
        inputs_of = inputs[ends[tensor[outputs], None] - np.arange(count, 0, -1)]
        moves = _moves(tensors.values[value[outputs[0]]], count)
        kinds.append(RepeatedMoves(moves, np.hstack([inputs_of, outputs[:, None] + np.int32(len(stores))])))
    return CompactProgram(composer.name, kinds, composer.program()), [*stores]


def _moves(value: Value, sources: int) -> tuple[Any, ...]:
    """Return the moves of a value to one operand; sources are the operands before, constants those after this one."""
    strides, numbers = Layout.packed(value.sizes, value.element_size).strides, _OperandNumbers(sources)
    return simplify(renumber_operands(move, numbers) for move in value.moves(sources, 0, strides))


class _OperandNumbers(dict[int, int]):
    """Numbers of the operands of a value with so many sources: constants come after its output."""

    def __init__(self, sources: int) -> None:
        self._sources = sources

    def __missing__(self, operand: int) -> int:
        return operand - CONSTANT + self._sources + 1 if operand >= CONSTANT else operand


def add_tensor(tensors: ComposedTensors, name: str, tensor: ComposedTensor, location: Location) -> None:
    """Add a tensor.

    Raises:
        ModelError: another one has this name.
    """
    if name in tensors:
        raise location.error(f"makes a second tensor of the name {show(name)}: give it another name, or drop one")
    tensors[name] = tensor


def slice_value(composer: Composer, value: Value, axis: int, start: int, size: int, step: int = 1) -> Value:
    """Return the elements from `start` on along an axis."""
    rank = len(value.sizes)
    starts, sizes, steps = [0] * rank, [*value.sizes], [1] * rank
    starts[axis], sizes[axis], steps[axis] = start, size, step
    return composer.slice(value, starts, sizes, steps)


def pick_indices(composer: Composer, name: str, value: Value, axis: int, indices: Sequence[int]) -> Value:
    """Return the elements of a value at indices of an axis, by joined slices, or by a lookup if runs are many.

    Args:
        composer: the composer of the value.
        name: the name of the indices.
        value: the value to pick from.
        axis: the axis of the value.
        indices: not negative; at least one.
    """
    numbers = np.array(indices, np.int64)
    ends = np.flatnonzero(np.append(np.diff(numbers) != 1, True)) + 1
    if len(ends) > MAX_SINGLE_COPIES and _can_be_looked_up(value, axis, len(numbers)):
        return composer.pick(value, composer.constant(name, numbers), "int64", axis)
    parts, start = [], 0
    for end in ends.tolist():
        parts.append(slice_value(composer, value, axis, int(numbers[start]), end - start))
        start = end
    return composer.join(parts, axis)


def _can_be_looked_up(value: Value, axis: int, count: int) -> bool:
    """Whether a lookup needs no scratch, and does not depend on another lookup."""
    if any(isinstance(piece.source, Access) and piece.source.lookups for piece in value.pieces):
        return False
    try:
        value.pick(Value.of_operand(0, (count,), (8,), 8), "int64", axis)
    except NotComposableError:
        return False
    return True
