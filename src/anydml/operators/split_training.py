"""ORT_OPERATOR_SPLIT_TRAINING: com.microsoft SplitTraining, version 1, as a desc: SPLIT with sizes in a host tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anydml import infer
from anydml.fields import integer
from anydml.moves.program import Element
from anydml.operators.base import ListOf, Problem, ReadIndex, TensorDesc, record
from anydml.operators.function import Array, HostIntegers, HostInts, Sizes, function
from anydml.operators.rule import DescError, Integers, Maker, View, call_check
from anydml.operators.split import split_rule
from anydml.operators.split_join import Training, part_elements, part_problems
from anydml.text import count_noun


@record
class SplitTrainingOperatorDesc(Training):
    """SplitTraining: SPLIT with the sizes as a second input, read when the operator is bound.

    Args:
        input_tensor: the tensor to split, of any data type.
        split_tensor: INT64, one dimension, one size per output; None is the operator's empty `split`: equal parts.
        output_tensors: at least one; the bound `split` must hold their sizes along `axis`.
        axis: −rank to rank − 1.

    Examples:
        >>> T = dml.TensorDesc
        >>> dml.SplitTrainingOperatorDesc(T("INT64", [6]), T("INT64", [2]), [T("INT64", [4]), T("INT64", [2])], axis=0)
        SplitTrainingOperatorDesc(INT64 [6], INT64 [2] → 2 × INT64, axis 0)
    """

    input_tensor: TensorDesc
    split_tensor: TensorDesc | None
    output_tensors: ListOf[TensorDesc]
    axis: int = 0

    OPERATOR = "SplitTraining"
    SAME = ("input_tensor", "output_tensors")
    TYPES = ("ORT_OPERATOR_SPLIT_TRAINING",)
    HOST = ("SplitTensor",)

    def constraints(self) -> Iterator[Problem]:
        """One size per output; sizes that add up, equal ones if `split` is empty."""
        yield from self.lengths_are("SplitTensor", self.split_tensor, len(self.output_tensors))
        axis = self.positive_axis
        yield from part_problems(self, self.inputs[0], self.outputs, axis)
        sizes = [tensor.sizes[axis] for tensor in self.output_tensors]
        if self.split_tensor is None and len(set(sizes)) > 1:
            message = f"OutputTensors sizes along Axis {axis} are {sizes}, but there is no SplitTensor"
            yield self.problem("SplitTensor", message, "an empty split makes equal parts")

    def host_problem(self, values: Callable[[int], np.ndarray[Any, Any]]) -> str | None:
        """`split` must hold the outputs' sizes along the axis."""
        if self.split_tensor is None:
            return None
        sizes = [tensor.sizes[self.positive_axis] for tensor in self.output_tensors]
        split = values(1).tolist()
        if split == sizes:
            return None
        return f"SplitTensor holds {split}, but OutputTensors have sizes {sizes} along Axis {self.positive_axis}"

    def apply(self, maker: Maker, *inputs: View) -> None:
        """Split by the sizes of the outputs, without reading `split`."""
        axis = self.positive_axis
        split_rule(maker, inputs[0], Integers([part.sizes[axis] for part in self.output_tensors]), axis)

    def elements(self, read: ReadIndex) -> Iterator[Element]:
        """``output[k][..., i, ...] = input[..., split[0] + … + split[k−1] + i, ...]``."""
        first = len(self.inputs)
        for part, at, inside in part_elements(self.output_tensors, self.positive_axis):
            yield first + part, at, 0, inside


def check_list(name: str, shape: Sizes, dtype: Any, is_integer: bool, num_outputs: Any) -> None:
    """Check the form of SplitTraining's `split`, from its shape and dtype, and its number of entries.

    Raises:
        DescError: `split` is not 1-D or not of integers, or `num_outputs` is missing or differs from its length.
    """
    if len(shape) != 1 or (shape[0] and not is_integer):
        message = f"{name}: split is {dtype} of shape {tuple(shape)}"
        raise DescError(message, name, "split", "split must be a 1-D array of integers")
    if num_outputs is None and shape[0] == 0:
        message = f"{name}: split is empty and num_outputs is not given"
        raise DescError(message, name, "num_outputs", "an empty split makes num_outputs equal parts")
    if num_outputs is not None and shape[0] != 0 and integer(name, "num_outputs", num_outputs) != shape[0]:
        message = f"{name}: split has {count_noun(shape[0], 'entry')}, but num_outputs is {num_outputs}"
        raise DescError(message, name, "num_outputs", "split must have one entry per output")


def sizes_of_split(name: str, split: HostIntegers, num_outputs: Any, axis_size: int, axis: int) -> Sizes:
    """Return the parts' sizes for a `split` whose values are known.

    Raises:
        DescError: `split` is not a 1-D list of integers, does not add up, or has the wrong length.
    """
    check_list(name, split.shape, split.dtype, split.is_integer, num_outputs)
    if split.shape[0] != 0:
        return infer.part_sizes(name, split.values, axis_size, axis, "split")
    return infer.equal_parts(name, integer(name, "num_outputs", num_outputs), axis_size, axis, "num_outputs")


@call_check
def check_split_training(
    name: str, shape: Sizes, split: HostIntegers, axis: Any, num_outputs: Any
) -> tuple[Sizes, int]:
    """Return the parts' sizes, and the axis."""
    along: int = infer.axis_of(name, len(shape), axis)
    return sizes_of_split(name, split, num_outputs, shape[along], along), along


@function(check_split_training, rule=split_rule)
def split_training(
    x: Array,
    split: HostInts | None,
    axis: int = 0,
    num_outputs: int | None = None,
    *,
    out: Sequence[Array] | None = None,
) -> list[Array]:
    """Split an array by a list or array of sizes (com.microsoft SplitTraining, version 1).

    Args:
        x: array of any shape with at least one dimension, and any dtype, strings and objects included.
        split: the parts' sizes along `axis`: a 1-D integer array, list or host tensor. Empty or None: equal parts.
        axis: −rank to rank − 1.
        num_outputs: number of parts; required if `split` is empty, otherwise it must be split's length.
        out: output arrays of the parts' shapes and x's dtype.

    Returns:
        The parts, as new contiguous arrays, or `out`'s arrays.

    Raises:
        DescError: the axis is out of range or does not divide, a size is negative, or sizes do not add up.
        BindingError: `out` does not fit, or overlaps x or itself.

    Examples:
        >>> dml.split_training(np.arange(6), [4, 2])
        [array([0, 1, 2, 3]), array([4, 5])]
        >>> dml.split_training(np.arange(6), [], num_outputs=2)
        [array([0, 1, 2]), array([3, 4, 5])]
    """
