"""DML_OPERATOR_ELEMENT_WISE_IDENTITY: a copy (DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import ClassVar

from anydml.feature_level import FeatureLevel, SupportTable
from anydml.moves.program import Element, ReadIndex
from anydml.operators.base import OperatorDesc
from anydml.operators.enums import ScaleBias
from anydml.operators.problem import Problem
from anydml.operators.rule import Maker, View, rule
from anydml.operators.types import ALL_TYPES, FLOATS_16_AND_32, TYPES_8_TO_32, table
from anydml.records import record
from anydml.tensor import TensorDesc


@rule
def copy_rule(make: Maker, x: View) -> None:
    """``result[c] = x[c]``."""
    make.store(x)


@record
class ElementWiseIdentityOperatorDesc(OperatorDesc):
    """DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC: ``Output[c] = Input[c]``.

    Strides of the two tensors make it a transposition, a broadcast or a packed copy of a view.

    Args:
        input_tensor: the tensor to copy.
        output_tensor: of the input's sizes.
        scale_bias: must be None, since anydml computes nothing.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.ElementWiseIdentityOperatorDesc(T("INT8", [4]), T("INT8", [4]))
        ElementWiseIdentityOperatorDesc(INT8 [4] → INT8 [4])
    """

    input_tensor: TensorDesc
    output_tensor: TensorDesc
    scale_bias: ScaleBias | None = None

    OPERATOR: ClassVar[str] = "DML_ELEMENT_WISE_IDENTITY"
    SUPPORT: ClassVar[SupportTable] = table(
        ("InputTensor", "OutputTensor"),
        (FeatureLevel.LEVEL_4_1, 1, 8, ALL_TYPES),
        (FeatureLevel.LEVEL_3_0, 1, 8, TYPES_8_TO_32),
        (FeatureLevel.LEVEL_2_1, 4, 5, TYPES_8_TO_32),
        (FeatureLevel.LEVEL_1_0, 4, 5, FLOATS_16_AND_32),
    )

    def constraints(self) -> Iterator[Problem]:
        """Same DataType, DimensionCount and Sizes; no ScaleBias."""
        kinds = [*self.same_kind("input_tensor", "output_tensor")]
        yield from kinds
        if not kinds:
            rule = "sizes must be InputTensor's"
            yield from self.sizes_are("OutputTensor", self.output_tensor, self.input_tensor.sizes, rule)
        if self.scale_bias is not None:
            message = f"ScaleBias is {list(self.scale_bias)}, but anydml moves data and computes nothing: leave it out"
            yield self.problem("ScaleBias", message, "ScaleBias must be null")

    def apply(self, make: Maker, *inputs: View) -> None:
        """A copy."""
        copy_rule(make, inputs[0])

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``Output[c] = Input[c]``."""
        for at in itertools.product(*map(range, self.output_tensor.sizes)):
            yield 1, at, 0, at
