"""The referee's random descs, and what NumPy says their outputs are: a judge that knows nothing of anydml."""

import numpy as np

import anydml as dml
from anydml.referee.directml.cutting import OPERATORS, random_desc, random_parts
from anydml.referee.directml.random_tensors import (
    BITS_32_AND_LESS,
    BITS_64,
    INDEX_TYPES,
    collides,
    interleaved_strides,
    padded_strides,
    random_sizes,
    random_tensor,
)  # fmt: skip

__all__ = [
    "BITS_32_AND_LESS", "BITS_64", "INDEX_TYPES", "OPERATORS", "collides", "expected_outputs", "fill_inputs",
    "interleaved_strides", "is_read_flat", "padded_strides", "random_desc", "random_parts", "random_sizes",
    "random_tensor",
]  # fmt: skip


def axis_of_parts(desc):
    """The axis of a desc of parts, counted from the front."""
    return int(desc.axis % len(desc.outputs[0][1].sizes))


def fill_inputs(rng, desc, inputs):
    """Write indices that are often in range, sometimes hostile, and `split` as the desc has it."""
    for input_number, ((name, tensor), array) in enumerate(zip(desc.inputs, inputs, strict=True)):
        if name == "IndicesTensor":
            low, high = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
            size = desc.input_tensor.sizes[desc.axis]
            edge_indices = [
                0,
                size - 1,
                size,
                size + 1,
                low,
                low + 1,
                high,
                high - 1,
                -1 if low else 1,
                -size if low else 2,
            ]
            near = np.array(edge_indices, object)[rng.integers(0, len(edge_indices), tensor.sizes)]
            good = rng.integers(0, size, tensor.sizes)
            array[...] = np.where(rng.random(tensor.sizes) < 0.4, near, good).astype(array.dtype)
        elif input_number and isinstance(desc, dml.SplitTrainingOperatorDesc):
            array[...] = [part.sizes[axis_of_parts(desc)] for part in desc.output_tensors]


def expected_outputs(desc, inputs):
    """What NumPy makes of input arrays, one array an output, in the desc's sizes."""
    match desc:
        case dml.SplitOperatorDesc() | dml.SplitTrainingOperatorDesc():
            axis = axis_of_parts(desc)
            ends = np.cumsum([part.sizes[axis] for part in desc.output_tensors])[:-1]
            return np.split(inputs[0], ends, axis)
        case dml.JoinOperatorDesc():
            return [np.concatenate(inputs, desc.axis)]
        case dml.ConcatTrainingOperatorDesc():
            axis = axis_of_parts(desc)
            lengths = np.array([part.shape[axis] for part in inputs])
            return [np.concatenate(inputs, axis), lengths][: len(desc.outputs)]
        case dml.SliceOperatorDesc():
            spans = zip(desc.offsets, desc.sizes, desc.strides, strict=True)
            return [inputs[0][tuple(np.s_[o : o + (n - 1) * s + 1 : s] for o, n, s in spans)]]
        case dml.Slice1OperatorDesc():
            result = inputs[0]
            window = (desc.input_window_offsets, desc.input_window_sizes, desc.input_window_strides)
            for d, (offset, size, step) in enumerate(zip(*window, strict=True)):
                inside = np.moveaxis(result, d, 0)[offset : offset + size][::step]
                result = np.moveaxis(inside[: desc.output_tensor.sizes[d]], 0, d)
            return [result]
        case dml.GatherOperatorDesc():
            size = inputs[0].shape[desc.axis]
            numbers = [int(i) for i in inputs[1].flat]
            picked = [min(max(i + size if i < 0 else i, 0), size - 1) for i in numbers]
            return [np.take(inputs[0], picked, desc.axis).reshape(desc.output_tensor.sizes)]
    raise AssertionError(desc)


def is_read_flat(array, tensor):
    """Whether an array of the tensor's one size is a flat buffer all the same, which the desc's strides read."""
    return tensor.strides not in (None, (1,)) and array.ndim == 1 and array.size > 1 and array.flags.c_contiguous
