"""DML_OPERATOR_NONZERO_COORDINATES: coordinates of nonzero elements (DML_NONZERO_COORDINATES_OPERATOR_DESC).

It is lowered to moves although it counts: two lookups into a table of 0, 1, 2, … add two numbers. Prefix sums built
this way give each nonzero element the row of its coordinates.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anydml.feature_level import FeatureLevel, Support, SupportRow
from anydml.moves import Access, Constant, Fill, LazyConstant, Lookup, Move, unless
from anydml.moves.program import Element, FindNonzero, HostKernel
from anydml.operators.base import OperatorDesc, Problem, ReadIndex, TensorDesc, record
from anydml.operators.types import ONLY_UINT32, TYPES_8_TO_32
from anydml.tensor import Layout

INPUT, COUNT, COORDINATES, IS_VALUE, NUMBERS, IS_ZERO, SUMS = range(7)
"""Operands: the tensors; constants: whether a byte has bits other than the sign, and the table 0, 1, 2, …; scratch: a
mask of zero elements, and counts of nonzero elements, with their sums by blocks."""

WIDTH = 4
"""Bytes of a number."""

BLOCK = 4
"""Numbers per block that are summed sequentially: each takes a pass over memory, each level of blocks two more."""


@record
class NonzeroCoordinatesOperatorDesc(OperatorDesc):
    """DML_NONZERO_COORDINATES_OPERATOR_DESC: the coordinates of all elements that are not zero, in row-major order.

    Rows of the coordinates beyond the count are not written. −0.0 is zero, NaN is not.

    Args:
        input_tensor: the tensor to search, of M elements.
        output_count_tensor: UINT32, all sizes 1: the number of nonzero elements.
        output_coordinates_tensor: UINT32, sizes {1, …, M, N}: one row per element, its last N coordinates. N is at most
            the input's DimensionCount, and at least that without leading sizes of 1.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.NonzeroCoordinatesOperatorDesc(T("FLOAT32", [2, 4]), T("UINT32", [1]), T("UINT32", [8, 2]))
        NonzeroCoordinatesOperatorDesc(FLOAT32 [2, 4] → UINT32 [1], UINT32 [8, 2])
    """

    input_tensor: TensorDesc
    output_count_tensor: TensorDesc
    output_coordinates_tensor: TensorDesc

    SUPPORT = tuple(
        SupportRow(
            level,
            {
                "InputTensor": Support(low, high, TYPES_8_TO_32),
                "OutputCountTensor": Support(low, high, ONLY_UINT32),
                "OutputCoordinatesTensor": Support(max(low, 2), high, ONLY_UINT32),
            },
        )
        for level, low, high in ((FeatureLevel.LEVEL_4_0, 1, 8), (FeatureLevel.LEVEL_3_0, 4, 5))
    )

    def kind_problems(self) -> Iterator[Problem]:
        """Check that outputs are UINT32."""
        for name, tensor in self.outputs:
            yield from self.type_is(name, tensor, ONLY_UINT32)

    def constraints(self) -> Iterator[Problem]:
        """Check that outputs are a count, and one row of coordinates per element."""
        count, shape = self.output_count_tensor.sizes, self.output_coordinates_tensor.sizes
        yield from self.sizes_are("output_count_tensor", (1,) * len(count), "all sizes must be 1")
        name = "OutputCoordinatesTensor"
        if len(shape) < 2:
            message = f"{name} has {len(shape)} dimensions"
            yield self.problem(f"{name}.Sizes", message, "there must be at least two dimensions: rows and coordinates")
            return
        rows = math.prod(self.input_tensor.sizes)
        expected = (*(1,) * (len(shape) - 2), rows, shape[-1])
        rule = "rows must be InputTensor's elements, and sizes before them 1"
        yield from self.sizes_are("output_coordinates_tensor", expected, rule)
        sizes = self.input_tensor.sizes
        min_rows = max(1, len([*itertools.dropwhile(lambda size: size == 1, sizes)]))
        if not min_rows <= shape[-1] <= len(sizes):
            message = f"{name} has {shape[-1]} coordinates in a row, but InputTensor.Sizes is {list(sizes)}"
            rule = f"there must be {min_rows} to {len(sizes)}: dimensions, with or without leading sizes of 1"
            yield self.problem(f"{name}.Sizes", message, rule)

    @property
    def scratch(self) -> tuple[tuple[int, str], ...]:
        """The mask, and the counts with their sums."""
        count = math.prod(self.input_tensor.sizes)
        return (
            (count, "elements that are zero are masked"),
            (_sum_count(count) * WIDTH, "rows of coordinates are numbered, block by block"),
        )

    def lower(self, layouts: Sequence[Layout] | None = None) -> tuple[tuple[Move, ...], tuple[Constant, ...]]:
        """Return the moves, and their constants: a mask of bytes, and the table for additions."""
        source, _, rows = layouts or self.layouts()
        sizes, total = source.sizes, math.prod(source.sizes)
        zero, numbers = Layout.packed(sizes, 1).strides, Layout.packed(sizes, WIDTH).strides
        still = (0,) * len(sizes)
        ones = Access(IS_VALUE, 1, still, tuple(self._masks(source)))
        counted = Access(NUMBERS, WIDTH, still, (unless(IS_ZERO, zero),))
        moves = [
            Move((), Access(IS_ZERO, 0, ()), Fill(b"\0"), total),
            Move(sizes, Access(IS_ZERO, 0, zero), ones, 1),
            Move((), Access(SUMS, 0, ()), Fill(b"\0"), _sum_count(total) * WIDTH),
            # SUMS[k] becomes the number of nonzero elements before element k.
            Move(sizes, Access(SUMS, WIDTH, numbers), counted, WIDTH),
            *_prefix_sums(1, total, total + 1),
        ]
        *_, step, along = rows.strides
        row = Lookup(SUMS, "uint32", 0, numbers, total, step)
        width = rows.sizes[-1]
        for k, dimension in enumerate(range(len(sizes) - width, len(sizes))):
            to = Access(COORDINATES, k * along, still, (row, unless(IS_ZERO, zero)))
            source_strides = (*still[:dimension], WIDTH, *still[dimension + 1 :])
            moves.append(Move(sizes, to, Access(NUMBERS, 0, source_strides), WIDTH))
        moves.append(Move((), Access(COUNT, 0, ()), Access(SUMS, total * WIDTH, ()), WIDTH))
        is_value = (np.arange(256) & 127 != 0).astype(np.uint8)
        table = LazyConstant((total + 1,), np.uint32, lambda: np.arange(total + 1, dtype=np.uint32))
        return tuple(moves), (is_value, table)

    @property
    def host_kernel(self) -> HostKernel:
        """Two passes over the input on host memory."""
        return HostKernel(_write_found, "nonzero elements are counted, then their coordinates are written")

    def _masks(self, source: Layout) -> Iterator[Lookup]:
        """Yield lookups that pass elements whose bytes are all 0, except for a float's sign."""
        size = source.element_size
        top = size - 1 if sys.byteorder == "little" else 0
        for k in range(size):
            mask = unless(INPUT, source.strides)._replace(offset=k)
            if k == top and self.input_tensor.data_type.dtype.kind == "f":
                still = (0,) * len(source.sizes)
                byte = mask._replace(size=256, stride=1, outside="clamp")
                mask = unless(IS_VALUE, still)._replace(lookups=(byte,))
            yield mask

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """Yield the coordinates of each nonzero element, and their number."""
        rows = self.output_coordinates_tensor.sizes
        before, nonzero = (0,) * (len(rows) - 2), 0
        for at in itertools.product(*map(range, self.input_tensor.sizes)):
            if read(INPUT, at) != 0:
                for k, coordinate in enumerate(at[len(at) - rows[-1] :]):
                    yield COORDINATES, (*before, nonzero, k), _word(coordinate), ()
                nonzero += 1
        yield COUNT, (0,) * len(self.output_count_tensor.sizes), _word(nonzero), ()


def _write_found(tensors: Sequence[np.ndarray[Any, Any]], find: FindNonzero) -> None:
    x, count, rows = tensors[: COORDINATES + 1]
    width = rows.shape[-1]
    # Leading dimensions of size 1 may be omitted from the coordinates.
    coordinates = find(x.reshape(x.shape[x.ndim - width :]), np.dtype(np.uint32))
    rows[(0,) * (rows.ndim - 2)][: len(coordinates)] = coordinates
    count[...] = len(coordinates)


def _word(number: int) -> bytes:
    return number.to_bytes(WIDTH, sys.byteorder)


def _sum_count(count: int) -> int:
    """Return the numbers in SUMS: a 0, and for each level of blocks two rows of whole blocks."""
    blocks = -(-count // BLOCK)
    return 2 * BLOCK * blocks + (_sum_count(blocks) if blocks > 1 else 1)


def _prefix_sums(first: int, count: int, size: int) -> Iterator[Move]:
    """Replace numbers of SUMS by their inclusive prefix sums.

    Args:
        first: the place of the first number; zeros follow the last one up to a whole block.
        count: how many numbers there are.
        size: an upper bound of the sums, exclusive.
    """
    blocks = -(-count // BLOCK)
    within = first + blocks * BLOCK
    ends = within + blocks * BLOCK
    yield Move((blocks,), _numbers(within, BLOCK), _numbers(first, BLOCK), WIDTH)
    for k in range(1, BLOCK):
        sums = _sums(_numbers(within + k - 1, BLOCK), _numbers(first + k, BLOCK), size)
        yield Move((blocks,), _numbers(within + k, BLOCK), sums, WIDTH)
    yield Move((BLOCK,), _numbers(first, 1), _numbers(within, 1), WIDTH)
    if blocks > 1:
        yield Move((blocks,), _numbers(ends, 1), _numbers(within + BLOCK - 1, BLOCK), WIDTH)
        yield from _prefix_sums(ends, blocks, size)
        sums = _sums(_numbers(ends, 1, 0), _numbers(within + BLOCK, BLOCK, 1), size)
        yield Move((blocks - 1, BLOCK), _numbers(first + BLOCK, BLOCK, 1), sums, WIDTH)


def _numbers(first: int, *steps: int) -> Access:
    return Access(SUMS, first * WIDTH, tuple(step * WIDTH for step in steps))


def _sums(a: Access, b: Access, size: int) -> Access:
    """Return the sums of two rows, by two lookups into the table."""
    lookups = [Lookup(row.operand, "uint32", row.offset, row.strides, size, WIDTH) for row in (a, b)]
    return Access(NUMBERS, 0, (0,) * len(a.strides), tuple(lookups))
