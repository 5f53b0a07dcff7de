"""DML_OPERATOR_TILE: repetition of a tensor along its dimensions (DML_TILE_OPERATOR_DESC)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anydml.fields import check_dimensions
from anydml.operators.base import Coordinate, ListOf, OperatorDesc, Problem, ReadIndex, Source, TensorDesc, record
from anydml.operators.function import Array, Ints, Sizes, function
from anydml.operators.rule import DescError, Integers, Maker, View, call_check, rule
from anydml.operators.types import FLOATS_16_AND_32, NO_FLOAT64, TYPES_8_TO_32
from anydml.symbols import are_at_least, integers_or_symbols


@rule
def tile_rule(maker: Maker, x: View, repeats: Integers) -> None:
    """``result[c] = x[c mod x's sizes]``; there may be more repeats than axes."""
    for _ in range(repeats.count - x.rank):
        x = maker.expand(x, 0, 1)
    to: View = maker.result(maker.product(maker.sizes(x), repeats))
    maker.copy(maker.split_each(to, repeats, maker.sizes(x)), maker.expand_each(x, repeats, 0))


@record
class TileOperatorDesc(OperatorDesc):
    """DML_TILE_OPERATOR_DESC: ``output[c] = input[c mod InputTensor.Sizes]``.

    Args:
        input_tensor: the tensor to repeat.
        output_tensor: its sizes are the input's times `repeats`.
        repeats: numbers of repetitions, at least 1, one per dimension.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.TileOperatorDesc(T("FLOAT32", [2]), T("FLOAT32", [6]), [3])
        TileOperatorDesc(FLOAT32 [2] → FLOAT32 [6], repeats [3])
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    repeats: ListOf[int]

    LEVELS = (
        # The operator's page does not list FLOAT64.
        ("4_1", 1, 8, NO_FLOAT64),
        ("3_1", 1, 8, TYPES_8_TO_32),
        ("2_1", 4, 4, TYPES_8_TO_32),
        ("1_0", 4, 4, FLOATS_16_AND_32),
    )

    def constraints(self) -> Iterator[Problem]:
        """Sizes that are multiples."""
        yield from self.one_per_dimension("repeats")
        expected = tuple(size * n for size, n in zip(self.input_tensor.sizes, self.repeats, strict=False))
        yield from self.sizes_are("output_tensor", expected, "sizes must be InputTensor's times Repeats")

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Repeat along the dimensions."""
        tile_rule(maker, inputs[0], Integers(self.repeats))

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """``output[c] = input[c mod InputTensor.Sizes]``."""
        return 0, tuple(c % size for c, size in zip(at, self.input_tensor.sizes, strict=True))


@call_check
def check_tile(name: str, shape: Sizes, repeats: Any) -> tuple[Sizes]:
    """Return one number for each dimension of the result."""
    counts: Sizes = integers_or_symbols(name, "repeats", repeats)
    if len(counts) != 0 and not are_at_least(0, counts):
        raise DescError(f"{name}: repeats is {list(counts)}", name, "repeats", "each must be 0 or more")
    rank: int = max(len(counts), len(shape))
    new_axes: int = rank - len(counts)
    check_dimensions(name, "the result", rank)
    times: Sizes = tuple([1 if d < new_axes else counts[d - new_axes] for d in range(rank)])
    return (times,)


@function(check_tile, rule=tile_rule)
def tile(x: Array, repeats: Ints, *, out: Array | None = None) -> Array:
    """Repeat an array along its dimensions (DML_OPERATOR_TILE, without its limits), like `numpy.tile`.

    Args:
        x: array of any shape and dtype.
        repeats: numbers of repetitions, 0 or more, one per dimension; the shorter of `repeats` and x's shape is
            extended by leading 1s.
        out: output array of the result's shape and x's dtype.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: one of `repeats` is negative, or the result has more than 64 dimensions.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.tile(np.array([1, 2]), [3])
        array([1, 2, 1, 2, 1, 2])
    """
