"""DML_OPERATOR_SPACE_TO_DEPTH, DEPTH_TO_SPACE and their successors with an order: blocks of pixels as channels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import ClassVar, Literal

from anydml.moves.program import Element
from anydml.operators.base import Named, OperatorDesc, Problem, ReadIndex, TensorDesc, record
from anydml.operators.enums import DepthSpaceOrder
from anydml.operators.function import Array, Sizes, function
from anydml.operators.rule import DescError, Maker, Text, View, call_check, holds, int64, rule
from anydml.operators.types import ALL_TYPES, FLOATS_16_AND_32, TYPES_8_TO_32
from anydml.tensor import UINT_MAX
from anydml.text import count_noun

DEPTH_COLUMN_ROW = DepthSpaceOrder.DEPTH_COLUMN_ROW
ROWS = (
    ("5_0", 4, 4, ALL_TYPES),
    ("2_1", 4, 4, TYPES_8_TO_32),
    ("1_0", 4, 4, FLOATS_16_AND_32),
)


@rule
def blocks_rule(maker: Maker, x: View, block: int, order: Text, to_space: bool) -> None:
    """Move the pixels of blocks to channels, or the reverse; the axes are N, C, H, W."""
    n: int64 = x.sizes[0]
    k: int64 = x.sizes[1]
    h: int64 = x.sizes[2]
    w: int64 = x.sizes[3]
    is_by_pixel: bool = order == "depth_column_row"
    if to_space:
        k = k // (block * block)
        to: View = maker.result(maker.ints(n, k, h * block, w * block))
        maker.copy(_space_view(maker, to, block, h, w), _depth_view(maker, x, block, k, is_by_pixel))
    else:
        h = h // block
        w = w // block
        to = maker.result(maker.ints(n, k * block * block, h, w))
        maker.copy(_depth_view(maker, to, block, k, is_by_pixel), _space_view(maker, x, block, h, w))


@rule
def _space_view(maker: Maker, x: View, block: int, h: int64, w: int64) -> View:
    """View pixels as N, block rows, block columns, channels, H, W."""
    x = maker.split(maker.split(x, 3, maker.ints(w, block)), 2, maker.ints(h, block))
    return maker.permute(x, maker.ints(0, 3, 5, 1, 2, 4))


@rule
def _depth_view(maker: Maker, x: View, block: int, k: int64, is_by_pixel: bool) -> View:
    """View channels as N, block rows, block columns, channels, H, W."""
    if is_by_pixel:
        return maker.split(x, 1, maker.ints(block, block, k))
    return maker.permute(maker.split(x, 1, maker.ints(k, block, block)), maker.ints(0, 2, 3, 1, 4, 5))


@record
class _DepthSpace(OperatorDesc):
    """Base class of the four descs with `input_tensor`, `output_tensor`, `block_size` and an order.

    Class attributes:
        TO_SPACE: whether channels become pixels, or the reverse.
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    block_size: int

    TO_SPACE: ClassVar[bool]

    @property
    def depth_order(self) -> DepthSpaceOrder:
        """The order of the depth side's channels. Operators without the field have DEPTH_COLUMN_ROW."""
        return getattr(self, "order", DEPTH_COLUMN_ROW)

    def constraints(self) -> Iterator[Problem]:
        """Check that blocks divide sizes."""
        block, sizes = self.block_size, self.input_tensor.sizes
        if not 1 <= block <= UINT_MAX:
            yield self.problem("BlockSize", f"BlockSize is {block}", "BlockSize must be at least 1 (UINT)")
            return
        if len(sizes) != 4:
            # The support table rejects other ranks at every level.
            return
        for d in (1,) if self.TO_SPACE else (2, 3):
            by = block * block if d == 1 else block
            if sizes[d] % by:
                message = f"InputTensor.Sizes[{d}] is {sizes[d]}, which {by} does not divide"
                rule = "BlockSize² must divide the channels" if d == 1 else "BlockSize must divide height and width"
                yield self.problem(f"InputTensor.Sizes[{d}]", message, rule)
                return
        n, c, h, w = sizes
        if self.TO_SPACE:
            expected = [n, c // block**2, h * block, w * block]
            rule = "sizes must be N, C / BlockSize², H · BlockSize, W · BlockSize"
        else:
            expected = [n, c * block**2, h // block, w // block]
            rule = "sizes must be N, C · BlockSize², H / BlockSize, W / BlockSize"
        yield from self.sizes_are("output_tensor", expected, rule)

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Rearrange blocks."""
        blocks_rule(maker, inputs[0], self.block_size, self.depth_order.name.lower(), self.TO_SPACE)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``space[n, c, y, x] ↔ depth[n, k(c, y mod B, x mod B), y / B, x / B]``."""
        block = self.block_size
        space = self.output_tensor if self.TO_SPACE else self.input_tensor
        for n, c, y, x in itertools.product(*map(range, space.sizes)):
            row, column = y % block, x % block
            if self.depth_order == DEPTH_COLUMN_ROW:
                k = (row * block + column) * space.sizes[1] + c
            else:
                k = (c * block + row) * block + column
            at, depth = (n, c, y, x), (n, k, y // block, x // block)
            yield (1, at, 0, depth) if self.TO_SPACE else (1, depth, 0, at)


@record
class SpaceToDepthOperatorDesc(_DepthSpace):
    """DML_SPACE_TO_DEPTH_OPERATOR_DESC: ``Output[n, k(c, by, bx), y, x] = Input[n, c, y·B + by, x·B + bx]``.

    Args:
        input_tensor: N, C, H, W.
        output_tensor: N, C · B², H / B, W / B; its channels are block rows, block columns and the input's
            channels, outermost first.
        block_size: B, at least 1.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.SpaceToDepthOperatorDesc(T("INT8", [1, 1, 4, 4]), T("INT8", [1, 4, 2, 2]), block_size=2)
        SpaceToDepthOperatorDesc(INT8 [1, 1, 4, 4] → INT8 [1, 4, 2, 2], block_size 2)
    """

    LEVELS = ROWS
    TO_SPACE = False


@record
class SpaceToDepth1OperatorDesc(_DepthSpace):
    """DML_SPACE_TO_DEPTH1_OPERATOR_DESC: SPACE_TO_DEPTH, with the output's channels in one of two orders.

    Args:
        input_tensor: N, C, H, W.
        output_tensor: N, C · B², H / B, W / B.
        block_size: B, at least 1.
        order: a `DepthSpaceOrder`, or its name.

    Examples:
        >>> T = dml.TensorDesc
        >>> large, small = T("INT8", [1, 1, 4, 4]), T("INT8", [1, 4, 2, 2])
        >>> dml.SpaceToDepth1OperatorDesc(large, small, 2, "DEPTH_COLUMN_ROW").problems()
        no problems
    """

    order: Named[DepthSpaceOrder]

    LEVELS = ROWS[:2]
    TO_SPACE = False


@record
class DepthToSpaceOperatorDesc(_DepthSpace):
    """DML_DEPTH_TO_SPACE_OPERATOR_DESC: ``Output[n, c, y, x] = Input[n, k(c, y mod B, x mod B), y / B, x / B]``.

    Args:
        input_tensor: N, C, H, W; its channels are block rows, block columns and the output's channels.
        output_tensor: N, C / B², H · B, W · B.
        block_size: B, at least 1.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.DepthToSpaceOperatorDesc(T("INT8", [1, 4, 2, 2]), T("INT8", [1, 1, 4, 4]), block_size=2)
        DepthToSpaceOperatorDesc(INT8 [1, 4, 2, 2] → INT8 [1, 1, 4, 4], block_size 2)
    """

    LEVELS = ROWS
    TO_SPACE = True


@record
class DepthToSpace1OperatorDesc(_DepthSpace):
    """DML_DEPTH_TO_SPACE1_OPERATOR_DESC: DEPTH_TO_SPACE, with the input's channels in one of two orders.

    Args:
        input_tensor: N, C, H, W.
        output_tensor: N, C / B², H · B, W · B.
        block_size: B, at least 1.
        order: a `DepthSpaceOrder`, or its name.

    Examples:
        >>> T = dml.TensorDesc
        >>> large, small = T("INT8", [1, 1, 4, 4]), T("INT8", [1, 4, 2, 2])
        >>> dml.DepthToSpace1OperatorDesc(small, large, 2, "COLUMN_ROW_DEPTH").problems()
        no problems
    """

    order: Named[DepthSpaceOrder]

    LEVELS = ROWS[:2]
    TO_SPACE = True


def _check_block(name: str, shape: Sizes, block: int) -> None:
    if len(shape) != 4:
        message = f"{name}: x has {count_noun(len(shape), 'dimension')}"
        raise DescError(message, name, "x", "x must have four dimensions: N, C, H, W")
    if block < 1:
        raise DescError(f"{name}: block_size is {block}", name, "block_size", "block_size must be at least 1")


def _check_divides(name: str, d: int, size: int, block: int, by: int) -> None:
    if not holds(size % by == 0):
        message = f"{name}: block_size is {block}, but x.shape[{d}] is {size}"
        raise DescError(message, name, "block_size", f"x.shape[{d}] must be a multiple of {by}")


@call_check
def check_to_depth(name: str, shape: Sizes, block: int, order: Text) -> tuple[int, Text, bool]:
    """Return the rule's numbers."""
    _check_block(name, shape, block)
    _check_divides(name, 2, shape[2], block, block)
    _check_divides(name, 3, shape[3], block, block)
    return block, order, False


@call_check
def check_to_space(name: str, shape: Sizes, block: int, order: Text) -> tuple[int, Text, bool]:
    """Return the rule's numbers."""
    _check_block(name, shape, block)
    _check_divides(name, 1, shape[1], block, block * block)
    return block, order, True


@function(check_to_depth, rule=blocks_rule)
def space_to_depth(
    x: Array,
    block_size: int,
    order: Literal["depth_column_row", "column_row_depth"] = "depth_column_row",
    *,
    out: Array | None = None,
) -> Array:
    """Rearrange blocks of pixels into channels (DML_OPERATOR_SPACE_TO_DEPTH1, without its limits).

    The inverse of `depth_to_space`.

    Args:
        x: array of any dtype: N, C, H, W.
        block_size: B, at least 1; must divide H and W.
        order: order of block rows, block columns and x's channels within the result's channels.
        out: output array of the result's shape and x's dtype.

    Returns:
        An array of shape N, C · B², H / B, W / B, new and contiguous, or `out`.

    Raises:
        DescError: x does not have four dimensions, or blocks do not divide it.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.space_to_depth(np.arange(4).reshape(1, 1, 2, 2), 2).shape
        (1, 4, 1, 1)
    """


@function(check_to_space, rule=blocks_rule)
def depth_to_space(
    x: Array,
    block_size: int,
    order: Literal["depth_column_row", "column_row_depth"] = "depth_column_row",
    *,
    out: Array | None = None,
) -> Array:
    """Rearrange channels into blocks of pixels (DML_OPERATOR_DEPTH_TO_SPACE1, without its limits).

    The inverse of `space_to_depth`.

    Args:
        x: array of any dtype: N, C, H, W.
        block_size: B, at least 1; B² must divide C.
        order: order of block rows, block columns and the result's channels within x's channels.
        out: output array of the result's shape and x's dtype.

    Returns:
        An array of shape N, C / B², H · B, W · B, new and contiguous, or `out`.

    Raises:
        DescError: x does not have four dimensions, or blocks do not divide its channels.
        BindingError: `out` does not fit, or overlaps x.

    Examples:
        >>> dml.depth_to_space(np.arange(4).reshape(1, 4, 1, 1), 2)[0, 0]
        array([[0, 1],
               [2, 3]])
    """
