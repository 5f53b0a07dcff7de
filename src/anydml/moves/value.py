"""Values: lazy tensors, which describe the result of a chain of views, joins, pads and lookups by a few pieces.

A value is a box of elements, covered by pieces. A piece corresponds to a move: it has *factors*, each with a size, an
axis of the value, and a step along that axis; and a source, with one stride per factor. Element
``start + Σ digit·step`` of the value is read at ``offset + Σ digit·stride`` of the source. So an axis may consist of
several factors, as after a transposition and a merge of axes, and nothing is copied:

    slicing intersects pieces     joining shifts them     permuting renames axes
    merging axes scales steps     splitting axes cuts factors     picking replaces an axis by lookups

An operation that this form cannot express raises `NotComposableError` with the reason; the value must be stored first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from anydml.moves.arithmetic_sequences import is_arithmetic_sequence, sliced_source
from anydml.moves.cuts import crop, diagonal, flip, split_axis, take_every
from anydml.moves.move import Access, Fill, Move, OutOfRange, make_tuple
from anydml.moves.open_numbers import are_same, has_zero, is_one, is_zero, value_of
from anydml.moves.pieces import (
    Factor,
    NotComposableError,
    Piece,
    is_whole,
    is_whole_by_comparison,
    lookup_source,
    other_factors,
    slice_whole_axis,
    source_by_factors,
    tidy,
    with_unit_axes,
    with_zero_strides,
)

MAX_PIECES = 4096
"""Maximum number of pieces of a value."""


class Value:
    """A lazy tensor: a description of its elements' sources.

    Args:
        sizes: the shape.
        element_size: bytes per element.
        pieces: disjoint boxes that cover all elements.
        access: instead of pieces, what reads all elements, without lookups, with one stride per axis.
    """

    __slots__ = ("_pieces", "access", "element_size", "sizes")

    def __init__(
        self,
        sizes: tuple[int, ...],
        element_size: int,
        pieces: tuple[Piece, ...] | None = None,
        access: Access | None = None,
    ) -> None:
        self.sizes = sizes
        self.element_size = element_size
        self.access = access
        self._pieces = pieces

    @property
    def pieces(self) -> tuple[Piece, ...]:
        """Disjoint boxes that cover all elements."""
        if self._pieces is None:
            source = self.access
            self._pieces = () if source is None or has_zero(self.sizes) else (_whole_piece(self.sizes, source),)
        return self._pieces

    @classmethod
    def of_operand(cls, operand: int, sizes: Sequence[int], strides: Sequence[int], element_size: int) -> Value:
        """Return a value that is an operand of a program, with strides in bytes."""
        return cls(tuple(sizes), element_size, None, make_tuple(Access, (operand, 0, tuple(strides), ())))

    @classmethod
    def of_fill(cls, sizes: Sequence[int], pattern: bytes) -> Value:
        """Return a value whose elements are all `pattern`."""
        sizes = tuple(sizes)
        return cls(sizes, len(pattern), () if has_zero(sizes) else (_whole_piece(sizes, Fill(pattern)),))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __repr__(self) -> str:
        return f"Value(sizes={self.sizes!r}, element_size={self.element_size!r}, pieces={self.pieces!r})"

    def _fields(self) -> tuple[Any, ...]:
        return self.sizes, self.element_size, self.pieces

    def with_pieces(self, pieces: Iterable[Piece]) -> Value:
        """Return a value of the same sizes with other pieces."""
        return Value(self.sizes, self.element_size, tuple(pieces))

    def without_empty(self) -> Value:
        """Drop pieces without elements, for operations that would store the value because of them."""
        pieces = [p for p in self.pieces if all(value_of(f.size) or f.size != 0 for f in p.factors)]
        return self if len(pieces) == len(self.pieces) else self.with_pieces(pieces)

    def moves(self, operand: int, offset: int, strides: Sequence[int]) -> Iterator[Move]:
        """Yield the moves that store this value in an operand, with strides in bytes."""
        for start, factors, source in self.pieces:
            to = offset + sum([first * strides[axis] for axis, first in enumerate(start)])
            steps = tuple([step * strides[axis] for axis, _, step in factors])
            sizes = tuple([size for _, size, _ in factors])
            yield make_tuple(Move, (sizes, make_tuple(Access, (operand, to, steps, ())), source, self.element_size))

    def permute(self, axes: Sequence[int]) -> Value:
        """Permute the axes: axis k of the result is axis ``axes[k]`` of this value."""
        sizes = tuple([self.sizes[axis] for axis in axes])
        if (access := self.access) is not None:
            strides = tuple([access.strides[axis] for axis in axes])
            return _viewed(sizes, self.element_size, access, access.offset, strides)
        new_axis = {axis: k for k, axis in enumerate(axes)}
        pieces = []
        for start, factors, source in self.pieces:
            boxes = tuple([make_tuple(Factor, (new_axis[axis], size, step)) for axis, size, step in factors])
            pieces.append(make_tuple(Piece, (tuple([start[axis] for axis in axes]), boxes, source)))
        return Value(sizes, self.element_size, tuple(pieces))

    def broadcast(self, sizes: Sequence[int]) -> Value:
        """Broadcast by NumPy's rules: axes are prepended, and axes of size 1 repeated."""
        value = self.reshape((*(1,) * (len(sizes) - len(self.sizes)), *self.sizes))
        pairs = zip(value.sizes, sizes, strict=True)
        repeated = [
            k
            for k, (old_size, new_size) in enumerate(pairs)
            if not are_same(old_size, new_size) and (is_one(old_size) or old_size != new_size)
        ]
        if (access := value.access) is not None:
            strides = tuple([0 if k in repeated else stride for k, stride in enumerate(access.strides)])
            return _viewed(sizes, self.element_size, access, access.offset, strides)
        extra = tuple(Factor(k, sizes[k], 1) for k in repeated)
        # A piece whose size is open may turn out empty, so its factors are kept.
        is_only = len(value.pieces) == 1

        def is_kept(factor: Factor) -> bool:
            return factor.axis not in repeated or not (is_only or is_one(factor.size))

        pieces = tuple(
            piece._replace(
                factors=(*filter(is_kept, piece.factors), *extra),
                source=with_zero_strides(source_by_factors(piece, is_kept), len(extra)),
            )
            for piece in value.pieces
        )
        return Value(tuple(sizes), self.element_size, () if has_zero(sizes) else pieces)

    def slice(self, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Value:
        """``result[c] = self[starts + steps·c]``; all coordinates must be in range."""
        if (access := self.access) is not None:
            offset, strides = access.offset, []
            for start, step, stride in zip(starts, steps, access.strides, strict=True):
                offset = offset if is_zero(start) else offset + start * stride
                strides.append(stride if is_one(step) else stride * step)
            return _viewed(sizes, self.element_size, access, offset, strides)
        if len(self.pieces) == 1 and isinstance(self.pieces[0].source, Fill):
            pieces = [] if has_zero(sizes) else [_whole_piece(sizes, self.pieces[0].source)]
            return _value_of_pieces(sizes, self.element_size, pieces)
        value = self
        for axis, (start, size, step) in enumerate(zip(starts, sizes, steps, strict=True)):
            if is_zero(start) and is_one(step) and are_same(size, value.sizes[axis]):
                continue
            if len(value.pieces) == 1 and is_whole(value.pieces[0], axis, value.sizes[axis]):
                pieces = [] if is_zero(size) else [slice_whole_axis(value.pieces[0], axis, start, size, step)]
                value = _value_of_pieces(
                    (*value.sizes[:axis], size, *value.sizes[axis + 1 :]), self.element_size, pieces
                )
                continue
            if step < 0:
                value = value._flipped(axis)
                start, step = value.sizes[axis] - 1 - start, -step  # noqa: PLW2901
            value = value._strided(axis, start, size, step)
        return value

    def _flipped(self, axis: int) -> Value:
        return self.with_pieces([flip(piece, axis, self.sizes[axis]) for piece in self.pieces])

    def _strided(self, axis: int, start: int, size: int, step: int) -> Value:
        end = start + (size - 1) * step + 1
        pieces: list[Piece] = []
        for piece in self.pieces:
            for inside in crop(piece, axis, start, end, self.sizes[axis]):
                pieces += take_every(inside, axis, start, step)
        return _value_of_pieces(
            (*self.sizes[:axis], size, *self.sizes[axis + 1 :]), self.element_size, [] if is_zero(size) else pieces
        )

    def reshape(self, sizes: Sequence[int]) -> Value:
        """Reshape in row-major order.

        Raises:
            NotComposableError: the new axes cut a factor at unequal places.
        """
        before, after = ([k for k, size in enumerate(shape) if not is_one(size)] for shape in (self.sizes, sizes))
        pairs = [*zip(before, after, strict=False)]
        if len(before) == len(after) and all(are_same(self.sizes[i], sizes[j]) for i, j in pairs):
            # Only axes of size 1 come and go.
            if (access := self.access) is not None:
                strides = [0] * len(sizes)
                for i, j in pairs:
                    strides[j] = access.strides[i]
                return _viewed(sizes, self.element_size, access, access.offset, strides)
            is_only = len(self.pieces) == 1
            pieces = tuple([with_unit_axes(piece, dict(pairs), len(sizes), is_only) for piece in self.pieces])
            return Value(tuple(sizes), self.element_size, pieces)
        if any(not size for size in map(value_of, self.sizes)) and 0 in self.sizes:
            return Value(tuple(sizes), self.element_size, ())
        value, axis = self._with_axis(), 0
        for old_sizes, new_sizes in _groups(value.sizes, sizes or (1,)):
            if old_sizes != new_sizes:
                for _ in old_sizes[1:]:
                    value = value._merged_axes(axis)
                for k, size in enumerate(new_sizes[:-1]):
                    value = value._split_axis(axis + k, size)
            axis += len(new_sizes)
        return value if sizes else value._without_axis()

    def with_axis(self, axis: int) -> Value:
        """Insert an axis of size 1."""
        sizes = (*self.sizes[:axis], 1, *self.sizes[axis:])
        if (access := self.access) is not None:
            strides = (*access.strides[:axis], 0, *access.strides[axis:])
            return _viewed(sizes, self.element_size, access, access.offset, strides)
        pieces = []
        for start, factors, source in self.pieces:
            moved = [make_tuple(Factor, (old + (old >= axis), size, step)) for old, size, step in factors]
            pieces.append(make_tuple(Piece, ((*start[:axis], 0, *start[axis:]), tuple(moved), source)))
        return Value(sizes, self.element_size, tuple(pieces))

    def _with_axis(self) -> Value:
        """Insert an axis of size 1 into a scalar."""
        if self.sizes:
            return self
        return Value((1,), self.element_size, tuple(piece._replace(start=(0,)) for piece in self.pieces))

    def _without_axis(self) -> Value:
        """Remove the only axis, of size 1."""
        is_only = len(self.pieces) == 1
        return Value((), self.element_size, tuple([with_unit_axes(piece, {}, 0, is_only) for piece in self.pieces]))

    def _merged_axes(self, axis: int) -> Value:
        """Merge `axis` and `axis` + 1."""
        inner = self.sizes[axis + 1]
        pieces = []
        for start, factors, source in self.pieces:
            merged = tuple(
                Factor(axis, size, step * inner) if old == axis else Factor(old - (old > axis), size, step)
                for old, size, step in factors
            )
            first = start[axis] * inner + start[axis + 1]
            pieces.append(tidy(Piece((*start[:axis], first, *start[axis + 2 :]), merged, source)))
        sizes = (*self.sizes[:axis], self.sizes[axis] * inner, *self.sizes[axis + 2 :])
        return _value_of_pieces(sizes, self.element_size, pieces)

    def _split_axis(self, axis: int, outer: int) -> Value:
        """Split an axis in two, the first of size `outer`."""
        if type(outer) is int and outer == 1:
            return self.with_axis(axis)
        inner = self.sizes[axis] // outer
        pieces: list[Piece] = []
        for piece in self.without_empty().pieces:
            pieces += split_axis(piece, axis, inner)
        return _value_of_pieces((*self.sizes[:axis], outer, inner, *self.sizes[axis + 1 :]), self.element_size, pieces)

    def diagonal(self, axis: int, second_axis: int) -> Value:
        """``result[…, i, …] = self[…, i, …, i, …]``: one axis in place of two of equal size.

        Args:
            axis: the axis that remains; it precedes `second_axis`.
            second_axis: the axis that is removed.

        Raises:
            NotComposableError: one of the axes consists of several factors.
        """
        pieces: list[Piece] = []
        for piece in map(tidy, self.without_empty().pieces):
            pieces += diagonal(piece, axis, second_axis)
        return _value_of_pieces((*self.sizes[:second_axis], *self.sizes[second_axis + 1 :]), self.element_size, pieces)

    def pick(self, indices: Value, dtype: str, axis: int, outside: OutOfRange = "clamp") -> Value:
        """``result[lead, i, trail] = self[lead, indices[i], trail]``.

        Args:
            indices: the integers.
            dtype: NumPy's name of their type: int32, int64, uint32 or uint64.
            axis: 0 to rank − 1; not empty if there are indices.
            outside: treatment of indices out of range.

        Raises:
            NotComposableError: the axis consists of several pieces or factors, or the indices include a fill.
        """
        size, count = self.sizes[axis], len(indices.sizes)
        pieces: list[Piece] = []
        for piece in map(tidy, self.without_empty().pieces):
            if is_arithmetic_sequence(piece.source):
                raise NotComposableError("a sequence that is not stored is looked up")
            if not is_whole_by_comparison(piece, axis, size):
                raise NotComposableError(f"it is looked up along axis {axis}, which consists of several pieces")
            for index in indices.pieces:
                if isinstance(index.source, Fill):
                    raise NotComposableError("its indices are in part a fill")
                factors = [f._replace(axis=f.axis + (count - 1) * (f.axis > axis)) for f in other_factors(piece, axis)]
                factors += [factor._replace(axis=factor.axis + axis) for factor in index.factors]
                start = (*piece.start[:axis], *index.start, *piece.start[axis + 1 :])
                if is_arithmetic_sequence(index.source):
                    source = sliced_source(piece, index, axis, size)
                else:
                    source = lookup_source(piece, index.source, axis, size, dtype, outside, len(index.factors))
                pieces.append(Piece(start, tuple(factors), source))
        return _value_of_pieces(
            (*self.sizes[:axis], *indices.sizes, *self.sizes[axis + 1 :]), self.element_size, pieces
        )


def join(values: Sequence[Value], axis: int) -> Value:
    """Concatenate values along an axis; all other sizes must be equal."""
    pieces: list[Piece] = []
    start = 0
    for value in values:
        if (access := value.access) is not None:
            if not has_zero(value.sizes):
                pieces.append(_whole_piece(value.sizes, access, axis, start))
        else:
            for first, factors, source in value.pieces:
                new_start = (*first[:axis], first[axis] + start, *first[axis + 1 :])
                pieces.append(make_tuple(Piece, (new_start, factors, source)))
        start = start + value.sizes[axis]
    sizes = values[0].sizes
    return _value_of_pieces((*sizes[:axis], start, *sizes[axis + 1 :]), values[0].element_size, pieces)


def _groups(old_sizes: Sequence[int], new_sizes: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the shortest non-empty runs of old and new sizes with equal products."""
    i = j = 0
    while i < len(old_sizes) or j < len(new_sizes):
        old_start, new_start = i, j
        old_product = new_product = 1
        while i == old_start or j == new_start or old_product != new_product:
            take_old = old_product < new_product or (i == old_start and old_product == new_product)
            if j == len(new_sizes) or (i < len(old_sizes) and take_old):
                old_product *= old_sizes[i]
                i += 1
            else:
                new_product *= new_sizes[j]
                j += 1
        # Trailing axes of size 1 join the preceding run.
        if i < len(old_sizes) and j == len(new_sizes) and all(size == 1 for size in old_sizes[i:]):
            i = len(old_sizes)
        if j < len(new_sizes) and i == len(old_sizes) and all(size == 1 for size in new_sizes[j:]):
            j = len(new_sizes)
        yield tuple(old_sizes[old_start:i]), tuple(new_sizes[new_start:j])


def _viewed(sizes: Sequence[int], element_size: int, access: Access, offset: int, strides: Sequence[int]) -> Value:
    """Return the value of an operand's elements at another offset, in other sizes and strides."""
    return Value(tuple(sizes), element_size, None, make_tuple(Access, (access.operand, offset, tuple(strides), ())))


def _whole_piece(sizes: Sequence[int], source: Access | Fill, axis: int = 0, place: int = 0) -> Piece:
    """Return a piece that covers a value, or that starts at a coordinate along one axis."""
    start, factors = [0] * len(sizes), tuple([make_tuple(Factor, (k, size, 1)) for k, size in enumerate(sizes)])
    if start:
        start[axis] = place
    return make_tuple(Piece, (tuple(start), factors, source))  # type: ignore[no-any-return]


def _value_of_pieces(sizes: Sequence[int], element_size: int, pieces: Sequence[Piece]) -> Value:
    if len(pieces) > MAX_PIECES:
        raise NotComposableError(f"it would be {len(pieces)} pieces")
    return Value(tuple(sizes), element_size, tuple(pieces))
