"""ORT_OPERATOR_CONCAT_TRAINING: com.microsoft ConcatTraining, version 1, as a desc: SplitTraining's inverse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anydml.moves.program import Element
from anydml.operators.base import ListOf, Problem, ReadIndex, TensorDesc, record
from anydml.operators.function import Array, HostInts, Sizes, function
from anydml.operators.join import check_join, join_rule
from anydml.operators.rule import Maker, View
from anydml.operators.split_join import Training, part_elements, part_problems


@record
class ConcatTrainingOperatorDesc(Training):
    """ConcatTraining: JOIN with a second output, each input's size along the axis, which SplitTraining takes.

    Args:
        input_tensors: at least one, of any data type.
        output_tensor: the joined tensor.
        per_input_length_tensor: INT64, one dimension, one entry per input; None to omit it.
        axis: −rank to rank − 1.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.ConcatTrainingOperatorDesc([T("INT64", [4]), T("INT64", [2])], T("INT64", [6]), T("INT64", [2]), axis=0)
        ConcatTrainingOperatorDesc(2 × INT64 → INT64 [6], INT64 [2], axis 0)
    """

    input_tensors: ListOf[TensorDesc]
    output_tensor: TensorDesc
    per_input_length_tensor: TensorDesc | None = None
    axis: int = 0

    OPERATOR = "ConcatTraining"
    SAME = ("output_tensor", "input_tensors")
    TYPES = ("ORT_OPERATOR_CONCAT_TRAINING",)
    INPUTS = ("input_tensors",)
    OUTPUTS = ("output_tensor", "per_input_length_tensor")
    HOST = ("PerInputLengthTensor",)

    def _lengths(self) -> np.ndarray[Any, Any]:
        return np.array([tensor.sizes[self.positive_axis] for tensor in self.input_tensors], np.int64)

    def constant_output(self, output: int) -> np.ndarray[Any, Any] | None:
        """Return the values of PerInputLength, which depend on the desc alone."""
        return self._lengths() if output else None

    def constraints(self) -> Iterator[Problem]:
        """One length per input; parts that add up."""
        yield from self.lengths_are("PerInputLengthTensor", self.per_input_length_tensor, len(self.input_tensors))
        yield from part_problems(self, self.outputs[0], self.inputs, self.positive_axis)

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Join the inputs, and write their lengths."""
        join_rule(maker, inputs, self.positive_axis)
        if self.per_input_length_tensor is not None:
            maker.store(maker.constant(self._lengths()))

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``output[..., start of k + i, ...] = input[k][..., i, ...]``, then the lengths."""
        count = len(self.input_tensors)
        for part, at, inside in part_elements(self.input_tensors, self.positive_axis):
            yield count, inside, part, at
        for i in range(count if self.per_input_length_tensor else 0):
            yield count + 1, (i,), count + 2, (i,)


def lengths_along(name: str, shapes: Sequence[Sizes], axis: int) -> Sizes:
    """Return the arrays' sizes along the axis."""
    return tuple([shapes[k][axis] for k in range(len(shapes))])


@function(check_join, rule=join_rule, lengths=lengths_along)
def concat_training(arrays: Sequence[Array], axis: int = 0, *, out: Array | None = None) -> tuple[Array, HostInts]:
    """Join arrays, and return each input's length (com.microsoft ConcatTraining, version 1).

    Args:
        arrays: at least one, of one dtype, with equal shapes except along `axis`. Strings and objects are supported.
        axis: −rank to rank − 1.
        out: output array of the joined shape and dtype.

    Returns:
        The joined array, and the inputs' sizes along `axis` (INT64, 1-D), which `split_training` takes back.

    Raises:
        DescError, BindingError: as `join`.

    Examples:
        >>> whole, lengths = dml.concat_training([np.arange(4), np.arange(2)])
        >>> whole
        array([0, 1, 2, 3, 0, 1])
        >>> lengths
        array([4, 2])
    """
