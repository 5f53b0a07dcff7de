"""The documents' own examples: what DirectML's pages for SPLIT, SLICE1 and GATHER print, and cases of their neighbours.

Each case has a desc, its inputs and outputs as values, and the call of the function that says the same.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import anydml as dml

F32, U32 = dml.DataType.FLOAT32, dml.DataType.UINT32


@dataclass(frozen=True)
class Case:
    """An example: `call` gives the outputs from the inputs, in shapes that may differ by 1s."""

    name: str
    desc: dml.OperatorDesc
    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    call: Callable[..., list[np.ndarray]]


def f32(values):
    return np.array(values, np.float32)


def tensor(array):
    return dml.TensorDesc(array.dtype.name.upper(), array.shape)


def case(name, make, inputs, outputs, call):
    inputs, outputs = tuple(inputs), tuple(outputs)
    return Case(name, make(*map(tensor, (*inputs, *outputs))), inputs, outputs, call)


SPLIT_INPUT = f32([[[[1, 2], [3, 4], [5, 6], [7, 8], [9, 10], [11, 12]]]])
SLICE_INPUT = f32([[[[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]]])
ROWS = f32([[1, 2], [3, 4], [5, 6]])
SQUARE = f32([[[1, 2, 3], [4, 5, 6], [7, 8, 9]]])


def split_case(name, x, axis, *outputs):
    return case(
        name,
        lambda x, *parts: dml.SplitOperatorDesc(x, parts, axis),
        [x],
        outputs,
        lambda x: dml.split(x, [part.shape[axis] for part in outputs], axis),
    )


def join_case(name, inputs, axis, output):
    return case(
        name,
        lambda *parts: dml.JoinOperatorDesc(parts[:-1], parts[-1], axis),
        inputs,
        [output],
        lambda *parts: [dml.join(parts, axis)],
    )


def slice_case(name, x, offsets, sizes, strides, output):
    return case(
        name,
        lambda x, y: dml.SliceOperatorDesc(x, y, offsets, sizes, strides),
        [x],
        [output],
        lambda x: [dml.slice(x, offsets, sizes, strides)],
    )


def slice1_case(name, x, offsets, sizes, strides, output):
    return case(
        name,
        lambda x, y: dml.Slice1OperatorDesc(x, y, offsets, sizes, strides),
        [x],
        [output],
        lambda x: [dml.slice1(x, offsets, sizes, strides, output.shape)],
    )


def gather_case(name, x, indices, axis, index_dimensions, output):
    meaningful = indices.shape[indices.ndim - index_dimensions :]
    return case(
        name,
        lambda x, i, y: dml.GatherOperatorDesc(x, i, y, axis, index_dimensions),
        [x, indices],
        [output],
        lambda x, i: [dml.gather(x, i.reshape(meaningful), axis)],
    )


def u32(values):
    return np.array(values, np.uint32)


SPLIT = (
    split_case(
        "split 1: axis 2",
        SPLIT_INPUT,
        2,
        f32([[[[1, 2], [3, 4]]]]),
        f32([[[[5, 6]]]]),
        f32([[[[7, 8], [9, 10], [11, 12]]]]),
    ),
    split_case(
        "split 2: axis 3",
        SPLIT_INPUT,
        3,
        f32([[[[1], [3], [5], [7], [9], [11]]]]),
        f32([[[[2], [4], [6], [8], [10], [12]]]]),
    ),
)
SLICE1 = (
    slice1_case(
        "slice1 1: positive strides",
        SLICE_INPUT,
        (0, 0, 0, 1),
        (1, 1, 4, 3),
        (1, 1, 2, 2),
        f32([[[[2, 4], [10, 12]]]]),
    ),
    slice1_case(
        "slice1 2: negative strides",
        SLICE_INPUT,
        (0, 0, 0, 1),
        (1, 1, 4, 3),
        (1, 1, -2, 2),
        f32([[[[14, 16], [6, 8]]]]),
    ),
)
GATHER = (
    gather_case("gather 1: remapping", f32([11, 12, 13, 14]), u32([3, 1, 3, 0, 2]), 0, 1, f32([14, 12, 14, 11, 13])),
    gather_case("gather 2: rows", ROWS, u32([[0, 1, 1, 2]]), 0, 1, f32([[1, 2], [3, 4], [3, 4], [5, 6]])),
    gather_case("gather 3: swap columns", ROWS, u32([[1, 0]]), 1, 2, f32([[2, 1], [4, 3], [6, 5]])),
    gather_case("gather 4: nested, axis 2", SQUARE, u32([[[0, 2]]]), 2, 2, f32([[[1, 3]], [[4, 6]], [[7, 9]]])),
    gather_case(
        "gather 5: nested, axis 1",
        ROWS.reshape(1, 3, 2),
        u32([[[0, 1], [1, 2]]]),
        1,
        2,
        f32([[[1, 2], [3, 4]], [[3, 4], [5, 6]]]),
    ),
)
JOIN = (
    join_case("join: the inverse of split 1", SPLIT[0].outputs, 2, SPLIT_INPUT),
    join_case("join: the inverse of split 2", SPLIT[1].outputs, 3, SPLIT_INPUT),
    join_case("join: one part is a copy", [ROWS], 1, ROWS),
)
SLICE = (
    slice_case("slice: as slice1 1", SLICE_INPUT, (0, 0, 0, 1), (1, 1, 2, 2), (1, 1, 2, 2), SLICE1[0].outputs[0]),
    slice_case("slice: a corner", SLICE_INPUT, (0, 0, 2, 3), (1, 1, 2, 1), (1, 1, 1, 1), f32([[[[12], [16]]]])),
    slice_case("slice: the last element", SLICE_INPUT, (0, 0, 3, 3), (1, 1, 1, 1), (9, 9, 9, 9), f32([[[[16]]]])),
)
CASES = (*SPLIT, *SLICE1, *GATHER, *JOIN, *SLICE)
