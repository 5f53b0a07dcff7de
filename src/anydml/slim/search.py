"""The search for the cheapest expression of a tensor whose flat pieces are known."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anydml.slim.axes import split_digits, with_ones
from anydml.slim.expressions import Builder, Expr
from anydml.slim.orders import Order
from anydml.slim.pieces import Box, Digit, FlatPiece, Pieces, as_box, crop, merge, sliced_axes, tidy
from anydml.slim.sizes import StandIns
from anydml.tensor import packed_strides

MAX_INDICES = 1 << 16
"""Maximum number of indices of a Gather."""

MIN_ROW = 32
"""Minimum bytes of a row that Gather picks, since each row is copied separately."""

MAX_PIECES = 16
"""Maximum number of pieces of a tensor that is padded or joined."""

MAX_JOINED_SOURCES = 4
"""Maximum number of a tensor's sources that are joined in their own shapes."""

MAX_NESTING = 3
"""Largest depth of nested joins and pads."""


class Search:
    """Searches for the cheapest expression of one tensor.

    Args:
        builder: builds expressions.
        stand_ins: primes that stand for symbolic sizes.
        source_of: returns the expression of a source by its number.
        dtype: dtype of the tensor.
    """

    def __init__(
        self, builder: Builder, stand_ins: StandIns, source_of: Callable[[int], Expr], dtype: np.dtype[Any]
    ) -> None:
        self._builder, self._stand_ins, self._source_of, self._dtype = builder, stand_ins, source_of, dtype
        self._width = dtype.itemsize

    def cheapest(self, pieces: Pieces, sizes: Sequence[int], depth: int = 0) -> Expr | None:
        """Return the cheapest expression of a tensor; None if none is found."""
        return min(self._candidates(pieces, tuple(sizes), depth), key=self._builder.cost, default=None)

    def _candidates(self, pieces: Pieces, sizes: tuple[int, ...], depth: int) -> Iterator[Expr]:
        if len(pieces) == 1 and pieces[0].source >= 0:
            yield from self._moved_candidates(pieces[0], sizes)
        sources = {piece.source for piece in pieces}
        if len(sources) == 1 and -1 not in sources and (len(pieces) > 1 or pieces[0].is_reversed):
            yield from self._gather(pieces, sizes)
        if 1 < len(pieces) <= MAX_PIECES and depth < MAX_NESTING:
            yield from self._pad(pieces, sizes, depth)
            yield from self._concatenate(pieces, sizes, depth)

    def _moved_candidates(self, piece: FlatPiece, sizes: tuple[int, ...]) -> Iterator[Expr]:
        """Yield combinations of Slice, Transpose and Expand, or of blocks, with Reshapes around them."""
        source = self._source_of(piece.source)
        if piece.is_reversed or piece.first_index or piece.size != math.prod(sizes):
            return
        if any(not digit.stride for digit in piece.digits):
            yield from self._expand(piece, sizes)
            return
        if len(source.sizes) == len(sizes) == 4 and self._stand_ins.is_constant(*source.sizes[1:], *sizes[1:]):
            yield from self._in_blocks(piece, source, sizes)
        units = packed_strides(sizes)
        by_source = split_digits(piece.digits, packed_strides(source.sizes), lambda digit: digit.stride)
        candidates = (
            split_digits(by_source, units, lambda digit: digit.step),
            by_source,
            split_digits(piece.digits, units, lambda digit: digit.step),
            piece.digits,
        )
        for digits in dict.fromkeys(map(tuple, candidates)):
            expr = self._sliced_and_transposed(piece, digits, source, sizes)
            if expr is not None:
                yield expr

    def _expand(self, piece: FlatPiece, sizes: tuple[int, ...]) -> Iterator[Expr]:
        """Yield Expand after expressions that move each repeated element once."""
        step, repeated = 1, []
        for digit in reversed(piece.digits):
            if digit.stride:
                repeated.append(Digit(digit.size, step, digit.stride))
                step *= digit.size
        if not all(digit.stride or self._stand_ins.is_constant(digit.size) for digit in piece.digits):
            return
        shape = tuple(digit.size if digit.stride else 1 for digit in piece.digits)
        for expr in self._moved_candidates(piece._replace(digits=tidy(repeated)), shape):
            wide = self._builder.expand(expr, [digit.size for digit in piece.digits], self._width)
            if (reshaped := self._builder.reshape(wide, sizes)) is not None:
                yield reshaped

    def _in_blocks(self, piece: FlatPiece, source: Expr, sizes: tuple[int, ...]) -> Iterator[Expr]:
        """Yield DepthToSpace, and SpaceToDepth with its channels in any order."""
        (n, depth, height, width), (_, channels, rows, _) = source.sizes, sizes
        if rows > height and rows % height == 0:
            block_size = rows // height
            for mode, cut, perm in (
                ("CRD", (n, channels, block_size, block_size, height, width), (0, 1, 4, 2, 5, 3)),
                ("DCR", (n, block_size, block_size, channels, height, width), (0, 3, 4, 1, 5, 2)),
            ):
                order = Order(cut, perm)
                if order.transposed == (n, channels, height, block_size, width, block_size) and order.is_of(piece):
                    yield self._builder.blocks(
                        "DepthToSpace", source, sizes, self._width, blocksize=block_size, mode=mode
                    )
        if rows < height and height % rows == 0:
            block_size = height // rows
            if channels != block_size * block_size * depth or width % block_size:
                return
            blocks = self._builder.blocks("SpaceToDepth", source, sizes, self._width, blocksize=block_size)
            numbers = np.arange(channels).reshape(block_size, block_size, depth)
            for inner in itertools.permutations((3, 5, 1)):
                if Order((n, depth, rows, block_size, width // block_size, block_size), (0, *inner, 2, 4)).is_of(piece):
                    picked = numbers.transpose([(3, 5, 1).index(axis) for axis in inner]).reshape(-1).tolist()
                    yield blocks if inner == (3, 5, 1) else self._builder.pick(blocks, 1, picked, self._width)

    def _sliced_and_transposed(
        self, piece: FlatPiece, digits: Sequence[Digit], source: Expr, sizes: tuple[int, ...]
    ) -> Expr | None:
        """Return a Slice and a Transpose of a source in whose shape each digit is an axis; None if there is none."""
        sliced_and_perm = sliced_axes(source.count, piece.offset, digits)
        if sliced_and_perm is None:
            return None
        axes, window, perm = sliced_and_perm
        partial = [part for size, part in zip(axes, window, strict=True) if part != (0, size, 1)]
        if not all(self._stand_ins.is_constant(*part) for part in partial):
            return None
        axes, window, perm = with_ones(axes, window, perm, source.sizes, sizes)
        reshaped = self._builder.reshape(source, axes)
        if reshaped is None:
            return None
        sliced = self._builder.slice(reshaped, window, self._width)
        # A single axis may move if all axes of size 1 stay.
        moving = iter([axis for axis in perm if sliced.sizes[axis] != 1])
        still = [k if size == 1 else next(moving) for k, size in enumerate(sliced.sizes)]
        candidates = [
            self._swap(sliced, perm, sizes),
            *(
                self._builder.reshape(self._builder.transpose(sliced, order, self._width), sizes)
                for order in dict.fromkeys((tuple(perm), tuple(still)))
            ),
        ]
        return min(filter(None, candidates), key=self._builder.cost, default=None)

    def _swap(self, expr: Expr, perm: Sequence[int], sizes: tuple[int, ...]) -> Expr | None:
        """Return matrices that are transposed last, since runtimes fuse that Transpose with a MatMul."""
        moving = [axis for axis in perm if expr.sizes[axis] != 1]
        if len(moving) < 2 or 1 in sizes[-2:] or moving != [*sorted(moving)[:-2], *sorted(moving)[:-3:-1]]:
            return None
        if [expr.sizes[axis] for axis in moving] != [size for size in sizes if size != 1]:
            return None
        *batch, rows, columns = sizes
        reshaped = self._builder.reshape(expr, (*batch, columns, rows))
        swap = [*range(len(batch)), len(batch) + 1, len(batch)]
        return None if reshaped is None else self._builder.transpose(reshaped, swap, self._width)

    def _gather(self, pieces: Pieces, sizes: tuple[int, ...]) -> Iterator[Expr]:
        """Yield a Gather of rows, by the same indices for each coordinate of an outermost axis."""
        source = self._source_of(pieces[0].source)
        count, total = math.prod(sizes), source.count
        row, outer = 0, 0
        for piece in pieces:
            digits = [*piece.digits]
            last = digits.pop() if digits and digits[-1][1:] == (1, 1) else Digit(1, 1, 1)
            row = math.gcd(row, last.size, piece.first_index, piece.offset, *(n for digit in digits for n in digit[1:]))
            first = piece.digits[0] if piece.digits else Digit(1, 1, 1)
            is_whole = first.step * first.size == count and first.stride * first.size == total
            outer = math.gcd(outer, first.size if is_whole else 1)
        row = math.gcd(row, count // outer, total // outer)
        picked, available = count // outer // row, total // outer // row
        if row * self._width < MIN_ROW or picked > MAX_INDICES:
            return
        if not self._stand_ins.is_constant(picked, available):
            return
        indices = np.full(picked, -1, np.int64)
        for piece in pieces:
            digits = [*piece.digits]
            if outer > 1:
                digits[0] = digits[0]._replace(size=digits[0].size // outer)
            rows = tuple(
                Digit(size // row, 1, 1) if (step, stride) == (1, 1) else Digit(size, step // row, stride // row)
                for size, step, stride in digits
            )
            to, sources = FlatPiece(0, piece.first_index // row, piece.offset // row, rows).elements()
            indices[to] = sources
        if np.min(indices) < 0 or np.max(indices) >= available:
            return
        table = self._builder.reshape(source, [n for n in (outer, available, row) if n > 1] or [1])
        if table is not None:
            picked_rows = self._builder.pick(table, int(outer > 1), indices.tolist(), self._width)
            reshaped = self._builder.reshape(picked_rows, sizes)
            if reshaped is not None:
                yield reshaped

    def _pad(self, pieces: Pieces, sizes: tuple[int, ...], depth: int) -> Iterator[Expr]:
        """Yield a box that is padded by one fill."""
        fills = {piece.fill for piece in pieces if piece.source < 0}
        other_pieces = [piece for piece in pieces if piece.source >= 0]
        boxes = _boxes(other_pieces, sizes)
        if len(fills) != 1 or not boxes:
            return
        first = [*map(min, zip(*(box.start for _, box in boxes), strict=True))]
        end = [*map(max, zip(*(box.ends() for _, box in boxes), strict=True))]
        inner = tuple(b - a for a, b in zip(first, end, strict=True))
        after = [size - b for size, b in zip(sizes, end, strict=True)]
        if math.prod(inner) != sum(piece.size for piece in other_pieces) or not self._stand_ins.is_constant(
            *first, *after
        ):
            return
        expr = self.cheapest(merge([crop(*box, first, inner) for box in boxes]), inner, depth + 1)
        if expr is not None:
            yield self._builder.pad(expr, first, after, fills.pop(), self._dtype)

    def _concatenate(self, pieces: Pieces, sizes: tuple[int, ...], depth: int) -> Iterator[Expr]:
        """Yield a Concat along an axis of the tensor's shape, or of a source's shape with one axis enlarged."""
        shapes = {sizes: None}
        count = math.prod(sizes)
        sources = {piece.source: self._source_of(piece.source) for piece in pieces if piece.source >= 0}
        # Whole sources that are interleaved are joined in their own shapes, without Reshapes.
        is_whole = len(pieces) == len(sources) and sum(expr.count for expr in sources.values()) == count
        for source_sizes in (
            [expr.sizes for expr in sources.values()] if is_whole and len(pieces) <= MAX_JOINED_SOURCES else ()
        ):
            times = count // math.prod(source_sizes)
            shapes.update(
                {(*source_sizes[:k], size * times, *source_sizes[k + 1 :]): None for k, size in enumerate(source_sizes)}
            )
        for shape in shapes:
            boxes = _boxes(pieces, shape) if math.prod(shape) == count else []
            for axis in range(len(shape) if boxes else 0):
                concatenated = self._join(boxes, axis, shape, depth)
                if concatenated is not None and (reshaped := self._builder.reshape(concatenated, sizes)) is not None:
                    yield reshaped

    def _join(
        self, boxes: Sequence[tuple[FlatPiece, Box]], axis: int, sizes: tuple[int, ...], depth: int
    ) -> Expr | None:
        """Return boxes joined along an axis; None if they overlap along it, or one has no expression."""
        groups: list[tuple[int, int, list[int]]] = []
        for start, end, k in sorted((box.start[axis], box.ends()[axis], k) for k, (_, box) in enumerate(boxes)):
            if groups and start < groups[-1][1]:
                groups[-1] = (groups[-1][0], max(end, groups[-1][1]), [*groups[-1][2], k])
            else:
                groups.append((start, end, [k]))
        parts: list[Expr] = []
        for start, end, members in groups if len(groups) > 1 else ():
            inner = (*sizes[:axis], end - start, *sizes[axis + 1 :])
            first = [start if k == axis else 0 for k in range(len(sizes))]
            expr = self.cheapest(merge([crop(*boxes[k], first, inner) for k in members]), inner, depth + 1)
            if expr is None:
                return None
            parts.append(expr)
        return self._builder.concat(parts, axis, self._width) if parts else None


def _boxes(pieces: Sequence[FlatPiece], sizes: Sequence[int]) -> list[tuple[FlatPiece, Box]]:
    """Return pieces with their boxes in a shape; an empty list if a piece is not a box."""
    boxes = [(piece, box) for piece in pieces if (box := as_box(piece, sizes)) is not None]
    return boxes if len(boxes) == len(pieces) else []
