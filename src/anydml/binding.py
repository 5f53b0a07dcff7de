"""Checks of the buffers that are bound to tensors: type, size, layout and overlap. Nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from anydml.arrays.receive import refuse_subclass
from anydml.errors import BindingError
from anydml.memory.overlap import overlapping_pair
from anydml.operators.base import OperatorDesc
from anydml.strides import has_overlap
from anydml.tensor import Layout, TensorDesc
from anydml.text import count_noun

Array = np.ndarray[Any, Any]

MAX_PAIRWISE_ARRAYS = 8
"""Maximum number of arrays whose bounds are compared pair by pair; more are first grouped by address."""


def bind_tensors(
    desc: OperatorDesc,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    view: Callable[[str, str, Any], Any] | None = None,
) -> tuple[tuple[Array, ...], tuple[Layout, ...]]:
    """Check all buffers of an operator.

    Args:
        desc: the operator.
        inputs: one buffer per input tensor.
        outputs: one buffer per output tensor.
        view: called with operator, tensor name and buffer by engines with memory of their own; returns the array to
            check.

    Returns:
        The operands, and their actual layouts.

    Raises:
        BindingError: see `CompiledOperator.bind`.
    """
    operands: list[Array] = []
    layouts: list[Layout] = []
    names: list[str] = []
    for noun, buffers, tensors in (("inputs", inputs, desc.inputs), ("outputs", outputs, desc.outputs)):
        if not isinstance(buffers, Collection):
            message = (
                f"{desc.OPERATOR}: {noun} is {type(buffers).__name__}, but it is a list with one buffer per tensor"
            )
            raise BindingError(message, desc.OPERATOR, noun, "one buffer per tensor")
        if len(buffers) != len(tensors):
            expected = ", ".join(name for name, _ in tensors)
            message = (
                f"{desc.OPERATOR}: {noun} has {count_noun(len(buffers), 'buffer')} for "
                f"{count_noun(len(tensors), 'tensor')}: {expected}"
            )
            raise BindingError(message, desc.OPERATOR, noun, "one buffer per tensor")
        for (name, tensor), buffer in zip(tensors, buffers, strict=True):
            tensor_buffer = buffer if view is None or name in desc.HOST else view(desc.OPERATOR, name, buffer)
            operand, layout = _bind_tensor(desc.OPERATOR, name, tensor, tensor_buffer)
            if noun == "outputs":
                check_output(desc.OPERATOR, name, operand)
            names.append(name)
            operands.append(operand)
            layouts.append(layout)
    check_overlap(desc.OPERATOR, names, operands, first_output=len(inputs))
    check_host_values(desc, operands, layouts)
    return tuple(operands), tuple(layouts)


def has_host_values(desc: OperatorDesc) -> bool:
    """Whether an operator has inputs that are read on the host."""
    return type(desc).host_problem is not OperatorDesc.host_problem


def check_host_values(desc: OperatorDesc, operands: Sequence[Array], layouts: Sequence[Layout]) -> None:
    """Check that the values of host inputs agree with the desc.

    Raises:
        BindingError: a value contradicts the desc.
    """

    def values(operand_number: int) -> Array:
        dtype, operand, layout = (
            desc.inputs[operand_number][1].data_type.dtype,
            operands[operand_number],
            layouts[operand_number],
        )
        return operand if operand.dtype == dtype else np.ndarray(layout.sizes, dtype, operand, 0, layout.strides)

    if problem := desc.host_problem(values):
        raise BindingError(f"{desc.OPERATOR}: {problem}", desc.OPERATOR, None, "host data must agree with the desc")


def _bind_tensor(operator: str, name: str, tensor: TensorDesc, buffer: Any) -> tuple[Array, Layout]:
    dtype = tensor.data_type.dtype
    if isinstance(buffer, np.ndarray):
        refuse_subclass(operator, name, buffer)
        array = buffer
        if array.shape == tensor.sizes and array.dtype == dtype and not _is_flat(array, tensor):
            return array, Layout.of(array)
        if array.ndim != 1 or array.dtype not in (dtype, np.uint8):
            message = (
                f"{operator}: {name} is bound to {array.dtype} {list(array.shape)}, but the tensor is "
                f"{dtype.name} {list(tensor.sizes)}; bind that, or a flat {dtype.name} or uint8 buffer"
            )
            raise BindingError(message, operator, name, "a buffer must have the tensor's type and sizes, or be flat")
        if not array.flags.c_contiguous:
            message = f"{operator}: {name} is bound to a flat array with gaps (strides {array.strides})"
            raise BindingError(message, operator, name, "a flat buffer must be contiguous")
    else:
        try:
            array = np.frombuffer(buffer, np.uint8)
        except (TypeError, ValueError, BufferError):
            message = f"{operator}: {name} is bound to a {type(buffer).__name__}, which is not a contiguous buffer"
            raise BindingError(message, operator, name, "bind NumPy arrays or contiguous buffers") from None
    if array.nbytes < tensor.size_in_bytes:
        message = (
            f"{operator}: {name} is bound to {count_noun(array.nbytes, 'byte')}, "
            f"but the tensor needs {tensor.size_in_bytes}"
        )
        if array.shape == tensor.sizes:
            message += f": Strides {list(tensor.element_strides)} read a flat array; leave them out to bind this array"
        raise BindingError(message, operator, name, "a flat buffer must have at least TotalTensorSizeInBytes bytes")
    return array.view(np.uint8)[: tensor.size_in_bytes], tensor.layout


def _is_flat(array: Array, tensor: TensorDesc) -> bool:
    """Whether a 1-D array of the tensor's shape is a flat buffer nevertheless, because the desc has strides."""
    return (
        tensor.strides is not None
        and array.ndim == 1
        and array.size > 1
        and tensor.strides != (1,)
        and bool(array.flags.c_contiguous)
    )


def check_output(operator: str, name: str, array: Array) -> None:
    """Check that an output can be written, each element once.

    Raises:
        BindingError: the array is read-only, or its strides make coordinates share an element.
    """
    check_writeable(operator, name, array)
    check_strides(operator, name, array)


def check_writeable(operator: str, name: str, array: Array) -> None:
    """Check that an output can be written.

    Raises:
        BindingError: the array is read-only.
    """
    if not array.flags.writeable:
        raise BindingError(f"{operator}: {name} is read-only", operator, name, "an output must be writeable")


def check_strides(operator: str, name: str, array: Array) -> None:
    """Check that no two coordinates of an output share an element.

    Raises:
        BindingError: two do.
    """
    if not array.flags.c_contiguous and has_overlap(array.shape, array.strides, array.itemsize):
        message = f"{operator}: {name} has strides {array.strides} that make coordinates share an element"
        raise BindingError(message, operator, name, "an output must write each element once")


def check_overlap(operator: str, names: Sequence[str], arrays: Sequence[Array], first_output: int) -> None:
    """Check that no output shares a byte with an input or another output. Strides too hard to decide count as sharing.

    Args:
        operator: the operator's name in errors.
        names: the tensors' names in errors.
        arrays: inputs, then outputs.
        first_output: number of inputs.

    Raises:
        BindingError: two arrays overlap; the message names both.
    """
    if len(arrays) <= MAX_PAIRWISE_ARRAYS and not any(
        np.may_share_memory(output, earlier)
        for output_number, output in enumerate(arrays[first_output:], first_output)
        for earlier in arrays[:output_number]
    ):
        return
    if pair := overlapping_pair(arrays, first_output):
        first, second = pair
        message = f"{operator}: {names[second]} overlaps {names[first]} in memory"
        raise BindingError(message, operator, names[second], "an output must overlap no input and no other output")
