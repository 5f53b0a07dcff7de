"""Properties of ONNX operators: which nodes compute element by element, along which axes, and on which windows."""

from __future__ import annotations

from anydml.proving.elementwise import ELEMENTWISE_OPERATORS, QUANTIZING_OPERATORS
from anydml.slim.analysis import Analysis
from anydml.slim.graph import Op
from anydml.slim.pieces import Window

SOFTMAX = frozenset(("LogSoftmax", "Softmax"))

SOFTMAX_OF_ONE_AXIS = 13
"""First opset in which Softmax works along one axis; before, it works along all axes from that one on."""


def is_elementwise(op: Op) -> bool:
    """Whether a node computes one result element by element."""
    return op.op_type in ELEMENTWISE_OPERATORS and len(op.outputs) == 1


def is_quantized_whole(op: Op, analysis: Analysis) -> bool:
    """Whether a node quantizes or dequantizes all elements by one scale."""
    values = [analysis.values.get(name) for name in op.inputs[1:] if name]
    return op.op_type in QUANTIZING_OPERATORS and all(
        value is not None and value.tensor and value.sizes == () for value in values
    )


def row_axes(op: Op, analysis: Analysis) -> list[int] | None:
    """Return the axes along which a node normalizes or reduces its input; None for other nodes or if unknown."""
    value = analysis.values.get(op.inputs[0]) if op.inputs else None
    if value is None or value.tensor is None or not value.sizes:
        return None
    rank = len(value.sizes)
    if op.op_type in SOFTMAX and analysis.graph.opset >= SOFTMAX_OF_ONE_AXIS:
        return [op.get("axis", -1) % rank]
    if op.op_type == "LayerNormalization" and len(op.outputs) == 1:
        return [*range(op.get("axis", -1) % rank, rank)]
    if op.op_type.startswith("Reduce"):
        axes = op.get("axes", [])
        axes_input = analysis.values.get(op.inputs[1]) if len(op.inputs) > 1 and op.inputs[1] else None
        if axes_input is not None and axes_input.array is not None:
            axes = axes_input.array.tolist()
        return sorted(axis % rank for axis in axes) or None
    return None


def permutation(op: Op, rank: int) -> list[int]:
    """Return the permutation of a Transpose."""
    return list(op.get("perm", range(rank)[::-1]))


def is_plain_gemm(op: Op) -> bool:
    """Whether a Gemm scales neither its product nor its bias."""
    return bool(op.get("alpha", 1) == op.get("beta", 1) == 1)


def windows(op: Op, analysis: Analysis) -> list[Window] | None:
    """Return the window of each output of a Slice or Split; None for other nodes or if unknown."""
    sizes = analysis.values[op.inputs[0]].sizes
    all_windows: Window = [(0, size, 1) for size in sizes]
    if op.op_type == "Split":
        axis, results, first = op.get("axis", 0) % len(sizes), list[Window](), 0
        for name in op.outputs:
            if not name:
                return None
            count = analysis.values[name].sizes[axis]
            results.append([*all_windows[:axis], (first, count, 1), *all_windows[axis + 1 :]])
            first += count
        return results
    arrays = [analysis.values[name].array if name else None for name in op.inputs[1:]]
    if op.op_type != "Slice" or any(a is None and name for a, name in zip(arrays, op.inputs[1:], strict=True)):
        return None
    starts, ends, axes, steps = (None if a is None else a.tolist() for a in (*arrays, None, None)[:4])
    for k, (start, end) in enumerate(zip(starts or (), ends or (), strict=True)):
        axis = axes[k] if axes else k
        first, stop, step = slice(start, end, steps[k] if steps else 1).indices(sizes[axis])
        if step < 0:
            return None
        all_windows[axis] = (first, len(range(first, stop, step)), step)
    return [all_windows]
