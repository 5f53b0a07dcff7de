"""DML_OPERATOR_ELEMENT_WISE_IDENTITY: a copy (DML_ELEMENT_WISE_IDENTITY_OPERATOR_DESC)."""

from __future__ import annotations

from collections.abc import Iterator

from anydml.operators.base import Coordinate, OperatorDesc, Problem, ReadIndex, Source, TensorDesc, record
from anydml.operators.enums import ScaleBias
from anydml.operators.rule import Maker, View, rule
from anydml.operators.types import COPYING, FLOATS_16_AND_32


@rule
def copy_rule(maker: Maker, x: View) -> None:
    """``result[c] = x[c]``."""
    maker.store(x)


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

    LEVELS = (*COPYING, ("1_0", 4, 5, FLOATS_16_AND_32))

    def constraints(self) -> Iterator[Problem]:
        """Check that Sizes agree, and that there is no ScaleBias."""
        yield from self.have_equal_sizes("input_tensor", "output_tensor")
        if self.scale_bias is not None:
            message = f"ScaleBias is {list(self.scale_bias)}, but anydml moves data and computes nothing: leave it out"
            yield self.problem("ScaleBias", message, "ScaleBias must be null")

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Copy the input."""
        copy_rule(maker, inputs[0])

    def element(self, at: Coordinate, read: ReadIndex) -> Source:
        """``Output[c] = Input[c]``."""
        return 0, at
