"""DML_OPERATOR_PADDING and PADDING1: padding of a tensor (DML_PADDING_OPERATOR_DESC and its successor)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from anydml.feature_level import FeatureLevel, row_at
from anydml.operators.base import Coordinate, ListOf, OperatorDesc, Problem, ReadIndex, Source, TensorDesc, record
from anydml.operators.enums import PaddingMode
from anydml.operators.function import Array, Ints, Sizes, function
from anydml.operators.rule import (
    DescError,
    Integers,
    Item,
    Maker,
    Text,
    View,
    call_check,
    fill_around,
    holds,
    int64,
    rule,
)
from anydml.operators.scalars import Scalar, value_bytes
from anydml.operators.types import ALL_TYPES, FLOATS_16_AND_32, TYPES_8_TO_32
from anydml.records import Named
from anydml.symbols import integers_or_symbols
from anydml.tensor import DataType
from anydml.text import count_noun

SINCE = {PaddingMode.SYMMETRIC: FeatureLevel.LEVEL_3_0, PaddingMode.WRAP: FeatureLevel.LEVEL_6_4}
"""Feature levels of the modes that are newer than the operator."""


@rule
def pad_rule(maker: Maker, x: View, before: Integers, after: Integers, mode: Text, value: Item) -> None:
    """Write x, then its surroundings: a value, or x continued along one axis after the other."""
    to: View = maker.result(maker.sum(maker.sum(before, maker.sizes(x)), after))
    inside: View = to
    for d in range(x.rank):
        inside = maker.cut(inside, d, before.at[d], x.sizes[d], 1)
    maker.copy(inside, x)
    if mode == "constant":
        fill_around(maker, to, before, maker.sizes(x), maker.ones(x), value)
        return
    for d in range(x.rank):
        # Earlier axes are extended already, later axes are not.
        line: View = to
        for k in range(d + 1, x.rank):
            line = maker.cut(line, k, before.at[k], x.sizes[k], 1)
        inner: int64 = before.at[d]
        _extend(maker, line, d, mode, inner, x.sizes[d], 0, inner)
        _extend(maker, line, d, mode, inner, x.sizes[d], inner + x.sizes[d], to.sizes[d])


@rule
def _extend(maker: Maker, line: View, d: int, mode: Text, inner: int64, n: int64, first: int64, end: int64) -> None:
    """Fill coordinates `first` to `end` of an axis from the n elements of x that begin at `inner`."""
    edge: int64 = 1 if mode == "reflect" else 0
    if end <= first:
        return
    if mode == "edge" or (edge and n == 1):
        _copy_run(maker, line, d, first, end - first, inner if end <= inner else inner + n - 1, 0, 1, 0)
    elif mode != "wrap" and first >= inner + edge - n and end <= inner + 2 * n - edge:
        # The common case: one mirror image suffices.
        start: int64 = edge - 1 if end <= inner else 2 * n - 1 - edge
        _copy_run(maker, line, d, first, end - first, 2 * inner + start - first, -1, 1, 0)
    else:
        period: int64 = n if mode == "wrap" else 2 * n - 2 * edge
        _repeat(maker, line, d, first, end, period, inner, n, inner, 1)
        if mode != "wrap":
            _repeat(maker, line, d, first, end, period, inner + n, n - 2 * edge, inner + n - 1 - edge, -1)


@rule
def _repeat(
    maker: Maker,
    line: View,
    d: int,
    first: int64,
    end: int64,
    period: int64,
    at: int64,
    count: int64,
    source: int64,
    step: int64,
) -> None:
    """Write `count` elements at `at`, and again every `period`, as far as they lie between `first` and `end`."""
    k: int64 = -((at - first) // period)
    period_count: int64 = (end - at - count) // period - k + 1
    period_count = max(period_count, 0)
    if period_count > 0 and count > 0:
        _copy_run(maker, line, d, at + k * period, count, source, step, period_count, period)
    _copy_part(maker, line, d, first, end, at + (k - 1) * period, count, source, step)
    _copy_part(maker, line, d, first, end, at + (k + period_count) * period, count, source, step)


@rule
def _copy_part(
    maker: Maker, line: View, d: int, first: int64, end: int64, at: int64, count: int64, source: int64, step: int64
) -> None:
    """Write the part of one run that lies within a range."""
    low: int64 = first if at < first else at
    high: int64 = end if end < at + count else at + count
    if low < high:
        _copy_run(maker, line, d, low, high - low, source + (low - at) * step, step, 1, 0)


@rule
def _copy_run(
    maker: Maker, line: View, d: int, at: int64, length: int64, source: int64, step: int64, times: int64, period: int64
) -> None:
    """Copy elements of an axis, from `source` on by steps, to `at` and to the same place of each later period."""
    read: View = maker.expand(maker.cut(line, d, source, length, step), d, times)
    maker.copy(maker.slide(maker.cut(line, d, at, (times - 1) * period + length, 1), d, times, period, length, 1), read)


class _Padding(OperatorDesc):
    """Base class of the two descs, which differ in the type of the value."""

    __slots__ = ()

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    padding_mode: PaddingMode
    padding_value: Scalar
    start_padding: tuple[int, ...]
    end_padding: tuple[int, ...]

    @property
    def pattern(self) -> bytes:
        """The bytes of an element of padding in CONSTANT mode."""
        given_type = getattr(self, "padding_value_data_type", None)
        return value_bytes(self.padding_value, given_type, self.output_tensor.data_type)

    def constraints(self) -> Iterator[Problem]:
        """Sizes that add up."""
        yield from self.one_per_dimension("start_padding", "end_padding")
        around = zip(self.input_tensor.sizes, self.start_padding, self.end_padding, strict=False)
        rule = "sizes must be InputTensor's plus StartPadding and EndPadding"
        yield from self.sizes_are("output_tensor", [*map(sum, around)], rule)

    def _support_problems(self, level: FeatureLevel) -> Iterator[Problem]:
        yield from OperatorDesc._support_problems(self, level)
        since = SINCE.get(self.padding_mode, level)
        if level < since and row_at(self.SUPPORT, level):
            message = f"PaddingMode is {self.padding_mode}, which {level} does not have"
            rule = f"{self.padding_mode} was introduced in {since}"
            yield Problem(self.OPERATOR, "PaddingMode", message, rule, since)

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Write the input and the elements around it."""
        start, end = Integers(self.start_padding), Integers(self.end_padding)
        mode = "reflect" if self.padding_mode == PaddingMode.REFLECTION else self.padding_mode.name.lower()
        pad_rule(maker, inputs[0], start, end, mode, Item(self.pattern))

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """The document's table of modes, per dimension; REFLECTION of one element repeats it, as in NumPy."""
        mode = self.padding_mode
        where: list[int] = []
        for c, start, n in zip(at, self.start_padding, self.input_tensor.sizes, strict=True):
            s = c - start
            if mode == PaddingMode.EDGE or (mode == PaddingMode.REFLECTION and n == 1):
                s = min(max(s, 0), n - 1)
            elif mode == PaddingMode.REFLECTION:
                s %= 2 * (n - 1)
                s = s if s < n else 2 * (n - 1) - s
            elif mode == PaddingMode.SYMMETRIC:
                s %= 2 * n
                s = s if s < n else 2 * n - 1 - s
            elif mode == PaddingMode.WRAP:
                s %= n
            where.append(s)
        if all(0 <= s < n for s, n in zip(where, self.input_tensor.sizes, strict=True)):
            return 0, tuple(where)
        return self.pattern, ()


@record
class PaddingOperatorDesc(_Padding):
    """DML_PADDING_OPERATOR_DESC: the input with elements added before and after it along each dimension.

    Args:
        input_tensor: the tensor to pad.
        output_tensor: its sizes are the input's plus `start_padding` and `end_padding`.
        padding_mode: a `PaddingMode`, or its name.
        padding_value: for CONSTANT; integer types truncate and saturate it.
        start_padding: elements before the input, one count per dimension; may exceed the input's size.
        end_padding: elements after the input, one count per dimension.

    Examples:
        >>> T = dml.TensorDesc
        >>> desc = dml.PaddingOperatorDesc(T("FLOAT32", [2]), T("FLOAT32", [5]), dml.PaddingMode.EDGE, 0.0, [1], [2])
        >>> desc.problems()
        no problems
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    padding_mode: Named[PaddingMode]
    padding_value: float
    start_padding: ListOf[int]
    end_padding: ListOf[int]

    LEVELS = (
        ("5_0", 1, 8, ALL_TYPES),
        ("3_1", 1, 8, TYPES_8_TO_32),
        ("2_1", 4, 5, TYPES_8_TO_32),
        ("1_0", 4, 5, FLOATS_16_AND_32),
    )


@record
class Padding1OperatorDesc(_Padding):
    """DML_PADDING1_OPERATOR_DESC: PADDING with a value of any type.

    Args:
        input_tensor: the tensor to pad.
        output_tensor: its sizes are the input's plus `start_padding` and `end_padding`.
        padding_mode: a `PaddingMode`, or its name.
        padding_value_data_type: the output's data type.
        padding_value: a number of that type, for CONSTANT.
        start_padding: elements before the input, one count per dimension; may exceed the input's size.
        end_padding: elements after the input, one count per dimension.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.Padding1OperatorDesc(T("INT64", [2]), T("INT64", [5]), "CONSTANT", "INT64", 7, [1], [2]).problems()
        no problems
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    padding_mode: Named[PaddingMode]
    padding_value_data_type: Named[DataType]
    padding_value: Scalar
    start_padding: ListOf[int]
    end_padding: ListOf[int]

    LEVELS = (("5_0", 1, 8, ALL_TYPES),)

    def constraints(self) -> Iterator[Problem]:
        """Check PADDING's rules, and that the value has the output's type."""
        yield from _Padding.constraints(self)
        yield from self.scalars_are("padding_value_data_type", padding_value=self.padding_value)


@call_check
def check_pad(name: str, shape: Sizes, pads: Any, mode: Text, value: Item) -> tuple[Sizes, Sizes, Text, Item]:
    """Return the numbers of elements before and after each dimension, the mode, and the value."""
    rank: int = len(shape)
    widths: Sizes = integers_or_symbols(name, "pads", pads)
    if len(widths) != 2 * rank:
        message = f"{name}: pads has {count_noun(len(widths), 'entry')}, but x has {count_noun(rank, 'dimension')}"
        raise DescError(message, name, "pads", "one start per dimension, then one end per dimension")
    start: Sizes = tuple([widths[d] for d in range(rank)])
    end: Sizes = tuple([widths[rank + d] for d in range(rank)])
    for i in range(rank):
        before, after = start[i], end[i]
        if not holds((before >= 0) & (after >= 0)):
            message = f"{name}: pads of dimension {i} are {before} and {after}"
            raise DescError(message, name, "pads", "each must be 0 or more")
        if mode != "constant" and not holds((shape[i] >= 1) | (before + after == 0)):
            message = f"{name}: dimension {i} of x is empty, and mode is {mode!r}"
            raise DescError(message, name, "x", "there must be an element to repeat")
    return start, end, mode, value


@function(check_pad, rule=pad_rule)
def pad(
    x: Array,
    pads: Ints,
    mode: Literal["constant", "edge", "reflect", "symmetric", "wrap"] = "constant",
    value: Scalar = 0,
    *,
    out: Array | None = None,
) -> Array:
    """Pad an array (DML_OPERATOR_PADDING1, without its limits), in `numpy.pad`'s modes.

    Args:
        x: array of any shape and dtype.
        pads: elements before x, one number per dimension, then after x, one per dimension; 0 or more (as ONNX's Pad).
        mode: source of the padding: `value`, x's edge, its mirror image without or with the edge, or x repeated.
        value: an element, which ``"constant"`` alone writes, and all modes check.
        out: output array of the result's shape and x's dtype.

    Returns:
        A new contiguous array, or `out`.

    Raises:
        DescError: `pads` are not two per dimension or one is negative, `value` does not fit x's dtype, or an empty
            dimension is padded in a mode other than ``"constant"``.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.pad(np.array([1, 2, 3]), [1, 2], "edge")
        array([1, 1, 2, 3, 3, 3])
        >>> dml.pad(np.array([1, 2, 3]), [2, 0], value=7)
        array([7, 7, 1, 2, 3])
    """
