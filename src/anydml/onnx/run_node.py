"""Run a single node on arrays.

Semantics are those of ONNX where DirectML differs: indices out of range raise, slice ends are clamped, and Split 18 may
be uneven.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anydml.errors import ModelError
from anydml.onnx.budget import Budget
from anydml.onnx.eager_runs import RunningContext
from anydml.onnx.graph import Node
from anydml.onnx.graph_values import Array, EmptyOptional, GraphValue, Tensor, TensorSequence, host_array


def run_node(node: Node, inputs: Sequence[Any], budget: Budget) -> tuple[Any, ...]:
    """Run one node.

    Args:
        node: the node.
        inputs: one per name in ``node.inputs``, None for empty names; sequences of tensors are lists.
        budget: checked before each allocation; it does not hold the results.

    Returns:
        One array or list per output; inputs are never modified.

    Raises:
        ModelError: the node refuses its inputs, or the results do not fit into memory.
    """
    running = RunningContext(budget)
    arrays = [_arrays(f"input {k}", value) for k, value in enumerate(inputs)]
    results = running.run(node, [None if value is None else to_graph_value(value) for value in arrays])
    running.flush()
    return tuple(map(arrays_of, results))


def _arrays(label: str, value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [host_array(f"{label}[{k}]", item) for k, item in enumerate(value)]
    return host_array(label, value)


def to_graph_value(value: Any) -> GraphValue:
    """Wrap an array, a list of arrays or None."""
    if value is None:
        return EmptyOptional()
    return TensorSequence(map(Tensor.of, value)) if isinstance(value, (list, tuple)) else Tensor.of(value)


def arrays_of(value: GraphValue) -> Array | list[Array] | None:
    """Unwrap a stored value to an array, a list of arrays, or None for an empty optional."""
    if isinstance(value, EmptyOptional):
        return None
    if isinstance(value, TensorSequence):
        return [stored_array(tensor) for tensor in value]
    return stored_array(value)


def stored_array(tensor: Tensor) -> Array:
    """Return the array of a stored tensor.

    Raises:
        ModelError: the tensor is not stored.
    """
    if tensor.array is None:
        raise ModelError(f"{tensor.maker}: its result is not stored")
    return tensor.array
