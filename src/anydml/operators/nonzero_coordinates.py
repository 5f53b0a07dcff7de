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
from anydml.moves import Access, Fill, Lookup, Move, unless
from anydml.moves.program import Element, FindNonzero, HostKernel
from anydml.operators.base import OperatorDesc, Problem, ReadIndex, TensorDesc, record
from anydml.operators.types import ONLY_UINT32, TYPES_8_TO_32
from anydml.tensor import Layout

INPUT, COUNT, COORDINATES, BYTES, IS_VALUE, IS_ZERO, RANKS, SUMS, NUMBERS = range(9)
"""Operands: the tensors; constants: the bytes 0 to 255, and whether a byte has bits other than the sign; scratch: a
mask of zero elements, counts of nonzero elements, partial sums, and the table 0, 1, 2, …"""

WIDTH = 4
"""Bytes of a number."""

BLOCK = 4
"""Numbers per block that are summed sequentially: each takes a pass over memory, each level of blocks two more."""

NumberRow = tuple[int, int, int]
"""Operand, offset and stride of a row of numbers."""


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

    OPERATOR = "DML_NONZERO_COORDINATES"
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
        yield from self.sizes_are(
            "OutputCountTensor", self.output_count_tensor, (1,) * len(count), "all sizes must be 1"
        )
        name = "OutputCoordinatesTensor"
        if len(shape) < 2:
            message = f"{name} has {len(shape)} dimensions"
            yield self.problem(f"{name}.Sizes", message, "there must be at least two dimensions: rows and coordinates")
            return
        rows = math.prod(self.input_tensor.sizes)
        expected = (*(1,) * (len(shape) - 2), rows, shape[-1])
        rule = "rows must be InputTensor's elements, and sizes before them 1"
        yield from self.sizes_are(name, self.output_coordinates_tensor, expected, rule)
        sizes = self.input_tensor.sizes
        min_rows = max(1, len([*itertools.dropwhile(lambda size: size == 1, sizes)]))
        if not min_rows <= shape[-1] <= len(sizes):
            message = f"{name} has {shape[-1]} coordinates in a row, but InputTensor.Sizes is {list(sizes)}"
            rule = f"there must be {min_rows} to {len(sizes)}: dimensions, with or without leading sizes of 1"
            yield self.problem(f"{name}.Sizes", message, rule)

    @property
    def constants(self) -> tuple[np.ndarray[Any, Any], ...]:
        """All bytes, and a mask of those with bits other than a float's sign."""
        all_bytes = np.arange(256, dtype=np.uint8)
        return all_bytes, (all_bytes & 127 != 0).astype(np.uint8)

    @property
    def scratch(self) -> tuple[tuple[int, str], ...]:
        """The mask, the counts, the partial sums, and the table for additions."""
        count = math.prod(self.input_tensor.sizes)
        # Every level has two rows, each a quarter as long as the level below, rounded up.
        sums = count + 2 * sum(_levels(count))
        return (
            (count, "elements that are zero are masked"),
            ((count + 1) * WIDTH, "rows of coordinates are numbered"),
            (sums * WIDTH, "the numbers are summed block by block"),
            ((count + 1) * WIDTH, "numbers are added by a table of 0, 1, 2, …"),
        )

    def moves(self, layouts: Sequence[Layout] | None = None) -> tuple[Move, ...]:
        """Return the moves, which use a table, the mask of zeros, and the number of nonzero elements before each."""
        source, _, rows = layouts or self.layouts()
        sizes, total = source.sizes, math.prod(source.sizes)
        zero, numbers = Layout.packed(sizes, 1).strides, Layout.packed(sizes, WIDTH).strides
        still = (0,) * len(sizes)
        moves = [Move((), Access(NUMBERS, 0, ()), Fill(b"\0"), (total + 1) * WIDTH), *_count_up(total + 1)]
        moves.append(Move((), Access(IS_ZERO, 0, ()), Fill(b"\0"), total))
        nonzero_byte = Access(BYTES, 1, still, tuple(self._masks(source)))
        moves.append(Move(sizes, Access(IS_ZERO, 0, zero), nonzero_byte, 1))
        moves.append(Move((), Access(RANKS, 0, ()), Fill(b"\0"), (total + 1) * WIDTH))
        counted = Access(NUMBERS, WIDTH, still, (unless(IS_ZERO, zero),))
        moves.append(Move(sizes, Access(RANKS, WIDTH, numbers), counted, WIDTH))
        flags = (RANKS, WIDTH, WIDTH)
        moves += _prefix_sums(flags, flags, total, 0, total)
        *_, step, along = rows.strides
        row = Lookup(RANKS, "uint32", 0, numbers, total, step)
        width = rows.sizes[-1]
        for k, dimension in enumerate(range(len(sizes) - width, len(sizes))):
            to = Access(COORDINATES, k * along, still, (row, unless(IS_ZERO, zero)))
            source_strides = (*still[:dimension], WIDTH, *still[dimension + 1 :])
            moves.append(Move(sizes, to, Access(NUMBERS, 0, source_strides), WIDTH))
        moves.append(Move((), Access(COUNT, 0, ()), Access(RANKS, total * WIDTH, ()), WIDTH))
        return tuple(moves)

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


def _levels(count: int) -> Iterator[int]:
    """Yield the number of blocks of each level of the summation."""
    while count > BLOCK:
        count = -(-count // BLOCK)
        yield count


def _count_up(count: int) -> Iterator[Move]:
    """Write 0, 1, 2, … into zeros, byte by byte: byte k of the numbers is constant over runs of 256ᵏ, and cycles."""
    for k in range(WIDTH):
        still = 256**k
        if still >= count:
            return
        at = k if sys.byteorder == "little" else WIDTH - 1 - k
        rounds, tail = divmod(count, 256 * still)
        steps, last_step = divmod(tail, still)
        begin = at + rounds * 256 * still * WIDTH
        for sizes, offset, strides, value, by in (
            ((rounds, 256, still), at, (256 * still * WIDTH, still * WIDTH, WIDTH), 0, (0, 1, 0)),
            ((steps, still), begin, (still * WIDTH, WIDTH), 0, (1, 0)),
            ((last_step,), begin + steps * still * WIDTH, (WIDTH,), steps, (0,)),
        ):
            if 0 not in sizes:
                yield Move(sizes, Access(NUMBERS, offset, strides), Access(BYTES, value, by), 1)


def _prefix_sums(numbers: NumberRow, sums: NumberRow, count: int, scratch: int, last_index: int) -> Iterator[Move]:
    """Compute inclusive prefix sums.

    Args:
        numbers: the source.
        sums: the destination; may be the source.
        count: number of elements.
        scratch: first free byte of `SUMS`.
        last_index: upper bound of the sums.
    """
    partial, blocks = (SUMS, scratch, WIDTH), -(-count // BLOCK)
    yield _copy(numbers, partial, blocks, BLOCK)
    for k in range(1, min(BLOCK, count)):
        # The last block may be shorter.
        many = -(-(count - k) // BLOCK)
        yield _addition(
            _row_from(partial, k - 1),
            _row_from(numbers, k),
            _row_from(partial, k),
            (many,),
            (BLOCK,),
            (BLOCK,),
            last_index,
        )
    yield _copy(partial, sums, min(BLOCK, count), 1)
    if count <= BLOCK:
        return
    free = scratch + count * WIDTH
    ends, before = (SUMS, scratch + (BLOCK - 1) * WIDTH, BLOCK * WIDTH), (SUMS, free, WIDTH)
    # The last block's sum is not needed.
    yield from _prefix_sums(ends, before, blocks - 1, free + blocks * WIDTH, last_index)
    block_count, tail = divmod(count - BLOCK, BLOCK)
    to, sums_within = _row_from(sums, BLOCK), _row_from(partial, BLOCK)
    if block_count:
        yield _addition(before, sums_within, to, (block_count, BLOCK), (1, 0), (BLOCK, 1), last_index)
    if tail:
        skip = block_count * BLOCK
        yield _addition(
            _row_from(before, block_count),
            _row_from(sums_within, skip),
            _row_from(to, skip),
            (tail,),
            (0,),
            (1,),
            last_index,
        )


def _row_from(numbers: NumberRow, k: int) -> NumberRow:
    operand, offset, stride = numbers
    return operand, offset + k * stride, stride


def _copy(numbers: NumberRow, to: NumberRow, count: int, step: int) -> Move:
    target, source = (Access(operand, offset, (step * stride,)) for operand, offset, stride in (to, numbers))
    return Move((count,), target, source, WIDTH)


def _addition(
    a: NumberRow,
    b: NumberRow,
    to: NumberRow,
    sizes: tuple[int, ...],
    a_steps: tuple[int, ...],
    steps: tuple[int, ...],
    last_index: int,
) -> Move:
    """Return the move ``to = a + b``, by two lookups into the table. `steps` applies to b and to the sums."""
    lookups = tuple(
        Lookup(operand, "uint32", offset, tuple(stride * k for k in by), last_index + 1, WIDTH)
        for (operand, offset, stride), by in ((a, a_steps), (b, steps))
    )
    operand, offset, stride = to
    target = Access(operand, offset, tuple(stride * k for k in steps))
    return Move(sizes, target, Access(NUMBERS, 0, (0,) * len(sizes), lookups), WIDTH)
