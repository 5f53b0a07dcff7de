"""Values: tensors that are not there yet. What a chain of views, joins, pads and gathers reads, as a few pieces.

A value is a box of elements, covered by pieces. A piece is what a move would be: it has *factors*, each with a size,
the axis of the value along which it steps, and how far; and the source that it reads, with one stride per factor.
Element ``start + Σ digit·step`` of the value is found at ``offset + Σ digit·stride`` of the source. So an axis may be
made of several factors, as after a transposition and a merge of axes, and nothing is copied:

    slicing intersects pieces     joining shifts them     permuting renames axes
    merging axes scales steps     splitting axes cuts factors     gathering puts lookups where an axis was

Composition is exact or it raises `NotComposableError`, which says why; then the value has to be stored first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from anydml.moves.move import Access, Fill, Lookup, Move, Outside

MOST_PIECES = 4096
"""Pieces of a value at most; what needs more is stored."""

MOST_DIGITS = 64
"""Digits of one factor that are made pieces of their own at most, where a step falls between two factors."""


class NotComposableError(Exception):
    """A value has to be stored before it can be used so; the text says why."""


class Factor(NamedTuple):
    """Part of an axis: `size` elements, `step` apart along `axis` of the value."""

    axis: int
    size: int
    step: int


class Piece(NamedTuple):
    """Elements of a value, and where they come from.

    Attributes:
        start: coordinate of the first, one number per axis of the value.
        factors: the box; the strides of `source` and of its lookups are one per factor.
        source: what is read.
    """

    start: tuple[int, ...]
    factors: tuple[Factor, ...]
    source: Access | Fill


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor that is described, not stored.

    Attributes:
        sizes: its shape.
        element_size: bytes of an element.
        pieces: which together have each element once.
    """

    sizes: tuple[int, ...]
    element_size: int
    pieces: tuple[Piece, ...]

    @classmethod
    def stored(cls, operand: int, sizes: Sequence[int], strides: Sequence[int], element_size: int) -> Value:
        """An operand of a program, with byte strides."""
        factors = tuple(Factor(axis, size, 1) for axis, size in enumerate(sizes))
        piece = Piece((0,) * len(factors), factors, Access(operand, 0, tuple(strides)))
        return cls(tuple(sizes), element_size, () if 0 in sizes else (piece,))

    @classmethod
    def filled(cls, sizes: Sequence[int], pattern: bytes) -> Value:
        """Elements that are all alike."""
        factors = tuple(Factor(axis, size, 1) for axis, size in enumerate(sizes))
        piece = Piece((0,) * len(factors), factors, Fill(pattern))
        return cls(tuple(sizes), len(pattern), () if 0 in sizes else (piece,))

    def moves(self, operand: int, offset: int, strides: Sequence[int]) -> Iterator[Move]:
        """What stores this value in an operand with byte strides."""
        for start, factors, source in self.pieces:
            to = offset + sum(first * strides[axis] for axis, first in enumerate(start))
            steps = tuple(step * strides[axis] for axis, _, step in factors)
            yield Move(tuple(factor.size for factor in factors), Access(operand, to, steps), source, self.element_size)

    def permute(self, axes: Sequence[int]) -> Value:
        """Axis k of the result is axis ``axes[k]`` of this value."""
        place = {axis: k for k, axis in enumerate(axes)}
        pieces = tuple(
            piece._replace(
                start=tuple(piece.start[axis] for axis in axes),
                factors=tuple(factor._replace(axis=place[factor.axis]) for factor in piece.factors),
            )
            for piece in self.pieces
        )
        return Value(tuple(self.sizes[axis] for axis in axes), self.element_size, pieces)

    def broadcast(self, sizes: Sequence[int]) -> Value:
        """NumPy's broadcasting: new axes in front, and axes of 1 repeated."""
        value = self.reshape((*(1,) * (len(sizes) - len(self.sizes)), *self.sizes))
        repeated = [k for k, (old, new) in enumerate(zip(value.sizes, sizes, strict=True)) if old != new]
        extra = tuple(Factor(k, sizes[k], 1) for k in repeated)
        pieces = tuple(
            piece._replace(
                factors=(*(f for f in piece.factors if f.axis not in repeated), *extra),
                source=_still(_kept(piece, lambda f: f.axis not in repeated), len(extra)),
            )
            for piece in value.pieces
        )
        return Value(tuple(sizes), self.element_size, () if 0 in sizes else pieces)

    def slice(self, starts: Sequence[int], sizes: Sequence[int], steps: Sequence[int]) -> Value:
        """``result[c] = self[starts + steps·c]``; every element that is taken lies inside."""
        value = self
        for axis, (start, size, step) in enumerate(zip(starts, sizes, steps, strict=True)):
            if step < 0:
                value = value._flipped(axis)
                start, step = value.sizes[axis] - 1 - start, -step  # noqa: PLW2901
            if (start, size, step) != (0, value.sizes[axis], 1):
                value = value._taken(axis, start, size, step)
        return value

    def _flipped(self, axis: int) -> Value:
        return replace(self, pieces=tuple(_flipped(piece, axis, self.sizes[axis]) for piece in self.pieces))

    def _taken(self, axis: int, start: int, size: int, step: int) -> Value:
        end = start + (size - 1) * step + 1
        pieces: list[Piece] = []
        for piece in self.pieces:
            for inside in _between(piece, axis, start, end):
                pieces += _every(inside, axis, start, step)
        return _value((*self.sizes[:axis], size, *self.sizes[axis + 1 :]), self.element_size, pieces if size else [])

    def reshape(self, sizes: Sequence[int]) -> Value:
        """The same elements, in row-major order, in another shape.

        Raises:
            NotComposableError: a factor would have to be cut where it can't.
        """
        if 0 in self.sizes:
            return Value(tuple(sizes), self.element_size, ())
        value, axis = self._with_axis(), 0
        for old, new in _groups(value.sizes, sizes or (1,)):
            if old != new:
                for _ in old[1:]:
                    value = value._merged_axes(axis)
                for k, size in enumerate(new[:-1]):
                    value = value._split_axis(axis + k, size)
            axis += len(new)
        return value if sizes else value._without_axis()

    def _with_axis(self) -> Value:
        """The same with an axis of 1, if there is none."""
        if self.sizes:
            return self
        return Value((1,), self.element_size, tuple(piece._replace(start=(0,)) for piece in self.pieces))

    def _without_axis(self) -> Value:
        """The one element of a value whose only axis is 1."""
        pieces = tuple(Piece((), (), _kept(piece, lambda factor: False)) for piece in self.pieces)
        return Value((), self.element_size, pieces)

    def _merged_axes(self, axis: int) -> Value:
        """Axes `axis` and `axis` + 1 as one."""
        inner = self.sizes[axis + 1]
        pieces = []
        for start, factors, source in self.pieces:
            merged = tuple(
                Factor(axis, size, step * inner) if own == axis else Factor(own - (own > axis), size, step)
                for own, size, step in factors
            )
            first = start[axis] * inner + start[axis + 1]
            pieces.append(_tidy(Piece((*start[:axis], first, *start[axis + 2 :]), merged, source)))
        sizes = (*self.sizes[:axis], self.sizes[axis] * inner, *self.sizes[axis + 2 :])
        return _value(sizes, self.element_size, pieces)

    def _split_axis(self, axis: int, outer: int) -> Value:
        """An axis as two, of which the first has size `outer`."""
        inner = self.sizes[axis] // outer
        pieces: list[Piece] = []
        for piece in self.pieces:
            pieces += _split(piece, axis, inner)
        return _value((*self.sizes[:axis], outer, inner, *self.sizes[axis + 1 :]), self.element_size, pieces)

    def diagonal(self, axis: int, other: int) -> Value:
        """``result[…, i, …] = self[…, i, …, i, …]``: two axes of one size as one, which stands where `axis` was.

        Args:
            axis: the axis that stays, before `other`.
            other: the axis that goes.

        Raises:
            NotComposableError: one of them is made of several factors.
        """
        pieces: list[Piece] = []
        for piece in map(_tidy, self.pieces):
            pieces += _diagonal(piece, axis, other)
        return _value((*self.sizes[:other], *self.sizes[other + 1 :]), self.element_size, pieces)

    def gather(self, indices: Value, dtype: str, axis: int, outside: Outside = "clamp") -> Value:
        """``result[lead, i, trail] = self[lead, indices[i], trail]``.

        Args:
            indices: integers that are stored, or described.
            dtype: NumPy's name of their type: int32, int64, uint32 or uint64.
            axis: 0 to rank − 1, with at least one element where there are indices.
            outside: what happens where an index lies outside.

        Raises:
            NotComposableError: the axis is made of several pieces or factors, or the indices are not looked up.
        """
        size, count = self.sizes[axis], len(indices.sizes)
        pieces: list[Piece] = []
        for piece in map(_tidy, self.pieces):
            whole = [factor for factor in piece.factors if factor.axis == axis and factor.size > 1]
            if piece.start[axis] or whole != [Factor(axis, size, 1)] * (size > 1):
                raise NotComposableError(f"it is gathered along axis {axis}, which is made of several pieces")
            for index in indices.pieces:
                if isinstance(index.source, Fill):
                    raise NotComposableError("its indices are in part a fill")
                factors = [f._replace(axis=f.axis + (count - 1) * (f.axis > axis)) for f in _rest(piece, axis, False)]
                factors += [factor._replace(axis=factor.axis + axis) for factor in index.factors]
                start = (*piece.start[:axis], *index.start, *piece.start[axis + 1 :])
                source = _looked_up(piece, index.source, axis, size, dtype, outside, len(index.factors))
                pieces.append(Piece(start, tuple(factors), source))
        return _value((*self.sizes[:axis], *indices.sizes, *self.sizes[axis + 1 :]), self.element_size, pieces)


def join(values: Sequence[Value], axis: int) -> Value:
    """Values one after the other along an axis; their other sizes agree."""
    pieces: list[Piece] = []
    start = 0
    for value in values:
        for piece in value.pieces:
            first = (*piece.start[:axis], piece.start[axis] + start, *piece.start[axis + 1 :])
            pieces.append(piece._replace(start=first))
        start += value.sizes[axis]
    sizes = values[0].sizes
    return _value((*sizes[:axis], start, *sizes[axis + 1 :]), values[0].element_size, pieces)


def pad(value: Value, before: Sequence[int], after: Sequence[int], pattern: bytes) -> Value:
    """A value with elements of `pattern` around it; counts are 0 or more, one per axis."""
    for axis, counts in enumerate(zip(before, after, strict=True)):
        front, back = (Value.filled((*value.sizes[:axis], n, *value.sizes[axis + 1 :]), pattern) for n in counts)
        value = join([front, value, back], axis)  # grows axis by axis
    return value


def _groups(old: Sequence[int], new: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Runs of old and new sizes with equal products, as short as they can be, which cover both; none is empty."""
    i = j = 0
    while i < len(old) or j < len(new):
        begin, other = i, j
        have = want = 1
        while i == begin or j == other or have != want:
            if j == len(new) or (i < len(old) and (have < want or (have == want and i == begin))):
                have *= old[i]
                i += 1
            else:
                want *= new[j]
                j += 1
        # Axes of 1 that have no partner of their own go with what is before them.
        if i < len(old) and all(size == 1 for size in old[i:]) and j == len(new):
            i = len(old)
        if j < len(new) and all(size == 1 for size in new[j:]) and i == len(old):
            j = len(new)
        yield tuple(old[begin:i]), tuple(new[other:j])


def _value(sizes: Sequence[int], element_size: int, pieces: Sequence[Piece]) -> Value:
    if len(pieces) > MOST_PIECES:
        raise NotComposableError(f"it would be {len(pieces)} pieces")
    return Value(tuple(sizes), element_size, tuple(pieces))


def _on_strides(
    source: Access | Fill, change: Callable[[tuple[int, ...]], tuple[int, tuple[int, ...]]]
) -> Access | Fill:
    """A source with other strides: `change` gives, for those of the access and of each lookup, a shift and new ones."""
    if isinstance(source, Fill):
        return source

    def changed(access: Access | Lookup) -> tuple[int, tuple[int, ...], tuple[Lookup, ...]]:
        shift, strides = change(access.strides)
        lookups = []
        for lookup in access.lookups:
            offset, own, inner = changed(lookup)
            lookups.append(lookup._replace(offset=offset, strides=own, lookups=inner))
        return access.offset + shift, strides, tuple(lookups)

    return Access(source.operand, *changed(source))


def _still(source: Access | Fill, count: int) -> Access | Fill:
    """A source with `count` more factors in which it stands still."""
    return _on_strides(source, lambda strides: (0, (*strides, *(0,) * count)))


def _kept(piece: Piece, keep: Callable[[Factor], bool]) -> Access | Fill:
    """A piece's source at digit 0 of all factors that are not kept."""
    kept = [k for k, factor in enumerate(piece.factors) if keep(factor)]
    return _on_strides(piece.source, lambda strides: (0, tuple(strides[k] for k in kept)))


def _rest(piece: Piece, axis: int, closes: bool = True) -> tuple[Factor, ...]:
    """The factors of other axes; those behind move up where the gap `closes`."""
    return tuple(
        factor._replace(axis=factor.axis - (closes and factor.axis > axis))
        for factor in piece.factors
        if factor.axis != axis
    )


def _digits(piece: Piece, k: int, first: int, size: int, by: int = 1) -> Piece:
    """A piece with `size` digits of factor k, from `first` on, every `by`-th."""
    axis, _, step = piece.factors[k]
    start = list(piece.start)
    start[axis] += first * step
    factors = (*piece.factors[:k], Factor(axis, size, step * by), *piece.factors[k + 1 :])
    source = _on_strides(
        piece.source,
        lambda strides: (first * strides[k], (*strides[:k], strides[k] * by, *strides[k + 1 :])),
    )
    return Piece(tuple(start), factors, source)


def _diagonal(piece: Piece, axis: int, other: int) -> Iterator[Piece]:
    """The elements of a tidy piece that have the same coordinate along two axes, the second of which goes."""
    factors: list[int | None] = []
    for each in (axis, other):
        own = [k for k, factor in enumerate(piece.factors) if factor.axis == each and factor.size > 1]
        if len(own) > 1 or any(piece.factors[k].step != 1 for k in own):
            raise NotComposableError(f"the elements that axes {axis} and {other} have in common lie in no one stride")
        factors.append(own[0] if own else None)
    lengths = [1 if k is None else piece.factors[k].size for k in factors]
    starts = [piece.start[axis], piece.start[other]]
    low = max(starts)
    size = min(start + length for start, length in zip(starts, lengths, strict=True)) - low
    if size <= 0:
        return
    for k, start in zip(factors, starts, strict=True):
        if k is not None:
            piece = _digits(piece, k, low - start, size)
    first, second = factors
    if first is not None and second is not None:
        kept = [k for k in range(len(piece.factors)) if k != second]

        def both(strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
            return 0, tuple(strides[k] + (strides[second] if k == first else 0) for k in kept)

        piece = Piece(piece.start, tuple(piece.factors[k] for k in kept), _on_strides(piece.source, both))
    closed = tuple(
        factor._replace(axis=axis if factor.axis == other else factor.axis - (factor.axis > other))
        for factor in piece.factors
    )
    yield Piece((*piece.start[:other], *piece.start[other + 1 :]), closed, piece.source)


def _flipped(piece: Piece, axis: int, length: int) -> Piece:
    """A piece seen from the other end of an axis."""
    own = [k for k, factor in enumerate(piece.factors) if factor.axis == axis]

    def turned(strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        shift = sum((piece.factors[k].size - 1) * strides[k] for k in own)
        return shift, tuple(-stride if k in own else stride for k, stride in enumerate(strides))

    reach = sum((piece.factors[k].size - 1) * piece.factors[k].step for k in own)
    start = (*piece.start[:axis], length - 1 - piece.start[axis] - reach, *piece.start[axis + 1 :])
    return Piece(start, piece.factors, _on_strides(piece.source, turned))


def _between(piece: Piece, axis: int, low: int, high: int) -> Iterator[Piece]:
    """The elements of a piece whose coordinates along an axis lie in [low, high)."""
    own = [k for k, f in enumerate(piece.factors) if f.axis == axis and f.size > 1]
    first = piece.start[axis]
    reach = sum((piece.factors[k].size - 1) * piece.factors[k].step for k in own)
    if first >= low and first + reach < high:
        yield piece
    elif first < high and first + reach >= low:
        k = max(own, key=lambda k: piece.factors[k].step)
        _, size, step = piece.factors[k]
        rest = reach - (size - 1) * step
        # Digits with which all of the smaller factors lie inside, then those with which some do.
        begin = min(max(0, -((first - low) // step)), size)
        end = min(max(begin, (high - 1 - rest - first) // step + 1), size)
        if end > begin:
            yield _digits(piece, k, begin, end - begin)
        for digit in range(size):
            at = first + digit * step
            if not begin <= digit < end and at < high and at + rest >= low:
                yield from _between(_digits(piece, k, digit, 1), axis, low, high)


def _every(piece: Piece, axis: int, origin: int, by: int) -> Iterator[Piece]:
    """The elements of a piece at every `by`-th coordinate of an axis from `origin` on, in coordinates of these."""
    own = [k for k, f in enumerate(piece.factors) if f.axis == axis and f.size > 1 and f.step % by]
    offset = origin - piece.start[axis]
    if not own:
        if offset % by == 0:
            start = (*piece.start[:axis], -offset // by, *piece.start[axis + 1 :])
            factors = tuple(f._replace(step=f.step // by) if f.axis == axis else f for f in piece.factors)
            yield piece._replace(start=start, factors=factors)
        return
    if len(own) == 1:
        (k,) = own
        _, size, step = piece.factors[k]
        common = math.gcd(step, by)
        if offset % common:
            return
        turn = by // common
        first = offset // common * pow(step // common, -1, turn) % turn
        if first < size:
            yield from _every(_digits(piece, k, first, -(-(size - first) // turn), turn), axis, origin, by)
        return
    k = min(own, key=lambda k: piece.factors[k].size)
    if piece.factors[k].size > MOST_DIGITS:
        raise NotComposableError(f"every {by} elements of axis {axis} fall between the axes that it was made of")
    for digit in range(piece.factors[k].size):
        yield from _every(_digits(piece, k, digit, 1), axis, origin, by)


def _split(piece: Piece, axis: int, inner: int) -> Iterator[Piece]:
    """A piece whose axis becomes two, of which the second has size `inner`."""
    first = piece.start[axis]
    low = first % inner
    own = sorted((f.step, k) for k, f in enumerate(piece.factors) if f.axis == axis and f.size > 1)
    reach = low
    for step, k in own:
        size = piece.factors[k].size
        if step % inner == 0:
            if reach >= inner:
                break
            continue
        if reach + (size - 1) * step >= inner:
            yield from _cut_at_blocks(piece, axis, inner, k, reach - low)
            return
        reach += (size - 1) * step
    factors = []
    for own_axis, size, step in piece.factors:
        if own_axis != axis:
            factors.append(Factor(own_axis + (own_axis > axis), size, step))
        elif step % inner == 0 and size > 1:
            factors.append(Factor(axis, size, step // inner))
        else:
            factors.append(Factor(axis + 1, size, step))
    start = (*piece.start[:axis], first // inner, low, *piece.start[axis + 1 :])
    yield Piece(start, tuple(factors), piece.source)


def _cut_at_blocks(piece: Piece, axis: int, inner: int, k: int, below: int) -> Iterator[Piece]:
    """A piece cut so that factor k no longer crosses from one block of `inner` elements into the next."""
    _, size, step = piece.factors[k]
    low = piece.start[axis] % inner
    if inner % step or low % step + below >= step:
        raise NotComposableError(f"axis {axis} is split where the axes that it was made of are not")
    block = inner // step
    head = min(size, (block - low // step) % block)
    whole = (size - head) // block
    if head:
        yield from _split(_digits(piece, k, 0, head), axis, inner)
    if whole:
        body = _digits(piece, k, head, whole * block)
        factors = (*body.factors, Factor(axis, block, step))
        outer = Factor(axis, whole, step * block)
        source = _on_strides(
            body.source,
            lambda strides: (0, (*strides[:k], strides[k] * block, *strides[k + 1 :], strides[k])),
        )
        yield from _split(Piece(body.start, (*factors[:k], outer, *factors[k + 1 :]), source), axis, inner)
    if rest := size - head - whole * block:
        yield from _split(_digits(piece, k, size - rest, rest), axis, inner)


def _tidy(piece: Piece) -> Piece:
    """A piece with neighbouring factors merged where they go on at both ends, and none of size 1."""
    if all(factor.size > 1 for factor in piece.factors) and len({f.axis for f in piece.factors}) == len(piece.factors):
        return piece
    columns = [f.step for f in piece.factors]
    order = sorted(
        (k for k, f in enumerate(piece.factors) if f.size > 1), key=lambda k: (piece.factors[k].axis, -columns[k])
    )
    result = Piece(
        piece.start,
        tuple(piece.factors[k] for k in order),
        _on_strides(piece.source, lambda strides: (0, tuple(strides[k] for k in order))),
    )
    k = 0
    while k + 1 < len(result.factors):
        outer, inner = result.factors[k : k + 2]
        together = outer.axis == inner.axis and outer.step == inner.step * inner.size
        if together and all(strides[k] == strides[k + 1] * inner.size for strides in _columns(result.source)):
            factors = (
                *result.factors[:k],
                Factor(inner.axis, outer.size * inner.size, inner.step),
                *result.factors[k + 2 :],
            )
            source = _on_strides(result.source, lambda strides, k=k: (0, (*strides[:k], *strides[k + 1 :])))  # type: ignore[misc]
            result = Piece(result.start, factors, source)
        else:
            k += 1
    return result


def _columns(source: Access | Fill | Lookup) -> Iterator[tuple[int, ...]]:
    """The strides of a source and of every lookup in it."""
    if not isinstance(source, Fill):
        yield source.strides
        for lookup in source.lookups:
            yield from _columns(lookup)


def _looked_up(
    piece: Piece, index: Access, axis: int, size: int, dtype: str, outside: Outside, count: int
) -> Access | Fill:
    """The source of a piece whose axis is looked up by an index that has `count` factors of its own, put last."""
    if isinstance(piece.source, Fill):
        return piece.source
    kept = [k for k, factor in enumerate(piece.factors) if factor.axis != axis]
    own = [k for k, factor in enumerate(piece.factors) if factor.axis == axis and factor.size > 1]
    still = (0,) * len(kept)

    def behind(lookups: tuple[Lookup, ...]) -> tuple[Lookup, ...]:
        return tuple(
            lookup._replace(strides=still + lookup.strides, lookups=behind(lookup.lookups)) for lookup in lookups
        )

    found = Lookup(index.operand, dtype, index.offset, still + index.strides, size, 0, outside, behind(index.lookups))
    used = False

    def through(lookups: tuple[Lookup, ...], strides: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[Lookup, ...]]:
        nonlocal used
        inner = []
        for lookup in lookups:
            own_strides, own_lookups = through(lookup.lookups, lookup.strides)
            inner.append(lookup._replace(strides=own_strides, lookups=own_lookups))
        if own and strides[own[0]]:
            used = True
            inner.append(found._replace(stride=strides[own[0]]))
        return (*(strides[k] for k in kept), *(0,) * count), tuple(inner)

    strides, lookups = through(piece.source.lookups, piece.source.strides)
    if not used and outside != "clamp":
        # Nothing moves, but the index still decides whether anything is taken.
        lookups = (*lookups, found)
    return Access(piece.source.operand, piece.source.offset, strides, lookups)
