"""The maker of results by operators' rules as moves between tensors of known strides (see `verbs`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from anydml.moves.accesses import strided
from anydml.moves.composer import SCRATCH
from anydml.moves.constant import Constant
from anydml.moves.move import Access, Fill, Lookup, Move, OutOfRange, make_tuple
from anydml.moves.move_numbers import renumber_operands
from anydml.moves.pieces import NotComposableError, on_strides
from anydml.moves.sizing import Integers, Sizes
from anydml.moves.value import Value
from anydml.moves.verbs import Maker, View
from anydml.tensor import Layout


class MoveMaker(Maker):
    """Writes results at once, as moves.

    Args:
        first: operand number of the first result.
        layouts: the results' layouts, of the sizes that the rule makes; the constants follow them.

    Attributes:
        moves: the moves, in order. Boxes without elements are left out.
        constants: the constant operands.
        scratch: bytes of scratch operands, which follow the constants, and why they are needed.
        is_in_place: whether the first result has the memory of the first input, so that it need not be copied first.
    """

    def __init__(self, first: int, layouts: Sequence[Layout], is_in_place: bool = False) -> None:
        super().__init__()
        self.is_in_place = is_in_place
        self.moves: list[Move] = []
        self.constants: list[Constant] = []
        self.scratch: list[tuple[int, str]] = []
        self._number, self._layouts = first, iter(layouts)
        self._constant = first + len(layouts)
        self._later: list[tuple[View, View]] = []

    def finish(self) -> None:
        """Number the scratch operands, and copy results that were made in scratch. Called after the rule."""
        for to, x in self._later:
            self.copy(to, x)
        if self.scratch:
            numbers = {number: number for number in range(self._constant)}
            numbers.update({SCRATCH + k: self._constant + k for k in range(len(self.scratch))})
            self.moves = [renumber_operands(move, numbers) for move in self.moves]

    def result(self, sizes: Integers, write_sizes: Integers | None = None) -> Any:
        """Return the destination of the next result: its operand, or scratch if no strides fit `write_sizes`."""
        to = self._next()
        if write_sizes is None:
            return to
        view = _reshaped(to, write_sizes.at)
        if view is None:
            view = self._scratch(to, write_sizes.at, "the result is made flat, and its elements lie apart")
            self._later.append((to, _reshaped(view, to.sizes) or to))
        return view

    def flat(self, x: Any) -> Any:
        """Flatten a view; copy it to scratch first if its strides do not allow that."""
        sizes = (self.count(x),)
        view = _reshaped(x, sizes)
        if view is None:
            packed = self._scratch(x, x.sizes, "the array is read flat, and its elements lie apart")
            self.copy(packed, x)
            view = _reshaped(packed, sizes)
        return view

    def _scratch(self, x: View, sizes: Sizes, reason: str) -> View:
        layout = Layout.packed(sizes, x.element_size)
        self.scratch.append((math.prod(sizes) * x.element_size, reason))
        return View(sizes, Access(SCRATCH + len(self.scratch) - 1, 0, layout.strides), x.element_size, x.dtype)

    def filled(self, sizes: Integers, value: Any) -> Any:
        """Return a view of a fill with one element."""
        return View(sizes.at, None if value is None else Fill(value.pattern))

    def store(self, x: Any) -> None:
        """Copy a view to the next operand."""
        self.copy(self._next(), x)

    def _next(self) -> View:
        layout = next(self._layouts)
        self._number += 1
        access = make_tuple(Access, (self._number - 1, 0, layout.strides, ()))
        return make_tuple(View, (layout.sizes, access, layout.element_size, ""))  # type: ignore[no-any-return]

    def copy(self, to: Any, x: Any) -> None:
        """Add a move."""
        n = to.sizes
        if 0 not in n:
            source = x.access or Fill(bytes(to.element_size))
            if to.access.lookups:
                n, source = last_writes(n, to.access, source)
            self.moves.append(make_tuple(Move, (n, to.access, source, to.element_size)))

    def result_from(self, x: Any) -> Any:
        """Return the destination of the next result, after x was copied to it, unless x lies there already."""
        to = self._next()
        if not self.is_in_place:
            self.copy(to, x)
        return to

    def pick_along(self, x: Any, indices: Any, axis: int, outside: OutOfRange) -> Any:
        """Pick by one index per element, with a lookup that depends on all axes."""
        (operand, offset, strides, lookups), by = x.access, indices.access
        if lookups:
            return super().pick_along(x, indices, axis, outside)
        lookup = Lookup(
            by.operand, indices.dtype, by.offset, by.strides, x.sizes[axis], strides[axis], outside, by.lookups
        )
        access = Access(operand, offset, (*strides[:axis], 0, *strides[axis + 1 :]), (lookup,))
        return View(indices.sizes, access, x.element_size, x.dtype)

    def constant(self, array: Constant) -> Any:
        """Add a constant operand."""
        self.constants.append(array)
        self._constant += 1
        return View(array.shape, Access(self._constant - 1, 0, array.strides), array.dtype.itemsize, array.dtype.name)


def last_writes(sizes: Sizes, to: Access, source: Any) -> tuple[Sizes, Any]:
    """Return the box and the source of a move through lookups, without the elements that later ones overwrite.

    Along dimensions that do not change the address, each element overwrites the one before.
    """
    writes = [to.strides, *(lookup.strides for lookup in to.lookups)]
    dropped = [d for d, size in enumerate(sizes) if size > 1 and not any(strides[d] for strides in writes)]
    if not dropped:
        return sizes, source
    box = tuple([1 if d in dropped else size for d, size in enumerate(sizes)])
    return box, on_strides(source, lambda strides: (sum((sizes[d] - 1) * strides[d] for d in dropped), strides))


def _reshaped(x: View, sizes: Sizes) -> View | None:
    """Return a view in other sizes of the same row-major order; None if its strides do not allow it."""
    access = x.access
    if access.lookups:
        return None
    try:
        value = Value.of_operand(access.operand, x.sizes, access.strides, x.element_size).reshape(sizes)
    except NotComposableError:
        return None
    if (strided_value := strided(value)) is None:
        return None if math.prod(sizes) else View(sizes, access._replace(strides=(0,) * len(sizes)), x.element_size)
    return View(sizes, access._replace(strides=strided_value[1].strides), x.element_size, x.dtype)
