"""DML_OPERATOR_UPSAMPLE_2D: repetition of every pixel (DML_UPSAMPLE_2D_OPERATOR_DESC)."""

from __future__ import annotations

from collections.abc import Iterator

from anydml.operators.base import Coordinate, Named, OperatorDesc, Problem, ReadIndex, Source, TensorDesc, record
from anydml.operators.enums import InterpolationMode, Size2D
from anydml.operators.repeating import upsample_rule
from anydml.operators.rule import Integers, Maker, View
from anydml.operators.types import FLOATS_16_AND_32
from anydml.records import ConvertedField
from anydml.tensor import UINT_MAX


@record
class Upsample2dOperatorDesc(OperatorDesc):
    """DML_UPSAMPLE_2D_OPERATOR_DESC: ``Output[…, y, x] = Input[…, y / Height, x / Width]``, rounded down.

    Args:
        input_tensor: N, C, H, W or N, C, D, H, W.
        output_tensor: its last two sizes are the input's times `scale_size`.
        scale_size: a `Size2D`: repetitions of each column and row.
        interpolation_mode: must be NEAREST_NEIGHBOR, since anydml computes nothing.

    Examples:
        >>> T = dml.TensorDesc
        >>> small, large = T("FLOAT16", [1, 1, 2, 2]), T("FLOAT16", [1, 1, 4, 4])
        >>> dml.Upsample2dOperatorDesc(small, large, dml.Size2D(2, 2), "NEAREST_NEIGHBOR").problems()
        no problems
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_size: ConvertedField[Size2D | tuple[int, int], Size2D]
    interpolation_mode: Named[InterpolationMode]

    LEVELS = (("1_0", 4, 5, FLOATS_16_AND_32),)

    def constraints(self) -> Iterator[Problem]:
        """Scales of at least 1; sizes that are multiples; NEAREST_NEIGHBOR."""
        for name, scale in (("Width", self.scale_size.width), ("Height", self.scale_size.height)):
            if not 1 <= scale <= UINT_MAX:
                yield self.problem(f"ScaleSize.{name}", f"ScaleSize.{name} is {scale}", "it must be at least 1 (UINT)")
        sizes = self.input_tensor.sizes
        if len(sizes) >= 2:
            expected = (*sizes[:-2], sizes[-2] * self.scale_size.height, sizes[-1] * self.scale_size.width)
            rule = "sizes must be InputTensor's, the last two times ScaleSize"
            yield from self.sizes_are("output_tensor", expected, rule)
        yield from self.nearest_only(self.interpolation_mode)

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Repeat rows and columns."""
        outer = (1,) * (len(self.input_tensor.sizes) - 2)
        upsample_rule(maker, inputs[0], Integers((*outer, self.scale_size.height, self.scale_size.width)))

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """``Output[…, y, x] = Input[…, y / Height, x / Width]``."""
        *outer, y, x = at
        return 0, (*outer, y // self.scale_size.height, x // self.scale_size.width)
