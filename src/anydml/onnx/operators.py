"""One node run by itself: arrays in, arrays out.

What differs from DirectML is ONNX's: an index outside raises, slice ends clamp, Split 18 may be uneven.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anydml.errors import ModelError
from anydml.onnx.budget import Budget
from anydml.onnx.graph import Node
from anydml.onnx.running import Running
from anydml.onnx.values import Array, Flowing, Nothing, Tensor, Tensors


def run_node(node: Node, inputs: Sequence[Any], budget: Budget) -> tuple[Any, ...]:
    """Run one node.

    Args:
        node: the node.
        inputs: one a name in ``node.inputs``, None where the name is empty; a sequence of tensors is a list.
        budget: is asked before anything is allocated; it does not hold the results.

    Returns:
        One array an output, or one list, as many as the operator has for this node; inputs are never changed.

    Raises:
        ModelError: the inputs do not fit the operator, or its results do not fit into memory.
    """
    running = Running(budget)
    found = running.run(node, [None if value is None else flowing(value) for value in inputs])
    running.flush()
    return tuple(map(arrays_of, found))


def flowing(value: Any) -> Flowing:
    """An array, a list of them, or nothing, as a graph sees it."""
    if value is None:
        return Nothing()
    return Tensors(map(Tensor.of, value)) if isinstance(value, (list, tuple)) else Tensor.of(value)


def arrays_of(value: Flowing) -> Array | list[Array] | None:
    """A stored value as an array, or as a list of them; None for an optional value without one."""
    if isinstance(value, Nothing):
        return None
    if isinstance(value, Tensors):
        return [stored_array(tensor) for tensor in value]
    return stored_array(value)


def stored_array(tensor: Tensor) -> Array:
    """The array of a tensor that is stored.

    Raises:
        ModelError: it is not.
    """
    if tensor.array is None:
        raise ModelError(f"{tensor.maker}: its result is not stored")
    return tensor.array
